// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/row_array.hpp>

namespace ballast::inline v0 {

/// The heads of an array [rows][heads][dim]: how many a token has, and how many bytes each head
/// has.
struct head_shape {
  std::uint32_t heads = 1;
  std::size_t head_bytes = 0;

  friend constexpr bool operator==(head_shape const&, head_shape const&) = default;
};

/// An array with heads, before and after an exchange: queries, keys, values, attention output, or a
/// gradient of one of them.
struct head_array {
  std::span<std::byte const> from;
  std::span<std::byte> to;
  head_shape shape;
  /// Adds the elements in `values` to those in `sums`; null if elements cannot be added. heads_of
  /// leaves it null for integers, since arrays of 16-bit integers often hold bf16. Set it yourself
  /// if yours hold numbers.
  void (*add)(std::byte* sums, std::byte const* values, std::size_t bytes) = nullptr;
  std::size_t element_bytes = 0;  ///< which ranks compare; 0 says nothing
};

namespace detail {

/// A word of how many arrays there are, and of their heads: the same on every rank.
[[nodiscard]] inline std::uint64_t word_of(std::span<head_array const> arrays)
{
  digest all;
  for (head_array const& each : arrays) {
    all.add(each.shape.heads).add(each.shape.head_bytes).add(each.element_bytes);
  }
  return all.add(arrays.size()).value();
}

template <class T>
concept addable = std::default_initializable<T> && !std::integral<T> &&
                  requires(T const& sum, T const& value) { static_cast<T>(sum + value); };

/// `sums` points to elements; `values` points to bytes of elements in a message, of any alignment.
template <addable T>
void add_elements(std::byte* sums, std::byte const* values, std::size_t bytes)
{
  auto* const sum = reinterpret_cast<T*>(sums);
  for (std::size_t element = 0; element < bytes / sizeof(T); ++element) {
    T value;
    std::memcpy(&value, values + element * sizeof(T), sizeof(T));
    sum[element] = static_cast<T>(sum[element] + value);
  }
}

}  // namespace detail

/// Makes a head_array of `heads` heads per token with `dim` elements each:
/// heads_of(q, q_whole, 32, 128).
///
/// Shapes      between attentions [rows(gpu)][heads][dim], in attention [rows()][share][dim]: from
///             and to, or to and from, as the exchange says.
/// Expects     dim >= 1; the two do not overlap, except in a bag of one.
template <class From, class To>
  requires detail::movable_elements<From const&, To>
[[nodiscard]] head_array heads_of(From const& from, To&& to, std::uint32_t heads, std::size_t dim)
{
  BALLAST_EXPECTS(dim >= 1, "an array has heads of ", detail::counted(dim, "element"));
  using T = std::ranges::range_value_t<To>;
  std::span const source(from);
  std::span const target(to);
  head_array array{std::as_bytes(source), std::as_writable_bytes(target), {heads, dim * sizeof(T)}};
  if constexpr (detail::addable<T>) { array.add = detail::add_elements<T>; }
  array.element_bytes = sizeof(T);
  return array;
}

/// Which heads each GPU of a bag has in attention: the arithmetic of ulysses_plan, for the host and
/// for kernels.
///
/// Query heads are split by chunk_of. An array may have fewer heads: query head q of Q uses head
/// floor(q x H / Q) of its H, and a GPU's share is every head that its query heads use.
///
/// With kv_heads, the query heads that use one key-value head are a group, and groups are kept
/// whole, as common kernels of grouped-query attention need it: chunk_of splits the groups over the
/// GPUs or, where there are more GPUs, the GPUs over the groups and then each group over its GPUs.
/// Of 28 query heads and 4 key-value heads, 3 GPUs have 14, 7 and 7 query heads, and 8 GPUs have 4
/// and 3 in turn, each with one key-value head.
///
/// Expects     gpus >= 1; query_heads >= 1; 1 <= heads <= query_heads for every array; is_possible().
/// Ensures     (1) the shares of query heads are all query heads, each once; with fewer heads than
///                 GPUs some shares are empty
///             (2) the shares of an array with fewer heads cover all its heads, and a GPU's share
///                 has only heads that its query heads use
///             (3) from GPU to GPU the first and the last head of the shares do not decrease; empty
///                 shares come last
///             (4) with kv_heads, a GPU has whole groups or heads of one group only
/// Complexity  O(1).
struct head_split {
  /// One array's part of one message of an Ulysses exchange, [rows][run]: tokens of one GPU, with the
  /// share of heads of another or the same GPU. All sizes are in bytes.
  struct block {
    tokens rows = 0;
    std::size_t row = 0;    ///< of a token with all heads
    std::size_t first = 0;  ///< where in the token the share of heads begins
    std::size_t run = 0;    ///< of the share
    std::size_t shared =
        0;  ///< of the first head of the share if an earlier GPU has it too, else 0
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

