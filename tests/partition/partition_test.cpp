#include <ballast/partition/padded_batches.hpp>  // first: proves it is self-contained
#include <ballast/partition/partition.hpp>

#include "../support/plan_checks.hpp"
#include "../support/policy_checks.hpp"
#include "../support/steady_state.hpp"
#include "../support/test.hpp"

#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using enum error_code;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto own_length = [](tokens length) { return length; };

TEST(Partition, DescribesThePlanItMakes)  // Ensures (1), partition_plan (1) to (4)
{
  // [partition]
  std::vector<ballast::tokens> const lengths{700, 600, 500, 400, 300};
  auto const cost = [](ballast::tokens length) { return length * length; };
  auto const plan = ballast::partition(lengths, ballast::one_gpu_bags(2), cost, {},
                                       ballast::longest_processing_time{});
  // [partition]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->owner, (std::vector{bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{1}}));
  EXPECT_THAT(plan->samples[bag_id{0}], ElementsAre(sample_id{0}, sample_id{3}));
  EXPECT_THAT(plan->samples[bag_id{1}], ElementsAre(sample_id{1}, sample_id{2}, sample_id{4}));
  EXPECT_THAT(plan->costs, ElementsAre(490000, 360000, 250000, 160000, 90000));
  EXPECT_THAT(plan->loads, ElementsAre(650000, 700000));
  EXPECT_EQ(plan->makespan, (ratio{700000, 1}));
  EXPECT_EQ(plan->lower_bound, (ratio{700000, 1}))
      << "no set costs 675000, half of all, or a bit more";
  EXPECT_DOUBLE_EQ(plan->gap(), 0);
  EXPECT_EQ(plan->lengths, lengths);
  EXPECT_EQ(plan->batches, batching::packed);
}

TEST(Partition, TakesSamplesOfAnyTypeByProjection)
{
  // [projection]
  struct sample {
    ballast::tokens text;
    ballast::tokens visual;
  };
  std::vector<sample> const samples{{10, 90}, {20, 0}, {5, 5}};
  auto const plan = ballast::partition(
      samples, ballast::one_gpu_bags(2),
      [](sample const& s) { return 2 * s.text + 3 * s.visual; },  // what it costs
      [](sample const& s) { return s.text + s.visual; }, {},
      ballast::longest_processing_time{});  // what a bag would split
  // [projection]
  ASSERT_TRUE(plan);
  EXPECT_THAT(plan->costs, ElementsAre(290, 40, 25));
}

TEST(Partition, PlansTheEdges)
{
  auto const planned = [](std::vector<tokens> const& lengths) {
    return partition(lengths, one_gpu_bags(3), own_length, {}, greedy_knapsack{}).value();
  };
  for (auto const& lengths : {std::vector<tokens>{}, {0, 0}, {7}}) {
    EXPECT_EQ(planned(lengths).gap(), 0.0);
    EXPECT_EQ(planned(lengths).samples.size(), 3U);
  }
  EXPECT_TRUE(planned({7}).samples[bag_id{1}].empty());
  std::vector<std::string> const words{"a", "bbb", "cc"};  // that no bag splits
  auto const letters = [](std::string const& word) { return static_cast<int>(word.size()); };
  auto const plan =
      partition(words, one_gpu_bags(2), letters, no_length{}, {}, longest_processing_time{})
          .value();
  EXPECT_EQ(plan.makespan, (ratio{3, 1}));
}

TEST(Partition, AdmitsShortSamplesWhereTheBagsDo)  // Ensures (2), partition_plan (5)
{
  // [short_samples]
  std::vector<ballast::tokens> const lengths{4000, 6, 3000, 2500};
  ballast::bag_layout const bags = ballast::lay_out(*ballast::parse_bags("g8n2"), 16)
                                       ->with_short_samples(ballast::short_samples::admitted);
  auto const plan = ballast::partition(lengths, bags, ballast::quadratic_cost{.linear = 1}, {},
                                       ballast::longest_processing_time{});
  // [short_samples]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->short_samples, 1U);
  EXPECT_THAT(plan->owner, ElementsAre(bag_id{0}, bag_id{0}, bag_id{1}, bag_id{1}));
  EXPECT_THAT(plan->loads, ElementsAre(4006, 5500));
  EXPECT_EQ(plan->bags_digest, bags.digest());
}

