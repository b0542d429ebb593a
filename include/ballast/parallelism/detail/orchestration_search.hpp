// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds the best orchestration of all options: the shortest step, then the fewest GPUs, then the
/// smallest numbers.
///
/// The LLM's dp decides how samples meet, so each is a case of its own; those that the LLM alone
/// lets take longer than the best step so far are passed over. In a case, each module has a front
/// of options that no other one betters in GPUs, time of a microbatch and time once a step. The
/// pace of the pipeline is swept from the shortest that the GPUs allow: at a given pace, only GPUs
/// and the times once a step are left, and of these the fronts are short staircases.
class orchestration_search {
 public:
  explicit orchestration_search(unit_options const& options)
      : options_(options),
        modules_(options.problem().modules.size()),
        fronts_(modules_),
        stairs_(modules_),
        least_once_(modules_ + 1),
        chosen_(modules_)
  {}

  void run()
  {
    struct bounded {
      uint128 bound;
      std::size_t number;  // of the case
    };
    std::vector<unit_case> const cases = options_.cases();
    std::vector<bounded> order;
    for (std::size_t number = 0; number < cases.size(); ++number) {
      uint128 const bound = bound_of_llm(cases[number]);
      if (bound < static_cast<uint128>(no_cost)) { order.push_back({bound, number}); }
    }
    std::sort(order.begin(), order.end(), [](bounded const& a, bounded const& b) {
      return precedes(a.bound, b.bound, a.number, b.number);
    });
    for (auto const& [bound, number] : order) {
      if (bound > limit_) { break; }
      search(cases[number]);
    }
  }

  [[nodiscard]] bool has_found() const noexcept { return gpus_ != none; }
  [[nodiscard]] model_layout const& best() const noexcept { return best_; }
  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] static uint128 pace(time_units microbatch, std::uint32_t microbatches) noexcept
  {
    return static_cast<uint128>(microbatch) * (microbatches - 1);
  }

  /// What the LLM alone takes in a case at least.
  [[nodiscard]] uint128 bound_of_llm(unit_case const& of)
  {
    uint128 bound = ~uint128{0};
    std::size_t const llm = options_.problem().llm;
    std::uint32_t const count = options_.microbatches(of);
    options_.each(llm, of, [&](unit_option const& option) {
      ++evaluated_;
      if (!options_.fits(llm, option)) { return; }
      bound = std::min(
          bound, pace(option.time.microbatch, count) + static_cast<uint128>(option.time.once));
    });
    return bound;
  }

  void search(unit_case const& of)
  {
    microbatches_ = options_.microbatches(of);
    std::vector<time_units> paces;
    time_units shortest = 0;
    uint128 least = 0;
    for (std::size_t module = 0; module < modules_; ++module) {
      auto& front = fronts_[module];
      front.clear();
      options_.each(module, of, [&](unit_option const& option) {
        ++evaluated_;
        uint128 const alone =
            pace(option.time.microbatch, microbatches_) + static_cast<uint128>(option.time.once);
        if (options_.fits(module, option) && alone <= limit_) { front.push_back(option); }
      });
      if (front.empty()) { return; }
      keep_front(front);
      time_units own = no_cost;
      for (unit_option const& each : front) {
        paces.push_back(each.time.microbatch);
        own = std::min(own, each.time.microbatch);
      }
      shortest = std::max(shortest, own);
      least += static_cast<uint128>(front.front().time.once);
    }
    std::sort(paces.begin(), paces.end());
    paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
    for (auto at = std::lower_bound(paces.begin(), paces.end(), shortest); at != paces.end();
         ++at) {
      if (pace(*at, microbatches_) + least > limit_) { return; }
      if (build_stairs(*at)) { place(0, pace(*at, microbatches_), 0); }
    }
  }

  /// Of the options that keep a pace, those with fewer GPUs than any that takes less once; false
  /// where the GPUs do not suffice for all modules.
  [[nodiscard]] bool build_stairs(time_units slowest)
  {
    auto const& problem = options_.problem();
    free_.clear();
    for (gpu_kind const& kind : problem.kinds) { free_.push_back(kind.gpus); }
    fewest_ = 0;
    bool suffice = true;
    for (std::size_t module = 0; module < modules_; ++module) {
      auto& stairs = stairs_[module];
      stairs.clear();
      for (unit_option const& each : fronts_[module]) {
        if (each.time.microbatch > slowest) { continue; }
        if (stairs.empty() || each.gpus < stairs.back()->gpus) { stairs.push_back(&each); }
      }
      std::uint64_t const own = stairs.back()->gpus;
      std::uint64_t& free = free_[problem.modules[module].kind];
      suffice = suffice && own <= free;
      free -= std::min(own, free);
      fewest_ += own;
    }
    least_once_.back() = 0;
    for (std::size_t module = modules_; module > 0; --module) {
      least_once_[module - 1] =
          least_once_[module] + static_cast<uint128>(stairs_[module - 1].front()->time.once);
    }
    return suffice;
  }

  /// Chooses options for this module and those after it; `step` is what the pace and the modules
  /// before it take, and these have `more` GPUs than the fewest that keep it.
  void place(std::size_t module, uint128 step, std::uint64_t more)
  {
    if (module == modules_) {
      offer(fewest_ + more);
      return;
    }
    auto const& stairs = stairs_[module];
    for (unit_option const* const option : stairs) {
      uint128 const with = step + static_cast<uint128>(option->time.once);
      if (with + least_once_[module + 1] > limit_) { return; }
      std::uint64_t const own = option->gpus - stairs.back()->gpus;
      std::uint64_t& free = free_[options_.problem().modules[module].kind];
      bool const is_worse =
          with + least_once_[module + 1] == limit_ && fewest_ + more + own > gpus_;
      if (own > free || is_worse) { continue; }
      chosen_[module] = option;
      free -= own;
      place(module + 1, with, more + own);
      free += own;
    }
  }

  void offer(std::uint64_t gpus)
  {
    model_layout offered;
    offered.microbatches = microbatches_;
    std::vector<unit_time> times;
    for (unit_option const* const each : chosen_) {
      offered.modules.push_back(each->layout);
      offered.memory_bytes = std::max(offered.memory_bytes, each->bytes);
      times.push_back(each->time);
    }
    offered.step = disttrain_makespan(span_of(times), microbatches_);
    if (has_found() &&
        !precedes(offered.step, best_.step, gpus, gpus_, offered.modules, best_.modules)) {
      return;
    }
    best_ = offered;
    gpus_ = gpus;
    limit_ = static_cast<uint128>(best_.step);
  }

  unit_options const& options_;
  std::size_t modules_;
  std::vector<std::vector<unit_option>> fronts_;
  std::vector<std::vector<unit_option const*>> stairs_;
  std::vector<uint128> least_once_;  // of a module and those after it
  std::vector<unit_option const*> chosen_;
  std::vector<std::uint64_t> free_;  // GPUs of each kind beyond the fewest that keep the pace
  std::uint64_t fewest_ = 0;
  std::uint32_t microbatches_ = 1;
  model_layout best_;
  std::uint64_t gpus_ = none;
  uint128 limit_ =
      static_cast<uint128>(no_cost) - 1;  // no orchestration that takes longer is wanted
  std::uint64_t evaluated_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP
