// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_DATA_STATE_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_DATA_STATE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_deal.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/detail/data/open_window.hpp>
#include <ballast/runtime/detail/data/user_call.hpp>
#include <ballast/runtime/detail/state_text.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// What a state says of the step after which it was saved.
struct saved_step {
  std::int64_t sample = -1;  // its first one; -1 where it has none
  std::vector<tokens> lengths = {};
  cost_units cost = 0;     // in the windows, where these are of several steps
  std::uint64_t plan = 0;  // a word of what its window trains when
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;
  std::uint64_t left_out = 0;

  [[nodiscard]] static std::string lengths_text(std::span<tokens const> lengths)
  {
    std::string text;
    for (tokens const length : lengths) { text += concat(text.empty() ? "" : " and ", length); }
    return text;
  }
};

/// Writes and reads the states of a data pipeline: what they were made by, where they are, and a
/// word of all that, so that no other text is taken.
class data_state {
 public:
  template <class Windows>
  data_state(data_setup const& setup, Windows const& windows)
      : policy_(windows.steps > 1 ? word_of_policy(windows.policy) : 0),
        made_by_{
            {{"samples", setup.samples},
             {"step_samples", setup.step_samples},
             {"modules", setup.modules},
             {"seed", setup.seed},
             {"setup.together", digest{}.add(std::span(std::as_const(setup.together))).value()},
             {"windows.steps", windows.steps},
             {"windows.held_back", windows.held_back},
             {"windows.policy", policy_.value_or(0)}}}
  {}

  /// Errors      failed: the windows' policy threw.
  [[nodiscard]] result<void> health() const
  {
    return policy_.map([](std::uint64_t) {});
  }

  /// What read() needs to go on after a step. `plan` is the word of its window's plan.
  ///
  /// Errors      failed: the windows' cost threw.
  template <class Windows>
  [[nodiscard]] result<std::string> save(data_step const& step, std::uint64_t plan,
                                         Windows const& windows) const
  {
    bool const empty = step.samples.empty();
    auto const cost = empty ? 0 : cost_of(windows, step.lengths_of(0));
    if (!cost) { return tl::unexpected(cost.error()); }
    state_writer out("data_pipeline 2");
    for (auto const& [name, value] : made_by_) {
      out.line(name).number(static_cast<std::int64_t>(value));
    }
    out.line("sample").number(empty ? -1 : static_cast<std::int64_t>(step.samples.front()));
    for (std::size_t module = 0; module < made_by_[2].second; ++module) {
      out.number(empty ? 0 : step.lengths[module]);
    }
    out.line("cost").number(*cost);
    out.line("plan").number(static_cast<std::int64_t>(plan));
    out.line("step").number(static_cast<std::int64_t>(step.number + 1));
    out.line("epoch").number(static_cast<std::int64_t>(step.epoch + (step.ends_epoch ? 1 : 0)));
    out.line("position").number(static_cast<std::int64_t>(step.ends_epoch ? 0 : step.position + 1));
    out.line("left_out").number(static_cast<std::int64_t>(step.left_out));
    std::uint64_t const check = word_of(out.text());
    out.line("check").number(static_cast<std::int64_t>(check));
    return out.text();
  }

