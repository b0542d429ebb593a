// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/plan_schedule.hpp>  // first: proves it is self-contained

#include "../support/pipelines.hpp"
#include "../support/test.hpp"

#include <ballast/pipeline/evaluate_orders.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_lower_bound.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>

namespace {

using namespace ballast;
using ballast_test::numbered_order;
using ballast_test::split_chain;
using ballast_test::split_v;
using testing::HasSubstr;

struct step {
  stage_graph stages;
  pipeline_times times;
  pipeline_memory memory;
};

/// F = I = W = 1 on as many ranks as stages, one byte for each microbatch to the end of W.
step unit_step(std::size_t ranks, std::size_t microbatches, std::vector<std::uint64_t> most)
{
  pipeline_times times(microbatches, ranks, [](auto, auto) { return stage_time{1, 1}; });
  times.weights.assign(times.rows.size(), 1);
  return {
      split_chain(ranks, ranks), times, {{times.rows.size(), held_bytes{1, 1}}, std::move(most)}};
}

step random_step(random_source& random, std::size_t ranks, std::size_t microbatches)
{
  step drawn = unit_step(ranks, microbatches, std::vector<std::uint64_t>(ranks));
  drawn.stages = split_chain(ranks, ranks, random.below(3) == 0 ? random.between(1, 8) : 0);
  std::uint64_t const kind = random.below(4);
  for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    std::int64_t base = random.between(2, 20);
    if (kind == 1) { base = random.below(2) == 0 ? 4 : 15; }
    if (kind == 2) { base = microbatch == 0 ? 40 : 5; }
    auto const time = [&] {
      return kind == 3 ? random.between(1, 20) : base + random.between(-1, 1);
    };
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::size_t const row = microbatch * ranks + rank;
      drawn.times.rows[row] = {time(), time()};
      drawn.times.weights[row] = time();
      auto const held = static_cast<std::uint64_t>(kind == 3 ? random.between(1, 10) : base);
      drawn.memory.held[row] = {held, held - (random.below(2) == 0 ? held / 3 : 0)};
    }
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::uint64_t sum = 0;
    std::uint64_t largest = 0;
    for (std::size_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      std::uint64_t const held = drawn.memory.held[microbatch * ranks + rank].held;
      sum += held;
      largest = std::max(largest, held);
    }
    std::array const caps{largest, std::max(largest, sum * (ranks - rank) / microbatches),
                          std::max(largest, sum * 2 / 3), sum};
    drawn.memory.most[rank] = caps[random.below(caps.size())];
  }
  return drawn;
}

/// The least time of any schedule of a chain with one stage a rank that is below `limit`, or
/// `limit`: all sets of done tasks are reached in all ways, and of those that reach one set, only
/// the ones are kept that no other is as early as in everything that is still to come.
class all_schedules {
 public:
  explicit all_schedules(step const& of)
      : ranks_(of.stages.ranks()),
        microbatches_(of.times.microbatches()),
        of_(of),
        transfer_(of.stages.links().empty() ? 0 : of.stages.links()[0].transfer)
  {}

  time_units least(time_units limit)
  {
    // By done passes of each rank and microbatch: when ranks are free, and when what was sent
    // arrives.
    using ends = std::vector<time_units>;
    std::map<std::string, std::vector<ends>> now;
    now[std::string(size(), '\0')] = {ends(ranks_ + size(), 0)};
    time_units best = limit;
    for (std::size_t left = 3 * size(); left > 0; --left) {
      std::map<std::string, std::vector<ends>> next;
      for (auto const& [done, all] : now) {
        for (std::size_t at = 0; at < size(); ++at) {
          if (!may_follow(done, at)) { continue; }
          std::string after = done;
          ++after[at];
          for (ends const& each : all) {
            ends reached = add(done, at, each);
            if (shortest(after, reached) >= best) { continue; }
            if (left > 1) {
              keep(next[after], std::move(reached));
            } else {
              best = *std::max_element(reached.begin(),
                                       reached.begin() + static_cast<std::ptrdiff_t>(ranks_));
            }
          }
        }
      }
      now = std::move(next);
    }
    return best;
  }

