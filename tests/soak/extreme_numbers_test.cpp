// SPDX-License-Identifier: Apache-2.0
// Steps of any kind, with numbers up to the largest of 63 bits, for planners whose other tests draw
// small ones and compare with all plans: a plan is what its owners make it, keeps its limits and is
// the same in fresh memory; a refusal is one sentence and has a reason; and no sum leaves 63 bits,
// which a sanitizer would see. BALLAST_SOAK_STEPS and BALLAST_SOAK_SEED make it a long run.

#include "../../examples/common/by_name/any_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../support/grid_oracle.hpp"
#include "../support/instances.hpp"
#include "../support/limited_step.hpp"
#include "../support/packing_oracles.hpp"
#include "../support/random_shardings.hpp"
#include "../support/test.hpp"

#include <ballast/partition.hpp>
#include <ballast/sharding.hpp>
#include <ballast/topology/cluster.hpp>

#include <cstdlib>

namespace {

using ballast::batching;
using ballast::cost_units;
using ballast::ratio;
using ballast::to_id;
using ballast::tokens;

constexpr std::int64_t largest_number = std::numeric_limits<std::int64_t>::max();

template <class... Pieces>
void require(bool holds, Pieces const&... pieces)
{
  if (!holds) { throw std::logic_error(ballast::detail::concat(pieces...)); }
}

std::uint64_t setting(char const* name, std::uint64_t otherwise)
{
  char const* const set = std::getenv(name);
  return set == nullptr ? otherwise : std::strtoull(set, nullptr, 10);
}

/// Calls step(random) so often; each step has a seed of its own, so that one can be run again.
template <class Step>
void soak(std::string const& name, Step const& step)
{
  std::uint64_t const seed = setting("BALLAST_SOAK_SEED", 1);
  std::uint64_t const steps = setting("BALLAST_SOAK_STEPS", 20);
  for (std::uint64_t number = 0; number < steps; ++number) {
    ballast::random_source random(ballast::digest{}.add(seed).add(number).value());
    SCOPED_TRACE(testing::Message() << name << ", step " << number << " of seed " << seed);
    try {
      step(random);
    } catch (std::logic_error const& broken) {
      ADD_FAILURE() << broken.what();
    }
    if (testing::Test::HasFailure()) { return; }
  }
}

std::string shown(ratio number)
{
  return ballast::detail::concat(number.numerator, " / ", number.denominator);
}

bool says(ballast::error const& error, char const* words)
{
  return error.message.find(words) != std::string::npos;
}

void require_sentence(ballast::error const& error)
{
  require(error.message.size() > 20 && error.message.find('\n') == std::string::npos,
          "refused without a sentence: \"", error.message, "\"");
}

// ---- Numbers ----

enum class number_family : std::uint8_t { tiny, ties, wide, huge, extreme };

number_family draw_family(ballast::random_source& random)
{
  auto const drawn = random.below(20);
  return drawn < 5    ? number_family::tiny
         : drawn < 10 ? number_family::ties
         : drawn < 16 ? number_family::wide
         : drawn < 18 ? number_family::huge
                      : number_family::extreme;
}

// Not negative: huge ones have sums that mostly fit 63 bits, and extreme ones are 0, 1 and from 2^61
// to 2^63 - 1.
std::int64_t draw_number(ballast::random_source& random, number_family family)
{
  switch (family) {
    case number_family::tiny: return random.between(0, 6);
    case number_family::ties: return random.below(4) == 0 ? 0 : 1000 * random.between(1, 3);
    case number_family::wide: return random.between(0, 100) * random.between(0, 1000);
    case number_family::huge: return (std::int64_t{1} << 56) + random.between(-5, 1 << 20);
    case number_family::extreme: break;
  }
  constexpr std::int64_t quarter = std::int64_t{1} << 61;
  std::array const drawn{largest_number,  largest_number - 1,
                         2 * quarter,     quarter + random.between(-1, 1),
                         std::int64_t{1}, random.between(quarter, largest_number)};
  auto const which = random.below(8);
  return which < drawn.size() ? drawn[which] : 0;
}

// Whether numbers have a sum below 2^62, which nobody may refuse as too large.
bool is_moderate(std::vector<std::int64_t> const& numbers)
{
  constexpr std::int64_t most = std::int64_t{1} << 62;
  std::int64_t sum = 0;
  for (std::int64_t const number : numbers) {
    if (number < 0 || number >= most - sum) { return false; }
    sum += number;
  }
  return true;
}

// ---- Policies of partition() ----

// A step with arrays that its limits view.
struct any_step {
  static constexpr std::int64_t no_limit = ballast::no_limit;

