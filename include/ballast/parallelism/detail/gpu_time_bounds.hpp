// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_GPU_TIME_BOUNDS_HPP
#define BALLAST_PARALLELISM_DETAIL_GPU_TIME_BOUNDS_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/stage_choices.hpp>
#include <ballast/parallelism/detail/stage_times.hpp>
#include <ballast/parallelism/dflop_makespan.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The GPU time that a step takes at least, over all GPUs: no microbatch is larger than that of a
/// single replica, nor than memory allows, so none reaches a higher throughput than the highest up
/// to its size.
///
/// With n GPUs that a module has, N microbatches and stages that take at most t, n N t is not less.
/// So it says how many GPUs a module needs within a limit, and what a step of N microbatches takes
/// at least.
///
/// Complexity  O(modules (degrees samples + layers^2) log batch) to build.
class gpu_time_bounds {
 public:
  gpu_time_bounds(layout_problem const& problem, stage_choices const& choices,
                  stage_times const& times)
      : gpus_(problem.gpus),
        batch_(problem.global_batch),
        choices_(choices),
        modules_(problem.modules.size())
  {
    // Times grow with the parts, so the time of fewer is a bound too: a few counts are enough.
    for (std::uint64_t parts = 1; parts <= problem.global_batch; parts += parts / 8 + 1) {
      parts_.push_back(parts);
    }
    for (std::size_t module = 0; module < problem.modules.size(); ++module) {
      of_module& bounds = modules_[module];
      bounds.fewest_gpus = choices.fewest_gpus(module);
      bounds.of_degree.resize(problem.modules[module].degrees.size());
      bounds.least_index.resize(problem.modules[module].degrees.size());
      for (stage_choice const& choice : choices.of(module)) {
        for (std::uint64_t const parts : parts_) {
          bounds.of_degree[choice.degree].push_back(
              static_cast<double>(times.least_gpu_time(module, choice.degree, parts)));
        }
        for (std::uint64_t const parts : choice.least_parts) {
          bounds.least_index[choice.degree].push_back(index_of(parts));
        }
      }
    }
    for (std::size_t index = 0; index < parts_.size(); ++index) {
      std::vector<point> sums(1);
      double before = 0;
      for (std::size_t module = 0; module < problem.modules.size(); ++module) {
        std::vector<point> const front = front_of(module, index);
        modules_[module].before.push_back(before);
        modules_[module].least.push_back(front.empty() ? 0 : front.back().value);
        before += modules_[module].least.back();
        add(sums, front);
      }
      all_modules_.push_back(std::move(sums));
      last_module_.push_back(longest_of_last(index));
    }
  }

  /// Numbers of microbatches that stand for all: some in every range, and the most for each number
  /// of replicas.
  [[nodiscard]] std::vector<std::uint32_t> few_counts(std::uint32_t global_batch) const
  {
    std::vector<std::uint32_t> counts(parts_.begin(), parts_.end());
    for (std::uint32_t replicas = 1; replicas <= global_batch;
         replicas = global_batch / (global_batch / replicas) + 1) {
      counts.push_back(global_batch / replicas);
    }
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
  }

  /// Expects     every module has a choice.
  [[nodiscard]] time_units least_step(std::uint32_t microbatches) const
  {
    std::size_t const index = index_of(microbatches);
    time_units least = no_cost;
    for (auto const& [stages, gpu_time] : all_modules_[index]) {
      least = std::min(least, least_step(microbatches, stages,
                                         gpu_time / (static_cast<double>(gpus_) * microbatches)));
    }
    time_units least_of_last = no_cost;
    for (auto const& [stages, longest] : last_module_[index]) {
      least_of_last = std::min(least_of_last, least_step(microbatches, stages, longest));
    }
    return std::max(least, least_of_last);
  }

  /// Whether a module may have `pp` stages of this choice, in a pipeline of `stages` at least,
  /// where `left` GPUs are left for it and the modules before it and a step takes `limit` at most.
  [[nodiscard]] bool may_have(std::size_t module, stage_choice const& choice, std::uint32_t pp,
                              std::uint32_t microbatches, std::size_t index, std::uint64_t stages,
                              std::uint64_t left, time_units limit) const
  {
    of_module const& bounds = modules_[module];
    std::size_t const at = std::max(index, bounds.least_index[choice.degree][pp]);
    double const gpu_time = bounds.of_degree[choice.degree][at];
    double const count = microbatches;
    double const longest =
        static_cast<double>(limit) / (count + static_cast<double>(stages) - 1) + rounding;
    double const room = above * longest;
    bool const fits = gpu_time + bounds.before[index] <= static_cast<double>(left) * count * room;
    if (module + 1 < modules_.size()) { return fits; }
    return fits && gpu_time <= static_cast<double>(choice.tp) * pp * batch_ * room;
  }

