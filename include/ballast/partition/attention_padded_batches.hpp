// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/greedy/longest_first.hpp>
#include <ballast/partition/detail/padding/attention_filling.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace ballast::inline v0 {

/// OrchMLLM's balancer for encoders whose convolution and linear layers take packed samples while
/// attention pads them: it fills bags with samples in descending order of length, padded to the
/// first of them, up to the makespan of a plan of lengths without padding, and gives the samples
/// that are left one by one to the bag with the least sum of lengths.
///
/// It reads lengths, not costs, and is here for comparison: `attention_padded_batches` balances
/// what the bags will really do and is never worse.
///
/// Expects     the problem has attention parts.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by what attention_padded batches of the samples cost that each
///                 bag now owns
///             (3) the length to fill to is the makespan of longest_processing_time on lengths,
///                 OrchMLLM's Algorithm 1; a batch is as long as its first sample; no more than m
///                 are opened
///             (4) where bags have several speeds, what is counted in tokens is counted per unit of
///                 speed; what bags have to start with is work and not tokens: it does not count
///             (5) ties between bags to add to go as in longest_processing_time
/// Complexity  O(n (kinds + log m)) after a sort.
/// Source      follows Algorithm 5 of B. Xiao, Y. Zheng et al., "OrchMLLM: Orchestrate Multimodal
///             Data with Batch Post-Balancing to Accelerate Multimodal Large Language Model
///             Training", arXiv 2503.23830, 2025.
struct conv_transformer_batches {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    detail::expect_attention(problem);
    auto scratch = memory.open();
    std::span<cost_units> const lengths = scratch.take<cost_units>(owner.size());
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      lengths[sample] = problem.lengths[sample];
    }
    std::span<priced_sample> const longest_first = scratch.take<priced_sample>(lengths.size());
    descending_order_into(longest_first, lengths, memory);
    partition_problem in_tokens = problem;
    in_tokens.costs = lengths;
    in_tokens.heaviest_first = longest_first;
    in_tokens.lower_bound = {};
    place(in_tokens, owner, memory);

    std::span<detail::padded_sum> const batches = scratch.take<detail::padded_sum>(loads.size());
    std::fill(batches.begin(), batches.end(), detail::padded_sum{});
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      cost_units const padded = problem.attention[sample];
      batches[to_index(owner[sample])].add(problem.costs[sample] - padded, padded);
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] += batches[bag].load(); }
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::attention_padded; }

  friend bool operator==(conv_transformer_batches, conv_transformer_batches) = default;

 private:
  // The algorithm itself: all costs are tokens.
  static void place(partition_problem const& in_tokens, std::span<bag_id> owner, workspace& memory)
  {
    auto scratch = memory.open();
    std::span<cost_units> const sums = scratch.take<cost_units>(in_tokens.gpus.size());
    std::fill(sums.begin(), sums.end(), 0);
    detail::finishing_times const times(in_tokens, sums, scratch);
    detail::padded_filling bags(in_tokens, times, scratch);

    longest_processing_time{}(in_tokens, sums, owner, memory);
    uint128 without_padding = 0;
    for (std::size_t bag = 0; bag < sums.size(); ++bag) {
      without_padding = std::max(without_padding, times.finish(bag, sums[bag]));
    }

    std::fill(sums.begin(), sums.end(), 0);
    auto const filled = bags.fill(without_padding, [&](detail::padded_batch const& full) {
      for (auto const [length, sample] : full.samples) {
        owner[to_index(sample)] = to_id<bag_id>(full.bag);
        sums[full.bag] += length;
      }
    });
    detail::lightest_bags const shortest(in_tokens, sums, scratch);
    for (auto const [length, sample] : filled.left) {
      detail::identical_bags* best = &shortest.kinds().front();
      for (detail::identical_bags& kind : shortest.kinds().subspan(1)) {
        if (!partition_problem::splits(in_tokens.lengths[to_index(sample)], kind.gpus)) { break; }
        if (sum_per_speed(kind) < sum_per_speed(*best)) { best = &kind; }
      }
      owner[to_index(sample)] = to_id<bag_id>(best->lightest().index);
      best->add_to_lightest(length);
    }
  }

  [[nodiscard]] static ratio sum_per_speed(detail::identical_bags const& kind) noexcept
  {
    return {kind.lightest().load, kind.speed};
  }
};

