// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/concepts.hpp>

namespace ballast::inline v0::detail {

/// Looks for batches of which none costs more than a limit, by their corners: the corner of a batch
/// is its longest source and its longest target.
///
/// A batch of some corner holds a number of samples within the limit, whichever they are, as long as
/// none is beyond the corner. So a plan is known by its corners: samples in descending order of
/// sources each go to the batch that has room with the shortest target that reaches theirs, of those
/// whose source does, which leaves the longer targets to those that need them. Corners are chosen in
/// the same order, depth first. What is left after some of them is hopeless where even batches of
/// one length, `fewest_padded`, would be too many for what the chosen ones do not hold.
///
/// Complexity  O(looks) for each limit; where samples are of few kinds, pairs of lengths, that is all
///             sets of corners.
template <class Problem>
class corner_search {
 public:
  explicit corner_search(Problem const& problem) : problem_(problem), order_(problem.lengths.size())
  {
    std::iota(order_.begin(), order_.end(), 0U);
    auto const lengths = problem.lengths;
    std::sort(order_.begin(), order_.end(), [lengths](std::uint32_t a, std::uint32_t b) {
      return precedes(lengths[b].source, lengths[a].source, lengths[b].target, lengths[a].target, a,
                      b);
    });
    for (std::uint32_t const sample : order_) {
      if (kinds_.empty() || kinds_.back().lengths != lengths[sample]) {
        kinds_.push_back({lengths[sample], 0, problem.alone(sample)});
        targets_.push_back(lengths[sample].target);
      }
      ++kinds_.back().samples;
    }
    std::sort(targets_.begin(), targets_.end(), std::greater<>{});
    targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
    costliest_first_.resize(kinds_.size());
    std::iota(costliest_first_.begin(), costliest_first_.end(), std::size_t{0});
    std::sort(costliest_first_.begin(), costliest_first_.end(),
              [this](std::size_t a, std::size_t b) {
                return precedes(kinds_[b].cost, kinds_[a].cost, a, b);
              });
  }

  [[nodiscard]] std::size_t kinds() const { return kinds_.size(); }

  /// Whether there are such batches, which it writes, no more than cells; nothing where the looks
  /// were too few to say.
  [[nodiscard]] std::optional<bool> fits(cost_units limit, std::uint64_t looks,
                                         std::span<std::uint32_t> batch_of)
  {
    limit_ = limit;
    looks_ = looks;
    corners_.clear();
    if (choose_from(0, {})) {
      write(batch_of);
      return true;
    }
    return looks_ > 0 ? std::optional(false) : std::nullopt;
  }

 private:
  struct kind {
    padded_lengths lengths;
    std::size_t samples;
    cost_units cost;  // of one alone
  };
  struct batch {
    tokens target;
    std::size_t room;
    std::size_t number;
  };
  using batches = std::vector<batch>;  // in ascending order of targets

  /// Samples that a batch of this corner holds.
  [[nodiscard]] std::size_t room_of(padded_lengths corner) const
  {
    auto const within = [&](std::int64_t most, std::int64_t each) {
      return each == 0 ? problem_.lengths.size() : static_cast<std::size_t>(most / each);
    };
    return std::min(within(limit_, problem_.cost_of(corner.source, corner.target)),
                    within(problem_.most_weight, problem_.weight_of(corner.source, corner.target)));
  }

  /// Puts samples of a kind into open batches; `visit` gets the batch and the number of each part.
  /// Returns how many are left.
  template <class Visit>
  static std::size_t put(kind const& each, batches& open, Visit const& visit)
  {
    std::size_t left = each.samples;
    for (batch& joined : open) {
      if (joined.target < each.lengths.target) { continue; }
      std::size_t const part = std::min(left, joined.room);
      joined.room -= part;
      left -= part;
      visit(joined, part);
      if (left == 0) { break; }
    }
    return left;
  }
  static std::size_t put(kind const& each, batches& open)
  {
    return put(each, open, [](batch const&, std::size_t) {});
  }

  static void begin(batches& open, batch next)
  {
    auto const place = std::find_if(open.begin(), open.end(), [&next](batch const& each) {
      return each.target >= next.target;
    });
    open.insert(place, next);
  }

