// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ULYSSES_HPP
#define BALLAST_ROUTE_ULYSSES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_split.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Consecutive tokens of one sequence that lie on one GPU of a bag between attentions.
struct bag_chunk {
  tokens own_row = 0;  ///< where the tokens begin in that GPU's rows
  tokens row = 0;      ///< where they begin in the bag's rows, which are all whole sequences
  tokens count = 0;

  friend constexpr bool operator==(bag_chunk const&, bag_chunk const&) = default;
};

/// What one GPU sends and receives to get from tokens to heads; from heads to tokens the two are
/// swapped. What stays on the GPU and the padding of messages are not counted.
struct ulysses_volume {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint32_t messages_sent = 0;
  std::uint32_t messages_received = 0;

  friend constexpr bool operator==(ulysses_volume const&, ulysses_volume const&) = default;
};

/// Which GPU of a compute bag has which tokens, and which heads.
///
/// Between attentions GPU g of the bag has chunk g of each of the bag's sequences, with all heads:
/// rows(g) rows, sequence by sequence, as place(plan, bags) has them. In attention it
/// has all rows() of all sequences, with its share of the heads.
///
/// Query heads are split by chunk_of. An array may have fewer heads (grouped-query and multi-query
/// attention): query head q of Q uses head floor(q x H / Q) of its H, and a GPU's share is every
/// head that its query heads use. If the query heads of several GPUs use the same head, each of
/// these GPUs has a copy. So an array with one head, such as the position of a token, goes to every
/// GPU that has query heads. With kv_heads, groups of grouped-query attention stay whole
/// (head_split).
///
/// A sequence of fewer tokens than the bag has GPUs has one on each of the first GPUs, and the
/// others exchange no rows of it. Which bags get such sequences is up to the layout
/// (short_samples); here every length is right.
///
/// All GPUs of a bag have equal plans.
///
/// Expects     lengths from 0 to longest_sample; gpus >= 1; query_heads >= 1; 1 <= heads <=
///             query_heads for every array; head_split::is_possible().
/// Ensures     (1) the chunks of all GPUs are all rows, each once
///             (2) the shares of query heads are all query heads, each once; with fewer heads than
///                 GPUs some shares are empty
///             (3) the shares of an array with fewer heads cover all its heads, and a GPU's share
///                 has only heads that its query heads use
///             (4) from GPU to GPU the first and the last head of the shares do not decrease; empty
///                 shares come last
/// Complexity  assign: O(sequences x GPUs), and it allocates only if there are more sequences or
///             GPUs than ever before. Volumes and digest: O(GPUs x arrays) and O(sequences).
/// Source      S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, where heads divide
///             evenly.
class ulysses_plan {
 public:
  ulysses_plan() = default;

  /// A bag that holds these sequences.
  void assign(std::span<tokens const> lengths, std::uint32_t gpus, std::uint32_t query_heads,
              std::uint32_t kv_heads = 0)
  {
    start(lengths.size(), {query_heads, gpus, kv_heads});
    for (tokens const length : lengths) { append(length); }
  }

  /// A bag that holds some samples of a step: assign(lengths, plan.samples[bag], gpus, heads).
  ///
  /// Expects     samples below lengths.size().
  void assign(std::span<tokens const> lengths, std::span<sample_id const> samples,
              std::uint32_t gpus, std::uint32_t query_heads, std::uint32_t kv_heads = 0)
  {
    start(samples.size(), {query_heads, gpus, kv_heads});
    for (sample_id const sample : samples) {
      BALLAST_EXPECTS(to_index(sample) < lengths.size(), "the bag holds sample ", sample,
                      ", and there are lengths of ", lengths.size());
      append(lengths[to_index(sample)]);
    }
  }

  /// GPUs of the bag.
  [[nodiscard]] std::uint32_t gpus() const noexcept
  {
    return static_cast<std::uint32_t>(rows_of_.size());
  }

  [[nodiscard]] std::uint32_t query_heads() const noexcept { return split_.query_heads; }

  /// Lengths of the bag's sequences.
  [[nodiscard]] std::span<tokens const> lengths() const noexcept
  {
    return detail::span_of(lengths_);
  }

  /// Writes where each sequence begins in the rows of the bag, and where the last ends: cu_seqlens
  /// of attention kernels that take sequences of any lengths, one behind the other.
  ///
  /// Shapes      cu_seqlens[lengths().size() + 1]; what is behind gets the end, as sequences of no
  ///             tokens.
  /// Expects     rows() < 2^31.
  void write_cu_seqlens(std::span<std::int32_t> cu_seqlens) const
  {
    BALLAST_EXPECTS(cu_seqlens.size() > lengths_.size(), "there is room for ", cu_seqlens.size(),
                    " numbers, and ", detail::counted(lengths_.size(), "sequence"),
                    " take one more than there are");
    BALLAST_EXPECTS(rows_ <= std::numeric_limits<std::int32_t>::max(), "the bag has ", rows_,
                    " rows, which 32 bits do not count");
    std::int32_t begin = 0;
    for (std::size_t at = 0; at < cu_seqlens.size(); ++at) {
      cu_seqlens[at] = begin;
      if (at < lengths_.size()) { begin += static_cast<std::int32_t>(lengths_[at]); }
    }
  }

