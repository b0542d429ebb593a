// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/choose_bags.hpp>  // first: proves it is self-contained

#include "../support/planned_mix.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/partition/attention_padded_batches.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

namespace {

using namespace ballast;
using judged_mix = bag_choice::judged_mix;
using testing::HasSubstr;

constexpr ballast::bag_exchange_work small_exchanges = {
    .once = {0, 900, 900, 900}, .per_token = {1 << 20, 60 << 20, 90 << 20, 105 << 20}};
constexpr quadratic_cost small_cost = {.linear = 1000, .quadratic = 1};

// Batches of one of five kinds: near-equal, long-tailed, one giant, fewer samples than GPUs, no
// tokens.
std::vector<sample_batch> draw_mix_batches(ballast::random_source& random, std::size_t gpus)
{
  std::vector<sample_batch> batches(2);
  std::uint64_t const kind = random.below(5);
  for (auto& batch : batches) {
    batch.lengths.resize(kind == 3 ? 1 + random.below(gpus) : 2 * gpus + random.below(2 * gpus));
    for (auto& length : batch.lengths) {
      switch (kind) {
        case 0: length = random.between(1000, 1020); break;
        case 1: length = random.between(1, 60) * random.between(1, 60); break;
        case 4: length = 0; break;
        default: length = random.between(0, 300);
      }
    }
    if (kind == 2) { batch.lengths.front() = 9000; }
  }
  return batches;
}

struct priced_mix {
  bag_mix mix;
  ratio mean_step;
};

// Oracle: lays out every mix, plans every batch by partition(), and adds up the steps.
template <class Policy>
std::optional<priced_mix> best_by_partition(std::vector<sample_batch> const& batches,
                                            ballast::cluster const& machines, short_samples choice,
                                            Policy const& policy)
{
  std::optional<priced_mix> best;
  auto const gpus = static_cast<std::uint32_t>(machines.gpus());
  for (bag_mix const& mix : ballast_test::all_mixes(gpus)) {
    auto const layout = ballast_test::layout_inside_nodes(mix, machines);
    if (!layout) { continue; }
    std::optional<std::uint64_t> sum = 0;
    for (auto const& batch : batches) {
      auto const step = ballast_test::planned_step(
          layout->with_short_samples(choice), batch.lengths, small_exchanges, small_cost, policy);
      sum = sum && step ? std::optional(*sum + *step) : std::nullopt;
    }
    if (!sum) { continue; }
    priced_mix const priced{mix, {static_cast<std::int64_t>(*sum), 16}};
    bool const better = !best || priced.mean_step < best->mean_step ||
                        (priced.mean_step == best->mean_step && priced.mix > best->mix);
    if (better) { best = priced; }
  }
  return best;
}

template <class Policy>
void expect_best_of_all_mixes(Policy const& policy)
{
  ballast::random_source random(1);
  for (int trial = 0; trial < ballast_test::trials_of(40); ++trial) {
    std::vector<std::uint32_t> nodes(1 + random.below(2));
    for (auto& gpus : nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(9)); }
    auto const machines = ballast::cluster_of(nodes).value();
    auto const batches = draw_mix_batches(random, machines.gpus());
    auto const choice = random.below(2) == 0 ? short_samples::refused : short_samples::admitted;
    SCOPED_TRACE(testing::Message() << "trial " << trial << ", " << machines.gpus() << " GPUs");
    auto const found =
        choose_bags(batches, machines, small_exchanges, small_cost, {.short_ones = choice}, policy);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(found->proven);
    auto const best = best_by_partition(batches, machines, choice, policy);
    ASSERT_TRUE(best);
    EXPECT_EQ(found->mixes.front(), (judged_mix{best->mix, best->mean_step, best->mean_step}));
    EXPECT_TRUE(std::ranges::is_sorted(found->mixes, {}, &judged_mix::fitted_step));
  }
}

