// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/warp_copies.hpp>
#include <ballast/cuda/device_heads.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_types.h>  // uint4

namespace ballast::inline v0::detail {

/// A block as kernels read it.
struct device_head_block {
  head_split::block block;
  std::size_t shared_after = 0;  ///< bytes of the share's last head if the next GPU has it too
};

/// The blocks between one GPU and its peers, peer by peer and array by array.
struct head_blocks {
  ulysses_tables tables;
  std::uint32_t gpu = 0;
  std::uint32_t arrays = 0;
  block_side side = block_side::own_tokens;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t count() const
  {
    return tables.split.gpus * arrays;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint32_t peer_of(std::uint32_t index) const
  {
    return index / arrays;
  }

  /// Block `index` of count(), at offset 0. Of the arrays only their shapes are read.
  [[nodiscard]] BALLAST_HOST_DEVICE device_head_block make(device_heads const& heads,
                                                           std::uint32_t index) const
  {
    std::uint32_t const peer = peer_of(index);
    bool const own_tokens = side == block_side::own_tokens;
    tokens const rows = tables.rows(own_tokens ? gpu : peer);
    std::uint32_t const of_heads = own_tokens ? peer : gpu;
    head_shape const shape = heads[index % arrays].shape;
    bool const is_shared =
        of_heads + 1 < tables.split.gpus && tables.split.shared(of_heads + 1, shape.heads) > 0;
    return {tables.split.block_of(rows, of_heads, shape), is_shared ? shape.head_bytes : 0};
  }

  /// The bytes that block `index` takes in messages.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::size_t room(std::uint32_t index,
                                                               head_split::block const& block) const
  {
    return peer_of(index) == gpu ? 0 : block.room();
  }
};

BALLAST_HOST_DEVICE inline void write_padding(head_split::block const& block, std::byte* messages)
{
  for (std::size_t at = block.bytes(); at < block.room(); ++at) {
    messages[block.offset + at] = std::byte{0};
  }
}

/// What the lists of copies of the four functions of route/ulysses.hpp have in common.
/// blocks[all.count()] are the blocks of `all` with their offsets. `messages`, in the lists, is
/// what the function reads or writes.
struct head_copies {
  head_blocks all;
  device_head_block const* blocks = nullptr;
  device_heads heads;

  [[nodiscard]] BALLAST_HOST_DEVICE device_heads::array const& array_of(std::uint32_t block) const
  {
    return heads[block % all.arrays];
  }

  /// Writes one thread's part of the zeros behind the blocks that lie in messages.
  BALLAST_HOST_DEVICE void write_zeros(std::byte* messages, std::uint32_t thread,
                                       std::uint32_t threads) const
  {
    for (std::uint32_t index = thread; index < all.count(); index += threads) {
      if (all.peer_of(index) != all.gpu) { write_padding(blocks[index].block, messages); }
    }
  }
};

/// pack_to_heads: the GPU's tokens with each peer's heads, a copy for each block.
struct packed_for_heads : head_copies {
  static constexpr block_side side = block_side::own_tokens;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return all.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    head_split::block const& block = blocks[index].block;
    if (block.is_empty() || all.peer_of(index) == all.gpu) { return {}; }
    return {array_of(index).from + block.first,
            messages + block.offset,
            block.row,
            block.run,
            block.run,
            static_cast<std::size_t>(block.rows)};
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    write_zeros(messages, thread, threads);
  }
};

/// unpack_to_heads: each peer's tokens with the GPU's heads, a copy for each block and sequence;
/// those of the GPU itself come last.
struct unpacked_to_heads : head_copies {
  static constexpr block_side side = block_side::own_heads;
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return all.count() * all.tables.sequences;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const
  {
    return (all.count() - all.arrays) * all.tables.sequences;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    bool const stays = index >= from_messages();
    std::uint32_t const place = (stays ? index - from_messages() : index) / all.tables.sequences;
    std::uint32_t const own = all.gpu * all.arrays;  // the first block of the GPU itself
    std::uint32_t const at = stays ? own + place : place < own ? place : place + all.arrays;
    head_split::block const& block = blocks[at].block;
    if (block.is_empty()) { return {}; }
    std::uint32_t const peer = all.peer_of(at);
    ulysses_plan::bag_chunk const part = all.tables.part(peer, index % all.tables.sequences);
    std::byte const* const from = stays ? array_of(at).from + block.first : messages + block.offset;
    std::size_t const stride = stays ? block.row : block.run;
    return {from + static_cast<std::size_t>(part.own_row) * stride,
            array_of(at).to + static_cast<std::size_t>(part.row) * block.run,
            stride,
            block.run,
            block.run,
            static_cast<std::size_t>(part.count)};
  }
};

