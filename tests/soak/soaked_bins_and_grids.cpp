// SPDX-License-Identifier: Apache-2.0
// Packings into bins of one capacity, and grids of ranks and microbatches.

#include "../support/grid_oracle.hpp"
#include "../support/packing_oracles.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/partition.hpp>

#include <memory>

namespace ballast_soak {
namespace {

ballast_test::packing_instance draw_packing(ballast::random_source& random, number_family family)
{
  if (family == number_family::tiny) {
    return ballast_test::random_packing(random, random.below(2) == 0 ? 7 : 60);
  }
  ballast_test::packing_instance step;
  step.weights.resize(random.below(40));
  std::int64_t heaviest = 0;
  for (auto& weight : step.weights) {
    weight = draw_number(random, family);
    heaviest = std::max(heaviest, weight);
  }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  step.capacity = random.below(3) == 0   ? heaviest
                  : random.below(2) == 0 ? heaviest + std::min(heaviest, most - heaviest) / 2
                                         : most - random.between(0, 1);
  return step;
}

// The fewest bins by trying all, in 128 bits.
std::size_t fewest_by_trying(ballast_test::packing_instance const& step)
{
  std::vector<ballast::uint128> loads;
  std::size_t best = step.weights.size() + 1;
  auto const place = [&](auto const& self, std::size_t sample) -> void {
    if (loads.size() >= best) { return; }
    if (sample == step.weights.size()) {
      best = loads.size();
      return;
    }
    auto const weight = static_cast<ballast::uint128>(step.weights[sample]);
    for (std::size_t bin = 0; bin < loads.size(); ++bin) {
      loads[bin] += weight;
      bool const fits = loads[bin] <= static_cast<ballast::uint128>(step.capacity);
      if (fits) { self(self, sample + 1); }
      loads[bin] -= weight;
    }
    loads.push_back(weight);
    self(self, sample + 1);
    loads.pop_back();
  };
  place(place, 0);
  return best;
}

void add_packing(std::vector<soaked_planner>& planners, std::string const& name, std::uint64_t work)
{
  auto plan = std::make_shared<ballast::packing_plan>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {"packing/" + name, [=](ballast::random_source& random) {
         number_family const family = draw_family(random);
         auto const step = draw_packing(random, family);
         auto const done = ballast::pack_into(*plan, *memory, step.weights,
                                              {.most_per_gpu = step.capacity}, {.work = work});
         if (!done) {
           auto const& why = done.error();
           require_sentence(why);
           bool const is_heavy =
               !step.weights.empty() && std::ranges::max(step.weights) > step.capacity;
           require(why.code == ballast::error_code::out_of_range ? !is_moderate(step.weights)
                                                                 : is_heavy,
                   "refused: ", why.message);
           return;
         }
         ballast_test::expect_valid_packing(step, *plan);
         if (random.below(8) == 0) {
           require_same(ballast_test::pack(step, {.work = work}), *plan);
         }
         if (step.weights.size() > 7) { return; }
         std::size_t const fewest = fewest_by_trying(step);
         require(plan->lower_bound <= fewest && fewest <= plan->bins(), "bound ", plan->lower_bound,
                 ", the fewest bins ", fewest, ", packed ", plan->bins());
       }});
}

// Bins within limits that one cap does not have.
void pack_within_limits(ballast::random_source& random)
{
  number_family const family = draw_family(random);
  auto const step = draw_packing(random, family);
  ballast::bins wanted{.work = 1 << 15};
  ballast::placement_limits limits{.most_per_gpu = step.capacity};
  if (random.below(2) == 0) { limits.samples = ballast::counts::at_most(random.between(1, 5)); }
  if (random.below(2) == 0) { wanted.least = random.below(9); }
  if (random.below(2) == 0) { wanted.multiple_of = 1 + random.below(4); }
  if (random.below(3) == 0) { limits.then = ballast::most_level; }
  wanted.is_padded = random.below(3) == 0;
  std::vector<std::int64_t> images(step.weights.size());
  for (auto& image : images) { image = random.between(0, 3); }
  bool const has_images = !wanted.is_padded && random.below(2) == 0;
  if (has_images) { limits.also = {{.of = images, .most_per_gpu = 3}}; }
  auto const plan = ballast::pack(step.weights, limits, wanted);
  if (!plan) {
    require_sentence(plan.error());
    bool const is_heavy = !step.weights.empty() && std::ranges::max(step.weights) > step.capacity;
    require(is_heavy || !is_moderate(step.weights), "refused: ", plan.error().message);
    return;
  }
  require(plan->bins() % wanted.multiple_of == 0 && plan->bins() >= wanted.least, plan->bins(),
          " bins");
  require(plan->lower_bound <= plan->bins() && plan->largest_bound <= plan->largest(), "bounds ",
          plan->lower_bound, " and ", plan->largest_bound);
  for (std::size_t bin = 0; bin < plan->bins(); ++bin) {
    auto const row = plan->samples[ballast::to_id<ballast::bag_id>(bin)];
    std::int64_t held = 0;
    for (ballast::sample_id const sample : row) { held += images[to_index(sample)]; }
    require(!has_images || held <= 3, held, " images in a bin");
    require(limits.samples.kind == ballast::counts::rule::any ||
                static_cast<std::int64_t>(row.size()) <= limits.samples.number,
            row.size(), " samples in a bin");
    require(plan->loads[bin] <= step.capacity, "a load of ", plan->loads[bin]);
  }
}

// Numbers of another family in a grid that has some constraints.
void enlarge(ballast_test::grid_instance& step, number_family family,
             ballast::random_source& random)
{
  if (family == number_family::tiny) { return; }
  std::int64_t heaviest = 0;
  for (auto& weight : step.weights) {
    weight = draw_number(random, family);
    heaviest = std::max(heaviest, weight);
  }
  for (auto& cost : step.costs) { cost = draw_number(random, family); }
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (auto& cap : step.caps) {
    cap = heaviest + std::min(most - heaviest, random.between(0, heaviest));
  }
}

void add_grid(std::vector<soaked_planner>& planners)
{
  auto plan = std::make_shared<ballast::grid_plan>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {"partition_grid", [=](ballast::random_source& random) {
         bool const is_small = random.below(4) == 0;
         auto step = ballast_test::random_grid(random, is_small ? 4 : 14);
         number_family const family = draw_family(random);
         enlarge(step, family, random);
         ballast::microbatches slots{.number = step.slots, .meet = step.meet, .kinds = step.kinds};
         if (!is_small && random.below(2) == 0) {
           slots.number.reset();
           slots.multiple_of = 1 + random.below(3);
         }
         auto const samples = step.samples();
         auto const plan_it = [&](ballast::grid_plan& into, ballast::workspace& scratch) {
           return ballast::partition_grid_into(
               into, scratch, samples, ballast::one_gpu_bags(step.ranks), slots,
               &ballast_test::grid_sample::cost, &ballast_test::grid_sample::weight, step.limits());
         };
         auto const done = plan_it(*plan, *memory);
         bool const is_tried =
             is_small && slots.number && is_moderate(step.weights) && is_moderate(step.costs);
         if (!done) {
           auto const& why = done.error();
           require_sentence(why);
           if (why.code == ballast::error_code::out_of_range) {
             bool const is_too_long = std::ranges::any_of(
                 step.weights, [](auto weight) { return weight > ballast::longest_sample; });
             require(is_too_long || !is_moderate(step.costs), "out of range: ", why.message);
             return;
           }
           bool const gave_up = says(why, "was found");
           require(gave_up || !is_tried || !ballast_test::best_grid(step),
                   "a step that has a plan is refused: ", why.message);
           return;
         }
         ballast_test::expect_valid_grid(*plan, step);
         require(!slots.number || plan->microbatches == *slots.number,
                 "another number of microbatches");
         require(plan->microbatches % slots.multiple_of == 0, plan->microbatches, " microbatches");
         if (random.below(8) == 0) {
           ballast::grid_plan fresh;
           ballast::workspace other;
           require_same(plan_it(fresh, other) ? &fresh : nullptr, *plan);
         }
         if (!is_tried) { return; }
         ballast::ratio const best{ballast_test::best_grid(step).value(), 1};
         require(plan->lower_bound <= best && best <= plan->makespan, "bound ",
                 plan->lower_bound.value(), ", optimum ", best.value(), ", makespan ",
                 plan->makespan.value());
       }});
}

}  // namespace

void add_bins_and_grids(std::vector<soaked_planner>& planners)
{
  add_packing(planners, "one cap, little work", 1 << 12);
  add_packing(planners, "one cap", ballast::bins{}.work);
  planners.push_back({"packing/limits", pack_within_limits});
  add_grid(planners);
}

}  // namespace ballast_soak
