// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/sharding/sharding_plan.hpp>

#include <bit>

namespace ballast::inline v0::detail {

inline constexpr std::uint32_t no_shard_group = std::numeric_limits<std::uint32_t>::max();

/// Groups of one shape, for which a sequence takes one time.
struct shard_class {
  group_shape shape;
  std::uint32_t groups = 0;
  std::uint32_t first_group =
      0;                        ///< the first and the one after the last; among them may be groups
  std::uint32_t end_group = 0;  ///< of the same degree and of other shapes
};

/// What a step's planning looks up, in arrays of the caller's frame: groups by index, the tree that
/// they form, and what every sequence takes in them. A sequence may stand for several that stay
/// together, and then is as long as all of them.
///
/// Ensures     (1) parent[g] is the smallest group that contains group g, or no_shard_group; it has
///                 a larger index
///             (2) time(i, c) is no_cost where sequence i may not go to groups of class c: they
///                 have more GPUs than heads or than the sequence has tokens, or a sequence without
///                 tokens more than one, or each of them would hold more tokens than the limit
///             (3) level_of[c] is the number of the power of two that the degree does not exceed;
///                 level_groups of a level are its groups that lie in no other group of it
///             (4) by_length has the sequences from the longest to the shortest, ties by index
struct shard_problem {
  std::span<tokens const> lengths;
  tokens most_per_gpu = 0;
  std::size_t gpus = 0;
  std::span<device_group> groups;
  std::span<std::uint32_t> parent;
  std::span<std::uint32_t> class_of;  ///< of a group
  std::span<shard_class> classes;     ///< by ascending degree
  std::span<cost_units> times;        ///< class after class
  std::span<tokens> shares;           ///< likewise, of what stands for several; else none
  std::span<std::uint32_t> by_length;
  std::span<std::uint32_t> level_groups;  ///< level after level
  std::span<std::size_t> level_offsets;

  [[nodiscard]] std::size_t samples() const noexcept { return lengths.size(); }
  [[nodiscard]] std::size_t levels() const noexcept { return level_offsets.size() - 1; }

  [[nodiscard]] cost_units time(std::size_t sample, std::size_t class_index) const
  {
    return times[class_index * samples() + sample];
  }

  [[nodiscard]] cost_units time_in(std::size_t sample, std::size_t group) const
  {
    return time(sample, class_of[group]);
  }

  /// The most tokens of the sequence that a GPU of the group holds.
  [[nodiscard]] tokens share_in(std::size_t sample, std::size_t group) const
  {
    if (!shares.empty()) { return shares[class_of[group] * samples() + sample]; }
    tokens const k = groups[group].gpus;
    return k == 1 ? lengths[sample] : (lengths[sample] + k - 1) / k;
  }

  [[nodiscard]] std::size_t level_of(std::size_t group) const
  {
    return static_cast<std::size_t>(std::bit_width(groups[group].gpus - 1));
  }

  [[nodiscard]] std::span<std::uint32_t const> groups_of_level(std::size_t level) const
  {
    return level_groups.subspan(level_offsets[level],
                                level_offsets[level + 1] - level_offsets[level]);
  }
};

/// Numbers the shapes of groups that the heads admit; others get no class.
inline void find_shard_classes(shard_problem& problem, device_groups const& groups,
                               std::uint32_t heads, workspace::frame& scratch)
{
  std::span<shard_class> const classes = scratch.take<shard_class>(groups.size());
  std::size_t found = 0;
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    group_shape const shape = shape_of(problem.groups[group], groups.nodes());
    problem.class_of[group] = no_shard_group;
    if (shape.gpus > heads) { continue; }
    // Groups ascend by degree, so those of one shape are among the last few classes.
    std::size_t at = found;
    while (at > 0 && classes[at - 1].shape.gpus == shape.gpus &&
           !(classes[at - 1].shape == shape)) {
      --at;
    }
    bool const is_known = at > 0 && classes[at - 1].shape == shape;
    if (!is_known) {
      at = ++found;
      classes[at - 1] = {shape, 0, static_cast<std::uint32_t>(group), 0};
    }
    problem.class_of[group] = static_cast<std::uint32_t>(at - 1);
    ++classes[at - 1].groups;
    classes[at - 1].end_group = static_cast<std::uint32_t>(group + 1);
  }
  problem.classes = classes.first(found);
}