namespace detail {

/// Batches that pad attention alone, and exchanges that relieve the one that finishes last.
///
/// Complexity  O(n + m) to build, 16 n + 24 m bytes of scratch; O(n + m log m) to load a plan.
class attention_exchanges {
 public:
  attention_exchanges(std::span<attention_item const> items, partition_problem const& problem,
                      finishing_times const& times, workspace::frame& scratch)
      : items_(items),
        problem_(problem),
        times_(times),
        next_(scratch.take<std::uint32_t>(items.size())),
        bag_of_(scratch.take<std::uint32_t>(items.size())),
        bags_(scratch.take<batch>(problem.gpus.size())),
        lightest_(scratch.take<std::uint32_t>(problem.gpus.size()))
  {}

  /// Takes over a plan: the bag of every sample.
  void load(std::span<bag_id const> owner)
  {
    std::fill(bags_.begin(), bags_.end(), batch{});
    for (std::size_t place = items_.size(); place-- > 0;) {
      auto const bag = static_cast<std::uint32_t>(to_index(owner[items_[place].sample]));
      batch& of = bags_[bag];
      next_[place] = of.first;
      bag_of_[place] = bag;
      of.first = static_cast<std::uint32_t>(place);
      ++of.count;
      of.packed += items_[place].packed;
    }
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) { settle(bag); }
  }

  void store(std::span<bag_id> owner) const
  {
    for (std::size_t place = 0; place < items_.size(); ++place) {
      owner[items_[place].sample] = to_id<bag_id>(bag_of_[place]);
    }
  }

  /// What a bag does besides what it had to start with.
  [[nodiscard]] cost_units work(std::size_t bag) const noexcept
  {
    batch const& of = bags_[bag];
    return of.count == 0 ? 0 : of.packed + of.count * items_[of.first].padded;
  }

  [[nodiscard]] uint128 finish() const noexcept { return bags_[last()].finish; }

