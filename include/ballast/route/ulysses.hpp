// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_ROUTE_ULYSSES_HPP
#define BALLAST_ROUTE_ULYSSES_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/units.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/head_split.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Consecutive tokens of one sequence that lie on one GPU of a bag between its attentions.
struct bag_chunk {
  tokens own_row = 0;  ///< of that GPU's rows, where the tokens begin
  tokens row = 0;      ///< of the rows of the bag, all sequences whole, where they begin
  tokens count = 0;

  friend constexpr bool operator==(bag_chunk const&, bag_chunk const&) = default;
};

/// What one GPU puts on the wire to get from tokens to heads, and what comes to it. The way back
/// swaps the two. Its own part and the padding of messages do not count.
struct ulysses_volume {
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint32_t messages_sent = 0;
  std::uint32_t messages_received = 0;

  friend constexpr bool operator==(ulysses_volume const&, ulysses_volume const&) = default;
};

/// Who has which tokens and which heads inside one compute bag.
///
/// Between attentions GPU g of the bag has chunk g of each of the bag's sequences, with all heads:
/// rows(g) rows, sequence after sequence, as placement::assign_chunks lays them out. For attention
/// it has all rows() of all sequences with its share of the heads.
///
/// Query heads are split by chunk_of. An array may have fewer heads (grouped-query and multi-query
/// attention): query head q of Q uses head floor(q x H / Q) of its H, and a GPU's share is every
/// head that its query heads use. GPUs whose query heads use the same head have a copy each. An
/// array with one head, such as a position a token, thus goes to every GPU that has query heads.
///
/// The plan says nothing of which GPU asks, so that all GPUs of a bag have equal plans.
///
/// Expects     lengths from 0 to longest_sample, none shorter than the bag has GPUs except 0;
///             gpus >= 1; query_heads >= 1; 1 <= heads <= query_heads for every array.
/// Ensures     (1) the chunks of all GPUs are all rows, each once
///             (2) shares of query heads are all heads, each once; they may be empty when there are
///                 fewer heads than GPUs
///             (3) the shares of an array with fewer heads cover all of them, and hold no head that
///                 the GPU has no query head for
///             (4) first and last heads of non-empty shares do not decrease from GPU to GPU, and
///                 empty shares come last
/// Complexity  assign: O(sequences x GPUs), and it allocates only when there are more sequences or
///             GPUs than ever before. Volumes and digest: O(GPUs x arrays) and O(sequences).
/// Source      S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, where heads divide
///             evenly.
class ulysses_plan {
 public:
  ulysses_plan() = default;

  /// A bag that holds these sequences.
  void assign(std::span<tokens const> lengths, std::uint32_t gpus, std::uint32_t query_heads)
  {
    start(lengths.size(), gpus, query_heads);
    for (tokens const length : lengths) { append(length); }
  }

  /// A bag that holds some samples of a step: assign(lengths, plan.samples[bag], gpus, heads).
  ///
  /// Expects     samples below lengths.size().
  void assign(std::span<tokens const> lengths, std::span<sample_id const> samples,
              std::uint32_t gpus, std::uint32_t query_heads)
  {
    start(samples.size(), gpus, query_heads);
    for (sample_id const sample : samples) {
      BALLAST_EXPECTS(to_index(sample) < lengths.size());
      append(lengths[to_index(sample)]);
    }
  }

  /// GPUs of the bag.
  [[nodiscard]] std::uint32_t gpus() const noexcept
  {
    return static_cast<std::uint32_t>(rows_of_.size());
  }

  [[nodiscard]] std::uint32_t query_heads() const noexcept { return query_heads_; }

  /// Lengths of the bag's sequences.
  [[nodiscard]] std::span<tokens const> lengths() const noexcept { return lengths_; }

  /// Rows of the bag: what a GPU's arrays have in attention.
  [[nodiscard]] tokens rows() const noexcept { return rows_; }

  /// Rows of one GPU: what its arrays have between attentions.
  [[nodiscard]] tokens rows(std::uint32_t gpu) const
  {
    BALLAST_EXPECTS(gpu < gpus());
    return rows_of_[gpu];
  }

  /// Which heads each GPU has.
  [[nodiscard]] head_split split() const noexcept { return {query_heads_, gpus()}; }

  /// The head, of `heads`, that a query head uses.
  [[nodiscard]] std::int64_t head_used_by(std::int64_t query_head, std::uint32_t heads) const
  {
    return split().used_by(query_head, heads);
  }

  /// The heads, of `heads`, that a GPU has in attention. heads = query_heads() asks for its query
  /// heads.
  [[nodiscard]] chunk share(std::uint32_t gpu, std::uint32_t heads) const
  {
    return split().share(gpu, heads);
  }

  /// Heads that an array has on a GPU between attentions, rows x heads; times dim, its elements.
  [[nodiscard]] std::size_t heads_of_chunks(std::uint32_t gpu, std::uint32_t heads) const
  {
    return static_cast<std::size_t>(rows(gpu)) * heads;
  }

  /// Heads that it has there in attention, rows x share of the heads.
  [[nodiscard]] std::size_t heads_of_sequences(std::uint32_t gpu, std::uint32_t heads) const
  {
    return static_cast<std::size_t>(rows_ * share(gpu, heads).count);
  }

  /// How many heads of a GPU's share a GPU before it has too: 0 or 1, and then it is the first.
  [[nodiscard]] std::int64_t shared(std::uint32_t gpu, std::uint32_t heads) const
  {
    return split().shared(gpu, heads);
  }

  /// Whether several GPUs have a copy of the same head.
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

  /// What a GPU sends and receives when these arrays go from tokens to heads.
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

  /// One word that differs where any length, the number of GPUs or of query heads does.
  [[nodiscard]] std::uint64_t digest() const noexcept
  {
    return ballast::digest{}.add(gpus()).add(query_heads_).add(lengths()).value();
  }

  friend bool operator==(ulysses_plan const&, ulysses_plan const&) = default;

 private:
  void start(std::size_t sequences, std::uint32_t gpus, std::uint32_t query_heads)
  {
    BALLAST_EXPECTS(gpus >= 1 && query_heads >= 1);
    lengths_.clear();
    lengths_.reserve(sequences);
    rows_of_.assign(gpus, 0);
    rows_ = 0;
    query_heads_ = query_heads;
  }

  void append(tokens length)
  {
    BALLAST_EXPECTS(length == 0 || (length >= gpus() && length <= longest_sample));
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
  std::uint32_t query_heads_ = 0;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_ROUTE_ULYSSES_HPP
