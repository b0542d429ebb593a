// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/settle_latest.hpp>
#include <ballast/partition/detail/greedy/lightest_bags.hpp>

namespace ballast::inline v0::detail {

/// Bags that hold a fixed number of samples each. Heaviest first, each sample goes to the bag with
/// a free place that could then finish earliest: with the lightest samples of all in its other
/// places.
///
/// Longest processing time would take the bag that finishes the sample itself earliest. A bag with
/// a giant sample then gets nothing for long, and at the end its free places have to take samples
/// that are too heavy for it.
///
/// With several sizes of bags, a sample goes to no bag that would leave a larger one without enough
/// samples that fit it.
///
/// Shapes      counts[m], loads[m]; every array lives as long as the frame.
/// In, out     loads enters as work that each bag already has and leaves as the total.
/// Expects     counts that `balanced_counts_into` gives: some assignment has them.
/// Ensures     (1) bag b holds counts[b] samples, which fit it, heaviest first
///             (2) of bags of one size and speed a sample goes to the one that can end with least,
///                 of equal ones to the first; of kinds, to the one whose bag then ends earliest,
///                 of equal ones to the smaller, then to the slower
/// Complexity  construction O(n (kinds + log m)); 16 n + 48 m bytes of scratch.
class counted_bags {
 public:
  counted_bags(partition_problem const& problem, std::span<std::uint32_t const> counts,
               std::span<cost_units> loads, workspace::frame& scratch)
      : first_(scratch.take<std::uint32_t>(counts.size() + 1)),
        members_(scratch.take<priced_sample>(problem.heaviest_first.size())),
        loads_(loads)
  {
    first_[0] = 0;
    for (std::size_t bag = 0; bag < counts.size(); ++bag) {
      first_[bag + 1] = first_[bag] + counts[bag];
    }
    BALLAST_EXPECTS(first_.back() == members_.size());
    std::span<std::uint32_t> const next = scratch.take<std::uint32_t>(counts.size());
    std::copy_n(first_.begin(), next.size(), next.begin());

    // What bag b ends with at least. A bag without a free place gets a load above all others, so
    // that it is never the lightest.
    std::span<priced_sample const> const order = problem.heaviest_first;
    std::span<cost_units> const open_loads = scratch.take<cost_units>(counts.size());
    for (std::size_t bag = 0; bag < counts.size(); ++bag) {
      open_loads[bag] = counts[bag] == 0 ? no_cost : loads[bag];
      for (priced_sample const light : order.last(counts[bag])) { open_loads[bag] += light.cost; }
    }
    lightest_bags const bags(problem, open_loads, scratch);
    std::span<identical_bags> const kinds = bags.kinds();
    // spare[k]: samples to come that fit kind k, less the free places of kinds k and larger.
    std::span<std::int64_t> const spare = scratch.take<std::int64_t>(kinds.size());
    std::fill(spare.begin(), spare.end(), 0);
    if (kinds.size() > 1) {
      for (tokens const length : problem.lengths) { ++spare[largest_kind(kinds, length)]; }
      for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
        for (loaded_bag const each : kinds[kind].heap) { spare[kind] -= counts[each.index]; }
      }
      for (std::size_t kind = kinds.size() - 1; kind-- > 0;) { spare[kind] += spare[kind + 1]; }
    }

    // A sample takes the place of the heaviest of the light samples that open_loads counts.
    auto const more_in = [&](std::size_t kind, cost_units cost) {
      std::size_t const bag = kinds[kind].lightest().index;
      return cost - order[order.size() - (first_[bag + 1] - next[bag])].cost;
    };

    for (auto const [cost, sample] : order) {
      std::size_t const largest =
          kinds.size() == 1 ? 0 : largest_kind(kinds, problem.lengths[to_index(sample)]);
      std::size_t best = kinds.size();
      ratio best_finish;
      for (std::size_t kind = largest + 1; kind-- > 0;) {
        if (kinds[kind].lightest().load != no_cost) {
          ratio const finish{kinds[kind].lightest().load + more_in(kind, cost), kinds[kind].speed};
          if (best == kinds.size() || finish <= best_finish) {
            best = kind;
            best_finish = finish;
          }
        }
        if (spare[kind] == 0) { break; }
      }
      for (std::size_t kind = best + 1; kind <= largest; ++kind) { --spare[kind]; }
      std::size_t const bag = kinds[best].lightest().index;
      cost_units const more = more_in(best, cost);
      members_[next[bag]++] = {cost, sample};
      loads_[bag] += cost;
      bool const full = next[bag] == first_[bag + 1];
      kinds[best].add_to_lightest(full ? no_cost - kinds[best].lightest().load : more);
    }
  }