  /// Moves one sample from the bag that finishes last to another bag, or swaps it for one there, as
  /// long as both then finish earlier than that, until the last one finishes by `enough`: the best
  /// such exchange with the first bag that has one, of those that finish earliest first.
  ///
  /// In, out     work is how many exchanges to look at, and leaves as what is left of it.
  void relieve(uint128 enough, std::uint64_t& work)
  {
    while (true) {
      std::size_t const from = last();
      if (bags_[from].finish <= enough) { return; }
      for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
        lightest_[bag] = static_cast<std::uint32_t>(bag);
      }
      auto const is_later = [this](std::uint32_t a, std::uint32_t b) {
        return precedes(bags_[b].finish, bags_[a].finish, b, a);
      };
      // A heap, since one of the first bags mostly has an exchange.
      auto const begin = lightest_.begin();
      std::make_heap(begin, lightest_.end(), is_later);
      bool relieved = false;
      for (auto end = lightest_.end(); end != begin; --end) {
        std::pop_heap(begin, end, is_later);
        std::uint32_t const to = *(end - 1);
        if (to == from) { continue; }
        exchange const best = best_exchange(from, to, work);
        if (best.out != none) {
          apply(best, from, to);
          relieved = true;
          break;
        }
        if (work == 0) { return; }
      }
      if (!relieved) { return; }
    }
  }

  /// Moves a sample of the bag that finishes last, and two others, to random bags that they fit.
  void shake(random_source& random)
  {
    if (items_.empty()) { return; }
    std::uint32_t const first = bags_[last()].first;
    for (int moved = 0; moved < 3; ++moved) {
      auto const any = static_cast<std::uint32_t>(random.below(items_.size()));
      std::uint32_t const place = moved == 0 && first != none ? first : any;
      auto const to = static_cast<std::size_t>(random.below(bags_.size()));
      std::size_t const from = bag_of_[place];
      if (to == from || !fits(place, to)) { continue; }
      remove(place, from);
      insert(place, to);
      settle(from);
      settle(to);
    }
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  struct batch {
    uint128 finish = 0;
    cost_units packed = 0;
    cost_units count = 0;
    std::uint32_t first = none;  // places of its items in ascending order
  };
  struct exchange {
    std::uint32_t out = none;  // of the bag that finishes last
    std::uint32_t in = none;   // for it, if anything
  };

  [[nodiscard]] std::size_t last() const noexcept
  {
    auto const earlier = [](batch const& a, batch const& b) { return a.finish < b.finish; };
    return static_cast<std::size_t>(std::max_element(bags_.begin(), bags_.end(), earlier) -
                                    bags_.begin());
  }

  [[nodiscard]] bool fits(std::uint32_t place, std::size_t bag) const noexcept
  {
    return problem_.fits(items_[place].sample, bag);
  }

  /// The largest attention part in a bag without one of its items.
  [[nodiscard]] cost_units level_without(batch const& of, std::uint32_t place) const noexcept
  {
    std::uint32_t const first = of.first == place ? next_[place] : of.first;
    return first == none ? 0 : items_[first].padded;
  }

  [[nodiscard]] exchange best_exchange(std::size_t from, std::size_t to, std::uint64_t& work) const
  {
    batch const& a = bags_[from];
    batch const& b = bags_[to];
    exchange best;
    uint128 earliest = a.finish;
    cost_units const level_b = b.first == none ? 0 : items_[b.first].padded;
    for (std::uint32_t out = a.first; out != none; out = next_[out]) {
      if (!fits(out, to)) { continue; }
      attention_item const& leaves = items_[out];
      cost_units const level_a = level_without(a, out);
      cost_units const packed_a = a.packed - leaves.packed;
      work -= work > 0 ? 1 : 0;
      uint128 const moved =
          std::max(times_.finish(from, packed_a + (a.count - 1) * level_a),
                   times_.finish(to, b.packed + leaves.packed +
                                         (b.count + 1) * std::max(level_b, leaves.padded)));
      if (moved < earliest) {
        earliest = moved;
        best = {out, none};
      }
      for (std::uint32_t in = b.first; in != none; in = next_[in]) {
        attention_item const& comes = items_[in];
        work -= work > 0 ? 1 : 0;
        cost_units const work_a =
            packed_a + comes.packed + a.count * std::max(level_a, comes.padded);
        uint128 const finish_a = times_.finish(from, work_a);
        if (finish_a >= earliest || !fits(in, from)) { continue; }
        cost_units const work_b = b.packed - comes.packed + leaves.packed +
                                  b.count * std::max(level_without(b, in), leaves.padded);
        uint128 const finish_b = times_.finish(to, work_b);
        if (finish_b >= earliest) { continue; }
        earliest = std::max(finish_a, finish_b);
        best = {out, in};
      }
      if (work == 0) { break; }
    }
    return best;
  }

  void apply(exchange const& found, std::size_t from, std::size_t to)
  {
    remove(found.out, from);
    if (found.in != none) {
      remove(found.in, to);
      insert(found.in, from);
    }
    insert(found.out, to);
    settle(from);
    settle(to);
  }

  void remove(std::uint32_t place, std::size_t bag)
  {
    batch& of = bags_[bag];
    std::uint32_t* link = &of.first;
    while (*link != place) { link = &next_[*link]; }
    *link = next_[place];
    --of.count;
    of.packed -= items_[place].packed;
  }

  void insert(std::uint32_t place, std::size_t bag)
  {
    batch& of = bags_[bag];
    std::uint32_t* link = &of.first;
    while (*link < place) { link = &next_[*link]; }  // none comes after all
    next_[place] = *link;
    *link = place;
    bag_of_[place] = static_cast<std::uint32_t>(bag);
    ++of.count;
    of.packed += items_[place].packed;
  }

  void settle(std::size_t bag) { bags_[bag].finish = times_.finish(bag, work(bag)); }

  std::span<attention_item const> items_;
  partition_problem const& problem_;
  finishing_times const& times_;
  std::span<std::uint32_t> next_;
  std::span<std::uint32_t> bag_of_;
  std::span<batch> bags_;
  std::span<std::uint32_t> lightest_;
};

/// Looks through the plans of a few samples whose batches pad attention alone, depth first: samples
/// in descending order of attention, each in every bag where it can still lead to a better plan.
///
/// Of bags that are alike and empty, only the first is tried.
///
/// Ensures     (1) unless `work` is used up, no plan finishes before `best`
/// Complexity  O(m^n) at worst, and O(work m); 24 m + 4 n bytes of scratch.
class attention_search {
 public:
  attention_search(std::span<attention_item const> items, partition_problem const& problem,
                   finishing_times const& times, workspace::frame& scratch)
      : items_(items),
        problem_(problem),
        times_(times),
        bags_(scratch.take<batch>(problem.gpus.size())),
        bag_of_(scratch.take<std::uint32_t>(items.size()))
  {
    std::fill(bags_.begin(), bags_.end(), batch{});
  }

  /// In, out     best is when the plan in `owner` finishes, and leaves smaller where a better plan
  ///             is found, which owner then holds. work is how many bags to look at, and leaves as
  ///             what is left of it.
  void improve(uint128& best, std::uint64_t& work, std::span<bag_id> owner)
  {
    uint128 unplaced = 0;
    for (attention_item const& item : items_) {
      unplaced += static_cast<uint128>(item.padded) + static_cast<uint128>(item.packed);
    }
    place(0, unplaced, 0, best, work, owner);
  }

