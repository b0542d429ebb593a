#include <ballast/partition/detail/exchange/subset_walk.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::subset_sum;

struct anything {
  bool operator()(std::uint32_t, std::uint32_t) const { return true; }
};

struct padded_list {
  explicit padded_list(std::vector<cost_units> const& costs)
      : words((std::size_t{1} << costs.size()) + 5, subset_sum::end)
  {
    std::vector<std::uint64_t> half(words.size());
    ballast::detail::subset_sums_into(sums(), costs, half);
  }
  [[nodiscard]] std::span<std::uint64_t> sums()
  {
    return std::span(words).subspan(1, words.size() - 5);
  }

  std::vector<std::uint64_t> words;
};

using subset_pair = std::pair<std::uint32_t, std::uint32_t>;
constexpr subset_pair no_subsets{0, 0};

template <class Accept = anything>
subset_pair walk(std::vector<cost_units> const& giving, std::vector<cost_units> const& taking,
                 typename ballast::detail::subset_walk<Accept>::amounts wanted, Accept accept = {})
{
  padded_list given(giving);
  padded_list taken(taking);
  ballast::detail::subset_walk<Accept> search(given.sums(), taken.sums(), wanted, accept);
  std::size_t const steps = search();
  EXPECT_LE(steps, 5 * (given.sums().size() + taken.sums().size()) + 3);
  return {search.given(), search.taken()};
}

TEST(SubsetWalk, PrefersTheLeastAmountThenAboveThenBelow)  // Ensures (1)
{
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 9, 9, 12}), subset_pair(2, 3));    // 17 - 8 = 9
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 11, 11, 13}), subset_pair(2, 2));  // 17 - 5 = 12
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 11, 11, 11}), subset_pair(1, 0));  // 10, below
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 6, 6, 6}), subset_pair(1, 2));     // 10 - 5 = 5
  EXPECT_EQ(walk({10, 17}, {3, 5}, {6, 6, 6, 6}), no_subsets);            // 5 is too little
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 30, 30, 40}), subset_pair(3, 0));
  EXPECT_EQ(walk({}, {3, 5}, {1, 1, 1, 9}), no_subsets);
}

TEST(SubsetWalk, AsksWhetherAPairMayBe)
{
  auto const one_for_one = [](std::uint32_t given, std::uint32_t taken) {
    return given == 1 && taken == 1;
  };
  EXPECT_EQ(walk({10, 17}, {3, 5}, {1, 9, 9, 12}, one_for_one), subset_pair(1, 1));
  auto const never = [](std::uint32_t, std::uint32_t) { return false; };
  EXPECT_EQ(walk(std::vector<cost_units>(9, 1), std::vector<cost_units>(9, 1), {1, 2, 2, 5}, never),
            no_subsets);
}

}  // namespace