// A policy that plans as longest_processing_time does, and is another one.
struct planned_longest_first {
  void operator()(ballast::partition_problem const& problem, std::span<ballast::cost_units> loads,
                  std::span<ballast::bag_id> owner, ballast::workspace& memory) const
  {
    ballast::longest_processing_time{}(problem, loads, owner, memory);
  }
};

TEST(ChooseBags, FindsTheBestOfAllMixes)  // Ensures (1) (2) (4)
{
  expect_best_of_all_mixes(ballast::longest_processing_time{});
}

TEST(ChooseBags, FindsTheBestOfAllMixesUnderThePolicyThatRuns)  // Ensures (2)
{
  expect_best_of_all_mixes(planned_longest_first{});
  expect_best_of_all_mixes(ballast::greedy_knapsack{});
  expect_best_of_all_mixes(ballast::refine<>{});
  expect_best_of_all_mixes(ballast::round_robin{});
  expect_best_of_all_mixes(ballast::attention_padded_batches{});
}

// The knapsack fills bags up to their shares, where one giant leaves most of them without room: the
// mix that longest processing time first makes best is much longer then.
TEST(ChooseBags, ChoosesForTheKnapsackWhatLongestFirstWouldNot)
{
  ballast::random_source random(9);
  auto const machines = ballast::cluster_of(16).value();
  double most = 1;
  for (int trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const batches = draw_mix_batches(random, machines.gpus());
    constexpr auto admitted = short_samples::admitted;
    auto const chosen_by = [&](auto const& policy) {
      return choose_bags(batches, machines, small_exchanges, small_cost, {.short_ones = admitted},
                         policy)
          .value()
          .mixes.front()
          .mix;
    };
    std::vector<bag_mix> const mixes{chosen_by(ballast::greedy_knapsack{}),
                                     chosen_by(ballast::longest_processing_time{})};
    auto const steps = price_bags(mixes, batches, small_exchanges, small_cost, admitted,
                                  ballast::greedy_knapsack{})
                           .value();
    ASSERT_LE(steps[0], steps[1]);
    if (steps[0].value() > 0) { most = std::max(most, steps[1].value() / steps[0].value()); }
  }
  EXPECT_GT(most, 1.05);
}

TEST(ChooseBags, SaysWhyThePolicyHasNoPlan)  // Errors
{
  std::vector<sample_batch> const batches = {{{100, 5}}};
  auto const cost = [](tokens length) { return 3 * length; };  // of which part, it does not say
  auto const machines = ballast::cluster_of(1).value();
  EXPECT_TRUE(choose_bags(batches, machines, {}, cost));
  constexpr ballast::attention_padded_batches policy;
  auto const found = choose_bags(batches, machines, {}, cost, {}, policy);
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, HasSubstr("attention"));
  std::vector<bag_mix> const mixes = {{{1, 0, 0, 0}}};
  EXPECT_FALSE(price_bags(mixes, batches, {}, cost, short_samples::refused, policy));
}

