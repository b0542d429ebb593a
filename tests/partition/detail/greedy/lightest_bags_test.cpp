#include <ballast/partition/detail/greedy/lightest_bags.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::detail::lightest_bags;

TEST(LightestBags, AgreesWithASetOfAllBagsOfAKind)  // Ensures (1)
{
  ballast::random_source random(17);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> gpus(1 + random.below(20));
    std::vector<std::uint32_t> speeds(gpus.size());
    std::vector<cost_units> loads(gpus.size());
    for (auto& size : gpus) { size = static_cast<std::uint32_t>(1 + random.below(4)); }
    for (auto& speed : speeds) { speed = static_cast<std::uint32_t>(1 + random.below(3)); }
    for (auto& load : loads) { load = random.between(0, 5); }

    using kind = std::pair<std::uint32_t, std::uint32_t>;
    std::map<kind, std::set<std::pair<cost_units, std::uint32_t>>> oracle;
    for (std::uint32_t bag = 0; bag < gpus.size(); ++bag) {
      oracle[{gpus[bag], speeds[bag]}].emplace(loads[bag], bag);
    }

    ballast::workspace memory;
    auto scratch = memory.open();
    ballast::partition_problem const problem{{}, {}, {}, gpus, speeds};
    lightest_bags const bags(problem, loads, scratch);
    ASSERT_EQ(bags.kinds().size(), oracle.size());
    for (int step = 0; step < 100; ++step) {
      auto& like = bags.kinds()[random.below(bags.kinds().size())];
      auto& expected = oracle.at({like.gpus, like.speed});
      auto const [load, index] = *expected.begin();
      ASSERT_EQ(like.lightest().load, load);
      ASSERT_EQ(like.lightest().index, index);
      cost_units const cost = random.between(0, 7);
      like.add_to_lightest(cost);
      expected.erase(expected.begin());
      expected.emplace(load + cost, index);
      loads[index] += cost;
    }
    kind before{0, 0};
    for (auto const& like : bags.kinds()) {
      EXPECT_GT((kind{like.gpus, like.speed}), before);
      before = {like.gpus, like.speed};
    }
    std::vector<cost_units> stored(loads.size());
    bags.store(stored);
    EXPECT_EQ(stored, loads);
  }
}

}  // namespace