  /// Whether batches of one length would do for kinds from `first` on.
  [[nodiscard]] bool is_hopeful(std::size_t first, batches open)
  {
    std::size_t number = corners_.size();
    std::size_t room = 0;
    for (std::size_t const at : costliest_first_) {
      if (at < first) { continue; }
      looks_ -= looks_ > 0 ? 1 : 0;
      std::size_t left = put(kinds_[at], open);
      if (left > room) {
        std::size_t const most = room_of(kinds_[at].lengths);
        if (most == 0) { return false; }
        std::size_t const more = (left - room + most - 1) / most;
        number += more;
        room += more * most;
        if (number > problem_.cells()) { return false; }
      }
      room -= left;
    }
    return true;
  }

  [[nodiscard]] bool choose_from(std::size_t first, batches const& open)
  {
    if (first == kinds_.size()) { return true; }
    return is_hopeful(first, open) && choose(first, 0, open);
  }

  /// Goes on with what these batches hold of the source of `first`, if all; then tries one more of
  /// that source, with targets from `target` on.
  [[nodiscard]] bool choose(std::size_t first, std::size_t target, batches const& open)
  {
    tokens const source = kinds_[first].lengths.source;
    batches filled = open;
    std::size_t next = first;
    while (next < kinds_.size() && kinds_[next].lengths.source == source &&
           put(kinds_[next], filled) == 0) {
      ++next;
    }
    bool const is_held = next == kinds_.size() || kinds_[next].lengths.source != source;
    if (is_held && choose_from(next, filled)) { return true; }
    if (corners_.size() == problem_.cells()) { return false; }
    for (; target < targets_.size() && looks_ > 0; ++target) {
      padded_lengths const corner{source, targets_[target]};
      std::size_t const room = room_of(corner);
      if (room == 0) { continue; }
      filled = open;
      begin(filled, {corner.target, room, corners_.size()});
      corners_.push_back(corner);
      if (is_hopeful(first, filled) && choose(first, target, filled)) { return true; }
      corners_.pop_back();
    }
    return false;
  }

  void write(std::span<std::uint32_t> batch_of) const
  {
    batches open;
    std::size_t number = 0;
    auto sample = order_.begin();
    for (kind const& each : kinds_) {
      for (; number < corners_.size() && corners_[number].source >= each.lengths.source; ++number) {
        begin(open, {corners_[number].target, room_of(corners_[number]), number});
      }
      put(each, open, [&](batch const& joined, std::size_t part) {
        for (; part > 0; --part) {
          batch_of[*sample++] = static_cast<std::uint32_t>(joined.number);
        }
      });
    }
  }

  Problem const& problem_;
  std::vector<std::uint32_t> order_;  // samples, longest source first, then longest target
  std::vector<kind> kinds_;           // in the same order
  std::vector<std::size_t> costliest_first_;
  std::vector<tokens> targets_;  // the longest first
  std::vector<padded_lengths> corners_;
  cost_units limit_ = 0;
  std::uint64_t looks_ = 0;
};

/// Samples from the costliest to the cheapest alone, of equal ones the lower number first.
template <class Problem>
[[nodiscard]] std::vector<std::uint32_t> costliest_first(Problem const& problem)
{
  std::vector<std::uint32_t> order(problem.lengths.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&problem](std::uint32_t a, std::uint32_t b) {
    return precedes(problem.alone(b), problem.alone(a), a, b);
  });
  return order;
}

