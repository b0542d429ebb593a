// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/cuda/detail/warp_copies.hpp>
#include <ballast/cuda/tables.hpp>

namespace ballast_test {

/// A list's kernel, lane after lane and thread after thread, for copies `first` to count - 1.
/// `warps` is the launch's.
template <ballast::copy_list List>
void run_on_host(List const& list, std::uint32_t count, std::uint64_t warps = 3,
                 std::uint32_t tile_bytes = 4096, std::uint32_t first = 0)
{
  if (count == first) { return; }
  std::vector<std::uint64_t> tiles_to(count);
  std::uint64_t sum = 0;
  for (std::uint32_t index = 0; index < count; ++index) {
    tiles_to[index] = sum += ballast::detail::tiles_of(list(index), tile_bytes);
  }
  ballast::detail::tiled_list<List> const copies{list, tiles_to.data(), count, tile_bytes, first};
  std::uint64_t const shares = copies.shares(warps);
  for (std::uint64_t share = 0; share < shares; ++share) {
    for (std::uint32_t lane = 0; lane < ballast::detail::warp_lanes; ++lane) {
      ballast::detail::copy_share(copies, share, shares, lane);
    }
  }
  if constexpr (ballast::detail::makes_more<List>) {
    constexpr std::uint32_t threads = 5;
    for (std::uint32_t thread = 0; thread < threads; ++thread) { list.make_rest(thread, threads); }
  }
}

/// What detail::run_part queues.
template <ballast::detail::unpacking_list List>
void run_part_on_host(List const& list, ballast::unpack_part part)
{
  bool const is_kept = part == ballast::unpack_part::kept;
  bool const is_all = part == ballast::unpack_part::all;
  run_on_host(list, is_kept || is_all ? list.count() : list.from_messages(), 3, 4096,
              is_kept ? list.from_messages() : 0);
}

}  // namespace ballast_test
