// SPDX-License-Identifier: Apache-2.0
#include <ballast/parallelism/place_experts.hpp>  // first: proves it is self-contained

#include "../support/all_assignments.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/parallelism/share_experts.hpp>

namespace place_experts_test {

using namespace ballast;
using ballast_test::assignment;
using ballast_test::each_assignment;

struct drawn_experts {
  std::vector<std::int64_t> loads;
  std::vector<std::uint32_t> slots;
};

drawn_experts draw(ballast::random_source& random, std::size_t most_experts, std::size_t most_gpus,
                   std::uint64_t most_slots)
{
  drawn_experts drawn;
  drawn.loads.resize(1 + random.below(most_experts));
  bool const is_hot = random.below(2) == 0;
  for (std::int64_t& load : drawn.loads) { load = random.between(0, 60); }
  if (is_hot) { drawn.loads.back() = random.between(100, 400); }
  std::size_t places = 0;
  while (places < drawn.loads.size() || drawn.slots.size() < most_gpus) {
    drawn.slots.push_back(static_cast<std::uint32_t>(random.below(most_slots + 1)));
    places += drawn.slots.back();
    if (drawn.slots.size() >= 2 && places >= drawn.loads.size() && random.below(3) == 0) { break; }
  }
  return drawn;
}

// Every share of up to eight replicas of a load is so many 840ths.
constexpr std::int64_t whole = 840;

// Oracle: whether a placement has a makespan below so many 840ths. Expert after expert, it keeps all
// that GPUs can have: loads and free slots, of which the order does not matter.
bool is_possible_below(drawn_experts step, std::int64_t target)
{
  using gpu_state = std::pair<std::int64_t, std::uint32_t>;
  using state = std::vector<gpu_state>;
  std::ranges::sort(step.loads, std::ranges::greater{});
  state start;
  for (std::uint32_t const of_gpu : step.slots) { start.emplace_back(0, of_gpu); }
  std::ranges::sort(start);
  std::set<state> states = {start};
  std::int64_t rest = 0;
  for (std::int64_t const load : step.loads) { rest += load * whole; }
  for (std::int64_t const load : step.loads) {
    std::set<state> next;
    rest -= load * whole;
    for (state const& before : states) {
      for (std::size_t set = 1; set < std::size_t{1} << before.size(); ++set) {
        auto const count = std::popcount(set);
        state after = before;
        bool fits = true;
        std::int64_t room = 0;
        for (std::size_t gpu = 0; gpu < after.size() && fits; ++gpu) {
          auto& [sum, slots] = after[gpu];
          // Of equal GPUs the first ones, so that not all orders are tried.
          bool const is_in = (set >> gpu) % 2 == 1;
          fits = !is_in || (slots > 0 && (gpu == 0 || before[gpu] != before[gpu - 1] ||
                                          (set >> (gpu - 1)) % 2 == 1));
          if (is_in) {
            sum += load * whole / count;
            --slots;
          }
          fits = fits && sum < target;
          room += slots > 0 ? target - 1 - sum : 0;
        }
        if (!fits || room < rest) { continue; }
        std::ranges::sort(after);
        next.insert(after);
      }
    }
    states = std::move(next);
  }
  return !states.empty();
}

// What each GPU has, and all that a placement promises of places.
void expect_valid(drawn_experts const& step, expert_placement const& placed)
{
  ASSERT_EQ(placed.experts.size(), step.slots.size());
  ASSERT_EQ(placed.gpus.size(), step.loads.size());
  std::size_t replicas = 0;
  for (std::size_t expert = 0; expert < step.loads.size(); ++expert) {
    auto const row = placed.gpus[to_id<expert_id>(expert)];
    ASSERT_FALSE(row.empty()) << expert;
    EXPECT_TRUE(std::ranges::is_sorted(row));
    EXPECT_EQ(std::set(row.begin(), row.end()).size(), row.size()) << "two on one GPU";
    replicas += row.size();
  }
  double largest = 0;
  for (std::size_t gpu = 0; gpu < step.slots.size(); ++gpu) {
    auto const row = placed.experts[to_id<rank_id>(gpu)];
    EXPECT_LE(row.size(), step.slots[gpu]);
    double load = 0;
    for (expert_id const expert : row) {
      load += static_cast<double>(step.loads[to_index(expert)]) /
              static_cast<double>(placed.gpus[expert].size());
      EXPECT_TRUE(std::ranges::binary_search(placed.gpus[expert], to_id<rank_id>(gpu)));
    }
    replicas -= row.size();
    largest = std::max(largest, load);
  }
  EXPECT_EQ(replicas, 0U);
  EXPECT_NEAR(placed.makespan.value(), largest, 1e-9 * largest);
  EXPECT_LE(placed.lower_bound, placed.makespan);
}

TEST(PlaceExperts, ChoosesNumbersAndPlacesTogether)
{
  // [place]
  std::vector<std::int64_t> const tokens = {600, 560, 120, 120, 20, 10, 10, 10};  // of each expert
  std::vector<std::uint32_t> const slots(8, 2);                                   // of each GPU
  auto const placed = ballast::place_experts(tokens, slots).value();
  // placed.makespan is 590/3, which is the least; replicas for the largest share alone: 232.
  // placed.gpus[e] are the GPUs of expert e, placed.experts[g] the experts of GPU g.
  // [place]
  EXPECT_EQ(placed.makespan, (ratio{590, 3}));
  expect_valid({tokens, slots}, placed);
  EXPECT_FALSE(is_possible_below({tokens, slots}, 590 * whole / 3)) << "no placement is better";
}

TEST(PlaceExperts, FindsTheLeastOfSmallSteps)  // Ensures (1) (2)
{
  ballast::random_source random(31);
  int least = 0;
  int const trials = ballast_test::trials_of(120);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_experts const step = trial % 12 == 0 ? draw(random, 8, 8, 2) : draw(random, 6, 5, 3);
    if (step.slots.size() > 8) { continue; }
    auto const placed = place_experts(step.loads, step.slots);
    ASSERT_TRUE(placed) << placed.error().message;
    expect_valid(step, *placed);
    auto const [numerator, denominator] = placed->makespan;
    ASSERT_EQ(whole % denominator, 0);
    std::int64_t const target = numerator * (whole / denominator);
    bool const is_least = !is_possible_below(step, target);
    least += is_least ? 1 : 0;
    ASSERT_TRUE(is_least || !placed->proven_optimal());
    ASSERT_FALSE(is_possible_below(
        step, placed->lower_bound.numerator * whole / placed->lower_bound.denominator));
    EXPECT_FALSE(is_possible_below(step, target * 97 / 100));
  }
  EXPECT_GE(least, trials - 1 - trials / 15) << "of " << trials;
}

