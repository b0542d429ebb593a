// SPDX-License-Identifier: Apache-2.0
// Policies of partition(), by name and as templates, by one quantity and by several: plans are
// recomputed from their owners, and on small steps compared with all assignments; any limits at once.
// The reordering of a global batch.

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../../examples/common/by_name/any_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "drawn_step.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition.hpp>

#include <map>
#include <memory>

namespace ballast_soak {
namespace {

using ballast::batching;
using ballast::cost_units;
using ballast::ratio;

std::vector<ballast_test::numbered> number(drawn_step const& step)
{
  std::vector<ballast_test::numbered> samples(step.size());
  for (std::size_t sample = 0; sample < samples.size(); ++sample) { samples[sample] = {sample}; }
  return samples;
}

// Costs in D quantities.
template <std::size_t D>
using costs_in = std::conditional_t<D == 1, cost_units, ballast::cost_vector<D>>;
template <std::size_t D>
using plan_in = ballast::basic_partition_plan<costs_in<D>>;

template <std::size_t D>
struct cost_of_step {
  drawn_step const& step;

  costs_in<D> operator()(ballast_test::numbered n) const
  {
    if constexpr (D == 1) {
      return step.costs[n.sample];
    } else {
      std::array const all{step.costs[n.sample], step.second[n.sample], step.attention[n.sample]};
      costs_in<D> cost{};
      std::copy_n(all.begin(), D, cost.begin());
      return cost;
    }
  }
  [[nodiscard]] cost_units attention_part(ballast_test::numbered n) const
    requires(D == 1)
  {
    return step.attention[n.sample];
  }
};

template <std::size_t D, class Policy>
ballast::result<void> plan_into(plan_in<D>& plan, ballast::workspace& memory,
                                drawn_step const& step, Policy const& policy)
{
  return ballast::partition_into(
      plan, memory, number(step), step.bags, cost_of_step<D>{step},
      [&](ballast_test::numbered n) { return step.lengths[n.sample]; }, step.constraints(), policy);
}

template <std::size_t D, class Policy>
std::optional<plan_in<D>> plan_once(drawn_step const& step, Policy const& policy)
{
  plan_in<D> plan;
  ballast::workspace memory;
  return plan_into<D>(plan, memory, step, policy) ? std::optional(plan) : std::nullopt;
}

// What bags do under these owners, and when the last of them ends.
template <std::size_t D>
std::vector<costs_in<D>> loads_of(drawn_step const& step, std::vector<std::size_t> const& owner,
                                  batching batches)
{
  cost_of_step<D> const cost_of{step};
  std::vector<costs_in<D>> loads(step.bags.size(), costs_in<D>{});
  std::vector<cost_units> largest(loads.size(), 0);
  std::vector<cost_units> count(loads.size(), 0);
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    std::size_t const bag = owner[sample];
    auto const cost = cost_of({sample});
    if constexpr (D == 1) {
      cost_units const padded = batches == batching::packed   ? 0
                                : batches == batching::padded ? cost
                                                              : step.attention[sample];
      loads[bag] += cost - padded;
      largest[bag] = std::max(largest[bag], padded);
      ++count[bag];
    } else {
      for (std::size_t d = 0; d < D; ++d) { loads[bag][d] += cost[d]; }
    }
  }
  if constexpr (D == 1) {
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      loads[bag] += count[bag] * largest[bag];
    }
  }
  return loads;
}

template <class Costs>
ratio makespan_of_loads(drawn_step const& step, std::vector<Costs> const& loads)
{
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    cost_units largest = 0;
    if constexpr (std::is_same_v<Costs, cost_units>) {
      largest = loads[bag];
    } else {
      largest = std::ranges::max(loads[bag]);
    }
    makespan = std::max(makespan, ratio{largest, step.bags.speeds()[bag]});
  }
  return makespan;
}

