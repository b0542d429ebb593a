// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <cstring>
#include <functional>

namespace ballast_test {

/// How many bytes each rank sends to each, the same on every rank.
class traffic {
 public:
  /// bytes_of(from, to) for all pairs, row by row.
  template <class BytesOf>
  traffic(std::size_t ranks, BytesOf bytes_of) : ranks_(ranks)
  {
    for (std::size_t from = 0; from < ranks; ++from) {
      for (std::size_t to = 0; to < ranks; ++to) {
        bytes_.push_back(static_cast<std::size_t>(bytes_of(from, to)));
      }
    }
  }

  [[nodiscard]] std::vector<std::size_t> sent_by(std::size_t rank) const
  {
    std::vector<std::size_t> bytes;
    for (std::size_t to = 0; to < ranks_; ++to) { bytes.push_back(bytes_[rank * ranks_ + to]); }
    return bytes;
  }

  [[nodiscard]] std::vector<std::size_t> received_by(std::size_t rank) const
  {
    std::vector<std::size_t> bytes;
    for (std::size_t from = 0; from < ranks_; ++from) {
      bytes.push_back(bytes_[from * ranks_ + rank]);
    }
    return bytes;
  }

 private:
  std::size_t ranks_;
  std::vector<std::size_t> bytes_;
};

/// Uneven counts up to `most`: a third are zero, some ranks send nothing and some receive nothing.
inline traffic random_traffic(ballast::random_source& random, std::size_t ranks, std::size_t most)
{
  std::uint64_t const senders = random();
  std::uint64_t const receivers = random();
  bool const some_silent = random.below(2) == 0;
  return {ranks, [&](std::size_t from, std::size_t to) -> std::uint64_t {
            bool const silent =
                some_silent && ((senders >> from % 64) % 2 == 0 || (receivers >> to % 64) % 2 == 0);
            return silent || random.below(3) == 0 ? 0 : 1 + random.below(most);
          }};
}

inline std::size_t total(std::vector<std::size_t> const& bytes)
{
  return std::reduce(bytes.begin(), bytes.end());
}

/// The content of what `from` sends to `to`: no two messages are alike. By words: sanitized builds
/// without optimisation take long for each byte.
struct message {
  std::uint64_t salt;
  std::size_t from;
  std::size_t to;

  void write(std::span<std::byte> bytes) const
  {
    std::uint64_t word = first();
    for (std::size_t at = 0; at < bytes.size(); at += sizeof word, word += step) {
      std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
    }
  }

  /// Where `bytes` departs from it; bytes.size() where it does not.
  [[nodiscard]] std::size_t first_difference(std::span<std::byte const> bytes) const
  {
    std::uint64_t word = first();
    std::array<std::byte, sizeof word> expected{};
    for (std::size_t at = 0; at < bytes.size(); at += sizeof word, word += step) {
      std::memcpy(expected.data(), &word, sizeof word);
      auto const here = bytes.subspan(at, std::min(sizeof word, bytes.size() - at));
      if (std::memcmp(here.data(), expected.data(), here.size()) == 0) { continue; }
      auto const found = std::ranges::mismatch(here, expected).in1;
      return at + static_cast<std::size_t>(found - here.begin());
    }
    return bytes.size();
  }

 private:
  static constexpr std::uint64_t step = 0x9e3779b97f4a7c15U;

  [[nodiscard]] std::uint64_t first() const
  {
    return ballast::digest{}.add(salt).add(from).add(to).value();
  }
};

}  // namespace ballast_test