// The published greedy in our words: one more replica for the largest share until slots are full,
// then the largest share to the GPU with the least load that has a slot, whether it has the expert or
// not.
double published_greedy(drawn_experts const& step)
{
  std::size_t const places = std::reduce(step.slots.begin(), step.slots.end(), std::size_t{0});
  std::vector<double> replicas(step.loads.size(), 1);
  auto const share = [&](std::size_t expert) {
    return static_cast<double>(step.loads[expert]) / replicas[expert];
  };
  for (std::size_t more = step.loads.size(); more < places; ++more) {
    std::size_t largest = 0;
    for (std::size_t expert = 1; expert < step.loads.size(); ++expert) {
      if (share(expert) > share(largest)) { largest = expert; }
    }
    replicas[largest] += 1;
  }
  std::vector<double> shares;
  for (std::size_t expert = 0; expert < step.loads.size(); ++expert) {
    shares.insert(shares.end(), static_cast<std::size_t>(replicas[expert]), share(expert));
  }
  std::ranges::sort(shares, std::ranges::greater{});
  std::vector<double> loads(step.slots.size(), 0);
  std::vector<std::uint32_t> room = step.slots;
  for (double const each : shares) {
    std::optional<std::size_t> chosen;
    for (std::size_t gpu = 0; gpu < loads.size(); ++gpu) {
      if (room[gpu] > 0 && (!chosen || loads[gpu] < loads[*chosen])) { chosen = gpu; }
    }
    loads[*chosen] += each;
    --room[*chosen];
  }
  return std::ranges::max(loads);
}