 private:
  std::size_t size() const { return ranks_ * microbatches_; }
  std::size_t row(std::size_t at) const { return at % microbatches_ * ranks_ + at / microbatches_; }
  time_units time(std::size_t at, int which) const
  {
    auto const& [forward, backward] = of_.times.rows[row(at)];
    return which == 0 ? forward : which == 1 ? backward : of_.times.weights[row(at)];
  }

  bool may_follow(std::string const& done, std::size_t at) const
  {
    if (done[at] == 3) { return false; }
    std::size_t const rank = at / microbatches_;
    if (done[at] == 1) { return rank + 1 == ranks_ || done[at + microbatches_] >= 2; }
    if (done[at] == 2) { return true; }
    if (rank > 0 && done[at - microbatches_] == 0) { return false; }
    std::uint64_t kept = of_.memory.held[row(at)].held;
    for (std::size_t other = rank * microbatches_; other < (rank + 1) * microbatches_; ++other) {
      kept += done[other] == 1   ? of_.memory.held[row(other)].held
              : done[other] == 2 ? of_.memory.held[row(other)].for_weights
                                 : 0;
    }
    return of_.memory.most.empty() || kept <= of_.memory.most[rank];
  }

  std::vector<time_units> add(std::string const& done, std::size_t at,
                              std::vector<time_units> ends) const
  {
    std::size_t const rank = at / microbatches_;
    int const which = done[at];
    time_units& free = ends[rank];
    bool const from_below = which == 0 && rank > 0;
    bool const from_above = which == 1 && rank + 1 < ranks_;
    if (from_below) { free = std::max(free, ends[ranks_ + at - microbatches_]); }
    if (from_above) { free = std::max(free, ends[ranks_ + at + microbatches_]); }
    free += time(at, which);
    if (from_below) { ends[ranks_ + at - microbatches_] = 0; }
    if (from_above) { ends[ranks_ + at + microbatches_] = 0; }
    bool const sends = (which == 0 && rank + 1 < ranks_) || (which == 1 && rank > 0);
    if (sends || which == 1) { ends[ranks_ + at] = sends ? free + transfer_ : 0; }
    return ends;
  }

  time_units shortest(std::string const& done, std::vector<time_units> const& ends) const
  {
    time_units most = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      time_units end = ends[rank];
      for (std::size_t at = rank * microbatches_; at < (rank + 1) * microbatches_; ++at) {
        for (int which = done[at]; which < 3; ++which) { end += time(at, which); }
      }
      most = std::max(most, end);
    }
    return most;
  }

  static void keep(std::vector<std::vector<time_units>>& all, std::vector<time_units> one)
  {
    auto const is_covered = [](auto const& a, auto const& by) {
      return std::equal(a.begin(), a.end(), by.begin(),
                        [](time_units x, time_units y) { return y <= x; });
    };
    for (auto const& each : all) {
      if (is_covered(one, each)) { return; }
    }
    std::erase_if(all, [&](auto const& each) { return is_covered(each, one); });
    all.push_back(std::move(one));
  }

  std::size_t ranks_;
  std::size_t microbatches_;
  step const& of_;
  time_units transfer_;
};

/// Checks what every plan promises, and returns its schedule.
compiled_schedule expect_sound(step const& of, schedule_plan const& plan)
{
  auto const compiled = compiled_schedule::make(of.stages, plan.schedule);
  EXPECT_TRUE(compiled) << compiled.error().message;
  auto const timeline = simulate(*compiled, of.times, plan.order);
  EXPECT_EQ(timeline.makespan, plan.makespan);
  EXPECT_LE(plan.lower_bound, plan.makespan);
  auto const fits = check_memory(*compiled, plan.order, of.memory);
  EXPECT_TRUE(fits) << fits.error().message;
  std::vector<time_units> last(of.stages.stages());
  for (std::size_t task = 0; task < compiled->tasks().size(); ++task) {
    auto const& [position, stage, direction] = compiled->tasks()[task];
    if (direction == (of.stages[stage].weights ? pass::weights : pass::backward)) {
      time_units& end = last[to_index(stage)];
      end = std::max(end, timeline.end[task]);
    }
  }
  EXPECT_EQ(plan.weights_end, last);
  workspace memory;
  EXPECT_LE(order_lower_bound(*compiled, of.times, memory), plan.makespan);
  return *compiled;
}

