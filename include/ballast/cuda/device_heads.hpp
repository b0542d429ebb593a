// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/head_array.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ballast::inline v0 {

/// The types of elements that kernels add. Arrays of 8-bit floats, of integers, and those with a
/// caller's own `add` are `other`.
enum class element_type : std::uint8_t { other, fp16, bf16, fp32, fp64 };

namespace detail {

template <class T>
[[nodiscard]] bool adds(head_array const& array)
{
  // If the operators of the 16-bit types are switched off, the host cannot add them either.
  if constexpr (addable<T>) {
    return array.add == &add_elements<T>;
  } else {
    return false;
  }
}

}  // namespace detail

/// The arrays of one Ulysses exchange, for kernels, by value.
///
/// Expects     at most `most` arrays: queries, keys, values and others that go with them. They take
///             a tenth of the 4 kB that the parameters of a kernel may have.
class device_heads {
 public:
  static constexpr std::uint32_t most = 8;

  /// One array: where it is read, where it is written, and the shape and type of its heads.
  struct array {
    std::byte const* from;
    std::byte* to;
    head_shape shape;
    element_type element;
  };

  explicit device_heads(std::span<head_array const> arrays)
      : size_(static_cast<std::uint32_t>(arrays.size()))
  {
    BALLAST_EXPECTS(arrays.size() <= most, "a call exchanges ", arrays.size(),
                    " arrays, and the most is ", most);
    array* next = arrays_;
    for (head_array const& each : arrays) {
      *next++ = {each.from.data(), each.to.data(), each.shape, type_of(each)};
    }
  }

  /// Returns the element type of an array that heads_of made: its `add` function shows the type.
  [[nodiscard]] static element_type type_of(head_array const& of)
  {
    if (detail::adds<__half>(of)) { return element_type::fp16; }
    if (detail::adds<__nv_bfloat16>(of)) { return element_type::bf16; }
    if (detail::adds<float>(of)) { return element_type::fp32; }
    if (detail::adds<double>(of)) { return element_type::fp64; }
    return element_type::other;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE std::uint32_t size() const { return size_; }
  [[nodiscard]] BALLAST_HOST_DEVICE array const& operator[](std::uint32_t index) const
  {
    return arrays_[index];
  }

  /// Returns whether these are as many arrays of the same shapes, wherever they are.
  [[nodiscard]] bool has_shapes_of(device_heads const& other) const
  {
    return std::equal(arrays_, arrays_ + size_, other.arrays_, other.arrays_ + other.size_,
                      [](auto const& one, auto const& two) { return one.shape == two.shape; });
  }

 private:
  array arrays_[most] = {};
  std::uint32_t size_;
};

static_assert(std::is_trivially_copyable_v<device_heads>);

}  // namespace ballast::inline v0
