// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/row_array.hpp>

namespace ballast_test {

/// Widths of the rows of up to four arrays: those of single elements, odd ones, and a few elements.
inline std::vector<std::size_t> random_widths(ballast::random_source& random)
{
  std::vector<std::size_t> widths(random.below(5));
  for (std::size_t& width : widths) {
    std::uint64_t const kind = random.below(4);
    width = static_cast<std::size_t>(kind == 0   ? std::uint64_t{1} << random.below(5)
                                     : kind == 1 ? 2 * random.below(40) + 1
                                     : kind == 2 ? 16 * (1 + random.below(6))
                                                 : 1 + random.below(16));
  }
  return widths;
}

/// Random bytes, none of which is 0xee, the byte of unwritten memory.
inline std::vector<std::byte> random_bytes(std::size_t count, ballast::random_source& random)
{
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) { byte = static_cast<std::byte>(random.below(0xee)); }
  return bytes;
}

/// Arrays of one rank before a route, of random content, and after it, not written yet. Each begins
/// a few bytes past a 16-byte boundary, so that its rows are misaligned.
class rank_bytes {
 public:
  rank_bytes(std::vector<std::size_t> const& widths, ballast::tokens before, ballast::tokens after,
             ballast::random_source& random)
      : widths_(widths)
  {
    for (std::size_t const width : widths) {
      shifts_.push_back(static_cast<std::size_t>(random.below(16)));
      from_.push_back(
          random_bytes(shifts_.back() + static_cast<std::size_t>(before) * width, random));
      to_.emplace_back(shifts_.back() + static_cast<std::size_t>(after) * width, std::byte{0xee});
    }
  }

  [[nodiscard]] std::vector<ballast::row_array> arrays() { return between(from_, to_); }

  /// The same, into other unwritten memory.
  [[nodiscard]] std::vector<ballast::row_array> arrays_to(std::vector<std::vector<std::byte>>& to)
  {
    to.clear();
    for (auto const& each : to_) { to.emplace_back(each.size(), std::byte{0xee}); }
    return between(from_, to);
  }

  [[nodiscard]] std::vector<std::vector<std::byte>> const& from() const { return from_; }
  [[nodiscard]] std::vector<std::vector<std::byte>> const& to() const { return to_; }

 private:
  [[nodiscard]] std::vector<ballast::row_array> between(
      std::vector<std::vector<std::byte>> const& from, std::vector<std::vector<std::byte>>& to)
  {
    std::vector<ballast::row_array> arrays;
    for (std::size_t index = 0; index < widths_.size(); ++index) {
      arrays.push_back({std::span(from[index]).subspan(shifts_[index]),
                        std::span(to[index]).subspan(shifts_[index]), widths_[index]});
    }
    return arrays;
  }

  std::vector<std::size_t> widths_;
  std::vector<std::size_t> shifts_;
  std::vector<std::vector<std::byte>> from_;
  std::vector<std::vector<std::byte>> to_;
};

}  // namespace ballast_test
