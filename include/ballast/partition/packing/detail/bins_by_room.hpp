// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_PACKING_DETAIL_BINS_BY_ROOM_HPP
#define BALLAST_PARTITION_PACKING_DETAIL_BINS_BY_ROOM_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/packing/detail/bit_hierarchy.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// A bin, and the weight that it can still take.
struct bin_with_room {
  bag_id bin;
  std::int64_t room;
};

/// Bins by the room they have left, for capacities that can index an array: which of them has the
/// least room that is enough?
///
/// One list of bins for each room from 0 to the capacity, and the set of the rooms whose list is
/// not empty.
///
/// Ensures     (1) of several bins with equal room the last that came is taken
/// Complexity  O(1), at most four words of the set, for put and take_tightest; 4 bytes of scratch
///             per unit of capacity and per bin.
class bins_by_room {
 public:
  static constexpr std::int64_t largest_capacity = std::int64_t{1} << 22;

  /// Expects capacity in [0, largest_capacity]; bins are numbered below `bins`.
  bins_by_room(std::int64_t capacity, std::size_t bins, workspace::frame& scratch)
      : rooms_(static_cast<std::size_t>(capacity) + 1, scratch),
        last_(scratch.take<std::uint32_t>(static_cast<std::size_t>(capacity) + 1)),
        before_(scratch.take<std::uint32_t>(bins))
  {}

  /// Adds a bin that is not in any list.
  void put(bag_id bin, std::int64_t room) noexcept
  {
    auto const place = static_cast<std::size_t>(room);
    before_[to_index(bin)] = rooms_.contains(place) ? last_[place] : none;
    last_[place] = static_cast<std::uint32_t>(bin);
    rooms_.insert(place);
  }

  /// Removes the bin with the least room of at least `weight`, if there is one.
  [[nodiscard]] std::optional<bin_with_room> take_tightest(std::int64_t weight) noexcept
  {
    std::size_t const place = rooms_.first_from(static_cast<std::size_t>(weight));
    if (place == bit_hierarchy::none) { return std::nullopt; }
    std::uint32_t const taken = last_[place];
    last_[place] = before_[taken];
    if (last_[place] == none) { rooms_.erase(place); }
    return bin_with_room{bag_id{taken}, static_cast<std::int64_t>(place)};
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  bit_hierarchy rooms_;
  std::span<std::uint32_t> last_;    // by room; unspecified for rooms that are not in the set
  std::span<std::uint32_t> before_;  // by bin: the next of its list
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_PACKING_DETAIL_BINS_BY_ROOM_HPP
