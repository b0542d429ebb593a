// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_HEAD_BLOCK_HPP
#define BALLAST_ROUTE_HEAD_BLOCK_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_split.hpp>
#include <ballast/route/pack_rows.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0 {

/// One array's part of one message of an Ulysses exchange, [rows][run]: tokens of one GPU, with the
/// share of heads of another or the same GPU. All sizes are in bytes.
struct head_block {
  tokens rows = 0;
  std::size_t row = 0;     ///< of a token with all heads
  std::size_t first = 0;   ///< where in the token the share of heads begins
  std::size_t run = 0;     ///< of the share
  std::size_t shared = 0;  ///< of the first head of the share if an earlier GPU has it too, else 0
  std::size_t offset = 0;  ///< of the block in the messages

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_empty() const
  {
    return rows == 0 || run == 0;
  }

  /// The size without padding.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t bytes() const
  {
    return static_cast<std::size_t>(rows) * run;
  }

  /// The size in a message, with padding.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t room() const
  {
    return block_bytes(rows, run);
  }
};

/// Returns the block of `rows` tokens with the heads of a GPU, at offset 0.
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

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_HEAD_BLOCK_HPP
