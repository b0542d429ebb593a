// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/device_messages.hpp>
#include <ballast/cuda/prepared_route.cuh>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

namespace detail {

template <stream_communicator C>
[[nodiscard]] result<void> route_on_device(C& comm, prepared_route const& ready,
                                           route_direction direction,
                                           std::span<row_array const> arrays,
                                           std::span<std::byte> temporary)
{
  bool const forward = direction == route_direction::forward;
  row_traffic const& traffic = ready.there().plan();
  return exchange_rows(comm, forward ? traffic : traffic.reversed(), arrays, ready.there().memory(),
                       device_mover(ready, forward, device_rows(arrays), temporary, comm.stream()));
}

}  // namespace detail

/// Returns the bytes of temporary device memory that are enough for the messages of route() and
/// reverse_route(), for every plan within the bound, with these arrays or others that have no more
/// rows.
template <std::same_as<row_array>... Arrays>
[[nodiscard]] std::size_t route_bytes(route_bound bound, Arrays const&... arrays)
{
  std::size_t const padding = 2 * std::size_t{bound.ranks} * (message_alignment - 1);
  return detail::temporary_storage::alignment +
         ((sizeof...(arrays) * padding) + ... + (arrays.from.size() + arrays.to.size()));
}

/// Moves arrays along a route on the communicator's stream, without waiting: as route() of the
/// host, with arrays in device memory.
///
///     there.stage(plan);                // every step
///     there.upload(comm.stream());
///     ready.prepare(comm.stream());
///     route(comm, ready, temporary, rows_of(x, y, 3072), rows_of(tag, tag_y))  // every layer
///
/// Collective; some ranks may call this one, and others route() of the host.
///
/// Shapes      each array: from[rows before], to[rows after] rows of the plan staged last, of the
///             widths that the route is prepared for; temporary[route_bytes()].
/// Expects     a plan of this rank, which is uploaded and prepared by work that is queued already.
///             The stream's device is the current one, and reaches arrays and temporary, which
///             nothing else uses until the stream has done the route. No `to` overlaps another
///             array.
/// Ensures     (1) when the stream has done it, `to` is what route() of the host makes it
///             (2) it waits for nothing but what the communicator's all_to_all_v waits for
///             (3) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v; transport with CUDA's code and text. Then
///             `to` is unspecified. comm.wait() reports later failures.
/// Complexity  two kernels, one before the messages and one after them, and where the route has a
///             side stream one beside them; each byte is read and written once by each.
template <stream_communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> route(C& comm, prepared_route const& ready,
                                 std::span<std::byte> temporary, Arrays const&... arrays)
{
  nvtx_range const range("ballast::route");
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_device(comm, ready, detail::route_direction::forward, all, temporary);
}

/// Moves arrays back along a route: its exact inverse, and its gradient.
///
/// Shapes      each array: from[rows after], to[rows before] rows.
/// The rest is as for route().
template <stream_communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> reverse_route(C& comm, prepared_route const& ready,
                                         std::span<std::byte> temporary, Arrays const&... arrays)
{
  nvtx_range const range("ballast::reverse_route");
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_device(comm, ready, detail::route_direction::reverse, all, temporary);
}

}  // namespace ballast::inline v0
