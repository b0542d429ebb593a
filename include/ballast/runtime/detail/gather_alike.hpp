// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP
#define BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace ballast::inline v0::detail {

/// A word and numbers that every rank gave, each as many, in the communicator's scratch.
template <class T>
class numbers_of_ranks {
 public:
  numbers_of_ranks(std::span<std::byte const> all, std::size_t of_rank) : all_(all), each_(of_rank)
  {}

  [[nodiscard]] T operator()(std::size_t rank, std::size_t at = 0) const
  {
    return read<T>(rank * each_ + sizeof(std::uint64_t) + at * sizeof(T));
  }

  [[nodiscard]] bool all_have(std::uint64_t word) const
  {
    for (std::size_t at = 0; at < all_.size(); at += each_) {
      if (read<std::uint64_t>(at) != word) { return false; }
    }
    return true;
  }

  /// The ranks whose word is not the most common one.
  [[nodiscard]] std::vector<rank_id> differing() const
  {
    std::vector<std::uint64_t> words;
    for (std::size_t at = 0; at < all_.size(); at += each_) {
      words.push_back(read<std::uint64_t>(at));
    }
    return dissenters(span_of(words));
  }

 private:
  template <class Number>
  [[nodiscard]] Number read(std::size_t at) const
  {
    Number number;
    std::memcpy(&number, &all_[at], sizeof(number));
    return number;
  }

  std::span<std::byte const> all_;
  std::size_t each_;  // bytes
};

/// Gathers a word and numbers from all ranks: number_of(0), ..., number_of(count - 1) of each.
///
/// Ensures     the numbers are valid until the next call of scratch; nothing is allocated
/// Errors      those of the communicator, also where counts differ.
/// Complexity  one all_gather of 8 bytes beside the numbers.
template <class T, communicator C, class NumberOf>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] result<numbers_of_ranks<T>> gather_with_word(C& comm, std::uint64_t word,
                                                           std::size_t count,
                                                           NumberOf const& number_of)
{
  std::size_t const bytes = sizeof(word) + count * sizeof(T);
  std::span<std::byte> const memory = comm.scratch(bytes * (comm.size() + 1));
  std::memcpy(memory.data(), &word, sizeof(word));
  for (std::size_t at = 0; at < count; ++at) {
    T const number = number_of(at);
    std::memcpy(&memory[sizeof(word) + at * sizeof(T)], &number, sizeof(number));
  }
  std::span<std::byte> const all = memory.subspan(bytes, bytes * comm.size());
  auto done = comm.all_gather(memory.first(bytes), all);
  if (done) { done = comm.wait(); }
  if (!done) { return tl::unexpected(done.error()); }
  return numbers_of_ranks<T>(all, bytes);
}

/// The same with a word that all ranks have to have in common, or the numbers do not belong
/// together.
///
/// Errors      also mismatch, on every rank, where words differ: `advice` says what to make alike.
template <class T, communicator C, class NumberOf>
[[nodiscard]] result<numbers_of_ranks<T>> gather_alike(C& comm, std::string_view operation,
                                                       agreed_word same, std::string_view advice,
                                                       std::size_t count, NumberOf const& number_of)
{
  auto all = gather_with_word<T>(comm, same.word, count, number_of);
  if (!all || all->all_have(same.word)) { return all; }
  return comm_failure::mismatch(operation, same.what, all->differing(), advice,
                                "nothing was changed");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_GATHER_ALIKE_HPP
