// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "random_rows.hpp"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/row_array.hpp>

namespace ballast_test {

using byte_array = std::vector<std::byte>;

/// Arrays of all ranks before a route, of random content, and what they are after it: rows that no
/// token comes to are 0xee, the byte of unwritten memory.
class step_arrays {
 public:
  step_arrays(ballast::placement const& from, ballast::placement const& to,
              std::vector<std::size_t> const& widths, ballast::random_source& random)
      : widths_(widths)
  {
    for (std::uint32_t rank = 0; rank < from.ranks(); ++rank) {
      before_.emplace_back();
      after_.emplace_back();
      for (std::size_t const width : widths) {
        before_.back().push_back(random_bytes(
            static_cast<std::size_t>(from.rows(ballast::rank_id{rank})) * width, random));
        after_.back().emplace_back(
            static_cast<std::size_t>(to.rows(ballast::rank_id{rank})) * width, std::byte{0xee});
      }
    }
    unwritten_ = after_;
    // Token by token, by the definition of the two placements.
    for (std::size_t sample = 0; sample < from.size(); ++sample) {
      auto const of_sample = [sample](ballast::placement const& where) {
        std::vector<std::pair<std::size_t, ballast::tokens>> rows;
        for (ballast::piece const& each : where[ballast::to_id<ballast::sample_id>(sample)]) {
          for (ballast::tokens row = 0; row < each.count; ++row) {
            rows.emplace_back(ballast::to_index(each.rank), each.row + row);
          }
        }
        return rows;
      };
      auto const sources = of_sample(from);
      auto const targets = of_sample(to);
      for (std::size_t token = 0; token < sources.size(); ++token) {
        for (std::size_t array = 0; array < widths.size(); ++array) {
          auto const [source, source_row] = sources[token];
          auto const [target, target_row] = targets[token];
          std::copy_n(&before_[source][array][static_cast<std::size_t>(source_row) * widths[array]],
                      widths[array],
                      &after_[target][array][static_cast<std::size_t>(target_row) * widths[array]]);
        }
      }
    }
  }

  [[nodiscard]] std::vector<byte_array> const& before(std::size_t rank) const
  {
    return before_[rank];
  }
  [[nodiscard]] std::vector<byte_array> const& after(std::size_t rank) const
  {
    return after_[rank];
  }
  [[nodiscard]] std::vector<byte_array> unwritten(std::size_t rank) const
  {
    return unwritten_[rank];
  }

  [[nodiscard]] std::vector<byte_array> unwritten_before(std::size_t rank) const
  {
    std::vector<byte_array> arrays = before_[rank];
    for (byte_array& each : arrays) { std::ranges::fill(each, std::byte{0xee}); }
    return arrays;
  }

  [[nodiscard]] std::vector<ballast::row_array> between(std::vector<byte_array> const& from,
                                                        std::vector<byte_array>& to) const
  {
    std::vector<ballast::row_array> arrays;
    for (std::size_t array = 0; array < widths_.size(); ++array) {
      arrays.push_back({from[array], to[array], widths_[array]});
    }
    return arrays;
  }

 private:
  std::vector<std::size_t> widths_;
  std::vector<std::vector<byte_array>> before_;  // [rank][array]
  std::vector<std::vector<byte_array>> after_;
  std::vector<std::vector<byte_array>> unwritten_;
};

}  // namespace ballast_test
