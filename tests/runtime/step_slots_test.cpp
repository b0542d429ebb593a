// SPDX-License-Identifier: Apache-2.0
// Steps of several microbatches.
#include <ballast/runtime/step_balancer.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "losses_read.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace step_slots {

using ballast::operator""_bags;
using ballast::operator""_cost;
using ballast::step_balancer;
using ballast::step_options;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;
using ballast_test::losses_read;
using ballast_test::masked;

constexpr auto layer_cost = "transformer:d=16,gamma=0.405"_cost;

ballast::bag_layout pairs_of_gpus()
{
  return ballast::bag_layout("g2n2"_bags, 4);
}

std::vector<std::vector<tokens>> lengths_read(ballast::random_source& random)
{
  std::vector<std::vector<tokens>> read(4);
  for (auto& own : read) {
    own.resize(random.below(9));
    for (tokens& length : own) { length = random.between(2, 60); }
  }
  return read;
}

// Every row comes to a place where it is computed once and gets home, in the order of the input.
TEST(StepSlots, BringsEveryRowThereAndBackOnce)  // Ensures (1) (2) (3)
{
  ballast::random_source random(31);
  std::vector<std::vector<std::vector<tokens>>> steps;
  for (int step = 0; step < 7; ++step) { steps.push_back(lengths_read(random)); }
  steps.emplace_back(4);  // nobody has read anything
  for (auto const& bags : {ballast::one_gpu_bags(4), pairs_of_gpus()}) {
    std::array<double, 8> weights{};
    std::array<std::array<std::uint64_t, 8>, 4> digests{};
    ballast::run_ranks(4, [&](thread_communicator& comm) {
      step_balancer balancer(comm, bags, layer_cost,
                             {.microbatches = {}, .limits = {.most_per_gpu = 70}});
      for (std::size_t step = 0; step < steps.size(); ++step) {
        auto const& own = steps[step][comm.rank()];
        ASSERT_TRUE(balancer.plan(own));
        digests[comm.rank()][step] = balancer.grid().digest();
        std::vector<std::int64_t> x(balancer.rows_read());
        EXPECT_EQ(static_cast<tokens>(x.size()), std::reduce(own.begin(), own.end(), tokens{0}));
        std::iota(x.begin(), x.end(), 1000 * static_cast<std::int64_t>(to_index(comm.rank())));
        std::vector<std::int64_t> y(x.size(), -1);
        double weight = 0;
        for (auto const slot : balancer.slots()) {
          std::vector<std::int64_t> x_there(slot.rows_computed(), -5);
          ASSERT_TRUE(slot.route(ballast::rows_of(x, x_there, 1)));
          for (std::int64_t& each : x_there) { each = 2 * each + 1; }
          ASSERT_TRUE(slot.reverse_route(ballast::rows_of(x_there, y, 1)));
          weight += slot.loss_weight();
          EXPECT_EQ(slot.is_dummy(), slot.lengths().empty());
        }
        for (std::size_t row = 0; row < x.size(); ++row) { EXPECT_EQ(y[row], 2 * x[row] + 1); }
        for (std::size_t rank = 0; rank < 4; ++rank) {  // one after the other
          if (rank == to_index(comm.rank())) { weights[step] += weight; }
          std::array<std::byte, 1> const sent{};
          std::array<std::byte, 4> received{};
          ASSERT_TRUE(comm.all_gather(sent, received));
          ASSERT_TRUE(comm.wait());
        }
      }
    });
    for (std::size_t step = 0; step < steps.size(); ++step) {
      bool const empty =
          std::ranges::all_of(steps[step], [](auto const& own) { return own.empty(); });
      EXPECT_NEAR(weights[step], empty ? 0 : 1, 1e-12);
      for (auto const& own : digests) { EXPECT_EQ(own[step], digests[0][step]); }
    }
  }
}

struct answer {
  std::int32_t prompt;
  std::int32_t response;
  std::int64_t group;
};

