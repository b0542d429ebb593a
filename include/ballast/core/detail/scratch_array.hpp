// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_SCRATCH_ARRAY_HPP
#define BALLAST_CORE_DETAIL_SCRATCH_ARRAY_HPP

#include <ballast/core/workspace.hpp>

#include <cstddef>
#include <type_traits>

namespace ballast::inline v0::detail {

/// An array of a workspace, of records that no user is handed: what std::span has, for less.
///
/// Whoever includes ballast pays for its templates. Before std::span takes a pointer it asks, with 170
/// templates for each type of record, whether that is a contiguous iterator. This asks nothing.
template <class T>
class scratch_array {
 public:
  using value_type = std::remove_const_t<T>;

  constexpr scratch_array() = default;
  constexpr scratch_array(T* first, std::size_t count) noexcept : first_(first), count_(count) {}

  /// The elements of another array, or of a vector, to read.
  template <class Items>
    requires(std::is_const_v<T> && std::is_same_v<typename Items::value_type, value_type>)
  constexpr scratch_array(Items const& items) noexcept : first_(items.data()), count_(items.size())
  {}

  [[nodiscard]] constexpr T* data() const noexcept { return first_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] constexpr T* begin() const noexcept { return first_; }
  [[nodiscard]] constexpr T* end() const noexcept { return first_ + count_; }
  [[nodiscard]] constexpr T& operator[](std::size_t at) const noexcept { return first_[at]; }
  [[nodiscard]] constexpr T& front() const noexcept { return first_[0]; }
  [[nodiscard]] constexpr T& back() const noexcept { return first_[count_ - 1]; }

  [[nodiscard]] constexpr scratch_array first(std::size_t count) const noexcept
  {
    return {first_, count};
  }
  [[nodiscard]] constexpr scratch_array last(std::size_t count) const noexcept
  {
    return {first_ + (count_ - count), count};
  }
  [[nodiscard]] constexpr scratch_array subspan(std::size_t from) const noexcept
  {
    return {first_ + from, count_ - from};
  }
  [[nodiscard]] constexpr scratch_array subspan(std::size_t from, std::size_t count) const noexcept
  {
    return {first_ + from, count};
  }

 private:
  T* first_ = nullptr;
  std::size_t count_ = 0;
};

/// So many records that live as long as the frame. Their content is unspecified.
template <class T>
  requires(std::is_trivially_copyable_v<T>)
[[nodiscard]] scratch_array<T> take_records(workspace::frame& scratch, std::size_t count)
{
  // Arrays of bytes create the objects that are used in them, so there is nothing to construct.
  return {reinterpret_cast<T*>(scratch.take<std::byte>(count * sizeof(T)).data()), count};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_SCRATCH_ARRAY_HPP
