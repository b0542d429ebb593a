// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_DEVICE_DEVICE_TABLES_HPP
#define BALLAST_TESTS_DEVICE_DEVICE_TABLES_HPP

#include <ballast/cuda/device_route.hpp>
#include <ballast/gpu/device_array.hpp>
#include <ballast/gpu/pinned_allocator.hpp>

#include <cstddef>
#include <vector>

namespace ballast_test {

/// A device_route and its memory.
class device_tables {
 public:
  explicit device_tables(ballast::route_bound bound)
      : device_(ballast::device_route::bytes(bound)),
        pinned_(ballast::device_route::bytes(bound)),
        route_(bound, device_.span(), pinned_)
  {}

  [[nodiscard]] ballast::device_route& route() { return route_; }

 private:
  ballast::device_array<std::byte> device_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  ballast::device_route route_;
};

}  // namespace ballast_test

#endif  // BALLAST_TESTS_DEVICE_DEVICE_TABLES_HPP
