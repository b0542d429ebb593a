// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/relieve_worst.hpp>
#include <ballast/partition/detail/exchange/settle_bags.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/exchange/swap_extremes.hpp>
#include <ballast/partition/makespan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// A plan as `swap_extremes` and `settle_latest` change it, with any numbers of samples in a bag:
/// candidates lie all over the lighter half of a bag, and swaps look at all of its samples. That
/// works whatever the spread of costs is, where the lightest samples alone have nearly equal sums.
class whole_bag_exchanges {
 public:
  struct exchange_type {
    bag_exchange chosen;
    cost_units net = 0;
  };

  /// Keeps a reference to `plan`.
  explicit whole_bag_exchanges(bag_exchanges& plan) noexcept : plan_(plan) {}

  [[nodiscard]] std::span<cost_units const> loads() const noexcept { return plan_.loads(); }
  [[nodiscard]] std::uint32_t speed(std::size_t bag) const noexcept { return plan_.speed(bag); }
  [[nodiscard]] work_budget& work() const noexcept { return plan_.work(); }

  [[nodiscard]] exchange_type find(std::size_t late, std::size_t early, wanted_net wanted,
                                   std::size_t candidates)
  {
    return with_net(plan_.find_spread(late, early, wanted, candidates));
  }
  [[nodiscard]] exchange_type find_swap(std::size_t late, std::size_t early)
  {
    return with_net(plan_.find_swap(late, early));
  }
  void make(exchange_type const& chosen) noexcept { plan_.make(chosen.chosen); }

 private:
  [[nodiscard]] static exchange_type with_net(bag_exchange const& chosen) noexcept
  {
    return {chosen, chosen.found.net};
  }

  bag_exchanges& plan_;
};

/// Exchanges samples between bags until the makespan is `target`, nothing more helps, or the work
/// is spent.
///
/// No one search suits all costs. `settle_bags` takes the lightest samples, whose sums are dense
/// where costs have a long tail, and needs few exchanges for large steps. Where costs are nearly
/// equal it stands still, and swaps and candidates all over the bags get on. So the searches begin
/// one after the other at the same plan, first the one that suits the costs, and the best plan
/// stays. What reaches no target goes on from there: with exchanges of the latest bag that gather
/// room, and then with random swaps of a few samples, each followed by swaps and exchanges, that
/// are undone where the makespan grew, until sixteen in a row have not made it smaller. A step of
/// few samples is cheap: it tries more often, and moves too, since of samples that fit few bags
/// hardly two can swap.
///
/// Each search may do an amount of work that depends on the step alone, so a search with more work
/// does the same and then more.
///
/// Expects     at least one sample.
/// In, out     loads and owner are a plan and become the best one found; work pays for all.
/// Ensures     (1) the makespan does not grow, neither with time nor with more work
/// Complexity  O(work); 16 (n + m) bytes of scratch besides those of the searches.
class exchange_search {
 public:
  exchange_search(partition_problem const& problem, ratio target, std::span<cost_units> loads,
                  std::span<bag_id> owner, work_budget& work, workspace& memory,
                  workspace::frame& scratch)
      : problem_(problem),
        target_(target),
        loads_(loads),
        owner_(owner),
        work_(work),
        memory_(memory),
        start_{scratch.take<cost_units>(loads.size()), scratch.take<bag_id>(owner.size())},
        best_{scratch.take<cost_units>(loads.size()), scratch.take<bag_id>(owner.size())}
  {}