  [[nodiscard]] std::span<priced_sample> operator[](std::size_t bag) const noexcept
  {
    return members_.subspan(first_[bag], first_[bag + 1] - first_[bag]);
  }

  [[nodiscard]] std::span<cost_units> loads() const noexcept { return loads_; }
  /// The samples of all bags, bag after bag.
  [[nodiscard]] std::span<priced_sample> members() const noexcept { return members_; }

  /// Swaps as many samples of two bags, given by their places, and keeps both lists heaviest
  /// first. O(samples of both) for each.
  void swap(std::size_t bag, std::span<std::uint32_t const> given, std::size_t other_bag,
            std::span<std::uint32_t const> taken) const
  {
    BALLAST_EXPECTS(given.size() == taken.size());
    for (std::size_t pair = 0; pair < given.size(); ++pair) {
      priced_sample& from = (*this)[bag][given[pair]];
      priced_sample& to = (*this)[other_bag][taken[pair]];
      loads_[bag] += to.cost - from.cost;
      loads_[other_bag] += from.cost - to.cost;
      std::swap(from, to);
    }
    restore_order((*this)[bag]);
    restore_order((*this)[other_bag]);
  }

  /// Writes the bag of every sample.
  void store(std::span<bag_id> owner) const noexcept
  {
    for (std::size_t bag = 0; bag < loads_.size(); ++bag) {
      for (priced_sample const member : (*this)[bag]) {
        owner[to_index(member.sample)] = to_id<bag_id>(bag);
      }
    }
  }

 private:
  [[nodiscard]] static std::size_t largest_kind(std::span<identical_bags const> kinds,
                                                tokens length) noexcept
  {
    std::size_t kind = kinds.size() - 1;
    while (!partition_problem::splits(length, kinds[kind].gpus)) { --kind; }
    return kind;
  }

  static void restore_order(std::span<priced_sample> list) noexcept
  {
    for (std::size_t sorted = 1; sorted < list.size(); ++sorted) {
      priced_sample const moved = list[sorted];
      std::size_t place = sorted;
      for (; place > 0 && list[place - 1].cost < moved.cost; --place) {
        list[place] = list[place - 1];
      }
      list[place] = moved;
    }
  }

  std::span<std::uint32_t> first_;
  std::span<priced_sample> members_;
  std::span<cost_units> loads_;
};

/// Samples of two bags, by their positions in their lists, that change bags: as many of one as of
/// the other. `net` is how much work `from` loses; 0 means no exchange.
struct counted_exchange {
  std::size_t from = 0;
  std::size_t to = 0;
  std::size_t pairs = 0;
  std::array<std::uint32_t, subset_sum::most_members> given{};
  std::array<std::uint32_t, subset_sum::most_members> taken{};
  cost_units net = 0;
};

/// A plan under local search whose bags keep their counts.
///
/// In, out     work is how much the search may still do.
/// Ensures     (1) every bag keeps its number of samples, and gets only samples that fit it
class counted_exchanges {
 public:
  using exchange_type = counted_exchange;

  counted_exchanges(partition_problem const& problem, counted_bags const& bags, work_budget& work,
                    workspace& memory)
      : problem_(problem), bags_(bags), work_(work), memory_(memory)
  {}

  [[nodiscard]] std::span<cost_units const> loads() const noexcept { return bags_.loads(); }
  [[nodiscard]] std::uint32_t speed(std::size_t bag) const noexcept { return problem_.speeds[bag]; }

  [[nodiscard]] work_budget& work() const noexcept { return work_; }

