// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/tables.hpp>

namespace ballast_test {

enum class kinds { contiguous, all };

/// Copies that are written down; those beyond are empty.
template <kinds Kind>
struct listed_copies {
  static constexpr bool contiguous = Kind == kinds::contiguous;

  ballast::strided_copy const* copies;
  std::uint32_t there;

  [[nodiscard]] BALLAST_HOST_DEVICE ballast::strided_copy operator()(std::uint32_t index) const
  {
    return index < there ? copies[index] : ballast::strided_copy{};
  }
};

/// Copies between two arrays that may lie anywhere: from places that may overlap to places that do
/// not, all of which may be misaligned.
class copy_batch_case {
 public:
  /// Some copies are empty, which also come in long runs, most are short and some have many tiles.
  copy_batch_case(kinds kind, std::uint32_t count, std::uint64_t seed)
  {
    ballast::random_source random(seed);
    while (places_.size() < count) {
      if (random.below(40) == 0) {
        places_.resize(std::min<std::size_t>(count, places_.size() + random.below(200)));
        continue;
      }
      std::size_t const longest = random.below(10) == 0 ? 20'000 : random.below(4) == 0 ? 700 : 40;
      std::size_t const unit = std::size_t{1} << random.below(5);
      bool const is_strided = kind == kinds::all && random.below(3) != 0;
      std::size_t const run = (1 + random.below(longest)) * (is_strided ? unit : 1);
      std::size_t const rows = is_strided ? random.below(50'000 / run + 2) : 1;
      add(random, run, rows, is_strided ? unit : 1);
    }
  }

  [[nodiscard]] std::size_t from_bytes() const { return from_bytes_; }
  [[nodiscard]] std::size_t to_bytes() const { return to_bytes_; }

  [[nodiscard]] std::vector<ballast::strided_copy> copies(std::byte const* from,
                                                          std::byte* to) const
  {
    std::vector<ballast::strided_copy> all;
    for (place const& one : places_) {
      all.push_back(
          {from + one.from, to + one.to, one.from_stride, one.to_stride, one.run, one.rows});
    }
    return all;
  }

  /// The same, byte by byte.
  void run(std::vector<std::byte> const& from, std::vector<std::byte>& to) const
  {
    for (place const& one : places_) {
      for (std::size_t row = 0; row < one.rows; ++row) {
        std::copy_n(&from[one.from + row * one.from_stride], one.run,
                    &to[one.to + row * one.to_stride]);
      }
    }
  }

 private:
  struct place {
    std::size_t from = 0;
    std::size_t to = 0;
    std::size_t from_stride = 0;
    std::size_t to_stride = 0;
    std::size_t run = 0;
    std::size_t rows = 0;
  };

  void add(ballast::random_source& random, std::size_t run, std::size_t rows, std::size_t unit)
  {
    std::size_t const from = random.below(40) * unit;
    std::size_t const to = (to_bytes_ / unit + random.below(5)) * unit + unit;
    std::size_t const from_stride = run + random.below(3) * unit;
    std::size_t const to_stride = run + random.below(3) * unit;
    places_.push_back({from, to, from_stride, to_stride, run, rows});
    from_bytes_ = std::max(from_bytes_, from + rows * from_stride);
    to_bytes_ = to + rows * to_stride;
  }

  std::vector<place> places_;
  std::size_t from_bytes_ = 1;
  std::size_t to_bytes_ = 1;
};

/// Bytes none of which tells where it lies but together with its neighbours.
[[nodiscard]] inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes) { byte = static_cast<std::byte>(random()); }
  return bytes;
}

}  // namespace ballast_test
