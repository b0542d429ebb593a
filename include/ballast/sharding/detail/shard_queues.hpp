// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_SHARDING_DETAIL_SHARD_QUEUES_HPP
#define BALLAST_SHARDING_DETAIL_SHARD_QUEUES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/sharding/detail/shard_problem.hpp>
#include <ballast/sharding/detail/shard_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// How full a GPU is: its load, its tokens, or the larger share of what it may have of both.
struct shard_fullness {
  bool by_tokens = false;
  uint128 weight = 0;  ///< of 2^20 tokens, in units of time; 0 leaves tokens out

  /// A GPU that holds the most tokens that it may is as full as one with the load `limit`.
  static shard_fullness of_both(shard_problem const& problem, cost_units limit)
  {
    shard_fullness both;
    if (problem.most_tokens > 0 && problem.most_tokens < longest_sample * tokens{1 << 20}) {
      both.weight = (static_cast<uint128>(static_cast<std::uint64_t>(limit)) << 20) /
                    static_cast<std::uint64_t>(problem.most_tokens);
    }
    return both;
  }

  [[nodiscard]] cost_units operator()(shard_use use) const
  {
    if (by_tokens) { return use.held; }
    if (weight == 0) { return use.load; }
    uint128 const of_tokens = (weight * static_cast<std::uint64_t>(use.held)) >> 20;
    auto const capped = std::min(of_tokens, static_cast<uint128>(no_cost));
    return std::max(use.load, static_cast<cost_units>(capped));
  }
};

/// The groups of a level, to find the least full that has room for a sequence, in O(classes + log
/// groups) on average over a level's sequences from the longest on.
///
/// Each class has a heap of the groups with room by fullness, and one of the others by the tokens
/// that they hold. Sequences become shorter, so a group loses its room at most once for each that
/// it gets, and is given back as often.
///
/// Expects     GPUs of a group that are equally loaded: nothing was put into smaller groups.
class shard_queues {
 public:
  shard_queues(shard_problem const& problem, workspace::frame& scratch)
      : problem_(problem),
        open_(scratch.take<entry>(problem.groups.size())),
        closed_(scratch.take<entry>(problem.groups.size())),
        lanes_(scratch.take<lane>(problem.classes.size()))
  {}

  void start(shard_state const& state, shard_fullness const& fullness, std::size_t level)
  {
    fullness_ = fullness;
    std::fill(lanes_.begin(), lanes_.end(), lane{});
    auto const groups = problem_.groups_of_level(level);
    for (std::uint32_t const group : groups) { ++lanes_[problem_.class_of[group]].open; }
    std::size_t next = 0;
    first_ = lanes_.size();
    end_ = 0;
    for (std::size_t at = 0; at < lanes_.size(); ++at) {
      lanes_[at].first = next;
      next += lanes_[at].open;
      if (lanes_[at].open == 0) { continue; }
      lanes_[at].open = 0;
      first_ = std::min(first_, at);
      end_ = at + 1;
    }
    for (std::uint32_t const group : groups) {
      lane& own = lanes_[problem_.class_of[group]];
      open_[own.first + own.open++] = {fullness_(use_of(state, group)), group};
    }
    for (lane const& each : lanes_) {
      auto const heap = open_of(each);
      std::make_heap(heap.begin(), heap.end(), is_behind);
    }
  }

  /// Puts a sequence into the least full group that has room, if there is one.
  ///
  /// Expects     one no longer than those before it since start().
  [[nodiscard]] bool put(shard_state& state, std::uint32_t sample)
  {
    lane* best = nullptr;
    entry least{no_cost, no_shard_group};
    for (std::size_t at = first_; at < end_; ++at) {
      lane& each = lanes_[at];
      if (problem_.time(sample, at) == no_cost) { continue; }
      find_room(state, sample, each);
      if (each.open == 0) { continue; }
      std::uint32_t const group = open_[each.first].group;
      shard_use after = use_of(state, group);
      after.load += problem_.time(sample, at);
      after.held += problem_.share_in(sample, group);
      entry const there{fullness_(after), group};
      if (there < least) {
        least = there;
        best = &each;
      }
    }
    if (best == nullptr) { return false; }
    state.insert(problem_, sample, least.group);
    replace_front(open_of(*best), least);
    return true;
  }

 private:
  struct entry {
    cost_units fullness;  ///< or the tokens that its GPUs hold
    std::uint32_t group;

    friend bool operator<(entry a, entry b)
    {
      return precedes(a.fullness, b.fullness, a.group, b.group);
    }
  };
  struct lane {
    std::size_t first = 0;   ///< of its places in both arrays
    std::size_t open = 0;    ///< groups with room
    std::size_t closed = 0;  ///< and without
  };
  [[nodiscard]] static bool is_behind(entry a, entry b) { return b < a; }

  [[nodiscard]] std::span<entry> open_of(lane const& each) const
  {
    return open_.subspan(each.first, each.open);
  }

  [[nodiscard]] shard_use use_of(shard_state const& state, std::size_t group) const
  {
    return state.of_gpu[to_index(problem_.groups[group].first)];
  }

  [[nodiscard]] bool fits(shard_state const& state, std::uint32_t sample, entry there) const
  {
    return use_of(state, there.group).held <=
           problem_.most_tokens - problem_.share_in(sample, there.group);
  }

  /// Brings the least full group with room for the sequence to the front.
  void find_room(shard_state const& state, std::uint32_t sample, lane& each)
  {
    std::span<entry> const open = open_.subspan(each.first);
    std::span<entry> const closed = closed_.subspan(each.first);
    auto const push = [](std::span<entry> heap, std::size_t& count, entry item) {
      heap[count++] = item;
      std::push_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(count), is_behind);
    };
    auto const pop = [](std::span<entry> heap, std::size_t& count) {
      std::pop_heap(heap.begin(), heap.begin() + static_cast<std::ptrdiff_t>(count), is_behind);
      return heap[--count].group;
    };
    while (each.closed > 0 && fits(state, sample, closed[0])) {
      std::uint32_t const group = pop(closed, each.closed);
      push(open, each.open, {fullness_(use_of(state, group)), group});
    }
    while (each.open > 0 && !fits(state, sample, open[0])) {
      std::uint32_t const group = pop(open, each.open);
      push(closed, each.closed, {use_of(state, group).held, group});
    }
  }

  shard_problem const& problem_;
  std::span<entry> open_;
  std::span<entry> closed_;
  std::span<lane> lanes_;
  std::size_t first_ = 0;  ///< class of the level, and the one after its last
  std::size_t end_ = 0;
  shard_fullness fullness_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_SHARDING_DETAIL_SHARD_QUEUES_HPP
