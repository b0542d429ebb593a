#include <ballast/partition/detail/vectors/vector_exchange.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/detail/work_budget.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace {

using ballast::cost_vector;
using ballast::ratio;
using ballast::detail::bin_pair;
using ballast::detail::vector_exchange;

struct thing {
  cost_vector<2> cost;
};

std::vector<thing> random_things(ballast::random_source& random, std::size_t d)
{
  std::vector<thing> things(random.below(12));
  std::int64_t const heaviest = random.below(2) == 0 ? 4 : 300;
  for (auto& each : things) {
    each.cost = {random.between(0, heaviest), random.between(0, heaviest)};
  }
  std::ranges::sort(things, std::greater{}, [d](thing const& each) { return each.cost[d]; });
  return things;
}

TEST(ImproveExchange, FindsTheBestOfAllPairs)  // Ensures (1)
{
  ballast::random_source random(91);
  int found = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const d = random.below(2);
    auto const given = random_things(random, d);
    auto const taken = random_things(random, d);
    // As from other work in the bins: what they hold is no more than what things add up to.
    bin_pair<2> bins{{1000 + random.between(0, 300), 1000 + random.between(0, 300)},
                     {1000 + random.between(0, 300), 1000 + random.between(0, 300)},
                     d,
                     1 + static_cast<std::uint32_t>(random.below(2)),
                     1 + static_cast<std::uint32_t>(random.below(2))};
    std::size_t const refused = random.below(6);  // from 3 on all pairs are allowed
    ratio const largest{bins.heavy[d], bins.heavy_speed};
    auto const allowed = [&](thing const& gives, thing const& takes) {
      auto const out = static_cast<std::size_t>(&gives - given.data());
      auto const in = static_cast<std::size_t>(&takes - taken.data());
      return out % 3 != refused || in % 2 != 0;
    };

    auto const later = [&](std::int64_t heavy, std::int64_t light) {
      return std::max(ratio{heavy, bins.heavy_speed}, ratio{light, bins.light_speed});
    };
    vector_exchange expected{largest};
    for (std::size_t out = 0; out < given.size(); ++out) {
      for (std::size_t in = 0; in < taken.size(); ++in) {
        if (out % 3 == refused && in % 2 == 0) { continue; }
        ratio after;
        for (std::size_t e = 0; e < 2; ++e) {
          std::int64_t const moved = given[out].cost[e] - taken[in].cost[e];
          after = std::max(after, later(bins.heavy[e] - moved, bins.light[e] + moved));
        }
        if (after < expected.finish) { expected = {after, out, in}; }
      }
    }

    vector_exchange best{largest};
    constexpr std::uint64_t all_work = 1'000'000;
    ballast::detail::work_budget work(all_work);
    bool const improved = ballast::detail::improve_exchange(
        best, bins, std::span<thing const>(given), std::span<thing const>(taken), work, allowed);
    std::uint64_t const looked_at = all_work - work.left();
    ASSERT_EQ(improved, expected.finish < largest);
    ASSERT_EQ(best.finish, expected.finish);
    ASSERT_EQ(best.given, expected.given);
    ASSERT_EQ(best.taken, expected.taken);
    ASSERT_GE(looked_at, given.size());
    ASSERT_LE(looked_at, given.size() * (taken.size() + 1));
    found += improved ? 1 : 0;
  }
  EXPECT_GE(found, 300);
}

}  // namespace
