// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/step_balancer.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <new>

namespace {

using ballast::error_code;
using ballast::operator""_cost;
using ballast::rank_id;
using ballast::refine;
using ballast::step_balancer;
using ballast::step_options;
using ballast::thread_communicator;
using ballast::to_index;
using ballast::tokens;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto layer_cost = "transformer:d=16,gamma=0.405"_cost;

ballast::bag_layout bags_over(std::string const& spec, std::size_t gpus)
{
  return ballast::lay_out(ballast::parse_bags(spec).value(),
                          ballast::cluster_of(gpus, gpus).value())
      .value();
}

/// Lengths that each rank has read; now and then a rank has read nothing.
std::vector<std::vector<tokens>> step_of(std::size_t ranks, ballast::random_source& random)
{
  std::vector<std::vector<tokens>> read(ranks);
  for (auto& own : read) {
    own.resize(static_cast<std::size_t>(random.between(0, 6)));
    for (tokens& length : own) { length = random.between(4, 90); }
  }
  return read;
}

/// A row per token that no other token has.
std::vector<std::int64_t> numbered_rows(std::size_t rows, rank_id rank)
{
  std::vector<std::int64_t> all(rows * 3);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int64_t>(1'000'000 * (to_index(rank) + 1) + i);
  }
  return all;
}

// A document of two modalities, of a prompt.
struct prompted_document {
  std::int32_t text;
  std::int32_t patches;
  std::int64_t prompt;
};

constexpr step_options<prompted_document> of_documents{
    .limits = {.also = {{.most_per_gpu = 120}}},
    .length_of = [](prompted_document const& d) -> tokens { return d.text + d.patches; },
    .also_of = {[](prompted_document const& d) -> std::int64_t { return d.text; }},
    .together = [](prompted_document const& d) { return d.prompt; },
    .homes = true,
    .query_heads = 3};

constexpr auto document_cost = [](prompted_document const& d) -> std::int64_t {
  return 2 * d.text + 3 * d.patches + d.text * d.text;
};

TEST(StepBalancer, PlansAsTheCallsByHand)  // Ensures (1)
{
  auto const bags = bags_over("g1n2+g2n1+g4n1", 8);
  ballast::random_source random(20240607);
  std::vector<std::vector<std::vector<tokens>>> steps;
  for (int step = 0; step < 10; ++step) { steps.push_back(step_of(8, random)); }
  ballast::run_ranks(8, [&](thread_communicator& comm) {
    step_balancer balancer(comm, bags, layer_cost, ballast::greedy_knapsack{}, {.query_heads = 6});
    for (auto const& read : steps) {
      auto const& own = read[to_index(comm.rank())];
      ASSERT_TRUE(balancer.plan(own));

      ballast::gathered_samples<tokens> all;
      ASSERT_TRUE(ballast::gather_samples(all, comm, own));
      auto const plan =
          ballast::partition(all.samples, bags, layer_cost, {}, ballast::greedy_knapsack{}).value();
      auto const as_read = ballast::place_as_read(all);
      auto const as_computed = ballast::place(plan, bags).value();
      auto const bag = bags.bag_of(comm.rank());
      ballast::ulysses_plan heads;
      heads.assign(all.samples, plan.samples[bag], bags[bag].gpus, 6);

      EXPECT_EQ(balancer.samples(), all);
      EXPECT_EQ(balancer.planned().digest(), plan.digest());
      EXPECT_EQ(balancer.as_read(), as_read);
      EXPECT_EQ(balancer.as_computed(), as_computed);
      EXPECT_EQ(balancer.heads(), heads);
      EXPECT_THAT(balancer.lengths(), testing::ElementsAreArray(heads.lengths()));
      EXPECT_EQ(balancer.rows_read(), static_cast<std::size_t>(as_read.rows(comm.rank())));
      EXPECT_EQ(balancer.rows_computed(), static_cast<std::size_t>(as_computed.rows(comm.rank())));
      EXPECT_EQ(balancer.bag(), bag);
      EXPECT_EQ(balancer.bag_comm().size(), bags[bag].gpus);
      EXPECT_EQ(balancer.gpu(), to_index(balancer.bag_comm().rank()));
    }
  });
}

