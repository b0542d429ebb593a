// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DEALT_MEMORY_HPP
#define BALLAST_PARALLELISM_DEALT_MEMORY_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/deal_samples.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/detail/stage_memory.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/price_layout.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// What the GPU that holds most of a layout needs for batches of real samples, dealt longest first
/// as deal_samples deals them. `search_layouts` returns layouts that hold these and the
/// microbatches that the problem draws, which are what price_layout knows.
///
/// Shapes      batches[n x global_batch x modules]; n >= 1.
/// Units       bytes.
/// Ensures     (1) of all microbatches of a replica the largest counts, or the least that the
///                 problem's memory_quantile of them is not above
/// Errors      those of price_layout; out_of_range: the sizes are no whole number of batches, or
///             one is not from 0 to longest_sample, at `position`.
/// Complexity  O(n modules (samples log samples + microbatches)).
[[nodiscard]] inline result<std::uint64_t> dealt_memory(layout_problem const& problem,
                                                        model_layout const& layout,
                                                        std::span<tokens const> batches)
{
  auto const priced = price_layout(problem, detail::span_of(layout.modules), layout.microbatches,
                                   layout.virtual_stages);
  if (!priced) { return tl::unexpected(priced.error()); }
  if (auto checked = detail::check_batches(problem, batches); !checked) {
    return tl::unexpected(checked.error());
  }
  std::size_t const modules = problem.modules.size();
  std::size_t const of_batch = std::size_t{problem.global_batch} * modules;
  std::vector<std::vector<tokens>> sizes(modules);  // of all microbatches of all replicas
  for (std::size_t first = 0; first < batches.size(); first += of_batch) {
    auto const batch = batches.subspan(first, of_batch);
    dealt_samples const dealt = deal_samples(problem, layout, batch);
    for (std::size_t module = 0; module < modules; ++module) {
      for (std::size_t row = 0; row < dealt.modules[module].size(); ++row) {
        tokens size = 0;
        for (sample_id const sample : dealt.modules[module][row]) {
          size += batch[to_index(sample) * modules + module];
        }
        sizes[module].push_back(size);
      }
    }
  }
  std::vector<detail::chosen_layout> chosen;
  for (std::size_t module = 0; module < modules; ++module) {
    module_profile const& profile = problem.modules[module];
    profiled_degree const* const degree = find_degree(profile, degree_of(layout.modules[module]));
    chosen.push_back(
        {static_cast<std::size_t>(degree - profile.degrees.data()), layout.modules[module]});
  }
  return detail::layout_prices(problem).bytes_of(
      chosen, layout.microbatches, layout.virtual_stages,
      [&](std::size_t module) { return detail::memory_quantile_of(problem, sizes[module]); });
}

}  // namespace ballast::inline v0

#endif  // BALLAST_PARALLELISM_DEALT_MEMORY_HPP
