// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/exchange/subset_sums.hpp>
#include <ballast/partition/detail/exchange/subset_walk.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace ballast::inline v0::detail {

/// What a bag gives to another and what it takes in return: bit i stands for candidate i of the bag
/// that the sample leaves. `net` is how much work the giving bag loses; 0 means no exchange.
struct exchange {
  std::uint32_t given = 0;
  std::uint32_t taken = 0;
  cost_units net = 0;

  friend constexpr bool operator==(exchange, exchange) = default;
};

/// Which exchanges are wanted: the least net work from `least` to `most`; one up to `enough` ends
/// the search. Where no exchange has at least `least`, the largest net work below it is taken.
struct wanted_net {
  cost_units least;
  cost_units enough;
  cost_units most;
};

/// Whether a bag gives as many samples as it takes.
enum class exchange_counts : std::uint8_t { free, equal };

/// Accepts every exchange.
struct accept_any {
  constexpr bool operator()(std::uint32_t, std::uint32_t) const noexcept { return true; }
};

/// Searches all exchanges of up to 14 candidates of one bag for up to 14 of another: 2^(g + t) of
/// them in 2^g + 2^t steps.
///
/// With equal counts, the cost of every sample is raised by more than all candidates cost together,
/// so that subsets of different counts are out of the wanted range. Costs that are too large for a
/// word lose their lowest bits in the search; the net work returned is exact all the same.
///
/// Shapes      giving[g], taking[t]: the candidates' costs; g, t <= subset_sum::most_members.
/// Expects     costs are not negative and all of them add up to less than 2^63;
///             1 <= least <= enough, least <= most.
///             accept(given, taken) says whether an exchange may be made; it is called for few
///             exchanges only, and after 4 (2^g + 2^t) refusals the search ends.
/// In, out     work pays for the subsets listed, the steps along the lists and the refusals.
/// Ensures     (1) net is what `given` costs minus what `taken` costs, and 1 <= net <= most, or it
///                 returns exchange{}
///             (2) without lost bits and refusals: net <= enough where any exchange has
///                 least <= net <= enough; else net is the least of those with
///                 least <= net <= most; else the largest of those below least
/// Complexity  O(2^g + 2^t); 12 (2^g + 2^t) bytes of scratch.
template <class Accept = accept_any>
[[nodiscard]] exchange find_exchange(std::span<cost_units const> giving,
                                     std::span<cost_units const> taking, wanted_net wanted,
                                     exchange_counts counts, workspace& memory, work_budget& work,
                                     Accept const& accept = {})
{
  BALLAST_EXPECTS(giving.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(taking.size() <= subset_sum::most_members);
  BALLAST_EXPECTS(1 <= wanted.least && wanted.least <= wanted.enough &&
                  wanted.least <= wanted.most);

  // Of all costs together, up to 14 lifts and the costs that are lifted make less than 32 times.
  constexpr int sum_bits = std::countr_zero(static_cast<std::uint64_t>(subset_sum::sum_limit));
  bool const equal = counts == exchange_counts::equal;
  cost_units const all_given = std::reduce(giving.begin(), giving.end(), cost_units{0});
  cost_units const all = std::reduce(taking.begin(), taking.end(), all_given);
  auto const all_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(all)));
  int const lost = std::max(all_bits - (equal ? sum_bits - 5 : sum_bits), 0);
  cost_units const lift = equal ? (all >> lost) + 1 : 0;

  auto frame = memory.open();
  auto const list = [&](std::span<cost_units const> costs) {
    std::array<cost_units, subset_sum::most_members> searched{};
    for (std::size_t place = 0; place < costs.size(); ++place) {
      searched[place] = (costs[place] >> lost) + lift;
    }
    std::size_t const subsets = std::size_t{1} << costs.size();
    std::span<std::uint64_t> const words = frame.take<std::uint64_t>(1 + subsets + merge_stretches);
    words.front() = subset_sum::end;
    std::fill_n(words.rbegin(), merge_stretches, subset_sum::end);
    subset_sums_into(words.subspan(1, subsets), mutable_span_of(searched, 0, costs.size()),
                     frame.take<std::uint64_t>((subsets + 1) / 2));
    work.spend(subsets);
    return words.subspan(1, subsets);
  };

  // A sum in the search is short by less than one unit per member.
  cost_units const unsure = lost > 0 ? static_cast<cost_units>(subset_sum::most_members) : 0;
  cost_units const least = ((wanted.least - 1) >> lost) + 1 + unsure;
  subset_walk<Accept> search(list(giving), list(taking),
                             {.fewest = 1 + unsure,
                              .least = std::min(least, (all_given >> lost) + 1),
                              .enough = (std::min(wanted.enough, all_given) >> lost) - unsure,
                              .most = (std::min(wanted.most, all_given) >> lost) - unsure},
                             accept);
  work.spend(search());

  exchange best{search.given(), search.taken(), 0};
  for (std::size_t place = 0; place < giving.size(); ++place) {
    best.net += (best.given >> place & 1) != 0 ? giving[place] : 0;
  }
  for (std::size_t place = 0; place < taking.size(); ++place) {
    best.net -= (best.taken >> place & 1) != 0 ? taking[place] : 0;
  }
  return 1 <= best.net && best.net <= wanted.most ? best : exchange{};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_EXCHANGE_HPP
