// SPDX-License-Identifier: Apache-2.0
// Orders of microbatches, the scheduler that makes microbatches of samples, and windows of steps.

#include "../../examples/common/by_name/any_order_policy.hpp"
#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../runtime/data/drawn_windows.hpp"
#include "../runtime/scheduled_steps.hpp"
#include "../support/order_checks.hpp"
#include "../support/pipelines.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>

#include <functional>
#include <memory>

namespace ballast_soak {
namespace {

ballast::time_units longest_of(number_family family)
{
  switch (family) {
    case number_family::tiny: return 2;
    case number_family::ties: return 1;
    case number_family::wide: return 100'000;
    case number_family::huge:
    case number_family::extreme: break;
  }
  return ballast::stage_graph::longest_time;
}

void add_order(std::vector<soaked_planner>& planners, std::string const& name, bool is_exact)
{
  auto const policy = by_name::parse_order_policy(name).value();
  auto plan = std::make_shared<ballast::order_plan>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {"order/" + name, [=](ballast::random_source& random) {
         auto const [stages, tasks] = ballast_test::random_pipeline(random);
         auto const schedule = ballast::compiled_schedule::make(stages, tasks).value();
         number_family const family = draw_family(random);
         auto times = ballast_test::random_times(random, schedule, longest_of(family));
         bool is_in_range = true;
         if (family == number_family::extreme && !times.rows.empty()) {
           auto& time = times.rows[random.below(times.rows.size())];
           (random.below(2) == 0 ? time.forward : time.backward) = draw_number(random, family);
           is_in_range =
               std::max(time.forward, time.backward) <= ballast::stage_graph::longest_time;
         }
         auto const done =
             ballast::order_microbatches_into(*plan, *memory, schedule, times, policy);
         if (!done) {
           require_sentence(done.error());
           require(!is_in_range, "refused: ", done.error().message);
           return;
         }
         require(is_in_range, "a time above the longest is accepted");
         ballast_test::expect_valid_order(schedule, times, *plan);
         if (schedule.microbatches() > 5) { return; }
         auto const best =
             ballast::simulate(schedule, times, ballast_test::first_best_order(schedule, times));
         require(plan->lower_bound <= best.makespan && best.makespan <= plan->makespan, "bound ",
                 plan->lower_bound, ", optimum ", best.makespan, ", makespan ", plan->makespan);
         require(!is_exact || (plan->makespan == best.makespan && plan->proven_optimal()),
                 "makespan ", plan->makespan, ", and the optimum is ", best.makespan);
       }});
}

// The same stages, of which some have their backwards in two parts.
ballast::stage_graph with_weights(ballast::random_source& random, ballast::stage_graph const& of)
{
  std::vector<ballast::pipeline_stage> stages;
  for (std::size_t stage = 0; stage < of.stages(); ++stage) {
    stages.push_back(of[ballast::to_id<ballast::stage_id>(stage)]);
    bool const computes = stages.back().part != ballast::model_part::transfer;
    stages.back().weights = stages.back().backward && computes && random.below(3) > 0;
  }
  std::vector<ballast::stage_link> const links(of.links().begin(), of.links().end());
  return ballast::stage_graph::make(std::move(stages), links).value();
}

// Three passes within bytes, as a plan and beside every rule that fits.
void plan_passes(ballast::random_source& random)
{
  auto const drawn = ballast_test::random_pipeline(random);
  auto const stages = with_weights(random, drawn.stages);
  number_family const family = draw_family(random);
  auto times = ballast_test::random_times(random, drawn.schedule.microbatches, stages.stages(),
                                          longest_of(family));
  ballast::pipeline_memory memory;
  bool const moderate = family != number_family::extreme;
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    bool const split = stages[ballast::to_id<ballast::stage_id>(row % stages.stages())].weights;
    times.weights.push_back(split ? random.between(0, longest_of(family)) : 0);
    auto const held = static_cast<std::uint64_t>(moderate ? random.between(0, 1000)
                                                          : draw_number(random, family));
    memory.held.push_back({held, held - held / (1 + random.below(3)) / 2});
  }
  for (std::size_t rank = 0; random.below(8) > 0 && rank < stages.ranks(); ++rank) {
    memory.most.resize(stages.ranks(), ~std::uint64_t{0});
    memory.most[rank] = static_cast<std::uint64_t>(moderate ? random.between(0, 20'000)
                                                            : draw_number(random, family));
  }
  auto const plan = ballast::plan_schedule(stages, times, memory, {20'000, random.below(100)});
  if (!plan) { return require_sentence(plan.error()); }
  auto const compiled = ballast::compiled_schedule::make(stages, plan->schedule);
  require(compiled.has_value(), "a plan is no schedule");
  require(ballast::check_memory(*compiled, plan->order, memory).has_value(), "a rank is too full");
  require(ballast::simulate(*compiled, times, plan->order).makespan == plan->makespan &&
              plan->lower_bound <= plan->makespan,
          "makespan ", plan->makespan, ", bound ", plan->lower_bound);
  std::vector<ballast::microbatch_id> order;
  for (std::size_t at = 0; at < times.microbatches(); ++at) {
    order.push_back(ballast::to_id<ballast::microbatch_id>(at));
  }
  auto const beside = [&](auto const& rule) {
    auto const other = ballast::compiled_schedule::make(stages, rule, order.size());
    if (!other || !ballast::check_memory(*other, order, memory)) { return; }
    auto const makespan = ballast::simulate(*other, times, order).makespan;
    require(plan->makespan <= makespan, "makespan ", plan->makespan, ", of a rule ", makespan);
  };
  beside(ballast::one_forward_one_backward{});
  beside(ballast::zero_bubble{});
  beside(ballast::zero_bubble{true});
  // GPipe is no start of a plan, but a schedule that its bound must not exceed.
  auto const gpipe =
      ballast::compiled_schedule::make(stages, ballast::gpipe{}, order.size()).value();
  if (!ballast::check_memory(gpipe, order, memory)) { return; }
  require(plan->lower_bound <= ballast::simulate(gpipe, times, order).makespan, "bound ",
          plan->lower_bound, " above GPipe");
}

// Forward and backward of a sample in both modules, made of its sizes and a factor.
struct scaled_times {
  std::int64_t factor = 1;

  std::array<ballast::stage_time, 2> operator()(std::span<ballast::tokens const, 2> sizes) const
  {
    auto const time = [this](ballast::tokens size) {
      return factor == 0 ? size % 2 * ballast::stage_graph::longest_time : factor * size;
    };
    return {ballast::stage_time{time(sizes[0]), time(sizes[0])},
            ballast::stage_time{time(sizes[1]), time(sizes[1])}};
  }
};

void schedule_step(ballast::random_source& random)
{
  auto const replicas = static_cast<std::uint32_t>(1 + random.below(3));
  std::size_t const microbatches = 1 + random.below(4);
  bool const is_small = random.below(2) == 0;
  auto setup = ballast_test::small_setup(replicas, microbatches);
  std::size_t const samples = random.below(is_small ? 6 : 200);
  std::vector<ballast::tokens> sizes;
  ballast::tokens total = 0;
  ballast::tokens longest = 0;
  for (std::size_t sample = 0; sample < samples; ++sample) {
    sizes.push_back(random.below(3) == 0 ? 0 : random.between(1, 12));
    sizes.push_back(random.between(0, 1000));
    total += sizes.back();
    longest = std::max(longest, sizes.back());
  }
  std::size_t const bins = replicas * microbatches;
  auto const even = total / static_cast<ballast::tokens>(bins);
  if (random.below(2) == 0) {
    setup.most_per_gpu = std::max(longest, even) + random.between(0, even / 4 + 1);
  }
  std::int64_t const most = setup.most_per_gpu;
  scaled_times const times{random.below(8) == 0 ? 0 : random.between(1, 1000)};
  auto scheduler = ballast::microbatch_scheduler<2, scaled_times, ballast::insertion>::make(
                       std::move(setup), times)
                       .value();
  ballast::scheduled_step<2> step;
  std::vector<std::uint32_t> factors;
  if (random.below(3) == 0) {
    factors.resize(2 * ballast::shape_buckets);
    for (auto& factor : factors) {
      factor = static_cast<std::uint32_t>(
          random.below(8) == 0 ? ~std::uint32_t{0} : random.below(3 * ballast::unchanged_factor));
    }
  }
  auto const done = scheduler(step, sizes, random.below(100), 0, factors);
  if (!done) {
    require_sentence(done.error());
    if (done.error().code == ballast::error_code::out_of_range) {
      require(times.factor == 0 || !factors.empty(), "refused: ", done.error().message);
      return;
    }
    if (samples > 5 || says(done.error(), "not all fillings were tried")) { return; }
    // Every sample to every microbatch of every replica.
    std::vector<ballast::tokens> held(bins, 0);
    auto const place = [&](auto const& self, std::size_t sample) -> bool {
      if (sample == samples) { return true; }
      for (std::size_t bin = 0; bin < bins; ++bin) {
        held[bin] += sizes[2 * sample + 1];
        if (held[bin] <= most && self(self, sample + 1)) { return true; }
        held[bin] -= sizes[2 * sample + 1];
      }
      return false;
    };
    require(!place(place, 0), "a step that has a plan is refused: ", done.error().message);
    return;
  }
  std::vector<int> found(2 * samples, 0);
  for (std::size_t module = 0; module < 2; ++module) {
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      for (std::size_t position = 0; position < microbatches; ++position) {
        ballast::tokens held = 0;
        for (auto const sample : step.microbatch(module, replica, position)) {
          held += sizes[2 * ballast::to_index(sample) + 1];
          ++found[2 * ballast::to_index(sample) + module];
        }
        require(module == 0 || held <= most, "a replica holds ", held, " of ", most);
      }
    }
  }
  require(std::ranges::all_of(found, [](int times_found) { return times_found == 1; }),
          "a sample is missing or repeated");
  require(step.largest_load_bound <= step.largest_load, "bound above the largest load");
  ballast::time_units const last = ballast_test::simulated_makespan(
      ballast_test::small_setup(replicas, microbatches).schedule, step.times);
  require(step.makespan == last, "makespan ", step.makespan, ", simulated ", last);
}

// In which steps of a window units train: the promises of window_policy.
template <class Policy>
void train_in_window(ballast::random_source& random)
{
  auto drawn = ballast_test::draw_window(random, random.below(4) == 0 ? 300 : 12, 12);
  auto const family = draw_family(random);
  for (auto& cost : drawn.costs) { cost = draw_number(random, family); }
  std::vector<ballast::cost_units> const before(drawn.steps, random.between(0, 1000));
  if (!is_moderate(drawn.costs)) { return; }
  auto loads = before;
  auto const step = ballast_test::steps_by(Policy{}, drawn, loads);
  auto expected = before;
  for (std::size_t unit = 0; unit < step.size(); ++unit) {
    require(step[unit] < drawn.steps, "unit ", unit, " trains in step ", step[unit]);
    expected[step[unit]] += drawn.costs[unit];
  }
  require(loads == expected, "loads are not those of the units");
  require(ballast_test::can_be_completed(drawn, step), "a step has too many units, or late ones");
  auto again = before;
  require(ballast_test::steps_by(Policy{}, drawn, again) == step, "other steps the second time");
}

}  // namespace

void add_pipelines(std::vector<soaked_planner>& planners)
{
  for (std::string const name : {"given", "ascending", "interval", "insertion",
                                 "insertion:evaluations=10", "search:evaluations=50"}) {
    add_order(planners, name, false);
  }
  add_order(planners, "exact:nodes=20", false);
  add_order(planners, "exact:nodes=1000", true);
  planners.push_back({"schedule/planned", plan_passes});
  planners.push_back({"microbatch_scheduler", schedule_step});
  planners.push_back({"long_rounds", train_in_window<ballast::long_rounds>});
  planners.push_back({"even_rounds", train_in_window<ballast::even_rounds>});
}

}  // namespace ballast_soak
