// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_EXCHANGES_HPP
#define BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_EXCHANGES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/padding/finishing_times.hpp>
#include <ballast/partition/published/detail/attention_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PUBLISHED_DETAIL_ATTENTION_EXCHANGES_HPP
