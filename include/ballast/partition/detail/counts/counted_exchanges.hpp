// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_EXCHANGES_HPP
#define BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_EXCHANGES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/detail/counts/counted_bags.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>
#include <ballast/partition/detail/exchange/nearest_swap.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

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

#endif  // BALLAST_PARTITION_DETAIL_COUNTS_COUNTED_EXCHANGES_HPP