  void operator()()
  {
    keep(start_);
    keep(best_);
    auto const settle = [this](bag_exchanges& plan, workspace::frame& scratch) {
      settle_bags(plan, target_, scratch)(share(18));
    };
    auto const swap = [this](bag_exchanges& plan, workspace::frame& scratch) {
      whole_bag_exchanges all(plan);
      settle_latest(all, target_, scratch)();
    };
    auto const even_out = [this, &swap](bag_exchanges& plan, workspace::frame& scratch) {
      whole_bag_exchanges all(plan);
      swap_extremes(all, target_, memory_);
      swap(plan, scratch);
    };
    bool const nearly_equal = nearly_equal_costs();
    if (!nearly_equal && from_start(work_.left(), settle)) { return; }
    if (from_start(share(19), even_out) || from_start(share(19), swap)) { return; }
    go_back(best_);
    run(share(nearly_equal ? 16 : 19),
        [this](bag_exchanges& plan, workspace::frame&) { relieve_worst(plan, target_)(); });
    random_source random(owner_.size());
    int const most_failures = owner_.size() <= few_samples ? 256 : 16;
    for (int failures = 0; failures < most_failures && !done(); ++failures) {
      keep(best_);
      ratio const before = makespan();
      work_.spend(owner_.size() + loads_.size());
      change_at_random(random);
      run(share(15), even_out);
      if (makespan() > before) { go_back(best_); }
      if (makespan() < before) { failures = 0; }
    }
  }

 private:
  struct stored_plan {
    std::span<cost_units> loads;
    std::span<bag_id> owner;
  };

  static constexpr std::size_t few_samples = 16;
  static constexpr int random_changes = 4;

  /// Whether the middle four fifths of all costs differ by less than a factor of two.
  [[nodiscard]] bool nearly_equal_costs() const noexcept
  {
    auto const order = problem_.heaviest_first;
    std::size_t const tenth = order.size() / 10;
    return order[tenth].cost / 2 < order[order.size() - 1 - tenth].cost;
  }

  [[nodiscard]] std::uint64_t share(unsigned log2_steps) const noexcept
  {
    return (std::uint64_t{1} << log2_steps) + 8 * owner_.size();
  }

  [[nodiscard]] ratio makespan() const noexcept { return makespan_of(loads_, problem_.speeds); }
  [[nodiscard]] bool done() const noexcept { return work_.spent() || makespan() <= target_; }

  void keep(stored_plan plan) const
  {
    std::copy(loads_.begin(), loads_.end(), plan.loads.begin());
    std::copy(owner_.begin(), owner_.end(), plan.owner.begin());
  }
  void go_back(stored_plan plan) const
  {
    std::copy(plan.loads.begin(), plan.loads.end(), loads_.begin());
    std::copy(plan.owner.begin(), plan.owner.end(), owner_.begin());
  }

  template <class Search>
  void run(std::uint64_t most, Search const& search)
  {
    auto scratch = memory_.open();
    work_budget left(std::min(most, work_.left()));
    std::uint64_t const before = left.left();
    bag_exchanges plan(problem_, loads_, owner_, left, memory_, scratch);
    search(plan, scratch);
    work_.spend(before - left.left());
  }

  /// Runs a search on the plan of the start and keeps what is best. Returns whether that is all.
  template <class Search>
  bool from_start(std::uint64_t most, Search const& search)
  {
    if (work_.spent()) { return true; }
    go_back(start_);
    run(most, search);
    if (makespan() < makespan_of(best_.loads, problem_.speeds)) { keep(best_); }
    if (!done()) { return false; }
    go_back(best_);
    return true;
  }

  void change_at_random(random_source& random) const
  {
    for (int change = 0; change < random_changes; ++change) {
      auto const one = static_cast<std::size_t>(random.below(owner_.size()));
      if (owner_.size() <= few_samples && random.below(2) == 0) {
        auto const to = static_cast<std::size_t>(random.below(loads_.size()));
        if (problem_.fits(one, to)) { move(one, to); }
        continue;
      }
      auto const other = static_cast<std::size_t>(random.below(owner_.size()));
      std::size_t const from = to_index(owner_[one]);
      std::size_t const to = to_index(owner_[other]);
      if (from == to || !problem_.fits(one, to) || !problem_.fits(other, from)) { continue; }
      move(one, to);
      move(other, from);
    }
  }

  void move(std::size_t sample, std::size_t bag) const
  {
    loads_[to_index(owner_[sample])] -= problem_.costs[sample];
    loads_[bag] += problem_.costs[sample];
    owner_[sample] = to_id<bag_id>(bag);
  }

  partition_problem const& problem_;
  ratio target_;
  std::span<cost_units> loads_;
  std::span<bag_id> owner_;
  work_budget& work_;
  workspace& memory_;
  stored_plan start_;
  stored_plan best_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_SEARCH_HPP