// Uneven nodes, of which pairs of small ones are as large as one bag: what is chosen lies as it was
// priced, and what is printed of it is laid out to be the same.
TEST(ChooseBags, LaysOutWhatItPriced)  // Ensures (1)
{
  ballast::random_source random(448);
  int would_span = 0;
  for (int trial = 0; trial < ballast_test::trials_of(400); ++trial) {
    std::vector<std::uint32_t> nodes(1 + random.below(6));
    for (auto& gpus : nodes) { gpus = std::uint32_t{1} << random.below(4); }
    if (random.below(2) == 0) { nodes.back() = static_cast<std::uint32_t>(1 + random.below(9)); }
    auto const machines = ballast::cluster_of(nodes).value();
    SCOPED_TRACE(testing::Message() << "nodes of " << machines.nodes.text());
    auto const batches = draw_mix_batches(random, machines.gpus());
    auto const found = choose_bags(batches, machines, small_exchanges, small_cost,
                                   {.short_ones = short_samples::admitted, .most_work = 1 << 12});
    ASSERT_TRUE(found) << found.error().message;
    bag_mix laid;
    for (std::size_t bag = 0; bag < found->bags.size(); ++bag) {
      auto const [first, gpus] = found->bags[ballast::to_id<ballast::bag_id>(bag)];
      auto const last = ballast::to_id<ballast::rank_id>(to_index(first) + gpus - 1);
      ASSERT_EQ(machines.node_of(first), machines.node_of(last));
      ++laid.bags[static_cast<std::size_t>(std::bit_width(gpus) - 1)];
    }
    bag_mix const mix = found->mixes.front().mix;
    EXPECT_EQ(laid, mix);
    EXPECT_EQ(found->bags.gpus(), machines.gpus());
    std::uint64_t sum = 0;
    for (auto const& batch : batches) {
      sum += ballast_test::planned_step(found->bags, batch.lengths, small_exchanges, small_cost)
                 .value();
    }
    EXPECT_EQ(found->mixes.front().judged_step,
              (ballast::ratio{static_cast<std::int64_t>(sum), 16}));
    auto const as_written = ballast::lay_out(mix.spec(), machines);
    would_span +=
        as_written && *as_written != *ballast::lay_out(mix.spec(), machines,
                                                       ballast::misplaced_bags::largest_first);
  }
  EXPECT_GT(would_span, 3 * ballast_test::trials_of(400) / 400);
}

std::vector<bag_mix> mixes_of(ballast::bag_choice const& choice)
{
  std::vector<bag_mix> mixes;
  for (judged_mix const& each : choice.mixes) { mixes.push_back(each.mix); }
  return mixes;
}

TEST(ChooseBags, JudgesTheBestAndThoseOfOneSizeOnOtherBatches)  // Ensures (2) (3) (4)
{
  ballast::random_source random(4);
  for (int trial = 0; trial < ballast_test::trials_of(20); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const machines = ballast::cluster_of({8, 7}).value();
    auto const batches = draw_mix_batches(random, machines.gpus());
    auto const others = draw_mix_batches(random, machines.gpus());
    constexpr auto admitted = short_samples::admitted;
    auto const alone = choose_bags(batches, machines, small_exchanges, small_cost,
                                   {.short_ones = admitted, .finalists = 5});
    auto const judged = choose_bags(batches, machines, small_exchanges, small_cost,
                                    {.short_ones = admitted, .judged_on = others, .finalists = 5});
    ASSERT_TRUE(alone && judged);
    EXPECT_LT(alone->placed, judged->placed);

    // The same mixes, priced on both kinds of batches, in the order of the others.
    auto const fitted =
        price_bags(mixes_of(*alone), batches, small_exchanges, small_cost, admitted).value();
    auto const scored =
        price_bags(mixes_of(*alone), others, small_exchanges, small_cost, admitted).value();
    std::vector<judged_mix> expected;
    for (std::size_t place = 0; place < fitted.size(); ++place) {
      auto const& [mix, step, judged_step] = alone->mixes[place];
      EXPECT_EQ(step, fitted[place]);
      EXPECT_EQ(judged_step, step);
      expected.push_back({mix, step, scored[place]});
    }
    std::ranges::sort(expected, [](judged_mix const& a, judged_mix const& b) {
      if (a.judged_step != b.judged_step) { return a.judged_step < b.judged_step; }
      return a.fitted_step != b.fitted_step ? a.fitted_step < b.fitted_step : a.mix > b.mix;
    });
    EXPECT_EQ(judged->mixes, expected);

    auto const mixes = mixes_of(*judged);
    EXPECT_GE(mixes.size(), 5U);
    EXPECT_LE(mixes.size(), 9U);
    for (bag_mix const& most :
         {bag_mix{{15, 0, 0, 0}}, {{1, 7, 0, 0}}, {{1, 1, 3, 0}}, {{1, 1, 1, 1}}}) {
      EXPECT_TRUE(std::ranges::count(mixes, most) == 1);
    }
  }
}

