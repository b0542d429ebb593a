#include <ballast/partition/lightest_bags.hpp>  // first: proves it is self-contained

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

TEST(LightestBags, AgreesWithASetOfAllBagsOfASize)  // Ensures (1)
{
  ballast::random_source random(17);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> gpus(1 + random.below(20));
    std::vector<cost_units> loads(gpus.size());
    for (auto& size : gpus) { size = static_cast<std::uint32_t>(1 + random.below(4)); }
    for (auto& load : loads) { load = random.between(0, 5); }

    std::map<std::uint32_t, std::set<std::pair<cost_units, std::uint32_t>>> oracle;
    for (std::uint32_t bag = 0; bag < gpus.size(); ++bag) {
      oracle[gpus[bag]].emplace(loads[bag], bag);
    }

    ballast::workspace memory;
    auto scratch = memory.open();
    lightest_bags const bags(gpus, loads, scratch);
    ASSERT_EQ(bags.by_size().size(), oracle.size());
    for (int step = 0; step < 100; ++step) {
      auto& size = bags.by_size()[random.below(bags.by_size().size())];
      auto& expected = oracle.at(size.gpus);
      auto const [load, index] = *expected.begin();
      ASSERT_EQ(size.lightest().load, load);
      ASSERT_EQ(size.lightest().index, index);
      cost_units const cost = random.between(0, 7);
      size.add_to_lightest(cost);
      expected.erase(expected.begin());
      expected.emplace(load + cost, index);
      loads[index] += cost;
    }
    std::uint32_t before = 0;
    for (auto const& size : bags.by_size()) {
      EXPECT_GT(size.gpus, before);
      before = size.gpus;
    }
    std::vector<cost_units> stored(loads.size());
    bags.store(stored);
    EXPECT_EQ(stored, loads);
  }
}

}  // namespace
