// SPDX-License-Identifier: Apache-2.0
// Sequences over groups of GPUs, and the choice of a mix of bags.

#include "../support/planned_mix.hpp"
#include "../support/random_shardings.hpp"
#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/sharding.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <cmath>
#include <memory>
#include <numeric>

namespace ballast_soak {
namespace {

// Prices and limits so large that sums need more than 63 bits, or none at all.
void enlarge(ballast_test::sharding_step& step, ballast::random_source& random)
{
  constexpr auto family = number_family::extreme;
  auto const number = [&] { return draw_number(random, family); };
  auto const positive = [&] {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(number()));
  };
  if (random.below(2) == 0) { step.cost.work.linear = static_cast<std::uint64_t>(number()); }
  if (random.below(2) == 0) { step.cost.work.quadratic = static_cast<std::uint64_t>(number()); }
  if (random.below(2) == 0) { step.cost.latency = number(); }
  if (random.below(2) == 0) { step.cost.bytes_per_head = static_cast<std::uint64_t>(number()); }
  if (random.below(2) == 0) { step.cost.units_per_second = positive(); }
  if (random.below(2) == 0) { step.cost.within_node_bytes_per_second = positive(); }
  if (random.below(2) == 0) { step.limit = number(); }
  for (auto& length : step.lengths) {
    if (random.below(3) == 0) { length = random.below(2) == 0 ? ballast::longest_sample : 1; }
  }
}

// Whether no sequence takes so long that sums could be refused.
bool is_in_range(ballast_test::sharding_step const& step)
{
  std::vector<std::int64_t> longest;
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    longest.push_back(0);
    for (std::size_t group = 0; group < step.groups.size(); ++group) {
      auto const time = step.time(sample, group);
      if (!time) { continue; }
      if (*time >= ballast::no_cost / 64) { return false; }
      longest.back() = std::max(longest.back(), 8 * *time);
    }
  }
  return is_moderate(longest);
}

void shard(ballast::random_source& random, ballast::sharding_plan& plan, ballast::workspace& memory)
{
  bool const is_small = random.below(2) == 0;
  auto step = is_small ? ballast_test::draw_sharding(4, 3, random)
                       : ballast_test::draw_sharding(30, 8, random);
  bool const is_extreme = random.below(6) == 0;
  if (is_extreme) { enlarge(step, random); }
  auto const done =
      ballast::hybrid_sharding_into(plan, memory, step.lengths, step.groups, step.cost, step.limit);
  double const plans =
      std::pow(static_cast<double>(step.groups.size()), static_cast<double>(step.lengths.size()));
  bool const is_tried = is_small && plans <= 2000 && is_in_range(step);
  if (!done) {
    auto const& why = done.error();
    require_sentence(why);
    if (why.code == ballast::error_code::out_of_range) {
      require(!is_in_range(step), "out of range, though nothing is: ", why.message);
      return;
    }
    require(says(why, "gave up") || !is_tried || !ballast_test::best_sharding(step),
            "a step that has a plan is refused: ", why.message);
    return;
  }
  ballast_test::expect_true_plan(plan, step);
  if (random.below(8) == 0) {
    require_same(ballast::hybrid_sharding(step.lengths, step.groups, step.cost, step.limit), plan);
  }
  if (!is_tried) { return; }
  auto const best = ballast_test::best_sharding(step);
  require(best && plan.lower_bound <= *best && *best <= plan.makespan, "bound ", plan.lower_bound,
          ", optimum ", best.value_or(-1), ", makespan ", plan.makespan);
}