TEST(StepBalancer, MovesRowsAndHeadsAsTheCallsByHand)
{
  auto const bags = bags_over("g3n1+g1n1", 4);
  ballast::random_source random(7);
  auto const read = step_of(4, random);
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    step_balancer balancer(comm, bags, layer_cost, refine{}, {.query_heads = 3});
    ASSERT_TRUE(balancer.plan(read[to_index(comm.rank())]));
    auto const x = numbered_rows(balancer.rows_read(), comm.rank());
    std::vector<std::int64_t> there(balancer.rows_computed() * 3);
    std::vector<std::int64_t> by_hand(there.size());
    std::vector<std::int64_t> back(x.size());
    auto const route = ballast::plan_route(balancer.as_read(), balancer.as_computed(), comm.rank());
    ballast::workspace memory;
    ASSERT_TRUE(balancer.route(ballast::rows_of(x, there, 3)));
    ASSERT_TRUE(ballast::route(comm, route, memory, ballast::rows_of(x, by_hand, 3)));
    EXPECT_EQ(there, by_hand);
    ASSERT_TRUE(balancer.reverse_route(ballast::rows_of(there, back, 3)));
    EXPECT_EQ(back, x);

    auto const& heads = balancer.heads();
    std::vector<std::int64_t> whole(heads.heads_of_sequences(balancer.gpu(), 3));
    std::vector<std::int64_t> whole_by_hand(whole.size());
    auto& bag = balancer.bag_comm();
    ASSERT_TRUE(balancer.to_heads(ballast::heads_of(there, whole, 3, 1)));
    ASSERT_TRUE(
        ballast::to_heads(bag, heads, memory, ballast::heads_of(there, whole_by_hand, 3, 1)));
    EXPECT_EQ(whole, whole_by_hand);
    ASSERT_TRUE(balancer.to_tokens(ballast::heads_of(whole, by_hand, 3, 1)));
    EXPECT_EQ(by_hand, there);
  });
}

// Many patches fit the bag of two GPUs alone, and of odd numbers four may lie together.
bool fits(prompted_document const& each, ballast::bag_id bag)
{
  return each.patches < 24 || bag == ballast::bag_id{2};
}
bool mixes(std::span<prompted_document const> all, std::span<ballast::sample_id const> together)
{
  return std::ranges::count_if(together, [all](auto id) { return all[id].patches % 2 == 1; }) <= 4;
}

