// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP
#define BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/unit_options.hpp>
#include <ballast/parallelism/disttrain_makespan.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/orchestration_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// Finds the best orchestration of all options: the shortest step, then the fewest GPUs, then the
/// smallest numbers and kinds. It starts with the best of other kinds, if there is one.
///
/// The LLM's dp decides how samples meet, and what a module keeps depends on the stages behind it.
/// So the dp and the stages of all modules but the first are chosen before all else: the LLM's in
/// the order of what it takes alone, until that is longer than the best step so far, and then those
/// of the others, from the last module on. Then it is known which options have memory enough, and
/// each module has a front of those that no other one betters in GPUs, time of a microbatch and
/// time once a step. The pace of the pipeline is swept from the shortest that the GPUs allow: at a
/// given pace, only GPUs and the times once a step are left, and of these the fronts are short
/// staircases.
class orchestration_search {
 public:
  explicit orchestration_search(unit_options const& options,
                                std::optional<orchestration> found = {})
      : options_(options),
        modules_(options.problem().modules.size()),
        cases_(options.cases()),
        useful_(cases_.size()),
        fronts_(modules_),
        behind_(modules_),
        stairs_(modules_),
        least_once_(modules_ + 1),
        chosen_(modules_),
        best_(std::move(found))
  {
    if (best_) { keep(best_->layout.gpus()); }
  }

  void run()
  {
    std::vector<start> starts;
    for (std::size_t number = 0; number < cases_.size(); ++number) { add_starts(number, starts); }
    std::sort(starts.begin(), starts.end(), [](start const& a, start const& b) {
      return precedes(a.bound, b.bound, a.number, b.number, a.pp, b.pp);
    });
    for (auto const& [bound, number, pp] : starts) {
      if (bound > limit_) { break; }
      case_ = cases_[number];
      microbatches_ = options_.microbatches(case_);
      llm_stages_ = pp;
      auto const& useful = useful_of(number);
      if (!useful.empty()) { choose_stages(useful, modules_, 0, 0, 0); }
    }
  }

  [[nodiscard]] std::optional<orchestration> const& best() const noexcept { return best_; }
  [[nodiscard]] std::uint64_t evaluated() const noexcept { return evaluated_; }

 private:
  /// A case, the stages of its LLM, and what the LLM then takes at least.
  struct start {
    uint128 bound;
    std::size_t number;
    std::uint32_t pp;
  };

  [[nodiscard]] static uint128 pace(time_units microbatch, std::uint32_t microbatches) noexcept
  {
    return static_cast<uint128>(microbatch) * (microbatches - 1);
  }
  [[nodiscard]] static uint128 alone(unit_option const& option, std::uint32_t microbatches) noexcept
  {
    return pace(option.time().microbatch, microbatches) + static_cast<uint128>(option.time().once);
  }

  void add_starts(std::size_t number, std::vector<start>& starts)
  {
    std::size_t const llm = options_.problem().llm;
    std::uint32_t const count = options_.microbatches(cases_[number]);
    auto const first = starts.size();
    options_.each(llm, cases_[number], [&](unit_option const& option) {
      ++evaluated_;
      if (!options_.fits(llm, option)) { return; }
      uint128 const bound = alone(option, count);
      auto const same =
          std::find_if(starts.begin() + static_cast<std::ptrdiff_t>(first), starts.end(),
                       [pp = option.layout.pp](start const& each) { return each.pp == pp; });
      if (same == starts.end()) {
        starts.push_back({bound, number, option.layout.pp});
      } else {
        same->bound = std::min(same->bound, bound);
      }
    });
  }

  /// Of each module; none where a module has no option.
  [[nodiscard]] std::vector<useful_options> const& useful_of(std::size_t number)
  {
    auto& [is_known, modules] = useful_[number];
    if (is_known) { return modules; }
    is_known = true;
    for (std::size_t module = 0; module < modules_; ++module) {
      useful_options own;
      options_.each(module, case_, [&](unit_option option) {
        ++evaluated_;
        if (!options_.fits(module, option) || alone(option, microbatches_) > limit_) { return; }
        if (module + 1 == modules_) { option.room = 0; }  // nothing is behind it
        own.all.push_back(option);
      });
      if (own.all.empty()) { return modules = {}; }
      own.keep_useful_only(module == 0);
      modules.push_back(std::move(own));
    }
    return modules;
  }