TEST(Partition, PutsShortSamplesIntoTheSmallestBags)  // Ensures (2), bag_layout Ensures (4)
{
  auto const refusing = *lay_out(*parse_bags("g8n1+g4n2"), 16);
  auto const bags = refusing.with_short_samples(short_samples::admitted);
  auto const is_short = [](tokens length) { return 0 < length && length < 4; };
  random_source random(31);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<tokens> lengths(random.below(20));
    for (tokens& length : lengths) { length = random.between(0, 9); }
    auto const short_ones = std::ranges::count_if(lengths, is_short);
    auto const plan = partition(lengths, bags, own_length, {}, greedy_knapsack{});
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->short_samples, static_cast<std::size_t>(short_ones));
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      EXPECT_TRUE(bags.takes(plan->owner[sample], lengths[sample])) << "sample " << sample;
      if (lengths[sample] > 0 && lengths[sample] < 8) {
        EXPECT_NE(plan->owner[sample], bag_id{0}) << "sample " << sample;
      }
    }

    // Without such samples the plan is that of bags that refuse them.
    std::erase_if(lengths, is_short);
    auto const expected = partition(lengths, refusing, own_length, {}, greedy_knapsack{});
    auto const same = partition(lengths, bags, own_length, {}, greedy_knapsack{});
    ASSERT_TRUE(same && expected);
    EXPECT_EQ(same->owner, expected->owner);
    EXPECT_EQ(same->lower_bound, expected->lower_bound);
    EXPECT_EQ(same->short_samples, 0U);
    EXPECT_NE(same->digest(), expected->digest()) << "ranks that disagree would place others";
  }
}

TEST(Partition, NamesTheSampleThatCannotBePlaced)
{
  auto const wide = *lay_out(*parse_bags("g4n2"), 8);
  auto const expect = [&](std::vector<tokens> const& lengths, bag_layout const& bags,
                          error_code code, std::size_t position, char const* why) {
    auto const cost = [](tokens length) {
      EXPECT_GE(length, 0) << "a cost model is not asked about a length that is none";
      return length;
    };
    expect_refused(partition(lengths, bags, cost, {}, greedy_knapsack{}), code, position, why);
  };
  expect({9, 0, 3}, wide, infeasible, 2, "sample 2 of 3 tokens is shorter");
  expect({9, 0, 3}, wide, infeasible, 2, "bags.with_short_samples(short_samples::admitted)");
  expect({9, -1}, wide, out_of_range, 1, "has a length that is not from 0");
  expect({9, longest_sample + 1}, wide, out_of_range, 1, "correct its length");
  for (auto const& lengths : {std::vector<tokens>{9}, {}}) {
    expect(lengths, one_gpu_bags(0), infeasible, 0, "there are no bags to place samples in; lay");
  }
}

TEST(Partition, NamesTheSampleWhoseCostIsWrong)
{
  auto const planned = [](auto one, auto two, policy_ref const& policy = greedy_knapsack{}) {
    return partition(
        std::vector<tokens>{1, 2, 1}, one_gpu_bags(1),
        [=](tokens length) { return length == 2 ? two : one; }, {}, policy);
  };
  expect_refused(planned(1, -5), out_of_range, 1, "negative cost");
  expect_refused(planned(cost_units{1}, no_cost), out_of_range, 1, "coarser unit");
  expect_refused(planned(no_cost / 2, no_cost / 2), out_of_range, 2);  // together
  std::uint64_t const none = 0;
  EXPECT_EQ(planned(none, std::uint64_t{no_cost} - 1)->makespan, (ratio{no_cost - 1, 1}));
  expect_refused(planned(none, std::uint64_t{1} << 63), out_of_range, 1, "its unit is too fine");
  expect_refused(planned(none, ~none), out_of_range, 1, "its unit is too fine");
  cost_units const third = (no_cost - 1) / 3;
  EXPECT_TRUE(planned(cost_units{1}, third, padded_batches{}));
  expect_refused(planned(cost_units{1}, third + 1, padded_batches{}), out_of_range, 1);
}

