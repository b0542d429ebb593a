// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP
#define BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP

#include <ballast/comm/agree.hpp>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/concepts.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ballast::inline v0::detail {

/// Numbers that every rank gave, each as many, in the communicator's scratch.
template <class T>
class numbers_of_ranks {
 public:
  numbers_of_ranks(std::span<std::byte const> all, std::size_t of_rank) : all_(all), each_(of_rank)
  {}

  [[nodiscard]] T operator()(std::size_t rank, std::size_t at = 0) const
  {
    T number;
    std::memcpy(&number, &all_[rank * each_ + sizeof(std::uint64_t) + at * sizeof(T)],
                sizeof(number));
    return number;
  }

 private:
  std::span<std::byte const> all_;
  std::size_t each_;  // bytes
};

/// Gathers numbers from all ranks: number_of(0), ..., number_of(count - 1) of each. What the ranks
/// have to have in common for the numbers to belong together travels with them.
///
/// Ensures     the numbers are valid until the next call of scratch; nothing is allocated
/// Errors      mismatch, on every rank, where the words differ: `advice` says what to make the same.
///             Those of the communicator, also where counts differ.
/// Complexity  one all_gather of 8 bytes beside the numbers.
template <class T, communicator C, class NumberOf>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] result<numbers_of_ranks<T>> gather_alike(C& comm, std::string_view operation,
                                                       agreed_word same, std::string_view advice,
                                                       std::size_t count, NumberOf const& number_of)
{
  constexpr std::size_t word_bytes = sizeof(same.word);
  std::size_t const bytes = word_bytes + count * sizeof(T);
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  std::memcpy(memory.data(), &same.word, word_bytes);
  for (std::size_t at = 0; at < count; ++at) {
    T const number = number_of(at);
    std::memcpy(&memory[word_bytes + at * sizeof(T)], &number, sizeof(number));
  }
  std::span<std::byte> const all = memory.subspan(bytes, bytes * comm.size());
  auto done = comm.all_gather(memory.first(bytes), all);
  if (done) { done = comm.wait(); }
  if (!done) { return tl::unexpected(done.error()); }
  bool differ = false;
  auto const word_of = [&](std::size_t rank) {
    std::uint64_t word = 0;
    std::memcpy(&word, &all[rank * bytes], word_bytes);
    return word;
  };
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    differ = differ || word_of(rank) != same.word;
  }
  if (!differ) { return numbers_of_ranks<T>(all, bytes); }
  std::vector<std::uint64_t> words;
  for (std::size_t rank = 0; rank < comm.size(); ++rank) { words.push_back(word_of(rank)); }
  return comm_failure::mismatch(operation, same.what, dissenters(span_of(words)), advice,
                                "nothing was changed");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP
