// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/device_messages.hpp>
#include <ballast/cuda/detail/tiles.cuh>
#include <ballast/cuda/device_route.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/block/block_scan.cuh>
#include <cub/device/device_scan.cuh>

namespace ballast::inline v0 {

namespace detail {

/// Finds where each peer's message begins: one block of threads, `Peers` peers at a time.
template <int Peers>
__global__ void __launch_bounds__(Peers)
    find_message_blocks(__grid_constant__ message_blocks const blocks)
{
  using block_scan = cub::BlockScan<peer_sums, Peers>;
  __shared__ typename block_scan::TempStorage storage;
  auto const plus = [](peer_sums const& one, peer_sums const& other) { return one + other; };
  peer_sums before;
  for (std::uint32_t first = 0; first < blocks.table.ranks; first += Peers) {
    std::uint32_t const peer = first + threadIdx.x;
    bool const is_there = peer < blocks.table.ranks;
    peer_sums own = is_there ? blocks.of(peer) : peer_sums{};
    peer_sums all;
    block_scan(storage).ExclusiveScan(own, own, peer_sums{}, plus, all);
    if (is_there) { blocks.write(peer, before + own); }
    before = before + all;
    __syncthreads();  // before the next scan takes the storage
  }
}

}  // namespace detail

/// A route of arrays of some widths, ready to run: where every row lies in messages, and how the
/// copies are cut into tiles. All that depends on the plan and the widths is found once, by
/// prepare(); then every pack() and unpack() of such arrays, in every layer and in both directions,
/// is one kernel.
///
///     prepared_route ready(there, device_rows(arrays), memory);
///     ready.prepare(stream);                        // every step, after the plan's upload
///     ready.pack(true, rows, messages, stream);     // every layer, with other arrays of the widths
///     ready.unpack(true, rows, messages, stream);
///
/// A graph can hold all of it: it moves rows by the plan that was staged when it is replayed.
///
/// Shapes      device[device_bytes(there, shapes)], of any alignment; messages: the sum of
///             message_bytes().
/// Expects     at most device_rows::most arrays; `there`, device memory and a side stream that outlive
///             this object.
///             pack() and unpack() take as many arrays, of these widths, which do not overlap the
///             messages, in memory that the stream's device reaches; that device is the current one.
///             Work of one object is queued on one stream, or in the order of events.
/// Ensures     (1) the messages are those of pack_rows() of the host, zeros behind blocks included
///             (2) unpack() writes what unpack_rows() of the host writes, and the rows that stay
///             (3) nothing is allocated, and nothing waits
/// Errors      CUDA's own; prepare: cudaErrorInvalidValue if there are too few bytes.
/// Complexity  prepare: for each direction a scan of the ranges' rows, a block of threads that finds
///             where messages begin, and a scan of the copies' tiles. pack, unpack: a copy for each
///             range and array; each byte is read and written once.
class prepared_route {
 public:
  /// Writes how much device memory is enough for every plan within the bound.
  [[nodiscard]] static cudaError_t device_bytes(device_route const& there,
                                                device_rows const& shapes, std::size_t& bytes)
  {
    route_bound const bound = there.bound();
    parts at(nullptr, bound, shapes);
    std::size_t scan_bytes = 0;
    device_ranges const table{nullptr, nullptr, nullptr, bound.ranges, bound.ranks};
    detail::unpack_copies const list{{table, shapes, at.sent.places}, {}};
    auto const error = find(at.sent, nullptr, scan_bytes, list, cudaStream_t{});
    (void)at.storage.take<std::byte>(scan_bytes);
    bytes = at.storage.bytes();
    return error;
  }

  /// With a side stream, rows that stay are copied while messages travel.
  prepared_route(device_route& there, device_rows const& shapes, std::span<std::byte> device,
                 side_stream const* other = nullptr)
      : there_(there), shapes_(shapes), device_(device), side_(other)
  {}

  /// Finds all that depends on the plan, when the stream reaches it; call it after the plan's
  /// upload.
  [[nodiscard]] cudaError_t prepare(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_route::prepare");
    parts at(device_.data(), there_.bound(), shapes_);
    std::size_t scan_bytes = 0;
    for (bool const forward : {true, false}) {
      auto const list = unpacked(at, forward, shapes_, nullptr);
      if (auto const error = find(at.of(!forward), nullptr, scan_bytes, list, stream);
          error != cudaSuccess) {
        return error;
      }
    }
    auto* const scan = at.storage.take<std::byte>(scan_bytes);
    if (at.storage.is_only_asking() || device_.size() < at.storage.bytes()) {
      return cudaErrorInvalidValue;
    }
    for (bool const forward : {true, false}) {
      auto const list = unpacked(at, forward, shapes_, nullptr);
      if (auto const error = find(at.of(!forward), scan, scan_bytes, list, stream);
          error != cudaSuccess) {
        return error;
      }
    }
    return cudaSuccess;
  }

  /// Copies the rows that leave into messages; forward or, in the reverse route, not.
  [[nodiscard]] cudaError_t pack(bool forward, device_rows const& rows, std::byte* messages,
                                 cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_route::pack");
    expect_shapes(rows);
    parts const at(device_.data(), there_.bound(), shapes_);
    detail::pack_copies const list{pieces(at, forward, rows), messages};
    return detail::run_copies(list, at.of(forward).tiles.first(list.count()), stream);
  }

