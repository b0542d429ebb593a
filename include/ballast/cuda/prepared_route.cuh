// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/detail/tiles.cuh>
#include <ballast/cuda/device_route.hpp>
#include <ballast/gpu/streams.hpp>

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

}  // namespace ballast::inline v0