  /// Reads what save() wrote.
  ///
  /// Errors      syntax: it did not; mismatch: it is of other data, steps or windows.
  template <class Windows>
  [[nodiscard]] result<saved_step> read(std::string_view text, Windows const& windows) const
  {
    if (text.starts_with("data_pipeline 1\n")) {
      return fail(error_code::mismatch, 0,
                  "the saved state is of an earlier version, which did not write what it was made "
                  "by; begin again, or with a state that this version has saved");
    }
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    state_reader in(text);
    auto const word = [&](std::string_view name, std::int64_t least = 0) {
      in.expect(name);
      return static_cast<std::uint64_t>(in.number(least, most));
    };
    in.expect("data_pipeline 2");
    auto theirs = made_by_;
    for (auto& [name, value] : theirs) { value = word(name, -most - 1); }
    saved_step saved;
    in.expect("sample");
    saved.sample = in.number(-1, most);
    for (std::uint64_t module = 0; module < theirs[2].second && !in.failed(); ++module) {
      saved.lengths.push_back(in.number(0, longest_sample));
    }
    saved.cost = static_cast<cost_units>(word("cost"));
    saved.plan = word("plan", -most - 1);
    saved.number = word("step");
    saved.epoch = word("epoch");
    saved.position = word("position");
    saved.left_out = word("left_out");
    std::uint64_t const check = word("check", -most - 1);
    if (auto done = in.finish(); !done) { return tl::unexpected(done.error()); }
    if (check != word_of(text.substr(0, text.rfind("check")))) {
      return fail(error_code::syntax, text.rfind("check"),
                  "the saved state was changed after it was saved; give what save() returned");
    }
    for (std::size_t at = 0; at < theirs.size(); ++at) {
      auto const [name, own] = made_by_[at];
      if (theirs[at].second == own) { continue; }
      bool const is_word = name == "setup.together" || name == "windows.policy";
      return fail(error_code::mismatch, 0, "the saved state is of ",
                  is_word ? concat("another ", name)
                          : concat(name, " = ", theirs[at].second, ", and this pipeline of ", own),
                  "; give the setup and windows with which it was saved");
    }
    auto const cost = saved.sample < 0 ? 0 : cost_of(windows, saved.lengths);
    if (!cost) { return tl::unexpected(cost.error()); }
    if (*cost != saved.cost) {
      return fail(error_code::mismatch, 0, "sample ", saved.sample, " of length ",
                  saved.lengths_text(saved.lengths), " cost ", saved.cost,
                  " where the state was saved, and costs ", *cost,
                  " here; give data_windows the cost with which it was saved");
    }
    return saved;
  }

 private:
  /// 0 where windows are of one step, which asks for no cost.
  template <class Windows>
  [[nodiscard]] static result<cost_units> cost_of(Windows const& windows,
                                                  std::span<tokens const> lengths)
  {
    cost_units cost = 0;
    if (windows.steps == 1) { return cost; }
    return call_user("the cost of data_windows", [&] { cost = windows.cost(lengths); }).map([&] {
      return cost;
    });
  }
  [[nodiscard]] static std::uint64_t word_of(std::string_view text)
  {
    return digest{}.add(std::span(text)).value();
  }

  result<std::uint64_t> policy_;  // a word of it
  std::array<std::pair<std::string_view, std::uint64_t>, 8> made_by_;
};

/// What is left to compare with the state from which a data pipeline goes on: the lengths of a
/// sample, which a loader loads for that, and the plan of the window in which it was saved.
class compared_data {
 public:
  compared_data() = default;
  explicit compared_data(saved_step saved) : saved_(std::move(saved)), is_over_(saved_.sample < 0)
  {}

  [[nodiscard]] bool is_over() const { return is_over_; }

  [[nodiscard]] std::optional<data_deal> deal(std::uint32_t loader)
  {
    if (is_over_ || loader_) { return {}; }
    loader_ = loader;
    return data_deal{ticket, static_cast<std::uint64_t>(saved_.sample)};
  }
  void lose(std::uint32_t loader)
  {
    if (loader_ == loader) { loader_.reset(); }
  }
  /// Whether a loader tells of this sample, with which it is over.
  [[nodiscard]] bool ends(std::uint32_t loader, std::uint64_t of)
  {
    if (of != ticket) { return false; }
    is_over_ = is_over_ || loader_ == loader;
    return true;
  }

  /// Errors      mismatch: the sample has other lengths.
  [[nodiscard]] result<void> compare(std::span<tokens const> lengths) const
  {
    if (std::equal(lengths.begin(), lengths.end(), saved_.lengths.begin(), saved_.lengths.end())) {
      return {};
    }
    return fail(error_code::mismatch, static_cast<std::size_t>(saved_.sample), "sample ",
                saved_.sample, " had length ", saved_step::lengths_text(saved_.lengths),
                " when the state was saved, and has ", saved_step::lengths_text(lengths),
                " now; give the data with which it was saved");
  }

  /// Errors      mismatch: the window is that of the state, and was planned otherwise.
  [[nodiscard]] result<void> compare(open_window const& window) const
  {
    if (window.taken == 0 || window.word == saved_.plan) { return {}; }
    return fail(error_code::mismatch, 0,
                "the saved state is of a window that was planned otherwise: of samples with other "
                "lengths, of which others could be decoded, or by another policy or cost; give the "
                "data and windows with which it was saved");
  }

 private:
  static constexpr std::uint64_t ticket = ~std::uint64_t{0};  // no other sample has it

  saved_step saved_;
  bool is_over_ = true;
  std::optional<std::uint32_t> loader_;  // that has it
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_DATA_STATE_HPP
