// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_PROXY_HPP
#define BALLAST_RUNTIME_DATA_DATA_PROXY_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_deal.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/data/data_windows.hpp>
#include <ballast/runtime/data/long_rounds.hpp>
#include <ballast/runtime/data/window_problem.hpp>
#include <ballast/runtime/detail/data/data_state.hpp>
#include <ballast/runtime/detail/data/open_window.hpp>
#include <ballast/runtime/detail/data/open_windows.hpp>
#include <ballast/runtime/detail/data/window_opener.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// Lengths are not known before samples are decoded.
struct no_lengths {};

/// What one rank knows of a data pipeline: which samples were dealt to which loader, how long they
/// are, which steps they form. It holds indices and lengths, no payloads, and knows no threads, no
/// ranks and no clock: who runs it says when a loader asks, reports or is lost. `data_pipeline`
/// runs it for threads, `serve_as_proxy` for ranks.
///
/// Each sample of an epoch is dealt, reported with its lengths, delivered and taken:
///
///     deal(loader, lengths_of)       the next sample for a loader to fetch; none for now
///     report(loader, ticket, ...)    it is decoded and has these lengths; the loader holds it
///     cannot_decode(...)             it is not
///     lose(loader, why)              what the loader had is dealt anew, to others
///     make(step, tickets)            the next step whose samples have all been reported
///     deliver(ticket)                a payload has left its loader, which may be lost now
///     take()                         all ranks have the oldest step that was made
///
/// Where lengths_of(sample) has the lengths of samples, as std::vector<tokens>, windows are planned
/// by them before anything is decoded, and steps by the lengths that are reported. Else a window is
/// planned when all of its samples were decoded.
///
/// Expects     setup.step_samples, modules, fetched_ahead and windows.steps are at least 1,
///             setup.samples below 2^32, setup.together empty or of as many entries, no group
///             larger than a step.
/// Ensures     (1) which samples train in which step depends on setup, windows, lengths and on what
///                 cannot be decoded, and on nothing else
///             (2) every sample that can be decoded, and whose group can be, is in one step of each
///                 epoch; no sample is in two
///             (3) a report of a sample that was dealt to another loader meanwhile changes nothing
///             (4) at most (windows.steps - 1 + fetched_ahead) x step_samples samples are dealt, and
///                 not taken; no step waits for a sample that this bound holds up
///             (5) restored from step.save(), with any number of loaders, all further steps have
///                 equal digests; what was dealt and not taken comes again
///             (6) a sample trains at most windows.held_back steps after it arrives
/// Errors      health(), after which nothing is dealt or made any more. out_of_range: a wrong number
///             of lengths, or one below 0 or above longest_sample, or costs of a window that
///             data_windows refuses; mismatch: a sample that was fetched again has other lengths;
///             infeasible: the window policy broke its promise; failed: it, the cost of windows or
///             lengths_of threw, or a sample cannot be decoded where that stops the step, or could
///             once, and not after its loader was lost.
/// Complexity  4 bytes a sample of an epoch, and some 40 a sample of the windows that are open.
///             A call is O(1), but for one of each window, which is O(its samples), and lose.
/// Source      FlexRL, 2025, section 4.4: a proxy with metadata, local loaders with data.
template <window_policy Policy = long_rounds, class Cost = total_length>
class data_proxy {
 public:
  explicit data_proxy(data_setup setup, data_windows<Policy, Cost> windows = {})
      : opener_(std::move(setup), windows.steps),
        windows_(std::move(windows)),
        state_(opener_.setup(), windows_),
        health_(state_.health())
  {}

  [[nodiscard]] data_setup const& setup() const noexcept { return opener_.setup(); }