/// Finds the levels, and which of their groups lie in no other of the same level.
inline void find_shard_levels(shard_problem& problem, workspace::frame& scratch)
{
  std::size_t const count = problem.groups.size();
  std::size_t levels = 0;
  for (std::size_t group = 0; group < count; ++group) {
    if (problem.class_of[group] != no_shard_group) {
      levels = std::max(levels, problem.level_of(group) + 1);
    }
  }
  problem.level_groups = scratch.take<std::uint32_t>(count);
  problem.level_offsets = scratch.take<std::size_t>(levels + 1);
  auto const has_level = [&](std::uint32_t group) {
    return group != no_shard_group && problem.class_of[group] != no_shard_group;
  };
  fill_rows(
      problem.level_offsets,
      [&](auto const& visit) {
        for (std::uint32_t group = 0; group < count; ++group) {
          std::uint32_t const above = problem.parent[group];
          bool const lies_in_another =
              has_level(above) && problem.level_of(above) == problem.level_of(group);
          if (has_level(group) && !lies_in_another) { visit(problem.level_of(group), group); }
        }
      },
      [&](std::size_t) { return problem.level_groups; });
}

inline void find_shard_times(shard_problem& problem, sharding_cost const& cost,
                             workspace::frame& scratch)
{
  std::size_t const count = problem.samples();
  problem.times = scratch.take<cost_units>(count * problem.classes.size());
  for (std::size_t at = 0; at < problem.classes.size(); ++at) {
    degree_cost const price = cost.at(problem.classes[at].shape);
    tokens const k = problem.classes[at].shape.gpus;
    // Compared without k x limit, which may not fit.
    tokens const longest =
        problem.most_per_gpu > longest_sample / k ? longest_sample : problem.most_per_gpu * k;
    std::span<cost_units> const times = problem.times.subspan(at * count, count);
    for (std::size_t sample = 0; sample < count; ++sample) {
      tokens const length = problem.lengths[sample];
      bool const is_allowed = k == 1 ? length <= longest : length >= k && length <= longest;
      times[sample] = is_allowed ? price(length) : no_cost;
    }
  }
}

/// Expects     lengths from 0 to longest_sample; groups with at least one GPU; most_per_gpu >= 0.
/// Complexity  O(n classes + groups + n log n).
[[nodiscard]] inline shard_problem make_shard_problem(std::span<tokens const> lengths,
                                                      device_groups const& groups,
                                                      sharding_cost const& cost,
                                                      tokens most_per_gpu,
                                                      workspace::frame& scratch)
{
  shard_problem problem;
  problem.lengths = lengths;
  problem.most_per_gpu = most_per_gpu;
  problem.gpus = groups.gpus();
  problem.groups = scratch.take<device_group>(groups.size());
  problem.parent = scratch.take<std::uint32_t>(groups.size());
  problem.class_of = scratch.take<std::uint32_t>(groups.size());
  for (std::size_t group = 0; group < groups.size(); ++group) {
    problem.groups[group] = groups[to_id<group_id>(group)];
    auto const chain = groups.groups_of(problem.groups[group].first);
    auto const own = std::find(chain.begin(), chain.end(), to_id<group_id>(group));
    problem.parent[group] =
        own + 1 == chain.end() ? no_shard_group : static_cast<std::uint32_t>(to_index(own[1]));
  }
  find_shard_classes(problem, groups,
                     cost.by_rows ? std::numeric_limits<std::uint32_t>::max() : cost.heads,
                     scratch);
  find_shard_levels(problem, scratch);
  find_shard_times(problem, cost, scratch);
  problem.by_length = by_length(lengths, scratch);
  return problem;
}

