// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_SETTLE_BAGS_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_SETTLE_BAGS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/bounds/work_limits.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace ballast::inline v0::detail {

/// A bag and how far its load is above its limit.
struct surplus_bag {
  cost_units surplus;
  std::uint32_t index;
};

/// A priority queue of bags in the caller's memory: first the one with the largest surplus, or with
/// the smallest; of equal ones the first.
template <bool LargestFirst>
class surplus_queue {
 public:
  explicit surplus_queue(std::span<surplus_bag> memory) noexcept : bags_(memory) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] surplus_bag top() const noexcept { return bags_.front(); }
  void clear() noexcept { size_ = 0; }
  void push(surplus_bag bag) noexcept
  {
    bags_[size_++] = bag;
    std::push_heap(bags_.data(), bags_.data() + size_, later);
  }
  surplus_bag pop() noexcept
  {
    std::pop_heap(bags_.data(), bags_.data() + size_, later);
    return bags_[--size_];
  }

 private:
  static constexpr bool later(surplus_bag a, surplus_bag b) noexcept
  {
    if (a.surplus == b.surplus) { return a.index > b.index; }
    return LargestFirst ? a.surplus < b.surplus : a.surplus > b.surplus;
  }

  std::span<surplus_bag> bags_;
  std::size_t size_ = 0;
};

/// Brings every bag down to the load with which it finishes by `target`, if exchanges between two
/// bags at a time can.
///
/// The heaviest bag gives its surplus to the lightest, and is done if some exchange moves exactly
/// the surplus, or little more. That takes nothing that other bags need, so about m - 1 such
/// exchanges finish the plan, however little slack there is. A first pass with few candidates
/// brings all bags near their limits at low cost. Later passes look at as many candidates as make
/// exact exchanges likely, if it can search that many, or else at ever more of them.
///
/// Ensures     (1) the makespan never grows
///             (2) it returns whether every bag finishes by `target`
/// Complexity  O(m log m) per pass and the exchanges, until the work of `plan` is spent; 40 m bytes
///             of scratch.
class settle_bags {
 public:
  settle_bags(bag_exchanges& plan, ratio target, workspace::frame& scratch)
      : plan_(plan),
        limits_(scratch.take<cost_units>(plan.bags())),
        heavy_(scratch.take<surplus_bag>(plan.bags())),
        light_(scratch.take<surplus_bag>(plan.bags()))
  {
    uint128 room = 0;
    uint128 work = 0;
    for (std::size_t bag = 0; bag < plan.bags(); ++bag) {
      limits_[bag] = work_until(target, plan.speed(bag));
      room += static_cast<std::uint64_t>(limits_[bag]);
      work += static_cast<std::uint64_t>(plan.load(bag));
    }
    far_surplus_ = static_cast<cost_units>(work >> 16);
    if (room > work) { slack_ = static_cast<cost_units>((room - work) / plan.bags()); }
  }

  /// Once it has done as much work as `patience` says, it goes on only while the limits are near.
  bool operator()(std::uint64_t patience = std::numeric_limits<std::uint64_t>::max())
  {
    std::uint64_t const all_work = plan_.work().left();
    cost_units surplus = queue_all();
    int idle_passes = 0;
    for (std::size_t count = few; surplus > 0 && !light_.empty() && !plan_.work().spent();) {
      bool const started = count > few;
      std::size_t const dense =
          plan_.dense_candidates(heavy_.top().index, light_.top().index, slack_);
      // Every heavy bag gives its surplus to a light one, which often becomes heavy itself.
      bool const exact =
          started && dense <= affordable &&
          std::uint64_t{2 * heavy_.size()} << (dense + 1) <= cheap + all_work - plan_.work().left();
      if (exact) { count = std::max(count, dense); }
      pass(count, exact);
      cost_units const left = queue_all();
      // From a poor plan a first pass brings the limits a little nearer, and so do the next.
      bool const pays = started ? left < surplus - surplus / 4
                                : left > surplus / 2 && left < surplus - surplus / 32;
      // Where costs are nearly equal or of few kinds, more candidates do not help either.
      idle_passes = started && left > surplus - surplus / 8 ? idle_passes + 1 : 0;
      surplus = left;
      bool const far = surplus > far_surplus_;
      if (far && (idle_passes == 2 || all_work - plan_.work().left() > patience)) { break; }
      if (pays) { continue; }
      if (count == subset_sum::most_members) { break; }
      count = std::min(count + (exact ? 1 : 2), subset_sum::most_members);
    }
    return heavy_.empty();
  }

