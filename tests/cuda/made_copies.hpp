// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sanitizer/asan_interface.h>

#include "../support/test.hpp"

#include <ballast/cuda/tables.hpp>

#include <ostream>

namespace ballast_test {

/// A copy as it lies to the 16-byte boundaries before its two ends.
struct copy_shape {
  std::size_t from;  // after a boundary
  std::size_t to;
  std::size_t from_stride;
  std::size_t to_stride;
  std::size_t run;
  std::size_t rows;
};

inline std::ostream& operator<<(std::ostream& out, copy_shape const& shape)
{
  return out << shape.rows << " runs of " << shape.run << " bytes from " << shape.from << " + i * "
             << shape.from_stride << " to " << shape.to << " + i * " << shape.to_stride;
}

/// Memory for a copy of some shape: the source is as long as the copy reads, no byte of it is zero;
/// the destination is zero, with 64 bytes more than it needs on both sides.
class made_copy {
 public:
  explicit made_copy(copy_shape const& shape)
      : shape_(shape),
        source_(shape.from + extent(shape.from_stride)),
        to_(margin_ + shape.to + extent(shape.to_stride) + margin_)
  {
    std::uint8_t value = 0;
    for (auto& byte : source_) {
      value = value == 255 ? 1 : static_cast<std::uint8_t>(value + 1);
      byte = std::byte{value};
    }
    // To the address sanitizer what is before the copy is no more to be read than what is after it,
    // where the memory ends.
    ASAN_POISON_MEMORY_REGION(source_.data(), shape.from);
  }

  ~made_copy() { ASAN_UNPOISON_MEMORY_REGION(source_.data(), shape_.from); }
  made_copy(made_copy const&) = delete;
  made_copy& operator=(made_copy const&) = delete;

  [[nodiscard]] ballast::strided_copy copy()
  {
    return {source_.data() + shape_.from,
            to_.data() + margin_ + shape_.to,
            shape_.from_stride,
            shape_.to_stride,
            shape_.run,
            shape_.rows};
  }

  /// All of the destination's memory.
  [[nodiscard]] std::vector<std::byte>& to() { return to_; }

  /// What all of it must become, byte by byte.
  [[nodiscard]] std::vector<std::byte> expected() const
  {
    std::vector<std::byte> bytes(to_.size());
    for (std::size_t row = 0; row < shape_.rows; ++row) {
      for (std::size_t column = 0; column < shape_.run; ++column) {
        bytes[margin_ + shape_.to + row * shape_.to_stride + column] =
            source_[shape_.from + row * shape_.from_stride + column];
      }
    }
    return bytes;
  }

 private:
  static_assert(__STDCPP_DEFAULT_NEW_ALIGNMENT__ % 16 == 0);  // where vectors begin is a boundary
  static constexpr std::size_t margin_ = 64;

  [[nodiscard]] std::size_t extent(std::size_t stride) const
  {
    return shape_.rows == 0 ? 0 : (shape_.rows - 1) * stride + shape_.run;
  }

  copy_shape shape_;
  std::vector<std::byte> source_;
  std::vector<std::byte> to_;
};

/// One run of up to `most` bytes between any places.
inline rc::Gen<copy_shape> contiguous_shapes(std::size_t most)
{
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange<std::size_t>(0, 16), rc::gen::inRange<std::size_t>(0, 16),
                     rc::gen::inRange<std::size_t>(0, most + 1)),
      [](auto const& drawn) {
        auto const [from, to, bytes] = drawn;
        return copy_shape{from, to, bytes, bytes, bytes, 1};
      });
}

/// Runs whose places, strides and lengths have a common divisor of 1, 2, 4, 8, 16 or 48 bytes;
/// their sources may overlap or be the same.
inline rc::Gen<copy_shape> strided_shapes()
{
  return rc::gen::map(
      rc::gen::tuple(rc::gen::element<std::size_t>(1, 2, 4, 8, 16, 48),
                     rc::gen::inRange<std::size_t>(1, 40), rc::gen::inRange<std::size_t>(0, 16),
                     rc::gen::inRange<std::size_t>(0, 5), rc::gen::inRange<std::size_t>(0, 48),
                     rc::gen::inRange<std::size_t>(0, 5), rc::gen::inRange<std::size_t>(0, 5)),
      [](auto const& drawn) {
        auto const [unit, run, rows, to_gap, from_stride, from, to] = drawn;
        return copy_shape{from * unit,           to * unit,  from_stride * unit,
                          (run + to_gap) * unit, run * unit, rows};
      });
}

}  // namespace ballast_test
