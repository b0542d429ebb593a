// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/cut_chain.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

namespace cut_chain_test {

using namespace ballast;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<chain_layer> layers_of(std::vector<std::int64_t> const& costs)
{
  std::vector<chain_layer> layers;
  for (std::int64_t const cost : costs) { layers.push_back({.cost = cost}); }
  return layers;
}

struct drawn_chain {
  std::vector<chain_layer> layers;
  std::vector<std::int64_t> capacities;
  std::vector<std::int64_t> held;
  std::size_t ranks = 1;
  std::size_t chunks = 1;

  [[nodiscard]] chain_ranks on() const { return {ranks, chunks, capacities, held}; }
};

drawn_chain draw(ballast::random_source& random, std::size_t most_layers, std::size_t most_chunks)
{
  drawn_chain drawn;
  drawn.ranks = 1 + random.below(4);
  drawn.chunks = 1 + random.below(most_chunks);
  drawn.layers.resize(drawn.ranks * drawn.chunks + random.below(most_layers));
  bool const is_even = random.below(3) == 0;
  for (chain_layer& layer : drawn.layers) {
    layer = {is_even ? 7 : random.between(0, 20), random.between(0, 5), random.between(0, 3)};
  }
  if (random.below(2) == 0) {
    for (std::size_t stage = 0; stage < drawn.ranks * drawn.chunks; ++stage) {
      drawn.held.push_back(random.between(0, 4));
    }
  }
  if (random.below(2) == 0) {
    for (std::size_t rank = 0; rank < drawn.ranks; ++rank) {
      drawn.capacities.push_back(random.between(0, 60));
    }
  }
  return drawn;
}

struct extreme_loads {
  std::int64_t largest;
  std::int64_t smallest;
};

// Oracle: tries all cuts whose ranks lack so many bytes at most, and adds up layer by layer. The least
// largest load, then the largest smallest one.
std::optional<extreme_loads> least_by_trying(drawn_chain const& chain, std::int64_t lacking = 0)
{
  std::vector<std::int64_t> loads(chain.ranks, 0);
  std::vector<std::int64_t> bytes(chain.ranks, 0);
  std::optional<extreme_loads> best;
  std::size_t const stages = chain.ranks * chain.chunks;
  auto const go_on = [&](auto const& self, std::size_t stage, std::size_t layer) -> void {
    if (stage == stages) {
      if (layer != chain.layers.size()) { return; }
      auto const [smallest, largest] = std::ranges::minmax(loads);
      if (!best || largest < best->largest ||
          (largest == best->largest && smallest > best->smallest)) {
        best = {largest, smallest};
      }
      return;
    }
    std::size_t const rank = stage % chain.ranks;
    std::int64_t const held = chain.held.empty() ? 1 : chain.held[stage];
    auto const load_before = loads[rank];
    auto const bytes_before = bytes[rank];
    for (std::size_t end = layer; end < chain.layers.size(); ++end) {
      loads[rank] += chain.layers[end].cost;
      bytes[rank] += chain.layers[end].state_bytes + held * chain.layers[end].activation_bytes;
      if (!chain.capacities.empty() && bytes[rank] > chain.capacities[rank] + lacking) { break; }
      self(self, stage + 1, end + 1);
    }
    loads[rank] = load_before;
    bytes[rank] = bytes_before;
  };
  go_on(go_on, 0, 0);
  return best;
}

void expect_true(drawn_chain const& chain, chain_cut const& plan)
{
  std::size_t const stages = chain.ranks * chain.chunks;
  ASSERT_EQ(plan.first.size(), stages + 1);
  EXPECT_EQ(plan.first.front(), 0U);
  EXPECT_EQ(plan.first.back(), chain.layers.size());
  std::vector<std::int64_t> loads(chain.ranks, 0);
  std::vector<std::int64_t> bytes(chain.ranks, 0);
  for (std::size_t stage = 0; stage < stages; ++stage) {
    ASSERT_LT(plan.first[stage], plan.first[stage + 1]);
    for (std::size_t at = plan.first[stage]; at < plan.first[stage + 1]; ++at) {
      loads[stage % chain.ranks] += chain.layers[at].cost;
      bytes[stage % chain.ranks] +=
          chain.layers[at].state_bytes +
          (chain.held.empty() ? 1 : chain.held[stage]) * chain.layers[at].activation_bytes;
    }
  }
  EXPECT_EQ(plan.loads, loads);
  EXPECT_EQ(plan.makespan, std::ranges::max(loads));
  EXPECT_LE(plan.lower_bound, plan.makespan);
  for (std::size_t rank = 0; rank < chain.capacities.size(); ++rank) {
    EXPECT_LE(bytes[rank], chain.capacities[rank]);
  }
}

TEST(CutChain, CountsEmbeddingAndHeadAsLayers)
{
  // [cut]
  // An embedding of cost 3, 30 layers of cost 1, head and loss of cost 6, on four ranks.
  std::vector<ballast::chain_layer> layers(32, {.cost = 1});
  layers.front().cost = 3;
  layers.back().cost = 6;
  auto const cut = ballast::cut_chain(layers, {.ranks = 4}).value();
  // cut.makespan is 10, and no cut is better. Stages begin with cut.first: 0, 7, 17 and 27.
  // [cut]
  EXPECT_EQ(cut.makespan, 10);
  EXPECT_TRUE(cut.proven_optimal());
  EXPECT_EQ(cut.first, (std::vector<std::size_t>{0, 7, 17, 27, 32}));
}

/// Returns whether there was a cut.
bool expect_exact(drawn_chain const& chain)
{
  auto const best = least_by_trying(chain);
  auto const plan = cut_chain(chain.layers, chain.on());
  EXPECT_EQ(plan.has_value(), best.has_value()) << (plan ? "" : plan.error().message);
  if (plan && best) {
    expect_true(chain, *plan);
    EXPECT_EQ(plan->makespan, best->largest);
    if (chain.chunks == 1) { EXPECT_EQ(std::ranges::min(plan->loads), best->smallest); }
    EXPECT_TRUE(plan->proven_optimal());
  }
  if (plan || best) { return true; }
  EXPECT_EQ(plan.error().code, error_code::infeasible);
  std::int64_t lacking = 1;
  while (!least_by_trying(chain, lacking)) { ++lacking; }
  EXPECT_THAT(plan.error().message, HasSubstr("the nearest lacks " + std::to_string(lacking) +
                                              (lacking == 1 ? " byte " : " bytes ")));
  return false;
}

TEST(CutChain, IsExact)  // Ensures (1) (2) (3)
{
  ballast::random_source random(11);
  int refused = 0;
  int const trials = ballast_test::trials_of(6000);
  for (int trial = 0; trial < trials && !HasFailure(); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_chain const chain = trial % 3 == 0 ? draw(random, 8, 3) : draw(random, 10, 1);
    if (chain.ranks * chain.chunks <= 9) { refused += expect_exact(chain) ? 0 : 1; }
  }
  EXPECT_GT(refused, 0);
}

TEST(CutChain, LeavesNoStageWithoutWorkAndIsLevel)  // Ensures (2)
{
  auto const loads_of = [](std::vector<std::int64_t> const& costs, std::size_t ranks) {
    auto loads = cut_chain(layers_of(costs), {.ranks = ranks}).value().loads;
    std::ranges::sort(loads);
    return loads;
  };
  EXPECT_THAT(loads_of({0, 0, 0, 1, 1, 1, 1, 1, 1}, 4), testing::ElementsAre(1, 1, 2, 2));
  std::vector<std::int64_t> costs(34, 2);
  costs.front() = 1;
  costs.back() = 5;
  EXPECT_EQ(loads_of(costs, 8).front(), 8);
  EXPECT_EQ(loads_of(costs, 8).back(), 10);
  costs.assign(49, 0);
  std::fill_n(costs.begin() + 3, 42, 1);
  EXPECT_EQ(loads_of(costs, 16).front(), 2);
  EXPECT_EQ(loads_of(costs, 16).back(), 3);
}

TEST(CutChain, LeavesTheLastStagesMostLayers)  // Ensures (2)
{
  auto const plan = cut_chain(layers_of({5, 1, 1, 1, 1}), {.ranks = 2}).value();
  EXPECT_EQ(plan.makespan, 5);
  EXPECT_EQ(plan.first, (std::vector<std::size_t>{0, 1, 5}));
  EXPECT_EQ(cut_chain(layers_of({1, 1, 1, 5, 0}), {.ranks = 3}).value().first,
            (std::vector<std::size_t>{0, 1, 3, 5}));
}

// Oracle: a table of the least largest stage of every beginning of the chain.
std::int64_t least_by_table(std::vector<chain_layer> const& layers, std::size_t stages)
{
  constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> best(layers.size() + 1, none);
  best[0] = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    std::vector<std::int64_t> next(layers.size() + 1, none);
    for (std::size_t begin = 0; begin < layers.size(); ++begin) {
      std::int64_t load = 0;
      for (std::size_t end = begin; end < layers.size() && best[begin] != none; ++end) {
        load += layers[end].cost;
        next[end + 1] = std::min(next[end + 1], std::max(best[begin], load));
      }
    }
    best = next;
  }
  return best.back();
}

