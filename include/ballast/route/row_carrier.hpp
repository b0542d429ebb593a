// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ROW_CARRIER_HPP
#define BALLAST_ROUTE_ROW_CARRIER_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>

namespace ballast::inline v0 {

/// Carries the rows of a step along its routes, wherever the arrays lie. `orchestrator` calls it.
///
///   begin_step()                     the plans of the step before may be overwritten from now on
///   route(plan, arrays...)           moves arrays as ballast::route does
///   reverse_route(plan, arrays...)   moves them back
///   copy(array)                      copies rows that stay where they are
///
/// Expects     a plan stays as it is from its first call in a step to the next begin_step().
template <class Carrier>
concept row_carrier =
    requires(Carrier& carrier, Carrier const& view, route_plan const& plan, row_array array) {
      { view.rank() } -> std::same_as<rank_id>;
      { view.size() } -> std::same_as<std::size_t>;
      { carrier.begin_step() } -> std::same_as<result<void>>;
      { carrier.route(plan, array) } -> std::same_as<result<void>>;
      { carrier.reverse_route(plan, array) } -> std::same_as<result<void>>;
      { carrier.copy(array) } -> std::same_as<result<void>>;
    };

/// Carries rows of arrays in the host's memory.
///
/// Expects     comm outlives it.
template <communicator C>
class host_carrier {
 public:
  explicit host_carrier(C& comm) : comm_(comm) {}

  [[nodiscard]] rank_id rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return comm_.size(); }
  [[nodiscard]] result<void> begin_step() const { return {}; }

  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(route_plan const& plan, Arrays const&... arrays)
  {
    return ballast::route(comm_, plan, memory_, arrays...);
  }
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(route_plan const& plan, Arrays const&... arrays)
  {
    return ballast::reverse_route(comm_, plan, memory_, arrays...);
  }
  [[nodiscard]] result<void> copy(row_array const& array) const
  {
    std::copy(array.from.begin(), array.from.end(), array.to.begin());
    return {};
  }

 private:
  C& comm_;
  workspace memory_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ROW_CARRIER_HPP