  /// The best exchange of up to `size` samples of each bag: from the lightest on, spread over the
  /// lighter half. The very lightest alone have nearly equal costs, and so have all sums of as many
  /// of them.
  [[nodiscard]] counted_exchange find(std::size_t late, std::size_t early, wanted_net wanted,
                                      std::size_t size)
  {
    side const from(problem_, bags_[late], problem_.gpus[early], size);
    side const to(problem_, bags_[early], problem_.gpus[late], size);
    exchange const found = find_exchange(from.candidates(), to.candidates(), wanted,
                                         exchange_counts::equal, memory_, work_);
    counted_exchange result{late, early, 0, {}, {}, found.net};
    result.pairs = list_members<std::uint32_t>(found.given, from.places, result.given);
    BALLAST_EXPECTS(list_members<std::uint32_t>(found.taken, to.places, result.taken) ==
                    result.pairs);  // as many for as many
    return result;
  }

  /// The best swap of one sample for one, among those that make the later of the two bags earlier.
  ///
  /// Expects     bag `late` finishes after bag `early`.
  [[nodiscard]] counted_exchange find_swap(std::size_t late, std::size_t early)
  {
    std::span<priced_sample const> const giving = bags_[late];
    std::span<priced_sample const> const taking = bags_[early];
    work_.spend(giving.size() + taking.size());
    bool const one_size = problem_.gpus[late] == problem_.gpus[early];
    auto const may_move = [this](priced_sample member, std::size_t bag) {
      return problem_.fits(to_index(member.sample), bag);
    };
    swapped_places const best =
        nearest_swap(*this, late, early, giving, taking, [&](std::size_t given, std::size_t taken) {
          return one_size || (may_move(giving[given], early) && may_move(taking[taken], late));
        });
    counted_exchange result{late, early, 1, {}, {}, best.net};
    result.given[0] = static_cast<std::uint32_t>(best.given);
    result.taken[0] = static_cast<std::uint32_t>(best.taken);
    return result;
  }

  /// A swap of any two samples of two bags, whatever it does to the makespan; after a few draws of
  /// samples that do not fit, none.
  ///
  /// Expects     there are two bags or more.
  [[nodiscard]] counted_exchange draw_swap(random_source& random) const
  {
    constexpr int draws = 8;
    std::size_t const count = loads().size();
    counted_exchange result;
    for (int draw = 0; draw < draws && result.pairs == 0; ++draw) {
      result.from = random.below(count);
      result.to = (result.from + 1 + random.below(count - 1)) % count;
      auto const giving = bags_[result.from];
      auto const taking = bags_[result.to];
      if (giving.empty() || taking.empty()) { continue; }
      std::size_t const given = random.below(giving.size());
      std::size_t const taken = random.below(taking.size());
      if (!problem_.fits(to_index(giving[given].sample), result.to) ||
          !problem_.fits(to_index(taking[taken].sample), result.from)) {
        continue;
      }
      result.pairs = 1;
      result.given[0] = static_cast<std::uint32_t>(given);
      result.taken[0] = static_cast<std::uint32_t>(taken);
      result.net = giving[given].cost - taking[taken].cost;
    }
    return result;
  }

  void make(counted_exchange const& chosen) const
  {
    bags_.swap(chosen.from, span_of(chosen.given, 0, chosen.pairs), chosen.to,
               span_of(chosen.taken, 0, chosen.pairs));
  }

 private:
  /// The candidates of one bag.
  struct side {
    std::array<std::uint32_t, subset_sum::most_members> places{};
    std::array<cost_units, subset_sum::most_members> costs{};
    std::size_t size = 0;

    side(partition_problem const& problem, std::span<priced_sample const> members,
         std::uint32_t gpus_of_other, std::size_t most) noexcept
    {
      std::size_t const stride = std::max<std::size_t>(members.size() / (2 * most), 1);
      for (std::size_t left = members.size(); left > 0 && size < most;
           left -= std::min(left, stride)) {
        priced_sample const member = members[left - 1];
        if (!partition_problem::splits(problem.lengths[to_index(member.sample)], gpus_of_other)) {
          continue;
        }
        places[size] = static_cast<std::uint32_t>(left - 1);
        costs[size++] = member.cost;
      }
    }

    [[nodiscard]] std::span<cost_units const> candidates() const noexcept
    {
      return span_of(costs, 0, size);
    }
  };

  partition_problem problem_;
  counted_bags const& bags_;
  work_budget& work_;
  workspace& memory_;
};

}  // namespace ballast::inline v0::detail
