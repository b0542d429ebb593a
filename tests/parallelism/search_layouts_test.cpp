// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/search_layouts.hpp>  // first: proves it is self-contained

#include "../support/all_layouts.hpp"
#include "../support/random_modules.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/model_layout.hpp>
#include <ballast/parallelism/simulate_layout.hpp>

namespace {

using namespace ballast;
using testing::HasSubstr;

constexpr std::uint64_t memory_of_gpu = std::uint64_t{1} << 30;

bool is_within(ballast::model_layout const& layout, layout_problem const& problem,
               ballast::layout_limits const& limits)
{
  auto const& llm = layout.modules.back();
  auto kinds = layout.kinds;
  kinds.resize(layout.modules.size(), 0);
  for (std::size_t module = 0; module < problem.modules.size(); ++module) {
    auto const& own = layout.modules[module];
    bool const is_llm = module + 1 == problem.modules.size();
    bool const is_alike = own.group() == llm.group() && own.dp == llm.dp;
    if ((limits.has_one_group && !is_alike) || (limits.has_one_stage && !is_llm && own.pp > 1) ||
        (limits.group != 0 && own.group() != limits.group) ||
        (limits.pp != 0 && is_llm && own.pp != limits.pp) ||
        (limits.most_gpus && own.gpus() > limits.most_gpus(kinds)[module])) {
      return false;
    }
  }
  return true;
}

/// Of each layout the best, the best first.
std::vector<simulated_layout> best_of_each(std::vector<simulated_layout> ranked)
{
  std::sort(ranked.begin(), ranked.end(), ballast::detail::simulates_before);
  std::vector<simulated_layout> best;
  for (simulated_layout const& each : ranked) {
    bool const is_new = std::ranges::none_of(best, [&](simulated_layout const& other) {
      return other.layout.modules == each.layout.modules && other.layout.kinds == each.layout.kinds;
    });
    if (is_new) { best.push_back(each); }
  }
  return best;
}

/// Every layout with every number of microbatches, simulated task by task; of each layout the best,
/// or all, the best first.
std::vector<simulated_layout> all_simulated(layout_problem const& problem,
                                            std::span<tokens const> batches,
                                            layout_search_options const& asked = {},
                                            bool with_all_numbers = false)
{
  auto all = ballast_test::all_layouts(problem, true, asked.virtual_stages);
  std::erase_if(all, [&](ballast::model_layout& layout) {
    if (!is_within(layout, problem, asked.limits)) { return true; }
    std::uint64_t const bytes =
        ballast::dealt_memory(problem, layout, batches, asked.dealing).value();
    layout.memory_bytes = std::max(layout.memory_bytes, bytes);
    return bytes > problem.kinds[0].memory_bytes;
  });
  auto ranked = ballast::rank_by_simulation(problem, all, batches, asked.dealing).value();
  return with_all_numbers ? ranked : best_of_each(std::move(ranked));
}

/// Compares a search with all layouts; returns whether there was one.
bool expect_best_of_all(layout_problem const& problem, std::span<tokens const> batches,
                        std::size_t best, std::string const& where,
                        layout_search_options asked = {})
{
  asked.best = best;
  auto expected = all_simulated(problem, batches, asked);
  auto const found = search_layouts(problem, batches, asked);
  if (expected.empty()) {
    EXPECT_FALSE(found) << where;
    EXPECT_EQ(found.error().code, error_code::infeasible) << where;
    return false;
  }
  if (expected.size() > best) { expected.resize(best); }
  EXPECT_TRUE(found) << where << ": " << found.error().message;
  if (found) {
    EXPECT_TRUE(found->layouts == expected) << where;
    EXPECT_TRUE(found->is_proven) << where;
    EXPECT_EQ(found->lower_bound, expected.front().simulated) << where;
    EXPECT_LE(found->any_dealing, expected.front().simulated) << where;
    for (auto const& [layout, simulated] : found->layouts) {
      EXPECT_LE(
          found->any_dealing,
          simulate_layout(problem, layout, batches, ballast::sample_dealing::as_drawn).value())
          << where;
    }
  }
  return true;
}

/// A problem of up to three modules, and one or two batches.
struct drawn_problem {
  ballast_test::random_model model;
  layout_problem problem;
  std::vector<tokens> batches;
  std::vector<std::size_t> feeds;