TEST(Partition, TakesConstraintsInPlaceOfALength)
{
  std::vector<tokens> const lengths{5, 6, 7};
  std::vector<std::int64_t> const together{1, 2, 1};
  placement_limits const constraints{.together = together};
  auto const plan_with = [&](auto const&... more) {
    return partition(lengths, one_gpu_bags(2), std::identity{}, more...);
  };
  EXPECT_EQ(plan_with(constraints)->owner, plan_with(std::identity{}, constraints)->owner);
  EXPECT_EQ(plan_with(constraints)->makespan, (ratio{12, 1}));
  EXPECT_EQ(plan_with()->makespan, (ratio{11, 1}));
}

TEST(Partition, TakesKeysOfEveryIntegerType)
{
  constexpr std::uint64_t large = std::uint64_t{1} << 63U;
  auto const owners = [](auto const& keys) {
    return partition(std::vector<tokens>{5, 6, 7, 4, 3}, one_gpu_bags(2), std::identity{},
                     {.together = keys}, longest_processing_time{})
        .value()
        .owner;
  };
  auto const expected = owners(std::vector<std::int64_t>{1, -2, 1, 3, -2});
  EXPECT_EQ(expected[0], expected[2]);
  EXPECT_EQ(owners(std::vector<std::uint64_t>{large + 1, large, large + 1, 1, large}), expected);
  EXPECT_EQ(owners(std::array<std::int8_t, 5>{1, -128, 1, 127, -128}), expected);
  std::array const ranks{rank_id{7}, rank_id{0}, rank_id{7}, rank_id{9}, rank_id{0}};
  EXPECT_EQ(owners(std::span(ranks)), expected);
}

TEST(Partition, NamesTheSampleWhoseSecondLengthIsWrong)
{
  struct document {
    tokens visual;
    tokens all;
  };
  std::vector<document> const documents{{1, 10}, {-5, 10}};
  quadratic_cost const cost{.linear = 1};
  auto const plan =
      partition(documents, one_gpu_bags(2),
                ballast::sum_of{cost_of{cost, &document::visual}, cost_of{cost, &document::all}},
                &document::all, {}, longest_processing_time{});
  expect_refused(plan, out_of_range, 1, "has no cost");
}

template <class Cost>
concept plannable = requires(std::vector<tokens> const& lengths, Cost const& cost) {
  partition(lengths, one_gpu_bags(1), cost, {}, greedy_knapsack{});
};
constexpr auto in_floating_point = [](tokens length) { return static_cast<double>(length); };
static_assert(plannable<decltype(own_length)>);
static_assert(!plannable<decltype(in_floating_point)>);  // ranks would not agree

// What does not compile is no call either, though an overload takes it.
struct letter {
  std::uint16_t words = 0;
};
template <class... Arguments>
concept can_be_planned = requires(Arguments const&... arguments) { partition(arguments...); };
using letters = std::vector<letter>;
using words = std::uint16_t letter::*;
static_assert(can_be_planned<letters, bag_layout, words, words>);
static_assert(can_be_planned<letters, bag_layout, words, words, placement_limits, greedy_knapsack>);
static_assert(!can_be_planned<letters, bag_layout, words>);
static_assert(!can_be_planned<letters, bag_layout, words, words, placement_limits, letter>);
static_assert(!can_be_planned<letters, bag_layout, greedy_knapsack, words, words>);
static_assert(!can_be_planned<letters, int, words, words>);

