// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "../cuda/copy_batches.hpp"
#include "gpu_test.hpp"

namespace ballast_test {

/// A test of one policy of copy_batch.
class copy_test : public gpu_test {
 protected:
  /// Makes `count` random copies by a list of `bound`. The arrays end where the copies do: a byte
  /// too far is what compute-sanitizer finds.
  template <kinds Kind, class Policy>
  void expect_same_as_on_the_host(std::uint32_t count, std::uint32_t bound, std::uint64_t seed,
                                  Policy const& policy)
  {
    SCOPED_TRACE(testing::Message() << count << " copies of " << bound << ", seed " << seed);
    copy_batch_case const batch(Kind, count, seed);
    auto const from = random_bytes(batch.from_bytes(), seed);
    auto expected = random_bytes(batch.to_bytes(), seed + 1);
    auto const from_there = to_device(from);
    auto const to_there = to_device(expected);
    auto const copies = to_device(batch.copies(from_there.data(), to_there.data()));
    listed_copies<Kind> const list{copies.data(), count};
    run([&](void* temporary, std::size_t& bytes) {
      return policy(temporary, bytes, list, bound, stream());
    });
    batch.run(from, expected);
    EXPECT_EQ(to_host(to_there), expected);
  }

  template <kinds Kind, class Policy>
  void expect_same_as_on_the_host(Policy const& policy)
  {
    expect_same_as_on_the_host<Kind>(0, 0, 1, policy);
    expect_same_as_on_the_host<Kind>(0, 3000, 1, policy);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      auto const count = static_cast<std::uint32_t>(seed * seed * 17);
      expect_same_as_on_the_host<Kind>(count, count, seed, policy);
      expect_same_as_on_the_host<Kind>(count, count + 1000, seed + 100, policy);
    }
  }
};

}  // namespace ballast_test