/// pack_to_tokens: each peer's tokens with the GPU's heads, a copy for each block and sequence.
struct packed_for_tokens : head_copies {
  static constexpr bool contiguous = true;
  static constexpr block_side side = block_side::own_heads;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return all.count() * all.tables.sequences;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    std::uint32_t const at = index / all.tables.sequences;
    head_split::block const& block = blocks[at].block;
    if (block.is_empty() || all.peer_of(at) == all.gpu) { return {}; }
    ulysses_plan::bag_chunk const part =
        all.tables.part(all.peer_of(at), index % all.tables.sequences);
    return strided_copy::contiguous(
        array_of(at).from + static_cast<std::size_t>(part.row) * block.run,
        messages + block.offset + static_cast<std::size_t>(part.own_row) * block.run,
        static_cast<std::size_t>(part.count) * block.run);
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    write_zeros(messages, thread, threads);
  }
};

/// unpack_to_tokens: the GPU's tokens with each peer's heads, a copy for each block, and then a
/// copy for each array and sequence of what stays. Heads that several GPUs have are left out:
/// head_sums adds them.
struct unpacked_to_tokens : head_copies {
  static constexpr block_side side = block_side::own_tokens;
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return from_messages() + all.arrays * all.tables.sequences;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const { return all.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    bool const is_block = index < from_messages();
    std::uint32_t const piece = is_block ? 0 : index - from_messages();
    std::uint32_t const at = is_block ? index : all.gpu * all.arrays + piece / all.tables.sequences;
    head_split::block const& block = blocks[at].block;
    if (block.is_empty() || (is_block && all.peer_of(at) == all.gpu)) { return {}; }
    ulysses_plan::bag_chunk const part =
        is_block ? ulysses_plan::bag_chunk{0, 0, block.rows}
                 : all.tables.part(all.gpu, piece % all.tables.sequences);
    std::size_t const left_out = block.shared + blocks[at].shared_after;
    if (left_out >= block.run) { return {}; }
    std::byte const* const from =
        is_block ? messages + block.offset
                 : array_of(at).from + static_cast<std::size_t>(part.row) * block.run;
    return {from + block.shared,
            array_of(at).to + block.first + static_cast<std::size_t>(part.own_row) * block.row +
                block.shared,
            block.run,
            block.row,
            block.run - left_out,
            static_cast<std::size_t>(part.count)};
  }
};