step_options<answer> const of_answers{
    .microbatches = {.multiple_of = 2},
    .limits = {.also = {{.most_per_gpu = 64, .rounded_to = 8}}},
    .length_of = [](answer const& a) -> tokens { return a.prompt + a.response; },
    .together = [](answer const& a) { return a.group; },
    .kind_of = [](answer const& a) -> std::int64_t { return a.group % 2; },
    .homes = true,
    .loss_tokens_of = [](answer const& a) -> tokens { return a.response; }};

constexpr auto answer_cost = [](answer const& a) -> std::int64_t { return a.prompt + a.response; };

TEST(StepSlots, LeavesOutWhatIsEmptyOnAllRanks)
{
  std::vector<std::vector<tokens>> const read = {{23, 12}, {2, 13}};
  for (std::size_t const multiple : {1U, 2U}) {
    ballast::run_ranks(2, [&](thread_communicator& comm) {
      step_balancer balancer(
          comm, ballast::one_gpu_bags(2), std::identity{},
          {.microbatches = {
               .number = 4, .multiple_of = multiple, .meet = ballast::grid_meeting::microbatch}});
      ASSERT_TRUE(balancer.plan(read[comm.rank()]));
      EXPECT_EQ(balancer.grid().microbatches, 4U);
      EXPECT_EQ(balancer.grid().used_microbatches(), 1U);
      EXPECT_EQ(balancer.slots().size(), multiple);
      std::size_t rows = 0;
      for (auto const slot : balancer.slots()) { rows += slot.rows_computed(); }
      EXPECT_EQ(rows, 25U);
    });
  }
}

// As many tokens have a loss by either rule, and each sample another number.
TEST(StepSlots, TellsAllRanksOfOtherTokensWithALoss)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    auto options = of_answers;
    if (comm.rank() == ballast::rank_id{1}) {
      options.loss_tokens_of = [](answer const& a) -> tokens { return a.prompt; };
    }
    step_balancer balancer(comm, ballast::one_gpu_bags(2), answer_cost, options);
    auto const done = balancer.plan(comm.rank() == ballast::rank_id{0}
                                        ? std::vector<answer>{{10, 5, 0}, {5, 10, 0}}
                                        : std::vector<answer>{});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ballast::error_code::mismatch);
  });
}

TEST(StepSlots, WeighsLossesByTokensThatHaveOne)
{
  std::vector<std::vector<answer>> const read{{{10, 5, 0}, {10, 15, 0}, {30, 0, 1}}, {{20, 20, 2}}};
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    step_balancer balancer(comm, ballast::one_gpu_bags(2), answer_cost, of_answers);
    ASSERT_TRUE(balancer.plan(read[comm.rank()]));
    EXPECT_EQ(balancer.slots().size() % 2, 0U);
    EXPECT_EQ(balancer.grid().owner[0], balancer.grid().owner[1]);
    for (auto const slot : balancer.slots()) {
      double tokens_with_loss = 0;
      for (auto const sample : slot.microbatch()) {
        tokens_with_loss += balancer.samples().samples[sample].response;
      }
      EXPECT_EQ(slot.loss_weight(), tokens_with_loss / 40);
    }
    EXPECT_EQ(balancer.loss_weight(), 1.0 / 40);
    std::vector<answer> const without_loss{{30, 0, 1}};
    ASSERT_TRUE(balancer.plan(without_loss));
    for (auto const slot : balancer.slots()) { EXPECT_EQ(slot.loss_weight(), 0); }
    EXPECT_EQ(balancer.loss_weight(), 0);
  });
}

