// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/route.hpp>

namespace ballast::inline v0 {

namespace detail {

enum class block_side { own_tokens, own_heads };

/// Copies `rows` runs of `run` bytes, which may be 0. Runs begin a stride apart.
BALLAST_ONCE void copy_runs(std::byte* to, std::size_t to_stride, std::byte const* from,
                            std::size_t from_stride, std::size_t run, tokens rows);

/// Copies `rows` runs into tokens with all heads; a head that an earlier GPU has too is added to
/// what is there.
BALLAST_ONCE void place_runs(head_array const& array, head_split::block const& block, std::byte* to,
                             std::byte const* from, tokens rows);

/// Writes the zeros after a block, so that every byte of a message is written.
BALLAST_ONCE void pad_block(head_split::block const& block, std::byte* message);

}  // namespace detail

/// Which GPU of a compute bag has which tokens, and which heads.
///
/// Between attentions GPU g of the bag has chunk g of each of the bag's sequences, with all heads:
/// rows(g) rows, sequence by sequence, as place(plan, bags) has them. In attention it
/// has all rows() of all sequences, with its share of the heads.
///
/// Heads are shared out as head_split says. If the query heads of several GPUs use the same head of
/// an array that has fewer, each of these GPUs has a copy. So an array with one head, such as the
/// position of a token, goes to every GPU that has query heads.
///
/// A sequence of fewer tokens than the bag has GPUs has one on each of the first GPUs, and the
/// others exchange no rows of it. Which bags get such sequences is up to the layout
/// (short_samples); here every length is right.
///
/// All GPUs of a bag have equal plans.
///
/// Expects     lengths from 0 to longest_sample, and what head_split expects.
/// Ensures     (1) the chunks of all GPUs are all rows, each once
///             (2) the shares of heads are those of head_split
/// Complexity  assign: O(sequences x GPUs), and it allocates only if there are more sequences or
///             GPUs than ever before. Volumes and digest: O(GPUs x arrays) and O(sequences).
/// Source      S. A. Jacobs et al., "DeepSpeed Ulysses", arXiv 2309.14509, where heads divide
///             evenly.
class ulysses_plan {
 public:
  /// Consecutive tokens of one sequence that lie on one GPU of a bag between attentions.
  struct bag_chunk {
    tokens own_row = 0;  ///< where the tokens begin in that GPU's rows
    tokens row = 0;      ///< where they begin in the bag's rows, which are all whole sequences
    tokens count = 0;

    friend constexpr bool operator==(bag_chunk const&, bag_chunk const&) = default;
  };

  /// What one GPU sends and receives to get from tokens to heads; from heads to tokens the two are
  /// swapped. What stays on the GPU and the padding of messages are not counted.
  struct volume {
    std::uint64_t bytes_sent = 0;
    std::uint64_t bytes_received = 0;
    std::uint32_t messages_sent = 0;
    std::uint32_t messages_received = 0;

    friend constexpr bool operator==(volume const&, volume const&) = default;
  };

  ulysses_plan() = default;

  /// A bag that holds these sequences.
  BALLAST_ONCE void assign(std::span<tokens const> lengths, std::uint32_t gpus,
                           std::uint32_t query_heads, std::uint32_t kv_heads = 0);

  /// A bag that holds some samples of a step: assign(lengths, plan.samples[bag], gpus, heads).
  ///
  /// Expects     samples below lengths.size().
  BALLAST_ONCE void assign(std::span<tokens const> lengths, std::span<sample_id const> samples,
                           std::uint32_t gpus, std::uint32_t query_heads,
                           std::uint32_t kv_heads = 0);

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
  BALLAST_ONCE void write_cu_seqlens(std::span<std::int32_t> cu_seqlens) const;

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
  [[nodiscard]] BALLAST_ONCE volume to_heads_volume(std::uint32_t gpu,
                                                    std::span<head_shape const> arrays) const;