  ballast::bag_layout bags;
  std::vector<tokens> lengths;
  std::vector<cost_units> costs;
  std::vector<cost_units> second;     // costs in a second quantity
  std::vector<cost_units> attention;  // of the costs
  std::vector<int> together;
  std::vector<ballast::rank_id> home;
  std::vector<std::int64_t> weights;
  std::int64_t most_per_gpu = no_limit;

  [[nodiscard]] std::size_t size() const { return lengths.size(); }
  [[nodiscard]] bool is_limited() const { return most_per_gpu != no_limit; }
  [[nodiscard]] ballast::placement_limits limits() const
  {
    ballast::placement_limits limits{.together = together, .home = home};
    if (is_limited()) { limits.also = {{.of = weights, .most_per_gpu = most_per_gpu}}; }
    return limits;
  }
  [[nodiscard]] std::int64_t weight(std::size_t sample) const
  {
    return weights.empty() ? lengths[sample] : weights[sample];
  }
  // Whether nothing is beyond what the library takes, padded or not.
  [[nodiscard]] bool is_in_range() const
  {
    auto const is_length = [](tokens length) {
      return length >= 0 && length <= ballast::longest_sample;
    };
    auto const padded = (std::int64_t{1} << 61) / static_cast<std::int64_t>(costs.size() + 1);
    auto const fits_padded = [&](cost_units cost) { return cost < padded; };
    return std::ranges::all_of(lengths, is_length) && is_moderate(costs) && is_moderate(second) &&
           is_moderate(weights) && std::ranges::all_of(costs, fits_padded);
  }
};

// Bags of any sizes on consecutive ranks, or a mix laid over a cluster of uneven nodes; GPUs of one
// speed, of several, or of so large ones that products need 128 bits.
ballast::bag_layout draw_bags(ballast::random_source& random)
{
  constexpr std::size_t most = 9;
  std::uint32_t const fastest = random.below(8) == 0 ? 500'000'000U : 5U;
  bool const has_speeds = random.below(3) == 0;
  auto const speed = [&] { return static_cast<std::uint32_t>(1 + random.below(fastest)); };
  if (random.below(2) == 0) {
    std::vector<std::uint32_t> nodes(1 + random.below(3));
    for (auto& gpus : nodes) { gpus = static_cast<std::uint32_t>(1 + random.below(8)); }
    auto machines = ballast::cluster_of(nodes).value();
    for (std::size_t gpu = 0; has_speeds && gpu < machines.gpus(); ++gpu) {
      machines.gpu_speeds.push_back(speed());
    }
    ballast::bag_spec spec;
    std::size_t left = machines.gpus();
    for (std::uint32_t size : {8U, 4U, 2U, 1U}) {
      std::size_t const bags = size == 1 ? left : random.below(left / size + 1);
      if (bags > 0) { (void)spec.add({size, static_cast<std::uint32_t>(bags)}); }
      left -= size * bags;
    }
    auto const laid = ballast::lay_out(spec, machines, ballast::misplaced_bags::largest_first);
    if (laid && laid->size() <= most) { return *laid; }
  }
  std::vector<std::uint32_t> gpus(1 + random.below(most));
  std::vector<std::uint32_t> speeds(has_speeds ? gpus.size() : 0);
  std::uint64_t const largest = random.below(2) == 0 ? 1 : 8;
  for (auto& each : gpus) { each = static_cast<std::uint32_t>(1 + random.below(largest)); }
  for (auto& each : speeds) { each = speed(); }
  return ballast_test::consecutive_bags(gpus, speeds);
}

tokens draw_length(ballast::random_source& random, number_family family)
{
  switch (family) {
    case number_family::tiny: return random.between(0, 9);
    case number_family::ties: return 8 * random.between(1, 4);
    case number_family::wide: return random.between(1, 60) * random.between(1, 60);
    case number_family::huge: return ballast::longest_sample - random.between(0, 9);
    case number_family::extreme: break;
  }
  return random.below(6) == 0   ? draw_number(random, family)
         : random.below(2) == 0 ? ballast::longest_sample
                                : random.between(0, 1);
}

any_step draw_step(ballast::random_source& random)
{
  any_step step;
  auto const family = draw_family(random);
  step.bags = draw_bags(random);
  std::size_t const count = random.below(random.below(50) == 0 ? 501 : 41);
  bool const is_long = random.below(4) != 0;  // mostly no sample is shorter than bags
  auto const largest = tokens{std::ranges::max(step.bags.sizes())};
  for (std::size_t sample = 0; sample < count; ++sample) {
    auto const length = draw_length(random, family);
    step.lengths.push_back(is_long && length > 0 && length < largest ? length + largest : length);
    step.costs.push_back(draw_number(random, family));
    step.second.push_back(random.below(4) == 0 ? 0 : draw_number(random, family));
    step.attention.push_back(random.between(0, step.costs.back()));
  }
  if (random.below(4) == 0) {
    step.bags = step.bags.with_short_samples(ballast::short_samples::admitted);
  }
  auto const one_in = [&](std::uint64_t many) { return random.below(many) == 0 ? count : 0; };
  step.together.resize(one_in(4));
  for (int& key : step.together) { key = static_cast<int>(random.below(count)) - 3; }
  step.home.resize(one_in(3));
  for (auto& rank : step.home) { rank = to_id<ballast::rank_id>(random.below(step.bags.gpus())); }
  if (random.below(3) != 0) { return step; }
  step.weights.resize(one_in(2));
  for (auto& weight : step.weights) { weight = draw_number(random, family); }
  ballast::uint128 all = 0;
  std::int64_t heaviest = 0;
  for (std::size_t sample = 0; sample < count; ++sample) {
    all += static_cast<ballast::uint128>(std::max<std::int64_t>(0, step.weight(sample)));
    heaviest = std::max(heaviest, step.weight(sample));
  }
  // From too little to plenty, and often just enough.
  auto const even = static_cast<std::int64_t>(
      std::min<ballast::uint128>(all / step.bags.gpus(), any_step::no_limit / 8));
  std::array<std::int64_t, 6> const caps = {
      even,         even + even / 16 + 1,  even + even / 4 + 1, std::max(heaviest, even),
      2 * even + 1, any_step::no_limit - 1};
  step.most_per_gpu = caps[random.below(caps.size())];
  return step;
}

// Costs in D quantities.
template <std::size_t D>
using costs_in = std::conditional_t<D == 1, cost_units, ballast::cost_vector<D>>;
template <std::size_t D>
using plan_in = ballast::basic_partition_plan<costs_in<D>>;

template <std::size_t D>
struct cost_of_step {
  any_step const& step;