TEST(ChooseBags, HasBagsForTheShortestSampleThatItIsJudgedOn)  // Ensures (1)
{
  std::vector<sample_batch> const batches = {{{900, 900, 900, 900}}};
  std::vector<sample_batch> const others = {{{900, 900}}, {{900, 3, 0}}};
  auto const machines = ballast::cluster_of(16).value();
  auto const best = [&](ballast::bag_search const& search) {
    return choose_bags(batches, machines, {}, small_cost, search).value().mixes.front().mix;
  };
  EXPECT_EQ(best({}), (bag_mix{{0, 0, 4, 0}}));
  EXPECT_LE(best({.judged_on = others}).spec().groups().back().gpus, 2U);
  EXPECT_EQ(best({.short_ones = short_samples::admitted, .judged_on = others}),
            (bag_mix{{0, 0, 0, 2}}));
}

TEST(ChooseBags, KeepsToTheLargestBagThatIsAllowed)
{
  std::vector<sample_batch> const batches = {{{9000, 10, 10}}};
  auto const machines = ballast::cluster_of(16).value();
  for (std::uint32_t const largest : {1U, 2U, 4U, 8U}) {
    auto const found = choose_bags(batches, machines, {}, small_cost, {.largest_bag = largest});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->mixes.front().mix.spec().groups().front().gpus, largest);
  }
  // A node of four GPUs has no bag of eight.
  EXPECT_EQ(choose_bags(batches, ballast::cluster_of(16, 4).value(), {}, small_cost)
                ->mixes.front()
                .mix.bags[3],
            0U);
}

TEST(ChooseBags, GivesEmptyBatchesBagsOfOneGpu)
{
  std::vector<sample_batch> const batches(2);
  auto const found =
      choose_bags(batches, ballast::cluster_of(8).value(), small_exchanges, small_cost).value();
  EXPECT_EQ(found.mixes.front(), (judged_mix{{{8, 0, 0, 0}}, {0, 16}, {0, 16}}));
}

// The exchanges of KnapFormer's model on a DGX H100.
struct flux_job {
  ballast::cost_spec spec =
      ballast::parse_cost_spec("transformer:d=3072,layers=57,gamma=0.405").value();
  ballast::cluster machines;
  ballast::bag_exchange_work exchanges;

  explicit flux_job(std::size_t gpus) : machines(ballast::cluster_of(gpus).value())
  {
    ballast::bag_traffic const traffic{
        .layers = 57,
        .head_bytes_per_token_and_layer = 4 * 3072 * 2,
        .all_to_alls_per_layer = 2,
        .routed_bytes_per_token = 2 * 3072 * 2,
        .routes = 2,
        .units_per_second = 400e12 / std::ldexp(1.0, spec.log2_flops_per_unit)};
    exchanges = ballast::price_bag_exchanges(traffic, machines).value();
  }

  [[nodiscard]] std::vector<sample_batch> draw(char const* codes, std::size_t batches,
                                               std::uint64_t seed) const
  {
    ballast::random_source random(seed);
    auto const parsed = ballast::parse_data_codes(codes).value();
    std::vector<sample_batch> drawn;
    for (std::size_t batch = 0; batch < batches; ++batch) {
      drawn.push_back(ballast::draw_batch(parsed, machines.gpus(), {}, random).value());
    }
    return drawn;
  }