/// Numbers what stays together by its first sequence; returns how many there are.
///
/// Shapes      together[n]: equal where sequences stay together, below 0 alone; unit[n].
[[nodiscard]] inline std::size_t number_units(std::span<std::int64_t const> together,
                                              std::span<std::uint32_t> unit,
                                              workspace::frame& scratch)
{
  std::span<std::uint32_t> const sorted = scratch.take<std::uint32_t>(together.size());
  std::iota(sorted.begin(), sorted.end(), std::uint32_t{0});
  std::sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return precedes(together[a], together[b], a, b);
  });
  for (std::size_t at = 0; at < sorted.size(); ++at) {  // the first sequence of its unit
    bool const joins =
        at > 0 && together[sorted[at]] >= 0 && together[sorted[at]] == together[sorted[at - 1]];
    unit[sorted[at]] = joins ? unit[sorted[at - 1]] : sorted[at];
  }
  std::size_t units = 0;
  for (std::size_t sample = 0; sample < unit.size(); ++sample) {
    bool const is_first = unit[sample] == sample;
    unit[sample] = is_first ? static_cast<std::uint32_t>(units) : unit[unit[sample]];
    units += is_first ? 1 : 0;
  }
  return units;
}

/// The problem of units, each of several sequences of another problem that are in one group.
///
/// Expects     units of at most longest_sample tokens, whose times together fit.
[[nodiscard]] inline shard_problem join_sequences(shard_problem const& each,
                                                  std::span<std::uint32_t const> unit,
                                                  std::size_t units, workspace::frame& scratch)
{
  shard_problem joined = each;
  std::size_t const cells = units * each.classes.size();
  std::span<tokens> const lengths = scratch.take<tokens>(units);
  joined.times = scratch.take<cost_units>(cells);
  joined.shares = scratch.take<tokens>(cells);
  std::fill(lengths.begin(), lengths.end(), tokens{0});
  std::fill(joined.times.begin(), joined.times.end(), cost_units{0});
  std::fill(joined.shares.begin(), joined.shares.end(), tokens{0});
  for (std::size_t sample = 0; sample < unit.size(); ++sample) {
    lengths[unit[sample]] += each.lengths[sample];
    for (std::size_t own = 0; own < each.classes.size(); ++own) {
      std::size_t const cell = own * units + unit[sample];
      tokens const k = each.classes[own].shape.gpus;
      joined.shares[cell] += (each.lengths[sample] + k - 1) / k;
      cost_units& sum = joined.times[cell];
      cost_units const time = each.time(sample, own);
      bool const fits =
          sum != no_cost && time != no_cost && joined.shares[cell] <= each.most_per_gpu;
      sum = fits ? sum + time : no_cost;
    }
  }
  joined.lengths = lengths;
  joined.by_length = by_length(lengths, scratch);
  return joined;
}

/// Load and tokens, of a GPU or of what is most in a group.
struct shard_use {
  cost_units load = 0;
  tokens held = 0;

  friend constexpr bool operator==(shard_use, shard_use) = default;
};

/// Which sequence is in which group, and what every GPU has of it.
///
/// Ensures     (1) of_gpu[r] is the sum over the sequences of all groups that contain GPU r
///             (2) after refresh(), peak[g] has the largest load and the most tokens of a GPU of
///                 group g
///             (3) the sequences of group g are first[g], next[first[g]], ... up to no_shard_group
struct shard_state {
  std::span<std::uint32_t> owner;
  std::span<shard_use> of_gpu;
  std::span<shard_use> peak;
  std::span<std::uint32_t> first;
  std::span<std::uint32_t> next;
  std::span<std::uint32_t> before;

  shard_state(shard_problem const& problem, workspace::frame& scratch)
      : owner(scratch.take<std::uint32_t>(problem.samples())),
        of_gpu(scratch.take<shard_use>(problem.gpus)),
        peak(scratch.take<shard_use>(problem.groups.size())),
        first(scratch.take<std::uint32_t>(problem.groups.size())),
        next(scratch.take<std::uint32_t>(problem.samples())),
        before(scratch.take<std::uint32_t>(problem.samples()))
  {
    clear();
  }

  void clear()
  {
    std::fill(owner.begin(), owner.end(), no_shard_group);
    std::fill(of_gpu.begin(), of_gpu.end(), shard_use{});
    std::fill(peak.begin(), peak.end(), shard_use{});
    std::fill(first.begin(), first.end(), no_shard_group);
  }

  void insert(shard_problem const& problem, std::uint32_t sample, std::uint32_t group)
  {
    owner[sample] = group;
    before[sample] = no_shard_group;
    next[sample] = first[group];
    if (first[group] != no_shard_group) { before[first[group]] = sample; }
    first[group] = sample;
    add(problem, group, problem.time_in(sample, group), problem.share_in(sample, group));
  }