  costs_in<D> operator()(ballast_test::numbered n) const
  {
    if constexpr (D == 1) {
      return step.costs[n.sample];
    } else {
      return {step.costs[n.sample], step.second[n.sample]};
    }
  }
  [[nodiscard]] cost_units attention_part(ballast_test::numbered n) const
    requires(D == 1)
  {
    return step.attention[n.sample];
  }
};

// What bags do under these owners.
template <std::size_t D>
std::vector<costs_in<D>> loads_of(any_step const& step, std::vector<std::size_t> const& owner,
                                  batching batches)
{
  cost_of_step<D> const cost_of{step};
  std::vector<costs_in<D>> loads(step.bags.size(), costs_in<D>{});
  if constexpr (D == 1) {
    std::vector<cost_units> largest(loads.size(), 0);
    std::vector<cost_units> count(loads.size(), 0);
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      auto const cost = cost_of({sample});
      cost_units const padded = batches == batching::packed   ? 0
                                : batches == batching::padded ? cost
                                                              : step.attention[sample];
      loads[owner[sample]] += cost - padded;
      largest[owner[sample]] = std::max(largest[owner[sample]], padded);
      ++count[owner[sample]];
    }
    for (std::size_t bag = 0; bag < loads.size(); ++bag) {
      loads[bag] += count[bag] * largest[bag];
    }
  } else {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      for (std::size_t d = 0; d < D; ++d) { loads[owner[sample]][d] += cost_of({sample})[d]; }
    }
  }
  return loads;
}