TEST(PlaceExperts, StaysNearTheBoundOnLargeSteps)
{
  EXPECT_EQ(published_greedy({{600, 560, 120, 120, 20, 10, 10, 10}, {2, 2, 2, 2, 2, 2, 2, 2}}),
            232);
  ballast::random_source random(32);
  for (int trial = 0; trial < 6; ++trial) {
    drawn_experts step;
    step.slots.assign(32, 3);
    for (int expert = 0; expert < 32; ++expert) { step.loads.push_back(random.between(50, 2000)); }
    step.loads[7] = trial * 4000;
    auto const placed = place_experts(step.loads, step.slots).value();
    expect_valid(step, placed);
    EXPECT_LE(placed.gap(), 0.03);
    EXPECT_LE(placed.makespan.value(), published_greedy(step));
  }
}

TEST(PlaceExperts, KeepsToNumbersThatAreAskedFor)
{
  std::vector<std::int64_t> const loads = {90, 60, 30, 20};
  std::vector<std::uint32_t> const slots(3, 3);
  std::vector<std::uint32_t> const replicas = {3, 2, 1, 1};
  auto const placed = place_experts(loads, slots, {.replicas = replicas}).value();
  expect_valid({loads, slots}, placed);
  for (std::size_t expert = 0; expert < loads.size(); ++expert) {
    EXPECT_EQ(placed.gpus[to_id<expert_id>(expert)].size(), replicas[expert]);
  }
  EXPECT_EQ(placed.makespan, (ratio{80, 1}));  // 30 + 30 + 20, 30 + 30, 30 + 30: whose 30 is third
}

TEST(PlaceExperts, KeepsReplicasOnFewNodes)
{
  ballast::random_source random(33);
  std::vector<std::uint32_t> const nodes = {4, 4, 2, 2};
  for (int trial = 0; trial < ballast_test::trials_of(40); ++trial) {
    drawn_experts step{{}, std::vector<std::uint32_t>(12, 2)};
    for (int expert = 0; expert < 10; ++expert) { step.loads.push_back(random.between(0, 100)); }
    step.loads[random.below(10)] = 800;
    std::size_t const most = 1 + random.below(2);
    auto const placed =
        place_experts(step.loads, step.slots, {.nodes = nodes, .most_nodes = most, .work = 1 << 16})
            .value();
    expect_valid(step, placed);
    for (auto const& row : placed.gpus) {
      std::set<std::size_t> on;
      for (rank_id const gpu : row) {
        std::size_t const at = to_index(gpu);
        on.insert(at < 4 ? 0U : at < 8 ? 1U : at < 10 ? 2U : 3U);
      }
      EXPECT_LE(on.size(), most);
    }
  }
}

// Oracle: whether given numbers of replicas have places, by trying all sets of GPUs of each expert.
bool have_places(std::vector<std::uint32_t> const& replicas,
                 std::vector<std::uint32_t> const& slots, std::vector<std::size_t> const& node_of,
                 std::size_t most_nodes, std::size_t expert = 0)
{
  if (expert == replicas.size()) { return true; }
  for (std::uint32_t set = 1; set < std::uint32_t{1} << slots.size(); ++set) {
    auto left = slots;
    std::set<std::size_t> nodes;
    bool fits = std::popcount(set) == static_cast<int>(replicas[expert]);
    for (std::size_t gpu = 0; gpu < slots.size() && fits; ++gpu) {
      if ((set >> gpu) % 2 == 0) { continue; }
      fits = left[gpu]-- > 0;
      nodes.insert(node_of[gpu]);
    }
    fits = fits && (most_nodes == 0 || nodes.size() <= most_nodes);
    if (fits && have_places(replicas, left, node_of, most_nodes, expert + 1)) { return true; }
  }
  return false;
}

