// SPDX-License-Identifier: Apache-2.0
// Chains of layers that are cut into stages, and replicas of experts on GPUs.

#include "soaked_planner.hpp"

#include <ballast/core.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/share_experts.hpp>

namespace ballast_soak {
namespace {

struct soaked_chain {
  std::vector<ballast::chain_layer> layers;
  std::vector<std::int64_t> capacities;
  std::vector<std::int64_t> held;
  ballast::chain_ranks on;
};

soaked_chain draw_chain(ballast::random_source& random, number_family family)
{
  soaked_chain chain;
  chain.on.ranks = 1 + random.below(4);
  chain.on.chunks = 1 + random.below(3);
  std::size_t const stages = chain.on.ranks * chain.on.chunks;
  chain.layers.resize(random.below(12) == 0 ? random.below(stages) : stages + random.below(9));
  for (auto& layer : chain.layers) {
    layer = {draw_number(random, family), draw_number(random, family), random.between(0, 3)};
  }
  std::int64_t heaviest = 1;
  for (auto const& layer : chain.layers) { heaviest = std::max(heaviest, layer.state_bytes); }
  if (random.below(2) == 0) {
    for (std::size_t rank = 0; rank < chain.on.ranks; ++rank) {
      chain.capacities.push_back(random.below(4) == 0 ? draw_number(random, family)
                                                      : heaviest / 4 * random.between(2, 3) + 4);
    }
  }
  if (random.below(2) == 0) {
    for (std::size_t stage = 0; stage < stages; ++stage) {
      chain.held.push_back(random.between(0, 4));
    }
  }
  return chain;
}

// The least largest load by trying all cuts, in 128 bits, which have sums of any numbers.
std::optional<ballast::uint128> least_of_all_cuts(soaked_chain const& chain)
{
  std::vector<ballast::uint128> loads(chain.on.ranks, 0);
  std::vector<ballast::uint128> bytes(chain.on.ranks, 0);
  std::optional<ballast::uint128> best;
  auto const whole = [](std::int64_t number) { return static_cast<ballast::uint128>(number); };
  auto const go_on = [&](auto const& self, std::size_t stage, std::size_t layer) -> void {
    if (stage == chain.on.ranks * chain.on.chunks) {
      auto const largest = *std::max_element(loads.begin(), loads.end());
      if (layer == chain.layers.size() && (!best || largest < *best)) { best = largest; }
      return;
    }
    std::size_t const rank = stage % chain.on.ranks;
    auto const load = loads[rank];
    auto const held_bytes = bytes[rank];
    for (std::size_t end = layer; end < chain.layers.size(); ++end) {
      auto const& each = chain.layers[end];
      loads[rank] += whole(each.cost);
      bytes[rank] += whole(each.state_bytes) + whole(chain.held.empty() ? 1 : chain.held[stage]) *
                                                   whole(each.activation_bytes);
      if (!chain.capacities.empty() && bytes[rank] > whole(chain.capacities[rank])) { break; }
      self(self, stage + 1, end + 1);
    }
    loads[rank] = load;
    bytes[rank] = held_bytes;
  };
  go_on(go_on, 0, 0);
  return best;
}

void cut(ballast::random_source& random)
{
  number_family const family = draw_family(random);
  soaked_chain chain = draw_chain(random, family);
  chain.on.most = chain.capacities;
  chain.on.held = chain.held;
  auto const plan = ballast::cut_chain(chain.layers, chain.on);
  std::vector<std::int64_t> numbers;
  for (auto const& layer : chain.layers) {
    numbers.push_back(layer.cost);
    numbers.push_back(layer.state_bytes);
    numbers.push_back(4 * layer.activation_bytes);
  }
  if (!plan) {
    require_sentence(plan.error());
    if (plan.error().code == ballast::error_code::out_of_range) {
      require(!is_moderate(numbers), "out of range: ", plan.error().message);
      return;
    }
    require(says(plan.error(), "gave up") || !least_of_all_cuts(chain),
            "a chain that can be cut is refused: ", plan.error().message);
    return;
  }
  auto const best = least_of_all_cuts(chain);
  require(best.has_value(), "a cut where none is");
  require(static_cast<ballast::uint128>(plan->lower_bound) <= *best &&
              *best <= static_cast<ballast::uint128>(plan->makespan),
          "bound ", plan->lower_bound, " and makespan ", plan->makespan,
          " are not around the optimum");
  std::vector<std::int64_t> loads(chain.on.ranks, 0);
  for (std::size_t stage = 0; stage + 1 < plan->first.size(); ++stage) {
    require(plan->first[stage] < plan->first[stage + 1], "stage ", stage, " has no layer");
    for (std::size_t at = plan->first[stage]; at < plan->first[stage + 1]; ++at) {
      loads[stage % chain.on.ranks] += chain.layers[at].cost;
    }
  }
  require(plan->first.back() == chain.layers.size() && loads == plan->loads &&
              *std::max_element(loads.begin(), loads.end()) == plan->makespan,
          "loads that are not those of the layers");
}

void place(ballast::random_source& random)
{
  number_family const family = draw_family(random);
  std::vector<std::int64_t> loads(random.below(10));
  for (auto& load : loads) { load = draw_number(random, family); }
  std::vector<std::uint32_t> slots(random.below(10));
  std::size_t places = 0;
  for (auto& of_gpu : slots) { places += of_gpu = static_cast<std::uint32_t>(random.below(5)); }
  std::vector<std::uint32_t> nodes;
  for (std::size_t left = slots.size(); left > 0; left -= nodes.back()) {
    nodes.push_back(static_cast<std::uint32_t>(1 + random.below(left)));
  }
  std::vector<std::uint32_t> replicas;
  ballast::expert_rules rules{.work = 1 + random.below(20'000)};
  if (random.below(3) == 0) {
    rules.nodes = nodes;
    rules.most_nodes = 1 + random.below(3);
  }
  if (random.below(4) == 0) {
    for (std::size_t each = 0; each < loads.size(); ++each) {
      replicas.push_back(static_cast<std::uint32_t>(1 + random.below(3)));
    }
    rules.replicas = replicas;
  }
  auto const before = ballast::place_experts(loads, slots, rules);
  if (!before) {
    require_sentence(before.error());
    require(places < loads.size() || !replicas.empty() ||
                (before.error().code == ballast::error_code::out_of_range && !is_moderate(loads)) ||
                family == number_family::huge || family == number_family::extreme,
            "refused: ", before.error().message);
    return;
  }
  auto const again = ballast::place_experts(loads, slots, rules);
  require(again && again->digest() == before->digest(), "another placement the second time");
  for (auto& load : loads) { load -= load / 8 * random.between(0, 1); }
  rules.now = &before->experts;
  auto const placed = ballast::place_experts(loads, slots, rules);
  require(placed.has_value(), "smaller loads are refused");
  require(placed->lower_bound <= placed->makespan, "bound ", shown(placed->lower_bound),
          ", makespan ", shown(placed->makespan));
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    auto const row = placed->gpus[ballast::to_id<ballast::expert_id>(expert)];
    require(!row.empty(), "expert ", expert, " has no replica");
    require(replicas.empty() || row.size() == replicas[expert], "expert ", expert, " has ",
            row.size(), " replicas");
    require(std::adjacent_find(row.begin(), row.end()) == row.end(), "two replicas on one GPU");
  }
  for (std::size_t gpu = 0; gpu < slots.size(); ++gpu) {
    auto const row = placed->experts[ballast::to_id<ballast::rank_id>(gpu)];
    require(row.size() <= slots[gpu], "GPU ", gpu, " has ", row.size(), " replicas");
  }
  auto const shares = ballast::share_experts(loads, placed->gpus, slots.size());
  if (!shares) {
    require_sentence(shares.error());
    require(family == number_family::huge || family == number_family::extreme,
            "refused: ", shares.error().message);
    return;
  }
  require(shares->makespan <= placed->makespan,
          "even shares are better: ", shown(placed->makespan));
}

}  // namespace

void add_chains_and_experts(std::vector<soaked_planner>& planners)
{
  planners.push_back({"cut_chain", cut});
  planners.push_back({"place_experts", place});
}

}  // namespace ballast_soak