  /// Goes on after the step whose save() this is. Before anything was dealt.
  ///
  /// A sample of that step is dealt again, first: health() says if its lengths differ, or later, if
  /// the window in which the state was saved is planned otherwise.
  ///
  /// Errors      syntax: not what save() wrote; mismatch: of other samples, groups, steps, windows,
  ///             or of another seed, policy or cost; out_of_range: there is no such step.
  template <class Lengths = no_lengths>
  [[nodiscard]] result<void> restore(std::string_view text, Lengths const& lengths_of = {})
  {
    auto const saved = state_.read(text, windows_);
    if (!saved) { return tl::unexpected(saved.error()); }
    if (auto done = opener_.expect_place(*saved); !done) { return done; }
    opener_.go_to(*saved);
    left_out_ = saved->left_out;
    compared_ = detail::compared_data(*saved);
    if constexpr (!std::is_same_v<Lengths, no_lengths>) {
      if (saved->position % windows_.steps > 0) { (void)open(lengths_of); }
    }
    return health_;
  }

  /// After a restore the sample whose lengths are compared with those of the state.
  [[nodiscard]] std::optional<data_deal> deal_again(std::uint32_t loader)
  {
    return health_ ? compared_.deal(loader) : std::nullopt;
  }

  /// The next sample that this loader is to fetch; none where queues are full, or nothing is left.
  template <class Lengths = no_lengths>
  [[nodiscard]] std::optional<data_deal> deal(std::uint32_t loader, Lengths const& lengths_of = {})
  {
    if (auto const again = deal_again(loader)) { return again; }
    std::size_t const most = (windows_.steps - 1 + setup().fetched_ahead) * setup().step_samples;
    if (open_.fetched >= most || !health_) { return {}; }
    data_deal dealt;
    for (std::size_t at = 0;; ++at) {
      if (at == open_.all.size() && !open(lengths_of)) { return {}; }
      if (open_.deal(open_.all[at], loader, dealt)) { return dealt; }
    }
  }

  /// A loader has decoded what it was dealt. Returns whether it is to keep the payload: not if the
  /// sample was dealt to another loader meanwhile, or is not needed.
  [[nodiscard]] bool report(std::uint32_t loader, std::uint64_t ticket,
                            std::span<tokens const> lengths)
  {
    if (compared_.ends(loader, ticket)) {
      if (health_) { health_ = compared_.compare(lengths); }
      return false;
    }
    detail::open_window* const window = awaited(loader, ticket);
    if (window == nullptr) { return false; }
    detail::window_sample& sample = window->samples[ticket - window->first_ticket];
    health_ = window->keep_lengths(sample, lengths, setup().modules);
    if (!health_) { return false; }
    sample.place = place::held;
    note(*window, sample);
    return sample.place == place::held;
  }

  /// A loader could not decode what it was dealt, and says why.
  void cannot_decode(std::uint32_t loader, std::uint64_t ticket, std::string_view why)
  {
    detail::open_window* const window = awaited(loader, ticket);
    if (compared_.ends(loader, ticket) || window == nullptr) { return; }
    detail::window_sample const& sample = window->samples[ticket - window->first_ticket];
    bool const made = window->planned && window->unit_steps[sample.unit] < window->made;
    if (made || setup().when_undecodable == undecodable::stops) {
      health_ = fail(error_code::failed, sample.sample, "sample ", sample.sample,
                     " cannot be decoded: ", why,
                     made ? "; it was decoded once, before its loader was lost: look what changes "
                            "at its source"
                          : "; repair it, or have such samples left out");
      return;
    }
    auto const members = window->of_unit(sample.unit);
    std::string const group = detail::counted(members.size(), "sample");
    news_.push_back(detail::concat("sample ", sample.sample, " cannot be decoded: ", why,
                                   "; it is left out",
                                   members.size() > 1 ? " with its group of " + group : ""));
    for (detail::window_sample& member : members) { open_.put(*window, member, place::left_out); }
    for (detail::window_sample& member : members) { note(*window, member); }
  }

  /// A payload has left its loader for where it is computed.
  void deliver(std::uint64_t ticket)
  {
    if (detail::open_window* const window = open_.find(ticket)) {
      open_.deliver(window->samples[ticket - window->first_ticket]);
    }
  }

  /// A loader is lost, or so late that it is given up: what it has is dealt anew. Returns how many
  /// samples these are.
  std::size_t lose(std::uint32_t loader, std::string_view why)
  {
    std::size_t const lost = open_.lose(loader);
    compared_.lose(loader);
    news_.push_back(detail::concat("loader ", loader, " was lost: ", why, "; ", lost,
                                   lost == 1 ? " sample was" : " samples were", " dealt anew"));
    return lost;
  }

