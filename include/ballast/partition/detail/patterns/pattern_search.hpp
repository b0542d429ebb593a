// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_SEARCH_HPP
#define BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_SEARCH_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/partition/detail/patterns/column_generation.hpp>
#include <ballast/partition/detail/patterns/pattern_packing.hpp>
#include <ballast/partition/detail/patterns/unfilled_samples.hpp>
#include <ballast/partition/detail/search/bag_completion.hpp>
#include <ballast/partition/priced_sample.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0::detail {

/// Whether samples fit into identical bags, for steps on which bag completion alone stands still:
/// two or three samples per bag and dozens of bags.
///
/// The first bags are filled as bag completion does, and the linear program over patterns decides
/// about what is left, a dozen bags at first, then more and more. The first bags take the heavy
/// samples and leave the light ones, so where there is a plan there are mostly many, and one of the
/// small programs, which take milliseconds, finds one. The last program is that of all bags. If it
/// needs more of them, there is no plan.
///
/// Ensures     as bag_completion
/// Complexity  that of pattern_packing, a few times. 52 n bytes of scratch besides its own.
class pattern_search {
 public:
  /// Expects     room is the largest that bags will have; may_fit them. Its table has a power of
  ///             two of numbers, so that steps of nearly the same size take the same memory.
  pattern_search(std::span<priced_sample const> samples, cost_units room, bag_completion& complete,
                 workspace::frame& scratch)
      : samples_(samples),
        complete_(complete),
        owners_(scratch.take<std::uint32_t>(samples.size())),
        rest_(samples.size(), scratch),
        pack_(std::min(samples.size(), column_generation::most_samples),
              std::min(samples.size(), most_kinds),
              std::min(most_numbers,
                       std::bit_ceil((samples.size() + 1) * (static_cast<std::size_t>(room) + 1))),
              complete, scratch)
  {}

  /// Whether the smallest program has a table that is not too large.
  [[nodiscard]] static bool may_fit(std::size_t samples, std::size_t bags, cost_units room) noexcept
  {
    std::size_t const least = samples * std::min(bags, first_bags) / bags;
    return least <= most_kinds && static_cast<std::size_t>(room) < most_numbers / (least + 1);
  }

  /// Expects     bags are identical, and every sample fits them
  [[nodiscard]] completion operator()(std::span<open_bag const> bags, work_budget& nodes)
  {
    for (std::size_t open = first_bags; open < bags.size() / 4 * 3; open += open / 3) {
      std::uint64_t const most = std::min(nodes.left(), prefix_nodes);
      work_budget left(most);
      std::size_t const kept = bags.size() - open;
      completion const prefix = complete_(samples_, bags, left, kept);
      nodes.spend(most - left.left());
      if (prefix == completion::impossible) { return completion::impossible; }
      if (nodes.spent()) { return completion::out_of_nodes; }
      if (prefix == completion::out_of_nodes) { continue; }
      std::copy(complete_.owners().begin(), complete_.owners().end(), owners_.begin());
      auto const rest = rest_.list(samples_, owners_, kept);
      if (pack_(rest, bags.last(open), nodes) != completion::found) { continue; }
      rest_.fill(pack_.owners(), owners_);
      return completion::found;
    }
    completion const end = pack_(samples_, bags, nodes);
    if (end == completion::found) {
      std::copy(pack_.owners().begin(), pack_.owners().end(), owners_.begin());
    }
    return end;
  }

  /// For each place in the order of the samples, the position of its bag.
  [[nodiscard]] std::span<std::uint32_t const> owners() const noexcept { return owners_; }

 private:
  static constexpr std::size_t first_bags = 12;
  static constexpr std::size_t most_kinds = 256;
  static constexpr std::size_t most_numbers = std::size_t{1} << 20;  // of a knapsack's table
  static constexpr std::uint64_t prefix_nodes = std::uint64_t{1} << 18;

  std::span<priced_sample const> samples_;
  bag_completion& complete_;
  std::span<std::uint32_t> owners_;
  unfilled_samples rest_;
  pattern_packing pack_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARTITION_DETAIL_PATTERNS_PATTERN_SEARCH_HPP