  /// Returns one word that differs if any length, the number of GPUs or the split differs.
  [[nodiscard]] BALLAST_ONCE std::uint64_t digest() const noexcept;

  /// Returns the bytes of the message between two GPUs that holds the tokens of one with the heads of
  /// the other: to the heads' GPU before attention, back to the tokens' GPU after it.
  ///
  /// A message has a block for each array, in the order of the arrays. A block is
  /// [rows(of_tokens)][share of of_heads][head_bytes], and zeros up to a multiple of
  /// message_alignment.
  [[nodiscard]] BALLAST_ONCE std::size_t message_bytes(std::uint32_t of_tokens,
                                                       std::uint32_t of_heads,
                                                       std::span<head_array const> arrays) const;

  /// Copies a GPU's tokens into messages, for each peer with the peer's heads. This function and the
  /// next three are the references of the device's, which make the same bytes.
  ///
  /// Shapes      messages: message_bytes(gpu, peer, arrays) for each peer in order, none for
  ///             the GPU itself; and `head` bytes more for each that has any, which are left alone.
  /// Complexity  one copy of the bytes, in runs of a share of the heads, or in one where the share is
  ///             all heads; O(GPUs x arrays) beside that.
  BALLAST_ONCE void pack_to_heads(std::uint32_t gpu, std::span<head_array const> arrays,
                                  std::span<std::byte> messages, std::size_t head = 0) const;

  /// Copies the messages of pack_to_heads, and what stays on the GPU, into whole sequences with the
  /// GPU's heads.
  ///
  /// Shapes      messages: message_bytes(peer, gpu, arrays) from each peer in order.
  /// Complexity  one copy of the bytes, in runs of a chunk; O(GPUs x arrays x sequences) beside that.
  BALLAST_ONCE void unpack_to_heads(std::uint32_t gpu, std::span<head_array const> arrays,
                                    std::span<std::byte const> messages,
                                    std::size_t head = 0) const;

  /// Copies whole sequences with the GPU's heads into messages, for each peer the peer's tokens.
  ///
  /// Shapes      messages: message_bytes(peer, gpu, arrays) for each peer in order.
  /// Complexity  that of unpack_to_heads.
  BALLAST_ONCE void pack_to_tokens(std::uint32_t gpu, std::span<head_array const> arrays,
                                   std::span<std::byte> messages, std::size_t head = 0) const;

  /// Copies the messages of pack_to_tokens, and what stays on the GPU, into the GPU's tokens with all
  /// heads; a head that several GPUs have is summed in the order of the GPUs.
  ///
  /// Shapes      messages: message_bytes(gpu, peer, arrays) from each peer in order.
  /// Expects     if some head of an array is on several GPUs, that array's elements can be added.
  /// Complexity  that of pack_to_heads, and one addition for each copy of an element beyond the
  ///             first.
  BALLAST_ONCE void unpack_to_tokens(std::uint32_t gpu, std::span<head_array const> arrays,
                                     std::span<std::byte const> messages,
                                     std::size_t head = 0) const;

  friend bool operator==(ulysses_plan const&, ulysses_plan const&) = default;

 private:
  BALLAST_ONCE void start(std::size_t sequences, head_split split);

  BALLAST_ONCE void append(tokens length);