// What a plan says, recomputed from its owners.
template <std::size_t D>
void require_sound(drawn_step const& step, plan_in<D> const& plan, batching batches)
{
  require(plan.owner.size() == step.size(), "owners of ", plan.owner.size(), " samples");
  auto const owner = ballast_test::assignment_of(plan.owner);
  std::vector<ballast::uint128> held(step.bags.size(), 0);
  std::vector<ballast::uint128> heaviest(step.bags.size(), 0);
  std::map<int, std::size_t> bag_of_key;
  std::int64_t moved = 0;
  std::int64_t all = 0;
  std::size_t short_ones = 0;
  for (std::size_t sample = 0; sample < step.size(); ++sample) {
    std::size_t const bag = owner[sample];
    require(bag < step.bags.size(), "sample ", sample, " is in bag ", bag);
    require(step.takes(sample, bag), "sample ", sample, " does not fit bag ", bag);
    auto const weight = static_cast<ballast::uint128>(step.weight(sample));
    held[bag] += batches == batching::padded ? 1 : weight;
    heaviest[bag] = std::max(heaviest[bag], weight);
    all += step.lengths[sample];
    short_ones += step.bags.is_short(step.lengths[sample]) ? 1U : 0U;
    bool const stays =
        step.home.empty() || ballast::to_index(step.bags.bag_of(step.home[sample])) == bag;
    moved += stays ? 0 : step.lengths[sample];
    require(step.together.empty() ||
                bag_of_key.try_emplace(step.together[sample], bag).first->second == bag,
            "sample ", sample, " is not with those that it stays together with");
  }
  for (std::size_t bag = 0; bag < held.size() && step.is_limited(); ++bag) {
    auto const weight = batches == batching::padded ? held[bag] * heaviest[bag] : held[bag];
    require(step.holds(bag, weight), "bag ", bag, " holds more than its GPUs may");
  }
  require(plan.loads == loads_of<D>(step, owner, batches), "loads are not those of the owners");
  require(plan.makespan == makespan_of_loads(step, plan.loads), "makespan ", shown(plan.makespan));
  require(plan.lower_bound <= plan.makespan, "bound above the makespan");
  require(plan.short_samples == short_ones, plan.short_samples, " short samples, not ", short_ones);
  require(plan.moved == (moved == 0 ? ratio{} : ratio{moved, all}), "moved ", shown(plan.moved));
  std::size_t rows = 0;
  for (std::size_t bag = 0; bag < plan.samples.size(); ++bag) {
    for (auto const sample : plan.samples[ballast::to_id<ballast::bag_id>(bag)]) {
      require(owner[ballast::to_index(sample)] == bag, "a row has a sample of another bag");
      ++rows;
    }
  }
  require(rows == step.size(), "rows have ", rows, " samples");
}

// What a policy promises beside a sound plan.
struct promises {
  batching batches = batching::packed;
  bool is_exact = false;    // the optimum of a small step: by one quantity, of one without limits,
                            // and by several, of one whose GPUs have one speed
  bool finds_room = false;  // a plan within the limits of a small step, where there is one
};

constexpr double most_plans = 250;

// Compares a plan with all assignments of a small step.
template <std::size_t D>
void require_bounded(drawn_step const& step, plan_in<D> const& plan, promises const& promised)
{
  auto const owner = ballast_test::assignment_of(plan.owner);
  std::optional<ratio> best;
  bool const tried = for_each_plan(step, most_plans, [&](std::vector<std::size_t> const& each) {
    ratio const makespan = makespan_of_loads(step, loads_of<D>(step, each, promised.batches));
    if (!best || makespan < *best) { best = makespan; }
  });
  if (!tried) { return; }
  // A limit on what is padded counts otherwise than the one that assignments keep to.
  bool const comparable = promised.batches != batching::padded || !step.is_limited();
  require(best.has_value() || !comparable, "a plan where no assignment is one");
  if (!best || !comparable) { return; }
  require(plan.lower_bound <= *best, "bound ", shown(plan.lower_bound), ", and the optimum is ",
          shown(*best));
  require(*best <= plan.makespan, "makespan ", shown(plan.makespan), " below the optimum ",
          shown(*best));
  auto const speeds = step.bags.speeds();
  bool const one_speed = std::ranges::all_of(speeds, [&](auto each) { return each == speeds[0]; });
  if (promised.is_exact && (D == 1 ? !step.is_limited() : one_speed)) {
    require(plan.makespan == *best, "makespan ", shown(plan.makespan), ", and the optimum is ",
            shown(*best));
    require(D > 1 || plan.proven_optimal(), "an optimum that was not proven");
  }
}

void require_right_refusal(drawn_step const& step, ballast::error const& why,
                           promises const& promised)
{
  require_sentence(why);
  if (why.code == ballast::error_code::out_of_range) {
    require(!step.is_in_range(), "out of range, though nothing is: ", why.message);
    return;
  }
  require(why.code == ballast::error_code::infeasible, "refused as something else: ", why.message);
  bool const pads = promised.batches != batching::packed;
  if (pads && says(why, "cannot keep some of them together")) {
    require(!step.together.empty(), "nothing was to stay together: ", why.message);
    return;
  }
  if (pads && says(why, "policies that pad keep limits only")) {
    require(step.is_limited(), "there is no limit: ", why.message);
    return;
  }
  bool const says_why =
      says(why, "use a policy that packs") || says(why, "before the search gave up");
  require(step.is_limited() || !says_why, "there is no limit: ", why.message);
  if (says_why && !promised.finds_room) { return; }
  bool exists = false;
  (void)for_each_plan(step, most_plans, [&](auto const&) { exists = true; });
  require(!exists, "a step that has a plan is refused: ", why.message);
}

