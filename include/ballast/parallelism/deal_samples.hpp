// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DEAL_SAMPLES_HPP
#define BALLAST_PARALLELISM_DEAL_SAMPLES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/parallelism/detail/sample_dealer.hpp>
#include <ballast/parallelism/layout_pipeline.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Which samples of a batch each replica of a layout computes in each microbatch.
struct dealt_samples {
  std::uint32_t groups = 1;
  /// Of each module; row (microbatch * groups + group) * (replicas of a group) + replica.
  std::vector<jagged<std::size_t, sample_id>> modules;
};

/// Deals a batch to microbatches, groups and replicas of a layout, longest first: a sample weighs
/// its share of the batch's FLOP in each module. It is what `search_layouts` and `simulate_layout`
/// take a scheduler to do; the scheduler of `schedule_layout` does it with more time.
///
/// Shapes      batch[samples x modules]. The groups are those of layout_pipeline.
/// Expects     price_layout accepts the layout, and no size is above longest_sample or negative.
/// Ensures     (1) every sample is in one row of every module, in the same microbatch and group
///             (2) every microbatch of every group has a sample, of as many samples as there are
///                 microbatches and groups
///             (3) the heaviest samples first, each to the microbatch, of the 16 that are least
///                 full, which is least full with it; the fullest microbatches come first
/// Complexity  O(modules (samples log samples + rows)).
[[nodiscard]] inline dealt_samples deal_samples(layout_problem const& problem,
                                                model_layout const& layout,
                                                std::span<tokens const> batch)
{
  detail::sample_dealer const dealer(problem, batch);
  dealt_samples dealt{layout_pipeline(problem, layout).groups(), {}};
  auto const turns = dealer.deal(layout.microbatches, dealt.groups);
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    std::uint32_t const replicas = layout.modules[module].dp / dealt.groups;
    jagged<std::size_t, sample_id>& rows = dealt.modules.emplace_back();
    rows.fill(std::size_t{layout.microbatches} * dealt.groups * replicas, [&](auto const& visit) {
      dealer.share(module, detail::span_of(turns), layout.microbatches, dealt.groups, replicas,
                   [&](std::size_t turn, std::size_t replica, std::size_t sample) {
                     visit(turn * replicas + replica, to_id<sample_id>(sample));
                   });
    });
  }
  return dealt;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_DEAL_SAMPLES_HPP
