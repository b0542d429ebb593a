#include <ballast/partition/detail/patterns/pattern_packing.hpp>  // first: proves it is self-contained

#include "../../../support/samples_that_cost.hpp"

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::priced_sample;
using ballast::tokens;
using ballast::detail::bag_completion;
using ballast::detail::completion;
using ballast::detail::open_bag;
using ballast::detail::pattern_packing;
using ballast::detail::work_budget;

constexpr std::uint64_t packing_nodes = std::uint64_t{1} << 30;

struct packing_task {
  std::vector<priced_sample> samples;
  std::vector<open_bag> bags;
};

packing_task packing_task_of(std::vector<cost_units> costs, std::size_t bags, cost_units room)
{
  packing_task task{ballast_test::samples_that_cost(std::move(costs)), {}};
  for (std::uint32_t bag = 0; bag < bags; ++bag) { task.bags.push_back({room, 1, bag}); }
  return task;
}

void expect_packed(packing_task const& task, std::span<std::uint32_t const> owners)
{
  ASSERT_EQ(owners.size(), task.samples.size());
  std::vector<cost_units> left(task.bags.size(), task.bags[0].room);
  for (std::size_t place = 0; place < owners.size(); ++place) {
    ASSERT_LT(owners[place], left.size());
    left[owners[place]] -= task.samples[place].cost;
  }
  EXPECT_GE(*std::min_element(left.begin(), left.end()), 0);
}

TEST(PatternPacking, AgreesWithACompleteSearch)  // Ensures (1) (2)
{
  ballast::random_source random(20261107);
  int found = 0;
  int impossible = 0;
  int unknown = 0;
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::size_t const m = 3 + random.below(8);
    std::vector<cost_units> costs(2 * m + random.below(m + 1));
    cost_units total = 0;
    for (cost_units& cost : costs) { total += cost = random.between(1, 100); }
    auto const mean = static_cast<cost_units>((total + static_cast<cost_units>(m) - 1) /
                                              static_cast<cost_units>(m));
    packing_task const task =
        packing_task_of(costs, m, std::max<cost_units>(100, mean + random.between(0, 8)));
    std::vector<tokens> const lengths(costs.size(), 1);
    ballast::workspace memory;
    auto scratch = memory.open();
    bag_completion complete(costs.size(), lengths, m, scratch);
    pattern_packing pack(costs.size(), costs.size(), 1 << 14, complete, scratch);
    work_budget nodes(packing_nodes);

    completion const end = pack(task.samples, task.bags, nodes);

    if (end == completion::found) { expect_packed(task, pack.owners()); }
    completion const truth = complete(task.samples, task.bags, nodes);
    ASSERT_NE(truth, completion::out_of_nodes);
    if (end != completion::out_of_nodes) { EXPECT_EQ(end, truth); }
    found += end == completion::found;
    impossible += end == completion::impossible;
    unknown += end == completion::out_of_nodes && truth == completion::found;
  }
  EXPECT_GT(found, 50);
  EXPECT_GT(impossible, 20);
  EXPECT_LE(unknown, 2) << "with all bags left to the complete search a dive rarely misses a plan";
}

TEST(PatternPacking, DoesNotKnowWhereItsTableIsTooSmall)
{
  packing_task const task = packing_task_of({60, 50, 40}, 2, 100);
  std::vector<tokens> const lengths(3, 1);
  ballast::workspace memory;
  auto scratch = memory.open();
  bag_completion complete(3, lengths, 2, scratch);
  work_budget nodes(packing_nodes);
  pattern_packing small_table(3, 3, 4 * 100, complete, scratch);
  EXPECT_EQ(small_table(task.samples, task.bags, nodes), completion::out_of_nodes);
  pattern_packing few_kinds(3, 2, 4 * 101, complete, scratch);
  EXPECT_EQ(few_kinds(task.samples, task.bags, nodes), completion::out_of_nodes);
  pattern_packing fitting(3, 3, 4 * 101, complete, scratch);
  EXPECT_EQ(fitting(task.samples, task.bags, nodes), completion::found);
}

}  // namespace