  /// Calls visit(peer, head_array, head_split::block) for every block of the messages between one GPU and
  /// its peers, peer by peer and array by array, and for the blocks that stay on the GPU, which take
  /// no room in messages.
  ///
  /// The blocks are either the GPU's own tokens with each peer's heads, or each peer's tokens with
  /// the GPU's own heads. Each message begins with `head` bytes that are not its own.
  template <class Visit>
  void walk_blocks(std::uint32_t gpu, detail::block_side side, std::span<head_array const> arrays,
                   std::size_t head, Visit const& visit) const
  {
    std::size_t offset = 0;
    for (std::uint32_t peer = 0; peer < gpus(); ++peer) {
      std::size_t before = peer == gpu ? 0 : head;
      std::uint32_t const of_tokens = side == detail::block_side::own_tokens ? gpu : peer;
      std::uint32_t const of_heads = side == detail::block_side::own_tokens ? peer : gpu;
      for (head_array const& array : arrays) {
        head_split::block block = split_.block_of(rows(of_tokens), of_heads, array.shape);
        if (block.is_empty()) { continue; }
        offset += std::exchange(before, 0);
        block.offset = offset;
        visit(peer, array, block);
        if (peer != gpu) { offset += block.room(); }
      }
    }
  }

  // Bytes of the tokens of one GPU for the heads of another.
  [[nodiscard]] BALLAST_ONCE std::uint64_t payload(std::uint32_t of_tokens, std::uint32_t of_heads,
                                                   std::span<head_shape const> arrays) const;