template <std::size_t D = 1, class Policy>
void add(std::vector<soaked_planner>& planners, std::string const& name, Policy const& policy,
         promises promised, std::vector<by_name::any_policy> const& not_worse_than = {})
{
  promised.batches = ballast::batching_of(policy);
  auto plan = std::make_shared<plan_in<D>>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {(D == 1 ? "partition/" : "vectors/") + name, [=](ballast::random_source& random) {
         drawn_step const step = draw_step(random);
         auto const done = plan_into<D>(*plan, *memory, step, policy);
         if (!done) {
           require_right_refusal(step, done.error(), promised);
           return;
         }
         require_sound<D>(step, *plan, promised.batches);
         require_bounded<D>(step, *plan, promised);
         if (random.below(8) == 0) { require_same(plan_once<D>(step, policy), *plan); }
         // Within limits each has a search of its own.
         if (random.below(4) != 0 || step.is_limited()) { return; }
         for (auto const& other : not_worse_than) {
           auto const theirs = plan_once<1>(step, other);
           require(!theirs || plan->makespan <= theirs->makespan,
                   "worse than the policy inside: ", shown(plan->makespan), " and ",
                   shown(theirs ? theirs->makespan : ratio{}));
         }
       }});
}

void add_named(std::vector<soaked_planner>& planners, std::string const& name,
               promises const& promised, std::vector<std::string> const& not_worse_than = {})
{
  std::vector<by_name::any_policy> others;
  for (auto const& each : not_worse_than) { others.push_back(by_name::parse_policy(each).value()); }
  add(planners, name, by_name::parse_policy(name).value(), promised, others);
}

// Any limits at once, by D quantities: kept, in the best of all plans of a small step.
template <std::size_t D>
void soak_limits(ballast::random_source& random, plan_in<D>& plan, ballast::workspace& memory)
{
  using namespace limited_steps;
  bool const is_small = random.below(2) == 0;
  auto step = draw_limited_step<D>(random, is_small);
  auto const plan_anew = [](auto const&... given) { return ballast::partition(given...); };
  auto const done = planned(
      step, [&](auto const&... given) { return ballast::partition_into(plan, memory, given...); });
  auto const again = planned(step, plan_anew);
  require(done.has_value() == again.has_value(), "planned in some memory alone");
  if (!done) {
    require_sentence(done.error());
    std::vector<cost_units> numbers = step.before;
    for (auto const& each : step.costs) { numbers.insert(numbers.end(), each.begin(), each.end()); }
    bool const is_out = done.error().code == ballast::error_code::out_of_range;
    require(!is_out || !is_moderate(numbers), "nothing is out of range: ", done.error().message);
    if (is_out) { return; }
  }
  if (is_small) {
    tally steps;
    check(step, "of all plans", steps, [&](auto const&...) { return again; });
  }
  if (!done) { return; }
  require_same(again, plan);
  auto const owner = ballast_test::assignment_of(plan.owner);
  require(owner.size() == step.samples && keeps(step, owner), "limits are not kept");
  auto const judged = judge(step, owner);
  auto const all = std::reduce(plan.lengths.begin(), plan.lengths.end(), tokens{0});
  bool const moves_any = step.has[moves] && judged.moved > 0;
  require(plan.moved == (moves_any ? ratio{judged.moved, all} : ratio{}), "moved ",
          shown(plan.moved));
  require(plan.makespan == judged.finish[0] && plan.lower_bound <= plan.makespan, "makespan ",
          shown(plan.makespan), ", bound ", shown(plan.lower_bound), ", by its owners ",
          shown(judged.finish[0]));
  for (std::size_t bag = 0; bag < step.bags; ++bag) {
    auto const id = ballast::to_id<ballast::bag_id>(bag);
    require(std::ranges::equal(ballast::detail::numbers_of(plan.loads[bag]), judged.loads[bag]),
            "loads are not those of the owners");
    tokens held = 0;
    for (auto const sample : plan.samples[id]) { held += step.lengths[ballast::to_index(sample)]; }
    bool const is_above = std::ranges::count(plan.above_cap, id) == 1;
    require(is_above == (step.has[soft] && held > step.of_cell(bag, 5)), "bag ", bag, " of ", held);
  }
  if (!step.has[moves]) { return; }
  step.has[moves] = false;
  auto const shortest = planned(step, plan_anew);
  require(shortest && is_within(plan.makespan, shortest->makespan, step.within), "makespan ",
          shown(plan.makespan), ", and the shortest ", shown(shortest->makespan));
  tokens const moved = judge(step, ballast_test::assignment_of(shortest->owner)).moved;
  require(D > 1 || judged.moved <= moved, "moved ", judged.moved, ", and without a word ", moved);
}