TEST(PlanSchedule, TakesTheLeastTimeOfUnitSteps)
{
  struct example {
    std::size_t ranks;
    std::size_t microbatches;
    std::vector<std::uint64_t> most;
    time_units least;
  };
  for (auto const& [ranks, microbatches, most, least] :
       std::vector<example>{{2, 4, {2, 1}, 14},
                            {3, 4, {3, 2, 1}, 16},
                            {2, 4, {2, 2}, 13},
                            {3, 4, {3, 3, 3}, 14},
                            {3, 4, {}, 14},
                            {2, 4, {1, 1}, 20},
                            {3, 5, {3, 3, 3}, 17}}) {
    step const of = unit_step(ranks, microbatches, most);
    auto const plan = plan_schedule(of.stages, of.times, of.memory).value();
    EXPECT_EQ(plan.makespan, least);
    expect_sound(of, plan);
    if (!ballast_test::is_sanitized && ranks * microbatches < 15) {
      EXPECT_EQ(all_schedules(of).least(least + 1), least);
    }
  }
}

/// How many steps of each size are searched exhaustively; BALLAST_TRIALS asks for more.
std::size_t exhaustive_draws()
{
  char const* const asked = std::getenv("BALLAST_TRIALS");
  return asked == nullptr ? 12 : std::strtoul(asked, nullptr, 10);
}

TEST(PlanSchedule, IsAsShortAsTheBestOfAllSchedules)
{
  if (ballast_test::is_sanitized) { GTEST_SKIP() << "nearly all of it is the oracle"; }
  for (auto const& [ranks, microbatches] : {std::pair{2U, 5U}, std::pair{3U, 4U}}) {
    random_source random(7 + ranks);
    std::size_t const draws = exhaustive_draws();
    std::size_t equal = 0;
    std::size_t far = 0;  // above the best by more than 2 %
    double below = 0;
    for (std::size_t draw = 0; draw < draws; ++draw) {
      step const of = random_step(random, ranks, microbatches);
      auto const plan = plan_schedule(of.stages, of.times, of.memory).value();
      expect_sound(of, plan);
      time_units const least = all_schedules(of).least(plan.makespan);
      equal += least == plan.makespan ? 1 : 0;
      below += 1 - static_cast<double>(plan.lower_bound) / static_cast<double>(least);
      EXPECT_LE(plan.lower_bound, least);
      far += plan.makespan * 50 > least * 51 ? 1 : 0;
    }
    EXPECT_GE(equal + 1 + draws / 100, draws);
    EXPECT_LE(far, draws / 100);
    RecordProperty("equal_" + std::to_string(ranks), std::to_string(equal));
    RecordProperty("bound_below_" + std::to_string(ranks),
                   std::to_string(below / static_cast<double>(draws)));
  }
}

TEST(PlanSchedule, TakesWorkAndTheWayToTheLastRankWhereMicrobatchesAreEqual)
{
  for (std::size_t const ranks : {2U, 5U, 8U, 16U, 32U}) {
    for (std::size_t const microbatches : {ranks, ranks + 1, 2 * ranks}) {
      step const of = unit_step(ranks, microbatches, std::vector<std::uint64_t>(ranks, ranks));
      auto const plan = plan_schedule(of.stages, of.times, of.memory).value();
      EXPECT_EQ(plan.makespan, static_cast<time_units>(3 * microbatches + ranks - 1));
      EXPECT_TRUE(plan.proven_optimal());
      expect_sound(of, plan);
    }
  }
}

TEST(PlanSchedule, IsNoLongerThanRulesAndWithMoreMemory)
{
  random_source random(3);
  for (int draw = 0; draw < ballast_test::trials_of(4); ++draw) {
    step of = random_step(random, 4, 8);
    compiled_schedule const whole(of.stages, one_forward_one_backward{}, 8);
    auto const ordered = order_microbatches(whole, of.times, local_search{}).value();
    auto const ranks = activation_memory(whole, simulate(whole, of.times, ordered.order),
                                         ordered.order, of.memory.held);
    std::uint64_t fullest = 0;
    for (auto const& rank : ranks) { fullest = std::max(fullest, rank.peak_bytes); }
    time_units before = ordered.makespan;
    for (std::uint64_t const halves : {2U, 3U, 4U, 100U}) {
      of.memory.most.assign(4, fullest * halves / 2);
      auto const plan = plan_schedule(of.stages, of.times, of.memory).value();
      expect_sound(of, plan);
      EXPECT_LE(plan.makespan, before);
      before = plan.makespan;
    }
  }
}

