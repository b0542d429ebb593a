// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/partition_plan.hpp>

#include <bit>

namespace ballast::inline v0::detail {

/// Whether samples fit into identical bags, for steps on which bag completion alone stands still:
/// two or three samples per bag and dozens of bags.
///
/// The first bags are filled as bag completion does, and the linear program over patterns decides
/// about what is left, a dozen bags at first, then more and more. The first bags take the heavy
/// samples and leave the light ones, so where there is a plan there are mostly many, and one of the
/// small programs, which take milliseconds, finds one. The last program is that of all bags. If it
/// needs more of them, there is no plan.
///
/// Ensures     as bag_completion
/// Complexity  that of pattern_packing, a few times. 52 n bytes of scratch besides its own.
class pattern_search {
 public:
  /// Expects     room is the largest that bags will have; may_fit them. Its table has a power of
  ///             two of numbers, so that steps of nearly the same size take the same memory.
  pattern_search(std::span<priced_sample const> samples, cost_units room, bag_completion& complete,
                 workspace::frame& scratch)
      : samples_(samples),
        complete_(complete),
        owners_(scratch.take<std::uint32_t>(samples.size())),
        rest_(samples.size(), scratch),
        pack_(std::min(samples.size(), column_generation::most_samples),
              std::min(samples.size(), most_kinds),
              std::min(most_numbers,
                       std::bit_ceil((samples.size() + 1) * (static_cast<std::size_t>(room) + 1))),
              complete, scratch)
  {}

  /// Whether the smallest program has a table that is not too large.
  [[nodiscard]] static bool may_fit(std::size_t samples, std::size_t bags, cost_units room) noexcept
  {
    std::size_t const least = samples * std::min(bags, first_bags) / bags;
    return least <= most_kinds && static_cast<std::size_t>(room) < most_numbers / (least + 1);
  }

  /// Expects     bags are identical, and every sample fits them
  [[nodiscard]] completion operator()(std::span<open_bag const> bags, work_budget& nodes)
  {
    for (std::size_t open = first_bags; open < bags.size() / 4 * 3; open += open / 3) {
      std::uint64_t const most = std::min(nodes.left(), prefix_nodes);
      work_budget left(most);
      std::size_t const kept = bags.size() - open;
      completion const prefix = complete_(samples_, bags, left, kept);
      nodes.spend(most - left.left());
      if (prefix == completion::impossible) { return completion::impossible; }
      if (nodes.spent()) { return completion::out_of_nodes; }
      if (prefix == completion::out_of_nodes) { continue; }
      std::copy(complete_.owners().begin(), complete_.owners().end(), owners_.begin());
      auto const rest = rest_.list(samples_, owners_, kept);
      if (pack_(rest, bags.last(open), nodes) != completion::found) { continue; }
      rest_.fill(pack_.owners(), owners_);
      return completion::found;
    }
    completion const end = pack_(samples_, bags, nodes);
    if (end == completion::found) {
      std::copy(pack_.owners().begin(), pack_.owners().end(), owners_.begin());
    }
    return end;
  }

  /// For each place in the order of the samples, the position of its bag.
  [[nodiscard]] std::span<std::uint32_t const> owners() const noexcept { return owners_; }

 private:
  static constexpr std::size_t first_bags = 12;
  static constexpr std::size_t most_kinds = 256;
  static constexpr std::size_t most_numbers = std::size_t{1} << 20;  // of a knapsack's table
  static constexpr std::uint64_t prefix_nodes = std::uint64_t{1} << 18;