 private:
  struct batch {
    cost_units packed = 0;
    cost_units count = 0;
    cost_units level = 0;

    [[nodiscard]] cost_units work() const noexcept { return packed + count * level; }
  };

  // `finish` is when the bags finish what they have so far.
  void place(std::size_t next, uint128 unplaced, uint128 finish, uint128& best, std::uint64_t& work,
             std::span<bag_id> owner)
  {
    if (next == items_.size()) {
      best = std::max(finish, start_loads_finish());
      for (std::size_t item = 0; item < items_.size(); ++item) {
        owner[items_[item].sample] = to_id<bag_id>(bag_of_[item]);
      }
      return;
    }
    if (room_before(best) < unplaced) { return; }
    attention_item const& item = items_[next];
    for (std::size_t bag = 0; bag < bags_.size() && work > 0; ++bag) {
      if (!problem_.fits(item.sample, bag) || like_an_earlier_one(bag)) { continue; }
      --work;
      batch const before = bags_[bag];
      batch& with = bags_[bag];
      with.level = before.count == 0 ? item.padded : before.level;
      with.packed += item.packed;
      ++with.count;
      uint128 const then = std::max(finish, times_.finish(bag, with.work()));
      if (then < best) {
        bag_of_[next] = static_cast<std::uint32_t>(bag);
        auto const cost = static_cast<uint128>(item.padded) + static_cast<uint128>(item.packed);
        place(next + 1, unplaced - cost, then, best, work, owner);
      }
      bags_[bag] = before;
    }
  }

  [[nodiscard]] uint128 start_loads_finish() const noexcept
  {
    uint128 finish = 0;
    for (std::size_t bag = 0; bag < bags_.size(); ++bag) {
      finish = std::max(finish, times_.finish(bag, 0));
    }
    return finish;
  }

  // How much work bags can take and finish before a time.
  [[nodiscard]] uint128 room_before(uint128 time) const
  {
    uint128 room = 0;
    for (std::size_t bag = 0; bag < bags_.size() && time > 0; ++bag) {
      cost_units const most = times_.work_until(time - 1, bag);
      room += static_cast<uint128>(std::max(most - bags_[bag].work(), cost_units{0}));
    }
    return room;
  }

  [[nodiscard]] bool like_an_earlier_one(std::size_t bag) const
  {
    if (bags_[bag].count > 0) { return false; }
    for (std::size_t earlier = 0; earlier < bag; ++earlier) {
      if (bags_[earlier].count == 0 && problem_.gpus[earlier] == problem_.gpus[bag] &&
          times_.alike(earlier, bag)) {
        return true;
      }
    }
    return false;
  }

  std::span<attention_item const> items_;
  partition_problem const& problem_;
  finishing_times const& times_;
  std::span<batch> bags_;
  std::span<std::uint32_t> bag_of_;
};

}  // namespace detail

/// Batches whose attention is padded to their longest sample while the rest of their work is
/// packed, with a small makespan and a certificate: b samples cost the sum of what else they cost
/// and b times the largest attention part. With `quadratic_cost{1, lambda}` that is
/// sum l + lambda b max l^2.
///
/// Bags are filled in descending order of attention up to a finishing time, the least one that
/// bisection finds. Exchanges then relieve the bag that finishes last, there and in the plans of
/// conv_transformer_batches and longest_processing_time. The best of the three is shaken three
/// hundred times, in large steps 16 work / n times, by samples that move to random bags, and
/// relieved again. At last, where there are at most 24 samples, a search goes through all plans,
/// until it has looked at 100,000 bags.
///
/// Expects     the problem has attention parts: the front door reads them from an
///             attention_cost_model, as quadratic_cost.
/// Ensures     (1) every sample has one bag, which it fits
///             (2) loads have grown by what attention_padded batches of the samples cost that each
///                 bag now owns
///             (3) the makespan is at most that of conv_transformer_batches
///             (4) no plan of such batches has a makespan below the one returned
///             (5) no move of one sample from the bag that finishes last, and no swap for another,
///                 has both bags finish earlier than that, unless `work` is used up. Where the
///                 search of all plans comes to its end, the plan is an optimum, and proven, but
///                 for speeds whose least common multiple takes more than 32 bits
/// Complexity  O(n log n + m log m); for every time tried that of `detail::attention_filling`,
///             O(n + m log n) where packed work falls with attention; and O(work), with
///             O(m) for every exchange that is made.
/// Source      the objective is that of conv_transformer_batches; filling by bisection follows E. G.
///             Coffman, M. R. Garey, D. S. Johnson, "An Application of Bin-Packing to
///             Multiprocessor Scheduling", SIAM J. Comput. 7(1):1-17, 1978; the bound is
///             `detail::attention_bound`.
struct attention_padded_batches {
  std::uint64_t work = 1'000'000;  ///< how many exchanges, and bags of searched plans, to look at

  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    detail::expect_policy_arrays(problem, loads, owner);
    detail::expect_attention(problem);
    auto scratch = memory.open();
    detail::finishing_times const times(problem, loads, scratch);
    auto const items = detail::sorted_attention_items(problem, scratch);
    detail::attention_bound const bound(items, problem, loads, times, scratch);
    uint128 const least = bound.least_time();
    detail::attention_filling filling(items, problem, times, scratch);
    detail::attention_exchanges batches(items, problem, times, scratch);
    std::span<bag_id> const tried = scratch.take<bag_id>(owner.size());
    std::span<cost_units> const tried_loads = scratch.take<cost_units>(loads.size());

