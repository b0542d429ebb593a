// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LEAST_OVERRUN_HPP
#define BALLAST_PARALLELISM_DETAIL_LEAST_OVERRUN_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/fits_nodes.hpp>
#include <ballast/parallelism/detail/joined_unit.hpp>
#include <ballast/parallelism/detail/stage_memory.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace ballast::inline v0::detail {

/// The layout that comes closest to fitting into memory.
struct overrun {
  static constexpr std::uint64_t no_layout = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t bytes =
      no_layout;           ///< above the memory of a GPU; no_layout where none uses all GPUs
  std::size_t module = 0;  ///< whose GPUs hold most
  std::vector<module_layout> modules{};
  bool is_certain = true;  ///< whether all numbers of microbatches were tried
};

/// Ensures     (1) bytes == 0 only where some layout fits; where it is certain, always then. The
///                 search ends at the first
/// Complexity  O(layouts), for the largest numbers of microbatches and, where none fits so, for all
///             others; each until most_tries modules were looked at: a second or two.
class least_overrun {
 public:
  least_overrun(layout_problem const& problem, stage_memory& memory)
      : problem_(problem),
        memory_(memory),
        layout_(problem.modules.size()),
        held_(problem.modules.size())
  {}

  [[nodiscard]] overrun find()
  {
    std::uint64_t deepest = 0;
    for (module_profile const& module : problem_.modules) { deepest += module.layers; }
    deepest = std::min(deepest, std::uint64_t{problem_.gpus});
    // Fewer microbatches are larger, and save memory only where stages would keep more than these.
    tries_left_ = most_tries;
    try_counts([](std::uint32_t most) { return most; });
    tries_left_ = tries_left_ == 0 ? 0 : most_tries;
    for (std::uint32_t count = 1; count < deepest && goes_on(); ++count) {
      try_counts([count](std::uint32_t most) { return count < most ? count : 0; });
    }
    best_.is_certain = best_.bytes == 0 || tries_left_ > 0;
    return best_;
  }

 private:
  static constexpr std::uint64_t most_tries = std::uint64_t{1} << 26;

  [[nodiscard]] bool goes_on() const noexcept { return best_.bytes != 0 && tries_left_ > 0; }

  /// Places all modules, with count_of(most) microbatches where a batch has samples for `most`.
  template <class CountOf>
  void try_counts(CountOf const& count_of)
  {
    std::uint32_t const most = std::min(problem_.gpus, problem_.global_batch);
    for (std::uint32_t last_dp = 1; last_dp <= most && goes_on(); ++last_dp) {
      microbatches_ = count_of(problem_.global_batch / last_dp);
      last_dp_ = last_dp;
      if (microbatches_ > 0) { place(problem_.modules.size(), problem_.gpus, 0, 0); }
    }
  }

  void place(std::size_t end, std::uint64_t left, std::uint64_t worst_bytes, std::size_t worst)
  {
    if (end == 0) {
      if (left == 0 && fits_nodes(span_of(layout_), problem_.gpus, problem_.gpus_per_node)) {
        best_ = {worst_bytes, worst, layout_};
      }
      return;
    }
    std::size_t const module = end - 1;
    module_profile const& profile = problem_.modules[module];
    std::uint64_t const behind =
        end == problem_.modules.size() ? 0 : held_[problem_.fed_by(module)];
    for (std::size_t degree = 0; degree < profile.degrees.size(); ++degree) {
      parallel_degree const parallel = degree_of(profile.degrees[degree]);
      std::uint64_t const of_stage = parallel.gpus();
      if (problem_.gpus_per_node % of_stage != 0) { continue; }
      for (std::uint32_t pp = 1; pp <= profile.layers && of_stage * pp <= left; ++pp) {
        std::uint64_t const group = of_stage * pp;
        auto most_dp = static_cast<std::uint32_t>(left / group);
        std::uint32_t dp = 1;
        if (end == problem_.modules.size()) {
          if (last_dp_ > most_dp) { break; }
          dp = most_dp = last_dp_;
        }
        if (module == 0) {
          if (left % group != 0 || left / group < dp || left / group > most_dp) { continue; }
          dp = most_dp;
        }
        for (; dp <= most_dp; ++dp) {
          if (tries_left_ == 0) { return; }
          --tries_left_;
          joined_unit const unit{.stages = pp, .microbatches = microbatches_};
          std::uint64_t const bytes = memory_.bytes(module, degree, pp, unit.kept(behind),
                                                    std::uint64_t{microbatches_} * dp);
          std::uint64_t const above =
              bytes > problem_.memory_bytes ? bytes - problem_.memory_bytes : 0;
          std::uint64_t const most = std::max(above, worst_bytes);
          if (most >= best_.bytes) { continue; }
          layout_[module] = layout_at(parallel, pp, dp);
          held_[module] = behind + pp;
          place(module, left - group * dp, most, above > worst_bytes ? module : worst);
          if (best_.bytes == 0) { return; }
        }
      }
    }
  }

  layout_problem problem_;
  stage_memory& memory_;
  std::vector<module_layout> layout_;
  std::vector<std::uint64_t> held_;  // stages from each module's first one to the end
  std::uint32_t microbatches_ = 1;
  std::uint32_t last_dp_ = 1;
  std::uint64_t tries_left_ = 0;
  overrun best_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LEAST_OVERRUN_HPP