// What a plan says, recomputed from its owners.
template <std::size_t D>
void require_sound(any_step const& step, plan_in<D> const& plan, batching batches)
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
    require(step.bags.takes(to_id<ballast::bag_id>(bag), step.lengths[sample]), "sample ", sample,
            " does not fit bag ", bag);
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
  ratio makespan;
  auto const loads = loads_of<D>(step, owner, batches);
  for (std::size_t bag = 0; bag < held.size(); ++bag) {
    auto const weight = batches == batching::padded ? held[bag] * heaviest[bag] : held[bag];
    auto const most = static_cast<ballast::uint128>(step.most_per_gpu) * step.bags.sizes()[bag];
    require(!step.is_limited() || weight <= most, "bag ", bag, " holds more than its GPUs may");
    auto const numbers = ballast::detail::numbers_of(loads[bag]);
    makespan = std::max(makespan, ratio{std::ranges::max(numbers), step.bags.speeds()[bag]});
    for (auto const sample : plan.samples[to_id<ballast::bag_id>(bag)]) {
      require(owner[ballast::to_index(sample)] == bag, "a row has a sample of another bag");
    }
  }
  require(plan.loads == loads, "loads are not those of the owners");
  require(plan.makespan == makespan, "makespan ", shown(plan.makespan));
  require(plan.lower_bound <= plan.makespan, "bound above the makespan");
  require(plan.short_samples == short_ones, plan.short_samples, " short samples, not ", short_ones);
  require(plan.moved == (moved == 0 ? ratio{} : ratio{moved, all}), "moved ", shown(plan.moved));
}

void require_reason(any_step const& step, ballast::error const& why, batching batches)
{
  require_sentence(why);
  if (why.code == ballast::error_code::out_of_range) {
    require(!step.is_in_range(), "out of range, though nothing is: ", why.message);
    return;
  }
  require(why.code == ballast::error_code::infeasible, "refused as something else: ", why.message);
  bool const is_of_padding =
      batches != batching::packed && says(why, "cannot keep some of them together");
  require(!is_of_padding || !step.together.empty(), "nothing was to stay together: ", why.message);
  bool const is_of_limits = says(why, "policies that pad keep limits only") ||
                            says(why, "use a policy that packs") ||
                            says(why, "before the search gave up");
  require(step.is_limited() || !is_of_limits, "there is no limit: ", why.message);
}

template <std::size_t D, class Policy>
void soak_policy(std::string const& name, Policy const& policy)
{
  plan_in<D> kept;
  ballast::workspace memory;
  auto const batches = ballast::batching_of(policy);
  soak(name, [&](ballast::random_source& random) {
    any_step const step = draw_step(random);
    std::vector<ballast_test::numbered> samples(step.size());
    for (std::size_t sample = 0; sample < samples.size(); ++sample) { samples[sample] = {sample}; }
    auto const plan_into = [&](plan_in<D>& plan, ballast::workspace& scratch) {
      return ballast::partition_into(
          plan, scratch, samples, step.bags, cost_of_step<D>{step},
          [&](ballast_test::numbered n) { return step.lengths[n.sample]; }, step.limits(), policy);
    };
    auto const done = plan_into(kept, memory);
    if (!done) { return require_reason(step, done.error(), batches); }
    require_sound<D>(step, kept, batches);
    if (random.below(8) != 0) { return; }
    plan_in<D> fresh;
    ballast::workspace other;
    require(plan_into(fresh, other) && fresh.digest() == kept.digest(), "another plan afresh");
  });
}

TEST(ExtremeNumbers, AreTakenByEveryPolicy)
{
  for (std::string const name :
       {"round_robin", "longest_processing_time", "greedy_knapsack",
        "greedy_knapsack:capacity=full", "karmarkar_karp", "quadratic_with_tolerance:tolerance=3",
        "quadratic_with_tolerance", "padded_batches", "padded_batches:orders=1",
        "conv_transformer_batches", "refine", "refine:kk,work=1000", "refine:round_robin",
        "refine:round_robin,work=0,nodes=1000", "attention_padded_batches",
        "attention_padded_batches:work=100"}) {
    soak_policy<1>(name, by_name::parse_policy(name).value());
  }
}

TEST(ExtremeNumbers, AreTakenInTwoQuantities)
{
  soak_policy<2>("longest_processing_time", ballast::longest_processing_time{});
  soak_policy<2>("refine, 2^16 nodes", ballast::refine<>{.nodes = std::uint64_t{1} << 16});
}

