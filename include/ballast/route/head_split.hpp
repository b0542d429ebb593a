// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_HEAD_SPLIT_HPP
#define BALLAST_ROUTE_HEAD_SPLIT_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/route/chunking.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// Which heads each GPU of a bag has in attention: the arithmetic of ulysses_plan, for the host and
/// for kernels.
///
/// Query heads are split by chunk_of. An array may have fewer heads: query head q of Q uses head
/// floor(q x H / Q) of its H, and a GPU's share is every head that its query heads use.
///
/// Expects     gpus >= 1; query_heads >= 1; 1 <= heads <= query_heads for every array.
/// Ensures     (1) the shares of query heads are all query heads, each once; with fewer heads than
///                 GPUs some shares are empty
///             (2) the shares of an array with fewer heads cover all its heads, and a GPU's share
///                 has only heads that its query heads use
///             (3) from GPU to GPU the first and the last head of the shares do not decrease; empty
///                 shares come last
/// Complexity  O(1).
struct head_split {
  std::uint32_t query_heads = 1;
  std::uint32_t gpus = 1;

  /// Returns which of `heads` heads a query head uses.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::int64_t used_by(std::int64_t query_head,
                                                                   std::uint32_t heads) const
  {
    BALLAST_EXPECTS(0 <= query_head && query_head < query_heads, "query head ", query_head, " of ",
                    query_heads);
    BALLAST_EXPECTS(1 <= heads && heads <= query_heads, "an array has ", heads,
                    " heads, which is not from 1 to the ", query_heads, " query heads");
    return query_head * heads / query_heads;
  }

  /// Returns which of `heads` heads a GPU has; with heads = query_heads, its query heads.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr chunk share(std::uint32_t gpu,
                                                          std::uint32_t heads) const
  {
    chunk const queries = chunk_of(query_heads, gpus, gpu);
    if (queries.count == 0) { return {heads, 0}; }
    std::int64_t const first = used_by(queries.first, heads);
    return {first, used_by(queries.first + queries.count - 1, heads) - first + 1};
  }

  /// Returns how many heads of a GPU's share an earlier GPU has too: 0, or 1, which is then the
  /// first head of the share, since GPUs have consecutive query heads.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::int64_t shared(std::uint32_t gpu,
                                                                  std::uint32_t heads) const
  {
    chunk const own = share(gpu, heads);
    if (gpu == 0 || own.count == 0) { return 0; }
    chunk const before = share(gpu - 1, heads);
    return before.first + before.count - own.first;
  }

  /// Returns whether some head is on several GPUs.
  [[nodiscard]] constexpr bool replicates(std::uint32_t heads) const
  {
    for (std::uint32_t gpu = 1; gpu < gpus; ++gpu) {
      if (shared(gpu, heads) > 0) { return true; }
    }
    return false;
  }

  friend constexpr bool operator==(head_split const&, head_split const&) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_HEAD_SPLIT_HPP
