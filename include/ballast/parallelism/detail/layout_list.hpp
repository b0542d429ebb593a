// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP
#define BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/parallelism/detail/layout_enumeration.hpp>
#include <ballast/parallelism/detail/layout_prices.hpp>
#include <ballast/parallelism/layout_problem.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// Layouts in the order of their bounds, as layout_enumeration finds them, a part at a time.
class layout_list {
 public:
  struct entry {
    time_units bound;
    std::size_t first;  // in all_chosen_
    std::uint32_t least;
    std::uint32_t steady;
    std::uint32_t most;
    std::uint32_t likely = 0;          ///< microbatches of the shortest likely step; 0: none fits
    time_units likely_step = no_cost;  ///< with these
    bool is_tried = false;             ///< with these
  };

  /// Expects     the prices outlive it.
  layout_list(layout_problem const& problem, layout_prices& prices, time_units least_step)
      : modules_(problem.modules.size()),
        memory_bytes_(problem.memory_bytes),
        prices_(prices),
        least_step_(least_step),
        beyond_(least_step / 8 + 1)
  {}

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] entry& operator[](std::size_t at) { return entries_[at]; }
  /// All layouts with a bound up to it are listed.
  [[nodiscard]] time_units listed_upto() const noexcept { return listed_upto_; }

  void read(std::size_t at, std::vector<chosen_layout>& chosen) const
  {
    auto const first = all_chosen_.begin() + static_cast<std::ptrdiff_t>(entries_[at].first);
    chosen.assign(first, first + static_cast<std::ptrdiff_t>(modules_));
  }

  /// Lists those with a bound above listed_upto() and up to another, which moves away from the least
  /// step by doubling and ends at the limit. Returns whether it could: not where they are too many
  /// or the budget is spent.
  [[nodiscard]] bool extend(layout_enumeration& all, time_units limit, work_budget& budget)
  {
    // Far above the bound there are not as many layouts as wanted: then take all.
    bool const is_last =
        beyond_ / 1024 >= least_step_ || beyond_ >= (no_cost - 1 - least_step_) / 2;
    time_units const next = is_last ? no_cost - 1 : least_step_ + beyond_;
    time_units upto = std::min(std::max(next, listed_upto_ + 1), limit);
    while (!append(all, upto, budget)) {
      // Too many at once: fewer first, if there is room for them and the budget is not spent.
      bool const is_half_full = size() > most / 2;
      if (budget.spent() || is_half_full || upto - listed_upto_ <= 1) { return false; }
      upto = listed_upto_ + (upto - listed_upto_) / 2;
    }
    beyond_ = is_last ? beyond_ : 2 * beyond_;
    listed_upto_ = upto;
    return true;
  }

  /// Whether a layout, as read() has it, fits. With fewer microbatches than are on their way stages
  /// keep no more than there are.
  [[nodiscard]] bool fits(entry const& layout, std::vector<chosen_layout> const& chosen,
                          std::uint32_t count)
  {
    if (count >= layout.steady) { return true; }
    std::uint64_t stages = 0;
    for (chosen_layout const& each : chosen) { stages += each.layout.pp; }
    return count < stages && prices_.bytes(chosen, count) <= memory_bytes_;
  }

  /// Finds with which number of microbatches the first `end` layouts have the shortest likely step,
  /// or fewer of them where the budget is spent before.
  void estimate(std::size_t end, work_budget& budget)
  {
    constexpr std::uint64_t pricing = 32;  // as much work as so many tasks
    for (; estimated_ < end && !budget.spent(); ++estimated_) {
      entry& layout = entries_[estimated_];
      read(estimated_, chosen_);
      for (std::uint32_t count = layout.least; count <= layout.most; ++count) {
        if (!fits(layout, chosen_, count)) { continue; }
        time_units const step = prices_.likely_step(chosen_, count);
        if (step < layout.likely_step) {
          layout.likely_step = step;
          layout.likely = count;
        }
      }
      shortest_likely_ = std::min(shortest_likely_, layout.likely_step);
      budget.spend((std::uint64_t{layout.most} - layout.least + 1) * modules_ *
                   prices_.times.samples() * pricing);
    }
  }
  [[nodiscard]] std::size_t estimated() const noexcept { return estimated_; }
  [[nodiscard]] time_units shortest_likely() const noexcept { return shortest_likely_; }

 private:
  static constexpr std::size_t most = std::size_t{1} << 20;  // some 100 MB

  /// Appends those up to a bound; false, and none, where they are too many or the budget is spent.
  [[nodiscard]] bool append(layout_enumeration& all, time_units upto, work_budget& budget)
  {
    std::size_t const size = entries_.size();
    auto const keep = [&](std::vector<chosen_layout> const& chosen, time_units bound,
                          layout_enumeration::counts const& fitting) {
      if (bound <= listed_upto_) { return true; }
      if (entries_.size() >= most) { return false; }
      entries_.push_back({bound, all_chosen_.size(), static_cast<std::uint32_t>(fitting.least),
                          static_cast<std::uint32_t>(std::min(fitting.steady, fitting.most + 1)),
                          static_cast<std::uint32_t>(fitting.most)});
      all_chosen_.insert(all_chosen_.end(), chosen.begin(), chosen.end());
      return true;
    };
    if (!all.within(upto, budget, keep)) {
      entries_.resize(size);
      all_chosen_.resize(size * modules_);
      return false;
    }
    std::sort(entries_.begin() + static_cast<std::ptrdiff_t>(size), entries_.end(),
              [](entry const& a, entry const& b) {
                return precedes(a.bound, b.bound, a.first, b.first);
              });
    return true;
  }

  std::size_t modules_;
  std::uint64_t memory_bytes_;
  layout_prices& prices_;
  time_units least_step_;
  time_units beyond_;  // the least step, which the next part has bounds up to
  time_units listed_upto_ = -1;
  std::vector<entry> entries_;
  std::vector<chosen_layout> all_chosen_;  // modules_ for each
  std::vector<chosen_layout> chosen_;      // of the one that is estimated
  std::size_t estimated_ = 0;
  time_units shortest_likely_ = no_cost - 1;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_LAYOUT_LIST_HPP