  void remove(shard_problem const& problem, std::uint32_t sample)
  {
    std::uint32_t const group = owner[sample];
    owner[sample] = no_shard_group;
    (before[sample] == no_shard_group ? first[group] : next[before[sample]]) = next[sample];
    if (next[sample] != no_shard_group) { before[next[sample]] = before[sample]; }
    add(problem, group, -problem.time_in(sample, group), -problem.share_in(sample, group));
  }

  void assign(shard_problem const& problem, std::span<std::uint32_t const> owners)
  {
    clear();
    for (std::size_t sample = owners.size(); sample > 0; --sample) {
      insert(problem, static_cast<std::uint32_t>(sample - 1), owners[sample - 1]);
    }
    refresh(problem);
  }

  void refresh(shard_problem const& problem)
  {
    std::fill(peak.begin(), peak.end(), shard_use{});
    std::copy(of_gpu.begin(), of_gpu.end(), peak.begin());  // group r of one GPU is GPU r
    for (std::size_t group = 0; group < peak.size(); ++group) {
      std::uint32_t const above = problem.parent[group];
      if (above == no_shard_group) { continue; }
      peak[above].load = std::max(peak[above].load, peak[group].load);
      peak[above].held = std::max(peak[above].held, peak[group].held);
    }
  }

  [[nodiscard]] cost_units largest_load() const
  {
    cost_units most = 0;
    for (shard_use const use : of_gpu) { most = std::max(most, use.load); }
    return most;
  }

  /// Visits the sequences of a GPU, from its smallest group on.
  template <class Visit>
  void for_each_of(shard_problem const& problem, std::size_t rank, Visit visit) const
  {
    for (auto group = static_cast<std::uint32_t>(rank); group != no_shard_group;
         group = problem.parent[group]) {
      for (std::uint32_t sample = first[group]; sample != no_shard_group; sample = next[sample]) {
        visit(sample);
      }
    }
  }

  /// What is most in the GPUs of group `outer` that are not in `inner`, which lies in it.
  [[nodiscard]] shard_use peak_outside(shard_problem const& problem, std::size_t outer,
                                       std::size_t inner) const
  {
    auto const [first_rank, gpus] = problem.groups[outer];
    std::size_t const skip = to_index(problem.groups[inner].first);
    shard_use most;
    for (std::size_t rank = to_index(first_rank); rank < to_index(first_rank) + gpus; ++rank) {
      if (rank == skip) { rank += problem.groups[inner].gpus; }
      if (rank >= to_index(first_rank) + gpus) { break; }
      most.load = std::max(most.load, of_gpu[rank].load);
      most.held = std::max(most.held, of_gpu[rank].held);
    }
    return most;
  }

 private:
  void add(shard_problem const& problem, std::uint32_t group, cost_units time, tokens share)
  {
    auto const [first_rank, gpus] = problem.groups[group];
    for (shard_use& each : of_gpu.subspan(to_index(first_rank), gpus)) {
      each.load += time;
      each.held += share;
    }
  }
};

/// How full a GPU is: its load, its tokens, or the larger share of what it may have of both.
struct shard_fullness {
  bool by_tokens = false;
  uint128 weight = 0;  ///< of 2^20 tokens, in units of time; 0 leaves tokens out