// The shares of a rank in the mean loss, by sums and by means of its GPUs, and weights of these: in
// as many microbatches as a cap needs, or in one.
std::array<double, 3> shares_of(thread_communicator& comm, ballast::bag_layout const& bags,
                                std::uint32_t gpus, bool all_have_one, bool in_one,
                                losses_read const& read)
{
  step_options<masked> options{
      .microbatches = {}, .length_of = masked::tokens_of, .gpus_per_rank = gpus};
  if (in_one) {
    options.microbatches.number = 1;
  } else {
    options.limits.most_per_gpu = 90;
  }
  if (!all_have_one) { options.loss_tokens_of = masked::loss_tokens_of; }
  step_balancer balancer(comm, bags, masked::tokens_of, options);
  or_throw(balancer.plan(read.samples));
  std::array<double, 3> shares{};
  for (auto const slot : balancer.slots()) {
    std::vector<double> losses(slot.rows_computed());
    std::vector<std::uint8_t> has_loss(losses.size());
    or_throw(slot.route(ballast::rows_of(read.losses, losses, 1),
                        ballast::rows_of(read.has_loss, has_loss, 1)));
    for (std::uint32_t local = 0; local < gpus; ++local) {
      auto const [first, count] = slot.rows_of_gpu(local);
      ballast_test::loss_sum own;
      own.add(losses, has_loss, static_cast<std::size_t>(first), static_cast<std::size_t>(count));
      bool const knows_tokens = all_have_one || bags[balancer.bag(local)].gpus == 1;
      double const weight =
          knows_tokens ? slot.loss_weight(local) : own.tokens * balancer.loss_weight();
      shares[0] += own.losses * balancer.loss_weight();
      shares[1] += own.mean() * weight;
      shares[2] += weight;
    }
  }
  return shares;
}

// Those of all ranks, added up, of what each GPU has read.
std::array<double, 3> sums_of_shares(ballast::bag_layout const& bags, std::uint32_t gpus,
                                     bool all_have_one, bool in_one,
                                     std::vector<losses_read> const& read)
{
  std::array<double, 3> sums{};
  for (auto const& shares : ballast::run_ranks(read.size() / gpus, [&](thread_communicator& comm) {
         auto const own = ballast_test::read_by(to_index(comm.rank()), gpus, read);
         return shares_of(comm, bags, gpus, all_have_one, in_one, own);
       })) {
    for (std::size_t at = 0; at < sums.size(); ++at) { sums[at] += shares[at]; }
  }
  return sums;
}

// Bags of two GPUs: losses 1 to 6 on one of them, 10 and 30 on the other.
TEST(StepSlots, WeighsLossesOfEachGpuOfABag)  // Ensures (3)
{
  std::vector<losses_read> const by_rank{
      {{{6, 1}}, {1, 2, 3, 4, 5, 6}, {1, 1, 1, 1, 1, 1}}, {}, {{{2, 1}}, {10, 30}, {1, 1}}, {}};
  auto const sums = sums_of_shares(pairs_of_gpus(), 1, true, false, by_rank);
  EXPECT_DOUBLE_EQ(sums[0], 7.625);
  EXPECT_DOUBLE_EQ(sums[1], 7.625);
}

TEST(StepSlots, AddsUpToTheMeanLossOnBagsOfAnySize)  // Ensures (3)
{
  ballast::random_source random(41);
  for (int trial = 0; trial < (ballast_test::is_sanitized ? 4 : 30); ++trial) {
    bool const all_have_one = trial % 2 == 0;
    auto const read = ballast_test::draw_losses(random, 6, all_have_one);
    double const mean = ballast_test::mean_loss(read);
    for (auto const& bags :
         {ballast::one_gpu_bags(6), ballast::bag_layout("g2n3"_bags, 6),
          ballast::bag_layout("g3n2"_bags, 6), ballast::bag_layout("g2n2+g1n2"_bags, 6)}) {
      for (std::uint32_t const gpus : {1U, 2U}) {
        SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << bags.size() << " bags, "
                                        << gpus << " GPUs a rank");
        auto const sum = sums_of_shares(bags, gpus, all_have_one, trial % 4 >= 2, read);
        EXPECT_NEAR(sum[0], mean, 1e-12 * mean);
        EXPECT_NEAR(sum[1], mean, 1e-12 * mean);
        EXPECT_NEAR(sum[2], mean > 0 ? 1 : 0, 1e-12);
      }
    }
  }
}