/// Calls try_order(samples) with orders whose runs pad little: by the cost alone, and by one length
/// in strips, in each of them by the other length, forth and back. Strips have equal shares of
/// the sum of their length; there are 2, 3, 4, 6, 8, ... up to the number of cells, at most 64.
///
/// At last there is a strip for each length.
///
/// Complexity  O(n log n) for each of at most 23 orders.
template <class Problem, class TryOrder>
void padded_orders_of(Problem const& problem, TryOrder const& try_order)
{
  auto const lengths = problem.lengths;
  std::vector<std::uint32_t> order = costliest_first(problem);
  try_order(order);
  std::vector<std::size_t> strip(lengths.size());
  for (bool const by_target : {true, false}) {
    auto const first_of = [&](std::size_t sample) {
      return by_target ? lengths[sample].target : lengths[sample].source;
    };
    auto const second_of = [&](std::size_t sample) {
      return by_target ? lengths[sample].source : lengths[sample].target;
    };
    std::int64_t sum = 0;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) { sum += first_of(sample); }
    if (sum == 0) { continue; }
    std::size_t const most = std::min<std::size_t>(problem.cells(), 64);
    auto const try_strips = [&](std::uint64_t strips) {
      std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return precedes(first_of(b), first_of(a), a, b);
      });
      std::uint64_t const share = static_cast<std::uint64_t>(sum) / strips + 1;
      std::uint64_t before = 0;
      std::uint64_t share_of_last = 0;
      std::size_t number = 0;
      tokens last = first_of(order.front());
      for (std::uint32_t const sample : order) {
        if ((strips <= most || first_of(sample) != last) && before / share != share_of_last) {
          ++number;
          share_of_last = before / share;
        }
        strip[sample] = number;
        last = first_of(sample);
        before += static_cast<std::uint64_t>(last);
      }
      std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (strip[a] != strip[b]) { return strip[a] < strip[b]; }
        if (second_of(a) == second_of(b)) { return a < b; }
        return (second_of(a) > second_of(b)) == (strip[a] % 2 == 0);
      });
      try_order(order);
    };
    for (std::size_t strips = 2; strips <= most;
         strips += strips % 3 == 0 ? strips / 3 : (strips + 1) / 2) {
      try_strips(strips);
    }
    try_strips(static_cast<std::uint64_t>(sum) + 1);
  }
}

/// Fills one batch after the other with the samples of an order, each as long as it costs no more
/// than `limit` and is within the cap, and writes the batch of each. Returns the number of batches,
/// or one more than `most`.
template <class Problem>
[[nodiscard]] std::size_t fill_runs(Problem const& problem, std::span<std::uint32_t const> order,
                                    cost_units limit, std::size_t most,
                                    std::span<std::uint32_t> batch_of)
{
  std::size_t batches = 0;
  std::size_t samples = 0;
  padded_lengths longest;
  for (std::uint32_t const sample : order) {
    padded_lengths const together = longest.with(problem.lengths[sample]);
    bool const joins = samples > 0 && problem.cost(samples + 1, together) <= limit &&
                       problem.fits(samples + 1, together);
    longest = joins ? together : problem.lengths[sample];
    samples = joins ? samples + 1 : 1;
    batches += joins ? 0 : 1;
    if (batches > most || (!joins && problem.cost(1, longest) > limit)) { return most + 1; }
    batch_of[sample] = static_cast<std::uint32_t>(batches - 1);
  }
  return batches;
}

/// Writes the batches of an order with the least limit, of those that bisection looks at, from `low`
/// on, that needs no more batches than there are cells. Returns whether there is one.
template <class Problem>
[[nodiscard]] bool fill_evenly(Problem const& problem, std::span<std::uint32_t const> order,
                               cost_units low, std::span<std::uint32_t> batch_of)
{
  cost_units const most = problem.cost(problem.lengths.size(), problem.longest());
  auto const fills = [&](cost_units limit) {
    return fill_runs(problem, order, limit, problem.cells(), batch_of) <= problem.cells();
  };
  cost_units high = low;
  for (cost_units step = low / 64 + 1; !fills(high); step *= 2) {
    if (high == most) { return false; }
    low = high + 1;
    high = std::min(high + step, most);
  }
  return fills(least_that(low, high, fills));
}

/// Gives batches to cells: the costliest to the rank with the least load that has a slot left.
template <class Problem>
void deal_batches(Problem const& problem, std::span<std::uint32_t const> batch_of,
                  std::span<cell_id> owner)
{
  struct one {
    std::size_t samples = 0;
    padded_lengths longest;
    cost_units cost = 0;
    cell_id cell{};
  };
  std::vector<one> batches(problem.cells());
  for (std::size_t sample = 0; sample < batch_of.size(); ++sample) {
    one& own = batches[batch_of[sample]];
    ++own.samples;
    own.longest = own.longest.with(problem.lengths[sample]);
  }
  std::vector<std::size_t> order(batches.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (one& each : batches) { each.cost = problem.cost(each.samples, each.longest); }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return batches[a].cost > batches[b].cost || (batches[a].cost == batches[b].cost && a < b);
  });
  struct rank {
    cost_units load = 0;
    std::size_t number = 0;
    std::size_t filled = 0;
  };
  std::vector<rank> ranks(problem.ranks);
  for (std::size_t at = 0; at < ranks.size(); ++at) { ranks[at].number = at; }
  auto const has_more = [](rank const& a, rank const& b) {
    return a.load > b.load || (a.load == b.load && a.number > b.number);
  };
  for (std::size_t const batch : order) {
    std::pop_heap(ranks.begin(), ranks.end(), has_more);
    rank& own = ranks.back();
    batches[batch].cell = to_id<cell_id>(own.filled * problem.ranks + own.number);
    own.load += batches[batch].cost;
    if (++own.filled == problem.slots) {
      ranks.pop_back();
    } else {
      std::push_heap(ranks.begin(), ranks.end(), has_more);
    }
  }
  for (std::size_t sample = 0; sample < batch_of.size(); ++sample) {
    owner[sample] = batches[batch_of[sample]].cell;
  }
}