// ---- Any limits at once ----

template <std::size_t D>
limited_steps::limited_step<D> draw_limited_step(ballast::random_source& random)
{
  using namespace limited_steps;
  auto step = draw<D>(random, together, together, random.below(41), draw_bags(random));
  draw_limits(step, random);
  // So that many of these have a plan.
  for (int& key : step.keys) { key = static_cast<int>(random.below(step.samples)); }
  for (int& key : step.prompts) { key = static_cast<int>(random.below(step.samples)); }
  step.number += step.has[multiple] ? 0 : static_cast<std::int64_t>(step.samples / step.bags);
  number_family const family = draw_family(random);
  for (auto& costs : step.costs) {
    for (cost_units& each : costs) { each = draw_number(random, family); }
  }
  for (std::int64_t& each : step.before) { each = draw_number(random, family); }
  std::int64_t const unit = std::array{1, 1'000, 1 << 30}[random.below(3)];
  for (auto* all : {&step.images, &step.bytes, &step.rooms}) {
    for (std::int64_t& each : *all) { each *= unit; }
  }
  step.most_images *= unit;
  step.most_bytes *= unit;
  for (auto& length : step.lengths) {  // some shorter than bags, who may admit them
    if (random.below(40) == 0) { length = random.between(1, 3); }
  }
  if (random.below(4) == 0) {
    step.layout = step.layout.with_short_samples(ballast::short_samples::admitted);
  }
  return step;
}

template <std::size_t D>
void keep_limits(ballast::random_source& random)
{
  using namespace limited_steps;
  auto const step = draw_limited_step<D>(random);
  auto const plan =
      planned(step, [](auto const&... given) { return ballast::partition(given...); });
  if (!plan) {
    require_sentence(plan.error());
    std::vector<cost_units> numbers = step.before;
    for (auto const& each : step.costs) { numbers.insert(numbers.end(), each.begin(), each.end()); }
    bool const is_out = plan.error().code == ballast::error_code::out_of_range;
    return require(!is_out || !is_moderate(numbers),
                   "nothing is out of range: ", plan.error().message);
  }
  auto const owner = ballast_test::assignment_of(plan->owner);
  require(owner.size() == step.samples && keeps(step, owner), "limits are not kept");
  auto const judged = judge(step, owner);
  auto const all = std::reduce(plan->lengths.begin(), plan->lengths.end(), tokens{0});
  bool const moves_any = step.has[moves] && judged.moved > 0;
  require(plan->moved == (moves_any ? ratio{judged.moved, all} : ratio{}), "moved ",
          shown(plan->moved));
  require(plan->makespan == judged.finish[0] && plan->lower_bound <= plan->makespan, "makespan ",
          shown(plan->makespan), ", bound ", shown(plan->lower_bound), ", by its owners ",
          shown(judged.finish[0]));
  for (std::size_t bag = 0; bag < step.bags; ++bag) {
    auto const id = to_id<ballast::bag_id>(bag);
    require(std::ranges::equal(ballast::detail::numbers_of(plan->loads[bag]), judged.loads[bag]),
            "loads are not those of the owners");
    tokens held = 0;
    for (auto const sample : plan->samples[id]) { held += step.lengths[ballast::to_index(sample)]; }
    bool const is_above = std::ranges::count(plan->above_cap, id) == 1;
    require(is_above == (step.has[soft] && held > step.of_cell(bag, 5)), "bag ", bag, " of ", held);
  }
}

TEST(ExtremeNumbers, KeepAnyLimitsAtOnce)
{
  soak("one quantity", keep_limits<1>);
  soak("two quantities", keep_limits<2>);
}

// ---- Bins and grids ----

void pack_within_limits(ballast::random_source& random)
{
  number_family const family = draw_family(random);
  ballast_test::packing_instance step;
  step.weights.resize(random.below(40));
  std::int64_t heaviest = 0;
  for (auto& weight : step.weights) {
    weight = draw_number(random, family);
    heaviest = std::max(heaviest, weight);
  }
  step.capacity = random.below(3) == 0 ? heaviest
                  : random.below(2) == 0
                      ? heaviest + std::min(heaviest, largest_number - heaviest) / 2
                      : largest_number - random.between(0, 1);
  bool const is_plain = random.below(3) == 0;
  ballast::bins wanted{.work = 1 << 15};
  ballast::placement_limits limits{.most_per_gpu = step.capacity};
  std::vector<std::int64_t> images(step.weights.size());
  if (!is_plain) {
    if (random.below(2) == 0) { limits.samples = ballast::counts::at_most(random.between(1, 5)); }
    if (random.below(2) == 0) { wanted.least = random.below(9); }
    if (random.below(2) == 0) { wanted.multiple_of = 1 + random.below(4); }
    if (random.below(3) == 0) { limits.then = ballast::most_level; }
    wanted.is_padded = random.below(3) == 0;
    for (auto& image : images) { image = random.between(0, 3); }
  }
  bool const has_images = !is_plain && !wanted.is_padded && random.below(2) == 0;
  if (has_images) { limits.also = {{.of = images, .most_per_gpu = 3}}; }
  auto const plan = ballast::pack(step.weights, limits, wanted);
  if (!plan) {
    require_sentence(plan.error());
    return require(heaviest > step.capacity || !is_moderate(step.weights),
                   "refused: ", plan.error().message);
  }
  if (is_plain) { ballast_test::expect_valid_packing(step, *plan); }
  require(plan->bins() % wanted.multiple_of == 0 && plan->bins() >= wanted.least, plan->bins(),
          " bins");
  require(plan->lower_bound <= plan->bins() && plan->largest_bound <= plan->largest(), "bounds ",
          plan->lower_bound, " and ", plan->largest_bound);
  for (std::size_t bin = 0; bin < plan->bins(); ++bin) {
    auto const row = plan->samples[to_id<ballast::bag_id>(bin)];
    std::int64_t held = 0;
    for (ballast::sample_id const sample : row) { held += images[to_index(sample)]; }
    require(!has_images || held <= 3, held, " images in a bin");
    require(limits.samples.kind == ballast::counts::rule::any ||
                static_cast<std::int64_t>(row.size()) <= limits.samples.number,
            row.size(), " samples in a bin");
    require(plan->loads[bin] <= step.capacity, "a load of ", plan->loads[bin]);
  }
}

void fill_grid(ballast::random_source& random)
{
  auto step = ballast_test::random_grid(random, 14);
  if (auto const family = draw_family(random); family != number_family::tiny) {
    std::int64_t heaviest = 0;
    for (auto& weight : step.weights) {
      weight = draw_number(random, family);
      heaviest = std::max(heaviest, weight);
    }
    for (auto& cost : step.costs) { cost = draw_number(random, family); }
    for (auto& cap : step.caps) {
      cap = heaviest + std::min(largest_number - heaviest, random.between(0, heaviest));
    }
  }
  ballast::microbatches slots{.number = step.slots, .meet = step.meet, .kinds = step.kinds};
  if (random.below(2) == 0) {
    slots.number.reset();
    slots.multiple_of = 1 + random.below(3);
  }
  auto const plan = ballast::partition_grid(step.samples(), ballast::one_gpu_bags(step.ranks),
                                            slots, &ballast_test::grid_sample::cost,
                                            &ballast_test::grid_sample::weight, step.limits());
  if (!plan) {
    require_sentence(plan.error());
    bool const is_too_long = std::ranges::any_of(
        step.weights, [](auto weight) { return weight > ballast::longest_sample; });
    return require(plan.error().code != ballast::error_code::out_of_range || is_too_long ||
                       !is_moderate(step.costs),
                   "out of range: ", plan.error().message);
  }
  ballast_test::expect_valid_grid(*plan, step);
  require(plan->microbatches % slots.multiple_of == 0 &&
              plan->microbatches == slots.number.value_or(plan->microbatches),
          plan->microbatches, " microbatches");
}

TEST(ExtremeNumbers, ArePackedIntoBinsAndGrids)
{
  soak("pack", pack_within_limits);
  soak("partition_grid", fill_grid);
}

// ---- Sequences over groups of GPUs, and rows over ranks ----

// Whether no sequence takes so long that sums could be refused.
bool is_in_range(ballast_test::sharding_step const& step)
{
  std::vector<std::int64_t> longest;
  for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
    longest.push_back(0);
    for (std::size_t group = 0; group < step.groups.size(); ++group) {
      auto const time = step.time(sample, group);
      if (time && *time >= ballast::no_cost / 64) { return false; }
      longest.back() = std::max(longest.back(), 8 * time.value_or(0));
    }
  }
  return is_moderate(longest);
}