  // Lengths near a lognormal distribution with median 2,048, in batches where few giants decide.
  [[nodiscard]] std::vector<sample_batch> draw_long_tailed(double sigma, std::size_t batches,
                                                           std::uint64_t seed) const
  {
    ballast::random_source random(seed);
    std::vector<sample_batch> drawn(batches);
    for (auto& batch : drawn) {
      for (std::size_t sample = 0; sample < 8 * machines.gpus(); ++sample) {
        std::int64_t sum = 0;  // of twelve uniform numbers: near a normal one, with variance 1
        for (int part = 0; part < 12; ++part) { sum += random.between(0, (1 << 20) - 1); }
        double const normal = static_cast<double>(sum) / (1 << 20) - 6;
        batch.lengths.push_back(static_cast<ballast::tokens>(
            std::clamp(2048 * std::exp(sigma * normal), 8.0, 131'072.0)));
      }
    }
    return drawn;
  }

  // How much longer its steps are on some batches than those of the best bags of one size.
  [[nodiscard]] double over_uniform(bag_mix const& mix,
                                    std::vector<sample_batch> const& batches) const
  {
    auto const gpus = static_cast<std::uint32_t>(machines.gpus());
    std::vector<bag_mix> const mixes = {mix,
                                        {{gpus, 0, 0, 0}},
                                        {{0, gpus / 2, 0, 0}},
                                        {{0, 0, gpus / 4, 0}},
                                        {{0, 0, 0, gpus / 8}}};
    auto const priced = price_bags(mixes, batches, exchanges, spec.cost).value();
    return priced.front().value() / std::ranges::min(std::span(priced).subspan(1)).value();
  }
};

constexpr std::array knapformer_mixes = {
    "g32b32i256f1s0", "g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0",
    "g8b4i256f1s0,g2b5i512f1s0,g2b5i1024f1s0,g4b1i2048f1s0,g1b10i256f4s0,g3b1i512f4s0,"
    "g8b2i256f85s1,g4b1i512f85s1"};

TEST(ChooseBags, IsAsFastAsTheBestUniformLayoutOnOtherBatches)
{
  flux_job const job(32);
  for (char const* const codes : knapformer_mixes) {
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      SCOPED_TRACE(testing::Message() << codes << ", seed " << seed);
      auto const found =
          choose_bags(job.draw(codes, 8, seed), job.machines, job.exchanges, job.spec.cost);
      ASSERT_TRUE(found);
      EXPECT_LE(job.over_uniform(found->mixes.front().mix, job.draw(codes, 30, 100 + seed)), 1.005);
    }
  }
}

TEST(ChooseBags, IsAsFastWhereAFewGiantsDecideIfJudgedOnOtherBatches)
{
  flux_job const job(16);
  auto const& [spec, machines, exchanges] = job;
  double worst_alone = 0;
  for (double const sigma : {1.0, 1.5, 2.0}) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << "sigma " << sigma << ", seed " << seed);
      auto const batches = job.draw_long_tailed(sigma, 8, seed);
      auto const others = job.draw_long_tailed(sigma, 256, 100 + seed);
      auto const later = job.draw_long_tailed(sigma, 128, 200 + seed);
      // [choose]
      auto const found =
          ballast::choose_bags(batches, machines, exchanges, spec.cost, {.judged_on = others})
              .value();
      ballast::bag_mix const best = found.mixes.front().mix;
      ballast::bag_layout const& bags = found.bags;  // where they lie
      // [choose]
      EXPECT_EQ(bags.gpus(), 16U);
      EXPECT_LE(job.over_uniform(best, later), 1.01);
      auto const alone = choose_bags(batches, machines, exchanges, spec.cost);
      worst_alone = std::max(worst_alone, job.over_uniform(alone->mixes.front().mix, later));
    }
  }
  EXPECT_GT(worst_alone, 1.02);  // so the family is one in which judging counts
}

TEST(ChooseBags, ComesWithinTwoPercentOfAllMixesAt64Gpus)
{
  flux_job const job(64);
  auto const batches = job.draw(knapformer_mixes[2], 8, 5);
  auto const found = choose_bags(batches, job.machines, job.exchanges, job.spec.cost).value();
  auto const all = price_bags(ballast_test::all_mixes(64), batches, job.exchanges, job.spec.cost);
  double const best = std::ranges::min(*all).value();
  EXPECT_LE(found.mixes.front().fitted_step.value(), 1.02 * best);
}