/// Returns a + b, rounded once to the nearest, as on the host. For 16-bit types the host adds
/// floats and rounds a second time, with the same result: a float has more than twice their digits.
[[nodiscard]] BALLAST_HOST_DEVICE inline float rounded_sum(float a, float b)
{
#ifdef __CUDA_ARCH__
  float sum = 0;
  // Unlike __fadd_rn it keeps subnormal numbers, also under --use_fast_math.
  asm("add.rn.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
#else
  return a + b;
#endif
}

[[nodiscard]] BALLAST_HOST_DEVICE inline double rounded_sum(double a, double b)
{
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

[[nodiscard]] BALLAST_HOST_DEVICE inline __half rounded_sum(__half a, __half b)
{
  return __hadd_rn(a, b);
}

[[nodiscard]] BALLAST_HOST_DEVICE inline __nv_bfloat16 rounded_sum(__nv_bfloat16 a, __nv_bfloat16 b)
{
  return __hadd_rn(a, b);
}

/// The elements of one Word, which are read, added and written together.
template <class T, class Word>
struct added_word {
  static constexpr std::uint32_t elements = sizeof(Word) / sizeof(T);
  T values[elements];

  [[nodiscard]] BALLAST_HOST_DEVICE static added_word load(std::byte const* from)
  {
    auto const word = load_as<Word>(from);
    added_word loaded;
    std::memcpy(static_cast<void*>(loaded.values), &word, sizeof(Word));
    return loaded;
  }

  BALLAST_HOST_DEVICE void store(std::byte* to) const
  {
    Word word;
    std::memcpy(&word, values, sizeof(Word));
    store_as(to, word);
  }

  BALLAST_HOST_DEVICE void add(added_word const& other)
  {
    for (std::uint32_t index = 0; index < elements; ++index) {
      values[index] = rounded_sum(values[index], other.values[index]);
    }
  }
};

/// The Words of rows that one of many threads takes: every `threads`-th, counted row by row.
/// Divisions are made only at the beginning, and only of 32-bit numbers.
class strided_words {
 public:
  BALLAST_HOST_DEVICE strided_words(std::uint32_t words_of_row, std::uint32_t thread,
                                    std::uint32_t threads)
      : words_of_row_(words_of_row),
        rows_of_step_(threads / words_of_row),
        words_of_step_(threads % words_of_row),
        row_(thread / words_of_row),
        word_(thread % words_of_row)
  {}

  [[nodiscard]] BALLAST_HOST_DEVICE tokens row() const { return row_; }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t word() const { return word_; }

  BALLAST_HOST_DEVICE void step()
  {
    row_ += rows_of_step_;
    word_ += words_of_step_;
    if (word_ >= words_of_row_) {
      word_ -= words_of_row_;
      ++row_;
    }
  }

 private:
  std::uint32_t words_of_row_;
  std::uint32_t rows_of_step_;
  std::uint32_t words_of_step_;
  tokens row_;
  std::uint32_t word_;
};

/// unpack_to_tokens: its copies, and the heads that several GPUs have, each of which is the sum of
/// those of its GPUs, in their order. A sum is numbered by the block of its second GPU, the first
/// whose share begins with the head; the head ends the share of the GPU before.
struct head_sums : unpacked_to_tokens {
  /// [rows of the GPU]: of which row of the bag each is; not read if no head is on several GPUs.
  tokens const* bag_rows = nullptr;

  /// Returns whether a sum has this number.
  [[nodiscard]] BALLAST_HOST_DEVICE bool begins_at(std::uint32_t index) const
  {
    head_split::block const& block = blocks[index].block;
    return !block.is_empty() && block.shared > 0 && !is_added_to(index - all.arrays, block);
  }

  /// Returns how many Words each row has in a sum.
  template <class Word>
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t words_of_row(std::uint32_t index) const
  {
    return static_cast<std::uint32_t>(blocks[index].block.shared / sizeof(Word));
  }

  /// Returns whether all reads and writes of that sum can be in Words of 16 bytes.
  [[nodiscard]] BALLAST_HOST_DEVICE bool is_wide(std::uint32_t index) const
  {
    auto const bits = reinterpret_cast<std::uintptr_t>(array_of(index).from) |
                      reinterpret_cast<std::uintptr_t>(array_of(index).to) |
                      reinterpret_cast<std::uintptr_t>(messages) | blocks[index].block.shared;
    return bits % sizeof(uint4) == 0;  // `shared` is one head, and strides are so many heads
  }

  template <class T, class Word>
  BALLAST_HOST_DEVICE void add(std::uint32_t index, tokens row, std::uint32_t word) const
  {
    head_split::block const& second = blocks[index].block;
    std::uint32_t const first = index - all.arrays;
    std::size_t const at = std::size_t{word} * sizeof(Word);
    std::size_t const last_head = blocks[first].block.run - second.shared;
    auto sum = added_word<T, Word>::load(brought(first, row) + last_head + at);
    for (std::uint32_t next = index; next < all.count() && is_added_to(next, second);
         next += all.arrays) {
      sum.add(added_word<T, Word>::load(brought(next, row) + at));
    }
    sum.store(array_of(index).to + static_cast<std::size_t>(row) * second.row + second.first + at);
  }

  template <class T, class Word>
  BALLAST_HOST_DEVICE void add_strided(std::uint32_t index, std::uint32_t thread,
                                       std::uint32_t threads) const
  {
    tokens const rows = blocks[index].block.rows;
    for (strided_words next(words_of_row<Word>(index), thread, threads); next.row() < rows;
         next.step()) {
      add<T, Word>(index, next.row(), next.word());
    }
  }

  /// Makes one thread's part of all sums, whose words are dealt to the threads one sum after
  /// another.
  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    if (bag_rows == nullptr) { return; }
    std::uint32_t first = 0;  // the thread that has the first word of the sum
    for (std::uint32_t index = all.arrays; index < all.count(); ++index) {
      if (!begins_at(index)) { continue; }
      std::uint32_t const own = thread < first ? thread + (threads - first) : thread - first;
      switch (array_of(index).element) {
        case element_type::fp16:
          first += add_all<__half, std::uint16_t>(index, own, threads);
          break;
        case element_type::bf16:
          first += add_all<__nv_bfloat16, std::uint16_t>(index, own, threads);
          break;
        case element_type::fp32: first += add_all<float, std::uint32_t>(index, own, threads); break;
        case element_type::fp64:
          first += add_all<double, std::uint64_t>(index, own, threads);
          break;
        case element_type::other: break;  // prepared_heads refuses it
      }
      first = first < threads ? first : first - threads;
    }
  }

 private:
  /// Makes one thread's part of a sum, whose Words have the size of a T at least. Returns how many
  /// words it has, modulo the threads.
  template <class T, class Word>
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t add_all(std::uint32_t index, std::uint32_t thread,
                                                          std::uint32_t threads) const
  {
    auto const rows = static_cast<std::uint64_t>(blocks[index].block.rows);
    if (is_wide(index)) {
      add_strided<T, uint4>(index, thread, threads);
      return static_cast<std::uint32_t>(rows * words_of_row<uint4>(index) % threads);
    }
    add_strided<T, Word>(index, thread, threads);
    return static_cast<std::uint32_t>(rows * words_of_row<Word>(index) % threads);
  }

  /// Returns whether a block adds to the same head as another block of the array.
  [[nodiscard]] BALLAST_HOST_DEVICE bool is_added_to(std::uint32_t index,
                                                     head_split::block const& other) const
  {
    head_split::block const& block = blocks[index].block;
    return block.shared > 0 && block.first == other.first;
  }

  /// Returns where a GPU's values for a row of this GPU lie: in its message or, for this GPU, in
  /// its array.
  [[nodiscard]] BALLAST_HOST_DEVICE std::byte const* brought(std::uint32_t index, tokens row) const
  {
    head_split::block const& block = blocks[index].block;
    bool const stays = all.peer_of(index) == all.gpu;
    std::byte const* const rows = stays ? array_of(index).from : messages + block.offset;
    return rows + static_cast<std::size_t>(stays ? bag_rows[row] : row) * block.run;
  }
};

static_assert(makes_more<head_sums>);

/// Returns the rows of the i-th range, 0 beyond the last. A scan of them gives the ranges' offsets.
struct rows_of_range {
  device_ranges table;

  [[nodiscard]] BALLAST_HOST_DEVICE tokens operator()(std::uint32_t index) const
  {
    return index < *table.count ? tokens{table.ranges[index].count} : tokens{0};
  }
};

/// Sums over all peers before one.
struct peer_sums {
  tokens rows = 0;
  std::size_t bytes = 0;  ///< of their messages

  [[nodiscard]] BALLAST_HOST_DEVICE friend constexpr peer_sums operator+(peer_sums const& one,
                                                                         peer_sums const& other)
  {
    return {one.rows + other.rows, one.bytes + other.bytes};
  }
};

/// Where the rows of one table lie in its messages, by the layout of pack_rows(), in memory that
/// kernels read. It depends on the table and on the widths of rows alone.
///
/// For the block of each array in each peer's message there is its origin: where row 0 of the whole
/// table would be if the block held all rows. So a range's place is the origin plus the rows before
/// it in the whole table. The origin may lie before the messages; the sums are modulo 2^64, so
/// places are right.
///
/// Shapes      rows_before[bound], of each range; origins[ranks][arrays]; ends[ranks][arrays]: where
///             the rows of the block end.
struct message_places {
  tokens* rows_before = nullptr;
  std::size_t* origins = nullptr;
  std::size_t* ends = nullptr;
};

/// Finds where the block of each array lies in each peer's message.
struct message_blocks {
  device_ranges table;
  device_rows rows;  ///< whose pointers are not read
  message_places places;

  [[nodiscard]] BALLAST_HOST_DEVICE peer_sums of(std::uint32_t peer) const
  {
    peer_sums own{table.rows[peer], 0};
    for (std::uint32_t array = 0; array < rows.count; ++array) {
      own.bytes += block_bytes(own.rows, rows.arrays[array].row_bytes);
    }
    return own;
  }

  BALLAST_HOST_DEVICE void write(std::uint32_t peer, peer_sums const& before) const
  {
    std::size_t begin = before.bytes;
    for (std::uint32_t array = 0; array < rows.count; ++array) {
      std::size_t const row_bytes = rows.arrays[array].row_bytes;
      std::size_t const at = std::size_t{peer} * rows.count + array;
      places.origins[at] = begin - static_cast<std::size_t>(before.rows) * row_bytes;
      places.ends[at] = begin + static_cast<std::size_t>(table.rows[peer]) * row_bytes;
      begin += block_bytes(table.rows[peer], row_bytes);
    }
  }
};

/// Returns where the i-th piece of the messages lies: range i mod bound of array i / bound. So
/// neighbouring pieces of a message are neighbours in the list.
struct message_pieces {
  device_ranges table;
  device_rows rows;
  message_places places;

  struct piece {
    device_rows::array array;
    std::size_t row = 0;      ///< bytes from the beginning of the array
    std::size_t message = 0;  ///< and of the messages
    std::size_t bytes = 0;
  };

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return table.bound * rows.count; }

  [[nodiscard]] BALLAST_HOST_DEVICE piece operator[](std::uint32_t index) const
  {
    std::uint32_t const array = index / table.bound;
    std::uint32_t const range = index - array * table.bound;
    if (range >= *table.count) { return {}; }
    device_ranges::peer_rows const found = table.ranges[range];
    std::size_t const row_bytes = rows.arrays[array].row_bytes;
    std::size_t const origin = places.origins[std::size_t{found.peer} * rows.count + array];
    return {rows.arrays[array], static_cast<std::size_t>(found.first) * row_bytes,
            origin + static_cast<std::size_t>(places.rows_before[range]) * row_bytes,
            found.count * row_bytes};
  }
};

