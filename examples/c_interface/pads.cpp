// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition/padded/pad_grid.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace c_interface {
namespace {

// Arrays of these are handed out as pairs of integers.
static_assert(sizeof(ballast::padded_lengths) == 2 * sizeof(std::int64_t) &&
              offsetof(ballast::padded_lengths, target) == sizeof(std::int64_t));

/// The polynomial, or the largest number where that is above it, which planners refuse.
struct padded_polynomial {
  ballast_padded_cost of;

  ballast::cost_units operator()(ballast::tokens source, ballast::tokens target) const
  {
    using ballast::uint128;
    auto const s = static_cast<std::uint64_t>(source);
    auto const t = static_cast<std::uint64_t>(target);
    auto const part = [](std::int64_t per, std::uint64_t lengths) {
      return static_cast<uint128>(static_cast<std::uint64_t>(per)) * lengths;
    };
    uint128 const all = part(of.source, s) + part(of.target, t) + part(of.source_squared, s * s) +
                        part(of.product, s * t) + part(of.target_squared, t * t);
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    return static_cast<std::int64_t>(all > most ? most : static_cast<std::uint64_t>(all));
  }
};

result<padded_polynomial> polynomial_of(char const* name, ballast_padded_cost const& given)
{
  if (std::min({given.source, given.target, given.source_squared, given.product,
                given.target_squared}) < 0) {
    return fail(error_code::out_of_range, 0, "the ", name,
                " of a padded sample has a coefficient below 0; longer ones cost no less");
  }
  return padded_polynomial{given};
}

result<padded_polynomial> counted_of(ballast_pad_step const& step)
{
  auto const& [source, target, source_squared, product, target_squared] = step.of;
  bool const is_given =
      source != 0 || target != 0 || source_squared != 0 || product != 0 || target_squared != 0;
  return is_given ? polynomial_of("of", step.of) : polynomial_of("cost", step.cost);
}

result<void> read_lengths(pad_job& job, ballast_pad_step const& step)
{
  auto const source = array("source", step.source, step.samples);
  if (!source) { return tl::unexpected(source.error()); }
  auto const target = optional_array(step.target, step.samples);
  job.lengths.resize(step.samples);
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    job.lengths[sample] = {(*source)[sample], target.empty() ? 0 : target[sample]};
  }
  return {};
}

result<ballast_grid> pad_step(ballast_planner& planner, ballast_pad_step const& step)
{
  pad_job& job = planner.pad;
  if (auto read = read_lengths(job, step); !read) { return tl::unexpected(read.error()); }
  auto const cost = polynomial_of("cost", step.cost);
  if (!cost) { return tl::unexpected(cost.error()); }
  auto const counted = counted_of(step);
  if (!counted) { return tl::unexpected(counted.error()); }
  constexpr std::size_t most_ranks = std::size_t{1} << 24;
  if (step.ranks == 0 || step.ranks > most_ranks) {
    return fail(error_code::out_of_range, 0, "a step cannot be padded for ", step.ranks,
                " ranks; give from 1 to ", most_ranks);
  }
  auto const bags = ballast::one_gpu_bags(step.ranks);
  ballast::microbatches slots;
  slots.number = step.microbatches == 0 ? 1 : step.microbatches;
  if (step.work != 0) { slots.work = step.work; }
  ballast::placement_limits limits;
  if (step.most_per_gpu != 0) { limits.most_per_gpu = step.most_per_gpu; }
  auto plan = ballast::pad_grid(job.lengths, bags, slots, *cost, *counted, limits);
  if (!plan) { return tl::unexpected(plan.error()); }
  job.grid = *std::move(plan);
  job.gpus = first_gpus::of<ballast::bag_id>(bags);
  return grid_of(job.grid, job.gpus);
}

result<ballast_packing> pad_to_cap(ballast_planner& planner, ballast_pad_step const& step)
{
  pad_job& job = planner.pad;
  if (auto read = read_lengths(job, step); !read) { return tl::unexpected(read.error()); }
  auto const counted = counted_of(step);
  if (!counted) { return tl::unexpected(counted.error()); }
  auto const most = step.most_per_gpu != 0 ? step.most_per_gpu : ballast::no_limit;
  auto plan = step.work == 0
                  ? ballast::pad_to_cap(job.lengths, *counted, most)
                  : ballast::pad_to_cap(job.lengths, *counted, most,
                                        step.work / std::max<std::size_t>(step.samples, 1));
  if (!plan) { return tl::unexpected(plan.error()); }
  job.packing = *std::move(plan);
  return packing_of(job.packing);
}

}  // namespace
}  // namespace c_interface

int ballast_pad_grid(ballast_planner* planner, ballast_pad_step const* step, ballast_grid* grid)
{
  return c_interface::answer(planner, step, grid, c_interface::pad_step);
}

int ballast_pad_to_cap(ballast_planner* planner, ballast_pad_step const* step,
                       ballast_packing* packing)
{
  return c_interface::answer(planner, step, packing, c_interface::pad_to_cap);
}
