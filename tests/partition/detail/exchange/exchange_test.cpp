#include <ballast/partition/detail/exchange/bag_exchanges.hpp>  // first: proves it is self-contained

#include "../../../support/test.hpp"

#include <ballast/partition/descending_order.hpp>
#include <ballast/partition/detail/exchange/bag_exchanges.hpp>

namespace {

using namespace ballast;
using namespace ballast_test;
using ballast::detail::exchange;
using ballast::detail::wanted_net;
using cost_list = std::vector<cost_units>;

cost_units sum_of(cost_list const& all, std::uint32_t members)
{
  cost_units sum = 0;
  for (std::size_t place = 0; place < all.size(); ++place) {
    sum += (members >> place & 1) != 0 ? all[place] : 0;
  }
  return sum;
}

// Oracle: the net work of the best of all pairs of subsets.
cost_units best_net(cost_list const& giving, cost_list const& taking, wanted_net wanted)
{
  cost_units above = 0;
  cost_units below = 0;
  for (std::uint32_t given = 0; given >> giving.size() == 0; ++given) {
    for (std::uint32_t taken = 0; taken >> taking.size() == 0; ++taken) {
      cost_units const net = sum_of(giving, given) - sum_of(taking, taken);
      if (net < 1 || net > wanted.most) { continue; }
      if (net >= wanted.least && (above == 0 || net < above)) { above = net; }
      if (net < wanted.least) { below = std::max(below, net); }
    }
  }
  return above != 0 ? above : below;
}

constexpr std::uint64_t work_at_first = std::uint64_t{1} << 40;

exchange find(cost_list const& giving, cost_list const& taking, wanted_net wanted)
{
  workspace memory;
  ballast::detail::work_budget budget(work_at_first);
  exchange const found = find_exchange(giving, taking, wanted, memory, budget);
  std::uint64_t const work = work_at_first - budget.left();
  EXPECT_GE(work, (std::uint64_t{1} << giving.size()) + (std::uint64_t{1} << taking.size()));
  EXPECT_LE(work, std::uint64_t{1} << 18);
  if (found == exchange{}) { return found; }
  EXPECT_EQ(found.net, sum_of(giving, found.given) - sum_of(taking, found.taken));
  EXPECT_TRUE(1 <= found.net && found.net <= wanted.most) << found.net;
  return found;
}

// Up to `most` numbers from 0 to `heaviest`.
cost_list draw(random_source& random, std::size_t most, cost_units heaviest)
{
  cost_list drawn(random.below(most + 1));
  for (cost_units& cost : drawn) { cost = random.between(0, heaviest); }
  return drawn;
}

TEST(FindExchange, FindsWhatTryingAllPairsFinds)  // Ensures (1) (2)
{
  random_source random(7);
  for (int trial = 0; trial < trials_of(4000); ++trial) {
    cost_units const heaviest = trial % 3 == 0 ? 9 : 100'000;
    cost_list const giving = draw(random, trial % 50 == 0 ? 9 : 5, heaviest);
    cost_list const taking = draw(random, trial % 50 == 0 ? 9 : 5, heaviest);
    cost_units const least = random.between(1, heaviest);
    wanted_net const wanted{least, least, random.between(least, 2 * heaviest)};
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ASSERT_EQ(find(giving, taking, wanted).net, best_net(giving, taking, wanted));
  }
}

TEST(FindExchange, StopsAtANetThatIsEnough)  // Ensures (2)
{
  random_source random(8);
  for (int trial = 0; trial < 500; ++trial) {
    cost_list const giving = draw(random, 7, 1000);
    cost_list const taking = draw(random, 7, 1000);
    wanted_net const wanted{100, 140, 200};
    cost_units const best = best_net(giving, taking, wanted);
    cost_units const net = find(giving, taking, wanted).net;
    ASSERT_TRUE(100 <= best && best <= 140 ? 100 <= net && net <= 140 : net == best)
        << "trial " << trial << ": " << net << " for " << best;
  }
}

TEST(FindExchange, IsExactWhereCostsAreTooLargeForAWord)  // Ensures (1)
{
  random_source random(9);
  cost_units const heaviest = cost_units{1} << 58;
  for (int trial = 0; trial < 500; ++trial) {
    cost_list const giving = draw(random, 6, heaviest);
    cost_list const taking = draw(random, 6, heaviest);
    cost_units const least = random.between(1, heaviest);
    wanted_net const wanted{least, least, 2 * least};
    cost_units const best = best_net(giving, taking, wanted);
    cost_units const found = find(giving, taking, wanted).net;
    // What the lost bits hide is at most 14 units of them on each side, here 2^18 each.
    ASSERT_LE(best < least ? best - found : found - best, cost_units{1} << 24) << "trial " << trial;
  }
}

TEST(FindExchange, FindsNothingWhereThereIsNothing)
{
  EXPECT_EQ(find({}, {}, {1, 1, 9}), exchange{});
  EXPECT_EQ(find({}, {3, 4}, {1, 1, 9}), exchange{});
  EXPECT_EQ(find({0, 0}, {0}, {1, 1, 9}), exchange{});
  EXPECT_EQ(find({20}, {3}, {5, 5, 9}), exchange{});
  EXPECT_EQ(find({5}, {}, {5, 5, 9}), (exchange{1, 0, 5}));
}

TEST(FindExchange, FindsAnExactExchangeOfManyCandidates)
{
  // 2^20 exchanges of numbers below 2^17 make every small net work likely; these have this one.
  random_source random(12);
  cost_list giving(10);
  cost_list taking(10);
  for (cost_units& cost : giving) { cost = random.between(1000, 100'000); }
  for (cost_units& cost : taking) { cost = random.between(1000, 100'000); }
  EXPECT_EQ(find(giving, taking, {50, 50, 50}).net, 50);
}

TEST(ExactExchanges, FindWhatTryingAllPairsFinds)
{
  random_source random(13);
  workspace memory;
  ballast::detail::work_budget work(std::uint64_t{1} << 40);
  int found_ones = 0;
  for (int trial = 0; trial < trials_of(300); ++trial) {
    cost_list const giving = draw(random, 6, 60);
    cost_list const taking = draw(random, 6, 60);
    cost_units const net = random.between(1, 40);
    auto scratch = memory.open();
    exchange const found =
        ballast::detail::exact_exchanges(giving, taking, work, scratch).find(net, 1000);
    ASSERT_EQ(found.net != 0, best_net(giving, taking, {net, net, net}) == net)
        << "trial " << trial;
    if (found.net == 0) { continue; }
    ++found_ones;
    EXPECT_EQ(sum_of(giving, found.given) - sum_of(taking, found.taken), net);
  }
  EXPECT_GT(found_ones, trials_of(300) / 3);
}

TEST(ExactExchanges, FindOneOfThirtyTwoCandidatesForAFewThousandSteps)
{
  random_source random(14);
  workspace memory;
  int found_ones = 0;
  for (int trial = 0; trial < 100; ++trial) {
    cost_list giving(16);
    cost_list taking(16);
    for (cost_units& cost : giving) { cost = random.between(70'000, 1'000'000); }
    for (cost_units& cost : taking) { cost = random.between(70'000, 1'000'000); }
    auto scratch = memory.open();
    ballast::detail::work_budget work(20'000);
    ballast::detail::exact_exchanges exact(giving, taking, work, scratch);
    found_ones += exact.find(50 + trial, 16).net == 50 + trial ? 1 : 0;
  }
  EXPECT_GE(found_ones, 95);
}

TEST(FindExchangeDeathTest, RefusesTooManyCandidatesAndEmptyRanges)
{
  cost_list const many(15, 1);
  EXPECT_DEATH((void)find(many, {}, {1, 1, 9}), "giving.size");
  EXPECT_DEATH((void)find({}, many, {1, 1, 9}), "taking.size");
  EXPECT_DEATH((void)find({1}, {1}, {9, 9, 1}), "wanted");
}

// Bags 0 and 1, of one GPU each, with samples of these costs.
struct two_bags {
  two_bags(std::vector<cost_units> const& first, std::vector<cost_units> const& second)
      : costs(first), owner(first.size(), bag_id{0})
  {
    costs.insert(costs.end(), second.begin(), second.end());
    owner.resize(costs.size(), bag_id{1});
    loads = {std::reduce(first.begin(), first.end()), std::reduce(second.begin(), second.end())};
    lengths.resize(costs.size(), 1);
    order.resize(costs.size());
    descending_order_into(order, costs, memory);
  }

  // The net work of the best exchange.
  cost_units find(std::size_t from, std::size_t to, ballast::detail::wanted_net wanted,
                  std::size_t count)
  {
    auto scratch = memory.open();
    ballast::detail::bag_exchanges search({costs, lengths, order, gpus, gpus}, loads, owner, work,
                                          memory, scratch);
    return search.find(from, to, wanted, count).found.net;
  }

  std::vector<cost_units> costs;
  std::vector<bag_id> owner;
  std::vector<cost_units> loads;
  std::vector<tokens> lengths;
  std::vector<priced_sample> order;
  std::vector<std::uint32_t> gpus{1, 1};
  workspace memory;
  ballast::detail::work_budget work{std::uint64_t{1} << 30};
};

TEST(BagExchanges, SwapSamplesBeyondTheLightestWhereThoseAreTooLight)
{
  // Twenty light samples in each bag hide what moves a thousand.
  std::vector<cost_units> first(20);
  std::iota(first.begin(), first.end(), cost_units{1});
  std::vector<cost_units> second = first;
  first.insert(first.end(), {5000, 3000});
  second.insert(second.end(), {3990, 1800});
  two_bags bags(first, second);
  EXPECT_EQ(bags.find(0, 1, {1000, 1000, 1300}, 5), 1010);  // 5000 for 3990
  EXPECT_EQ(bags.find(0, 1, {1300, 1300, 1400}, 5), 1200);  // 3000 for 1800, below
  EXPECT_EQ(bags.find(0, 1, {3000, 3000, 3000}, 5), 3000);  // 3000 for nothing
  EXPECT_EQ(bags.find(1, 0, {900, 900, 985}, 5), 20);       // 20 for nothing; 990 is too much
}

TEST(BagExchanges, TakeOneCandidateOfEachCost)
{
  two_bags bags({10, 10, 10, 10, 17}, {10, 10, 10, 13, 13});
  EXPECT_EQ(bags.find(0, 1, {4, 4, 4}, 2), 4);  // 17 for 13, of two candidates each
}

}  // namespace