TEST(CutChain, AgreesWithATableOnLongChains)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < ballast_test::trials_of(200); ++trial) {
    std::size_t const ranks = 1 + random.below(16);
    std::vector<chain_layer> layers(ranks + random.below(80));
    for (chain_layer& layer : layers) {
      layer.cost = random.between(0, 1) * random.between(0, 1 << 20);
    }
    EXPECT_EQ(cut_chain(layers, {.ranks = ranks}).value().makespan, least_by_table(layers, ranks));
  }
}

TEST(CutChain, SaysWhereNotAllCutsWereTried)  // Errors
{
  std::vector<chain_layer> const layers(60, {.cost = 1, .state_bytes = 1});
  std::vector<std::int64_t> const capacities(4, 9);
  EXPECT_EQ(
      cut_chain(layers, {.ranks = 4, .chunks = 4, .most = capacities}).error().message,
      "the search gave up: it found no cut of 60 layers into 16 stages within what ranks hold; "
      "a cut that was found lacks 6 bytes on a rank, so raise most or use more "
      "ranks");
}

TEST(CutChain, KeepsItsPromisesWhereNotAllCutsAreTried)  // Ensures (1) (3)
{
  ballast::random_source random(14);
  double gaps = 0;
  int const trials = ballast_test::trials_of(100);
  for (int trial = 0; trial < trials; ++trial) {
    drawn_chain chain = draw(random, 60, 1);
    chain.chunks = 2;
    chain.ranks = 4;
    chain.capacities.clear();
    chain.held.clear();
    chain.layers.resize(40 + random.below(60), {.cost = 15});
    auto const plan = cut_chain(chain.layers, chain.on()).value();
    expect_true(chain, plan);
    gaps += plan.gap();
  }
  EXPECT_LE(gaps, 0.02 * trials) << "gap in the mean: " << gaps / trials;
}

