// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/vectors/detail/vector_words.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/digest.hpp>

#include <cstdint>
#include <set>
#include <vector>

namespace {

using ballast::cost_vector;

std::uint64_t words_of(std::vector<cost_vector<2>> const& costs,
                       std::vector<cost_vector<2>> const& loads)
{
  ballast::digest words;
  ballast::detail::add_vectors<2>(words, costs, loads);
  return words.value();
}

TEST(VectorWords, TellPlansApart)
{
  std::set<std::uint64_t> const all{
      words_of({}, {}),       words_of({{1, 2}}, {}),       words_of({}, {{1, 2}}),
      words_of({{2, 1}}, {}), words_of({{1, 2}}, {{1, 2}}), words_of({{1, 2}, {1, 2}}, {}),
  };
  EXPECT_EQ(all.size(), 6U);
  EXPECT_EQ(words_of({{1, 2}}, {{3, 4}}), words_of({{1, 2}}, {{3, 4}}));
}

}  // namespace