  drawn_problem(ballast::random_source& random, std::size_t modules, std::uint32_t most_gpus,
                std::uint32_t most_batch, bool is_large)
      : model(ballast_test::draw_model(random, modules, 1 + random.below(16), is_large,
                                       memory_of_gpu))
  {
    std::array<std::uint32_t, 5> const nodes{8, 8, 8, 4, 6};
    problem.global_batch = static_cast<std::uint32_t>(1 + random.below(most_batch));
    problem.kinds[0].gpus = static_cast<std::uint32_t>(1 + random.below(most_gpus));
    problem.kinds[0].gpus_per_node = nodes[random.below(nodes.size())];
    problem.kinds[0].memory_bytes = memory_of_gpu / (1 + random.below(3));
    if (random.below(2) == 0) { problem.estimate = step_estimate::mean_step; }
    if (random.below(3) == 0) { problem.memory_quantile = {9, 10}; }
    if (random.below(2) == 0) {  // from all that counts to next to nothing
      problem.kinds[0].bytes_per_second = std::uint64_t{1} << (24 + random.below(16));
      for (auto& module : model.modules) { module.boundary_bytes = random.below(1 << 16); }
    }
    batches = ballast_test::draw_model(random, modules,
                                       problem.global_batch * (1 + random.below(2)), true, 1)
                  .sizes;
    problem.modules = model.modules;
    problem.sizes = model.sizes;
    if (random.below(2) == 0) { feeds = ballast_test::random_feeds(random, modules); }
    problem.feeds = feeds;
  }
};

TEST(SearchLayouts, FindsWhatSimulatingAllLayoutsFinds)  // Ensures (1) (2)
{
  ballast::random_source random(18);
  int feasible = 0;
  int const trials = ballast_test::trials_of(60);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    bool const three = modules == 3;
    drawn_problem const drawn(random, modules, three ? 10 : 16, three ? 8 : 16,
                              random.below(3) == 0);
    std::size_t const best = std::array<std::size_t, 4>{1, 1, 5, 200}[random.below(4)];
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    feasible += expect_best_of_all(drawn.problem, drawn.batches, best, std::to_string(trial));
  }
  EXPECT_GE(feasible, trials / 4);
  EXPECT_LT(feasible, trials);
}