TEST(StepSlotsDeathTest, HasNoWeightForTheMeanOfRowsOfWhichSomeHaveALoss)  // Expects
{
  auto const weigh = [] {
    ballast::run_ranks(2, [](thread_communicator& comm) {
      auto options = of_answers;
      options.homes = false;
      step_balancer balancer(comm, ballast::bag_layout("g2n1"_bags, 2), answer_cost, options);
      or_throw(balancer.plan(std::vector<answer>{{10, 5, 0}}));
      (void)balancer.slots()[0].loss_weight();
    });
  };
  EXPECT_DEATH(weigh(), "does not say which rows have a loss, and a bag has 2 GPUs");
}

TEST(StepSlots, PlansPaddedBatches)  // Ensures (1)
{
  auto const sums = [](tokens source, tokens target) { return source + target; };
  std::vector<std::vector<tokens>> const read = {{8, 5}, {4, 1}};  // by rank
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    step_balancer balancer(comm, ballast::one_gpu_bags(2), sums, {.microbatches = {.number = 2}});
    ASSERT_TRUE(balancer.plan(read[comm.rank()]));
    // One rank computes 8 and 1, the other 5 and 4, in slots of their own: a step of 9.
    EXPECT_EQ(balancer.grid().makespan, (ballast::ratio{9, 1}));
    EXPECT_EQ(balancer.slots().size(), 2U);
    for (auto const slot : balancer.slots()) {
      EXPECT_EQ(slot.microbatch().size(), 1U);
      auto const rows = static_cast<tokens>(slot.rows_computed());
      EXPECT_EQ(balancer.grid().load(comm.rank(), slot.number()), rows);
      EXPECT_EQ(balancer.grid().weight(comm.rank(), slot.number()), rows);
    }
  });
}

step_options<answer> const of_pairs{
    .microbatches = {.number = 2},
    .limits = {.most_per_gpu = 50},
    .length_of = of_answers.length_of,
    .padded_lengths_of = [](answer const& a) -> ballast::padded_lengths {
      return {a.prompt, a.response};
    }};

TEST(StepSlots, PadsTwoLengthsWithinACap)
{
  auto const product = [](tokens source, tokens target) { return source * target; };
  std::vector<answer> const read{{20, 5, 0}, {20, 4, 0}, {10, 15, 0}, {10, 14, 1}};
  ballast::run_ranks(1, [&](thread_communicator& comm) {
    step_balancer balancer(comm, ballast::one_gpu_bags(1), product, of_pairs);
    ASSERT_TRUE(balancer.plan(read));
    EXPECT_EQ(balancer.grid().makespan, (ballast::ratio{2 * 20 * 5 + 2 * 10 * 15, 1}));
    EXPECT_EQ(balancer.grid().filled, (std::vector<std::int64_t>{50, 50}));

    auto keeping_together = of_pairs;
    keeping_together.together = of_answers.together;
    auto counting = of_pairs;
    counting.limits.samples = ballast::counts::equal();
    auto by_rank = of_pairs;
    std::vector<std::int64_t> const caps{50};
    by_rank.limits.also = {{.most = caps}};
    for (auto const& wrong : {keeping_together, counting, by_rank}) {
      step_balancer refusing(comm, ballast::one_gpu_bags(1), product, wrong);
      auto const refused = refusing.plan(read);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, ballast::error_code::out_of_range);
    }
  });
}

