// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>

#include <vector>

namespace ballast::inline v0::detail {

/// What is under way on a rank, each in a place of its own, whose number is used again afterwards.
///
/// Ensures     nothing is allocated where as many were under way before, nor by end()
template <class T>
class numbered_places {
 public:
  /// The place of the next one, in which there is what an earlier one left.
  [[nodiscard]] T& next()
  {
    if (unused_.empty()) {
      unused_.reserve(all_.size() + 1);  // for all to end
      is_used_.resize(all_.size() + 1);
      all_.emplace_back();
      unused_.push_back(all_.size() - 1);
    }
    return all_[unused_.back()];
  }

  /// From now on next() is under way; returns its number.
  [[nodiscard]] std::size_t begin() noexcept
  {
    std::size_t const number = unused_.back();
    unused_.pop_back();
    is_used_[number] = true;
    return number;
  }

  void end(std::size_t number) noexcept
  {
    is_used_[number] = false;
    unused_.push_back(number);
  }

  [[nodiscard]] bool has(std::size_t number) const noexcept
  {
    return number < all_.size() && is_used_[number];
  }

  [[nodiscard]] T& operator[](std::size_t number) { return all_[number]; }

  /// The transfer of that number, which may have ended.
  template <class Id>
  [[nodiscard]] T& at(Id id)
  {
    BALLAST_EXPECTS(has(to_index(id)), "transfer ", to_index(id), " is not under way");
    return all_[to_index(id)];
  }

  /// All places, also those that are not in use.
  [[nodiscard]] std::vector<T>& all() noexcept { return all_; }
  [[nodiscard]] std::vector<T> const& all() const noexcept { return all_; }

 private:
  std::vector<T> all_;
  std::vector<bool> is_used_;
  std::vector<std::size_t> unused_;
};

}  // namespace ballast::inline v0::detail