  /// The fewest GPUs with which a module of this choice has `pp` stages that take at most
  /// `longest`.
  [[nodiscard]] std::uint64_t least_gpus(std::size_t module, stage_choice const& choice,
                                         std::uint32_t pp, std::uint32_t microbatches,
                                         std::size_t index, time_units longest) const
  {
    of_module const& bounds = modules_[module];
    std::size_t const at = std::max(index, bounds.least_index[choice.degree][pp]);
    return needed(bounds.of_degree[choice.degree][at], microbatches, longest);
  }

  /// The fewest for all modules before this one together.
  [[nodiscard]] std::uint64_t least_gpus_before(std::size_t module, std::uint32_t microbatches,
                                                std::size_t index, time_units longest) const
  {
    std::uint64_t sum = 0;
    for (std::size_t before = 0; before < module; ++before) {
      sum += std::max(modules_[before].fewest_gpus,
                      needed(modules_[before].least[index], microbatches, longest));
    }
    return sum;
  }

  /// The position of the bounds for so many parts.
  [[nodiscard]] std::size_t index_of(std::uint64_t parts) const
  {
    auto const next = std::upper_bound(parts_.begin(), parts_.end(), parts);
    return static_cast<std::size_t>(next - parts_.begin()) - 1;
  }

 private:
  // Bounds are numbers in floating point, of which this share is more than all roundings.
  static constexpr double above = 1 + 1e-9;
  static constexpr double rounding = 2;  // of a stage's time and of all GPU time, in picoseconds

  /// A number of stages, and the least GPU time, or the least time of a stage, with no more of
  /// them.
  struct point {
    std::uint64_t stages = 0;
    double value = 0;
  };

  struct of_module {
    std::uint64_t fewest_gpus = 0;
    std::vector<double> least;                          // of all choices, for each of parts_
    std::vector<double> before;                         // of all modules before, for each of parts_
    std::vector<std::vector<double>> of_degree;         // for each of parts_
    std::vector<std::vector<std::size_t>> least_index;  // of each degree and number of stages
  };

  [[nodiscard]] static time_units least_step(std::uint32_t microbatches, std::uint64_t stages,
                                             double longest)
  {
    double const at_least = std::max(longest / above - rounding, 0.0);
    constexpr double most = 9e18;  // below 2^63
    return dflop_makespan(microbatches, stages, static_cast<time_units>(std::min(at_least, most)));
  }

  template <class Value>
  [[nodiscard]] std::vector<point> points_of(std::size_t module, std::size_t index,
                                             Value const& value) const
  {
    std::vector<point> all;
    for (stage_choice const& choice : choices_.of(module)) {
      for (std::uint32_t pp = choice.fewest_stages; pp < choice.least_parts.size(); ++pp) {
        if (choice.least_parts[pp] == stage_choice::never) { continue; }
        std::size_t const at = std::max(index, modules_[module].least_index[choice.degree][pp]);
        all.push_back({pp, value(modules_[module].of_degree[choice.degree][at], choice.tp, pp)});
      }
    }
    return only_best(std::move(all));
  }

  [[nodiscard]] std::vector<point> front_of(std::size_t module, std::size_t index) const
  {
    return points_of(module, index,
                     [](double gpu_time, std::uint32_t, std::uint32_t) { return gpu_time; });
  }

  [[nodiscard]] std::vector<point> longest_of_last(std::size_t index) const
  {
    std::size_t const last = modules_.size() - 1;
    auto points =
        points_of(last, index, [this](double gpu_time, std::uint32_t tp, std::uint32_t pp) {
          return gpu_time / (static_cast<double>(tp) * pp * batch_);
        });
    for (point& each : points) { each.stages += choices_.fewest_stages_before(last); }
    return points;
  }

  /// By stages, of which more take less time.
  [[nodiscard]] static std::vector<point> only_best(std::vector<point> all)
  {
    std::sort(all.begin(), all.end(), [](point const& a, point const& b) {
      return precedes(a.stages, b.stages, a.value, b.value);
    });
    std::vector<point> best;
    for (point const& each : all) {
      if (best.empty() || each.value < best.back().value) { best.push_back(each); }
    }
    return best;
  }

  static void add(std::vector<point>& sums, std::vector<point> const& front)
  {
    std::vector<point> all;
    for (point const& sum : sums) {
      for (point const& each : front) {
        all.push_back({sum.stages + each.stages, sum.value + each.value});
      }
    }
    sums = only_best(std::move(all));
  }

  [[nodiscard]] static std::uint64_t needed(double gpu_time, std::uint32_t microbatches,
                                            time_units longest)
  {
    double const of_gpu =
        static_cast<double>(microbatches) * (static_cast<double>(longest) + rounding + 1);
    return static_cast<std::uint64_t>(std::ceil(gpu_time / of_gpu / above));
  }

  std::uint32_t gpus_;
  std::uint32_t batch_;
  stage_choices const& choices_;
  std::vector<std::uint64_t> parts_;
  std::vector<of_module> modules_;
  std::vector<std::vector<point>> all_modules_;  // GPU time, for each of parts_
  // Time of a stage, for each of parts_: the last module has no more replicas than the batch
  // samples.
  std::vector<std::vector<point>> last_module_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_GPU_TIME_BOUNDS_HPP
