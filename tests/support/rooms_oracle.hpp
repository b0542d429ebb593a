// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_SUPPORT_ROOMS_ORACLE_HPP
#define BALLAST_TESTS_SUPPORT_ROOMS_ORACLE_HPP

#include <gtest/gtest.h>
#include <ballast/core/ids.hpp>
#include <ballast/core/random.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace ballast_test {

/// Random calls of `put` and `take_tightest` against a map from room to the bins of that room, the
/// last that came at the back.
template <class Bins>
void expect_tightest_bins(Bins bins, std::size_t count, std::int64_t capacity, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::map<std::int64_t, std::vector<ballast::bag_id>> oracle;
  std::vector<ballast::bag_id> outside;
  for (std::size_t bin = 0; bin < count; ++bin) {
    outside.push_back(ballast::to_id<ballast::bag_id>(bin));
  }
  std::int64_t const distinct = capacity < 20 ? capacity : 20;  // so that rooms are often equal
  for (int step = 0; step < 5000; ++step) {
    std::int64_t const value =
        random.below(2) == 0 ? random.between(0, capacity) : capacity - random.between(0, distinct);
    if (!outside.empty() && random.below(2) == 0) {
      bins.put(outside.back(), value);
      oracle[value].push_back(outside.back());
      outside.pop_back();
      continue;
    }
    auto const expected = oracle.lower_bound(value);
    auto const taken = bins.take_tightest(value);
    ASSERT_EQ(taken.has_value(), expected != oracle.end()) << "step " << step;
    if (!taken) { continue; }
    ASSERT_EQ(taken->room, expected->first) << "step " << step;
    ASSERT_EQ(taken->bin, expected->second.back()) << "step " << step;
    outside.push_back(taken->bin);
    expected->second.pop_back();
    if (expected->second.empty()) { oracle.erase(expected); }
  }
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_SUPPORT_ROOMS_ORACLE_HPP
