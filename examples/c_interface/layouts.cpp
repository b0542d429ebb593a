// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/search_layouts.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace c_interface {
namespace {

/// A product of what the caller says, or more than any array has.
std::size_t product(std::size_t a, std::size_t b)
{
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(std::int64_t);
  return b != 0 && a > most / b ? most : a * b;
}

result<ballast_layouts> search(ballast_planner& planner, ballast_layout_problem const& given)
{
  if (given.profile_csv == nullptr) {
    return fail(error_code::out_of_range, 0, "profile_csv is null; give the text of a profile");
  }
  auto const profile = ballast::read_profile(given.profile_csv);
  if (!profile) { return tl::unexpected(profile.error()); }
  auto const modules = ballast::modules_of(*profile);
  if (!modules) { return tl::unexpected(modules.error()); }
  std::size_t const gpus_per_node = given.gpus_per_node == 0 ? 8 : given.gpus_per_node;
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (given.gpus > most || gpus_per_node > most || given.global_batch > most) {
    return fail(error_code::out_of_range, 0, "gpus, gpus_per_node and global_batch are ",
                given.gpus, ", ", gpus_per_node, " and ", given.global_batch,
                "; give numbers below 2^32");
  }
  auto const sizes = array("sizes", given.sizes, product(given.samples, modules->size()));
  if (!sizes) { return tl::unexpected(sizes.error()); }
  auto const batches = array("batch_sizes", given.batch_sizes,
                             product(product(given.batches, given.global_batch), modules->size()));
  if (!batches) { return tl::unexpected(batches.error()); }

  ballast::layout_problem problem;
  problem.modules = *modules;
  problem.sizes = *sizes;
  problem.global_batch = static_cast<std::uint32_t>(given.global_batch);
  problem.kinds[0].gpus = static_cast<std::uint32_t>(given.gpus);
  problem.kinds[0].gpus_per_node = static_cast<std::uint32_t>(gpus_per_node);
  problem.kinds[0].memory_bytes = given.memory_bytes;
  problem.kinds[0].bytes_per_second = given.bytes_per_second;
  ballast::layout_search_options options;
  if (given.best != 0) { options.best = given.best; }
  if (given.most_work != 0) { options.most_work = given.most_work; }
  auto const ranking = ballast::search_layouts(problem, *batches, options);
  if (!ranking) { return tl::unexpected(ranking.error()); }

  found_layouts all;
  for (auto const& [layout, simulated] : ranking->layouts) {
    for (auto const& [tp, pp, dp, sp, ep] : layout.modules) {
      all.modules.push_back({tp, pp, dp, sp, ep});
    }
    all.microbatches.push_back(layout.microbatches);
    all.simulated.push_back(simulated);
    all.memory_bytes.push_back(layout.memory_bytes);
  }
  planner.layouts = std::move(all);
  ballast_layouts found{};
  found.layouts = ranking->layouts.size();
  found.modules = modules->size();
  found.module = planner.layouts.modules.data();
  found.microbatches = planner.layouts.microbatches.data();
  found.simulated = planner.layouts.simulated.data();
  found.memory_bytes = planner.layouts.memory_bytes.data();
  found.lower_bound = ranking->lower_bound;
  found.is_proven = ranking->is_proven ? 1 : 0;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_search_layouts(ballast_planner* planner, ballast_layout_problem const* problem,
                           ballast_layouts* layouts)
{
  return c_interface::answer(planner, problem, layouts, c_interface::search);
}