// What each GPU gets in each slot, and its part of the loss, where ranks have so many GPUs each.
std::vector<std::vector<std::pair<std::vector<std::int64_t>, double>>> routed_with(
    std::uint32_t each, std::vector<std::vector<tokens>> const& read,
    ballast::bag_layout const& bags, bool in_one)
{
  std::vector<std::vector<std::pair<std::vector<std::int64_t>, double>>> gpus(read.size());
  step_options<> options{.microbatches = {}, .query_heads = 2, .gpus_per_rank = each};
  if (in_one) {
    options.microbatches.number = 1;
  } else {
    options.limits.most_per_gpu = 70;
  }
  auto const digests = ballast::run_ranks(read.size() / each, [&](thread_communicator& comm) {
    std::size_t const first = to_index(comm.rank()) * each;
    std::vector<tokens> own;
    std::vector<std::int64_t> x;
    for (std::size_t gpu = first; gpu < first + each; ++gpu) {
      auto number = static_cast<std::int64_t>(10'000 * gpu);
      for (tokens const length : read[gpu]) {
        own.push_back(length);
        for (tokens row = 0; row < length; ++row) { x.push_back(number++); }
      }
    }
    step_balancer balancer(comm, bags, layer_cost, options);
    or_throw(balancer.plan(own));
    std::vector<std::int64_t> y(x.size());
    for (auto const slot : balancer.slots()) {
      std::vector<std::int64_t> there(slot.rows_computed());
      EXPECT_TRUE(slot.route(ballast::rows_of(x, there, 1)));
      EXPECT_TRUE(slot.reverse_route(ballast::rows_of(there, y, 1)));
      tokens next = 0;
      for (std::uint32_t local = 0; local < each; ++local) {
        auto const [row, count] = slot.rows_of_gpu(local);
        EXPECT_EQ(row, next);
        next += count;
        auto const gpu = ballast::to_id<ballast::rank_id>(first + local);
        if (in_one) { EXPECT_EQ(count, balancer.as_computed().rows(gpu)); }
        EXPECT_EQ(balancer.bag(local), bags.bag_of(gpu));
        EXPECT_EQ(to_index(bags[balancer.bag(local)].first) + balancer.gpu(local), to_index(gpu));
        EXPECT_EQ(slot.heads(local).gpus(), bags[balancer.bag(local)].gpus);
        EXPECT_EQ(slot.is_dummy(local), slot.lengths(local).empty());
        gpus[to_index(gpu)].emplace_back(
            std::vector<std::int64_t>(there.begin() + row, there.begin() + next),
            slot.loss_weight(local));
      }
      EXPECT_EQ(static_cast<std::size_t>(next), slot.rows_computed());
    }
    EXPECT_EQ(y, x);
    return in_one ? balancer.planned().digest() : balancer.grid().digest();
  });
  EXPECT_THAT(digests, testing::Each(digests[0]));
  gpus.push_back({{{static_cast<std::int64_t>(digests[0])}, 0}});
  return gpus;
}

TEST(StepSlots, PlansForRanksOfSeveralGpusAsForOneRankPerGpu)
{
  ballast::random_source random(37);
  for (auto const& bags :
       {ballast::one_gpu_bags(6), ballast::bag_layout("g2n1+g1n1+g3n1"_bags, 6)}) {
    for (int step = 0; step < ballast_test::trials_of(6); ++step) {
      auto read = lengths_read(random);
      read.resize(6, {40, 3});
      bool const in_one = (step % 2 == 0) == (bags.size() == 6);
      auto const expected = routed_with(1, read, bags, in_one);
      for (std::uint32_t const each : {2U, 3U, 6U}) {
        EXPECT_EQ(routed_with(each, read, bags, in_one), expected);
      }
    }
  }
}

TEST(StepSlots, RefusesAStepOnEveryRank)  // Ensures (4)
{
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    auto const refused = [&](auto& balancer, std::vector<tokens> const& read, char const* why) {
      auto const planned = balancer.plan(read);
      ASSERT_FALSE(planned);
      EXPECT_THAT(planned.error().message, testing::HasSubstr(why));
    };
    bool const first = comm.rank() == ballast::rank_id{0};
    step_balancer balancer(comm, ballast::one_gpu_bags(2), layer_cost,
                           {.microbatches = {}, .limits = {.most_per_gpu = 70}});
    refused(balancer, first ? std::vector<tokens>{5} : std::vector<tokens>{90},
            "sample 1 of weight 90 is above the cap of a cell, 70");
    refused(balancer, first ? std::vector<tokens>{5} : std::vector<tokens>{90},
            "(rank 1 has read it)");
    refused(balancer, {-1}, "sample 0 of -1 tokens has a length that");
    EXPECT_TRUE(balancer.plan(std::vector<tokens>{9}));
    step_balancer three(comm, ballast::one_gpu_bags(3), layer_cost);
    refused(three, {9}, "the bags have 3 GPUs and the job has 2 ranks");
    step_balancer pair(comm, ballast::bag_layout("g2n1"_bags, 2), layer_cost);
    refused(pair, {1}, "sample 0 of 1 token is shorter than the smallest bag");
  });
}