  std::vector<tokens> lengths_;
  std::vector<tokens> rows_of_;  ///< of each GPU
  tokens rows_ = 0;
  head_split split_{.query_heads = 0, .gpus = 0};
};

namespace detail {

enum class head_direction { to_heads, to_tokens };

[[nodiscard]] BALLAST_ONCE std::uint64_t content_of(ulysses_plan const& plan,
                                                    head_direction direction,
                                                    std::span<head_array const> arrays);

BALLAST_ONCE void check_heads(ulysses_plan const& plan, std::uint32_t gpu, head_direction direction,
                              std::span<head_array const> arrays);

BALLAST_ONCE void pack_heads(ulysses_plan const& plan, std::uint32_t gpu, head_direction direction,
                             std::span<head_array const> arrays, std::span<std::byte> messages,
                             std::size_t head = 0);

BALLAST_ONCE void unpack_heads(ulysses_plan const& plan, std::uint32_t gpu,
                               head_direction direction, std::span<head_array const> arrays,
                               std::span<std::byte const> messages, std::size_t head = 0);

/// Copies a GPU's own bytes in an exchange of heads. What stays on the GPU is copied by keep() or by
/// unpack(), which also takes sums of heads, in the order of the GPUs; copy() does all the work of a
/// bag of one GPU.
template <class M>
concept head_mover = exchange_mover<M> && requires(M& mover) {
  { mover.copy() } -> std::same_as<result<void>>;
};

/// An exchange of heads. The mover copies the heads of these arrays in this direction.
template <communicator C, head_mover Mover>
[[nodiscard]] result<void> exchange_heads(C& bag, ulysses_plan const& plan,
                                          head_direction direction,
                                          std::span<head_array const> arrays, workspace& memory,
                                          Mover mover)
{
  BALLAST_EXPECTS(plan.gpus() == bag.size(), "the plan is for a bag of ",
                  counted(plan.gpus(), "GPU"), ", and the communicator has ", bag.size());
  auto const gpu = static_cast<std::uint32_t>(to_index(bag.rank()));
  check_heads(plan, gpu, direction, arrays);
  if (plan.gpus() == 1) { return mover.copy(); }

  bool const to_heads = direction == head_direction::to_heads;
  auto const sizes = [&](std::span<std::size_t> sent, std::span<std::size_t> received) {
    for (std::uint32_t peer = 0; peer < plan.gpus(); ++peer) {
      bool const stays = peer == gpu;
      std::size_t const own_tokens = stays ? 0 : plan.message_bytes(gpu, peer, arrays);
      std::size_t const own_heads = stays ? 0 : plan.message_bytes(peer, gpu, arrays);
      sent[peer] = to_heads ? own_tokens : own_heads;
      received[peer] = to_heads ? own_heads : own_tokens;
    }
  };
  return run_exchange(bag, memory, content_of(plan, direction, arrays), sizes, mover);
}

[[nodiscard]] BALLAST_ONCE result<void> exchange_heads(any_communicator bag,
                                                       ulysses_plan const& plan,
                                                       head_direction direction,
                                                       std::span<head_array const> arrays,
                                                       workspace& memory);

}  // namespace detail

/// Before attention: from a GPU's chunks of the sequences with all heads, to whole sequences with
/// its share of the heads. Any number of arrays in one all-to-all.
///
///     to_heads(bag, plan, memory, heads_of(q, q_whole, 32, 128),
///              heads_of(k, k_whole, 8, 128), heads_of(v, v_whole, 8, 128))
///
/// Collective in the bag: every GPU calls it with an equal plan and with arrays of the same heads
/// and types, which are compared, as the plans are, where the communicator compares sizes. It is
/// also the gradient of to_tokens, for an array of which no two GPUs have the same head.
///
/// In a bag of one the two layouts are the same: no collective is called, and an array is copied
/// once, or not at all if its `to` is its `from`.
///
/// Shapes      each array: from[plan.rows(gpu)][heads][dim], to[plan.rows()][share][dim], where gpu
///             is bag.rank() and share the count of plan.share(gpu, heads).
/// Expects     bag.size() == plan.gpus(); arrays in memory that the host reaches; `to` is `from` in
///             a bag of one only, and arrays do not overlap otherwise.
/// Ensures     (1) to[row][head] is that row of the bag's sequences and that head of the share,
///                 byte for byte
///             (2) the steady state allocates nothing
/// Errors      those of the communicator's all_to_all_v and wait; then `to` is unspecified and
///             `from` unchanged.
/// Complexity  that of packing and unpacking: each byte that moves is copied once on either side,
///             each that stays once. bag.scratch holds all messages of the GPU, in both directions.
template <communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_heads(C& bag, ulysses_plan const& plan, workspace& memory,
                                    Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_heads(bag, plan, detail::head_direction::to_heads, all, memory);
}

/// After attention: from whole sequences with a GPU's share of the heads, back to its chunks with
/// all heads. It is also the gradient of to_heads: if several GPUs have a copy of a head, each has
/// a gradient of it, and these are summed in the order of the GPUs, so that every run gives the
/// same bits.
///
/// Shapes      each array: from[plan.rows()][share][dim], to[plan.rows(gpu)][heads][dim].
/// Expects     what to_heads expects; if several GPUs have the same head, elements that can be
///             added.
/// Ensures     (1) to[row][head] is the sum of `from` over the GPUs that have the head, added one
///                 after another in the elements' own type; byte for byte if only one GPU has it
///             (2) the steady state allocates nothing
/// The rest is as for to_heads.
template <communicator C, std::same_as<head_array>... Arrays>
[[nodiscard]] result<void> to_tokens(C& bag, ulysses_plan const& plan, workspace& memory,
                                     Arrays const&... arrays)
{
  std::array<head_array, sizeof...(Arrays)> const all{arrays...};
  return detail::exchange_heads(bag, plan, detail::head_direction::to_tokens, all, memory);
}

}  // namespace ballast::inline v0

#ifndef BALLAST_COMPILED

namespace ballast::inline v0 {

[[nodiscard]] BALLAST_ONCE ulysses_plan::volume ulysses_plan::to_heads_volume(
    std::uint32_t gpu, std::span<head_shape const> arrays) const
{
  volume all;
  for (std::uint32_t peer = 0; peer < gpus(); ++peer) {
    if (peer == gpu) { continue; }
    std::uint64_t const sent = payload(gpu, peer, arrays);
    std::uint64_t const received = payload(peer, gpu, arrays);
    all.bytes_sent += sent;
    all.bytes_received += received;
    all.messages_sent += sent > 0 ? 1 : 0;
    all.messages_received += received > 0 ? 1 : 0;
  }
  return all;
}

BALLAST_ONCE void ulysses_plan::pack_to_heads(std::uint32_t gpu, std::span<head_array const> arrays,
                                              std::span<std::byte> messages, std::size_t head) const
{
  walk_blocks(gpu, detail::block_side::own_tokens, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_split::block const& block) {
                if (peer == gpu) { return; }
                std::byte* const message = messages.data() + block.offset;
                detail::copy_runs(message, block.run, array.from.data() + block.first, block.row,
                                  block.run, block.rows);
                detail::pad_block(block, message);
              });
}