/// How long a rule takes in the order of the numbers; nothing where it has no schedule for these
/// stages or keeps too much.
template <class Rule>
std::optional<time_units> length_of(step const& of, Rule const& rule)
{
  std::size_t const microbatches = of.times.microbatches();
  auto const schedule = compiled_schedule::make(of.stages, rule, microbatches);
  auto const order = numbered_order(microbatches);
  if (!schedule || !check_memory(*schedule, order, of.memory)) { return std::nullopt; }
  return simulate(*schedule, of.times, order).makespan;
}

TEST(PlanSchedule, IsNoLongerThanAnyRuleThatFits)  // Ensures (3)
{
  random_source random(17);
  std::array<std::size_t, 5> fitted{};
  for (std::size_t draw = 0; draw < 30; ++draw) {
    std::size_t const ranks = 2 + random.below(3);
    std::size_t const microbatches = ranks + random.below(2 * ranks);
    time_units const transfer = random.between(0, 6);
    bool const equal = random.below(2) == 0;
    step of{draw % 3 == 0   ? split_chain(ranks, ranks, transfer)
            : draw % 3 == 1 ? split_chain(2 * ranks, ranks, transfer)
                            : split_v(ranks, transfer),
            {},
            {}};
    of.times = pipeline_times(microbatches, of.stages.stages(), [&](auto, auto) {
      return equal ? stage_time{4, 4} : stage_time{random.between(1, 12), random.between(1, 12)};
    });
    for (std::size_t row = 0; row < of.times.rows.size(); ++row) {
      of.times.weights.push_back(equal ? 4 : random.between(1, 12));
      of.memory.held.push_back({2, random.below(3)});
    }
    std::uint64_t const chunks = of.stages.stages() / ranks;
    of.memory.most.assign(ranks, 2 * chunks * (ranks + random.below(ranks + 1)));
    // Little work, so that the searches alone would often not get there.
    auto const plan = plan_schedule(of.stages, of.times, of.memory, {2'000, draw}).value();
    expect_sound(of, plan);
    std::array<std::optional<time_units>, 5> const lengths{
        length_of(of, interleaved_one_forward_one_backward{}), length_of(of, zero_bubble{}),
        length_of(of, zero_bubble{true}), length_of(of, zero_bubble_v{}),
        length_of(of, dual_pipe_v{})};
    for (std::size_t rule = 0; rule < lengths.size(); ++rule) {
      if (!lengths[rule]) { continue; }
      ++fitted[rule];
      EXPECT_LE(plan.makespan, *lengths[rule]) << "rule " << rule;
    }
  }
  EXPECT_THAT(fitted, testing::Each(testing::Gt(1U)));
}

TEST(PlanSchedule, TakesWorkAndTheWayToTheLastRankInAV)
{
  for (std::size_t const ranks : {2U, 4U, 8U}) {
    std::size_t const microbatches = 2 * ranks;
    step of{split_v(ranks, 0),
            pipeline_times(microbatches, 2 * ranks, [](auto, auto) { return stage_time{1, 1}; }),
            {}};
    of.times.weights.assign(of.times.rows.size(), 1);
    of.memory = {{of.times.rows.size(), held_bytes{1, 1}},
                 std::vector<std::uint64_t>(ranks, 2 * ranks)};
    auto const plan = plan_schedule(of.stages, of.times, of.memory).value();
    EXPECT_EQ(plan.makespan, static_cast<time_units>(6 * microbatches + ranks - 1));
    EXPECT_TRUE(plan.proven_optimal());
    expect_sound(of, plan);
  }
}

TEST(PlanSchedule, PlansModulesFrozenStagesAndChunks)
{
  random_source random(11);
  auto const rank = [](std::size_t number) { return to_id<pipeline_rank>(number); };
  // A frozen encoder and a trained one feed an LLM of which each rank has two chunks; one stage
  // keeps whole backwards.
  stage_graph const joined({{rank(0), false, model_part::encoder},
                            {rank(1), true, model_part::encoder, false},
                            {rank(2), true, model_part::llm, true},
                            {rank(3), true, model_part::llm, true},
                            {rank(2), true, model_part::llm, true},
                            {rank(3), true, model_part::llm, false}},
                           {{stage_id{0}, stage_id{2}, 2},
                            {stage_id{1}, stage_id{2}, 1},
                            {stage_id{2}, stage_id{3}, 1},
                            {stage_id{3}, stage_id{4}, 1},
                            {stage_id{4}, stage_id{5}, 1}});
  // A V: the first stage and the last are on one rank.
  stage_graph const v({{rank(0), true, model_part::llm, true},
                       {rank(1), true, model_part::llm, true},
                       {rank(1), true, model_part::llm, true},
                       {rank(0), true, model_part::llm, true}},
                      {{stage_id{0}, stage_id{1}, 0},
                       {stage_id{1}, stage_id{2}, 0},
                       {stage_id{2}, stage_id{3}, 0}});
  for (stage_graph const& stages : {joined, v}) {
    pipeline_times times(6, stages.stages(), [&](auto, auto) {
      return stage_time{random.between(1, 30), random.between(1, 30)};
    });
    times.weights.assign(times.rows.size(), 0);
    pipeline_memory memory{{times.rows.size(), held_bytes{}},
                           std::vector<std::uint64_t>(stages.ranks(), 45)};
    for (std::size_t at = 0; at < times.rows.size(); ++at) {
      times.weights[at] = random.between(1, 30);
      auto const held = static_cast<std::uint64_t>(random.between(5, 15));
      memory.held[at] = {held, held / 2};
    }
    step const of{stages, times, memory};
    auto const plan = plan_schedule(stages, times, memory).value();
    auto const compiled = expect_sound(of, plan);
    workspace scratch;
    auto frame = scratch.open();
    order_evaluator evaluator(compiled, times, frame);
    std::vector<time_units> makespans(1);
    evaluator.evaluate_into(makespans, plan.order);
    EXPECT_EQ(makespans[0], plan.makespan);
  }
}

TEST(PlanSchedule, DependsOnItsArgumentsOnly)
{
  random_source random(5);
  step const of = random_step(random, 3, 6);
  auto const once = plan_schedule(of.stages, of.times, of.memory, {100'000, 3}).value();
  auto const again = plan_schedule(of.stages, of.times, of.memory, {100'000, 3}).value();
  EXPECT_EQ(once.schedule, again.schedule);
  EXPECT_EQ(once.order, again.order);
  EXPECT_EQ(plan_schedule(of.stages, pipeline_times(0, 3), {}).value().makespan, 0);
}

TEST(PlanSchedule, IsOneCall)
{
  // [plan_schedule]
  using namespace ballast;
  // Two stages whose backwards are in two parts, on two ranks; three microbatches.
  stage_graph const stages(
      {{.rank = pipeline_rank{0}, .weights = true}, {.rank = pipeline_rank{1}, .weights = true}},
      {{stage_id{0}, stage_id{1}}});
  pipeline_times times(3, 2, [](std::size_t microbatch, std::size_t) {
    time_units const takes = microbatch == 1 ? 3 : 1;
    return stage_time{takes, takes};  // forward, gradients of inputs
  });
  for (stage_time const& each : times.rows) { times.weights.push_back(each.backward); }
  // Each microbatch keeps a byte until its weights pass, and each rank may keep two.
  pipeline_memory const memory{std::vector(times.rows.size(), held_bytes{1, 1}), {2, 2}};

  auto const plan = plan_schedule(stages, times, memory).value();
  compiled_schedule const schedule(stages, plan.schedule);
  auto const timeline = simulate(schedule, times, plan.order);
  // [plan_schedule]
  EXPECT_EQ(timeline.makespan, plan.makespan);
}

// Right or refused in a sentence: no time at all, the longest, sums up to 2^62, no byte and 2^62.
TEST(PlanSchedule, TakesExtremeTimesAndBytes)
{
  constexpr time_units longest = stage_graph::longest_time;
  constexpr std::uint64_t all = std::uint64_t{1} << 62;
  int planned = 0;
  int refused = 0;
  random_source random(62);
  for (int trial = 0; trial < 60; ++trial) {
    std::size_t const ranks = 1 + random.below(3);
    std::size_t const count = 1 + random.below(4);
    stage_graph const stages = split_chain(ranks, ranks, random.below(4) == 0 ? longest : 0);
    auto const time = [&] {
      std::array<time_units, 5> const each{0, 1, longest - 1, longest, longest + 1};
      return each[random.below(random.below(8) == 0 ? 5 : 4)];
    };
    pipeline_times times(count, ranks, [&](auto, auto) { return stage_time{time(), time()}; });
    for (std::size_t row = 0; row < times.rows.size(); ++row) { times.weights.push_back(time()); }
    pipeline_memory memory;
    for (std::size_t row = 0; row < times.rows.size(); ++row) {
      std::array<std::uint64_t, 5> const each{0, 1, all / 16, all, ~std::uint64_t{0}};
      std::uint64_t const held = each[random.below(random.below(8) == 0 ? 5 : 3)];
      memory.held.push_back({held, random.below(2) * held});
    }
    if (random.below(2) == 0) { memory.most.assign(ranks, random.below(2) == 0 ? all : all / 16); }
    auto const plan = plan_schedule(stages, times, memory, {.steps = 3'000});
    if (!plan) {
      EXPECT_THAT(plan.error().message, testing::ContainsRegex("2.53|2.62|alone keeps"));
      ++refused;
      continue;
    }
    ++planned;
    auto const compiled = compiled_schedule::make(stages, plan->schedule).value();
    EXPECT_EQ(simulate(compiled, times, plan->order).makespan, plan->makespan);
    EXPECT_TRUE(check_memory(compiled, plan->order, memory));
    EXPECT_LE(plan->lower_bound, plan->makespan);
    time_units least = 0;  // the work of the fullest rank
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      time_units work = 0;
      for (std::size_t row = rank; row < times.rows.size(); row += ranks) {
        work += times.rows[row].forward + times.rows[row].backward + times.weights[row];
      }
      least = std::max(least, work);
    }
    EXPECT_GE(plan->lower_bound, least);
  }
  EXPECT_GE(planned, 10);
  EXPECT_GE(refused, 5);
}

TEST(PlanSchedule, RefusesWhatCannotBePlanned)
{
  step const of = unit_step(2, 3, {1, 0});
  EXPECT_THAT(plan_schedule(of.stages, of.times, of.memory).error().message,
              HasSubstr("microbatch 0 alone keeps 1 bytes on pipeline rank 1, which may "
                        "keep 0"));
  EXPECT_THAT(plan_schedule(of.stages, of.times, {of.memory.held, {1}}).error().message,
              HasSubstr("there are limits for 1 rank, and the stages are on 2"));
  EXPECT_THAT(plan_schedule(of.stages, of.times, {}).error().message,
              HasSubstr("there are bytes for 0 microbatches times stages"));
  pipeline_memory more = of.memory;
  more.most = {1, 1};
  more.held[2].for_weights = 5;
  EXPECT_THAT(plan_schedule(of.stages, of.times, more).error().message,
              HasSubstr("keeps 1 bytes on stage 0 and 5 of them for weights"));
}

TEST(ZeroBubble, TakesItsPapersTimesWithinItsMemory)
{
  for (std::size_t ranks = 2; ranks <= 32; ++ranks) {
    for (std::size_t const microbatches : {ranks, ranks + 1, 2 * ranks, 3 * ranks}) {
      step const of = unit_step(ranks, microbatches, std::vector<std::uint64_t>(ranks, ranks));
      compiled_schedule const schedule(of.stages, zero_bubble{}, microbatches);
      auto const order = numbered_order(microbatches);
      EXPECT_EQ(simulate(schedule, of.times, order).makespan,
                static_cast<time_units>(3 * microbatches + ranks - 1));
      EXPECT_TRUE(check_memory(schedule, order, of.memory));
      // Where backwards are whole it is 1F1B.
      stage_graph const whole = chain_of_stages(ranks, ranks);
      EXPECT_EQ(zero_bubble{}(whole, microbatches),
                one_forward_one_backward{}(whole, microbatches));
    }
  }
}

TEST(ZeroBubble, LetsWeightsPassesWait)
{
  auto const drawn = [](std::size_t ranks, std::size_t microbatches, zero_bubble const& rule,
                        std::size_t rank) {
    std::string text;
    auto const schedule = rule(split_chain(ranks, ranks), microbatches).value();
    for (auto const& task : schedule.ranks[rank]) {
      text += "FIW"[static_cast<std::size_t>(task.pass)] + std::to_string(task.position);
    }
    return text;
  };
  EXPECT_EQ(drawn(2, 4, {}, 0), "F0F1I0W0F2I1W1F3I2W2I3W3");
  EXPECT_EQ(drawn(2, 4, {}, 1), "F0I0F1I1W0F2I2W1F3I3W2W3");
  // With twice the memory steps are parallelograms.
  zero_bubble const twice{true};
  EXPECT_EQ(drawn(3, 6, twice, 0), "F0F1F2F3F4I0W0F5I1W1I2W2I3W3I4W4I5W5");
  EXPECT_EQ(drawn(3, 6, twice, 1), "F0F1F2I0F3I1F4I2W0F5I3W1I4W2I5W3W4W5");
  EXPECT_EQ(drawn(3, 6, twice, 2), "F0I0F1I1F2I2F3I3F4I4W0F5I5W1W2W3W4W5");
}

TEST(CheckMemory, NamesRankTaskAndBytes)
{
  step const of = unit_step(2, 3, {});
  compiled_schedule const schedule(of.stages, gpipe{}, 3);
  auto const order = numbered_order(3);
  auto const refused = check_memory(schedule, order, {of.memory.held, {3, 2}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().position, 1);
  EXPECT_THAT(refused.error().message,
              HasSubstr("pipeline rank 1 keeps 3 bytes from forward 2 on stage 1 on and "
                        "may keep 2"));
}

TEST(ActivationMemory, FreesInTwoParts)
{
  step of = unit_step(1, 2, {});
  of.memory.held = {{10, 4}, {6, 6}};
  compiled_schedule const schedule(of.stages, gpipe{}, 2);
  auto const order = numbered_order(2);
  auto const memory =
      activation_memory(schedule, simulate(schedule, of.times, order), order, of.memory.held);
  using level = rank_memory::level;
  // F0 F1 I0 I1 W0 W1
  EXPECT_EQ(memory[0].levels, (std::vector<level>{{0, 10}, {1, 16}, {3, 10}, {5, 6}, {6, 0}}));
  EXPECT_EQ(memory[0].peak_bytes, 16);
}

TEST(WeightsPasses, AreKnownToOrderSearchAndItsBound)
{
  random_source random(13);
  for (std::size_t draw = 0; draw < 10; ++draw) {
    step const of = random_step(random, 3, 5);
    compiled_schedule const schedule(of.stages, zero_bubble{}, 5);
    auto const order = numbered_order(5);
    time_units least = std::numeric_limits<time_units>::max();
    auto tried = order;
    do {
      least = std::min(least, simulate(schedule, of.times, tried).makespan);
    } while (std::next_permutation(tried.begin(), tried.end()));
    auto const plan = order_microbatches(schedule, of.times, exact_order{});
    EXPECT_EQ(plan.value().makespan, least);
    workspace memory;
    EXPECT_LE(order_lower_bound(schedule, of.times, memory), least);
  }
}

TEST(WeightsPasses, AreRefusedWhereTheyCannotBe)
{
  std::vector<pipeline_stage> stages(1);
  stages[0].backward = false;
  stages[0].weights = true;
  EXPECT_THAT(stage_graph::make(stages, {}).error().message,
              HasSubstr("stage 0 has a weights pass and no backward to split"));
  pipeline_schedule schedule{1,
                             {{{0, stage_id{0}, pass::forward}, {0, stage_id{0}, pass::backward}}}};
  EXPECT_THAT(compiled_schedule::make(split_chain(1, 1), schedule).error().message,
              HasSubstr("pipeline rank 0 never does weights pass 0 on stage 0"));
  schedule.ranks[0].insert(schedule.ranks[0].begin(), {0, stage_id{0}, pass::weights});
  EXPECT_THAT(compiled_schedule::make(split_chain(1, 1), schedule).error().message,
              HasSubstr("deadlocks"));
  EXPECT_THAT(compiled_schedule::make(chain_of_stages(1, 1), schedule).error().message,
              HasSubstr("whose backward is whole; leave it out"));
}

}  // namespace