TEST(StepBalancer, KeepsToAllLimits)  // Ensures (1)
{
  auto const bags = bags_over("g1n2+g2n1", 4);
  ballast::random_source random(3);
  std::vector<std::vector<prompted_document>> read(4);
  std::int32_t text = 2;
  for (auto& own : read) {
    for (int i = 0; i < 5; ++i) {
      own.push_back({text, static_cast<std::int32_t>(random.between(0, 30)), 7 * text % 11});
      ++text;
    }
  }
  std::vector<std::int64_t> const starts{300, 0, 40};
  auto options = of_documents;
  options.limits.also.add({.most_per_gpu = 88});
  options.limits.also.add({.most_per_gpu = 84, .rounded_to = 3});
  options.limits.starting_loads = starts;
  options.limits.samples = ballast::counts::at_most(9);
  options.limits.then = ballast::fewest_moves;
  options.limits.within_per_million = 5'000;
  options.also_of[1] = [](prompted_document const& d) -> std::int64_t { return d.patches; };
  options.also_of[2] = options.also_of[0];
  options.apart = [](prompted_document const& d) -> std::int64_t { return d.text % 10; };
  options.fits = fits;
  options.mixes = mixes;
  auto summing = of_documents;
  summing.least_of = options.also_of[1];
  ballast::run_ranks(4, [&](thread_communicator& comm) {
    for (bool const sums : {false, true}) {
      for (std::size_t const slots : {1U, 2U}) {
        auto chosen = sums ? summing : options;
        chosen.microbatches.number = slots;
        step_balancer balancer(comm, bags, document_cost, chosen);
        or_throw(balancer.plan(read[to_index(comm.rank())]));
        auto const& all = balancer.samples();
        std::vector<std::int64_t> prompts;
        std::vector<std::int64_t> texts;
        std::vector<std::int64_t> last_digits;
        std::vector<std::int64_t> patches;
        for (auto const& each : all.samples) {
          prompts.push_back(each.prompt);
          texts.push_back(each.text);
          last_digits.push_back(each.text % 10);
          patches.push_back(each.patches);
        }
        auto const fits_here = [&](ballast::sample_id id, ballast::bag_id bag) {
          return fits(all.samples[id], bag);
        };
        auto const mixes_here = [&](std::span<ballast::sample_id const> together) {
          return mixes(all.samples, together);
        };
        ballast::placement_limits limits{
            .together = prompts, .home = all.source, .also = {{.of = texts, .most_per_gpu = 120}}};
        if (sums) {
          limits.then = ballast::least(patches);
        } else {
          limits.also.add({.of = patches, .most_per_gpu = 88});
          limits.also.add({.of = texts, .most_per_gpu = 84, .rounded_to = 3});
          limits.starting_loads = starts;
          limits.samples = options.limits.samples;
          limits.apart = last_digits;
          limits.fits = fits_here;
          limits.mixes = mixes_here;
          limits.then = ballast::fewest_moves;
          limits.within_per_million = 5'000;
        }
        if (slots == 1) {
          auto const plan =
              ballast::partition(all.samples, bags, document_cost, of_documents.length_of, limits)
                  .value();
          EXPECT_EQ(balancer.planned().digest(), plan.digest());
          EXPECT_EQ(balancer.planned().moved, plan.moved);
          EXPECT_GT(plan.moved.numerator, 0);
          auto const differs_with = [&](ballast::placement_limits const& others) {
            auto const other = ballast::partition(all.samples, bags, document_cost,
                                                  of_documents.length_of, others);
            return other.value().digest() != plan.digest();
          };
          for (int left_out = 0; left_out < 6 && !sums; ++left_out) {
            auto others = limits;
            if (left_out == 0) { others.together = {}; }
            if (left_out == 1) { others.apart = {}; }
            if (left_out == 2) { others.fits = {}; }
            if (left_out == 3) { others.mixes = {}; }
            if (left_out == 4) { others.starting_loads = {}; }
            if (left_out == 5) { others.also[1].most_per_gpu = 1000; }
            EXPECT_TRUE(differs_with(others)) << left_out;
          }
        } else {
          auto const plan = ballast::partition_grid(all.samples, bags, {.number = 2}, document_cost,
                                                    of_documents.length_of, limits)
                                .value();
          EXPECT_EQ(balancer.grid().digest(), plan.digest());
        }
      }
    }
  });
}

TEST(StepBalancer, TakesAsManySamplesAsAreRead)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    step_balancer balancer(comm, ballast::one_gpu_bags(2), layer_cost, refine{});
    for (std::size_t const samples : {300U, 0U, 20U, 2000U}) {
      std::vector<tokens> const read(comm.rank() == rank_id{1} ? samples : 1, 3);
      or_throw(balancer.plan(read));
      EXPECT_EQ(balancer.samples().samples.size(), samples + 1);
      EXPECT_EQ(balancer.rows_read(), 3 * read.size());
    }
  });
}

TEST(StepBalancer, PlansAStepOfNothingAndAJobOfOneRank)
{
  ballast::run_ranks(1, [](thread_communicator& comm) {
    step_balancer balancer(comm, ballast::one_gpu_bags(1), layer_cost, refine{});
    ASSERT_TRUE(balancer.plan({}));
    EXPECT_EQ(balancer.rows_computed(), 0U);
    EXPECT_TRUE(balancer.route());
    ASSERT_TRUE(balancer.plan(std::vector<tokens>{4, 2}));
    EXPECT_THAT(balancer.lengths(), ElementsAre(4, 2));
  });
}

TEST(StepBalancer, RefusesNumbersOfLossesThatDifferOrAreNone)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    step_options<> options{.loss_tokens_of = [](tokens const&) -> tokens { return -1; }};
    step_balancer none(comm, ballast::one_gpu_bags(2), layer_cost, refine{}, options);
    auto const refused = none.plan(std::vector<tokens>{7});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, error_code::out_of_range);
    EXPECT_THAT(refused.error().message, HasSubstr("sample 0 has -1 tokens with a loss"));

    options.loss_tokens_of = nullptr;
    if (comm.rank() == rank_id{1}) {
      options.loss_tokens_of = [](tokens const& length) { return length / 2; };
    }
    step_balancer differing(comm, ballast::one_gpu_bags(2), layer_cost, refine{}, options);
    auto const told = differing.plan(std::vector<tokens>{7});
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, error_code::mismatch);
  });
}