TEST(Partition, HasADigestThatBagsEnterToo)  // Ensures (3)
{
  // The same owners and loads in bags that sit elsewhere send samples elsewhere.
  bag_layout const swapped(std::vector<bag>{{rank_id{1}, 1}, {rank_id{0}, 1}});
  auto const plan_over = [&](bag_layout const& bags) {
    return *partition(std::vector<tokens>{5, 4, 3, 2, 1}, bags, own_length, {},
                      longest_processing_time{});
  };
  auto const plan = plan_over(one_gpu_bags(2));
  EXPECT_EQ(plan.digest(), plan_over(one_gpu_bags(2)).digest());
  EXPECT_EQ(plan_over(swapped).owner, plan.owner);
  EXPECT_NE(plan_over(swapped).digest(), plan.digest());
}

// [policy]
// Whole chunks of consecutive samples: the first to the first bag, and so on.
struct contiguous_chunks {
  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      std::size_t bag = sample * loads.size() / owner.size();
      while (!problem.fits(sample, bag)) { bag = (bag + 1) % loads.size(); }
      owner[sample] = ballast::to_id<ballast::bag_id>(bag);
      loads[bag] += problem.costs[sample];
    }
  }
};
static_assert(ballast::partition_policy<contiguous_chunks>);
// [policy]

TEST(Partition, TakesAPolicyOfTheUsersOwn)
{
  expect_valid_plans(contiguous_chunks{}, 29);
}

// A policy that is wrong in one of three ways.
struct wrong_policy {
  enum class mistake { forgets_a_sample, forgets_loads, ignores_lengths } made{};
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    std::size_t const first = made == mistake::forgets_a_sample ? 1 : 0;
    std::size_t const bag = made == mistake::ignores_lengths ? 1 : 0;
    for (std::size_t sample = first; sample < owner.size(); ++sample) {
      owner[sample] = to_id<bag_id>(bag);
      if (made != mistake::forgets_loads) { loads[bag] += problem.costs[sample]; }
    }
  }
};

TEST(Partition, PlansMultiplesOfANumberAsTheirQuotients)  // Ensures (6)
{
  random_source random(11);
  std::vector<tokens> kinds(12);
  for (tokens& kind : kinds) { kind = random.between(20, 400); }
  std::vector<tokens> quotients(100);
  for (tokens& length : quotients) { length = kinds[random.below(kinds.size())]; }
  std::vector<tokens> lengths = quotients;
  for (tokens& length : lengths) { length *= 256; }

  for (auto const* bags : {"g1n8", "g1n4+g2n2"}) {
    auto const layout = lay_out(parse_bags(bags).value(), 8).value();
    auto const expected = partition(quotients, layout, own_length).value();
    auto const plan = partition(lengths, layout, own_length).value();
    EXPECT_EQ(plan.owner, expected.owner);
    EXPECT_EQ(plan.makespan,
              (ratio{expected.makespan.numerator * 256, expected.makespan.denominator}));
    EXPECT_EQ(plan.lower_bound,
              (ratio{expected.lower_bound.numerator * 256, expected.lower_bound.denominator}));
    EXPECT_TRUE(plan.proven_optimal());
  }
}

TEST(PartitionDeathTest, EndsTheProgramWhenAPolicyIsWrong)
{
  using mistake = wrong_policy::mistake;
  bag_layout const bags(std::vector<bag>{{rank_id{0}, 1}, {rank_id{1}, 4}});
  auto const plan_with = [&](mistake made) {
    (void)partition(std::vector<tokens>{2, 2}, bags, own_length, {}, wrong_policy{made});
  };
  EXPECT_DEATH(plan_with(mistake::forgets_a_sample), "the policy left sample 0 without a bag");
  EXPECT_DEATH(plan_with(mistake::forgets_loads),
               "the policy says that bag 0 has a load of 0, and its samples make it 4");
  EXPECT_DEATH(plan_with(mistake::ignores_lengths),
               "the policy put sample 0 of 2 tokens in bag 1 of 4 GPUs");
}

