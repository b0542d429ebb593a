// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/detail/data/open_window.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The order of an epoch: a random permutation of its units (samples, or groups of samples), cut
/// into steps of at most step_samples samples.
///
/// Ensures     (1) every sample is in one step, with its whole group
///             (2) the same order for the same setup and epoch
/// Complexity  four bytes a sample; of groups eight more, and eight a group. O(samples) to shuffle.
class epoch_order {
 public:
  explicit epoch_order(data_setup const& setup)
      : samples_(setup.samples), step_samples_(setup.step_samples), seed_(setup.seed)
  {
    if (!setup.together.empty()) { group(setup.together); }
    order_.resize(begins_.empty() ? samples_ : begins_.size() - 1);
    shuffle(0);
  }

  /// Takes the order of another epoch, from its first step on.
  void shuffle(std::uint64_t epoch)
  {
    std::iota(order_.begin(), order_.end(), std::uint32_t{0});
    random_source random(digest{}.add(seed_).add(epoch).value());
    random.shuffle(std::span(order_));
    next_ = 0;
  }

  [[nodiscard]] bool at_end() const { return next_ == order_.size(); }

  /// Calls use(samples of a unit) for each unit of the next step, and goes on to the one after it.
  template <class Use>
  void next_step(Use use)
  {
    for (std::size_t room = step_samples_; next_ < order_.size(); ++next_) {
      std::uint32_t const unit = order_[next_];
      std::span<std::uint32_t const> const members =
          begins_.empty() ? std::span<std::uint32_t const>(&unit, 1)
                          : std::span<std::uint32_t const>(members_).subspan(
                                begins_[unit], begins_[unit + 1] - begins_[unit]);
      if (members.size() > room) { return; }
      room -= members.size();
      use(members);
    }
  }

 private:
  /// Puts the samples of each group side by side, groups in the order of their numbers.
  void group(std::vector<std::uint32_t> const& together)
  {
    members_.resize(samples_);
    std::iota(members_.begin(), members_.end(), std::uint32_t{0});
    std::sort(members_.begin(), members_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return together[a] < together[b] || (together[a] == together[b] && a < b);
    });
    begins_.push_back(0);
    for (std::size_t at = 1; at <= samples_; ++at) {
      if (at < samples_ && together[members_[at]] == together[members_[at - 1]]) { continue; }
      std::size_t const size = at - begins_.back();
      BALLAST_EXPECTS(size <= step_samples_, "a group of setup.together has ",
                      counted(size, "sample"), ", and a step has room for ", step_samples_);
      begins_.push_back(static_cast<std::uint32_t>(at));
    }
  }

  std::size_t samples_;
  std::size_t step_samples_;
  std::uint64_t seed_;
  std::vector<std::uint32_t> order_;    // of units
  std::vector<std::uint32_t> begins_;   // of each group among the members; empty without groups
  std::vector<std::uint32_t> members_;  // samples, group by group
  std::size_t next_ = 0;                // unit of the order
};

/// Where a data pipeline is in its epochs: gives the windows, one after the other.
class window_opener {
 public:
  window_opener(data_setup setup, std::size_t steps, std::size_t held_back)
      : setup_(checked(std::move(setup), steps)), steps_(steps), order_(setup_)
  {
    word_ = digest{}
                .add(setup_.samples)
                .add(setup_.step_samples)
                .add(setup_.modules)
                .add(setup_.seed)
                .add(std::span<std::uint32_t const>(setup_.together))
                .add(steps)
                .add(held_back)
                .value();
  }

  [[nodiscard]] data_setup const& setup() const noexcept { return setup_; }
  /// A word of what is dealt, and how.
  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  /// Whether there is no further window.
  [[nodiscard]] bool at_end() const
  {
    return setup_.samples == 0 || epoch_ >= setup_.epochs ||
           (order_.at_end() && epoch_ + 1 == setup_.epochs);
  }

