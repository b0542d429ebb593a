// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_DETAIL_HEAD_BLOCK_HPP
#define BALLAST_ROUTE_DETAIL_HEAD_BLOCK_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/units.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_split.hpp>
#include <ballast/route/pack_rows.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// Some tokens of one GPU with the heads of another or the same, all sizes in bytes: what one array
/// has in one message of an Ulysses exchange, [rows][run].
struct head_block {
  tokens rows = 0;
  std::size_t row = 0;     ///< a token with all heads
  std::size_t first = 0;   ///< where in it the share of heads begins
  std::size_t run = 0;     ///< the share
  std::size_t shared = 0;  ///< how much of the beginning of the share a GPU before has too
  std::size_t offset = 0;  ///< of the block in the messages

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_empty() const
  {
    return rows == 0 || run == 0;
  }

  /// Without the zeros behind it.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t bytes() const
  {
    return static_cast<std::size_t>(rows) * run;
  }

  /// Room in a message.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t room() const
  {
    return block_bytes(rows, run);
  }
};

/// The block of `rows` tokens with the heads of a GPU, at offset 0.
[[nodiscard]] BALLAST_HOST_DEVICE constexpr head_block block_of(head_split split, tokens rows,
                                                                std::uint32_t of_heads,
                                                                head_shape shape)
{
  chunk const share = split.share(of_heads, shape.heads);
  std::size_t const head = shape.head_bytes;
  return {rows,
          shape.heads * head,
          static_cast<std::size_t>(share.first) * head,
          static_cast<std::size_t>(share.count) * head,
          static_cast<std::size_t>(split.shared(of_heads, shape.heads)) * head,
          0};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_ROUTE_DETAIL_HEAD_BLOCK_HPP
