// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PADDED_DETAIL_TWO_LENGTH_SUM_HPP
#define BALLAST_PARTITION_PADDED_DETAIL_TWO_LENGTH_SUM_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/partition/padded/padded_lengths.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The largest number whose square is at most `square`.
[[nodiscard]] constexpr std::uint64_t floor_of_root(std::uint64_t square) noexcept
{
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit > 0; bit /= 2) {
    if ((root + bit) * (root + bit) <= square) { root += bit; }
  }
  return root;
}

/// What batches that pad two lengths cost together at the least.
///
/// Give each sample a price. A batch of samples that pads to the lengths S and T costs f(S, T) for
/// each, which together is no less than their prices, less all by which a price is above f(S, T).
/// Let `excess` be the most by which prices of samples up to S and T are above f(S, T), in all, over
/// all S and T. Then m batches cost no less than all prices less m times the excess.
///
/// Good prices are above what a sample costs alone by about what padding costs near it. They begin
/// an eighth above. In each round the price rises of a sample whose own largest excess is below a
/// target, and others fall, all by the root of the ratio. If prices are `above` by three times the
/// target for each batch, neither higher nor lower prices would prove more, where samples are dense:
/// there the excess grows with the third power of what prices are above.
///
/// To have few different lengths, of the one with fewer values six leading bits count, of the other
/// one eight: shorter samples cost no more.
///
/// Expects     n times the cost of the longest source and target is at most 2^61.
/// Complexity  O(S x kinds x near) per round, where S is the number of different values of one
///             length, a kind are samples of equal lengths, and near are the kinds that one batch
///             can have; after 2^24 looks it ends with the rounds so far.
/// Source      the dual of the linear program that covers samples with fractions of batches, as in
///             P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock
///             Problem", Operations Research 9(6), 1961.
template <class Problem>
class two_length_sum {
 public:
  explicit two_length_sum(Problem const& problem) : problem_(problem)
  {
    std::vector<tokens> sources;
    std::vector<tokens> targets;
    for (padded_lengths const own : problem.lengths) {
      sources.push_back(leading_bits(own.source, few_bits));
      targets.push_back(leading_bits(own.target, few_bits));
    }
    for (auto* values : {&sources, &targets}) {
      std::sort(values->begin(), values->end());
      values->erase(std::unique(values->begin(), values->end()), values->end());
    }
    by_target_ = targets.size() < sources.size();
    outer_ = std::move(by_target_ ? targets : sources);
    for (auto [outer, inner] : problem.lengths) {
      if (by_target_) { std::swap(outer, inner); }
      kinds_.push_back({leading_bits(outer, few_bits), leading_bits(inner, many_bits), 1, 0, 0, 0});
    }
    std::sort(kinds_.begin(), kinds_.end(), [](kind const& a, kind const& b) {
      return precedes(a.inner, b.inner, a.outer, b.outer);
    });
    std::size_t kept = 0;
    for (kind const& each : kinds_) {
      if (kept > 0 && kinds_[kept - 1].inner == each.inner &&
          kinds_[kept - 1].outer == each.outer) {
        ++kinds_[kept - 1].samples;
      } else {
        kinds_[kept++] = each;
      }
    }
    kinds_.resize(kept);
    for (kind& each : kinds_) {
      each.alone = cost_of(each.outer, each.inner);
      each.above = each.alone / 8 + 1;
    }
  }

  /// A lower bound of at most so many batches.
  [[nodiscard]] cost_units within(std::size_t batches)
  {
    constexpr int rounds = 4;
    auto const most_batches = static_cast<uint128>(batches);
    cost_units bound = 0;
    for (int round = 0; round < rounds; ++round) {
      auto const excess = static_cast<uint128>(largest_excess());
      if (looks_ > most_looks) { break; }
      uint128 prices = 0;
      uint128 above = 0;
      for (kind const& each : kinds_) {
        auto const samples = static_cast<uint128>(each.samples);
        prices += samples * static_cast<uint128>(each.price());
        above += samples * static_cast<uint128>(each.above);
      }
      if (prices > most_batches * excess) {
        bound = std::max(bound, static_cast<cost_units>(prices - most_batches * excess));
      }
      move_prices(above / (3 * most_batches));
    }
    return bound;
  }

