// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace c_interface {
namespace {

result<void> pack_into(pack_job& job, std::span<std::int64_t const> lengths,
                       ballast_pack_step const& step)
{
  ballast::cap const rounded{.most_per_gpu = step.capacity, .rounded_to = step.length_multiple};
  ballast::cap const second{.of = optional_array(step.more_of, step.samples),
                            .most_per_gpu = step.more_capacity};
  ballast::placement_limits limits;
  limits.together = optional_array(step.together, step.samples);
  limits.apart = optional_array(step.apart, step.samples);
  if (step.length_multiple != 0) {
    limits.also = step.more_of == nullptr ? ballast::caps{rounded} : ballast::caps{rounded, second};
  } else {
    if (step.capacity != 0 || step.caps == 0) { limits.most_per_gpu = step.capacity; }
    if (step.more_of != nullptr) { limits.also = {second}; }
  }
  if (auto read = add_caps(limits.also, step, 0); !read) { return read; }
  int const rules = (step.most_samples != 0 ? 1 : 0) + (step.equal_counts != 0 ? 1 : 0) +
                    (step.fills_bins != 0 ? 1 : 0);
  if (rules > 1 || (step.is_level != 0 && step.least != nullptr)) {
    return fail(error_code::out_of_range, 0,
                "most_samples, equal_counts and fills_bins exclude each other, and so do is_level "
                "and least; give one");
  }
  if (step.equal_counts != 0) { limits.samples = ballast::counts::equal(step.equal_counts); }
  if (step.fills_bins != 0) { limits.samples = ballast::counts::filled(); }
  if (step.most_samples != 0) {
    limits.samples = ballast::counts::at_most(static_cast<std::int64_t>(
        std::min(step.most_samples, static_cast<std::size_t>(ballast::no_limit))));
  }
  if (step.is_level != 0) { limits.then = ballast::most_level; }
  auto const least = optional_array(step.least, step.samples);
  if (step.least != nullptr) { limits.then = ballast::least(least); }
  ballast::bins wanted{.least = step.least_bins, .is_padded = step.is_padded != 0};
  if (step.multiple_of != 0) { wanted.multiple_of = step.multiple_of; }
  return ballast::pack_into(job.plan, job.memory, lengths, limits, wanted);
}

result<ballast_packing> pack_step(ballast_planner& planner, ballast_pack_step const& step)
{
  auto const lengths = array("lengths", step.lengths, step.samples);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  if (auto done = pack_into(planner.pack, *lengths, step); !done) {
    return tl::unexpected(done.error());
  }
  ballast::packing_plan const& plan = planner.pack.plan;
  ballast_packing found{};
  found.samples = plan.owner.size();
  found.bins = plan.bins();
  found.fewest_bins = plan.lower_bound;
  found.owner = integers(plan.owner.data());
  found.first = plan.samples.offsets().data();
  found.sample = integers(plan.samples.values().data());
  found.loads = plan.loads.data();
  found.digest = plan.digest();
  found.empty_bins = plan.empty.size();
  found.empty = integers(plan.empty.data());
  found.bins_above_cap = plan.above_cap.size();
  found.above_cap = integers(plan.above_cap.data());
  found.capacity = plan.capacity;
  found.largest_bound = plan.largest_bound;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_pack(ballast_planner* planner, ballast_pack_step const* step, ballast_packing* packing)
{
  return c_interface::answer(planner, step, packing, c_interface::pack_step);
}