  std::span<priced_sample const> samples_;
  bag_completion& complete_;
  std::span<std::uint32_t> owners_;
  unfilled_samples rest_;
  pattern_packing pack_;
};

/// Narrows the interval between a lower bound and the makespan of a plan: for one T after the
/// other, it searches for a plan of at most that makespan. `bag_completion` decides most T at once.
/// Where it does not, and bags are identical, `pattern_search` follows, and what that leaves open
/// goes back to `bag_completion`.
///
/// Samples without cost stay where the plan has them.
///
/// Complexity  O(nodes); 48 n + 80 m bytes of scratch, and up to 5 MB for `pattern_search`.
class makespan_search {
 public:
  makespan_search(partition_problem const& problem, std::span<cost_units const> starts,
                  workspace::frame& scratch)
      : problem_(problem),
        starts_(starts),
        samples_(costly(problem.heaviest_first)),
        bags_(scratch.take<open_bag>(starts.size())),
        complete_(samples_.size(), problem.lengths, starts.size(), scratch),
        scratch_(scratch),
        fastest_(*std::max_element(problem.speeds.begin(), problem.speeds.end()))
  {
    std::uint32_t const largest = *std::max_element(problem.gpus.begin(), problem.gpus.end());
    for (priced_sample const each : samples_) {
      short_samples_ |= !partition_problem::splits(problem.lengths[to_index(each.sample)], largest);
    }
  }

  /// Searches until the two meet or `nodes` is spent. Each T gets half of the nodes that are left
  /// of a round, and stays undecided when these are not enough; the next round has four times as
  /// many, and comes only if `nodes` are more than this one has.
  /// So a search with more nodes does the same and then more.
  ///
  /// In, out     loads and owner are a plan and become the best one found.
  /// Expects     no plan has a makespan below bound
  /// Returns     a bound not below the given one; no plan has a makespan below it either.
  ratio operator()(ratio bound, work_budget& nodes, std::span<cost_units> loads,
                   std::span<bag_id> owner)
  {
    ratio makespan = makespan_of(loads, problem_.speeds);
    if (!rooms_fit(makespan)) { return bound; }
    if (bound < makespan && nodes.left() > quick_nodes) { prepare_patterns(makespan); }
    ratio open_from = makespan;  // undecided from here to open_to; nothing is at the makespan
    ratio open_to = makespan;
    cost_units stride = 0;
    std::uint64_t const all_nodes = nodes.left();
    std::uint64_t round = first_round;
    work_budget left_of_round(round);
    while (bound < makespan && !nodes.spent()) {
      if (left_of_round.spent()) {  // with more nodes, what stayed undecided may be decided
        if (all_nodes <= round) { break; }
        round *= 4;
        left_of_round = work_budget(round);
        open_from = open_to = makespan;
        stride = 0;
      }
      ratio const undecided_to = std::min(open_from, makespan);
      ratio time = open_from < makespan ? between(open_to, makespan) : makespan;
      if (time == makespan) {
        if (!(bound < undecided_to)) {
          left_of_round = work_budget(0);
          continue;
        }
        cost_units const from = work_until(bound, fastest_);
        stride = std::min(stride, (work_until(undecided_to, fastest_) - from) / 2);
        time = stride > 0 ? ratio{from + stride, fastest_} : bound;
      }
      std::uint64_t const share = left_of_round.left() / 2 + 1;
      work_budget left(std::min(share, nodes.left()));
      std::uint64_t const before = left.left();
      completion const end = fill_by(time, share, left);
      nodes.spend(before - left.left());
      left_of_round.spend(before - left.left());
      stride = end == completion::impossible ? 2 * stride + 1 : 0;
      if (end == completion::found) {
        store(loads, owner);
        makespan = makespan_of(loads, problem_.speeds);
        open_to = makespan <= open_to ? open_from : open_to;
      } else if (end == completion::impossible) {
        bound = next_time(time);
        open_from = open_from <= time ? makespan : open_from;
      } else {
        open_to = open_from < makespan ? std::max(open_to, time) : time;
        open_from = std::min(undecided_to, time);
      }
    }
    return bound;
  }

 private:
  static constexpr std::uint64_t first_round = std::uint64_t{1} << 24;
  static constexpr std::uint64_t quick_nodes = std::uint64_t{1} << 17;  // before patterns are tried

  [[nodiscard]] static std::span<priced_sample const> costly(
      std::span<priced_sample const> heaviest_first)
  {
    auto const free = std::partition_point(heaviest_first.begin(), heaviest_first.end(),
                                           [](priced_sample each) { return each.cost > 0; });
    return heaviest_first.first(static_cast<std::size_t>(free - heaviest_first.begin()));
  }