TEST(StepBalancer, AllocatesNothingInTheSteadyState)  // Ensures (4)
{
  ballast::random_source random(11);
  std::vector<prompted_document> read;
  for (int i = 0; i < 40; ++i) {
    read.push_back({static_cast<std::int32_t>(random.between(2, 20)),
                    static_cast<std::int32_t>(random.between(0, 30)), i / 2});
  }
  auto options = of_documents;
  options.limits.also[0].most_per_gpu = 4000;
  auto of_pairs = options;
  of_pairs.homes = false;
  of_pairs.gpus_per_rank = 2;
  ballast::run_ranks(2, [&](thread_communicator& comm) {
    step_balancer balancer(comm, bags_over("g2n1", 2), document_cost, refine{}, options);
    step_balancer of_two(comm, ballast::one_gpu_bags(4), document_cost, refine{}, of_pairs);
    std::vector<std::int64_t> x;
    std::vector<std::int64_t> there;
    std::vector<std::int64_t> whole;
    for (int step = 0; step < 3; ++step) {
      std::size_t const before = ballast_test::allocations_of_thread();
      ASSERT_TRUE(balancer.plan(read));
      x.resize(balancer.rows_read() * 3);
      there.resize(balancer.rows_computed() * 3);
      whole.resize(balancer.heads().heads_of_sequences(balancer.gpu(), 3));
      ASSERT_TRUE(balancer.route(ballast::rows_of(x, there, 3)));
      ASSERT_TRUE(balancer.to_heads(ballast::heads_of(there, whole, 3, 1)));
      ASSERT_TRUE(balancer.to_tokens(ballast::heads_of(whole, there, 3, 1)));
      ASSERT_TRUE(balancer.reverse_route(ballast::rows_of(there, x, 3)));
      ASSERT_TRUE(of_two.plan(read));
      if (step > 0) { EXPECT_EQ(ballast_test::allocations_of_thread(), before); }
    }
  });
}

// ---- Steps that cannot be planned: Ensures (2)
// ---------------------------------------------------

/// What each rank is told of the same step, balanced with options and bags of its own. Twice, since
/// a refused step leaves the balancer as it was.
std::vector<ballast::error> refusals(std::vector<std::vector<tokens>> const& read,
                                     std::vector<step_options<>> const& options,
                                     std::vector<ballast::bag_layout> const& bags)
{
  return ballast::run_ranks(read.size(), [&](thread_communicator& comm) {
    std::size_t const rank = to_index(comm.rank());
    step_balancer balancer(comm, bags[rank], layer_cost, refine{}, options[rank]);
    auto const first = balancer.plan(read[rank]);
    auto const second = balancer.plan(read[rank]);
    if (first || second) {
      ADD_FAILURE() << "a step was planned";
      return ballast::error{};
    }
    EXPECT_EQ(first.error(), second.error());
    return first.error();
  });
}

TEST(StepBalancer, TellsEveryRankWhyAStepCannotBePlanned)
{
  auto const bags = bags_over("g2n2", 4);
  struct bad_step {
    std::vector<tokens> of_rank_2;
    error_code code;
    std::size_t position;
    char const* said;
  };
  for (auto const& bad : {bad_step{{5, 1}, error_code::infeasible, 3, "sample 3"},
                          bad_step{{-4}, error_code::out_of_range, 2, "sample 2"},
                          bad_step{{90}, error_code::infeasible, 2, "sample 2"}}) {
    SCOPED_TRACE(bad.said);
    auto const told = ballast::run_ranks(4, [&](thread_communicator& comm) {
      bool const reads_it = comm.rank() == rank_id{2};
      step_balancer balancer(comm, bags, layer_cost, refine{}, {.limits = {.most_per_gpu = 40}});
      std::vector<tokens> const good(comm.rank() == rank_id{3} ? 0 : 1, 8);
      auto const refused = balancer.plan(reads_it ? bad.of_rank_2 : good);
      EXPECT_TRUE(balancer.plan(good));
      EXPECT_EQ(balancer.samples().samples.size(), 3U);
      return refused;
    });
    for (auto const& each : told) {
      ASSERT_FALSE(each.has_value());
      EXPECT_EQ(each.error().code, bad.code);
      EXPECT_EQ(each.error().position, bad.position);
      EXPECT_THAT(each.error().message, HasSubstr(bad.said));
      EXPECT_THAT(each.error().ranks, ElementsAre(rank_id{2})) << each.error().message;
      EXPECT_EQ(each.error(), told[0].error());
    }
  }
}