  /// Rows of the bag: what a GPU's arrays have in attention.
  [[nodiscard]] tokens rows() const noexcept { return rows_; }

  /// Rows of one GPU: what its arrays have between attentions.
  [[nodiscard]] tokens rows(std::uint32_t gpu) const
  {
    BALLAST_EXPECTS(gpu < gpus(), "GPU ", gpu, " of a bag of ", gpus());
    return rows_of_[gpu];
  }

  /// Which heads each GPU has.
  [[nodiscard]] head_split split() const noexcept { return split_; }

  /// Returns which of `heads` heads a query head uses.
  [[nodiscard]] std::int64_t head_used_by(std::int64_t query_head, std::uint32_t heads) const
  {
    return split().used_by(query_head, heads);
  }

  /// Returns which of `heads` heads a GPU has in attention; with heads = query_heads(), its query
  /// heads.
  [[nodiscard]] chunk share(std::uint32_t gpu, std::uint32_t heads) const
  {
    return split().share(gpu, heads);
  }

  /// Heads of an array on a GPU between attentions: rows x heads. Times dim: its elements.
  [[nodiscard]] std::size_t heads_of_chunks(std::uint32_t gpu, std::uint32_t heads) const
  {
    return static_cast<std::size_t>(rows(gpu)) * heads;
  }

  /// Heads of an array on a GPU in attention: rows x share of the heads.
  [[nodiscard]] std::size_t heads_of_sequences(std::uint32_t gpu, std::uint32_t heads) const
  {
    return static_cast<std::size_t>(rows_ * share(gpu, heads).count);
  }

  /// Returns how many heads of a GPU's share an earlier GPU has too: 0, or 1, which is then its
  /// first.
  [[nodiscard]] std::int64_t shared(std::uint32_t gpu, std::uint32_t heads) const
  {
    return split().shared(gpu, heads);
  }

  /// Returns whether some head is on several GPUs.
  [[nodiscard]] bool replicates(std::uint32_t heads) const { return split().replicates(heads); }

  /// Calls visit(bag_chunk) for a GPU's chunk of every sequence that has tokens, in order.
  template <std::invocable<bag_chunk const&> Visit>
  void for_each_chunk(std::uint32_t gpu, Visit&& visit) const
  {
    bag_chunk next;
    tokens sequence = 0;  // its first row
    for (tokens const length : lengths_) {
      chunk const part = chunk_of(length, gpus(), gpu);
      next.row = sequence + part.first;
      next.count = part.count;
      if (next.count > 0) { visit(next); }
      next.own_row += next.count;
      sequence += length;
    }
  }

  /// Returns what a GPU sends and receives when these arrays go from tokens to heads.
  [[nodiscard]] ulysses_volume to_heads_volume(std::uint32_t gpu,
                                               std::span<head_shape const> arrays) const
  {
    ulysses_volume volume;
    for (std::uint32_t peer = 0; peer < gpus(); ++peer) {
      if (peer == gpu) { continue; }
      std::uint64_t const sent = payload(gpu, peer, arrays);
      std::uint64_t const received = payload(peer, gpu, arrays);
      volume.bytes_sent += sent;
      volume.bytes_received += received;
      volume.messages_sent += sent > 0 ? 1 : 0;
      volume.messages_received += received > 0 ? 1 : 0;
    }
    return volume;
  }

  /// Returns one word that differs if any length, the number of GPUs or the split differs.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}
        .add(gpus())
        .add(query_heads())
        .add(split_.kv_heads)
        .add(lengths())
        .value();
  }

  friend bool operator==(ulysses_plan const&, ulysses_plan const&) = default;

 private:
  void start(std::size_t sequences, head_split split)
  {
    BALLAST_EXPECTS(split.gpus >= 1 && split.query_heads >= 1, "the bag has ",
                    detail::counted(split.gpus, "GPU"), " and ",
                    detail::counted(split.query_heads, "query head"));
    static_cast<void>(split.queries_of(0));  // refuses what is not possible
    lengths_.clear();
    lengths_.reserve(sequences);
    rows_of_.assign(split.gpus, 0);
    rows_ = 0;
    split_ = split;
  }

  void append(tokens length)
  {
    BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "sequence ", lengths_.size(),
                    " has a length of ", length, ", which is not from 0 to ", longest_sample);
    lengths_.push_back(length);
    rows_ += length;
    for (std::uint32_t gpu = 0; gpu < gpus(); ++gpu) {
      rows_of_[gpu] += chunk_of(length, gpus(), gpu).count;
    }
  }

  // Bytes of the tokens of one GPU for the heads of another.
  [[nodiscard]] std::uint64_t payload(std::uint32_t of_tokens, std::uint32_t of_heads,
                                      std::span<head_shape const> arrays) const
  {
    std::uint64_t row_bytes = 0;
    for (head_shape const array : arrays) {
      auto const heads = static_cast<std::uint64_t>(share(of_heads, array.heads).count);
      row_bytes += heads * array.head_bytes;
    }
    return static_cast<std::uint64_t>(rows(of_tokens)) * row_bytes;
  }

  std::vector<tokens> lengths_;
  std::vector<tokens> rows_of_;  ///< of each GPU
  tokens rows_ = 0;
  head_split split_{.query_heads = 0, .gpus = 0};
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ULYSSES_HPP