/// Copies of the rows that leave into messages, and the zeros behind blocks, as pack_rows() of the
/// host makes them.
struct pack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  std::byte* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const { return pieces.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    auto const piece = pieces[index];
    return strided_copy::contiguous(piece.array.from + piece.row, messages + piece.message,
                                    piece.bytes);
  }

  BALLAST_HOST_DEVICE void make_rest(std::uint32_t thread, std::uint32_t threads) const
  {
    std::size_t const blocks = std::size_t{pieces.table.ranks} * pieces.rows.count;
    for (std::size_t block = thread; block < blocks; block += threads) {
      for (std::size_t at = pieces.places.ends[block]; at % message_alignment != 0; ++at) {
        messages[at] = std::byte{0};
      }
    }
  }
};

/// Copies of messages into the rows that they are for, as unpack_rows() of the host makes them, and
/// then of the rows that stay on their rank: range i mod bound of array i / bound.
struct unpack_copies {
  static constexpr bool contiguous = true;

  message_pieces pieces;
  device_kept kept;
  bool reverse = false;  ///< kept rows go from where they go to, to where they come from
  std::byte const* messages = nullptr;

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t count() const
  {
    return from_messages() + kept.bound * pieces.rows.count;
  }
  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t from_messages() const { return pieces.count(); }

  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy operator()(std::uint32_t index) const
  {
    if (index >= from_messages()) { return staying(index - from_messages()); }
    auto const piece = pieces[index];
    return strided_copy::contiguous(messages + piece.message, piece.array.to + piece.row,
                                    piece.bytes);
  }