BALLAST_ONCE void ulysses_plan::unpack_to_heads(std::uint32_t gpu,
                                                std::span<head_array const> arrays,
                                                std::span<std::byte const> messages,
                                                std::size_t head) const
{
  walk_blocks(gpu, detail::block_side::own_heads, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_split::block const& block) {
                bool const stays = peer == gpu;
                std::byte const* const from =
                    stays ? array.from.data() + block.first : messages.data() + block.offset;
                std::size_t const stride = stays ? block.row : block.run;
                for_each_chunk(peer, [&](ulysses_plan::bag_chunk const& part) {
                  detail::copy_runs(
                      array.to.data() + static_cast<std::size_t>(part.row) * block.run, block.run,
                      from + static_cast<std::size_t>(part.own_row) * stride, stride, block.run,
                      part.count);
                });
              });
}

BALLAST_ONCE void ulysses_plan::pack_to_tokens(std::uint32_t gpu,
                                               std::span<head_array const> arrays,
                                               std::span<std::byte> messages,
                                               std::size_t head) const
{
  walk_blocks(gpu, detail::block_side::own_heads, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_split::block const& block) {
                if (peer == gpu) { return; }
                std::byte* const message = messages.data() + block.offset;
                for_each_chunk(peer, [&](ulysses_plan::bag_chunk const& part) {
                  detail::copy_runs(
                      message + static_cast<std::size_t>(part.own_row) * block.run, block.run,
                      array.from.data() + static_cast<std::size_t>(part.row) * block.run, block.run,
                      block.run, part.count);
                });
                detail::pad_block(block, message);
              });
}

BALLAST_ONCE void ulysses_plan::unpack_to_tokens(std::uint32_t gpu,
                                                 std::span<head_array const> arrays,
                                                 std::span<std::byte const> messages,
                                                 std::size_t head) const
{
  walk_blocks(gpu, detail::block_side::own_tokens, arrays, head,
              [&](std::uint32_t peer, head_array const& array, head_split::block const& block) {
                BALLAST_EXPECTS(block.shared == 0 || array.add != nullptr,
                                "several GPUs have the same of the ",
                                detail::counted(array.shape.heads, "head"), " of array ",
                                &array - arrays.data(), ", and its elements cannot be added");
                std::byte* const to = array.to.data() + block.first;
                if (peer != gpu) {
                  detail::place_runs(array, block, to, messages.data() + block.offset, block.rows);
                  return;
                }
                for_each_chunk(gpu, [&](ulysses_plan::bag_chunk const& part) {
                  detail::place_runs(
                      array, block, to + static_cast<std::size_t>(part.own_row) * block.row,
                      array.from.data() + static_cast<std::size_t>(part.row) * block.run,
                      part.count);
                });
              });
}

BALLAST_ONCE void ulysses_plan::write_cu_seqlens(std::span<std::int32_t> cu_seqlens) const
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

[[nodiscard]] BALLAST_ONCE std::uint64_t ulysses_plan::digest() const noexcept
{
  return ballast::digest{}
      .add(gpus())
      .add(query_heads())
      .add(split_.kv_heads)
      .add(lengths())
      .value();
}

[[nodiscard]] BALLAST_ONCE std::size_t ulysses_plan::message_bytes(
    std::uint32_t of_tokens, std::uint32_t of_heads, std::span<head_array const> arrays) const
{
  std::size_t bytes = 0;
  for (head_array const& array : arrays) {
    bytes += split_.block_of(rows(of_tokens), of_heads, array.shape).room();
  }
  return bytes;
}

