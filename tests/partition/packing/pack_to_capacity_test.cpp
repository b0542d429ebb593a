#include <ballast/partition/packing/pack_to_capacity.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/packing/best_fit_decreasing.hpp>
#include <ballast/partition/packing/first_fit_decreasing.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;

TEST(PackToCapacity, DescribesThePackingItMakes)  // Ensures (1)
{
  // [pack]
  std::vector<ballast::tokens> const lengths{700, 600, 500, 400, 300};
  auto const plan = ballast::pack_to_capacity(lengths, 1000, ballast::best_fit_decreasing{});
  // [pack]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->owner,
              testing::ElementsAre(bag_id{0}, bag_id{1}, bag_id{2}, bag_id{1}, bag_id{0}));
  EXPECT_THAT(plan->loads, testing::ElementsAre(1000, 1000, 500));
  EXPECT_THAT(plan->samples[bag_id{0}], testing::ElementsAre(sample_id{0}, sample_id{4}));
  EXPECT_EQ(plan->lower_bound, 3U);
  EXPECT_TRUE(plan->proven_optimal());
}

TEST(PackToCapacity, TakesAProjection)
{
  struct sample {
    tokens text;
    tokens visual;
  };
  std::vector<sample> const samples{{10, 90}, {20, 0}, {5, 75}};
  auto const all = [](sample const& s) { return s.text + s.visual; };
  auto const plan = pack_to_capacity(samples, 100, best_fit_decreasing{}, all).value();
  EXPECT_THAT(plan.weights, testing::ElementsAre(100, 20, 80));
  EXPECT_EQ(plan.bins(), 2U);
  auto const text = pack_to_capacity(samples, 100, best_fit_decreasing{}, &sample::text).value();
  EXPECT_EQ(text.bins(), 1U);
}

TEST(PackToCapacity, PacksEmptyStepsAndSamplesOfNoWeight)
{
  auto const empty = pack_to_capacity(std::vector<int>{}, 5, best_fit_decreasing{}).value();
  EXPECT_EQ(empty.bins(), 0U);
  EXPECT_TRUE(empty.proven_optimal());
  for (std::int64_t const capacity : {0, 5}) {
    auto const first = pack_to_capacity(std::vector{0, 0, 0}, capacity, first_fit_decreasing{});
    auto const best = pack_to_capacity(std::vector{0, 0, 0}, capacity, best_fit_decreasing{});
    ASSERT_TRUE(first && best);
    EXPECT_EQ(first->bins(), 1U);
    EXPECT_EQ(best->bins(), 1U);
    EXPECT_TRUE(best->proven_optimal());
  }
}

TEST(PackToCapacity, NamesTheSampleThatCannotBePacked)
{
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  auto const expect = [](auto const& weights, std::int64_t capacity, error_code code,
                         std::size_t position, char const* why) {
    expect_refused(pack_to_capacity(weights, capacity, best_fit_decreasing{}), code, position, why);
  };
  using enum error_code;
  expect(std::vector{9, 11, 12}, 10, infeasible, 1, "sample 1 of weight 11 is above");
  expect(std::vector{9, -1}, 10, out_of_range, 1, "");
  expect(std::vector{most / 2, most / 2 + 1}, most, out_of_range, 1, "");
  expect(std::vector{1}, -1, out_of_range, 0, "");
  std::vector<std::uint64_t> const large{1, std::uint64_t{1} << 63};  // no negative number
  for (std::int64_t const limit : {std::int64_t{10}, most}) {
    auto const above = pack_to_capacity(large, limit, best_fit_decreasing{});
    ASSERT_FALSE(above);
    EXPECT_EQ(above.error().position, 1U);
    EXPECT_THAT(above.error().message, testing::Not(testing::HasSubstr("negative")));
  }
}

TEST(PackToCapacity, AllocatesNothingInTheSteadyState)  // Ensures (3)
{
  expect_no_packing_allocation(first_fit_decreasing{}, 9000);
  expect_no_packing_allocation(best_fit_decreasing{}, 9000);
  expect_no_packing_allocation(best_fit_decreasing{}, std::int64_t{1} << 30);
}

// A policy that is wrong in one of three ways.
struct wrong_packing_policy {
  bool overruns = false;
  std::size_t proven = 0;
  packed_bins operator()(packing_problem const&, std::span<bag_id> owner, workspace&) const
  {
    for (bag_id& bin : owner) { bin = bag_id{0}; }
    return {overruns || proven > 0 ? 1U : 2U, proven};
  }
};

TEST(PackToCapacityDeathTest, EndsTheProgramWhenAPolicyIsWrong)
{
  EXPECT_DEATH((void)pack_to_capacity(std::vector{6, 6}, 10, wrong_packing_policy{true}),
               "the policy put a weight of 12 in bin 0, which holds 10");
  EXPECT_DEATH((void)pack_to_capacity(std::vector{6, 6}, 100, wrong_packing_policy{false}),
               "the policy left bin .* of .* empty");
  EXPECT_DEATH((void)pack_to_capacity(std::vector{6}, 10, wrong_packing_policy{false, 2}),
               "the policy says that no packing has fewer than 2 bins, and fills 1");
}

}  // namespace