  /// A GPU that holds the most tokens that it may is as full as one with the load `limit`.
  static shard_fullness of_both(shard_problem const& problem, cost_units limit)
  {
    shard_fullness both;
    if (problem.most_per_gpu > 0 && problem.most_per_gpu < longest_sample * tokens{1 << 20}) {
      both.weight = (static_cast<uint128>(static_cast<std::uint64_t>(limit)) << 20) /
                    static_cast<std::uint64_t>(problem.most_per_gpu);
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
           problem_.most_per_gpu - problem_.share_in(sample, there.group);
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

/// The least GPU time of a sequence in the classes that take at most `limit`.
struct least_area {
  std::size_t first_class = 0;  ///< of these; the number of classes where there is none
  uint128 area = 0;
  cost_units shortest = no_cost;  ///< time in any class
  cost_units longest = 0;         ///< time in a class that it may go to
};

[[nodiscard]] inline least_area least_area_of(shard_problem const& problem, std::size_t sample,
                                              cost_units limit)
{
  least_area least{problem.classes.size(), ~uint128{0}};
  for (std::size_t at = 0; at < problem.classes.size(); ++at) {
    cost_units const time = problem.time(sample, at);
    if (time == no_cost) { continue; }
    least.shortest = std::min(least.shortest, time);
    least.longest = std::max(least.longest, time);
    if (time > limit) { continue; }
    least.first_class = std::min(least.first_class, at);
    least.area = std::min(least.area, static_cast<uint128>(static_cast<std::uint64_t>(time)) *
                                          problem.classes[at].shape.gpus);
  }
  return least;
}

/// GPUs in groups of the degree of each class or more.
inline void find_covered_gpus(shard_problem const& problem, std::span<std::uint64_t> covered)
{
  std::fill(covered.begin(), covered.end(), std::uint64_t{0});
  for (std::size_t group = 0; group < problem.groups.size(); ++group) {
    std::uint32_t const above = problem.parent[group];
    bool const is_topmost = above == no_shard_group || problem.class_of[above] == no_shard_group;
    if (problem.class_of[group] != no_shard_group && is_topmost) {
      covered[problem.class_of[group]] += problem.groups[group].gpus;
    }
  }
  for (std::size_t at = covered.size(); at > 1; --at) { covered[at - 2] += covered[at - 1]; }
}

/// A makespan that no plan is below.
///
/// It is the smallest limit for which GPU time suffices: every sequence takes at least that of the
/// cheapest class of those that memory and the limit admit, and what may only go to groups of k
/// GPUs and more has the GPUs of such groups alone. So it is at least the total of the cheapest by
/// the number of GPUs, and the longest sequence at its best degree.
///
/// Expects     every sequence has a class.
/// Complexity  O(n classes), and O(classes log(time)) for each sequence that takes longer in a
///             class than the total of the cheapest by the number of GPUs.
[[nodiscard]] inline cost_units shard_lower_bound(shard_problem const& problem,
                                                  workspace::frame& scratch)
{
  std::size_t const classes = problem.classes.size();
  std::span<std::uint64_t> const covered = scratch.take<std::uint64_t>(classes);
  find_covered_gpus(problem, covered);

  cost_units low = 0;
  uint128 total = 0;
  for (std::size_t sample = 0; sample < problem.samples(); ++sample) {
    least_area const least = least_area_of(problem, sample, no_cost - 1);
    low = std::max(low, least.shortest);
    total += least.area;
  }
  low = std::max(low, static_cast<cost_units>((total + problem.gpus - 1) / problem.gpus));

  // What no limit from `low` on restricts is added up once.
  std::span<uint128> const always = scratch.take<uint128>(classes);
  std::span<uint128> const area = scratch.take<uint128>(classes);
  std::span<std::uint32_t> const restricted = scratch.take<std::uint32_t>(problem.samples());
  std::fill(always.begin(), always.end(), uint128{0});
  std::size_t count = 0;
  for (std::uint32_t const sample : problem.by_length) {
    least_area const least = least_area_of(problem, sample, low);
    if (least.longest > low) {
      restricted[count++] = sample;
    } else {
      always[least.first_class] += least.area;
    }
  }
  auto const suffices = [&](cost_units limit) {
    std::copy(always.begin(), always.end(), area.begin());
    for (std::uint32_t const sample : restricted.first(count)) {
      least_area const least = least_area_of(problem, sample, limit);
      area[least.first_class] += least.area;  // there is one: no limit is below its shortest time
    }
    uint128 sum = 0;
    for (std::size_t at = classes; at > 0; --at) {
      sum += area[at - 1];
      auto const most = static_cast<uint128>(covered[at - 1]) * static_cast<std::uint64_t>(limit);
      if (sum > most) { return false; }
    }
    return true;
  };

  // Steps that double find a limit that suffices, bisection finds the smallest.
  cost_units high = low;
  for (cost_units step = std::max<cost_units>(1, low / 64); !suffices(high); step *= 2) {
    low = high + 1;
    high = no_cost - high > 2 * step ? high + step : no_cost - 1;
    if (step > no_cost / 8) { step /= 2; }
  }
  while (low < high) {
    cost_units const middle = low + (high - low) / 2;
    if (suffices(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace ballast::inline v0::detail