BALLAST_ONCE void ulysses_plan::start(std::size_t sequences, head_split split)
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

BALLAST_ONCE void ulysses_plan::append(tokens length)
{
  BALLAST_EXPECTS(length >= 0 && length <= longest_sample, "sequence ", lengths_.size(),
                  " has a length of ", length, ", which is not from 0 to ", longest_sample);
  lengths_.push_back(length);
  rows_ += length;
  for (std::uint32_t gpu = 0; gpu < gpus(); ++gpu) {
    rows_of_[gpu] += chunk_of(length, gpus(), gpu).count;
  }
}

[[nodiscard]] BALLAST_ONCE std::uint64_t ulysses_plan::payload(
    std::uint32_t of_tokens, std::uint32_t of_heads, std::span<head_shape const> arrays) const
{
  std::uint64_t row_bytes = 0;
  for (head_shape const array : arrays) {
    auto const heads = static_cast<std::uint64_t>(share(of_heads, array.heads).count);
    row_bytes += heads * array.head_bytes;
  }
  return static_cast<std::uint64_t>(rows(of_tokens)) * row_bytes;
}

BALLAST_ONCE void ulysses_plan::assign(std::span<tokens const> lengths, std::uint32_t gpus,
                                       std::uint32_t query_heads, std::uint32_t kv_heads)
{
  start(lengths.size(), {query_heads, gpus, kv_heads});
  for (tokens const length : lengths) { append(length); }
}

BALLAST_ONCE void ulysses_plan::assign(std::span<tokens const> lengths,
                                       std::span<sample_id const> samples, std::uint32_t gpus,
                                       std::uint32_t query_heads, std::uint32_t kv_heads)
{
  start(samples.size(), {query_heads, gpus, kv_heads});
  for (sample_id const sample : samples) {
    BALLAST_EXPECTS(to_index(sample) < lengths.size(), "the bag holds sample ", sample,
                    ", and there are lengths of ", lengths.size());
    append(lengths[to_index(sample)]);
  }
}

namespace detail {

BALLAST_ONCE void copy_runs(std::byte* to, std::size_t to_stride, std::byte const* from,
                            std::size_t from_stride, std::size_t run, tokens rows)
{
  auto const count = static_cast<std::size_t>(rows);
  if (run == 0) { return; }
  if (to_stride == run && from_stride == run) {
    std::memcpy(to, from, run * count);
    return;
  }
  for (std::size_t row = 0; row < count; ++row) {
    std::memcpy(to + row * to_stride, from + row * from_stride, run);
  }
}

BALLAST_ONCE void place_runs(head_array const& array, head_split::block const& block, std::byte* to,
                             std::byte const* from, tokens rows)
{
  if (block.shared > 0) {
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      array.add(to + row * block.row, from + row * block.run, block.shared);
    }
  }
  copy_runs(to + block.shared, block.row, from + block.shared, block.run, block.run - block.shared,
            rows);
}

BALLAST_ONCE void pad_block(head_split::block const& block, std::byte* message)
{
  std::size_t const padding = block.room() - block.bytes();
  if (padding > 0) { std::memset(message + block.bytes(), 0, padding); }
}

[[nodiscard]] BALLAST_ONCE std::uint64_t content_of(ulysses_plan const& plan,
                                                    head_direction direction,
                                                    std::span<head_array const> arrays)
{
  std::uint64_t const same = plan.digest();
  return content_word(direction == head_direction::to_heads ? same : ~same, word_of(arrays));
}