  /// Whether all that bags could do in this time stays below 2^63, as the search expects.
  [[nodiscard]] bool rooms_fit(ratio time) const
  {
    uint128 all = 0;
    for (std::uint32_t const speed : problem_.speeds) {
      all += static_cast<uint128>(static_cast<std::uint64_t>(time.numerator)) * speed /
             static_cast<std::uint64_t>(time.denominator);
    }
    return all < static_cast<uint128>(no_cost);
  }

  /// For bags that stay identical at every time up to this makespan.
  void prepare_patterns(ratio makespan)
  {
    auto const differ = [](auto const& each) {
      return std::adjacent_find(each.begin(), each.end(), std::not_equal_to{}) != each.end();
    };
    if (differ(problem_.speeds) || differ(starts_) || (short_samples_ && differ(problem_.gpus))) {
      return;
    }
    cost_units const room = work_until(makespan, fastest_) - starts_[0];
    if (pattern_search::may_fit(samples_.size(), starts_.size(), room)) {
      patterns_.emplace(samples_, room, complete_, scratch_);
    }
  }

  /// A time in the middle between two, in units of the fastest bag; `until` where there is none.
  [[nodiscard]] ratio between(ratio after, ratio until) const
  {
    cost_units const least = work_until(after, fastest_) + 1;
    cost_units most = work_until(until, fastest_);
    if (ratio{most, fastest_} == until) { --most; }
    return least > most ? until : ratio{least + (most - least) / 2, fastest_};
  }

  /// The first time after this one at which some bag has done a unit more.
  [[nodiscard]] ratio next_time(ratio time) const
  {
    ratio next{work_until(time, fastest_) + 1, fastest_};
    for (std::uint32_t const speed : problem_.speeds) {
      next = std::min(next, ratio{work_until(time, speed) + 1, speed});
    }
    return next;
  }

  /// Whether some plan has a makespan of at most this time. It may spend `share` nodes; `nodes` are
  /// as many, or all that are left.
  [[nodiscard]] completion fill_by(ratio time, std::uint64_t share, work_budget& nodes)
  {
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      bags_[bag] = {work_until(time, problem_.speeds[bag]) - starts_[bag],
                    short_samples_ ? problem_.gpus[bag] : 1, static_cast<std::uint32_t>(bag)};
    }
    std::sort(bags_.begin(), bags_.end(), [](open_bag a, open_bag b) {
      return precedes(b.gpus, a.gpus, a.room, b.room, a.index, b.index);
    });
    if (!patterns_ || share <= quick_nodes) { return complete(nodes); }
    work_budget quick(std::min(quick_nodes, nodes.left()));
    std::uint64_t const before = quick.left();
    completion const soon = complete(quick);
    nodes.spend(before - quick.left());
    if (soon != completion::out_of_nodes || nodes.spent()) { return soon; }
    completion const end = (*patterns_)(bags_, nodes);
    owners_ = patterns_->owners();
    return end == completion::out_of_nodes ? complete(nodes) : end;
  }

  [[nodiscard]] completion complete(work_budget& nodes)
  {
    completion const end = complete_(samples_, bags_, nodes);
    owners_ = complete_.owners();
    return end;
  }

  void store(std::span<cost_units> loads, std::span<bag_id> owner) const
  {
    std::copy(starts_.begin(), starts_.end(), loads.begin());
    for (std::size_t place = 0; place < samples_.size(); ++place) {
      std::size_t const bag = bags_[owners_[place]].index;
      owner[to_index(samples_[place].sample)] = to_id<bag_id>(bag);
      loads[bag] += samples_[place].cost;
    }
  }

  partition_problem const& problem_;
  std::span<cost_units const> starts_;
  std::span<priced_sample const> samples_;  // those of any cost, heaviest first
  std::span<open_bag> bags_;
  std::span<std::uint32_t const> owners_;  // of what was found, as positions in bags_
  bag_completion complete_;
  std::optional<pattern_search> patterns_;
  workspace::frame& scratch_;
  std::uint32_t fastest_;       // speed
  bool short_samples_ = false;  // some sample does not fit every bag
};

}  // namespace ballast::inline v0::detail
