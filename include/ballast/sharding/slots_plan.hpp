// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/partition/placement_limits.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast::inline v0 {

/// Which groups of ranks may tile a slot, what they may hold, and how many slots there are.
///
///     plan_slots(lengths, machines.nodes, cost, {.largest = 64, .most_per_gpu = 8'192})
struct slot_groups {
  /// The sizes that groups may have, in any order; empty: any up to 64, and above that those of six
  /// binary digits and zeros.
  std::span<std::uint32_t const> sizes = {};
  /// Of these only 1, 2, 4, 8, ...
  bool powers_of_two = false;
  /// No group has more ranks.
  std::uint32_t largest = std::numeric_limits<std::uint32_t>::max();
  /// A group's first rank is a multiple of its size.
  bool aligned = false;
  /// The most tokens that a rank holds in a slot.
  tokens most_per_gpu = no_limit;
  /// Whether a sample that no group can hold is computed all the same, by itself on a group that
  /// holds it with fewest tokens a rank, and told in plan.above_cap, instead of a refusal.
  bool is_soft = false;
  /// How many samples a group packs: any, or counts::at_most(n).
  counts samples = {};
  /// Of slots; nothing: the number with the shortest plan found.
  std::optional<std::size_t> number = std::nullopt;
  /// A number that is found is a multiple of this, as a pipeline's stages.
  std::size_t multiple_of = 1;
  /// Whether all ranks wait for each other after every slot, or once a step.
  grid_meeting meet = grid_meeting::microbatch;
  /// How much the search may do.
  std::uint64_t work = 80'000;
};

/// Which ranks compute which samples together in which slot, and how good that is. In every slot
/// all ranks are tiled by groups of consecutive ranks; a group splits each of its samples over all
/// its ranks and computes them one after the other, as a pack.
///
/// Shapes      groups, samples, cu_seqlens: one for each group, slot after slot, in a slot by first
///             rank; first_group[slots + 1]; lengths[n], owner[n].
/// Units       loads, lengths of slots, makespan and lower_bound in the cost's unit.
/// Ensures     (1) the groups of a slot are disjoint and have all ranks; a rank without work is a
///                 group of its own without samples
///             (2) sample i is in samples[owner[i]] only, ascending by index
///             (3) a group's load is what its samples take each of its ranks, with one latency; held
///                 is what its first rank, which has most, holds of them
///             (4) cu_seqlens[g] are 0 and the sums of the lengths of its samples up to each
///             (5) makespan: the sum over the slots of the longest group; where ranks meet once a
///                 step, the end of the last group, when each begins as soon as all its ranks have
///                 ended what they do before
///             (6) no plan under the same rules has a makespan below lower_bound, whatever the
///                 number of slots
///             (7) above_cap are the groups whose ranks hold more than they may: each has one sample,
///                 which fits nowhere
struct slots_plan : certified<cost_units> {
  /// Consecutive ranks that compute the same samples in a slot, each its part of every one.
  struct group {
    std::size_t slot = 0;
    device_group ranks;
    cost_units load = 0;
    tokens held = 0;

    friend constexpr bool operator==(group, group) = default;
  };

  std::size_t ranks = 0;
  std::size_t slots = 0;
  std::size_t fewest_slots = 0;  ///< that tokens and caps need
  grid_meeting meet = grid_meeting::microbatch;
  std::vector<group> groups;
  std::vector<std::size_t> first_group;
  jagged<group_id, sample_id> samples;
  jagged<group_id, std::int32_t> cu_seqlens;
  id_vector<sample_id, group_id> owner;
  std::vector<tokens> lengths;
  std::vector<group_id> above_cap;

  /// The group in which a rank computes in a slot.
  [[nodiscard]] group_id group_of(rank_id rank, std::size_t slot) const
  {
    BALLAST_EXPECTS(to_index(rank) < ranks && slot < slots, "rank ", rank, " and slot ", slot,
                    " of ", detail::counted(ranks, "rank"), " with ",
                    detail::counted(slots, "slot"));
    auto const begin = groups.begin() + static_cast<std::ptrdiff_t>(first_group[slot]);
    auto const end = groups.begin() + static_cast<std::ptrdiff_t>(first_group[slot + 1]);
    auto const next = std::upper_bound(
        begin, end, rank, [](rank_id at, group const& each) { return at < each.ranks.first; });
    return to_id<group_id>(static_cast<std::size_t>(next - groups.begin()) - 1);
  }

  /// The samples that a rank computes its part of in a slot; none where it has no work.
  [[nodiscard]] std::span<sample_id const> microbatch(rank_id rank, std::size_t slot) const
  {
    return samples[group_of(rank, slot)];
  }

  /// How long a slot is: its longest group.
  [[nodiscard]] cost_units length_of(std::size_t slot) const
  {
    cost_units longest = 0;
    for (std::size_t at = first_group[slot]; at < first_group[slot + 1]; ++at) {
      longest = std::max(longest, groups[at].load);
    }
    return longest;
  }

  /// Ranks without work, all slots together.
  [[nodiscard]] std::size_t empty_cells() const
  {
    std::size_t empty = 0;
    for (std::size_t at = 0; at < groups.size(); ++at) {
      empty += samples[to_id<group_id>(at)].empty() ? groups[at].ranks.gpus : 0U;
    }
    return empty;
  }

  /// What the loss of one token counts where gradients are added up over ranks and slots: 1 / all
  /// tokens. A rank's sum of its tokens' losses, times this, summed, is the mean over all tokens.
  [[nodiscard]] double loss_weight() const
  {
    tokens const all = std::accumulate(lengths.begin(), lengths.end(), tokens{0});
    return all > 0 ? 1.0 / static_cast<double>(all) : 0.0;
  }

  /// One word that differs where any group, length or owner does: ranks compare it before they send.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    ballast::digest all;
    all.add(static_cast<std::uint64_t>(ranks)).add(static_cast<std::uint64_t>(slots));
    for (group const& each : groups) {
      all.add(static_cast<std::uint64_t>(each.slot))
          .add(static_cast<std::uint64_t>(to_index(each.ranks.first)))
          .add(static_cast<std::uint64_t>(each.ranks.gpus))
          .add(static_cast<std::uint64_t>(each.load));
    }
    return all.add(detail::span_of(lengths)).add(detail::span_of(owner)).value();
  }
};

}  // namespace ballast::inline v0