  /// Chooses stages for the modules before `end`, where so many microbatches are on their way
  /// behind these, and the modules from `end` on take `once`, and no less than `shortest` for a
  /// microbatch.
  void choose_stages(std::vector<useful_options> const& useful, std::size_t end,
                     std::uint64_t behind, uint128 once, time_units shortest)
  {
    std::size_t const module = end - 1;
    uint128 before = once;
    time_units longest = shortest;
    for (std::size_t each = 0; each < module; ++each) {
      before += static_cast<uint128>(useful[each].least_once);
      longest = std::max(longest, useful[each].least_microbatch);
    }
    auto const room = static_cast<std::int64_t>(std::min<std::uint64_t>(behind, microbatches_));
    behind_[module] = behind;
    for (std::uint32_t const pp : useful[module].stages) {
      if (module == options_.problem().llm && pp != llm_stages_) { continue; }
      bool const is_any = module == 0 && module != options_.problem().llm;
      auto& front = fronts_[module];
      front.clear();
      time_units own = no_cost;
      for (unit_option option : useful[module].all) {
        if (option.room < room || (!is_any && option.layout.pp != pp) ||
            alone(option, microbatches_) > limit_) {
          continue;
        }
        option.room = 0;
        front.push_back(option);
        own = std::min(own, option.time().microbatch);
      }
      if (!front.empty()) {
        keep_useful(front, true);
        auto const first = static_cast<uint128>(front.front().time().once);
        if (pace(std::max(longest, own), microbatches_) + before + first <= limit_) {
          if (module == 0) {
            sweep(std::max(shortest, own), once + first);
          } else {
            choose_stages(useful, module, options_.depth(module, pp, behind, case_), once + first,
                          std::max(shortest, own));
          }
        }
      }
      if (is_any) { return; }
    }
  }

  /// Sweeps the pace over the fronts, from `shortest` on; together they take `least` once.
  void sweep(time_units shortest, uint128 least)
  {
    std::vector<time_units> paces;
    for (auto const& front : fronts_) {
      for (unit_option const& each : front) {
        if (each.time().microbatch >= shortest) { paces.push_back(each.time().microbatch); }
      }
    }
    std::sort(paces.begin(), paces.end());
    paces.erase(std::unique(paces.begin(), paces.end()), paces.end());
    // A slower pace needs no more GPUs.
    auto at = std::partition_point(paces.begin(), paces.end(),
                                   [this](time_units slowest) { return !build_stairs(slowest); });
    for (; at != paces.end() && pace(*at, microbatches_) + least <= limit_; ++at) {
      build_stairs(*at);
      place(0, pace(*at, microbatches_), 0);
    }
  }

  /// Of the options that keep a pace, those with fewer GPUs than any that takes less once; false
  /// where the GPUs do not suffice for all modules.
  bool build_stairs(time_units slowest)
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
        if (each.time().microbatch > slowest) { continue; }
        if (stairs.empty() || each.gpus < stairs.back()->gpus) { stairs.push_back(&each); }
      }
      std::uint64_t const own = stairs.back()->gpus;
      std::uint64_t& free = free_[options_.kinds()[module]];
      suffice = suffice && own <= free;
      free -= std::min(own, free);
      fewest_ += own;
    }
    least_once_.back() = 0;
    for (std::size_t module = modules_; module > 0; --module) {
      least_once_[module - 1] =
          least_once_[module] + static_cast<uint128>(stairs_[module - 1].front()->time().once);
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
      uint128 const with = step + static_cast<uint128>(option->time().once);
      if (with + least_once_[module + 1] > limit_) { return; }
      std::uint64_t const own = option->gpus - stairs.back()->gpus;
      std::uint64_t& free = free_[options_.kinds()[module]];
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
    for (std::size_t module = 0; module < modules_; ++module) {
      unit_option const& each = *chosen_[module];
      offered.modules.push_back(each.layout);
      offered.memory_bytes =
          std::max(offered.memory_bytes, options_.bytes(module, each, behind_[module], case_));
      times.push_back(each.time());
    }
    offered.step = disttrain_makespan(span_of(times), microbatches_);
    if (best_ && !precedes(offered.step, best_->layout.step, gpus, gpus_, offered.modules,
                           best_->layout.modules, options_.kinds(), best_->kinds)) {
      return;
    }
    best_ = {offered, options_.kinds()};
    keep(gpus);
  }

  void keep(std::uint64_t gpus)
  {
    gpus_ = gpus;
    limit_ = static_cast<uint128>(best_->layout.step);
  }

  unit_options const& options_;
  std::size_t modules_;
  std::vector<unit_case> cases_;
  std::vector<std::pair<bool, std::vector<useful_options>>> useful_;  // of each case, if known
  std::vector<std::vector<unit_option>> fronts_;
  std::vector<std::uint64_t> behind_;  // of each module, the microbatches on their way behind it
  std::vector<std::vector<unit_option const*>> stairs_;
  std::vector<uint128> least_once_;  // of a module and those after it
  std::vector<unit_option const*> chosen_;
  std::vector<std::uint64_t> free_;  // GPUs of each kind beyond the fewest that keep the pace
  std::uint64_t fewest_ = 0;
  unit_case case_;
  std::uint32_t microbatches_ = 1;
  std::uint32_t llm_stages_ = 1;
  std::optional<orchestration> best_;
  std::uint64_t gpus_ = 0;
  uint128 limit_ =
      static_cast<uint128>(no_cost) - 1;  // no orchestration that takes longer is wanted
  std::uint64_t evaluated_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_ORCHESTRATION_SEARCH_HPP