 private:
  static constexpr std::size_t few = 3;
  static constexpr std::size_t affordable = 12;  // candidates per bag, for exact exchanges
  static constexpr std::size_t partners = 3;     // to try for an exact exchange
  // Steps that a pass of exact exchanges may always take; a longer one has to wait until as many
  // have been spent, so that a large step is near its limits before its work is spent.
  static constexpr std::uint64_t cheap = std::uint64_t{1} << 20;

  // Queues all bags above their limits and all below. Returns what is above, summed up.
  cost_units queue_all()
  {
    heavy_.clear();
    light_.clear();
    cost_units surplus = 0;
    for (std::size_t bag = 0; bag < plan_.bags(); ++bag) {
      surplus += std::max(queue(bag), cost_units{0});
    }
    plan_.work().spend(plan_.bags());
    return surplus;
  }

  cost_units queue(std::size_t bag)
  {
    cost_units const surplus = plan_.load(bag) - limits_[bag];
    if (surplus > 0) { heavy_.push({surplus, static_cast<std::uint32_t>(bag)}); }
    if (surplus < 0) { light_.push({surplus, static_cast<std::uint32_t>(bag)}); }
    return surplus;
  }

  // Takes each heavy bag once, and each light one as long as it is light.
  void pass(std::size_t count, bool exact)
  {
    while (!heavy_.empty() && !light_.empty() && !plan_.work().spent()) {
      surplus_bag const heavy = heavy_.pop();
      std::array<surplus_bag, partners> tried{};
      std::size_t count_tried = 0;
      bag_exchange best;
      bool settled = false;
      while (!settled && !light_.empty() && count_tried < (exact ? partners : 1)) {
        surplus_bag const light = tried[count_tried++] = light_.pop();
        bag_exchange const found = find(heavy, light, count, exact);
        if (off(found, heavy) < off(best, heavy)) { best = found; }
        settled = best.found.net >= heavy.surplus && off(best, heavy) <= slack_;
      }
      if (best.found.net > 0) { plan_.make(best); }
      for (surplus_bag const light : span_of(tried, 0, count_tried)) { queue(light.index); }
    }
  }

  // How far an exchange misses the surplus; no exchange misses all of it.
  [[nodiscard]] static cost_units off(bag_exchange const& chosen, surplus_bag heavy) noexcept
  {
    cost_units const net = chosen.found.net;
    return net < heavy.surplus ? heavy.surplus - net : net - heavy.surplus;
  }

  // An exchange after which both bags finish earlier than the heavy one did. Where it need not be
  // exact, it leaves each of them half of what they have above their limits together.
  [[nodiscard]] bag_exchange find(surplus_bag heavy, surplus_bag light, std::size_t count,
                                  bool exact)
  {
    cost_units const most =
        work_before(plan_.finish(heavy.index), plan_.speed(light.index)) - plan_.load(light.index);
    if (most < 1) { return {}; }
    cost_units const common = heavy.surplus + light.surplus;
    cost_units const share = exact || common < 0 ? 0 : common / 2;
    cost_units const least = std::min(heavy.surplus - share, most);
    cost_units const enough = least + std::min(slack_, most - least);
    return plan_.find(heavy.index, light.index, {least, enough, most}, count);
  }

  bag_exchanges& plan_;
  std::span<cost_units> limits_;
  surplus_queue<true> heavy_;
  surplus_queue<false> light_;
  cost_units slack_ = 0;        // of all bags together, per bag
  cost_units far_surplus_ = 0;  // of all bags together: more of it is far from the limits
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_SETTLE_BAGS_HPP