    uint128 const enough = times.finish_anywhere(detail::cost_of_one_batch(items));
    fill_by_bisection(filling, least, enough, tried, owner);
    batches.load(owner);
    std::uint64_t left = work;
    batches.relieve(least, left);
    batches.store(owner);
    uint128 best = batches.finish();
    auto const relieve_and_keep = [&] {
      batches.relieve(least, left);
      if (batches.finish() <= best) {  // equal ones too, so that shaking goes on from another plan
        best = batches.finish();
        batches.store(owner);
      }
    };
    auto const try_from = [&](auto const& policy) {
      if (best <= least) { return; }
      std::copy(loads.begin(), loads.end(), tried_loads.begin());
      std::fill(tried.begin(), tried.end(), to_id<bag_id>(loads.size()));
      run_policy(policy, problem, tried_loads, tried, memory);
      batches.load(tried);
      relieve_and_keep();
    };
    try_from(conv_transformer_batches{});
    try_from(longest_processing_time{});
    ballast::random_source random(1);
    // Each goes through all samples, so large steps have fewer.
    std::uint64_t const most_kicks = std::min(kicks, 16 * (work / (items.size() + 1) + 1));
    for (std::uint64_t kick = 0; kick < most_kicks && best > least; ++kick) {
      batches.load(owner);
      batches.shake(random);
      relieve_and_keep();
      if (left == 0) { break; }
    }
    uint128 proven = least;
    if (best > least && items.size() <= search_up_to) {
      detail::attention_search search(items, problem, times, scratch);
      std::uint64_t bags_to_look_at = std::min(left, search_work);
      search.improve(best, bags_to_look_at, owner);
      if (bags_to_look_at > 0) { proven = best; }
    }

    if (best > proven) {
      detail::cheapest_chain chain(problem, times, scratch);
      if (chain.kinds() > 1) { proven = bound.least_time_of(chain, proven, best, scratch); }
    }
    batches.load(owner);
    if (best > proven) {  // a search that was cut short may end with a plan that exchanges improve
      batches.relieve(proven, left);
      batches.store(owner);
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) { loads[bag] += batches.work(bag); }
    return times.makespan_of_rounded(proven);
  }

  [[nodiscard]] static constexpr batching batches() noexcept { return batching::attention_padded; }

  friend bool operator==(attention_padded_batches, attention_padded_batches) = default;

 private:
  static constexpr std::uint64_t kicks = 300;      // shaken plans to exchange from
  static constexpr std::size_t search_up_to = 24;  // samples: of more, the search does not end
  static constexpr std::uint64_t search_work = 100'000;

  /// Looks for the least time up to 1/16384 of it: exchanges do the rest.
  static void fill_by_bisection(detail::attention_filling& filling, uint128 least, uint128 enough,
                                std::span<bag_id> tried, std::span<bag_id> owner)
  {
    uint128 low = least;
    uint128 high = low;
    auto filled = filling.fill(high, owner);
    for (uint128 step = low / 64 + 1; !filled.placed; step *= 2) {
      low = high;
      high = std::min(high + step, std::max(least, enough));
      filled = filling.fill(high, owner);
    }
    high = std::max(filled.finish, least);
    while (high > low + low / 16384 + 1) {  // a filling may finish before a time that was too short
      uint128 const middle = low + (high - low) / 2;
      filled = filling.fill(middle, tried);
      if (filled.placed) {
        high = std::max(filled.finish, least);
        std::copy(tried.begin(), tried.end(), owner.begin());
      } else {
        low = middle;
      }
    }
  }
};

}  // namespace ballast::inline v0
