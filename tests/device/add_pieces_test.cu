// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/add_pieces.cuh>

#include "gpu_test.hpp"

#include <cuda_bf16.h>
#include <gtest/gtest.h>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/gpu/device_memory.hpp>

#include <cstring>

namespace {

class AddPieces : public ballast_test::gpu_test {
 protected:
  template <class T>
  void expect_sums_of_the_host(std::uint32_t count, std::size_t elements) const
  {
    std::vector<T> pieces(count * elements);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      pieces[i] = static_cast<T>(1.0F / static_cast<float>(1 + i % 97));
    }
    std::vector<T> sum(elements);
    ballast::detail::piece_sums<T>{pieces.data(), sum.data(), count, elements}.add(0, 1);
    auto const there = to_device(pieces);
    ballast::device_array<T> const found(elements);
    EXPECT_EQ(ballast::detail::add_pieces(std::span<T const>(there.span()), found.span(), stream()),
              cudaSuccess);
    auto const values = to_host(found);
    EXPECT_EQ(std::memcmp(values.data(), sum.data(), elements * sizeof(T)), 0);
  }
};

TEST_F(AddPieces, HasTheBitsOfTheHost)
{
  for (std::size_t const elements : {1U, 255U, 100'000U}) {
    expect_sums_of_the_host<float>(4, elements);
    expect_sums_of_the_host<__nv_bfloat16>(8, elements);
  }
}

}  // namespace