 private:
  static constexpr unsigned few_bits = 6;
  static constexpr unsigned many_bits = 8;
  static constexpr std::uint64_t most_looks = std::uint64_t{1} << 24;

  struct kind {
    tokens outer;
    tokens inner;
    cost_units samples;
    cost_units alone;  // what one costs
    cost_units above;  // its price is above that
    cost_units worst;  // the largest excess that it has a share in

    [[nodiscard]] cost_units price() const { return alone + above; }
  };
  struct priced_kind {
    cost_units price;
    cost_units samples;
    cost_units worst;
    std::size_t number;
  };

  [[nodiscard]] static tokens leading_bits(tokens length, unsigned bits)
  {
    auto const wide = static_cast<std::uint64_t>(length);
    auto const width = static_cast<unsigned>(std::bit_width(wide));
    unsigned const dropped = width > bits ? width - bits : 0;
    return static_cast<tokens>(wide >> dropped << dropped);
  }

  [[nodiscard]] cost_units cost_of(tokens outer, tokens inner) const
  {
    return problem_.cost(1,
                         by_target_ ? padded_lengths{inner, outer} : padded_lengths{outer, inner});
  }

  /// The excess over all S and T. For one S, T rises: kinds join where T reaches them, and leave
  /// where f(S, T) reaches their price.
  [[nodiscard]] cost_units largest_excess()
  {
    cost_units largest = 0;
    for (kind& each : kinds_) { each.worst = 0; }
    auto const leave = [this](priced_kind const& gone) {
      kinds_[gone.number].worst = std::max(kinds_[gone.number].worst, gone.worst);
    };
    for (tokens const outer : outer_) {
      near_.clear();
      for (std::size_t next = 0; next < kinds_.size() && looks_ <= most_looks;) {
        tokens const inner = kinds_[next].inner;
        cost_units const cost = cost_of(outer, inner);
        std::size_t const before = near_.size();
        for (; next < kinds_.size() && kinds_[next].inner == inner; ++next) {
          kind const& each = kinds_[next];
          if (each.outer > outer || each.price() <= cost) { continue; }
          near_.push_back({each.price(), each.samples, 0, next});
        }
        if (near_.size() == before) { continue; }
        cost_units excess = 0;
        std::size_t kept = 0;
        for (priced_kind const& each : near_) {
          if (each.price <= cost) {
            leave(each);
            continue;
          }
          excess += each.samples * (each.price - cost);
          near_[kept++] = each;
        }
        looks_ += near_.size();
        near_.resize(kept);
        for (priced_kind& each : near_) { each.worst = std::max(each.worst, excess); }
        largest = std::max(largest, excess);
      }
      looks_ += kinds_.size() / 4;
      for (priced_kind const& each : near_) { leave(each); }
    }
    return largest;
  }

  /// Makes the largest excess of each kind more like the target.
  void move_prices(uint128 target)
  {
    constexpr uint128 one = 1 << 10;
    auto const longest = problem_.longest();
    cost_units const highest = problem_.cost(1, longest);
    for (kind& each : kinds_) {
      uint128 const ratio = target * one * one / (static_cast<uint128>(each.worst) + 1);
      uint128 const factor = floor_of_root(
          static_cast<std::uint64_t>(std::clamp(ratio, one * one / 16, one * one * 16)));
      auto const moved = static_cast<cost_units>(static_cast<uint128>(each.above) * factor / one);
      each.above = std::clamp(moved, cost_units{1}, std::max(highest - each.alone, cost_units{1}));
    }
  }

  Problem const& problem_;
  bool by_target_ = false;  // the outer length is the target
  std::vector<tokens> outer_;
  std::vector<kind> kinds_;
  std::vector<priced_kind> near_;
  std::uint64_t looks_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PADDED_DETAIL_TWO_LENGTH_SUM_HPP
