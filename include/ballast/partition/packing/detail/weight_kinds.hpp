// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_WEIGHT_KINDS_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_WEIGHT_KINDS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/detail/sample_worths.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Which weights a kind stands for, and about which weight one of it should have.
struct weight_kind {
  std::int64_t lightest;
  std::int64_t heaviest;
  std::int64_t wanted;
};

/// Samples as few kinds, for a linear program over patterns of what fits a bin.
///
/// Where there are few different weights, each is a kind. Where at most k samples fit a bin and any
/// k - 1 of them do, all costs are less than the weights by some d, and the room by k d: the same
/// sets fit, and the program is smaller.
///
/// Otherwise the kinds are the multiples of C / N, and a sample of a weight between two of them is
/// a part of each, in proportion: then the program with these demands is a relaxation. For, take
/// its prices as a function of the weight that is linear between the multiples, and 0 at 0. If two
/// samples of a bin are between multiples, one can grow as the other shrinks until one of them is
/// at a multiple, and in one of both directions the bin is not worth less. So is a single one,
/// which can shrink, or grow by what is free, of which there is enough, since C is a multiple. So a
/// bin is worth most at multiples, where a small knapsack finds it.
///
/// Complexity  O(n), 36 bytes of scratch per kind, and 1 KB.
/// Source      the function is a dual feasible one in the sense of G. S. Lueker, "Bin Packing with
///             Items Uniformly Distributed over Intervals [a, b]", FOCS 1983.
class weight_kinds {
 public:
  static constexpr int demand_bits = 6;
  static constexpr std::size_t most_samples = std::size_t{1} << 25;
  /// Of a knapsack of all kinds.
  static constexpr std::size_t most_numbers = std::size_t{1} << 19;

  /// Expects     most >= 30
  weight_kinds(std::size_t most, workspace::frame& scratch)
      : most_(most),
        kinds_(scratch.take<weight_kind>(most)),
        costs_(scratch.take<cost_units>(most)),
        demands_(scratch.take<std::uint32_t>(most)),
        kind_of_(scratch.take<std::uint32_t>(most_parts + 2))
  {}

  /// Expects     samples in descending order of weights between 1 and capacity, at most
  ///             most_samples; capacity at most 2^32; each weight may be a kind only where these
  ///             are the weights that bound() is asked for
  void list(std::span<priced_sample const> samples, std::int64_t capacity, bool are_exact)
  {
    capacity_ = capacity;
    if (!are_exact || !list_weights(samples)) { list_multiples(samples); }
  }

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::span<weight_kind const> all() const noexcept { return kinds_.first(count_); }
  [[nodiscard]] std::span<cost_units const> costs() const noexcept { return costs_.first(count_); }

  /// In 2^-demand_bits of a sample.
  [[nodiscard]] std::span<std::uint32_t const> demands() const noexcept
  {
    return demands_.first(count_);
  }
  [[nodiscard]] cost_units room() const noexcept { return room_; }

  /// A number of bins of this capacity that no packing of the samples gets below, for whatever
  /// prices of the kinds, at most 2^22 each. Writes what these samples are worth then, rounded down.
  ///
  /// Expects     the samples listed, or what they were before they were scaled and rounded
  /// Complexity  O(n + kinds room), 8 bytes of scratch per unit of room.
  [[nodiscard]] std::size_t bound(std::span<priced_sample const> samples, std::int64_t capacity,
                                  std::span<std::int32_t const> prices, sample_worths const& worths,
                                  workspace::frame& scratch) const
  {
    std::span<std::int64_t> const worth = scratch.take<std::int64_t>(cells(room_) + 1);
    std::fill(worth.begin(), worth.end(), 0);
    for (std::size_t kind = 0; kind < count_; ++kind) {
      std::size_t const own = cells(costs_[kind]);
      for (std::size_t at = own; at < worth.size(); ++at) {
        worth[at] = std::max(worth[at], worth[at - own] + prices[kind]);
      }
    }
    if (worth.back() == 0) { return 0; }
    auto const most =
        static_cast<uint128>(worth.back()) * static_cast<uint128>(parts_ > 0 ? capacity : 1);
    uint128 all = 0;
    std::size_t kind = 0;
    for (auto const [weight, sample] : samples) {
      while (parts_ == 0 && kinds_[kind].heaviest > weight) { ++kind; }
      uint128 const own =
          parts_ > 0 ? priced(weight, capacity, prices) : static_cast<uint128>(prices[kind]);
      all += own;
      worths.of[to_index(sample)] =
          static_cast<std::int64_t>(own * static_cast<uint128>(worths.bin) / most);
    }
    return static_cast<std::size_t>((all + most - 1) / most);
  }

 private:
  static constexpr std::int64_t most_parts = 240;
  static constexpr std::size_t most_items = 500;  // of each kind, as many as fit a bin
  static constexpr std::uint32_t no_kind = ~std::uint32_t{0};