// All layouts, numbers and schedules, each simulated by itself; the search may look at all of them.
TEST(SearchLayouts, FindsTheBestScheduleOfAllLayouts)  // Ensures (1) (2)
{
  using enum layout_schedule;
  ballast::random_source random(63);
  int split = 0;
  int found_one = 0;
  int const trials = ballast_test::trials_of(30);
  for (int trial = 0; trial < trials; ++trial) {
    drawn_problem const drawn(random, 1 + random.below(2), 6, 6, random.below(2) == 0);
    layout_search_options asked{.best = 1 + random.below(3)};
    asked.schedules = {zero_bubble, twice_zero_bubble, zero_bubble_v, planned};
    asked.most_scheduled = 10'000;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<simulated_layout> expected;
    for (simulated_layout const& whole : all_simulated(drawn.problem, drawn.batches, asked, true)) {
      for (layout_schedule const schedule :
           {whole_backwards, zero_bubble, twice_zero_bubble, zero_bubble_v, planned}) {
        simulated_layout each = whole;
        each.layout.schedule = schedule;
        auto const step = simulate_layout(drawn.problem, each.layout, drawn.batches);
        if (!step) { continue; }
        each.simulated = *step;
        auto const bytes = dealt_memory(drawn.problem, each.layout, drawn.batches).value();
        auto const priced =
            price_layout(drawn.problem, whole.layout.modules, whole.layout.microbatches);
        each.layout.memory_bytes = std::max(bytes, priced->memory_bytes);
        EXPECT_LE(each.layout.memory_bytes, drawn.problem.kinds[0].memory_bytes);
        expected.push_back(each);
      }
    }
    expected = best_of_each(std::move(expected));
    auto const found = search_layouts(drawn.problem, drawn.batches, asked);
    ASSERT_EQ(found.has_value(), !expected.empty());
    if (!found) { continue; }
    ++found_one;
    expected.resize(std::min(expected.size(), asked.best));
    EXPECT_TRUE(found->layouts == expected);
    EXPECT_TRUE(found->is_proven);
    EXPECT_EQ(found->lower_bound, expected.front().simulated);
    EXPECT_LE(found->any_dealing, expected.front().simulated);
    split += expected.front().layout.schedule != whole_backwards ? 1 : 0;
    // What is looked at is limited: then the bound says so.
    asked.most_scheduled = 1;
    auto const few = search_layouts(drawn.problem, drawn.batches, asked).value();
    EXPECT_GE(few.layouts.front().simulated, expected.front().simulated);
    EXPECT_LE(few.lower_bound, expected.front().simulated);
    EXPECT_TRUE(!few.is_proven || few.layouts == expected);
  }
  EXPECT_GE(split, 1);
  if (!ballast_test::is_sanitized) { EXPECT_GT(found_one, split); }  // among all draws
}

TEST(SearchLayouts, FindsTheBestWithinLimitsAndAsDrawn)  // Ensures (1) (2)
{
  ballast::random_source random(31);
  int feasible = 0;
  int const trials = ballast_test::trials_of(60);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    drawn_problem drawn(random, modules, modules == 3 ? 10 : 16, modules == 3 ? 8 : 16, false);
    drawn.problem.may_leave_gpus = random.below(2) == 0;
    layout_search_options asked;
    asked.limits.has_one_group = random.below(2) == 0;
    asked.limits.has_one_stage = random.below(3) == 0;
    if (random.below(4) == 0) {
      asked.limits.group = static_cast<std::uint32_t>(1 + random.below(2));
    }
    if (random.below(4) == 0) { asked.limits.pp = static_cast<std::uint32_t>(1 + random.below(3)); }
    if (random.below(4) == 0) {
      std::uint64_t const most = 1 + random.below(10);
      asked.limits.most_gpus = [most](std::vector<std::size_t> const& kinds) {
        return std::vector<std::uint64_t>(kinds.size(), most);
      };
    }
    if (random.below(2) == 0) { asked.dealing = ballast::sample_dealing::as_drawn; }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    feasible += expect_best_of_all(drawn.problem, drawn.batches, 3, std::to_string(trial), asked);
  }
  EXPECT_GE(feasible, trials / 6);
  EXPECT_LT(feasible, trials);
}