TEST(CutChain, CountsWhatStagesHold)
{
  // Two microbatches on the first stage: it has room for one layer of 10 + 2 x 5 bytes.
  std::vector<chain_layer> const layers(4, {.cost = 1, .state_bytes = 10, .activation_bytes = 5});
  std::vector<std::int64_t> const capacities = {39, 45};
  std::vector<std::int64_t> const held = {2, 1};
  auto const plan = cut_chain(layers, {2, 1, capacities, held}).value();
  EXPECT_EQ(plan.first, (std::vector<std::size_t>{0, 1, 4}));
  EXPECT_EQ(plan.makespan, 3);
}

TEST(CutChain, RefusesInASentence)  // Errors
{
  auto const why = [](auto const& layers, chain_ranks const& on) {
    return cut_chain(layers, on).error();
  };
  EXPECT_EQ(why(layers_of({1, 2, 3}), {.ranks = 4}).message,
            "a chain of 3 layers cannot be cut for 4 ranks with 1 chunk each, since a stage has at "
            "least one layer; use fewer stages");
  EXPECT_EQ(why(layers_of({1, 2, 3}), {.ranks = 0}).code, error_code::out_of_range);
  EXPECT_EQ(why(layers_of({1, -2, 3}), {.ranks = 2}).position, 1U);
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(why(layers_of({1, most, 3}), {.ranks = 2}).position, 1U);
  std::vector<std::int64_t> const one = {5};
  std::vector<std::int64_t> const negative = {5, -1};
  EXPECT_EQ(why(layers_of({1, 2}), {.ranks = 2, .most = one}).position, 1U);
  EXPECT_EQ(why(layers_of({1, 2}), {.ranks = 2, .most = negative}).position, 1U);
  EXPECT_EQ(why(layers_of({1, 2}), {.ranks = 2, .held = one}).position, 1U);
  EXPECT_EQ(why(layers_of({1, 2}), {.ranks = 2, .held = negative}).position, 1U);
  std::vector<chain_layer> const heavy(3, {.cost = 1, .state_bytes = 10});
  std::vector<std::int64_t> const small = {12, 15};
  EXPECT_EQ(
      why(heavy, {.ranks = 2, .most = small}).message,
      "no cut of 3 layers into 2 stages within what ranks hold; the nearest lacks 5 bytes on a "
      "rank, so raise most or use more ranks");
}