  bool list_weights(std::span<priced_sample const> samples)
  {
    parts_ = 0;
    count_ = 0;
    for (auto const [weight, sample] : samples) {
      if (count_ == 0 || kinds_[count_ - 1].heaviest != weight) {
        if (count_ == most_) { return false; }
        kinds_[count_] = {weight, weight, weight};
        demands_[count_] = 0;
        ++count_;
      }
      demands_[count_ - 1] += std::uint32_t{1} << demand_bits;
    }
    std::int64_t const most = capacity_ / samples.back().cost;
    std::int64_t const less = most_less(samples.front().cost, samples.back().cost, most);
    room_ = capacity_ - most * less;
    std::size_t items = 1;
    for (std::size_t kind = 0; kind < count_; ++kind) {
      costs_[kind] = kinds_[kind].heaviest - less;
      items += cells(room_ / costs_[kind]);
    }
    return items <= most_items && cells(room_) < most_numbers / items;
  }

  /// By how much all weights can be less.
  [[nodiscard]] std::int64_t most_less(std::int64_t heaviest, std::int64_t lightest,
                                       std::int64_t most) const noexcept
  {
    if (most > 1 && heaviest > capacity_ / (most - 1)) { return 0; }
    std::int64_t const spare = capacity_ - (most - 1) * heaviest;
    std::int64_t const beyond = lightest - (capacity_ - most * lightest) - 1;
    return std::max<std::int64_t>(0, std::min({spare, beyond, lightest - 1}));
  }

  void list_multiples(std::span<priced_sample const> samples)
  {
    std::int64_t const spread = samples.front().cost - samples.back().cost + 1;
    auto const wanted = static_cast<std::int64_t>(most_) * 7 / 8;
    parts_ = std::clamp<std::int64_t>(wanted * capacity_ / spread / 12 * 12, 24, most_parts);
    room_ = parts_;
    std::fill(kind_of_.begin(), kind_of_.end(), no_kind);
    count_ = 0;
    constexpr auto whole = std::uint32_t{1} << demand_bits;
    for (auto const [weight, sample] : samples) {
      std::int64_t const below = weight * parts_ / capacity_;
      std::int64_t const beyond = weight * parts_ % capacity_;
      auto const more =
          static_cast<std::uint32_t>(((beyond << demand_bits) + capacity_ / 2) / capacity_);
      if (beyond > 0) { demand(below + 1) += more; }
      if (below > 0) { demand(below) += whole - more; }
    }
    // The program prices what has a demand, and the bound needs prices of all.
    for (std::uint32_t& each : demands_.first(count_)) { each = std::max(each, std::uint32_t{1}); }
  }

  /// Of a multiple, which becomes a kind; asked for in decreasing order but for the last one.
  std::uint32_t& demand(std::int64_t multiple)
  {
    std::uint32_t& kind = kind_of_[static_cast<std::size_t>(multiple)];
    if (kind == no_kind) {
      kind = static_cast<std::uint32_t>(count_++);
      costs_[kind] = multiple;
      demands_[kind] = 0;
      kinds_[kind] = {std::max<std::int64_t>(1, (multiple - 1) * capacity_ / parts_ + 1),
                      std::min(capacity_, ((multiple + 1) * capacity_ - 1) / parts_),
                      std::max<std::int64_t>(1, multiple * capacity_ / parts_)};
    }
    return demands_[kind];
  }

  /// What a sample is worth, times the capacity.
  [[nodiscard]] uint128 priced(std::int64_t weight, std::int64_t capacity,
                               std::span<std::int32_t const> prices) const noexcept
  {
    auto const whole = static_cast<uint128>(capacity);
    uint128 const parts = static_cast<uint128>(weight) * static_cast<uint128>(parts_);
    auto const below = static_cast<std::size_t>(parts / whole);
    uint128 const beyond = parts - below * whole;
    auto const price = [&](std::size_t multiple) -> uint128 {
      std::uint32_t const kind = kind_of_[multiple];
      return kind == no_kind ? 0 : static_cast<uint128>(prices[kind]);
    };
    return (whole - beyond) * price(below) + (beyond > 0 ? beyond * price(below + 1) : 0);
  }

  [[nodiscard]] static constexpr std::size_t cells(cost_units units) noexcept
  {
    return static_cast<std::size_t>(units);
  }

  std::size_t most_;
  std::span<weight_kind> kinds_;  // heaviest first
  std::span<cost_units> costs_;
  std::span<std::uint32_t> demands_;
  std::span<std::uint32_t> kind_of_;  // of multiples
  std::size_t count_ = 0;
  std::int64_t capacity_ = 1;
  std::int64_t parts_ = 0;  // of the capacity; 0 where each weight is a kind
  cost_units room_ = 1;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_WEIGHT_KINDS_HPP