// A batch costs at least its number of samples times the most that one of them costs alone. So
// bounds for samples of one length, their cost alone, hold for samples of two.

/// Batches that samples need of which none costs more than `limit`: exact for one length.
///
/// Expects     costs descend, and the first is at most `limit`.
[[nodiscard]] inline std::size_t fewest_padded(std::span<cost_units const> costs, cost_units limit)
{
  std::size_t batches = 0;
  for (std::size_t at = 0; at < costs.size(); ++batches) {
    std::size_t const rest = costs.size() - at;
    at += costs[at] == 0 ? rest : std::min(rest, static_cast<std::size_t>(limit / costs[at]));
  }
  return batches;
}

/// The least cost that the largest of so many batches can have.
[[nodiscard]] inline cost_units least_largest_padded(std::span<cost_units const> costs,
                                                     std::size_t batches)
{
  if (costs.empty()) { return 0; }
  cost_units const one_batch = costs.front() * static_cast<cost_units>(costs.size());
  return least_that(costs.front(), one_batch,
                    [&](cost_units limit) { return fewest_padded(costs, limit) <= batches; });
}

/// The least that all of at most so many batches cost together.
///
/// Batches are runs of descending costs, since each sample is best off in the batch with the least
/// longest sample that is no shorter. A fee for each batch takes the place of their number: the
/// least sum with the fee, less the fees of all batches that are allowed, is a bound for any fee, and
/// for the best fee it is the least sum, which is convex in the number of batches.
///
/// Expects     costs descend; n times the first is at most 2^61.
/// Complexity  O(n log n) for each of O(log(sum of costs)) fees: of two runs, that which begins
///             later is better from some end on, so ends are shared out among beginnings.
/// Source      F. F. Yao, "Efficient dynamic programming using quadrangle inequalities", STOC 1980;
///             the fee is a Lagrange multiplier.
class least_padded_sum {
 public:
  explicit least_padded_sum(std::span<cost_units const> costs)
      : costs_(costs), sums_(costs.size() + 1)
  {}

  [[nodiscard]] cost_units within(std::size_t batches)
  {
    if (costs_.empty()) { return 0; }
    cost_units const one_batch = costs_.front() * static_cast<cost_units>(costs_.size());
    cost_units const best = least_that(cost_units{0}, one_batch, [&](cost_units fee) {
      cost_units const with_more = least_with_fee(fee + 1);
      return static_cast<std::size_t>(with_more - least_with_fee(fee)) <= batches;
    });
    // Fees may take more than 64 bits; the difference does not.
    return static_cast<cost_units>(static_cast<std::uint64_t>(least_with_fee(best)) -
                                   static_cast<std::uint64_t>(best) * batches);
  }

 private:
  struct beginning {
    std::size_t first = 0;
    std::size_t from = 0;  ///< the first end for which no earlier beginning is better
  };

  std::span<cost_units const> costs_;
  std::vector<cost_units> sums_;  // the least for so many first samples, with fees
  std::vector<beginning> best_;

  [[nodiscard]] cost_units ends_at(std::size_t first, std::size_t end) const
  {
    return sums_[first] + static_cast<cost_units>(end - first) * costs_[first];
  }

  [[nodiscard]] std::size_t takes_over(std::size_t earlier, std::size_t later) const
  {
    return least_that(later + 1, costs_.size() + 1, [&](std::size_t end) {
      return ends_at(later, end) <= ends_at(earlier, end);
    });
  }