TEST(CutChain, WorksUpToTheLargestSums)
{
  constexpr std::int64_t half = std::int64_t{1} << 61;
  auto const plan = cut_chain(layers_of({half, half - 1}), {.ranks = 2}).value();
  EXPECT_EQ(plan.makespan, half);
  EXPECT_EQ(cut_chain(layers_of({0, 0, 0}), {.ranks = 1, .chunks = 3}).value().makespan, 0);
}

// 10^9 FLOP a second on a GPU, so that a token of 1,000 FLOP takes a microsecond.
ballast::interpolated_throughput speed()
{
  std::array<ballast::tokens, 1> const size{1};
  std::array<double, 1> const flop{1e9};
  return *ballast::interpolated_throughput::make(size, flop);
}

module_profile profile_of(std::uint32_t layers)
{
  return {.name = "llm",
          .layers = layers,
          .flops = {.linear = 1000ULL * layers},
          .degrees = {{.tp = 1, .linear = speed()}}};
}

TEST(CutLayers, ShortensTheStepOfUnequalLayers)
{
  module_profile profile = profile_of(12);
  // [cut_layers]
  // Ten layers of cost 2, before them an embedding of 1, behind them head and loss of 9.
  std::vector<std::int64_t> costs(12, 2);
  costs.front() = 1;
  costs.back() = 9;
  profile = ballast::cut_layers(profile, costs).value();
  // profile.cuts[3] are the parts of four stages: the last has the head alone.
  // [cut_layers]
  using part = ballast::module_profile::stage_part;
  EXPECT_THAT(profile.cuts[3], ElementsAre(part{4, 7}, part{3, 6}, part{4, 8}, part{1, 9}));

  // Four tokens a step in four microbatches on four GPUs. A token takes 12 us in all, of which the
  // stages' parts are 7, 6, 8 and 9 thirtieths.
  std::array<ballast::tokens, 1> const sizes{1};
  std::array<ballast::tokens, 4> const batch{1, 1, 1, 1};
  ballast::layout_problem const problem{
      .modules = {&profile, 1}, .sizes = sizes, .global_batch = 4, .kinds = {{.gpus = 4}}};
  std::array<ballast::module_layout, 1> const four{{{.pp = 4}}};
  auto const layout = ballast::price_layout(problem, four, 4).value();
  EXPECT_EQ(layout.step, 7 * 3'600'000);  // (4 + 4 - 1) of the costliest stage's
  auto const simulated = ballast::simulate_layout(problem, layout, batch).value();
  // The costliest stage works for 4 x 3.6 us, before and after which the others take 21/30 of 12 us.
  EXPECT_EQ(simulated, 4 * 3'600'000 + 8'400'000);

  // In equal counts the head's stage has two layers more, of cost 4.
  profile.cuts[3] = {{3, 5}, {3, 6}, {3, 6}, {3, 13}};
  auto const in_equal_counts = ballast::simulate_layout(problem, layout, batch).value();
  EXPECT_EQ(in_equal_counts, 4 * 5'200'000 + 6'800'000);
  EXPECT_LT(simulated, in_equal_counts);
}

TEST(CutLayers, RefusesInASentence)  // Errors
{
  std::vector<std::int64_t> const two = {1, 2};
  EXPECT_EQ(cut_layers(profile_of(3), two).error().message,
            "module llm has 3 layers, and costs were given for 2; give one for each, the embedding "
            "and the head among them");
  std::vector<std::int64_t> const negative = {1, -2};
  EXPECT_EQ(cut_layers(profile_of(2), negative).error().position, 1U);
  std::vector<std::int64_t> const large = {1, std::int64_t{1} << 31};
  EXPECT_THAT(cut_layers(profile_of(2), large).error().message, HasSubstr("a coarser unit"));
  std::vector<std::int64_t> const none = {0, 0};
  EXPECT_THAT(cut_layers(profile_of(2), none).error().message, HasSubstr("all cost 0"));

  module_profile profile = cut_layers(profile_of(2), two).value();
  profile.cuts[1][0].layers = 2;
  EXPECT_THAT(profile.check().error().message,
              HasSubstr("was cut for 2 stages into parts that are not its layers"));
  profile.layers = 3;
  EXPECT_THAT(profile.check().error().message, HasSubstr("cut its layers anew"));
}

}  // namespace cut_chain_test