  /// Makes the next step if all of its samples have been reported, and returns whether it did. Its
  /// owners are for the plan to fill in. `tickets` are those of its samples.
  [[nodiscard]] bool make(data_step& step, std::vector<std::uint64_t>& tickets)
  {
    auto const window = std::find_if(open_.all.begin(), open_.all.end(),
                                     [](auto const& each) { return each.made < each.steps; });
    if (!health_ || !compared_.is_over() || window == open_.all.end() || !window->planned ||
        window->unreported_in[window->made] > 0) {
      return false;
    }
    left_out_ += window->make(step, tickets, setup().modules);
    step.left_out = left_out_;
    step.news = std::exchange(news_, {});
    auto saved = state_.save(step, window->word, windows_);
    health_ = std::move(saved).map([&](std::string text) { step.saved = std::move(text); });
    return health_.has_value();
  }

  /// All ranks have what they compute of the oldest step that was made.
  void take()
  {
    BALLAST_EXPECTS(!open_.all.empty() && open_.all.front().taken < open_.all.front().made,
                    "no step was made that has not been taken");
    open_.take();
  }

  /// Whether all steps of all epochs have been made.
  [[nodiscard]] bool finished() const
  {
    return opener_.at_end() &&
           (open_.all.empty() || open_.all.back().made == open_.all.back().steps);
  }

  /// Payloads that loaders hold and nobody needs: ticket and loader. The caller empties it.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::uint32_t>>& dropped() noexcept
  {
    return open_.dropped;
  }
  [[nodiscard]] result<void> const& health() const noexcept { return health_; }
  /// Samples that were dealt and not taken.
  [[nodiscard]] std::size_t fetched() const noexcept { return open_.fetched; }

 private:
  using place = detail::sample_place;

  /// The window of a sample that was dealt to this loader, and to none after it.
  [[nodiscard]] detail::open_window* awaited(std::uint32_t loader, std::uint64_t ticket)
  {
    detail::open_window* const window = open_.find(ticket);
    if (window == nullptr || !health_) { return nullptr; }
    auto const& own = window->samples[ticket - window->first_ticket];
    return own.place == place::dealt && own.loader == loader ? window : nullptr;
  }

  /// Opens the next window, if there is one.
  template <class Lengths>
  [[nodiscard]] bool open(Lengths const& lengths_of)
  {
    // Windows of which all is left out are in no queue.
    if (opener_.at_end() || open_.all.size() > open_.fetched + setup().fetched_ahead) {
      return false;
    }
    detail::open_window& window = open_.all.emplace_back(opener_.open());
    window.planned = windows_.steps == 1;
    if constexpr (!std::is_same_v<Lengths, no_lengths>) {
      if (window.planned) { return true; }
      health_ = window.measure(lengths_of, setup().modules);
      if (health_) { plan(window); }
    }
    return health_.has_value();
  }

  void plan(detail::open_window& window)
  {
    health_ =
        window.plan(windows_, setup().modules).and_then([&] { return compared_.compare(window); });
    window.planned = true;
    for (detail::window_sample& each : window.samples) {  // what was taken before a restore
      if (window.unit_steps[each.unit] < window.taken) { open_.put(window, each, place::gone); }
    }
  }

  /// The lengths of a sample are known, or it is left out: plans the window after its last one.
  void note(detail::open_window& window, detail::window_sample& sample)
  {
    if (std::exchange(sample.reported, true)) { return; }
    --window.unreported;
    if (window.planned) {
      --window.unreported_in[window.unit_steps[sample.unit]];
    } else if (window.unreported == 0) {
      plan(window);
    }
  }

  detail::window_opener opener_;
  data_windows<Policy, Cost> windows_;
  detail::data_state state_;
  detail::open_windows open_;
  std::uint64_t left_out_ = 0;  // samples of steps that were made
  result<void> health_;
  std::vector<std::string> news_;
  detail::compared_data compared_;  // with the state that was restored
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_PROXY_HPP
