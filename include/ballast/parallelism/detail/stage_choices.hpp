// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_CHOICES_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_CHOICES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/stage_memory.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// A parallel degree that a module can have, and what memory then asks for.
struct stage_choice {
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  std::size_t degree = 0;  ///< position among the measured ones
  parallel_degree parallel{};
  std::uint32_t group = 1;  ///< its GPUs
  std::uint32_t fewest_stages = 1;
  /// For each number of stages, the fewest parts into which the global batch has to be divided, for
  /// one microbatch to fit; `never` where none does.
  std::vector<std::uint64_t> least_parts{};
};

/// Which degrees and stages modules can have at all.
///
/// Expects     `memory` outlives it.
/// Complexity  O(modules degrees layers log batch + GPUs log layers) to build.
class stage_choices {
 public:
  stage_choices(layout_problem const& problem, stage_memory& memory)
      : memory_(memory), choices_(problem.modules.size())
  {
    std::uint32_t most_layers = 1;
    for (std::size_t module = problem.modules.size(); module-- > 0;) {
      module_profile const& profile = problem.modules[module];
      most_layers = std::max(most_layers, profile.layers);
      for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
        parallel_degree const parallel = degree_of(profile.degrees[degree]);
        auto const group = static_cast<std::uint32_t>(parallel.gpus());
        if (group > problem.gpus || problem.gpus_per_node % group != 0) { continue; }
        stage_choice choice{degree, parallel, group, 0, {stage_choice::never}};
        for (std::uint32_t pp = 1; pp <= profile.layers; ++pp) {
          auto const largest = memory.largest_size(module, degree, pp, 1);
          std::uint64_t const parts = memory.least_parts(module, largest);
          choice.least_parts.push_back(parts == 0 ? stage_choice::never : parts);
          if (parts != 0 && choice.fewest_stages == 0) { choice.fewest_stages = pp; }
        }
        if (choice.fewest_stages != 0) { choices_[module].push_back(choice); }
      }
    }
    list_divisors(problem.gpus, most_layers);
  }

  [[nodiscard]] std::vector<stage_choice> const& of(std::size_t module) const noexcept
  {
    return choices_[module];
  }

  /// See stage_memory.
  [[nodiscard]] tokens largest_size(std::size_t module, stage_choice const& choice,
                                    std::uint32_t pp, std::uint64_t held) const
  {
    return memory_.largest_size(module, choice.degree, pp, held);
  }

  /// The divisors of a number of GPUs that can be numbers of stages, ascending.
  [[nodiscard]] std::span<std::uint32_t const> divisors(std::uint64_t number) const noexcept
  {
    return span_of(divisors_, first_divisor_[number],
                   first_divisor_[number + 1] - first_divisor_[number]);
  }

 private:
  void list_divisors(std::uint32_t gpus, std::uint32_t most)
  {
    most = std::min(most, gpus);
    first_divisor_.assign(std::size_t{gpus} + 2, 0);
    for (std::uint32_t divisor = 1; divisor <= most; ++divisor) {
      for (std::uint64_t number = divisor; number <= gpus; number += divisor) {
        ++first_divisor_[number + 1];
      }
    }
    for (std::size_t number = 1; number < first_divisor_.size(); ++number) {
      first_divisor_[number] += first_divisor_[number - 1];
    }
    divisors_.resize(first_divisor_.back());
    std::vector<std::size_t> next(first_divisor_.begin(), first_divisor_.end() - 1);
    for (std::uint32_t divisor = 1; divisor <= most; ++divisor) {
      for (std::uint64_t number = divisor; number <= gpus; number += divisor) {
        divisors_[next[number]++] = divisor;
      }
    }
  }

  stage_memory& memory_;
  std::vector<std::vector<stage_choice>> choices_;  // of each module
  std::vector<std::size_t> first_divisor_;          // of each number of GPUs
  std::vector<std::uint32_t> divisors_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STAGE_CHOICES_HPP