TEST(SearchLayouts, FindsTheBestKindsAndLeavesGpus)  // Ensures (1) (2)
{
  ballast::random_source random(23);
  int feasible = 0;
  int split = 0;
  int left = 0;
  int frozen = 0;
  int const trials = ballast_test::is_sanitized ? 4 : ballast_test::trials_of(80);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    drawn_problem drawn(random, modules, modules == 3 ? 5 : 8, 8, random.below(3) == 0);
    auto& problem = drawn.problem;
    problem.may_leave_gpus = random.below(2) == 0;
    problem.state.is_optimizer_shared = random.below(2) == 0;
    std::vector<module_role> roles(modules);
    for (module_role& role : roles) {
      role.is_trained = random.below(2) == 0;
      role.is_input_trained = random.below(4) == 0;
      role.virtual_stages = random.below(3) == 0 ? 2 : 1;
    }
    for (std::size_t module = 0; module < modules; ++module) {
      drawn.model.modules[module].cuts.clear();
      if (drawn.model.modules[module].layers == 1) { roles[module].virtual_stages = 1; }
    }
    if (random.below(4) != 0) {
      auto other = problem.kinds[0];
      other.gpus = static_cast<std::uint32_t>(1 + random.below(4));
      other.speed = {random.between(1, 4), random.between(1, 4)};
      other.bytes_per_second /= static_cast<std::uint64_t>(1 + random.below(3));
      problem.kinds.push_back(other);
      if (random.below(3) == 0) { roles[random.below(modules)].kinds = {random.below(2)}; }
    }
    problem.roles = roles;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    if (!expect_best_of_all(problem, drawn.batches, 1 + random.below(5), std::to_string(trial))) {
      continue;
    }
    ++feasible;
    model_layout const best = search_layouts(problem, drawn.batches)->layouts.front().layout;
    std::uint64_t there = 0;
    for (auto const& kind : problem.kinds) { there += kind.gpus; }
    left += best.gpus() < there ? 1 : 0;
    split += !best.kinds.empty() && best.kinds.front() != best.kinds.back() ? 1 : 0;
    frozen += roles[0].is_trained ? 0 : 1;
  }
  EXPECT_GE(feasible, trials / 4);
  EXPECT_GE(split, trials / 20);
  EXPECT_GE(left, trials / 20);
  EXPECT_GE(frozen, trials / 10);
}

TEST(SearchLayouts, FindsWhichModulesShardTheirWeights)  // Ensures (1) (2)
{
  ballast::random_source random(31);
  using ballast::weight_sharding;
  std::array const asked{weight_sharding::whole, weight_sharding::sharded, weight_sharding::either,
                         weight_sharding::either};
  int feasible = 0;
  int sharded = 0;
  int whole = 0;
  int const trials = ballast_test::is_sanitized ? 4 : ballast_test::trials_of(60);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(2);
    drawn_problem drawn(random, modules, modules == 2 ? 8 : 12, 12, random.below(3) == 0);
    std::vector<module_role> roles(modules);
    for (std::size_t module = 0; module < modules; ++module) {
      roles[module].is_trained = random.below(3) != 0;
      roles[module].weights = asked[random.below(asked.size())];
      bool const is_alike = drawn.model.modules[module].cuts.empty();
      bool const may = is_alike && drawn.model.modules[module].layers > 1;
      roles[module].virtual_stages = may && random.below(3) == 0 ? 2 : 1;
    }
    drawn.problem.roles = roles;
    drawn.problem.state.is_optimizer_shared = random.below(2) == 0;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    if (!expect_best_of_all(drawn.problem, drawn.batches, 5, std::to_string(trial), {2})) {
      continue;
    }
    ++feasible;
    auto const best = search_layouts(drawn.problem, drawn.batches)->layouts.front().layout;
    for (std::size_t module = 0; module < modules; ++module) {
      if (roles[module].weights != weight_sharding::either) { continue; }
      ++(best.modules[module].is_sharded ? sharded : whole);
    }
  }
  EXPECT_GE(feasible, trials / 4);
  if (!ballast_test::is_sanitized) {
    EXPECT_GT(sharded, 0);
    EXPECT_GT(whole, 0);
  }
}

TEST(SearchLayouts, FindsTheBestGroupsOfGpus)  // Ensures (1) (2)
{
  ballast::random_source random(27);
  int feasible = 0;
  int grouped = 0;
  int const trials = ballast_test::is_sanitized ? 2 : 40;
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(2);
    drawn_problem drawn(random, modules, 16, 16, random.below(3) == 0);
    ballast_test::add_groups(random, drawn.model.modules);
    drawn.problem.modules = drawn.model.modules;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    if (!expect_best_of_all(drawn.problem, drawn.batches, 5, std::to_string(trial))) { continue; }
    ++feasible;
    auto const best = search_layouts(drawn.problem, drawn.batches)->layouts.front();
    grouped += best.layout.modules.back().sp + best.layout.modules.back().ep > 2 ? 1 : 0;
  }
  EXPECT_GE(feasible, trials / 4);
  EXPECT_GT(grouped, 0);
  EXPECT_LT(grouped, feasible + (trials < 40 ? 1 : 0));  // of few, all may be grouped
}

