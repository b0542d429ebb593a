// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/partition/packing/pack.hpp>
#include <ballast/partition/placement_limits.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

namespace c_interface {
namespace {

bool is_stream(ballast_pack_step const& step)
{
  return step.least_load != 0 || step.most_bins != 0;
}

/// Numbers the bins that are kept: that of sample 0, and the fullest others.
std::size_t keep_bins(stream_part& part, ballast::packing_plan const& plan,
                      ballast_pack_step const& step)
{
  std::size_t const oldest = plan.owner.empty() ? 0 : to_index(plan.owner.front());
  part.by_load.resize(plan.bins());
  std::iota(part.by_load.begin(), part.by_load.end(), 0U);
  std::sort(part.by_load.begin(), part.by_load.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(a != oldest, -plan.loads[a], a) < std::tuple(b != oldest, -plan.loads[b], b);
  });
  std::size_t const multiple = std::max<std::size_t>(step.multiple_of, 1);
  std::size_t const most = step.most_bins == 0 ? plan.bins() : step.most_bins;
  std::size_t kept = 0;
  for (std::uint32_t const bin : part.by_load) {
    bool const is_kept = kept < multiple || plan.loads[bin] >= step.least_load;
    if (kept == most || !is_kept || plan.samples[ballast::bag_id{bin}].empty()) { break; }
    ++kept;
  }
  kept -= kept % multiple;
  part.bin_of.assign(plan.bins(), BALLAST_LEFT);
  std::sort(part.by_load.begin(), part.by_load.begin() + static_cast<std::ptrdiff_t>(kept));
  for (std::size_t at = 0; at < kept; ++at) {
    part.bin_of[part.by_load[at]] = static_cast<std::uint32_t>(at);
  }
  return kept;
}

/// Takes the samples out of a packing that a stream leaves for its next call.
void leave_samples(ballast_packing& found, pack_job& job, ballast_pack_step const& step)
{
  stream_part& part = job.stream;
  ballast::packing_plan const& plan = job.plan;
  std::size_t const kept = keep_bins(part, plan, step);
  part.owner.clear();
  part.left.clear();
  for (ballast::bag_id const bin : plan.owner) {
    part.owner.push_back(part.bin_of[to_index(bin)]);
    if (part.owner.back() == BALLAST_LEFT) {
      part.left.push_back(static_cast<std::uint32_t>(part.owner.size() - 1));
    }
  }
  part.first.assign(1, 0);
  part.sample.clear();
  part.loads.clear();
  for (std::size_t at = 0; at < kept; ++at) {
    for (ballast::sample_id const each : plan.samples[ballast::bag_id{part.by_load[at]}]) {
      part.sample.push_back(static_cast<std::uint32_t>(to_index(each)));
    }
    part.first.push_back(part.sample.size());
    part.loads.push_back(plan.loads[part.by_load[at]]);
  }
  part.above_cap.clear();
  for (ballast::bag_id const bin : plan.above_cap) {
    std::uint32_t const number = part.bin_of[to_index(bin)];
    if (number != BALLAST_LEFT) { part.above_cap.push_back(number); }
  }
  found.bins = kept;
  found.owner = part.owner.data();
  found.first = part.first.data();
  found.sample = part.sample.data();
  found.loads = part.loads.data();
  found.empty_bins = 0;
  found.bins_above_cap = part.above_cap.size();
  found.above_cap = part.above_cap.data();
  found.samples_left = part.left.size();
  found.left = part.left.data();
}

result<void> pack_into(pack_job& job, std::span<std::int64_t const> lengths,
                       ballast_pack_step const& step)
{
  ballast::placement_limits limits;
  fit_table fits;
  if (auto read = read_limits(limits, fits, step.limits, step.samples, 1); !read) { return read; }
  ballast::bins wanted{.least = step.least_bins, .is_padded = step.is_padded != 0};
  if (step.multiple_of != 0 && !is_stream(step)) { wanted.multiple_of = step.multiple_of; }
  return ballast::pack_into(job.plan, job.memory, lengths, limits, wanted);
}

result<ballast_packing> pack_step(ballast_planner& planner, ballast_pack_step const& step)
{
  auto const lengths = array("lengths", step.lengths, step.samples);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  if (step.most_bins != 0 && step.most_bins < step.multiple_of) {
    return fail(error_code::out_of_range, 0, "a multiple of ", step.multiple_of,
                " bins is to be kept, and most_bins is ", step.most_bins, "; give as many");
  }
  if (auto done = pack_into(planner.pack, *lengths, step); !done) {
    return tl::unexpected(done.error());
  }
  ballast_packing found = packing_of(planner.pack.plan);
  if (is_stream(step)) { leave_samples(found, planner.pack, step); }
  return found;
}

}  // namespace

ballast_packing packing_of(ballast::packing_plan const& plan)
{
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
  found.most_per_gpu = plan.most_per_gpu;
  found.largest_bound = plan.largest_bound;
  return found;
}

}  // namespace c_interface

int ballast_pack(ballast_planner* planner, ballast_pack_step const* step, ballast_packing* packing)
{
  return c_interface::answer(planner, step, packing, c_interface::pack_step);
}