  /// Copies messages into the rows that they are for, and the rows that stay on their rank, or one
  /// of both.
  [[nodiscard]] cudaError_t unpack(bool forward, device_rows const& rows, std::byte const* messages,
                                   cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    nvtx_range const range("ballast::prepared_route::unpack");
    expect_shapes(rows);
    parts const at(device_.data(), there_.bound(), shapes_);
    return detail::run_part(unpacked(at, forward, rows, messages), at.of(!forward).tiles, part,
                            stream);
  }

  [[nodiscard]] device_route& there() const noexcept { return there_; }
  [[nodiscard]] side_stream const* beside() const noexcept { return side_; }

 private:
  /// What is found of the rows that are sent, or of those that are received.
  struct side {
    detail::message_places places;
    detail::copy_tiles tiles;  ///< of unpack_copies, of which pack_copies has the first
  };

  struct parts {
    parts(std::byte* device, route_bound bound, device_rows const& shapes)
        : storage(device), sent(take(bound, shapes.count)), received(take(bound, shapes.count))
    {}

    [[nodiscard]] side take(route_bound bound, std::uint32_t arrays)
    {
      std::size_t const blocks = std::size_t{bound.ranks} * arrays;
      auto* const rows_before = storage.take<tokens>(bound.ranges);
      auto* const origins = storage.take<std::size_t>(blocks);
      auto* const ends = storage.take<std::size_t>(blocks);
      return {{rows_before, origins, ends},
              detail::copy_tiles::in(storage, 2 * bound.ranges * arrays)};
    }

    [[nodiscard]] side const& of(bool is_sent) const { return is_sent ? sent : received; }

    detail::temporary_storage storage;
    side sent;
    side received;
  };

  [[nodiscard]] detail::message_pieces pieces(parts const& at, bool is_sent,
                                              device_rows const& rows) const
  {
    return {is_sent ? there_.sent() : there_.received(), rows, at.of(is_sent).places};
  }

  [[nodiscard]] detail::unpack_copies unpacked(parts const& at, bool forward,
                                               device_rows const& rows,
                                               std::byte const* messages) const
  {
    return {pieces(at, !forward, rows), there_.kept(), !forward, messages};
  }

  /// Queues what finds a side, or asks for the size of the scans' storage, which two calls make the
  /// larger of.
  [[nodiscard]] static cudaError_t find(side const& to, std::byte* scan, std::size_t& scan_bytes,
                                        detail::unpack_copies const& list, cudaStream_t stream)
  {
    auto const& [table, rows, places] = list.pieces;
    thrust::transform_iterator const counts(thrust::counting_iterator<std::uint32_t>(0),
                                            detail::rows_of_range{table});
    std::size_t rows_bytes = scan_bytes;
    std::size_t tiles_bytes = scan_bytes;
    if (auto const error = cub::DeviceScan::ExclusiveSum(
            scan, rows_bytes, counts, to.places.rows_before, table.bound, stream);
        error != cudaSuccess) {
      return error;
    }
    if (scan != nullptr) {
      constexpr int peers_at_once = 256;
      cudaLaunchConfig_t launch{};
      launch.gridDim = dim3(1);
      launch.blockDim = dim3(peers_at_once);
      launch.stream = stream;
      if (auto const error = cudaLaunchKernelEx(&launch, detail::find_message_blocks<peers_at_once>,
                                                detail::message_blocks{table, rows, to.places});
          error != cudaSuccess) {
        return error;
      }
    }
    auto const error = detail::find_tiles(scan, tiles_bytes, list, to.tiles, stream);
    if (scan == nullptr) { scan_bytes = std::max(rows_bytes, tiles_bytes); }
    return error;
  }

  void expect_shapes(device_rows const& rows) const
  {
    BALLAST_EXPECTS(rows.has_shapes_of(shapes_), "the route was prepared for ", shapes_.count,
                    " arrays, and these are not as many of the same widths; prepare one for them");
  }

  device_route& there_;
  device_rows shapes_;
  std::span<std::byte> device_;
  side_stream const* side_;
};

namespace detail {

/// Queues copies of rows on a stream.
class device_row_mover : public device_messages {
 public:
  device_row_mover(prepared_route const& ready, route_direction direction, device_rows const& rows,
                   std::span<std::byte> temporary, cudaStream_t stream)
      : device_messages(temporary, ready.beside(), stream),
        ready_(ready),
        forward_(direction == route_direction::forward),
        rows_(rows)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    return packed("prepared_route::pack", ready_.pack(forward_, rows_, outgoing.data(), stream()));
  }

  [[nodiscard]] result<void> keep() const
  {
    return keep_beside([&](std::byte const* unread, unpack_part part, cudaStream_t side) {
      return ready_.unpack(forward_, rows_, unread, side, part);
    });
  }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    return cuda_result("prepared_route::unpack",
                       ready_.unpack(forward_, rows_, incoming.data(), stream(), left()));
  }

 private:
  prepared_route const& ready_;
  bool forward_;
  device_rows rows_;
};

template <stream_communicator C>
[[nodiscard]] result<void> route_on_device(C& comm, prepared_route const& ready,
                                           route_direction direction,
                                           std::span<row_array const> arrays,
                                           std::span<std::byte> temporary)
{
  row_traffic const forward = ready.there().traffic();
  return exchange_rows(
      comm, direction == route_direction::forward ? forward : forward.reversed(), arrays,
      ready.there().memory(),
      device_row_mover(ready, direction, device_rows(arrays), temporary, comm.stream()));
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
