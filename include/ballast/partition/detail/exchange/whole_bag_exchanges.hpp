// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_EXCHANGE_WHOLE_BAG_EXCHANGES_HPP
#define BALLAST_PARTITION_DETAIL_EXCHANGE_WHOLE_BAG_EXCHANGES_HPP

#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>
#include <ballast/partition/detail/exchange/exchange.hpp>

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_EXCHANGE_WHOLE_BAG_EXCHANGES_HPP