TEST(PlaceExperts, KnowsWhetherGivenNumbersFit)  // Errors
{
  ballast::random_source random(35);
  int refused = 0;
  for (int trial = 0; trial < ballast_test::trials_of(4000); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::uint32_t> nodes;
    std::vector<std::size_t> node_of;
    for (std::size_t left = 1 + random.below(3); left > 0 && node_of.size() < 4; --left) {
      nodes.push_back(1 + static_cast<std::uint32_t>(random.below(3)));
      node_of.insert(node_of.end(), nodes.back(), nodes.size());
    }
    drawn_experts step;
    std::vector<std::uint32_t> replicas;
    for (std::size_t gpu = 0; gpu < node_of.size(); ++gpu) {
      step.slots.push_back(static_cast<std::uint32_t>(random.below(4)));
    }
    for (std::size_t experts = 1 + random.below(4); experts > 0; --experts) {
      step.loads.push_back(random.between(0, 12));
      replicas.push_back(1 + static_cast<std::uint32_t>(random.below(3)));
    }
    std::size_t const most = random.below(3);
    auto const placed =
        place_experts(step.loads, step.slots,
                      {.replicas = replicas, .nodes = nodes, .most_nodes = most, .work = 64});
    ASSERT_EQ(placed.has_value(), have_places(replicas, step.slots, node_of, most));
    refused += placed ? 0 : 1;
    if (!placed) { continue; }
    expect_valid(step, *placed);
    for (std::size_t expert = 0; expert < replicas.size(); ++expert) {
      std::set<std::size_t> on;
      auto const row = placed->gpus[to_id<expert_id>(expert)];
      for (rank_id const gpu : row) { on.insert(node_of[to_index(gpu)]); }
      ASSERT_EQ(row.size(), replicas[expert]);
      ASSERT_TRUE(most == 0 || on.size() <= most);
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(PlaceExperts, SaysWhatDoesNotFitAndThatItGaveUp)  // Errors
{
  // A node of seven GPUs has no place for a second expert of four replicas.
  auto const why = [](std::size_t nodes) {
    std::vector<std::uint32_t> const sevens(nodes, 7);
    std::vector<std::uint32_t> const slots(7 * nodes, 1);
    std::vector<std::int64_t> const loads(nodes + 1, 1);
    std::vector<std::uint32_t> const replicas(nodes + 1, 4);
    auto const placed =
        place_experts(loads, slots, {.replicas = replicas, .nodes = sevens, .most_nodes = 1});
    return placed ? "placed" : placed.error().message;
  };
  EXPECT_EQ(why(3),
            "the replicas that were asked for do not fit 21 slots on 21 GPUs, where those of an "
            "expert lie on different GPUs of at most 1 node; ask for fewer, or raise most_nodes");
  EXPECT_EQ(why(24),
            "the search gave up: it found no places for the replicas that were asked for in 168 "
            "slots on 168 GPUs, where those of an expert lie on different GPUs of at most 1 node; "
            "ask for fewer, or raise most_nodes");
}

TEST(PlaceExperts, KeepsReplicasWhereTheyAre)
{
  ballast::random_source random(34);
  std::size_t all_kept = 0;
  std::size_t all = 0;
  for (int trial = 0; trial < ballast_test::trials_of(20); ++trial) {
    drawn_experts step{{}, std::vector<std::uint32_t>(16, 3)};
    for (int expert = 0; expert < 16; ++expert) { step.loads.push_back(random.between(100, 1000)); }
    auto const before = place_experts(step.loads, step.slots).value();
    auto const again = place_experts(step.loads, step.slots, {.now = &before.experts}).value();
    EXPECT_EQ(again.kept, before.experts.values().size()) << "nothing has changed";
    for (std::int64_t& load : step.loads) { load += random.between(-20, 20); }
    auto const alone = place_experts(step.loads, step.slots).value();
    auto const moved = place_experts(step.loads, step.slots, {.now = &before.experts}).value();
    expect_valid(step, moved);
    EXPECT_LE(moved.makespan.value(), 1.0101 * alone.makespan.value());
    std::size_t kept = 0;
    for (std::size_t gpu = 0; gpu < 16; ++gpu) {
      for (expert_id const expert : moved.experts[to_id<rank_id>(gpu)]) {
        kept += std::ranges::binary_search(before.gpus[expert], to_id<rank_id>(gpu)) ? 1U : 0U;
      }
    }
    EXPECT_EQ(moved.kept, kept);
    all_kept += kept;
    all += moved.experts.values().size();
  }
  EXPECT_GT(10 * all_kept, 6 * all) << all_kept << " of " << all;
}

TEST(PlaceExperts, KeepsWhatItCanWhereAnExpertIsNew)
{
  std::vector<std::uint32_t> const slots = {2, 2};
  auto const before = place_experts(std::vector<std::int64_t>{60, 40}, slots).value();
  ASSERT_EQ(before.experts.values().size(), 4U) << "all slots are taken";
  std::vector<std::int64_t> const loads = {60, 20, 20};
  for (std::uint32_t const room : {2U, 3U}) {
    std::vector<std::uint32_t> const now = {2, room};
    auto const moved = place_experts(loads, now, {.now = &before.experts}).value();
    expect_valid({loads, now}, moved);
    EXPECT_EQ(moved.makespan, (ratio{50, 1}));
    EXPECT_EQ(moved.kept, 3U);
  }
  std::vector<std::uint32_t> const other_numbers = {2, 1, 1};
  auto const asked =
      place_experts(loads, slots, {.replicas = other_numbers, .now = &before.experts}).value();
  expect_valid({loads, slots}, asked);
  EXPECT_EQ(asked.gpus[to_id<expert_id>(1)].size(), 1U);
}

// Oracles: all sets of GPUs for each expert, as bits, within the slots.
template <class Visit>
void each_placement(drawn_experts const& step, Visit const& visit)
{
  std::size_t const gpus = step.slots.size();
  each_assignment(step.loads.size(), std::size_t{1} << gpus, [&](assignment const& sets) {
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
      auto const used = std::ranges::count_if(sets, [gpu](auto set) { return set >> gpu & 1U; });
      if (static_cast<std::size_t>(used) > step.slots[gpu]) { return false; }
    }
    if (!sets.empty() && sets.back() == 0) { return false; }
    if (sets.size() == step.loads.size()) { visit(sets); }
    return true;
  });
}

std::int64_t largest_even(drawn_experts const& step, assignment const& sets)
{
  std::vector<std::int64_t> loads(step.slots.size());
  for (std::size_t expert = 0; expert < sets.size(); ++expert) {
    for (std::size_t gpu = 0; gpu < loads.size(); ++gpu) {
      bool const is_in = (sets[expert] >> gpu & 1U) != 0;
      loads[gpu] += is_in ? step.loads[expert] * whole / std::popcount(sets[expert]) : 0;
    }
  }
  return std::ranges::max(loads);
}

TEST(PlaceExperts, KeepsTheMostOfSmallSteps)
{
  jagged<rank_id, expert_id> now;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
    now.push_back(expert_id{2 * gpu});
    now.push_back(expert_id{2 * gpu + 1});
    now.end_row();
  }
  std::vector<std::int64_t> const loads = {60, 20, 50, 30, 10, 10, 10, 10};
  auto const moved = place_experts(loads, std::vector{2U, 3U, 3U, 3U}, {.now = &now}).value();
  EXPECT_EQ(moved.makespan, (ratio{50, 1}));
  EXPECT_EQ(moved.kept, 7U);
  EXPECT_EQ(moved.most_kept, 7U);

  ballast::random_source random(36);
  int moves = 0;
  for (int trial = 0; trial < (moves > 0 ? ballast_test::trials_of(60) : 60); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_experts step = draw(random, 4, 3, 3);
    if (step.slots.size() > 3) { continue; }
    auto const before = place_experts(step.loads, step.slots).value();
    for (std::int64_t& load : step.loads) { load += random.between(-load / 2, load / 2); }
    auto const least = place_experts(step.loads, step.slots).value();
    auto const kept =
        place_experts(step.loads, step.slots, {.now = &before.experts, .tolerance = {1, 4}})
            .value();
    expect_valid(step, kept);
    EXPECT_LE(kept.makespan.value(), 1.25 * least.makespan.value() + 1e-9);
    std::size_t most = 0;
    each_placement(step, [&](assignment const& sets) {
      auto const largest = static_cast<double>(largest_even(step, sets));
      if (largest > 1.25 * whole * least.makespan.value() + 1e-6) { return; }
      std::size_t here = 0;
      for (std::size_t expert = 0; expert < sets.size(); ++expert) {
        for (rank_id const gpu : before.gpus[to_id<expert_id>(expert)]) {
          here += sets[expert] >> to_index(gpu) & 1U;
        }
      }
      most = std::max(most, here);
    });
    EXPECT_EQ(kept.kept, most);
    EXPECT_EQ(kept.most_kept, most);
    moves += most < before.experts.values().size() ? 1 : 0;
  }
  EXPECT_GT(moves, 0);
}

// The least that the most crowded set of experts has for each GPU with any of them.
double largest_uneven(drawn_experts const& step, assignment const& sets)
{
  double largest = 0;
  for (std::size_t crowd = 1; crowd < std::size_t{1} << sets.size(); ++crowd) {
    std::size_t gpus = 0;
    std::int64_t load = 0;
    for (std::size_t expert = 0; expert < sets.size(); ++expert) {
      bool const is_in = (crowd >> expert & 1U) != 0;
      gpus |= is_in ? sets[expert] : 0;
      load += is_in ? step.loads[expert] : 0;
    }
    largest = std::max(largest, static_cast<double>(load) / std::popcount(gpus));
  }
  return largest;
}

// Expert after expert, numbered from 0.
jagged<rank_id, expert_id> homes_of(std::vector<std::vector<std::int64_t>> const& rows)
{
  jagged<rank_id, expert_id> homes;
  std::uint32_t next = 0;
  for (auto const& row : rows) {
    for (std::size_t each = 0; each < row.size(); ++each) { homes.push_back(expert_id{next++}); }
    homes.end_row();
  }
  return homes;
}

expert_placement copied(std::vector<std::vector<std::int64_t>> const& rows, std::uint32_t spare,
                        expert_rules rules)
{
  auto const homes = homes_of(rows);
  drawn_experts step;
  for (auto const& row : rows) {
    step.loads.insert(step.loads.end(), row.begin(), row.end());
    step.slots.push_back(static_cast<std::uint32_t>(row.size()) + spare);
  }
  rules.now = &homes;
  auto const placed = place_experts(step.loads, step.slots, rules).value();
  EXPECT_EQ(placed.makespan,
            std::max(share_experts(step.loads, placed.gpus, rows.size()).value().makespan,
                     placed.lower_bound));
  return placed;
}

std::size_t added_to(expert_placement const& placed)
{
  return placed.experts.values().size() - placed.kept;
}

TEST(PlaceExperts, AddsTheFewestCopiesForOneBatch)
{
  expert_rules const exactly{.tolerance = {0, 1}, .uneven = true};
  auto const expect = [&](std::vector<std::vector<std::int64_t>> const& rows, ratio makespan,
                          std::size_t copies) {
    auto const placed = copied(rows, 1, exactly);
    EXPECT_EQ(placed.makespan, makespan);
    EXPECT_EQ(placed.kept, homes_of(rows).values().size());
    EXPECT_EQ(added_to(placed), copies);
    EXPECT_EQ(placed.least_added, copies);
  };
  expect({{70, 10}, {20, 20}, {10, 30}, {20, 20}}, {50, 1}, 3);
  expect({{60, 20}, {50, 30}, {10, 10}, {10, 10}}, {50, 1}, 2);
  expect({{90, 30}, {20, 20}, {20, 20}}, {200, 3}, 2);
  expect({{100, 0}, {60, 20}, {0, 0}, {10, 10}}, {50, 1}, 2);
  // Within a tenth two are enough for the first.
  EXPECT_EQ(added_to(copied({{70, 10}, {20, 20}, {10, 30}, {20, 20}}, 1,
                            {.tolerance = {1, 10}, .uneven = true})),
            2U);
  // Without a free slot replicas have to move.
  auto const moved = copied({{90, 80}, {70, 60}, {40, 30}, {20, 10}}, 0, exactly);
  EXPECT_EQ(moved.makespan, (ratio{100, 1}));
  EXPECT_EQ(added_to(moved), 4U);
  // What any GPU takes fills the others up.
  auto const shared = copied({{120}, {40}, {80}, {60}}, 1, {.uneven = true, .shared = 200});
  EXPECT_EQ(shared.makespan, (ratio{125, 1}));
  EXPECT_EQ(added_to(shared), 0U);
}

TEST(PlaceExperts, CopiesAsThePageSays)
{
  // Two experts at home on each of four GPUs, which hold three; tokens of one batch.
  std::vector<std::int64_t> const tokens = {70, 10, 20, 20, 10, 30, 20, 20};
  std::vector<std::uint32_t> const slots(4, 3);
  ballast::jagged<ballast::rank_id, ballast::expert_id> homes;
  for (std::uint32_t gpu = 0; gpu < 4; ++gpu) {
    homes.push_back(ballast::expert_id{2 * gpu});
    homes.push_back(ballast::expert_id{2 * gpu + 1});
    homes.end_row();
  }
  auto const placed =
      ballast::place_experts(tokens, slots, {.now = &homes, .tolerance = {0, 1}, .uneven = true})
          .value();
  auto const shares = ballast::share_experts(tokens, placed.gpus, slots.size()).value();
  // Three copies of the first expert: every GPU computes 50. Within 10 % two copies are enough.
  EXPECT_EQ(shares.makespan, (ratio{50, 1}));
  EXPECT_EQ(placed.gpus[expert_id{0}].size(), 4U);
}

// The fewest replicas beside those that there are with which the most crowded set of experts has at
// most `cap` for each of its GPUs; more than `most` where it takes more.
std::size_t fewest_copies(drawn_experts const& step, assignment& sets, std::size_t first,
                          std::size_t most, double cap)
{
  if (largest_uneven(step, sets) <= cap) { return 0; }
  std::size_t fewest = most;
  for (std::size_t pair = first; pair < sets.size() * step.slots.size() && fewest > 0; ++pair) {
    std::size_t const expert = pair / step.slots.size();
    std::size_t const gpu = pair % step.slots.size();
    auto const on_gpu =
        std::ranges::count_if(sets, [gpu](std::size_t set) { return (set >> gpu & 1U) != 0; });
    if ((sets[expert] >> gpu & 1U) != 0 || on_gpu == step.slots[gpu]) { continue; }
    sets[expert] |= std::size_t{1} << gpu;
    fewest = std::min(fewest, fewest_copies(step, sets, pair + 1, fewest - 1, cap) + 1);
    sets[expert] ^= std::size_t{1} << gpu;
  }
  return fewest;
}

TEST(PlaceExperts, AddsAsFewCopiesAsAllSetsOfThem)
{
  ballast::random_source random(64);
  int compared = 0;
  int equal = 0;
  int const trials = ballast_test::trials_of(200);
  for (int trial = 0; trial < trials; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    std::vector<std::vector<std::int64_t>> rows(2 + random.below(2));
    drawn_experts step;
    assignment sets;
    for (auto& row : rows) {
      row.resize(1 + random.below(2));
      for (std::int64_t& load : row) { load = random.below(2) == 0 ? random.between(0, 90) : 30; }
      for (std::int64_t const load : row) {
        step.loads.push_back(load);
        sets.push_back(std::size_t{1} << (&row - rows.data()));
      }
    }
    auto const spare = static_cast<std::uint32_t>(1 + random.below(2));
    for (auto const& row : rows) {
      step.slots.push_back(static_cast<std::uint32_t>(row.size()) + spare);
    }
    ratio const tolerance{static_cast<std::int64_t>(random.below(3)), 20};
    auto const placed = copied(rows, spare, {.tolerance = tolerance, .uneven = true});
    for (std::size_t gpu = 0; gpu < rows.size(); ++gpu) {
      EXPECT_LE(placed.experts[to_id<rank_id>(gpu)].size(), step.slots[gpu]);
    }
    double const cap = placed.lower_bound.value() * (1 + tolerance.value()) + 1e-9;
    if (placed.kept < step.loads.size() || placed.makespan.value() > cap) { continue; }
    std::size_t const found = added_to(placed);
    std::size_t const fewest = fewest_copies(step, sets, 0, found + 1, cap);
    EXPECT_LE(fewest, found);
    EXPECT_LE(placed.least_added, fewest);
    ++compared;
    equal += found == fewest ? 1 : 0;
  }
  EXPECT_GT(compared, trials * 4 / 5);
  EXPECT_EQ(equal, compared);
}

TEST(PlaceExperts, ReachesTheMeanWhereSharesMayDiffer)  // Ensures (2)
{
  std::vector<std::int64_t> const loads = {90, 30, 20, 20, 20, 20};
  for (auto const& slots : {std::vector{3U, 3U, 3U}, {3U, 3U, 2U}, {2U, 3U, 3U}}) {
    auto const placed = place_experts(loads, slots, {.uneven = true}).value();
    EXPECT_EQ(placed.makespan, (ratio{200, 3}));
    EXPECT_EQ(share_experts(loads, placed.gpus, 3).value().makespan, placed.makespan);
  }
  EXPECT_EQ(place_experts(loads, std::vector{3U, 3U, 3U}).value().makespan, (ratio{70, 1}));

  ballast::random_source random(37);
  int optima = 0;
  int trials = 0;
  for (int trial = 0; trial < ballast_test::trials_of(60); ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    drawn_experts const step = draw(random, 4, 3, 3);
    if (step.slots.size() > 3) { continue; }
    auto const placed = place_experts(step.loads, step.slots, {.uneven = true}).value();
    double least = std::numeric_limits<double>::max();
    each_placement(
        step, [&](assignment const& sets) { least = std::min(least, largest_uneven(step, sets)); });
    EXPECT_LE(placed.lower_bound.value(), least + 1e-9);
    EXPECT_GE(placed.makespan.value(), least - 1e-9);
    ++trials;
    optima += placed.makespan.value() < least + 1e-9 ? 1 : 0;
  }
  EXPECT_GE(10 * optima, 9 * trials) << optima << " of " << trials;
}

TEST(PlaceExperts, HasNothingToDo)
{
  EXPECT_TRUE(place_experts({}, {}).has_value());
  std::vector<std::uint32_t> const slots = {0, 2};
  auto const none = place_experts({}, slots).value();
  EXPECT_EQ(none.experts.size(), 2U);
  std::vector<std::int64_t> const zeros = {0, 0};
  auto const idle = place_experts(zeros, slots).value();
  expect_valid({zeros, slots}, idle);
  EXPECT_TRUE(idle.proven_optimal());
}

TEST(PlaceExperts, WorksUpToTheLargestSums)
{
  constexpr std::int64_t half = std::int64_t{1} << 60;
  std::vector<std::int64_t> const loads = {half, half - 1};
  auto const placed = place_experts(loads, std::vector<std::uint32_t>{2, 2, 2}).value();
  EXPECT_EQ(placed.makespan, placed.lower_bound);
}

TEST(PlaceExperts, RefusesInASentence)  // Errors
{
  std::vector<std::int64_t> const loads = {1, 2, 3};
  std::vector<std::uint32_t> const two = {1, 1};
  std::vector<std::uint32_t> const four = {2, 2};
  EXPECT_EQ(place_experts(loads, two).error().message,
            "2 GPUs with 2 slots cannot hold 3 experts; give at least one slot for each");
  std::vector<std::uint32_t> const three_replicas = {1, 3, 1};
  EXPECT_EQ(place_experts(loads, four, {.replicas = three_replicas}).error().message,
            "3 replicas of expert 1 were asked for, and it can have from 1 to 2, one on each GPU; "
            "correct it");
  std::vector<std::uint32_t> const all = {2, 2, 1};
  EXPECT_EQ(place_experts(loads, four, {.replicas = all}).error().code, error_code::infeasible);
  std::vector<std::uint32_t> const uneven = {3, 1, 1};
  std::vector<std::uint32_t> const pairs = {2, 2, 1};
  auto const crowded = place_experts(loads, uneven, {.replicas = pairs});
  EXPECT_TRUE(crowded) << crowded.error().message;
  std::vector<std::uint32_t> const lone = {4, 1};
  EXPECT_EQ(place_experts(loads, lone, {.replicas = pairs}).error().code, error_code::infeasible);
  EXPECT_EQ(place_experts(loads, four, {.nodes = two, .most_nodes = 1}).value().gpus.size(), 3U)
      << "two nodes of one GPU";
  EXPECT_EQ(place_experts(loads, four, {.replicas = two}).error().message,
            "replicas has 2 entries for 3 experts; give one for each, or none");
  EXPECT_EQ(place_experts(loads, four, {.nodes = four, .most_nodes = 1}).error().message,
            "the nodes have 4 GPUs, and slots are given for 2; give the GPUs of each node");
  EXPECT_EQ(place_experts(loads, four, {.tolerance = {-1, 2}}).error().message,
            "the tolerance is -1/2; give a fraction of at least 0");
  std::vector<std::int64_t> const negative = {1, -2, 3};
  EXPECT_EQ(place_experts(negative, four).error().position, 1U);
}

}  // namespace place_experts_test