// A policy that claims more than it can know.
struct boasting_policy {
  ratio operator()(partition_problem const& problem, std::span<cost_units> loads,
                   std::span<bag_id> owner, workspace& memory) const
  {
    longest_processing_time{}(problem, loads, owner, memory);
    return {no_cost - 1, 1};
  }
};

TEST(PartitionDeathTest, EndsTheProgramWhenAProofIsFalse)
{
  EXPECT_DEATH((void)partition(std::vector<tokens>{2, 2}, one_gpu_bags(2), own_length, {},
                               boasting_policy{}),
               "the policy says that no makespan is below [0-9]+ / 1, and its plan has 2 / 1");
}

result<partition_plan> plan_under(placement_limits const& constraints,
                                  std::vector<tokens> const& lengths, bag_layout const& bags)
{
  return partition(lengths, bags, own_length, constraints, longest_processing_time{});
}

TEST(PartitionUnderConstraints, KeepsSamplesTogether)  // Ensures (5)
{
  std::vector<ballast::tokens> const lengths{7, 2, 6, 5, 3, 1};
  std::vector<std::int64_t> const prompts{4, 9, 4, 9, 8, 8};
  auto const plan = ballast::partition(
      lengths, ballast::one_gpu_bags(2), [](ballast::tokens length) { return length; },
      {.together = prompts}, ballast::longest_processing_time{});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(plan->owner,
              ElementsAre(bag_id{0}, bag_id{1}, bag_id{0}, bag_id{1}, bag_id{1}, bag_id{1}));
  EXPECT_THAT(plan->loads, ElementsAre(13, 11));
  EXPECT_THAT(plan->costs, testing::ElementsAreArray(lengths));
  // Of 13, 7 and 4 none can be split: the plan is proven to be the best.
  EXPECT_EQ(plan->lower_bound, (ratio{13, 1}));
}

TEST(PartitionUnderConstraints, KeepsAGroupOutOfBagsThatAnyOfItIsTooShortFor)
{
  bag_layout const bags(std::vector<bag>{{rank_id{0}, 1}, {rank_id{1}, 4}});
  std::vector<std::int64_t> const keys{1, 1, 2};
  auto const plan = plan_under({.together = keys}, {90, 3, 9}, bags).value();
  EXPECT_EQ(plan.owner[0], bag_id{0});
  EXPECT_EQ(plan.owner[1], bag_id{0});
}

TEST(PartitionUnderConstraints, SaysHowManyTokensMove)  // partition_plan (5)
{
  bag_layout const bags(std::vector<bag>{{rank_id{0}, 1}, {rank_id{1}, 2}});
  // Ranks 1 and 2 are one bag: a sample on either is at home there.
  std::vector<rank_id> const home{rank_id{2}, rank_id{1}, rank_id{0}, rank_id{0}};
  auto const plan = plan_under({.home = home}, {8, 6, 4, 2}, bags).value();
  EXPECT_THAT(plan.owner, ElementsAre(bag_id{1}, bag_id{0}, bag_id{1}, bag_id{1}));
  EXPECT_EQ(plan.moved, (ratio{12, 20}));
  EXPECT_EQ(plan_under({}, {8, 6, 4, 2}, bags)->moved, (ratio{0, 1}));
}

