// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_GROUPS_HPP
#define BALLAST_CORE_GROUPS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/detail/counting_sort.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/ids.hpp>

#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Which members belong to which key: the samples of each bag, the sequences of each rank.
///
/// Stored as compressed sparse rows (all members in one array, one offset per key), so that a group
/// is a span, iteration touches memory in order, and rebuilding reuses the arrays.
///
/// Ensures     (1) every member is in exactly one group
///             (2) members of a group are in increasing order
///             (3) size() keys, some of which may have no member
/// Complexity  regroup: O(members + keys); it allocates only when either count exceeds all before.
template <identifier Key, identifier Member>
class groups {
 public:
  groups() = default;

  /// Groups members 0, 1, 2, ... by the key that owns each. Expects every owner below `keys`.
  void regroup(std::span<Key const> owner, std::size_t keys)
  {
    regroup_by(owner.size(), keys, [owner](std::size_t member) { return owner[member]; });
  }

  /// The same of so many members, with the key `owner_of(member)` for each.
  template <class OwnerOf>
  void regroup_by(std::size_t members, std::size_t keys, OwnerOf owner_of)
  {
    offsets_.assign(keys + 1, 0);
    members_.resize(members);
    for (std::size_t member = 0; member < members; ++member) {
      Key const key = owner_of(member);
      BALLAST_EXPECTS(to_index(key) < keys, "member ", member, " belongs to group ", key, " of ",
                      keys);
      ++offsets_[to_index(key) + 1];
    }
    detail::counting_sort(
        detail::mutable_span_of(offsets_), members,
        [&owner_of](std::size_t member) { return to_index(owner_of(member)); },
        [this](std::size_t member, std::size_t position) {
          members_[position] = to_id<Member>(member);
        });
  }

  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size() - 1; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }

  [[nodiscard]] std::span<Member const> operator[](Key key) const
  {
    BALLAST_EXPECTS(to_index(key) < size(), "group ", key, " of ", size(), " groups");
    std::size_t const first = offsets_[to_index(key)];
    return detail::span_of(members_, first, offsets_[to_index(key) + 1] - first);
  }

  /// Members of all groups, group after group.
  [[nodiscard]] std::span<Member const> members() const noexcept
  {
    return detail::span_of(members_);
  }

  /// Walks over the groups as spans, in key order.
  class iterator {
   public:
    using value_type = std::span<Member const>;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;  // the reference is a value

    iterator() = default;
    [[nodiscard]] value_type operator*() const { return (*groups_)[to_id<Key>(key_)]; }
    iterator& operator++() noexcept
    {
      ++key_;
      return *this;
    }
    iterator operator++(int) noexcept
    {
      iterator const before = *this;
      ++key_;
      return before;
    }
    friend bool operator==(iterator const&, iterator const&) = default;

   private:
    friend class groups;
    iterator(groups const* all, std::size_t key) noexcept : groups_(all), key_(key) {}

    groups const* groups_ = nullptr;
    std::size_t key_ = 0;
  };

  [[nodiscard]] iterator begin() const noexcept { return {this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {this, size()}; }

  friend bool operator==(groups const&, groups const&) = default;

 private:
  std::vector<std::size_t> offsets_ = {0};
  std::vector<Member> members_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CORE_GROUPS_HPP