  /// The next window, if there is one. Its samples wait, in the order in which they arrive.
  [[nodiscard]] open_window open()
  {
    BALLAST_EXPECTS(!at_end());
    if (order_.at_end()) {
      order_.shuffle(++epoch_);
      position_ = 0;
      trained_ = 0;
    }
    open_window window;
    window.epoch = epoch_;
    window.first_position = position_;
    window.first_number = number_;
    window.first_ticket = tickets_;
    window.unit_begins.push_back(0);
    for (; window.steps < steps_ && !order_.at_end(); ++window.steps) {
      order_.next_step([&](std::span<std::uint32_t const> samples) {
        auto const unit = static_cast<std::uint32_t>(window.unit_steps.size());
        for (std::uint32_t const sample : samples) {
          window.samples.push_back({.sample = sample, .unit = unit});
        }
        window.unit_begins.push_back(static_cast<std::uint32_t>(window.samples.size()));
        window.unit_steps.push_back(static_cast<std::uint32_t>(window.steps));
      });
    }
    window.lengths.resize(window.samples.size() * setup_.modules);
    window.unreported = window.samples.size();
    window.made = window.taken = std::exchange(trained_, 0);
    window.ends_epoch = order_.at_end();
    window.sort_by_step();
    position_ += window.steps;
    number_ += window.steps;
    tickets_ += window.samples.size();
    return window;
  }

  /// Goes on after the step that was saved; returns how many samples had been left out.
  [[nodiscard]] result<std::uint64_t> restore(std::string_view text)
  {
    BALLAST_EXPECTS(tickets_ == 0, "a data pipeline is restored before it deals anything");
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    state_reader in(text);
    in.expect("data_pipeline 1 setup");
    auto const word = static_cast<std::uint64_t>(in.number(-most - 1, most));
    in.expect("step");
    auto const number = static_cast<std::uint64_t>(in.number(0, most));
    in.expect("epoch");
    auto const epoch = static_cast<std::uint64_t>(in.number(0, most));
    in.expect("position");
    auto const position = static_cast<std::uint64_t>(in.number(0, most));
    in.expect("left_out");
    auto const left_out = static_cast<std::uint64_t>(in.number(0, most));
    if (auto done = in.finish(); !done) { return tl::unexpected(done.error()); }
    if (word != word_) {
      return fail(error_code::mismatch, 0,
                  "the saved state is of other samples, groups, steps or windows, or of another "
                  "seed; give the setup with which it was saved");
    }
    order_.shuffle(epoch);
    for (std::uint64_t step = 0; step < position && !order_.at_end(); ++step) { skip_step(); }
    if (position > 0 && order_.at_end()) {
      return fail(error_code::out_of_range, 0, "the saved state is at step ", position,
                  " of an epoch that has no more steps; give what save() returned");
    }
    epoch_ = epoch;
    trained_ = position % steps_;
    position_ = position - trained_;
    number_ = number - trained_;
    order_.shuffle(epoch);
    for (std::uint64_t step = 0; step < position_; ++step) { skip_step(); }
    return left_out;
  }

 private:
  void skip_step()
  {
    order_.next_step([](std::span<std::uint32_t const>) {});
  }

  [[nodiscard]] static data_setup checked(data_setup setup, std::size_t steps)
  {
    BALLAST_EXPECTS(
        setup.step_samples >= 1 && setup.modules >= 1 && setup.fetched_ahead >= 1 && steps >= 1,
        "step_samples, modules, fetched_ahead or the steps of a window are 0");
    BALLAST_EXPECTS(setup.samples < std::numeric_limits<std::uint32_t>::max(),
                    "a data pipeline numbers samples by 32 bits, and is given ", setup.samples);
    BALLAST_EXPECTS(setup.together.empty() || setup.together.size() == setup.samples,
                    "setup.together has ", counted(setup.together.size(), "entry"), " for ",
                    counted(setup.samples, "sample"));
    return setup;
  }

  data_setup setup_;
  std::size_t steps_;
  epoch_order order_;
  std::uint64_t word_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t position_ = 0;  // of the next window's first step in its epoch
  std::uint64_t number_ = 0;    // of that step
  std::uint64_t trained_ = 0;   // steps of the next window that were taken before a restore
  std::uint64_t tickets_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_WINDOW_OPENER_HPP
