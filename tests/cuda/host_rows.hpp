// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copies_on_host.hpp"

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/cuda/tables.hpp>

#include <cstring>

/// What a prepared_route does on a stream, by the host, lane after lane: with the same tables, lists
/// and arithmetic.
namespace ballast_test {

/// What prepared_route::prepare() finds of one table, in memory of the host.
class found_places {
 public:
  found_places(ballast::device_ranges const& table, ballast::device_rows const& rows)
      : rows_before_(table.bound),
        origins_(std::size_t{table.ranks} * rows.count),
        ends_(origins_.size())
  {
    ballast::detail::rows_of_range const count{table};
    ballast::tokens sum = 0;
    for (std::uint32_t range = 0; range < table.bound; ++range) {
      rows_before_[range] = sum;
      sum += count(range);
    }
    ballast::detail::message_blocks const blocks{table, rows, places()};
    ballast::detail::peer_sums before;
    for (std::uint32_t peer = 0; peer < table.ranks; ++peer) {
      blocks.write(peer, before);
      before = before + blocks.of(peer);
    }
  }

  [[nodiscard]] ballast::detail::message_places places()
  {
    return {rows_before_.data(), origins_.data(), ends_.data()};
  }

 private:
  std::vector<ballast::tokens> rows_before_;
  std::vector<std::size_t> origins_;
  std::vector<std::size_t> ends_;
};

inline void pack_by_list(ballast::device_ranges const& table, ballast::device_rows const& rows,
                         std::byte* messages)
{
  found_places found(table, rows);
  ballast::detail::pack_copies const list{{table, rows, found.places()}, messages};
  run_on_host(list, list.count());
}

inline void unpack_by_list(ballast::device_ranges const& table, ballast::device_kept const& kept,
                           bool reverse, ballast::device_rows const& rows,
                           std::byte const* messages,
                           ballast::unpack_part part = ballast::unpack_part::all)
{
  found_places found(table, rows);
  ballast::detail::unpack_copies const list{{table, rows, found.places()}, kept, reverse, messages};
  run_part_on_host(list, part);
}

}  // namespace ballast_test