TEST(PartitionUnderConstraints, CountsTheTokensThatShortSamplesHave)  // Ensures (2)
{
  auto const bags = bag_layout(std::vector<bag>{{rank_id{0}, 4}, {rank_id{4}, 4}})
                        .with_short_samples(short_samples::admitted);
  std::vector<tokens> const lengths{10, 6, 5, 2, 1};
  std::vector<rank_id> const home{rank_id{4}, rank_id{5}, rank_id{0}, rank_id{6}, rank_id{2}};
  auto const plan = plan_under({.home = home}, lengths, bags).value();
  EXPECT_THAT(plan.owner, ElementsAre(bag_id{0}, bag_id{1}, bag_id{1}, bag_id{0}, bag_id{1}));
  EXPECT_EQ(plan.moved, (ratio{10 + 5 + 2 + 1, 24}));
  // Each bag holds 12 tokens. Short samples that weigh 4 as well would overrun it.
  EXPECT_TRUE(plan_under({.most_per_gpu = 3}, lengths, bags));
  EXPECT_FALSE(plan_under({.most_per_gpu = 2}, lengths, bags));

  std::vector<std::int64_t> const keys{1, 2, 2, 3, 3};
  auto const joined =
      plan_under({.together = keys, .home = home, .most_per_gpu = 4}, lengths, bags).value();
  EXPECT_EQ(joined.short_samples, 2U);
  EXPECT_EQ(joined.owner[3], joined.owner[4]);
}

TEST(PartitionUnderConstraints, RefusesToOverrunMemory)  // Ensures (5)
{
  EXPECT_TRUE(plan_under({.most_per_gpu = 9}, {9, 5, 4}, one_gpu_bags(2)));
  expect_refused(plan_under({.most_per_gpu = 9}, {9, 5, 5}, one_gpu_bags(2)), infeasible, 0,
                 "3 such bags are needed and enough");
  // Weights count instead of lengths where they are given.
  std::vector<std::int64_t> const weights{1, 1, 90};
  EXPECT_TRUE(
      plan_under({.also = {{.of = weights, .most_per_gpu = 91}}}, {9, 95, 5}, one_gpu_bags(2)));
  expect_refused(
      plan_under({.also = {{.of = weights, .most_per_gpu = 89}}}, {1, 1, 1}, one_gpu_bags(2)),
      infeasible, 2, "sample 2 weighs 90, more than any bag");
  std::vector<std::int64_t> const keys{5, 6, 6};
  expect_refused(plan_under({.together = keys, .most_per_gpu = 9}, {5, 4, 6}, one_gpu_bags(2)),
                 infeasible, 1, "sample 1 and what stays with it weigh 10, more than");
  // A limit of more than 63 bits for a bag is none.
  bag_layout const two_and_one(std::vector<bag>{{rank_id{0}, 2}, {rank_id{2}, 1}});
  EXPECT_TRUE(plan_under({.most_per_gpu = no_cost - 1}, {4, 5, 4}, two_and_one));
}

// Why samples of one cost have no plan within a cap.
error why_no_room(std::vector<std::int64_t> const& weights, cap room,
                  std::vector<tokens> lengths = {}, std::vector<std::uint32_t> gpus = {1},
                  std::vector<std::int64_t> const& together = {})
{
  lengths.resize(weights.size(), 9);
  room.of = weights;
  auto const plan = partition(
      lengths, consecutive_bags(gpus), [](tokens) { return 1; },
      {.together = together, .also = {room}}, longest_processing_time{});
  EXPECT_FALSE(plan);
  return plan ? error{} : plan.error();
}