BALLAST_ONCE void check_heads(ulysses_plan const& plan, std::uint32_t gpu, head_direction direction,
                              std::span<head_array const> arrays)
{
  for (head_array const& array : arrays) {
    head_shape const shape = array.shape;
    std::size_t const chunks = plan.heads_of_chunks(gpu, shape.heads) * shape.head_bytes;
    std::size_t const sequences = plan.heads_of_sequences(gpu, shape.heads) * shape.head_bytes;
    bool const to_heads = direction == head_direction::to_heads;
    auto const number = &array - arrays.data();
    std::size_t const before = to_heads ? chunks : sequences;
    std::size_t const after = to_heads ? sequences : chunks;
    BALLAST_EXPECTS(array.from.size() == before, "array ", number, " has ",
                    counted(array.from.size(), "byte"), " in `from`, and its heads on GPU ", gpu,
                    " take ", before, " before the exchange");
    BALLAST_EXPECTS(array.to.size() == after, "array ", number, " has ",
                    counted(array.to.size(), "byte"), " in `to`, and its heads on GPU ", gpu,
                    " take ", after, " after the exchange");
    bool const in_place = plan.gpus() == 1 && array.to.data() == array.from.data();
    BALLAST_EXPECTS(in_place || !overlapping(array.to, array.from), "`to` of array ", number,
                    " overlaps its `from`");
    BALLAST_EXPECTS(to_heads || array.add != nullptr || !plan.split().replicates(shape.heads),
                    "several GPUs have the same of the ", counted(shape.heads, "head"),
                    " of array ", number, ", and its elements cannot be added");
  }
}

BALLAST_ONCE void pack_heads(ulysses_plan const& plan, std::uint32_t gpu, head_direction direction,
                             std::span<head_array const> arrays, std::span<std::byte> messages,
                             std::size_t head)
{
  if (direction == head_direction::to_heads) {
    plan.pack_to_heads(gpu, arrays, messages, head);
  } else {
    plan.pack_to_tokens(gpu, arrays, messages, head);
  }
}

BALLAST_ONCE void unpack_heads(ulysses_plan const& plan, std::uint32_t gpu,
                               head_direction direction, std::span<head_array const> arrays,
                               std::span<std::byte const> messages, std::size_t head)
{
  if (direction == head_direction::to_heads) {
    plan.unpack_to_heads(gpu, arrays, messages, head);
  } else {
    plan.unpack_to_tokens(gpu, arrays, messages, head);
  }
}

/// Copies heads on the host.
class host_head_mover : public host_messages {
 public:
  host_head_mover(any_communicator bag, ulysses_plan const& plan, head_direction direction,
                  std::span<head_array const> arrays)
      : host_messages(bag),
        plan_(plan),
        gpu_(static_cast<std::uint32_t>(to_index(bag.rank()))),
        direction_(direction),
        arrays_(arrays)
  {}

  [[nodiscard]] result<void> pack(std::span<std::byte> outgoing) const
  {
    pack_heads(plan_, gpu_, direction_, arrays_, outgoing);
    return {};
  }

  [[nodiscard]] result<void> keep() const { return {}; }

  [[nodiscard]] result<void> unpack(std::span<std::byte const> incoming) const
  {
    unpack_heads(plan_, gpu_, direction_, arrays_, incoming);
    return {};
  }

  [[nodiscard]] result<void> copy() const
  {
    for (head_array const& array : arrays_) {
      if (array.to.data() != array.from.data() && !array.to.empty()) {
        std::memcpy(array.to.data(), array.from.data(), array.to.size());
      }
    }
    return {};
  }

 private:
  ulysses_plan const& plan_;
  std::uint32_t gpu_;
  head_direction direction_;
  std::span<head_array const> arrays_;
};

[[nodiscard]] BALLAST_ONCE result<void> exchange_heads(any_communicator bag,
                                                       ulysses_plan const& plan,
                                                       head_direction direction,
                                                       std::span<head_array const> arrays,
                                                       workspace& memory)
{
  return exchange_heads(bag, plan, direction, arrays, memory,
                        host_head_mover(bag, plan, direction, arrays));
}

}  // namespace detail

}  // namespace ballast::inline v0

#endif