// There are too many mixes to try: some are, and then those near the best.
TEST(ChooseBags, FindsMixesAt128GpusThatAreShorterThanBagsOfOneSize)
{
  flux_job const job(128);
  auto const batches = job.draw_long_tailed(1.5, 2, 1);
  auto const found =
      choose_bags(batches, job.machines, job.exchanges, job.spec.cost, {.finalists = 1}).value();
  EXPECT_FALSE(found.proven);
  bag_mix const best = found.mixes.front().mix;
  EXPECT_EQ(best.gpus(), 128U);
  EXPECT_LT(job.over_uniform(best, batches), 1.0);
}

// Where load and number of samples do not fit one word, bags fill in the same order.
TEST(ChooseBags, PricesHugeCostsAsItDoesSmallOnes)
{
  ballast::random_source random(7);
  std::vector<sample_batch> batches(1);
  for (int sample = 0; sample < 300; ++sample) {
    batches[0].lengths.push_back(random.between(8, 1 << 10));
  }
  std::vector<bag_mix> const mixes = {{{60, 2, 2, 1}}};
  auto const step_at = [&](std::uint64_t cost_of_token) {
    return price_bags(mixes, batches, {}, quadratic_cost{.linear = cost_of_token})
        .value()
        .front()
        .numerator;
  };
  EXPECT_EQ(step_at(std::uint64_t{1} << 41), step_at(1) << 41);
}

TEST(ChooseBags, StopsWhereTheWorkIsUsedUp)
{
  flux_job const job(64);
  auto const found = choose_bags(job.draw_long_tailed(1.5, 1, 1), job.machines, job.exchanges,
                                 job.spec.cost, {.most_work = 1})
                         .value();
  EXPECT_FALSE(found.proven);
  EXPECT_EQ(std::ranges::count_if(found.mixes,
                                  [](judged_mix const& each) { return each.mix.is_uniform(); }),
            4);
}

TEST(ChooseBags, SaysWhatIsMissing)  // Errors
{
  auto machines = ballast::cluster_of(8).value();
  std::vector<sample_batch> const batches = {{{100, 5}}};
  EXPECT_THAT(choose_bags({}, machines, {}, small_cost).error().message,
              HasSubstr("there is no batch to choose bags for"));
  std::vector<sample_batch> const others = {{{100}}, {{7, -1}}};
  auto const unread = choose_bags(batches, machines, {}, small_cost, {.judged_on = others});
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().position, 2U);  // counted on from the one that is fitted
  EXPECT_THAT(unread.error().message, HasSubstr("sample 1 of batch 2 has -1 tokens"));
  auto const refusal = [&](std::vector<sample_batch> const& read, ballast::quadratic_cost cost) {
    return choose_bags(read, machines, {}, cost).error().message;
  };
  EXPECT_THAT(refusal({{{ballast::longest_sample}}}, {.quadratic = std::uint64_t{1} << 40}),
              HasSubstr("tokens has no cost"));
  EXPECT_THAT(refusal({{{1}}, {{1}}}, {.linear = std::uint64_t{1} << 58}),
              HasSubstr("up to batch 1 add up to 2^59"));
  EXPECT_THAT(price_bags({}, {}, {}, small_cost).error().message,
              HasSubstr("there is no batch to price bags on"));
  machines.gpu_speeds.assign(8, 2);
  EXPECT_THAT(choose_bags(batches, machines, {}, small_cost).error().message,
              HasSubstr("differ in speed"));
  std::vector<bag_mix> const mixes = {{{8, 0, 0, 0}}, {{0, 0, 0, 1}}};
  auto const refused = price_bags(mixes, batches, {}, small_cost);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().position, 1U);
  EXPECT_THAT(refused.error().message, HasSubstr("a sample of 5 tokens is shorter"));
  EXPECT_TRUE(price_bags(mixes, batches, {}, small_cost, short_samples::admitted));
}

}  // namespace