// The others hold 6300 of 6400: the bag of the longest sample gets 40 more, at best of the cheapest.
TEST(PartitionUnderConstraints, KnowsWhatTheOtherBagsCannotHold)
{
  std::vector<tokens> lengths(634, 10);
  lengths.push_back(60);
  auto const plan = partition(lengths, one_gpu_bags(64), quadratic_work, {.most_per_gpu = 100});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->lower_bound, (ratio{quadratic_work(60) + 4 * quadratic_work(10), 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

RC_GTEST_PROP(PartitionUnderConstraints, CountsTheBagsOfBestFitDecreasing, ())
{
  auto const weights =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 41));
  std::int64_t const all = std::reduce(weights.begin(), weights.end());
  if (all <= 40) { return; }
  std::vector<std::int64_t> heaviest_first = weights;
  std::ranges::sort(heaviest_first, std::greater<>());
  std::multiset<std::int64_t> rooms;
  for (std::int64_t const weight : heaviest_first) {
    auto const tightest = rooms.lower_bound(weight);
    std::int64_t const room = tightest == rooms.end() ? 40 : *tightest;
    if (tightest != rooms.end()) { rooms.erase(tightest); }
    rooms.insert(room - weight);
  }
  std::string const bins = std::to_string(rooms.size());
  auto const plan = partition(weights, one_gpu_bags(1), own_length, {.most_per_gpu = 40});
  RC_ASSERT(!plan);
  auto const& why = plan.error().message;
  RC_ASSERT(why.find("; " + bins + " such bags are needed and enough; ") != why.npos ||
            why.find(" such bags are needed and " + bins + " are enough; ") != why.npos);
}

TEST(PartitionUnderConstraints, NamesASampleThatIsTooHeavyForEveryBagItFits)
{
  std::vector<std::int64_t> const rooms{10, 40};
  auto const why = why_no_room({30, 20, 1}, {.most = rooms}, {9, 1, 9}, {1, 4});
  EXPECT_EQ(why.position, 1U);  // sample 0 fits the larger bag
  EXPECT_THAT(why.message,
              HasSubstr("sample 1 weighs 20, more than any bag that it fits holds, which is 10;"));
  auto const joined = why_no_room({6, 4, 4, 4, 6}, {.most_per_gpu = 10}, {}, {1}, {1, 2, 2, 2, 3});
  EXPECT_EQ(joined.position, 1U);
  EXPECT_THAT(joined.message, HasSubstr("sample 1 and what stays with it weigh 12, more than"));
}

TEST(PartitionUnderConstraints, NamesTheCapThatNoPlanKeeps)
{
  // Two bags of 20 would be enough, but there is only one.
  std::vector<std::int64_t> const rooms{20, 5};
  EXPECT_EQ(why_no_room({9, 9, 9}, {.most = rooms}, {}, {1, 1}).message,
            "3 items in 2 bags have no plan that keeps limits.also[0]; loosen it, add bags or "
            "microbatches, or leave it out");
  // Both samples are too short for the larger bag.
  EXPECT_THAT(why_no_room({6, 6}, {.most_per_gpu = 10}, {1, 1}, {1, 4}).message,
              HasSubstr("2 items in 2 bags have no plan that keeps limits.also[0]"));
}

TEST(PartitionUnderConstraints, SaysWhichEntryIsWrong)
{
  auto const expect = [](std::size_t samples, placement_limits const& given, std::size_t position,
                         char const* why) {
    auto const plan = plan_under(given, std::vector<tokens>(samples, 0), one_gpu_bags(4));
    expect_refused(plan, out_of_range, position, why);
  };
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  std::vector<rank_id> const home{rank_id{0}, rank_id{3}, rank_id{4}};
  std::vector<std::int64_t> const negative{3, -1};
  std::vector<std::int64_t> const large{most / 2, most / 2, 1};
  expect(3, {.home = home}, 2, "sample 2 lies on rank 4 of a job of 4 GPUs");
  expect(4, {.home = home}, 3, "limits.home has 3 entries for 4");
  expect(2, {.together = large}, 2, "limits.together has 3 entries for 2 samples");
  expect(4, {.also = {{.of = large, .most_per_gpu = 9}}}, 3,
         "limits.also[0].of has 3 entries for 4");
  expect(4, {.also = {{.of = large}}}, 0, "limits.also[0] has neither most_per_gpu nor most");
  expect(3, {.also = {{.of = large, .most_per_gpu = 9}}}, 2, "above 63 bits");
  expect(2, {.also = {{.of = negative, .most_per_gpu = 9}}}, 1, "");
  expect(2, {.also = {{.of = negative}}}, 0,
         "limits.also[0] has neither most_per_gpu nor most; give one");
  expect(2, {.most_per_gpu = -1}, 0, "a GPU cannot hold -1");
}

TEST(PartitionUnderConstraints, TakesTheEdges)
{
  EXPECT_EQ(placement_limits{}.most_per_gpu, no_limit);
  std::vector<std::int64_t> const keys{std::numeric_limits<std::int64_t>::min(), 0};
  std::vector<rank_id> const home{rank_id{0}, rank_id{3}};
  std::vector<std::int64_t> const halves(2, std::numeric_limits<std::int64_t>::max() / 2);
  EXPECT_TRUE(plan_under({.together = keys, .home = home}, {1, 1}, one_gpu_bags(4)));
  EXPECT_TRUE(plan_under({.most_per_gpu = 0}, {0, 0}, one_gpu_bags(4)));
  EXPECT_TRUE(
      plan_under({.also = {{.of = halves, .most_per_gpu = halves[0]}}}, {1, 1}, one_gpu_bags(4)));
}

// Puts all samples in the first bag, padded to the longest.
struct one_padded_batch {
  void operator()(partition_problem const& problem, std::span<cost_units> loads,
                  std::span<bag_id> owner, workspace&) const
  {
    std::ranges::fill(owner, bag_id{0});
    for (auto const cost : problem.costs) { loads[0] = std::max(loads[0], cost); }
    loads[0] *= static_cast<cost_units>(owner.size());
  }
  static constexpr batching batches() { return batching::padded; }
};

TEST(PartitionUnderConstraints, RefusesToPadWhatStaysTogether)
{
  std::vector<std::int64_t> const keys{1, 1, 2};
  auto const pad = [&](placement_limits const& constraints) {
    return partition(std::vector<tokens>{3, 2, 1}, one_gpu_bags(2), own_length, constraints,
                     one_padded_batch{});
  };
  ASSERT_TRUE(pad({}));
  EXPECT_THAT(pad({})->loads, ElementsAre(9, 0));
  EXPECT_EQ(pad({})->batches, batching::padded);
  expect_refused(pad({.together = keys}), infeasible, 0, "cannot keep some of them together");
}

TEST(Partition, BalancesOverSpeeds)  // partition_plan (3)
{
  auto const bags = one_gpu_bags(2).with_speeds(std::vector<std::uint32_t>{100, 50});
  auto const plan =
      partition(std::vector<tokens>{6, 4, 2}, bags, own_length, {}, longest_processing_time{})
          .value();
  EXPECT_THAT(plan.loads, ElementsAre(8, 4));
  EXPECT_EQ(plan.makespan, (ratio{8, 100}));
  EXPECT_EQ(plan.lower_bound, (ratio{8, 100}));
  EXPECT_NE(plan.digest(), partition(std::vector<tokens>{6, 4, 2}, one_gpu_bags(2), own_length, {},
                                     longest_processing_time{})
                               ->digest());
}

TEST(PartitionUnderConstraints, AllocatesNothingInTheSteadyState)  // Ensures (4)
{
  random_source random(4);
  std::vector<std::int64_t> keys(900);
  std::vector<rank_id> home(900);
  for (auto& key : keys) { key = random.between(0, 300); }
  for (auto& rank : home) { rank = to_id<rank_id>(random.below(16)); }
  expect_the_same_again_without_allocation(
      longest_processing_time{}, 900, own_length, *lay_out(*parse_bags("g1n8+g2n4"), 16),
      [&](std::span<tokens const> lengths) {
        return placement_limits{.together = std::span(keys).first(lengths.size()),
                                .home = std::span(home).first(lengths.size()),
                                .most_per_gpu = 5'000'000};
      });
}

TEST(Partition, AllocatesNothingInTheSteadyState)  // Ensures (4)
{
  auto const bags = *lay_out(*parse_bags("g1n8+g2n4"), 16);
  auto const expect_no_allocation = [&](policy_ref const& policy) {
    expect_the_same_again_without_allocation(policy, 1000, own_length, bags);
  };
  expect_no_allocation(round_robin{});
  expect_no_allocation(longest_processing_time{});
  expect_no_allocation(greedy_knapsack{});
}

}  // namespace