void tile(ballast::random_source& random, ballast::slots_plan& plan, ballast::workspace& memory)
{
  auto step = ballast_test::draw_sharding(30, 8, random);
  bool const is_extreme = random.below(6) == 0;
  if (is_extreme) { enlarge(step, random); }
  std::vector<std::uint32_t> const sizes = {1, 3, 4, 6};
  ballast::slot_groups rules{.powers_of_two = random.below(3) == 0,
                             .aligned = random.below(3) == 0,
                             .is_soft = random.below(2) == 0,
                             .work = 1 + random.below(20'000)};
  if (random.below(3) == 0) { rules.sizes = sizes; }
  if (random.below(3) == 0) { rules.largest = static_cast<std::uint32_t>(1 + random.below(9)); }
  if (random.below(2) == 0) {
    rules.most_per_gpu = std::max<ballast::tokens>(
        1, draw_number(random, is_extreme ? number_family::extreme : number_family::wide));
  }
  if (random.below(3) == 0) { rules.samples = ballast::counts::at_most(random.between(1, 5)); }
  if (random.below(4) == 0) { rules.multiple_of = 1 + random.below(3); }
  if (random.below(4) == 0) { rules.number = rules.multiple_of * (1 + random.below(4)); }
  if (random.below(2) == 0) { rules.meet = ballast::grid_meeting::step; }
  std::vector<std::uint32_t> const gpus{static_cast<std::uint32_t>(1 + random.below(8)),
                                        static_cast<std::uint32_t>(1 + random.below(8))};
  ballast::node_sizes const nodes(gpus);
  auto const done = ballast::plan_slots_into(plan, memory, step.lengths, nodes, step.cost, rules);
  if (!done) { return require_sentence(done.error()); }
  std::vector<int> computed(step.lengths.size(), 0);
  for (std::size_t slot = 0; slot < plan.slots; ++slot) {
    std::size_t next = 0;
    for (std::size_t at = plan.first_group[slot]; at < plan.first_group[slot + 1]; ++at) {
      auto const& group = plan.groups[at];
      require(to_index(group.ranks.first) == next, "slot ", slot, " has a gap at rank ", next);
      next += group.ranks.gpus;
      auto const samples = plan.samples[ballast::to_id<ballast::group_id>(at)];
      for (ballast::sample_id const sample : samples) { ++computed[to_index(sample)]; }
      bool const are_few =
          rules.samples == ballast::counts{} || std::ssize(samples) <= rules.samples.number;
      require(group.load >= 0 && are_few, "too many samples");
    }
    require(next == plan.ranks, "slot ", slot, " ends at rank ", next, " of ", plan.ranks);
  }
  for (int const times : computed) {
    require(times == 1, "a sample is computed ", times, " times");
  }
  require(plan.lower_bound <= plan.makespan, "bound ", plan.lower_bound, " for ", plan.makespan);
  if (random.below(8) == 0) {
    auto const again = ballast::plan_slots(step.lengths, nodes, step.cost, rules);
    require(again && again->digest() == plan.digest(), "another plan of the same slots");
  }
}

void split(ballast::random_source& random, ballast::row_split& made, ballast::workspace& memory)
{
  auto const family = draw_family(random);
  std::size_t const ranks = 1 + random.below(8);
  std::vector<ballast::tokens> documents(random.below(20));
  std::vector<ballast::row_mask> masks(1 + random.below(3));
  for (auto& rows : documents) {
    rows = draw_number(random, family);
    if (family != number_family::huge && family != number_family::extreme) { rows %= 200; }
  }
  for (ballast::row_mask& mask : masks) {
    mask.layers = static_cast<std::uint32_t>(1 + random.below(300));
    switch (random.below(3)) {
      case 0: mask.window = 1 + draw_number(random, number_family::extreme) / 2; break;
      case 1: mask.prefixes = documents; break;
      default: mask.window = draw_number(random, number_family::tiny); break;
    }
  }
  ballast::tokens const block = random.between(1, 40);
  auto const uneven = static_cast<std::uint32_t>(random() >> (32 + random.below(32)));
  auto const done = ballast::split_rows_into(made, memory, documents, ranks, masks, block, uneven);
  if (!done) {
    require_sentence(done.error());
    require(family == number_family::huge || family == number_family::extreme ||
                says(done.error(), "layer"),
            "rows are refused: ", done.error().message);
    return;
  }
  for (std::size_t row = 0; row < made.rows.size(); ++row) {
    auto const place = static_cast<std::size_t>(made.places[row]);
    require(made.rows[place] == static_cast<ballast::tokens>(row), "row ", row, " is lost");
  }
  for (std::size_t mask = 0; mask < masks.size(); ++mask) {
    auto const& part = made.for_mask[mask];
    std::int64_t pairs = 0;
    for (std::size_t document = 0; document < documents.size(); ++document) {
      for (ballast::tokens row = 0; row < documents[document]; ++row) {
        ballast::tokens const all = masks[mask].prefixes.empty() ? row + 1 : documents[document];
        pairs += masks[mask].window == 0 ? all : std::min(all, masks[mask].window);
      }
    }
    require(std::reduce(part.pairs.begin(), part.pairs.end()) == pairs, "pairs are lost");
    require(part.lower_bound <= part.makespan && part.least_moved <= part.moved &&
                part.least_moved >= 0,
            "bounds of ", part.lower_bound, " and ", part.least_moved, " for ", part.makespan,
            " and ", part.moved);
  }
}

constexpr ballast::bag_exchange_work exchanges = {
    .once = {0, 900, 900, 900}, .per_token = {1 << 20, 60 << 20, 90 << 20, 105 << 20}};

std::vector<ballast::sample_batch> draw_batches(ballast::random_source& random, std::size_t gpus,
                                                number_family family)
{
  std::vector<ballast::sample_batch> batches(1 + random.below(2));
  for (auto& batch : batches) {
    batch.lengths.resize(random.below(3 * gpus + 1));
    for (auto& length : batch.lengths) {
      length = family == number_family::tiny   ? random.between(0, 12)
               : family == number_family::ties ? 8 * random.between(0, 3)
               : family == number_family::wide ? random.between(0, 60) * random.between(1, 60)
                                               : ballast::longest_sample - random.between(0, 3);
    }
  }
  return batches;
}

std::optional<ballast::ratio> mean_step(ballast::bag_layout const& layout,
                                        std::vector<ballast::sample_batch> const& batches,
                                        ballast::quadratic_cost const& cost)
{
  std::uint64_t sum = 0;
  for (auto const& batch : batches) {
    auto const step = ballast_test::planned_step(layout, batch.lengths, exchanges, cost);
    if (!step) { return std::nullopt; }
    sum += *step;
  }
  return ballast::ratio{static_cast<std::int64_t>(sum),
                        static_cast<std::int64_t>(8 * batches.size())};
}

void choose(ballast::random_source& random)
{
  bool const is_small = random.below(2) == 0;
  std::vector<std::uint32_t> nodes(1 + random.below(is_small ? 2 : 6));
  for (auto& gpus : nodes) {
    gpus = static_cast<std::uint32_t>(1 + random.below(is_small ? 5 : 9));
  }
  auto const machines = ballast::cluster_of(nodes).value();
  number_family const family = draw_family(random);
  ballast::quadratic_cost cost{.linear = 1000, .quadratic = 1};
  if (family == number_family::extreme) {
    cost = {.linear = static_cast<std::uint64_t>(draw_number(random, family)),
            .quadratic = static_cast<std::uint64_t>(draw_number(random, family))};
  }
  auto const batches = draw_batches(random, machines.gpus(), family);
  auto const choice =
      random.below(2) == 0 ? ballast::short_samples::refused : ballast::short_samples::admitted;
  auto const found =
      ballast::choose_bags(batches, machines, exchanges, cost,
                           {.short_ones = choice, .most_work = std::uint64_t{1} << 12});
  if (!found) {
    require_sentence(found.error());
    require(family == number_family::extreme || family == number_family::huge,
            "refused: ", found.error().message);
    return;
  }
  require(found->bags.gpus() == machines.gpus(), "bags of ", found->bags.gpus(), " GPUs");
  ballast::bag_mix laid;
  for (std::size_t bag = 0; bag < found->bags.size(); ++bag) {
    auto const [first, gpus] = found->bags[ballast::to_id<ballast::bag_id>(bag)];
    auto const last = ballast::to_id<ballast::rank_id>(ballast::to_index(first) + gpus - 1);
    require(machines.node_of(first) == machines.node_of(last), "bag ", bag, " spans nodes");
    std::size_t size = 0;
    while (ballast::bag_mix::gpus_of(size) < gpus) { ++size; }
    ++laid.bags[size];
  }
  require(laid == found->mixes.front().mix, "bags that are not the mix that was chosen");
  if (family == number_family::extreme || family == number_family::huge) { return; }
  for (auto const& each : found->mixes) {
    auto const layout = ballast_test::layout_inside_nodes(each.mix, machines);
    require(layout.has_value(), "a mix that fits no node");
    auto const step = mean_step(layout->with_short_samples(choice), batches, cost);
    require(step && *step == each.judged_step && *step == each.fitted_step, "a mix is priced ",
            shown(each.judged_step), ", and its plans take ",
            shown(step.value_or(ballast::ratio{})));
    require(found->mixes.front().judged_step <= each.judged_step, "a better mix comes later");
  }
  if (!is_small || !found->proven) { return; }
  for (auto const& mix : ballast_test::all_mixes(static_cast<std::uint32_t>(machines.gpus()))) {
    auto const layout = ballast_test::layout_inside_nodes(mix, machines);
    if (!layout) { continue; }
    auto const step = mean_step(layout->with_short_samples(choice), batches, cost);
    require(!step || found->mixes.front().fitted_step <= *step, "a mix was left out that takes ",
            shown(step.value_or(ballast::ratio{})), ", and the best one is said to take ",
            shown(found->mixes.front().fitted_step));
  }
}

}  // namespace

void add_groups_and_bags(std::vector<soaked_planner>& planners)
{
  auto plan = std::make_shared<ballast::sharding_plan>();
  auto memory = std::make_shared<ballast::workspace>();
  planners.push_back(
      {"hybrid_sharding", [=](ballast::random_source& random) { shard(random, *plan, *memory); }});
  auto rows = std::make_shared<ballast::row_split>();
  planners.push_back(
      {"split_rows", [=](ballast::random_source& random) { split(random, *rows, *memory); }});
  auto slots = std::make_shared<ballast::slots_plan>();
  planners.push_back(
      {"plan_slots", [=](ballast::random_source& random) { tile(random, *slots, *memory); }});
  planners.push_back({"choose_bags", choose});
}

}  // namespace ballast_soak
