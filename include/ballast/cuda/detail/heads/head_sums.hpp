// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DETAIL_HEADS_HEAD_SUMS_HPP
#define BALLAST_CUDA_DETAIL_HEADS_HEAD_SUMS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/cuda/detail/copy/wide_access.hpp>
#include <ballast/cuda/detail/heads/device_head_block.hpp>
#include <ballast/cuda/detail/heads/ulysses_lists.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/strided_copy.hpp>
#include <ballast/route/head_array.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_types.h>  // uint4

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace ballast::inline v0::detail {

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
    head_block const& block = blocks[index].block;
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

  /// Makes one Word of a row of a sum.
  template <class T, class Word>
  BALLAST_HOST_DEVICE void add(std::uint32_t index, tokens row, std::uint32_t word) const
  {
    head_block const& second = blocks[index].block;
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

  /// Makes one thread's part of a sum.
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
                                                     head_block const& other) const
  {
    head_block const& block = blocks[index].block;
    return block.shared > 0 && block.first == other.first;
  }

  /// Returns where a GPU's values for a row of this GPU lie: in its message or, for this GPU, in
  /// its array.
  [[nodiscard]] BALLAST_HOST_DEVICE std::byte const* brought(std::uint32_t index, tokens row) const
  {
    head_block const& block = blocks[index].block;
    bool const stays = all.peer_of(index) == all.gpu;
    std::byte const* const rows = stays ? array_of(index).from : messages + block.offset;
    return rows + static_cast<std::size_t>(stays ? bag_rows[row] : row) * block.run;
  }
};

static_assert(makes_more<head_sums>);

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CUDA_DETAIL_HEADS_HEAD_SUMS_HPP