TEST(StepSlots, AllocatesNothingInTheSteadyState)  // Ensures (5)
{
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    std::vector<tokens> const read{50, 40, 30, 20, 10, 9, 8, 7};
    step_balancer balancer(comm, ballast::one_gpu_bags(2), layer_cost,
                           {.microbatches = {}, .limits = {.most_per_gpu = 70}});
    std::vector<float> x(2 * 174);
    std::vector<float> there(2 * 70);
    for (int step = 0; step < 4; ++step) {
      std::size_t const before = ballast_test::allocations_of_thread();
      ASSERT_TRUE(balancer.plan(read));
      for (auto const slot : balancer.slots()) {
        std::span<float> const rows = std::span(there).first(2 * slot.rows_computed());
        ASSERT_TRUE(slot.route(ballast::rows_of(x, rows, 2)));
        ASSERT_TRUE(slot.reverse_route(ballast::rows_of(rows, x, 2)));
      }
      if (step > 1) { EXPECT_EQ(ballast_test::allocations_of_thread(), before); }
    }
  });
}

std::vector<tokens> drawn_lengths(std::size_t samples, std::uint64_t seed)
{
  ballast::random_source random(seed);
  std::vector<tokens> lengths(samples);
  for (tokens& length : lengths) { length = random.between(2, 60); }
  return lengths;
}

/// Lengths that a rank reads for a step.
std::vector<tokens> read_by(ballast::rank_id rank, std::uint64_t step)
{
  std::uint64_t const of_rank = 100 * step + to_index(rank);
  return drawn_lengths(of_rank * 7 % 9, of_rank);
}

TEST(StepSlots, PlansAheadWhatItPlansAtOnce)
{
  constexpr std::uint64_t steps = ballast_test::is_sanitized ? 3 : 8;
  auto const bags = ballast::one_gpu_bags(3);
  for (std::optional<std::size_t> const number : {std::optional<std::size_t>(1), {}}) {
    step_options<> options{.microbatches = {.number = number}, .limits = {.most_per_gpu = 600}};
    if (!number) { options.limits.most_per_gpu = 70; }
    ballast::run_ranks(3, [&](thread_communicator& comm) {
      auto const plan_of = [](auto& balancer) {
        std::vector<std::vector<tokens>> own;
        for (auto const slot : balancer.slots()) {
          own.emplace_back(slot.lengths().begin(), slot.lengths().end());
        }
        return std::pair(balancer.samples(), own);
      };
      step_balancer direct(comm, bags, layer_cost, options);
      step_balancer balancer(comm, bags, layer_cost, options);
      // [ahead]
      or_throw(balancer.submit(read_by(comm.rank(), 0)));
      for (std::uint64_t step = 0; step < steps; ++step) {
        or_throw(balancer.next());  // planned while the last step ran
        or_throw(balancer.submit(read_by(comm.rank(), step + 1)));  // planned while this one runs
        // and the slots, as above
        // [ahead]
        or_throw(direct.plan(read_by(comm.rank(), step)));
        EXPECT_EQ(plan_of(balancer), plan_of(direct));
      }
      EXPECT_EQ(balancer.plan({}).error().code, ballast::error_code::wrong_order);
      EXPECT_EQ(balancer.submit({}).error().code, ballast::error_code::wrong_order);
      or_throw(balancer.next());
      EXPECT_EQ(balancer.next().error().code, ballast::error_code::wrong_order);
      or_throw(balancer.plan({}));
      EXPECT_EQ(balancer.rows_read(), 0U);
    });
  }
}

}  // namespace step_slots