TEST(StepBalancer, TellsEveryRankWhoPlansOtherwise)
{
  auto const bags = bags_over("g1n2+g2n1", 4);
  std::vector<std::vector<tokens>> const read{{50, 8}, {7}, {}, {90, 4, 4}};
  struct other {
    step_options<> options;
    ballast::bag_layout bags;
  };
  for (other const& differs :
       {other{{.query_heads = 4}, bags},  // other heads
        other{{.length_of = [](tokens const& length) { return length - 1; }, .query_heads = 2},
              bags},                                           // and rows
        other{{.query_heads = 2}, bags_over("g2n1+g1n2", 4)},  // and bags
        other{{.together = [](tokens const&) { return std::int64_t{1}; }, .query_heads = 2},
              bags}}) {
    auto const told = refusals(
        read, {{.query_heads = 2}, differs.options, {.query_heads = 2}, {.query_heads = 2}},
        {bags, differs.bags, bags, bags});
    for (auto const& each : told) {
      EXPECT_EQ(each.code, error_code::mismatch);
      EXPECT_THAT(each.ranks, ElementsAre(rank_id{1}));
      EXPECT_THAT(each.message, HasSubstr("the plan, or on why there is none (rank 1 differs"));
    }
  }
}

TEST(StepBalancer, TellsEveryRankThatOneCannotPlan)
{
  auto const bags = bags_over("g1n2+g2n1", 4);
  std::vector<std::vector<tokens>> const read{{50, 8}, {7}, {}, {90, 4, 4}};
  std::vector<step_options<>> options(4);
  options[1].limits.most_per_gpu = 20;
  auto const told = refusals(read, options, {bags, bags, bags, bags});
  EXPECT_EQ(told[1].code, error_code::infeasible);
  for (std::size_t const rank : {0U, 2U, 3U}) {
    EXPECT_EQ(told[rank].code, error_code::mismatch);
    EXPECT_THAT(told[rank].ranks, ElementsAre(rank_id{1}));
  }
}

TEST(StepBalancer, RefusesBagsOfAnotherJob)
{
  auto const right = bags_over("g2n1+g1n1", 3);
  auto const wrong = bags_over("g2n2", 4);
  std::vector<std::vector<tokens>> const read{{50, 8}, {7}, {4}};
  std::vector<step_options<>> options(3);
  for (std::uint32_t const gpus : {1U, 4U}) {
    options.assign(3, {.gpus_per_rank = gpus});
    for (auto const& each : refusals(read, options, {wrong, wrong, wrong})) {
      EXPECT_EQ(each.code, error_code::out_of_range);
      EXPECT_EQ(each.message,
                gpus == 1 ? "the bags have 4 GPUs and the job has 3 ranks; lay the bags out over "
                            "one GPU for each rank"
                          : "the bags have 4 GPUs and the job has 3 ranks of 4 GPUs; lay the bags "
                            "out over the GPUs of all ranks");
    }
  }
  options.assign(3, {});
  auto const told = refusals(read, options, {right, right, wrong});
  EXPECT_EQ(told[0].code, error_code::mismatch);
  EXPECT_EQ(told[1].code, error_code::mismatch);
  EXPECT_EQ(told[2].code, error_code::out_of_range);
}

