// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/layout_enumeration.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// Layouts in the order of their bounds, as layout_enumeration finds them.
class layout_list {
 public:
  struct entry {
    time_units bound;
    std::size_t first;  // in chosen_
    std::uint32_t least;
    std::uint32_t steady;
    std::uint32_t most;
    std::uint32_t cheapest;  ///< number of microbatches; 0 if none fits
  };

  explicit layout_list(std::size_t modules) : modules_(modules) {}

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] entry& operator[](std::size_t at) { return entries_[at]; }
  [[nodiscard]] bool is_half_full() const noexcept { return size() > most / 2; }

  void read(std::size_t at, std::vector<chosen_layout>& chosen) const
  {
    auto const first = chosen_.begin() + static_cast<std::ptrdiff_t>(entries_[at].first);
    chosen.assign(first, first + static_cast<std::ptrdiff_t>(modules_));
  }

  /// Appends those with a bound above one and up to the other; false, and none, where they are too
  /// many or the budget is spent.
  [[nodiscard]] bool append(layout_enumeration& all, time_units above, time_units upto,
                            work_budget& budget)
  {
    std::size_t const size = entries_.size();
    auto const keep = [&](std::vector<chosen_layout> const& chosen, time_units bound,
                          layout_enumeration::counts const& fitting) {
      if (bound <= above) { return true; }
      if (entries_.size() >= most) { return false; }
      entries_.push_back({bound, chosen_.size(), static_cast<std::uint32_t>(fitting.least),
                          static_cast<std::uint32_t>(std::min(fitting.steady, fitting.most + 1)),
                          static_cast<std::uint32_t>(fitting.most), 0});
      chosen_.insert(chosen_.end(), chosen.begin(), chosen.end());
      return true;
    };
    if (!all.within(upto, budget, keep)) {
      entries_.resize(size);
      chosen_.resize(size * modules_);
      return false;
    }
    std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(size), entries_.end(),
              [](entry const& a, entry const& b) {
                return precedes(a.bound, b.bound, a.first, b.first);
              });
    return true;
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;  // some 100 MB

  std::size_t modules_;
  std::vector<entry> entries_;
  std::vector<chosen_layout> chosen_;  // modules_ for each
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP
