// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/parallelism/search_layouts.hpp>

namespace ballast::inline v0 {

/// Another layout for the steps that are left, and what changing to it costs.
///
/// Units       picoseconds, at the times that were measured.
struct layout_change {
  model_layout layout;
  time_units before = 0;  ///< a step with the present layout
  time_units after = 0;   ///< a step with the other
  time_units cost =
      0;  ///< of changing: the restart, and what the fullest GPU then reads of its state

  /// Steps after which the change has paid.
  [[nodiscard]] std::uint64_t pays_after() const noexcept
  {
    return static_cast<std::uint64_t>((cost + before - after - 1) / (before - after));
  }

  friend bool operator==(layout_change const&, layout_change const&) = default;
};

/// Looks at a layout again while it trains, from measured times.
///
/// Of each module it takes how much longer its GPUs computed than was predicted, the median over the
/// steps of an interval. Where that has changed since it last looked, it searches layouts with the
/// modules as slow as they were measured, and compares the best one with the present on the batches
/// of the interval.
///
/// Ensures     (1) a change is told where its gain over the steps that are left is more than it costs,
///                 and never where no module has drifted
///             (2) the same on every rank that is told the same times, and on every machine
class layout_review {
 public:
  /// When it looks, what a change costs, and how the search goes.
  struct settings {
    std::uint32_t interval = 4;      ///< steps between two looks
    ratio least_drift{11, 10};       ///< of a module, for a search
    std::uint64_t steps_left = 0;    ///< of the training, from the first that is told on
    time_units restart = 0;          ///< part of what a change costs
    layout_search_options search{};  ///< its `step`, if any, is not used: it knows other times
  };

  /// Expects     price_layout accepts the layout; what the problem refers to outlives the review;
  ///             interval >= 1.
  layout_review(layout_problem const& problem, model_layout present, settings const& given)
      : problem_(problem),
        present_(std::move(present)),
        settings_(given),
        factors_(problem.modules.size(), whole),
        looked_at_(factors_),
        measured_(problem.modules.size())
  {
    BALLAST_EXPECTS(given.interval >= 1, "a layout is looked at every 0 steps; give 1 at least");
    settings_.search.step = nullptr;
  }

  /// What is told of a step: times of all GPUs of each module, as predicted and as measured, the same
  /// on every rank, and the sizes of its batch. Returns a change that pays, if there is one.
  ///
  /// Shapes      predicted[modules], measured[modules], batch[global_batch x modules].
  /// Errors      out_of_range: module `position` has no time of both kinds, or the sizes are no batch;
  ///             those of simulate_layout for the present layout at measured times.
  /// Complexity  that of search_layouts where a module has drifted, else O(interval + batch).
  [[nodiscard]] result<std::optional<layout_change>> finish_step(
      std::span<time_units const> predicted, std::span<time_units const> measured,
      std::span<tokens const> batch)
  {
    std::size_t const modules = factors_.size();
    for (std::size_t module = 0; module < modules; ++module) {
      bool const is_told = module < predicted.size() && module < measured.size() &&
                           predicted[module] > 0 && measured[module] > 0;
      if (!is_told) {
        return fail(error_code::out_of_range, module, "module ", problem_.modules[module].name,
                    " has no predicted or measured time in step ", steps_, "; give both above 0");
      }
    }
    if (auto checked = detail::check_batches(problem_, batch); !checked) {
      return tl::unexpected(checked.error());
    }
    for (std::size_t module = 0; module < modules; ++module) {
      auto const factor =
          static_cast<uint128>(measured[module]) * whole / static_cast<uint128>(predicted[module]);
      measured_[module].push_back(
          static_cast<std::int64_t>(std::clamp<uint128>(factor, 1, layout_problem::most_speed)));
    }
    batches_.insert(batches_.end(), batch.begin(), batch.end());
    ++steps_;
    if (measured_.front().size() < settings_.interval) { return std::optional<layout_change>(); }
    for (std::size_t module = 0; module < modules; ++module) {
      auto& of = measured_[module];
      auto const middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
      std::nth_element(of.begin(), middle, of.end());
      factors_[module] = *middle;
      of.clear();
    }
    std::vector<tokens> const batches = std::exchange(batches_, {});
    if (!has_drifted()) { return std::optional<layout_change>(); }
    looked_at_ = factors_;
    return look(batches);
  }

  /// What trains from now on.
  void change_to(model_layout layout) { present_ = std::move(layout); }

  /// How much longer modules take than predicted, in 1,024ths: of the last interval.
  [[nodiscard]] std::span<std::int64_t const> factors() const { return detail::span_of(factors_); }

 private:
  static constexpr std::int64_t whole = 1024;  // a factor that changes nothing

  /// Whether a module takes longer or shorter than when it was looked at, by so much.
  [[nodiscard]] bool has_drifted() const
  {
    for (std::size_t module = 0; module < factors_.size(); ++module) {
      auto const [most, least] =
          std::minmax(factors_[module], looked_at_[module], [](auto a, auto b) { return a > b; });
      if (!(ratio{most, least} < settings_.least_drift)) { return true; }
    }
    return false;
  }

  [[nodiscard]] result<std::optional<layout_change>> look(std::vector<tokens> const& batches) const
  {
    std::vector<module_profile> slower(problem_.modules.begin(), problem_.modules.end());
    for (std::size_t module = 0; module < slower.size(); ++module) {
      for (profiled_degree& degree : slower[module].degrees) {
        ratio const speed{whole, factors_[module]};
        degree.linear = degree.linear.scaled(speed);
        degree.attention = degree.attention.scaled(speed);
      }
    }
    layout_problem now = problem_;
    now.modules = slower;
    auto const before =
        simulate_layout(now, present_, detail::span_of(batches), settings_.search.dealing);
    if (!before) { return tl::unexpected(before.error()); }
    auto const found = search_layouts(now, detail::span_of(batches), settings_.search);
    if (!found) { return std::optional<layout_change>(); }  // then the present one goes on
    auto const& [layout, after] = found->layouts.front();
    std::uint64_t const left = settings_.steps_left - std::min(settings_.steps_left, steps_);
    layout_change const change{layout, *before, after, cost_of(layout)};
    uint128 const gained = static_cast<uint128>(std::max(*before - after, time_units{0})) * left;
    return gained > static_cast<uint128>(change.cost) ? std::optional(change) : std::nullopt;
  }

  /// The restart, and the time in which every GPU has got its state.
  [[nodiscard]] time_units cost_of(model_layout const& layout) const
  {
    detail::assigned_job const job(problem_, layout);
    detail::stage_memory const memory(job);
    auto const chosen = detail::chosen_of(job, layout);
    time_units longest = 0;
    for (std::size_t module = 0; module < chosen.size(); ++module) {
      auto const& [degree, own] = chosen[module];
      longest = std::max(
          longest, detail::sending_time(job.kind(module), memory.state(module, degree, own), 1));
    }
    return saturating_sum(settings_.restart, longest);
  }

  layout_problem problem_;
  model_layout present_;
  settings settings_;
  std::vector<std::int64_t> factors_;
  std::vector<std::int64_t> looked_at_;
  std::vector<std::vector<std::int64_t>> measured_;  // of each module, in this interval
  std::vector<tokens> batches_;                      // of this interval
  std::uint64_t steps_ = 0;
};

}  // namespace ballast::inline v0
