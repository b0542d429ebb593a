// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_EXPERTS_SLOT_CHANGES_HPP
#define BALLAST_PARALLELISM_DETAIL_EXPERTS_SLOT_CHANGES_HPP

#include <ballast/parallelism/detail/experts/replica_slots.hpp>

#include <cstddef>
#include <vector>

namespace ballast::inline v0::detail {

/// Changes slots, and takes the changes back.
class slot_changes {
 public:
  explicit slot_changes(replica_slots& slots) : slots_(slots) {}

  void swap(std::size_t a, std::size_t b)
  {
    slots_.swap(a, b);
    made_.push_back({a, b, none});
  }
  void add(std::size_t slot, std::size_t expert)
  {
    slots_.add(slot, expert);
    made_.push_back({slot, none, none});
  }
  void remove(std::size_t slot)
  {
    made_.push_back({slot, none, slots_.expert_at(slot)});
    slots_.remove(slot);
  }

  /// Changes so far stay.
  void keep() { made_.clear(); }

  /// Undoes all changes since keep(), the latest first; returns how many.
  std::size_t take_back()
  {
    std::size_t const count = made_.size();
    for (; !made_.empty(); made_.pop_back()) {
      change const& last = made_.back();
      if (last.other != none) {
        slots_.swap(last.slot, last.other);
      } else if (last.left == none) {
        slots_.remove(last.slot);
      } else {
        slots_.add(last.slot, last.left);
      }
    }
    return count;
  }

 private:
  static constexpr std::size_t none = replica_slots::none;

  struct change {
    std::size_t slot;
    std::size_t other;  ///< slot of an exchange, or none
    std::size_t left;   ///< expert that left the slot, or none where one came
  };

  replica_slots& slots_;
  std::vector<change> made_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_EXPERTS_SLOT_CHANGES_HPP