// In the first step, which splits the communicator, or in one with more samples than before.
TEST(StepBalancer, LetsNobodyWaitWhereARankIsOutOfMemory)
{
  if (!ballast_test::allocations_can_fail()) { GTEST_SKIP(); }
  for (bool const is_first : {true, false}) {
    bool has_failed = true;
    for (std::size_t n = 1; has_failed; ++n) {
      SCOPED_TRACE(n);
      auto comms = thread_communicator::make(2, std::chrono::seconds(20));
      std::vector<tokens> const read(40, 5);
      auto const plan = [&](thread_communicator comm) -> ballast::result<void> {
        step_balancer balancer(comm, bags_over("g2n1", 2), layer_cost, refine{});
        if (!is_first) { EXPECT_TRUE(balancer.plan(std::vector<tokens>{4})); }
        ballast::result<void> planned;
        if (comm.rank() == rank_id{1}) {
          planned = balancer.plan(read);
        } else {
          ballast_test::failing_allocation const next(n);
          try {
            planned = balancer.plan(read);
            has_failed = next.has_failed();
          } catch (std::bad_alloc const&) {}
        }
        if (!is_first) { EXPECT_TRUE(balancer.plan(read)); }
        return planned;
      };
      ballast::result<void> other;
      std::jthread peer([&] { other = plan(std::move(comms[1])); });
      ballast::result<void> const own = plan(std::move(comms[0]));
      peer.join();
      EXPECT_TRUE(own);
      EXPECT_EQ(other.has_value(), !has_failed);
      if (!other) { EXPECT_NE(other.error().code, error_code::timed_out) << other.error().message; }
    }
  }
}

TEST(StepBalancer, KeepsGroupsOfAttentionWhole)
{
  ballast::run_ranks(2, [](thread_communicator& comm) {
    std::vector<ballast::bag> const both{{rank_id{0}, 2}};
    step_balancer balancer(comm, ballast::bag_layout(both), layer_cost, refine{},
                           {.query_heads = 28, .kv_heads = 7});
    ASSERT_TRUE(balancer.plan(std::vector<tokens>{5, 40}));
    EXPECT_EQ(balancer.heads().share(0, 28).count, 16);
    EXPECT_EQ(balancer.heads().share(1, 7).count, 3);
    std::vector<std::int64_t> const there(balancer.rows_computed() * 28, 7);
    std::vector<std::int64_t> whole(balancer.heads().heads_of_sequences(balancer.gpu(), 28));
    ASSERT_TRUE(balancer.to_heads(ballast::heads_of(there, whole, 28, 1)));
    EXPECT_THAT(whole, testing::Each(7));
  });
}

TEST(StepBalancerDeathTest, RefusesExchangesWithoutAPlanAndOptionsThatMakeNone)
{
  auto comms = thread_communicator::make(1);
  auto const bags = ballast::one_gpu_bags(1);
  step_balancer balancer(comms[0], bags, layer_cost, refine{});
  EXPECT_DEATH(static_cast<void>(balancer.route()), "no step was planned, or planning it failed");
  EXPECT_DEATH(static_cast<void>(balancer.planned()), "there is no plan");
  ASSERT_TRUE(balancer.plan({}));
  EXPECT_DEATH(static_cast<void>(balancer.to_heads()), "query_heads is 0");
  ASSERT_FALSE(balancer.plan(std::vector<tokens>{-1}));
  EXPECT_DEATH(static_cast<void>(balancer.reverse_route()), "there is no plan");
  EXPECT_DEATH(
      step_balancer(comms[0], bags, document_cost, refine{}, step_options<prompted_document>{}),
      "length_of is null");
  std::vector<std::int64_t> const keys{1};
  EXPECT_DEATH(step_balancer(comms[0], bags, layer_cost, {.limits = {.together = keys}}),
               "has an array of samples");
  EXPECT_DEATH(step_balancer(comms[0], bags, layer_cost, ballast::greedy_knapsack{},
                             {.microbatches = {.number = 2}}),
               "leave the policy out");
  EXPECT_DEATH(
      step_balancer(comms[0], bags, layer_cost, refine{}, {.query_heads = 28, .kv_heads = 5}),
      "groups of 28 query heads and 5 key-value heads whole, and bag 0 has 1 GPU");
  EXPECT_DEATH(step_balancer(comms[0], bags, layer_cost, refine{}, {.gpus_per_rank = 0}),
               "gpus_per_rank is 0");
  EXPECT_DEATH(
      step_balancer(comms[0], bags, layer_cost, refine{}, {.homes = true, .gpus_per_rank = 2}),
      "home to all bags");
  step_balancer pair(comms[0], ballast::one_gpu_bags(2), layer_cost, refine{},
                     {.query_heads = 2, .gpus_per_rank = 2});
  ASSERT_TRUE(pair.plan(std::vector<tokens>{4}));
  EXPECT_DEATH(static_cast<void>(pair.to_heads()), "between GPUs; do it in a communicator");
  EXPECT_DEATH(static_cast<void>(pair.heads(2)), "GPU 2 of a rank that has 2");
}

}  // namespace