TEST(SearchLayouts, FindsTheBestLayoutOfEncodersSideBySide)  // Ensures (1)
{
  ballast::random_source random(25);
  int feasible = 0;
  int shorter = 0;
  int const trials = ballast_test::trials_of(30);
  std::vector<std::size_t> const both_feed_the_llm{2, 2};
  for (int trial = 0; trial < trials; ++trial) {
    drawn_problem drawn(random, 3, 10, 8, random.below(3) == 0);
    drawn.problem.feeds = {};
    auto const in_turn = search_layouts(drawn.problem, drawn.batches);
    drawn.problem.feeds = both_feed_the_llm;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    if (!expect_best_of_all(drawn.problem, drawn.batches, 3, std::to_string(trial))) { continue; }
    ++feasible;
    auto const beside = search_layouts(drawn.problem, drawn.batches);
    shorter += !in_turn || beside->layouts[0].simulated < in_turn->layouts[0].simulated ? 1 : 0;
  }
  EXPECT_GE(feasible, trials / 4);
  EXPECT_GE(shorter, feasible / 2);
}

TEST(SearchLayouts, FindsTheBestNumberOfVirtualStages)  // Ensures (1) (2)
{
  ballast::random_source random(23);
  int feasible = 0;
  int interleaved = 0;
  for (int trial = 0; trial < ballast_test::trials_of(24); ++trial) {
    std::size_t const modules = 1 + random.below(3);
    bool const three = modules == 3;
    drawn_problem drawn(random, modules, three ? 10 : 16, three ? 8 : 16, random.below(3) == 0);
    drawn.model.modules.back().layers *= 4;
    drawn.problem.kinds[0].memory_bytes = memory_of_gpu * 4;
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> const asked{2, 4};
    if (!expect_best_of_all(drawn.problem, drawn.batches, 5, std::to_string(trial),
                            {.virtual_stages = asked})) {
      continue;
    }
    ++feasible;
    auto const best =
        search_layouts(drawn.problem, drawn.batches, {.virtual_stages = asked})->layouts.front();
    auto const plain = search_layouts(drawn.problem, drawn.batches)->layouts.front();
    EXPECT_LE(best.simulated, plain.simulated);
    interleaved += best.layout.virtual_stages > 1 ? 1 : 0;
  }
  EXPECT_GE(feasible, ballast_test::trials_of(24) / 4);
  EXPECT_GT(interleaved, 0);
}

TEST(SearchLayouts, FindsTheBestLayoutOfUnequalLayers)  // Ensures (1) (2)
{
  ballast::random_source random(48);
  int feasible = 0;
  int other = 0;
  int const trials = ballast_test::trials_of(20);
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t const modules = 1 + random.below(3);
    bool const three = modules == 3;
    drawn_problem drawn(random, modules, three ? 10 : 16, three ? 8 : 16, false);
    auto const equal = search_layouts(drawn.problem, drawn.batches);
    for (ballast::module_profile& module : drawn.model.modules) {
      if (random.below(3) == 0) { continue; }
      std::vector<std::int64_t> costs(module.layers);
      for (std::int64_t& cost : costs) { cost = random.between(1, 1000); }
      module = ballast::cut_layers(module, costs).value();
    }
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    if (!expect_best_of_all(drawn.problem, drawn.batches, 5, std::to_string(trial),
                            {.virtual_stages = {2}})) {
      continue;
    }
    ++feasible;
    auto const cut = search_layouts(drawn.problem, drawn.batches);
    other += !equal || equal->layouts[0].layout.modules != cut->layouts[0].layout.modules ? 1 : 0;
  }
  EXPECT_GE(feasible, trials / 4);
  if (!ballast_test::is_sanitized) { EXPECT_GT(other, 0); }
}