 private:
  [[nodiscard]] BALLAST_HOST_DEVICE strided_copy staying(std::uint32_t index) const
  {
    std::uint32_t const array = index / kept.bound;
    std::uint32_t const range = index - array * kept.bound;
    if (range >= *kept.count) { return {}; }
    route_plan::kept_rows const found = kept.kept[range];
    auto const& [from, to, row_bytes] = pieces.rows.arrays[array];
    auto const source = static_cast<std::size_t>(reverse ? found.to_row : found.from_row);
    auto const target = static_cast<std::size_t>(reverse ? found.from_row : found.to_row);
    return strided_copy::contiguous(from + source * row_bytes, to + target * row_bytes,
                                    static_cast<std::size_t>(found.count) * row_bytes);
  }
};

static_assert(makes_more<pack_copies> && copy_list<unpack_copies>);

/// The sums of equal pieces that lie one after the other: element by element, piece after piece, so
/// that every run gives the same bits. Elements of less than 32 bits are added in fp32 and rounded
/// once.
///
/// Shapes      pieces[count][elements], sum[elements]; sum may be one of the pieces.
template <class T>
struct piece_sums {
  using wide = std::conditional_t<(sizeof(T) < sizeof(float)), float, T>;

  T const* pieces = nullptr;
  T* sum = nullptr;
  std::uint32_t count = 0;
  std::size_t elements = 0;

