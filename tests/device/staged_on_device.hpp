// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <ballast/cuda/staged.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/streams.hpp>

namespace ballast_test {

/// A staged plan and its memory.
template <class Plan>
class staged_on_device {
 public:
  using bound_type = typename ballast::staged<Plan>::bound_type;

  explicit staged_on_device(bound_type bound)
      : device_(ballast::staged<Plan>::bytes(bound)),
        pinned_(ballast::staged<Plan>::bytes(bound)),
        there_(bound, device_.span(), pinned_)
  {}

  [[nodiscard]] ballast::staged<Plan>& operator*() { return there_; }
  [[nodiscard]] ballast::staged<Plan>* operator->() { return &there_; }

 private:
  ballast::device_array<std::byte> device_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  ballast::staged<Plan> there_;
};

/// The bytes that a prepared_route or prepared_heads takes.
template <class Prepared, class... What>
[[nodiscard]] std::size_t prepared_bytes(What&... what)
{
  std::size_t bytes = 0;
  EXPECT_EQ(Prepared::device_bytes(what..., bytes), cudaSuccess);
  return bytes;
}

/// One of them and its memory, not yet prepared, with a side stream for what stays. It is made of a
/// staged plan, a GPU for heads, and the arrays.
template <class Prepared>
class prepared_on_device {
 public:
  template <class... What>
  explicit prepared_on_device(What&&... what)
      : memory_(prepared_bytes<Prepared>(what...)), ready_(what..., memory_.span(), &side_)
  {}

  [[nodiscard]] Prepared const& operator*() const { return ready_; }
  [[nodiscard]] Prepared const* operator->() const { return &ready_; }

 private:
  ballast::side_stream side_ = ballast::side_stream::make().value();
  ballast::device_array<std::byte> memory_;
  Prepared ready_;
};

}  // namespace ballast_test