TEST(SearchLayouts, SaysHowGoodTheBestIsWhereItsWorkEnds)  // Ensures (1)
{
  ballast::random_source random(19);
  int ended = 0;
  for (int trial = 0; trial < ballast_test::trials_of(15); ++trial) {
    drawn_problem const drawn(random, 2, 12, 16, true);
    auto const expected = all_simulated(drawn.problem, drawn.batches);
    for (std::uint64_t const work : {100U, 1'000U, 10'000U, 100'000U}) {
      auto const found = search_layouts(drawn.problem, drawn.batches, {.most_work = work});
      if (!found) { continue; }
      EXPECT_LE(found->lower_bound, expected.front().simulated);
      EXPECT_EQ(found->is_out_of_work, !found->is_proven);
      EXPECT_GE(found->layouts.front().simulated, expected.front().simulated);
      EXPECT_EQ(found->gap() == 0, found->layouts.front().simulated == found->lower_bound);
      ended += found->is_out_of_work ? 1 : 0;
    }
  }
  EXPECT_GE(ended, ballast_test::trials_of(15) / 3);
}

TEST(SearchLayouts, TellsWhatItKnowsAndEndsByItself)
{
  ballast::random_source random(2048);
  auto const model = ballast_test::draw_model(random, 3, 64, true, std::uint64_t{80} << 30);
  auto const batch = ballast_test::draw_model(random, 3, 512, true, std::uint64_t{80} << 30).sizes;
  layout_problem const problem{.modules = model.modules,
                               .sizes = model.sizes,
                               .global_batch = 512,
                               .kinds = {{.gpus = 4096, .memory_bytes = std::uint64_t{80} << 30}}};
  std::vector<ballast::layout_ranking> told;
  ballast::layout_search_options options{.most_work = std::uint64_t{1} << 26};
  options.progress = [&told](auto const& known) { told.push_back(known); };
  auto const found = search_layouts(problem, batch, options).value();
  EXPECT_TRUE(found.is_out_of_work);
  EXPECT_GT(found.gap(), 0);
  ASSERT_FALSE(told.empty());
  for (std::size_t at = 1; at < told.size(); ++at) {
    EXPECT_LT(told[at].layouts[0].simulated, told[at - 1].layouts[0].simulated);
  }
  EXPECT_EQ(told.back().layouts, found.layouts);
  for (auto const& each : told) { EXPECT_LE(each.lower_bound, found.layouts[0].simulated); }
  auto const again = search_layouts(problem, batch, {.most_work = options.most_work}).value();
  EXPECT_EQ(again.layouts, found.layouts);
}

TEST(SearchLayouts, PutsEqualStepsInOrderOfTheirNumbers)  // Ensures (2)
{
  // One module whose GPUs are equally fast at any size: only the pipeline's filling costs time.
  ballast::module_profile module{
      .name = "llm", .layers = 2, .flops = {.linear = 1000}, .degrees = {{.tp = 1}, {.tp = 2}}};
  std::array<tokens, 4> const sizes{8, 8, 8, 8};
  layout_problem problem{
      .modules = {&module, 1}, .sizes = sizes, .global_batch = 4, .kinds = {{.gpus = 2}}};
  auto const found = search_layouts(problem, sizes, {.best = 10}).value();
  std::vector<std::array<std::int64_t, 5>> got;
  for (auto const& [layout, simulated] : found.layouts) {
    auto const& own = layout.modules[0];
    got.push_back({own.tp, own.pp, own.dp, layout.microbatches, simulated});
  }
  EXPECT_THAT(got, testing::ElementsAre(std::array<std::int64_t, 5>{1, 1, 2, 1, 16'000},
                                        std::array<std::int64_t, 5>{2, 1, 1, 1, 16'000},
                                        std::array<std::int64_t, 5>{1, 2, 1, 4, 20'000}));
  EXPECT_GE(found.simulated, 3U);
}

TEST(SearchLayouts, RefusesMoreGpusThanItSearches)
{
  ballast::module_profile const module{
      .name = "llm", .layers = 1, .flops = {.linear = 1}, .degrees = {{.tp = 1}}};
  std::array<tokens, 1> const sizes{3};
  layout_problem problem{.modules = {&module, 1},
                         .sizes = sizes,
                         .kinds = {{.gpus = ballast::layout_search_options::most_gpus + 1}}};
  auto const refused = search_layouts(problem, sizes);
  EXPECT_EQ(refused.error().code, error_code::out_of_range);
  EXPECT_THAT(refused.error().message,
              HasSubstr("1048577 GPUs are too many; search those of at most 1048576"));
}

TEST(SearchLayouts, SaysWhyNoLayoutFits)
{
  ballast::module_profile const sound{
      .name = "llm", .layers = 4, .flops = {.linear = 1000}, .degrees = {{.tp = 1}, {.tp = 8}}};
  std::array<ballast::module_profile, 2> modules{sound, sound};
  modules[0].name = "vision";
  std::array<ballast::tokens, 2> const sizes{3, 700};
  layout_problem problem{.modules = modules,
                         .sizes = sizes,
                         .global_batch = 16,
                         .kinds = {{.gpus = 8, .memory_bytes = 1000}}};
  std::vector<tokens> const batch(32, 3);
  ASSERT_TRUE(search_layouts(problem, batch));
  auto const refusal = [&] {
    auto const found = search_layouts(problem, batch);
    EXPECT_FALSE(found);
    return found ? ballast::error{} : found.error();
  };

  modules[1].degrees[0].memory.state_bytes = {600, 1200};  // 600 a layer at tp 1
  modules[1].degrees.pop_back();
  modules[1].degrees[0].memory.sizes = {0, 100};
  modules[1].degrees[0].memory.activation_bytes = {
      {{0, 100}, {0, 200}}};  // a byte a token and layer
  EXPECT_EQ(refusal().code, error_code::infeasible);
  EXPECT_EQ(refusal().position, 1U);
  // One layer a stage: 600 of state, and 4 stages hold 700 tokens each.
  EXPECT_THAT(refusal().message, HasSubstr("llm tp 1 pp 4 dp 1) needs 2400 bytes"));
  EXPECT_THAT(refusal().message, HasSubstr("more than the 1000 of a GPU for module llm"));

  modules[1] = sound;
  modules[0].degrees.erase(modules[0].degrees.begin());
  problem.kinds[0].gpus = 4;
  EXPECT_EQ(refusal().position, 0U);
  EXPECT_THAT(refusal().message, HasSubstr("module vision was measured at no parallel degree"));
  modules[0] = sound;
  problem.kinds[0].gpus = 1;
  EXPECT_THAT(refusal().message, HasSubstr("uses exactly 1 GPU"));
  problem.kinds[0].gpus = 0;
  EXPECT_EQ(refusal().code, error_code::out_of_range);
  problem.kinds[0].gpus = 8;
  EXPECT_EQ(search_layouts(problem, batch, {.best = 0}).error().code, error_code::out_of_range);
  EXPECT_THAT(search_layouts(problem, std::span(batch).first(3)).error().message,
              HasSubstr("batches has 3 sizes, no whole number of batches"));
  EXPECT_THAT(search_layouts(problem, batch, {.most_work = 1}).error().message,
              HasSubstr("work of 1 ended before"));
  std::vector<std::uint32_t> const twice{2, 2};
  auto const unordered = search_layouts(problem, batch, {.virtual_stages = twice});
  EXPECT_EQ(unordered.error().position, 1U);
  EXPECT_THAT(unordered.error().message,
              HasSubstr("a stage may have 2 virtual ones; give numbers"));
  for (auto& module : modules) { module.flops.linear = std::int64_t{1} << 54; }
  EXPECT_THAT(refusal().message,
              HasSubstr("takes 2^53 picoseconds or more on some stage; check the "
                        "profile's units"));
}

}  // namespace
