// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/prepared.cuh>

#include <cuda_runtime.h>
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
///             pack() and unpack() take as many arrays, of these widths, and messages that are aligned
///             to message_alignment and do not overlap them, in memory that the stream's device
///             reaches; that device is the current one. Work of one object is queued on one stream,
///             or in the order of events.
/// Ensures     (1) the messages are those of pack_rows() of the host, zeros behind blocks included
///             (2) unpack() writes what unpack_rows() of the host writes, and the rows that stay
///             (3) nothing is allocated, and nothing waits
/// Errors      CUDA's own; prepare: cudaErrorInvalidValue if there are too few bytes.
/// Complexity  prepare: for each direction a scan of the ranges' rows, a block of threads that finds
///             where messages begin, and a scan of the copies' tiles. pack, unpack: a copy for each
///             range and array; each byte is read and written once.
class prepared_route : public detail::prepared<prepared_route, route_plan, device_rows> {
 public:
  /// Writes how much device memory is enough for every plan within the bound.
  [[nodiscard]] static cudaError_t device_bytes(staged<route_plan>& there,
                                                device_rows const& shapes, std::size_t& bytes)
  {
    return prepared_route(there, shapes, {}).find_all(bytes, cudaStream_t{});
  }

  /// With a side stream, rows that stay are copied while messages travel.
  prepared_route(staged<route_plan>& there, device_rows const& shapes, std::span<std::byte> device,
                 side_stream const* side = nullptr)
      : prepared(there, shapes, device, side)
  {}

  /// Copies the rows that leave into messages; forward or, in the reverse route, not.
  [[nodiscard]] cudaError_t pack(bool forward, device_rows const& rows, std::byte* messages,
                                 cudaStream_t stream) const
  {
    nvtx_range const range("ballast::prepared_route::pack");
    parts const at = found(rows, messages);
    detail::pack_copies const list{pieces(at, forward, rows), messages};
    return detail::run_copies(list, at.of(forward).tiles.first(list.count()), stream);
  }

  /// Copies messages into the rows that they are for, and the rows that stay on their rank, or one
  /// of both.
  [[nodiscard]] cudaError_t unpack(bool forward, device_rows const& rows, std::byte const* messages,
                                   cudaStream_t stream, unpack_part part = unpack_part::all) const
  {
    nvtx_range const range("ballast::prepared_route::unpack");
    parts const at = found(rows, messages);
    return detail::run_part(unpacked(at, forward, rows, messages), at.of(!forward).tiles, part,
                            stream);
  }

 private:
  friend detail::prepared<prepared_route, route_plan, device_rows>;

  /// What is found of the rows that are sent, or of those that are received.
  struct one_side {
    detail::message_places places;
    detail::copy_tiles tiles;  ///< of unpack_copies, of which pack_copies has the first
  };

  struct parts {
    one_side sent;
    one_side received;

    [[nodiscard]] one_side const& of(bool is_sent) const { return is_sent ? sent : received; }
  };

  [[nodiscard]] parts cut(detail::temporary_storage& storage) const
  {
    auto const [ranks, ranges] = there_.bound();
    auto const one = [&, count = shapes_.count]() -> one_side {
      std::size_t const blocks = std::size_t{ranks} * count;
      auto* const rows_before = storage.take<tokens>(ranges);
      auto* const origins = storage.take<std::size_t>(blocks);
      auto* const ends = storage.take<std::size_t>(blocks);
      return {{rows_before, origins, ends}, detail::copy_tiles::in(storage, 2 * ranges * count)};
    };
    one_side const sent = one();
    return {sent, one()};
  }

  [[nodiscard]] detail::message_pieces pieces(parts const& at, bool is_sent,
                                              device_rows const& rows) const
  {
    auto const tables = there_.tables();
    return {is_sent ? tables.sent : tables.received, rows, at.of(is_sent).places};
  }

  [[nodiscard]] detail::unpack_copies unpacked(parts const& at, bool forward,
                                               device_rows const& rows,
                                               std::byte const* messages) const
  {
    return {pieces(at, !forward, rows), there_.tables().kept, !forward, messages};
  }

  void expect_plan() const {}

  [[nodiscard]] cudaError_t find(parts const& at, detail::scan_storage& scans,
                                 cudaStream_t stream) const
  {
    for (bool const forward : {true, false}) {
      auto const list = unpacked(at, forward, shapes_, nullptr);
      auto const& [table, rows, places] = list.pieces;
      thrust::transform_iterator const counts(thrust::counting_iterator<std::uint32_t>(0),
                                              detail::rows_of_range{table});
      auto error = scans([&](void* memory, std::size_t& bytes) {
        return cub::DeviceScan::ExclusiveSum(memory, bytes, counts, places.rows_before, table.bound,
                                             stream);
      });
      if (error == cudaSuccess && scans.memory != nullptr) {
        constexpr int peers_at_once = 256;
        error = detail::launch(detail::find_message_blocks<peers_at_once>, 1, peers_at_once, stream,
                               detail::message_blocks{table, rows, places});
      }
      if (error == cudaSuccess) {
        error = detail::find_tiles(scans, list, at.of(!forward).tiles, stream);
      }
      if (error != cudaSuccess) { return error; }
    }
    return cudaSuccess;
  }
};

}  // namespace ballast::inline v0
