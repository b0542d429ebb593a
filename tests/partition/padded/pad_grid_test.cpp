// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/padded/pad_grid.hpp>  // first: proves it is self-contained

#include "../../support/all_assignments.hpp"
#include "../../support/plan_checks.hpp"
#include "../../support/test.hpp"

#include <ballast/partition/concepts.hpp>
#include <ballast/partition/padded/pad_grid.hpp>

#include <map>

namespace pad_grid_test {

using namespace ballast;
using namespace ballast_test;
using lengths_of_step = std::vector<padded_lengths>;

cost_units sum_of_both(tokens source, tokens target)
{
  return source + target;
}

// Costs as models have them: an encoder and a decoder, with cross attention, of the longer one.
struct drawn_cost {
  cost_units per_source = 0;
  cost_units per_target = 0;
  cost_units per_pair = 0;
  cost_units per_longer = 0;

  cost_units operator()(tokens source, tokens target) const
  {
    return per_source * source + per_target * target + per_pair * source * target +
           per_longer * std::max(source, target);
  }
};

drawn_cost draw_cost(random_source& random)
{
  drawn_cost cost{.per_source = random.between(0, 3)};
  cost.per_target = random.between(0, 3);
  cost.per_pair = random.below(3) == 0 ? random.between(0, 2) : 0;
  cost.per_longer = random.between(0, 1);
  return cost;
}

lengths_of_step draw_lengths(random_source& random, std::size_t samples)
{
  lengths_of_step lengths(samples);
  bool const has_targets = random.below(4) != 0;
  for (padded_lengths& each : lengths) {
    each.source = random.between(0, 9);
    if (has_targets) { each.target = random.between(0, 9); }
  }
  return lengths;
}

// The loads of cells, from owners alone.
template <class F>
std::vector<cost_units> loads_of(lengths_of_step const& lengths,
                                 std::vector<std::size_t> const& cell_of, std::size_t cells,
                                 F const& cost_of)
{
  std::vector<cost_units> loads(cells);
  for (std::size_t cell = 0; cell < cells; ++cell) {
    cost_units samples = 0;
    padded_lengths longest;
    for (std::size_t sample = 0; sample < cell_of.size(); ++sample) {
      if (cell_of[sample] != cell) { continue; }
      ++samples;
      longest.source = std::max(longest.source, lengths[sample].source);
      longest.target = std::max(longest.target, lengths[sample].target);
    }
    loads[cell] = samples == 0 ? 0 : samples * cost_of(longest.source, longest.target);
  }
  return loads;
}

cost_units makespan_of(std::vector<cost_units> const& loads, std::size_t ranks)
{
  std::vector<cost_units> sums(ranks);
  for (std::size_t cell = 0; cell < loads.size(); ++cell) { sums[cell % ranks] += loads[cell]; }
  return *std::max_element(sums.begin(), sums.end());
}

// What a step is planned for.
struct padded_grid_options {
  std::size_t ranks = 1;
  std::size_t microbatches = 1;
  std::int64_t most_weight = no_limit;
  std::uint64_t work = 2'000'000;
};

template <class F, class W>
result<grid_plan> planned(lengths_of_step const& lengths, padded_grid_options const& options,
                          F const& cost_of, W const& weight_of)
{
  return pad_grid(lengths, one_gpu_bags(options.ranks),
                  {.number = options.microbatches, .work = options.work}, cost_of, weight_of,
                  {.most_per_gpu = options.most_weight});
}
template <class F>
result<grid_plan> planned(lengths_of_step const& lengths, padded_grid_options const& options,
                          F const& cost_of)
{
  return planned(lengths, options, cost_of, cost_of);
}

// Oracle: all plans; the least makespan within the cap, or no_cost.
template <class F, class W>
cost_units least_makespan(lengths_of_step const& lengths, padded_grid_options const& options,
                          F const& cost_of, W const& weight_of)
{
  std::size_t const cells = options.ranks * options.microbatches;
  return least_of_all(lengths.size(), cells,
                      [&](assignment const& cell_of) -> std::optional<cost_units> {
                        auto const weights = loads_of(lengths, cell_of, cells, weight_of);
                        if (std::ranges::max(weights) > options.most_weight) {
                          return std::nullopt;
                        }
                        return makespan_of(loads_of(lengths, cell_of, cells, cost_of),
                                           options.ranks);
                      })
      .value_or(no_cost);
}

// What a plan promises, from the owners alone.
template <class F, class W>
void expect_within(lengths_of_step const& lengths, padded_grid_options const& options,
                   F const& cost_of, W const& weight_of, grid_plan const& plan)
{
  std::size_t const cells = options.ranks * options.microbatches;
  ASSERT_EQ(plan.owner.size(), lengths.size());
  std::vector<std::size_t> cell_of;
  for (cell_id const cell : plan.owner) {
    ASSERT_LT(to_index(cell), cells);
    cell_of.push_back(to_index(cell));
  }
  EXPECT_EQ(plan.loads, loads_of(lengths, cell_of, cells, cost_of));
  EXPECT_EQ(plan.makespan, (ratio{makespan_of(plan.loads, options.ranks), 1}));
  EXPECT_LE(plan.lower_bound, plan.makespan);
  auto const weights = loads_of(lengths, cell_of, cells, weight_of);
  EXPECT_LE(*std::max_element(weights.begin(), weights.end()), options.most_weight);
}

TEST(PadGrid, PadsSourcesAndTargets)
{
  // [pad]
  // Sentences and their translations, on two GPUs of two microbatches each.
  std::vector<ballast::padded_lengths> const sentences = {{60, 48}, {55, 60}, {20, 24}, {22, 16},
                                                          {9, 30},  {10, 8},  {8, 9},   {5, 5}};
  auto const cost = [](ballast::tokens source, ballast::tokens target) {
    return source + target + source * target / 64;  // encoder, decoder, cross attention
  };
  auto const plan =
      ballast::pad_grid(sentences, ballast::one_gpu_bags(2), {.number = 2}, cost).value();
  // plan.microbatch(rank, slot) has the samples of a batch, plan.makespan is the step's.
  // [pad]
  expect_within(sentences, {.ranks = 2, .microbatches = 2}, cost, cost, plan);
  EXPECT_TRUE(plan.proven_optimal());
  EXPECT_EQ(plan.makespan.numerator,
            least_makespan(sentences, {.ranks = 2, .microbatches = 2}, cost, cost));
}

TEST(PadGrid, PadsNoMoreThanItHasTo)
{
  lengths_of_step const four = {{8}, {5}, {4}, {1}};
  auto const plan = planned(four, {.ranks = 4}, sum_of_both).value();
  EXPECT_THAT(plan.loads, testing::UnorderedElementsAre(8, 5, 4, 1));
}

TEST(PadGrid, AgreesWithAllPlansOfSmallSteps)  // Ensures (1) (2) (3)
{
  random_source random(48);
  int refused = 0;
  int limited = 0;
  for (int trial = 0; trial < trials_of(400); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    padded_grid_options options{.ranks = 1 + random.below(3)};
    options.microbatches = 1 + random.below(options.ranks == 3 ? 1 : 2);
    lengths_of_step const lengths = draw_lengths(random, random.below(8));
    drawn_cost const cost = draw_cost(random);
    drawn_cost const weight = draw_cost(random);
    if (random.below(2) == 0) { options.most_weight = random.between(20, 200); }
    auto const plan = planned(lengths, options, cost, weight);
    cost_units const best = least_makespan(lengths, options, cost, weight);
    ASSERT_EQ(plan.has_value(), best != no_cost);
    if (!plan) {
      ++refused;
      continue;
    }
    expect_within(lengths, options, cost, weight, *plan);
    ASSERT_EQ(plan->makespan, (ratio{best, 1}));
    ASSERT_TRUE(plan->proven_optimal());
    padded_grid_options free = options;
    free.most_weight = std::numeric_limits<std::int64_t>::max();
    limited += best > least_makespan(lengths, free, cost, weight) ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  if (!is_sanitized) { EXPECT_GT(limited, 0); }
}

// Without the search of all plans, which is for 16 samples at most: the bound holds, and the plan is
// an optimum of one length in one batch a rank.
TEST(PadGrid, StaysBetweenItsBoundAndSortedBatches)  // Ensures (3) (4) (5)
{
  random_source random(49);
  for (int trial = 0; trial < trials_of(40); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    padded_grid_options options{.ranks = 1 + random.below(6), .work = 15'000};
    options.microbatches = 1 + random.below(4);
    lengths_of_step lengths(100 + random.below(100));
    for (padded_lengths& each : lengths) {
      each.source = random.between(1, 20) * random.between(1, 20);
      each.target = each.source * random.between(3, 5) / 4;
    }
    drawn_cost const cost = draw_cost(random);
    auto const plan = planned(lengths, options, cost).value();
    expect_within(lengths, options, cost, cost, plan);
    EXPECT_EQ(plan.digest(), planned(lengths, options, cost).value().digest());

    // As loaders do it: sorted, in equal counts.
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::sort(order, [&lengths](std::size_t a, std::size_t b) {
      padded_lengths const one = lengths[a];
      padded_lengths const other = lengths[b];
      return one.source + one.target > other.source + other.target ||
             (one.source + one.target == other.source + other.target && a < b);
    });
    std::size_t const cells = options.ranks * options.microbatches;
    std::vector<std::size_t> cell_of(lengths.size());
    for (std::size_t at = 0; at < order.size(); ++at) {
      cell_of[order[at]] = at * cells / order.size();
    }
    EXPECT_LE(plan.makespan.numerator,
              makespan_of(loads_of(lengths, cell_of, cells, cost), options.ranks));

    for (padded_lengths& each : lengths) { each.target = 0; }
    options.microbatches = 1;
    EXPECT_TRUE(planned(lengths, options, cost).value().proven_optimal());
  }
}

TEST(PadGrid, SeesInItsBoundThatBothLengthsPad)  // Ensures (3)
{
  random_source random(50);
  lengths_of_step lengths(512);
  for (padded_lengths& each : lengths) {
    each.source = random.between(1, 400);
    each.target = 401 - each.source;
  }
  padded_grid_options const options{.ranks = 4, .microbatches = 4, .work = 25'600};
  auto const sum = [](tokens source, tokens target) { return source + target; };
  // The bound of what each costs alone is 7 % below.
  EXPECT_LT(planned(lengths, options, sum).value().gap(), 0.05);
}

// Samples of four classes, short or long on each side; `counts` of each.
lengths_of_step of_classes(std::array<std::size_t, 4> counts, tokens brief, tokens wide)
{
  std::array<padded_lengths, 4> const classes = {
      {{brief, brief}, {brief, wide}, {wide, brief}, {wide, wide}}};
  lengths_of_step lengths;
  for (std::size_t at = 0; at < 4; ++at) { lengths.insert(lengths.end(), counts[at], classes[at]); }
  return lengths;
}

cost_units with_a_quarter_of_pairs(tokens source, tokens target)
{
  return source + target + source * target / 4;
}

// Oracle: bag after bag takes so many of each class; the least largest cost for what is left.
struct class_table {
  std::array<std::size_t, 4> counts;
  tokens brief;
  tokens wide;

  [[nodiscard]] cost_units cost_of(std::array<std::size_t, 4> const& taken) const
  {
    std::size_t const samples = std::reduce(taken.begin(), taken.end());
    tokens const source = taken[2] + taken[3] > 0 ? wide : brief;
    tokens const target = taken[1] + taken[3] > 0 ? wide : brief;
    return static_cast<cost_units>(samples) * with_a_quarter_of_pairs(source, target);
  }

  [[nodiscard]] cost_units least_makespan(std::size_t bags) const
  {
    std::vector<std::array<std::size_t, 4>> parts;
    std::array<std::size_t, 4> part{};
    for (part[0] = 0; part[0] <= counts[0]; ++part[0]) {
      for (part[1] = 0; part[1] <= counts[1]; ++part[1]) {
        for (part[2] = 0; part[2] <= counts[2]; ++part[2]) {
          for (part[3] = 0; part[3] <= counts[3]; ++part[3]) { parts.push_back(part); }
        }
      }
    }
    std::map<std::array<std::size_t, 4>, cost_units> least;
    for (auto const& all : parts) { least[all] = cost_of(all); }
    for (std::size_t bag = 1; bag < bags; ++bag) {
      auto const before = least;
      for (auto const& all : parts) {
        for (auto const& taken : parts) {
          auto rest = all;
          bool holds = true;
          for (std::size_t at = 0; at < 4; ++at) {
            holds = holds && taken[at] <= all[at];
            rest[at] -= taken[at];
          }
          if (holds) {
            least[all] = std::min(least[all], std::max(cost_of(taken), before.at(rest)));
          }
        }
      }
    }
    return least.at(counts);
  }
};

TEST(PadGrid, SeparatesClassesOfPairs)  // Ensures (3)
{
  auto const planned_for = [](std::array<std::size_t, 4> counts, std::size_t ranks) {
    return planned(of_classes(counts, 2, 20), {.ranks = ranks}, with_a_quarter_of_pairs).value();
  };
  EXPECT_EQ(planned_for({3, 8, 3, 3}, 5).makespan, (ratio{256, 1}));  // one class a bag
  EXPECT_EQ(planned_for({10, 7, 4, 6}, 2).makespan, (ratio{1400, 1}));
  EXPECT_TRUE(planned_for({3, 8, 3, 3}, 5).proven_optimal());
  EXPECT_TRUE(planned_for({10, 7, 4, 6}, 2).proven_optimal());

  random_source random(52);
  for (int trial = 0; trial < trials_of(30); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    class_table table{{}, random.between(1, 5), random.between(8, 40)};
    for (std::size_t& count : table.counts) { count = random.below(5); }
    padded_grid_options const options{.ranks = 1 + random.below(4)};
    auto const lengths = of_classes(table.counts, table.brief, table.wide);
    auto const plan = planned(lengths, options, with_a_quarter_of_pairs).value();
    expect_within(lengths, options, with_a_quarter_of_pairs, with_a_quarter_of_pairs, plan);
    EXPECT_EQ(plan.makespan.numerator, table.least_makespan(options.ranks));
    EXPECT_TRUE(plan.proven_optimal());
  }
}

// Oracle: the least largest batch of runs of the samples as they are ordered.
cost_units least_of_cuts(lengths_of_step const& ordered, std::size_t ranks)
{
  std::vector<cost_units> least(ordered.size() + 1, no_cost);  // of so many first ones
  least[0] = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t end = ordered.size(); end > 0; --end) {
      padded_lengths longest;
      for (std::size_t first = end; first > 0; --first) {
        longest = longest.with(ordered[first - 1]);
        cost_units const batch = static_cast<cost_units>(end - first + 1) *
                                 with_a_quarter_of_pairs(longest.source, longest.target);
        least[end] = std::min(least[end], std::max(least[first - 1], batch));
      }
    }
  }
  return least.back();
}

TEST(PadGrid, IsNeverAboveASortedCutOfFewKinds)  // Ensures (3)
{
  random_source random(53);
  for (int trial = 0; trial < trials_of(60); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    lengths_of_step lengths(20 + random.below(40));
    tokens const most = random.below(2) == 0 ? 2 : 4;
    tokens const unit = random.between(1, 10);
    for (padded_lengths& each : lengths) {
      each = {unit * random.between(1, most), unit * random.between(1, most)};
    }
    padded_grid_options const options{.ranks = 2 + random.below(7)};
    auto const plan = planned(lengths, options, with_a_quarter_of_pairs).value();
    expect_within(lengths, options, with_a_quarter_of_pairs, with_a_quarter_of_pairs, plan);
    EXPECT_TRUE(plan.proven_optimal());
    std::ranges::sort(lengths, std::ranges::greater{},
                      [](padded_lengths each) { return std::pair(each.source, each.target); });
    EXPECT_LE(plan.makespan.numerator, least_of_cuts(lengths, options.ranks));
    std::ranges::sort(lengths, std::ranges::greater{}, [](padded_lengths each) {
      return with_a_quarter_of_pairs(each.source, each.target);
    });
    EXPECT_LE(plan.makespan.numerator, least_of_cuts(lengths, options.ranks));
  }
}

TEST(PadGrid, FindsRoomWithinACap)  // Ensures (2)
{
  lengths_of_step lengths;
  for (tokens length = 1; length <= 60; ++length) { lengths.push_back({length, 61 - length}); }
  padded_grid_options options{.ranks = 3, .microbatches = 2};
  auto const longer = [](tokens source, tokens target) { return std::max(source, target); };
  auto const free = planned(lengths, options, sum_of_both, longer).value();
  cost_units heaviest = 0;
  for (std::size_t cell = 0; cell < 6; ++cell) {
    auto const [source, target] = free.longest[cell];
    auto const samples = free.samples[to_id<cell_id>(cell)].size();
    heaviest = std::max(heaviest, static_cast<cost_units>(samples) * longer(source, target));
  }
  int found = 0;
  for (options.most_weight = heaviest; options.most_weight > 300; options.most_weight -= 20) {
    auto const plan = planned(lengths, options, sum_of_both, longer);
    if (!plan) { break; }
    expect_within(lengths, options, sum_of_both, longer, *plan);
    ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(PadGrid, AcceptsTheEdges)
{
  EXPECT_EQ(planned({}, {.ranks = 2}, sum_of_both).value().makespan, ratio{});
  lengths_of_step const none = {{0, 0}, {0, 0}};
  EXPECT_EQ(planned(none, {.ranks = 2}, sum_of_both).value().makespan, ratio{});
  lengths_of_step const one = {{3, 4}};
  auto const plan = planned(one, {.ranks = 2, .microbatches = 3}, sum_of_both).value();
  EXPECT_EQ(plan.makespan, (ratio{7, 1}));
  auto const cell = to_index(plan.owner[0]);
  EXPECT_EQ(plan.microbatch(to_id<rank_id>(cell % 2), cell / 2).size(), 1U);
}

TEST(PadGrid, RefusesInASentence)  // Errors
{
  auto const error_of = [](lengths_of_step const& lengths, padded_grid_options const& options) {
    return planned(lengths, options, sum_of_both).error();
  };
  EXPECT_EQ(
      error_of({{1, 1}, {6, 5}}, {.most_weight = 10}).message,
      "sample 1 of weight 11 is above the cap of a batch, 10; split it, leave it out or raise "
      "the cap");
  EXPECT_EQ(error_of({{3, 3}, {3, 3}}, {.most_weight = 10}).message,
            "no plan of 2 samples in 1 x 1 padded batch within a cap of 10 each exists; use more "
            "microbatches or raise the cap");
  EXPECT_EQ(error_of({{3, -1}}, {}).message,
            "sample 0 has the lengths 3 and -1; give lengths from 0 to 2147483647");
  EXPECT_EQ(error_of({{3, 1}}, {.ranks = 0}).code, error_code::infeasible);
  auto const several = pad_grid(lengths_of_step(4, {1, 1}), one_gpu_bags(1), {}, sum_of_both,
                                {.samples = counts::equal()});
  EXPECT_EQ(several.error().message,
            "padded batches are planned for equal bags, for a number of microbatches of at least "
            "1, and within limits.most_per_gpu; leave out the other limits");
  auto const huge =
      planned(lengths_of_step(4, {1, 1}), {}, [](tokens, tokens) { return cost_units{1} << 60; });
  EXPECT_EQ(huge.error().code, error_code::out_of_range);
}

std::int64_t with_attention(tokens source, tokens target)
{
  return source + 2 * target + source * target / 4;
}

// Oracle: each sample joins each batch there is, or begins one.
std::size_t fewest_batches(lengths_of_step const& lengths, std::int64_t cap)
{
  return least_of_all_packings(
             lengths.size(), lengths.size(),
             [&](assignment const& owner, std::size_t open) -> std::optional<std::size_t> {
               auto const weights = loads_of(lengths, owner, open, with_attention);
               bool const fit =
                   std::ranges::all_of(weights, [&](auto weight) { return weight <= cap; });
               return fit ? std::optional(open) : std::nullopt;
             })
      .value();
}

void expect_within(lengths_of_step const& lengths, std::int64_t cap, packing_plan const& plan)
{
  auto const owner = assignment_of(plan.owner);
  for (std::size_t const batch : owner) { ASSERT_LT(batch, plan.bins()); }
  for (std::size_t batch = 0; batch < plan.bins(); ++batch) {
    EXPECT_GT(std::ranges::count(owner, batch), 0);
    EXPECT_LE(plan.loads[batch], cap);
  }
  EXPECT_EQ(plan.loads, loads_of(lengths, owner, plan.bins(), with_attention));
  EXPECT_LE(plan.lower_bound, plan.bins());
}

TEST(PadToCap, FindsTheFewestBatchesOfSmallSteps)  // Ensures (1) (2)
{
  random_source random(50);
  for (int trial = 0; trial < trials_of(300); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    lengths_of_step const lengths = draw_lengths(random, random.below(8));
    std::int64_t const cap = random.between(50, 150);
    auto const plan = pad_to_cap(lengths, with_attention, cap).value();
    expect_within(lengths, cap, plan);
    ASSERT_EQ(plan.bins(), fewest_batches(lengths, cap));
    ASSERT_TRUE(plan.proven_optimal());
  }
}

TEST(PadToCap, StaysWithinTheCapInLargeSteps)  // Ensures (1) (2) (3)
{
  random_source random(51);
  lengths_of_step lengths(300);
  for (padded_lengths& each : lengths) {
    each.source = random.between(1, 20) * random.between(1, 20);
    each.target = each.source * random.between(3, 5) / 4;
  }
  auto const plan = pad_to_cap(lengths, with_attention, 200'000, 50).value();
  expect_within(lengths, 200'000, plan);
  EXPECT_EQ(plan.digest(), pad_to_cap(lengths, with_attention, 200'000, 50).value().digest());
  for (padded_lengths& each : lengths) { each.target = 0; }
  EXPECT_TRUE(pad_to_cap(lengths, with_attention, 2'000, 50).value().proven_optimal());
}

TEST(PadToCap, RefusesWhatIsAboveTheCapAlone)  // Errors
{
  lengths_of_step const lengths = {{1, 1}, {8, 8}};
  EXPECT_EQ(pad_to_cap(lengths, with_attention, 30).error().position, 1U);
  EXPECT_EQ(pad_to_cap({}, with_attention, 30).value().bins(), 0U);
}

static_assert(padded_cost<std::plus<tokens>>);
static_assert(!padded_cost<std::negate<tokens>>);
static_assert(padded_lengths{7}.target == 0);
static_assert(padded_lengths{9, 2}.with({4, 5}) == padded_lengths{9, 5});

}  // namespace pad_grid_test
