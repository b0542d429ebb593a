// SPDX-License-Identifier: Apache-2.0
// Policies by several quantities, and the reordering of a global batch.

#include "drawn_step.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition.hpp>

#include <memory>

namespace ballast_soak {
namespace {

using ballast::cost_units;
using ballast::ratio;

template <std::size_t D>
ballast::cost_vector<D> costs_of(drawn_step const& step, std::size_t sample)
{
  ballast::cost_vector<D> cost{};
  for (std::size_t d = 0; d < D; ++d) {
    cost[d] = d == 0 ? step.costs[sample] : d == 1 ? step.second[sample] : step.attention[sample];
  }
  return cost;
}

template <std::size_t D>
std::vector<ballast::cost_vector<D>> loads_of(drawn_step const& step,
                                              std::vector<std::size_t> const& owner)
{
  std::vector<ballast::cost_vector<D>> loads(step.bags.size(), ballast::cost_vector<D>{});
  for (std::size_t sample = 0; sample < owner.size(); ++sample) {
    auto const cost = costs_of<D>(step, sample);
    for (std::size_t d = 0; d < D; ++d) { loads[owner[sample]][d] += cost[d]; }
  }
  return loads;
}

template <std::size_t D>
ratio last_of(drawn_step const& step, std::vector<ballast::cost_vector<D>> const& loads)
{
  ratio makespan;
  for (std::size_t bag = 0; bag < loads.size(); ++bag) {
    makespan = std::max(makespan, ratio{std::ranges::max(loads[bag]), step.bags.speeds()[bag]});
  }
  return makespan;
}

template <std::size_t D, class Policy>
ballast::result<void> plan_into(ballast::cost_vector_plan<D>& plan, ballast::workspace& memory,
                                drawn_step const& step, Policy const& policy)
{
  std::vector<std::size_t> samples(step.size());
  std::iota(samples.begin(), samples.end(), std::size_t{0});
  return ballast::partition_into(
      plan, memory, samples, step.bags, policy,
      [&](std::size_t sample) { return costs_of<D>(step, sample); },
      [&](std::size_t sample) { return step.lengths[sample]; }, step.constraints());
}

constexpr double most_plans = 250;

template <std::size_t D>
void require_plan(drawn_step const& step, ballast::cost_vector_plan<D> const& plan, bool is_exact)
{
  std::vector<std::size_t> owner;
  std::vector<ballast::uint128> held(step.bags.size(), 0);
  for (ballast::bag_id const bag : plan.owner) {
    std::size_t const sample = owner.size();
    owner.push_back(ballast::to_index(bag));
    require(owner.back() < step.bags.size() && step.takes(sample, owner.back()), "sample ", sample,
            " is in bag ", owner.back());
    held[owner.back()] += static_cast<ballast::uint128>(step.weight(sample));
  }
  require(owner.size() == step.size(), "owners of ", owner.size(), " samples");
  for (std::size_t bag = 0; bag < held.size(); ++bag) {
    require(step.holds(bag, held[bag]), "bag ", bag, " holds more than its GPUs may");
  }
  for (auto const& item : step.items()) {
    for (std::size_t const sample : item) {
      require(owner[sample] == owner[item.front()], "samples do not stay together");
    }
  }
  require(plan.loads == loads_of<D>(step, owner), "loads are not those of the owners");
  require(plan.makespan == last_of<D>(step, plan.loads), "makespan ", shown(plan.makespan));
  require(plan.lower_bound <= plan.makespan, "bound above the makespan");
  std::optional<ratio> best;
  bool const tried = for_each_plan(step, most_plans, [&](std::vector<std::size_t> const& each) {
    ratio const makespan = last_of<D>(step, loads_of<D>(step, each));
    if (!best || makespan < *best) { best = makespan; }
  });
  if (!tried) { return; }
  require(best && plan.lower_bound <= *best && *best <= plan.makespan, "bound ",
          shown(plan.lower_bound), ", optimum ", shown(best.value_or(ratio{})), ", makespan ",
          shown(plan.makespan));
  auto const speeds = step.bags.speeds();
  bool const one_speed = std::ranges::all_of(speeds, [&](auto s) { return s == speeds[0]; });
  require(!is_exact || !one_speed || plan.makespan == *best, "makespan ", shown(plan.makespan),
          ", and the optimum is ", shown(*best));
}

template <std::size_t D, class Policy>
void add(std::vector<soaked_planner>& planners, std::string const& name, Policy const& policy,
         bool is_exact = false)
{
  auto plan = std::make_shared<ballast::cost_vector_plan<D>>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {"vectors/" + name, [=](ballast::random_source& random) {
         drawn_step const step = draw_step(random);
         auto const done = plan_into<D>(*plan, *memory, step, policy);
         if (done) {
           require_plan<D>(step, *plan, is_exact);
           if (random.below(8) != 0) { return; }
           ballast::cost_vector_plan<D> fresh;
           ballast::workspace other;
           require(plan_into<D>(fresh, other, step, policy) && fresh.digest() == plan->digest() &&
                       fresh.lower_bound == plan->lower_bound,
                   "another plan in fresh memory");
           return;
         }
         require_sentence(done.error());
         if (done.error().code == ballast::error_code::out_of_range) {
           require(!step.is_in_range(), "out of range, though nothing is: ", done.error().message);
           return;
         }
         if (says(done.error(), "not all fillings were tried") ||
             says(done.error(), "use a policy that looks at weights")) {
           require(step.is_limited(), "there is no limit: ", done.error().message);
           return;
         }
         bool exists = false;
         (void)for_each_plan(step, most_plans, [&](auto const&) { exists = true; });
         require(!exists, "a step that has a plan is refused: ", done.error().message);
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

void add_vectors(std::vector<soaked_planner>& planners)
{
  add<2>(planners, "longest_processing_time<2>", ballast::longest_processing_time{});
  add<2>(planners, "refine<2>", ballast::refine<>{});
  add<3>(planners, "refine<3>", ballast::refine<>{});
  add<2>(planners, "exact<2>", ballast::exact<>{}, true);
  add<3>(planners, "exact<3>, 100 bags",
         ballast::exact{ballast::longest_processing_time{}, 0, 100});
  add_intra_reorder(planners);
}

}  // namespace ballast_soak