// Prices and limits so large that sums need more than 63 bits, or none at all.
ballast_test::sharding_step draw_dear_sharding(ballast::random_source& random)
{
  auto step = ballast_test::draw_sharding(30, 8, random);
  auto const number = [&] { return draw_number(random, number_family::extreme); };
  auto const enlarge = [&](auto& price, std::int64_t least) {
    using type = std::remove_reference_t<decltype(price)>;
    if (random.below(2) == 0) { price = static_cast<type>(std::max(least, number())); }
  };
  enlarge(step.cost.work.linear, 0);
  enlarge(step.cost.work.quadratic, 0);
  enlarge(step.cost.latency, 0);
  enlarge(step.cost.bytes_per_head, 0);
  enlarge(step.cost.units_per_second, 1);
  enlarge(step.cost.within_node_bytes_per_second, 1);
  enlarge(step.limit, 0);
  for (auto& length : step.lengths) {
    if (random.below(3) == 0) { length = random.below(2) == 0 ? ballast::longest_sample : 1; }
  }
  return step;
}

void shard(ballast::random_source& random)
{
  auto const step = draw_dear_sharding(random);
  auto const plan = ballast::hybrid_sharding(step.lengths, step.groups, step.cost, step.limit);
  if (plan) { return ballast_test::expect_true_plan(*plan, step); }
  require_sentence(plan.error());
  require(plan.error().code != ballast::error_code::out_of_range || !is_in_range(step),
          "out of range, though nothing is: ", plan.error().message);
}

