// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_ROUTE_ROWS_CUH
#define BALLAST_CUDA_ROUTE_ROWS_CUH

#include <ballast/core/result.hpp>
#include <ballast/cuda/detail/device_messages.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_route.hpp>
#include <ballast/cuda/pack_rows.cuh>
#include <ballast/cuda/row_tables.hpp>
#include <ballast/gpu/cuda_failure.hpp>
#include <ballast/gpu/nvtx_range.hpp>
#include <ballast/gpu/stream_communicator.hpp>
#include <ballast/route/pack_rows.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/route/row_traffic.hpp>

#include <cuda_runtime.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <span>

namespace ballast::inline v0 {

namespace detail {

/// Queues copies of rows on a stream.
class device_row_mover : public device_messages {
 public:
  device_row_mover(device_route const& there, route_direction direction,
                   std::span<row_array const> arrays, std::span<std::byte> temporary,
                   cudaStream_t stream)
      : device_messages(temporary),
        there_(there),
        forward_(direction == route_direction::forward),
        rows_(arrays),
        stream_(stream)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    std::size_t bytes = storage().size();
    return cuda_result("pack_rows", pack_rows(storage().data(), bytes,
                                              forward_ ? there_.sent() : there_.received(), rows_,
                                              outgoing.data(), stream_));
  }

  [[nodiscard]] result<void> keep() const
  {
    std::size_t bytes = storage().size();
    return cuda_result(
        "keep_rows", keep_rows(storage().data(), bytes, there_.kept(), rows_, !forward_, stream_));
  }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    std::size_t bytes = storage().size();
    return cuda_result("unpack_rows", unpack_rows(storage().data(), bytes,
                                                  forward_ ? there_.received() : there_.sent(),
                                                  rows_, incoming.data(), stream_));
  }

 private:
  device_route const& there_;
  bool forward_;
  device_rows rows_;
  cudaStream_t stream_;
};

template <stream_communicator C>
[[nodiscard]] result<void> route_on_device(C& comm, device_route& there, route_direction direction,
                                           std::span<row_array const> arrays,
                                           std::span<std::byte> temporary)
{
  row_traffic const forward = there.traffic();
  return exchange_rows(comm, direction == route_direction::forward ? forward : forward.reversed(),
                       arrays, there.memory(),
                       device_row_mover(there, direction, arrays, temporary, comm.stream()));
}

}  // namespace detail

/// Returns the bytes of temporary device memory that are enough for route() and reverse_route(),
/// for every plan within the bound, with these arrays or others that have no more rows.
///
/// Errors      transport, if CUDA finds no device.
template <std::same_as<row_array>... Arrays>
[[nodiscard]] result<std::size_t> route_bytes(device_route const& there, Arrays const&... arrays)
{
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  std::size_t bytes = 0;
  if (auto const code =
          pack_rows(nullptr, bytes, there.sent(), device_rows(all), nullptr, cudaStream_t{});
      code != cudaSuccess) {
    return cuda_failure("pack_rows", code);
  }
  for (row_array const& array : all) {  // each message's block is padded
    bytes += array.from.size() + array.to.size() +
             2 * std::size_t{there.bound().ranks} * (message_alignment - 1);
  }
  return bytes + detail::temporary_storage::alignment;
}

/// Moves arrays along a route on the communicator's stream, without waiting: as route() of the
/// host, with arrays in device memory.
///
///     there.stage(plan);
///     there.upload(comm.stream());
///     route(comm, there, temporary, rows_of(x, y, 3072), rows_of(tag, tag_y))
///
/// Collective; some ranks may call this one, and others route() of the host.
///
/// Shapes      each array: from[rows before], to[rows after] rows of the plan staged last;
///             temporary[route_bytes()].
/// Expects     a plan of this rank, whose upload is queued already. The stream's device is the
///             current one, and reaches arrays and temporary, which nothing else uses until the
///             stream has done the route. No `to` overlaps another array; at most device_rows::most
///             arrays.
/// Ensures     (1) when the stream has done it, `to` is what route() of the host makes it
///             (2) it waits for nothing but what the communicator's all_to_all_v waits for
///             (3) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v; transport with CUDA's code and text. Then
///             `to` is unspecified. comm.wait() reports later failures.
/// Complexity  that of pack_rows(), keep_rows() and unpack_rows(), one after the other.
template <stream_communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> route(C& comm, device_route& there, std::span<std::byte> temporary,
                                 Arrays const&... arrays)
{
  nvtx_range const range("ballast::route");
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_device(comm, there, detail::route_direction::forward, all, temporary);
}

/// Moves arrays back along a route: its exact inverse, and its gradient.
///
/// Shapes      each array: from[rows after], to[rows before] rows.
/// The rest is as for route().
template <stream_communicator C, std::same_as<row_array>... Arrays>
[[nodiscard]] result<void> reverse_route(C& comm, device_route& there,
                                         std::span<std::byte> temporary, Arrays const&... arrays)
{
  nvtx_range const range("ballast::reverse_route");
  std::array<row_array, sizeof...(Arrays)> const all{arrays...};
  return detail::route_on_device(comm, there, detail::route_direction::reverse, all, temporary);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_ROUTE_ROWS_CUH
