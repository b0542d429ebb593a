// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_WORK_BUDGET_HPP
#define BALLAST_CORE_DETAIL_WORK_BUDGET_HPP

#include <ballast/core/config.hpp>

#include <algorithm>
#include <cstdint>

namespace ballast::inline v0::detail {

/// How much a search may still do, in steps that it counts itself: no clock, so that every rank
/// stops at the same place. A search takes it by reference and counts down.
///
/// Ensures     (1) left() is what it began with less what was spent, and 0 where that was more
class work_budget {
 public:
  explicit constexpr work_budget(std::uint64_t steps) noexcept : left_(steps) {}

  [[nodiscard]] constexpr std::uint64_t left() const noexcept { return left_; }
  [[nodiscard]] constexpr bool spent() const noexcept { return left_ == 0; }

  constexpr void spend(std::uint64_t steps) noexcept { left_ -= std::min(left_, steps); }

 private:
  std::uint64_t left_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_WORK_BUDGET_HPP