void tile(ballast::random_source& random)
{
  auto const step = draw_dear_sharding(random);
  ballast::slot_groups rules{.is_soft = random.below(2) == 0, .work = 1 + random.below(20'000)};
  rules.most_per_gpu = std::max<tokens>(1, draw_number(random, number_family::extreme));
  if (random.below(2) == 0) { rules.meet = ballast::grid_meeting::step; }
  std::vector<std::uint32_t> const gpus{static_cast<std::uint32_t>(1 + random.below(8)),
                                        static_cast<std::uint32_t>(1 + random.below(8))};
  auto const plan = ballast::plan_slots(step.lengths, ballast::node_sizes(gpus), step.cost, rules);
  if (!plan) { return require_sentence(plan.error()); }
  require(plan->lower_bound <= plan->makespan, "bound ", plan->lower_bound, " for ",
          plan->makespan);
  for (auto const& group : plan->groups) { require(group.load >= 0, "a load of ", group.load); }
}

void split(ballast::random_source& random)
{
  auto const family = draw_family(random);
  bool const is_large = family == number_family::huge || family == number_family::extreme;
  std::vector<tokens> documents(random.below(20));
  std::vector<ballast::row_mask> masks(1 + random.below(3));
  for (auto& rows : documents) {
    rows = draw_number(random, family);
    if (!is_large) { rows %= 200; }
  }
  for (ballast::row_mask& mask : masks) {
    mask.layers = static_cast<std::uint32_t>(1 + random.below(300));
    switch (random.below(3)) {
      case 0: mask.window = 1 + draw_number(random, number_family::extreme) / 2; break;
      case 1: mask.prefixes = documents; break;
      default: mask.window = draw_number(random, number_family::tiny); break;
    }
  }
  auto const uneven = static_cast<std::uint32_t>(random() >> (32 + random.below(32)));
  auto const made =
      ballast::split_rows(documents, 1 + random.below(8), masks, random.between(1, 40), uneven);
  if (!made) {
    require_sentence(made.error());
    return require(is_large || says(made.error(), "layer"), "refused: ", made.error().message);
  }
  for (auto const& part : made->for_mask) {
    require(part.lower_bound <= part.makespan && part.least_moved <= part.moved &&
                part.least_moved >= 0,
            "bounds of ", part.lower_bound, " and ", part.least_moved, " for ", part.makespan,
            " and ", part.moved);
  }
}

TEST(ExtremeNumbers, AreSplitOverGpus)
{
  soak("hybrid_sharding", shard);
  soak("plan_slots", tile);
  soak("split_rows", split);
}

}  // namespace