void add_limits(std::vector<soaked_planner>& planners)
{
  struct kept {
    plan_in<1> by_one;
    plan_in<2> by_two;
    ballast::workspace memory;
  };
  auto all = std::make_shared<kept>();
  planners.push_back({"partition/limits", [all](ballast::random_source& random) {
                        random.below(2) == 0 ? soak_limits<1>(random, all->by_one, all->memory)
                                             : soak_limits<2>(random, all->by_two, all->memory);
                      }});
}

void add_intra_reorder(std::vector<soaked_planner>& planners)
{
  planners.push_back(
      {"intra_reorder", [](ballast::random_source& random) {
         drawn_step const step = draw_step(random);
         std::size_t const groups = 1 + random.below(6);
         auto const batch = ballast::intra_reorder(step.costs, ballast::one_gpu_bags(groups),
                                                   [](cost_units cost) { return cost; });
         if (!batch) {
           require_sentence(batch.error());
           require(!is_moderate(step.costs), "refused: ", batch.error().message);
           return;
         }
         std::vector<ballast::sample_id> order(batch->order().begin(), batch->order().end());
         std::ranges::sort(order);
         require(order.size() == step.size(), "an order of ", order.size(), " samples");
         std::vector<cost_units> loads(groups, 0);
         for (std::size_t at = 0; at < order.size(); ++at) {
           require(ballast::to_index(order[at]) == at, "a sample is missing or repeated");
         }
         for (std::size_t group = 0; group < groups; ++group) {
           auto const row = batch->plan.samples[ballast::to_id<ballast::bag_id>(group)];
           require(std::ranges::is_sorted(row), "samples of a group in another order");
           for (auto const sample : row) { loads[group] += step.costs[ballast::to_index(sample)]; }
         }
         require(loads == batch->plan.loads, "loads are not those of the groups");
       }});
}

}  // namespace

void add_partitions(std::vector<soaked_planner>& planners)
{
  for (std::string const name :
       {"round_robin", "longest_processing_time", "greedy_knapsack",
        "greedy_knapsack:capacity=full", "karmarkar_karp", "quadratic_with_tolerance:tolerance=3",
        "quadratic_with_tolerance", "padded_batches", "padded_batches:orders=1",
        "conv_transformer_batches"}) {
    add_named(planners, name, {});
  }
  add_named(planners, "refine", {.finds_room = true}, {"lpt"});
  add_named(planners, "refine:kk,work=1000", {}, {"lpt", "kk"});
  add_named(planners, "refine:round_robin", {}, {"lpt"});
  add_named(planners, "refine:nodes=16777216", {.is_exact = true, .finds_room = true}, {"refine"});
  add_named(planners, "refine:round_robin,work=0,nodes=1000", {.finds_room = true},
            {"round_robin"});
  add_named(planners, "attention_padded_batches", {}, {"conv_transformer_batches"});
  add_named(planners, "attention_padded_batches:work=100", {}, {"conv_transformer_batches"});
  add(planners, "refine{karmarkar_karp}", ballast::refine{baselines::karmarkar_karp{}}, {});
  add(planners, "greedy_knapsack{}", ballast::greedy_knapsack{}, {.finds_room = true});
  add(planners, "padded_batches{}", ballast::padded_batches{}, {});
  add(planners, "quadratic_with_tolerance{}", baselines::quadratic_with_tolerance{}, {});
  add_limits(planners);
  add<2>(planners, "longest_processing_time<2>", ballast::longest_processing_time{}, {});
  add<2>(planners, "refine<2>", ballast::refine<>{}, {});
  add<3>(planners, "refine<3>", ballast::refine<>{}, {});
  add<2>(planners, "refine<2>, 2^16 nodes", ballast::refine<>{.nodes = std::uint64_t{1} << 16},
         {.is_exact = true});
  add<3>(planners, "refine<3>, 100 nodes", ballast::refine<>{.nodes = 100}, {});
  add_intra_reorder(planners);
}

}  // namespace ballast_soak