  [[nodiscard]] cost_units least_with_fee(cost_units fee)
  {
    best_.clear();
    std::size_t head = 0;
    for (std::size_t end = 1; end <= costs_.size(); ++end) {
      beginning next{end - 1, end};
      while (best_.size() > head) {
        next.from = takes_over(best_.back().first, next.first);
        if (best_.size() - head < 2 || next.from > best_.back().from) { break; }
        best_.pop_back();
      }
      best_.push_back(next);
      while (head + 1 < best_.size() && best_[head + 1].from <= end) { ++head; }
      sums_[end] = ends_at(best_[head].first, end) + fee;
    }
    return sums_.back();
  }
};

/// Samples of two lengths for the cells of a grid: cell c is slot c / ranks of rank c % ranks.
template <class CostOf, class WeightOf>
struct padded_problem {
  std::span<padded_lengths const> lengths;
  std::size_t ranks;
  std::size_t slots;
  std::int64_t most_weight;
  CostOf const& cost_of;
  WeightOf const& weight_of;

  [[nodiscard]] std::size_t cells() const { return ranks * slots; }
  [[nodiscard]] cost_units cost(std::size_t samples, padded_lengths longest) const
  {
    if (samples == 0) { return 0; }
    return static_cast<cost_units>(samples) * cost_of(longest.source, longest.target);
  }
  [[nodiscard]] bool fits(std::size_t samples, padded_lengths longest) const
  {
    return samples == 0 ||
           static_cast<std::int64_t>(samples) * weight_of(longest.source, longest.target) <=
               most_weight;
  }
  [[nodiscard]] cost_units alone(std::size_t sample) const { return cost(1, lengths[sample]); }
  [[nodiscard]] padded_lengths longest() const
  {
    padded_lengths all;
    for (padded_lengths const each : lengths) { all = all.with(each); }
    return all;
  }
};

/// Refuses lengths below 0, costs or weights that a batch of all samples would take above 61 bits,
/// and a sample that is above the cap by itself.
template <class CostOf, class WeightOf>
[[nodiscard]] result<void> check_padded(padded_problem<CostOf, WeightOf> const& problem)
{
  if (problem.ranks == 0 || problem.slots == 0) {
    return fail(error_code::out_of_range, 0, "a step was to be planned for ",
                counted(problem.ranks, "rank"), " with ", counted(problem.slots, "microbatch"),
                " each; give at least 1 of both");
  }
  constexpr std::size_t most_cells = std::size_t{1} << 31;
  if (problem.ranks > most_cells || problem.slots > most_cells / problem.ranks ||
      problem.lengths.size() > most_cells) {
    return fail(error_code::out_of_range, 0, "a step has ",
                counted(problem.lengths.size(), "sample"), " for ", problem.ranks, " x ",
                problem.slots, " cells; at most 2^31 of both");
  }
  for (std::size_t sample = 0; sample < problem.lengths.size(); ++sample) {
    auto const [source, target] = problem.lengths[sample];
    if (std::min(source, target) < 0 || std::max(source, target) > longest_sample) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has the lengths ", source,
                  " and ", target, "; give lengths from 0 to ", longest_sample);
    }
  }
  auto const [source, target] = problem.longest();
  constexpr uint128 most = uint128{1} << 61;
  for (std::int64_t const largest :
       {problem.cost_of(source, target), problem.weight_of(source, target)}) {
    if (largest < 0 || static_cast<uint128>(largest) * problem.lengths.size() > most) {
      return fail(error_code::out_of_range, 0, "a sample padded to ", source, " and ", target,
                  " costs or weighs ", largest, ", and ",
                  counted(problem.lengths.size(), "such sample"),
                  " have to stay within 0 to 2^61; use a coarser unit");
    }
  }
  for (std::size_t sample = 0; sample < problem.lengths.size(); ++sample) {
    padded_lengths const own = problem.lengths[sample];
    if (!problem.fits(1, own)) {
      return fail(error_code::infeasible, sample, "sample ", sample, " of weight ",
                  problem.weight_of(own.source, own.target), " is above the cap of a batch, ",
                  problem.most_weight, "; split it, leave it out or raise the cap");
    }
  }
  return {};
}

}  // namespace ballast::inline v0::detail
