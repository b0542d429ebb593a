// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/partition/packing/pack_to_capacity.hpp>
#include <ballast/partition/packing/pack_to_rules.hpp>
#include <ballast/partition/packing/packing_plan.hpp>
#include <ballast/partition/packing/refine_bins.hpp>

#include <cstdint>
#include <span>
#include <utility>

namespace c_interface {
namespace {

result<void> pack_into(pack_job& job, std::span<std::int64_t const> lengths,
                       ballast_pack_step const& step)
{
  bool const has_rules = step.most_samples != 0 || step.least_bins != 0 || step.multiple_of != 0 ||
                         step.length_multiple != 0 || step.is_padded != 0;
  if (!has_rules) {
    return ballast::pack_to_capacity_into(job.plan, job.memory, lengths, step.capacity,
                                          ballast::refine_bins<>{});
  }
  ballast::packing_rules rules;
  rules.capacity = step.capacity;
  if (step.most_samples != 0) { rules.most_samples = step.most_samples; }
  rules.least_bins = step.least_bins;
  if (step.multiple_of != 0) { rules.multiple_of = step.multiple_of; }
  if (step.length_multiple != 0) { rules.length_multiple = step.length_multiple; }
  rules.is_padded = step.is_padded != 0;
  auto packed = ballast::pack_to_rules(lengths, rules);
  if (!packed) { return tl::unexpected(packed.error()); }
  job.plan = *std::move(packed);
  return {};
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
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_pack(ballast_planner* planner, ballast_pack_step const* step, ballast_packing* packing)
{
  return c_interface::answer(planner, step, packing, c_interface::pack_step);
}