  BALLAST_HOST_DEVICE void add(std::size_t thread, std::size_t threads) const
  {
    for (std::size_t at = thread; at < elements; at += threads) { add_at(at); }
  }

  /// Computes the sum of one element; 0 if there are no pieces.
  BALLAST_HOST_DEVICE void add_at(std::size_t at) const
  {
    auto all = count == 0 ? wide{} : static_cast<wide>(pieces[at]);
    for (std::uint32_t piece = 1; piece < count; ++piece) {
      auto const next = static_cast<wide>(pieces[piece * elements + at]);
      if constexpr (std::is_integral_v<wide>) {
        all += next;
      } else {
        all = rounded_sum(all, next);
      }
    }
    sum[at] = static_cast<T>(all);
  }
};

/// How many copies each of some rows has, in memory that kernels read. The number of rows is in
/// memory too, so that a graph can be replayed with another step's table.
///
/// Shapes      begins[bound + 1]: copy begins[r] is the first of row r, for r < *count.
struct repeat_table {
  tokens const* count = nullptr;
  tokens const* begins = nullptr;
};

/// Threads take elements of the rows in turn, and each all copies of its element: neighbours read
/// and write neighbours, and a row is read or written once.
///
/// Shapes      rows[*count][width], repeated[begins[*count]][width].
template <class T>
struct repeated_rows {
  repeat_table table;
  T const* rows = nullptr;
  T* repeated = nullptr;
  std::size_t width = 0;

  BALLAST_HOST_DEVICE void run(std::size_t thread, std::size_t threads) const
  {
    std::size_t const elements = static_cast<std::size_t>(*table.count) * width;
    for (std::size_t at = thread; at < elements; at += threads) {
      std::size_t const row = at / width;
      T const value = rows[at];
      for (tokens copy = table.begins[row]; copy < table.begins[row + 1]; ++copy) {
        repeated[static_cast<std::size_t>(copy) * width + at % width] = value;
      }
    }
  }
};

/// The sums of a row's copies, copy after copy: the same bits in every run.
template <class T>
struct summed_rows {
  repeat_table table;
  T const* repeated = nullptr;
  T* rows = nullptr;
  std::size_t width = 0;

  BALLAST_HOST_DEVICE void run(std::size_t thread, std::size_t threads) const
  {
    std::size_t const elements = static_cast<std::size_t>(*table.count) * width;
    for (std::size_t at = thread; at < elements; at += threads) {
      std::size_t const row = at / width;
      auto const first = static_cast<std::size_t>(table.begins[row]);
      auto const copies = static_cast<std::uint32_t>(table.begins[row + 1] - table.begins[row]);
      piece_sums<T>{repeated + first * width, rows + row * width, copies, width}.add_at(at % width);
    }
  }
};

}  // namespace ballast::inline v0::detail
