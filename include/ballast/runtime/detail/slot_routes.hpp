// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_SLOT_ROUTES_HPP
#define BALLAST_RUNTIME_DETAIL_SLOT_ROUTES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/result.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/runtime/detail/rank_gpus.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0::detail {

/// What a rank sends and receives for a slot, and the heads of the bag of each of its GPUs.
struct slot_route {
  route_plan to_compute;
  std::vector<ulysses_plan> heads;
};

/// The routes of a grid plan whose ranks are bags: of each slot, from the arrays that hold all
/// samples as they were read to arrays that hold those of the slot alone.
class slot_routes {
 public:
  /// Expects     bags of one size, which take samples of these lengths; lengths[n], source[n].
  /// Complexity  O(samples + pieces + K ranks); no allocation after a step as large.
  void assign(grid_plan const& plan, bag_layout const& bags, std::span<tokens const> lengths,
              std::span<rank_id const> source, rank_gpus gpus, std::uint32_t query_heads,
              std::uint32_t kv_heads)
  {
    place_into(read_, lengths, source, bags.gpus() / gpus.each);
    if (slots_.size() < plan.microbatches) { slots_.resize(plan.microbatches); }
    by_slot_.fill(plan.microbatches, [&](auto const& visit) {
      for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
        visit(to_index(plan.owner[sample]) / plan.ranks, to_id<sample_id>(sample));
      }
    });
    for (std::size_t slot = 0; slot < plan.microbatches; ++slot) {
      parts_.clear();
      slot_lengths_.clear();
      owners_.clear();
      for (sample_id const sample : by_slot_[slot]) {
        tokens const length = lengths[to_index(sample)];
        parts_.push_back({sample, 0, length});
        slot_lengths_.push_back(length);
        owners_.push_back(to_id<bag_id>(to_index(plan.owner[sample]) % plan.ranks));
      }
      place_parts_into(slot_read_, read_, span_of(parts_));
      place_into(slot_computed_, span_of(slot_lengths_), span_of(owners_), bags);
      placement const& there = gpus.over_ranks(slot_computed_, slot_joined_);
      plan_route_into(slots_[slot].to_compute, slot_read_, there, gpus.rank);
      slots_[slot].heads.resize(gpus.each);
      for (std::uint32_t local = 0; local < gpus.each; ++local) {
        bag_id const bag = bags.bag_of(gpus[local]);
        slots_[slot].heads[local].assign(lengths,
                                         plan.microbatch(to_id<rank_id>(to_index(bag)), slot),
                                         bags[bag].gpus, query_heads, kv_heads);
      }
    }
  }

  [[nodiscard]] slot_route const& operator[](std::size_t slot) const { return slots_[slot]; }
  [[nodiscard]] placement const& as_read() const noexcept { return read_; }

 private:
  placement read_;
  placement slot_read_;
  placement slot_computed_;
  placement slot_joined_;
  std::vector<slot_route> slots_;  // as many as any step had
  jagged<std::size_t, sample_id> by_slot_;
  std::vector<sample_part> parts_;
  std::vector<tokens> slot_lengths_;
  std::vector<bag_id> owners_;
};

/// Why these bags cannot be the ranks of a grid, if so.
[[nodiscard]] inline result<void> check_equal_bags(bag_layout const& bags)
{
  for (std::size_t bag = 0; bag < bags.size(); ++bag) {
    if (bags[to_id<bag_id>(bag)].gpus != bags[bag_id{0}].gpus ||
        bags.speeds()[bag] != bags.speeds()[0]) {
      return fail(error_code::out_of_range, bag, "bag ", bag,
                  " is not as large and as fast as bag 0, and the ranks of a grid are equal; use "
                  "bags of one kind");
    }
  }
  return {};
}

/// Why a sample cannot be routed, if so.
[[nodiscard]] inline result<void> check_routed_sample(std::size_t sample, tokens length,
                                                      bag_layout const& bags)
{
  if (length < 0 || length > longest_sample) {
    return fail(error_code::out_of_range, sample, "sample ", sample, " has a length of ", length,
                ", which is not from 0 to ", longest_sample, "; correct it");
  }
  if (!bags.takes(bag_id{0}, length)) {
    return fail(error_code::infeasible, sample, "sample ", sample, " of ", counted(length, "token"),
                " is shorter than a bag, which has ", counted(bags[bag_id{0}].gpus, "GPU"),
                "; use smaller bags, or leave it out");
  }
  return {};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_SLOT_ROUTES_HPP