  std::uint32_t query_heads = 1;
  std::uint32_t gpus = 1;
  std::uint32_t kv_heads = 0;  ///< whose groups stay whole; 0: none do

  /// Whether there is a split: not over more GPUs than query heads where groups stay whole, nor
  /// where query heads are no multiple of key-value heads.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr bool is_possible() const
  {
    return kv_heads == 0 || (query_heads % kv_heads == 0 && gpus <= query_heads);
  }

  /// Returns the query heads of a GPU.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr chunk queries_of(std::uint32_t gpu) const
  {
    BALLAST_EXPECTS(is_possible(), "whole groups of ", detail::counted(kv_heads, "key-value head"),
                    " and ", detail::counted(query_heads, "query head"), " were to be split over ",
                    detail::counted(gpus, "GPU"),
                    "; take at most one GPU for a query head, and a multiple of key-value "
                    "heads as query heads");
    if (kv_heads == 0) { return chunk_of(query_heads, gpus, gpu); }
    std::int64_t const group = query_heads / kv_heads;
    if (gpus <= kv_heads) {
      chunk const groups = chunk_of(kv_heads, gpus, gpu);
      return {groups.first * group, groups.count * group};
    }
    std::uint32_t const fewer = gpus / kv_heads;        // GPUs of a group
    std::uint32_t const longer = gpus % kv_heads;       // the first groups have one more
    std::uint32_t const theirs = longer * (fewer + 1);  // GPUs of those
    std::uint32_t const own = gpu < theirs ? gpu / (fewer + 1) : longer + (gpu - theirs) / fewer;
    chunk const of_group = chunk_of(gpus, kv_heads, own);
    chunk const part = chunk_of(group, static_cast<std::uint32_t>(of_group.count),
                                gpu - static_cast<std::uint32_t>(of_group.first));
    return {own * group + part.first, part.count};
  }

  /// Returns which of `heads` heads a query head uses.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::int64_t used_by(std::int64_t query_head,
                                                                   std::uint32_t heads) const
  {
    BALLAST_EXPECTS(0 <= query_head && query_head < query_heads, "query head ", query_head, " of ",
                    query_heads);
    BALLAST_EXPECTS(1 <= heads && heads <= query_heads, "an array has ",
                    detail::counted(heads, "head"), ", which is not from 1 to the ",
                    detail::counted(query_heads, "query head"));
    return query_head * heads / query_heads;
  }

  /// Returns which of `heads` heads a GPU has; with heads = query_heads, its query heads.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr chunk share(std::uint32_t gpu,
                                                          std::uint32_t heads) const
  {
    chunk const queries = queries_of(gpu);
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

  /// Returns the block of `rows` tokens with the heads of a GPU, at offset 0.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr block block_of(tokens rows, std::uint32_t gpu,
                                                             head_shape shape) const
  {
    chunk const own = share(gpu, shape.heads);
    std::size_t const head = shape.head_bytes;
    return {rows,
            shape.heads * head,
            static_cast<std::size_t>(own.first) * head,
            static_cast<std::size_t>(own.count) * head,
            static_cast<std::size_t>(shared(gpu, shape.heads)) * head,
            0};
  }

  friend constexpr bool operator==(head_split const&, head_split const&) = default;
};

}  // namespace ballast::inline v0
