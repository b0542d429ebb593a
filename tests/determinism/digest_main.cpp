// Prints one line per computation that a plan may depend on: a name and a digest of its result. The
// same program is built by several compilers with flags that loosen floating point, and every build
// must print the same lines.

#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../../examples/common/by_name/parse_schedule.hpp"

#include <ballast/ballast.hpp>
#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/parallelism/cut_chain.hpp>
#include <ballast/parallelism/place_experts.hpp>
#include <ballast/parallelism/share_experts.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/sharding.hpp>
#include <ballast/workload.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::tokens;

void print(std::string const& name, std::uint64_t digest)
{
  std::printf("%s %016llx\n", name.c_str(), static_cast<unsigned long long>(digest));
}

template <class T>
std::uint64_t digest_of(std::vector<T> const& words)
{
  return ballast::digest{}.add(std::span<T const>(words)).value();
}

template <class Distribution>
std::vector<tokens> draw(std::string const& name, Distribution const& distribution)
{
  ballast::random_source random(42);
  auto const lengths = ballast::draw_lengths(distribution, 5000, random);
  print("lengths/" + name, digest_of(lengths));
  return lengths;
}

template <class Cost>
void price(std::string const& name, Cost const& cost, std::vector<tokens> const& lengths)
{
  std::vector<cost_units> costs;
  for (tokens const length : lengths) { costs.push_back(cost(length)); }
  print("cost/" + name, digest_of(costs));
}

void plan_grid(std::string const& name, ballast::bag_layout const& bags, ballast::grid_meeting meet,
               std::vector<tokens> const& lengths, ballast::quadratic_cost const& cost)
{
  auto const plan =
      ballast::partition_grid(lengths, bags, {.meet = meet}, cost, {.most_per_gpu = 200'000})
          .value();
  ballast::digest digest;
  digest.add(plan.digest()).add(static_cast<std::uint64_t>(plan.lower_bound.numerator));
  digest.add(static_cast<std::uint64_t>(plan.fewest_microbatches));
  print("grid/" + name, digest.value());
}

void plan_grids(std::vector<tokens> const& lengths, ballast::quadratic_cost const& cost)
{
  using ballast::grid_meeting;
  auto const bags = ballast::one_gpu_bags(16);
  std::vector<std::uint32_t> speeds(16, 3);
  speeds[5] = 2;
  auto const uneven = ballast::one_gpu_bags(16).with_speeds(speeds);
  plan_grid("step", bags, grid_meeting::step, lengths, cost);
  plan_grid("step, speeds", uneven, grid_meeting::step, lengths, cost);
  plan_grid("microbatch", bags, grid_meeting::microbatch, lengths, cost);
  plan_grid("microbatch, speeds", uneven, grid_meeting::microbatch, lengths, cost);
}

template <class Policy>
void plan_vectors(std::string const& name, Policy const& policy, std::vector<tokens> const& lengths,
                  ballast::placement_limits const& constraints = {})
{
  std::vector<ballast::cost_vector<2>> costs;
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    costs.push_back({lengths[each], 2 * lengths[lengths.size() - 1 - each]});
  }
  std::vector<std::size_t> samples(lengths.size());
  for (std::size_t each = 0; each < samples.size(); ++each) { samples[each] = each; }
  auto const plan =
      ballast::partition(
          samples, ballast::one_gpu_bags(64), [&](std::size_t each) { return costs[each]; },
          [&](std::size_t each) { return lengths[each]; }, constraints, policy)
          .value();
  ballast::digest digest;
  digest.add(plan.digest());
  digest.add(static_cast<std::uint64_t>(plan.lower_bound.numerator));
  digest.add(static_cast<std::uint64_t>(plan.lower_bound.denominator));
  print("vectors/" + name, digest.value());
}

void pack(std::vector<tokens> const& lengths)
{
  auto const shown = [](std::string const& name, ballast::packing_plan const& plan) {
    ballast::digest digest;
    digest.add(plan.digest()).add(static_cast<std::uint64_t>(plan.lower_bound));
    digest.add(static_cast<std::uint64_t>(plan.largest_bound));
    print("packing/" + name, digest.value());
  };
  shown("one_cap", ballast::pack(lengths, {.most_per_gpu = 200'000}).value());
  std::vector<std::int64_t> images;
  for (tokens const length : lengths) { images.push_back(length % 4); }
  shown("two_caps", ballast::pack(lengths, {.most_per_gpu = 200'000,
                                            .also = {{.of = images, .most_per_gpu = 90}},
                                            .then = ballast::most_level})
                        .value());
  for (bool const is_padded : {false, true}) {
    shown(is_padded ? "padded" : "counts",
          ballast::pack(lengths,
                        {.also = {{.most_per_gpu = 200'000, .rounded_to = 64}},
                         .samples = ballast::counts::at_most(200)},
                        ballast::bins{.multiple_of = 8, .is_padded = is_padded})
              .value());
  }
}

void choose(std::vector<tokens> const& lengths, ballast::quadratic_cost const& cost)
{
  std::vector<ballast::sample_batch> batches(4);
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    auto const first = lengths.begin() + static_cast<std::ptrdiff_t>(600 * batch);
    batches[batch].lengths.assign(first, first + 600);
  }
  auto const found =
      ballast::choose_bags(std::span(batches).first(2), ballast::cluster_of({8, 8, 8, 5}).value(),
                           {}, cost, {.judged_on = std::span(batches).last(2)})
          .value();
  ballast::digest digest;
  digest.add(found.bags.digest()).add(found.placed);
  for (auto const& each : found.mixes) {
    digest.add(std::span<std::uint32_t const>(each.mix.bags));
    digest.add(static_cast<std::uint64_t>(each.fitted_step.numerator));
    digest.add(static_cast<std::uint64_t>(each.judged_step.numerator));
  }
  print("bags/chosen", digest.value());
}

void cut(std::vector<tokens> const& lengths)
{
  std::vector<ballast::chain_layer> layers;
  for (std::size_t at = 0; at < 120; ++at) { layers.push_back({.cost = lengths[at]}); }
  auto const plan = ballast::cut_chain(layers, {.ranks = 8, .chunks = 2}).value();
  print("chain/cut", digest_of(plan.first));
}

void place_replicas(std::vector<tokens> const& lengths)
{
  std::vector<std::uint32_t> const slots(64, 3);
  auto const placed = ballast::place_experts(std::span(lengths).first(64), slots).value();
  auto const shares =
      ballast::share_experts(std::span(lengths).subspan(64, 64), placed.gpus, 64).value();
  ballast::digest digest;
  digest.add(placed.digest()).add(static_cast<std::uint64_t>(placed.makespan.numerator));
  digest.add(shares.parts.values()).add(static_cast<std::uint64_t>(shares.unit));
  print("experts/placed", digest.value());
}

void shard(std::vector<tokens> const& lengths)
{
  auto const machines = ballast::cluster_of({8, 8, 8, 5}).value();
  auto cost = ballast::sharding_cost_of(ballast::find_known_model("llama3-8b").value().shape,
                                        {.seconds_per_flop = 1 / 400e12, .gamma = 0.9}, machines)
                  .value();
  auto const plan =
      ballast::hybrid_sharding(lengths, ballast::device_groups(machines.nodes, 16), cost).value();
  ballast::digest digest;
  digest.add(plan.digest()).add(static_cast<std::uint64_t>(plan.lower_bound));
  cost.whole_groups = true;
  digest.add(
      hybrid_sharding(lengths, ballast::device_groups(machines.nodes, 16), cost).value().digest());
  print("sharding/hybrid", digest.value());
  print("sharding/slots",
        ballast::plan_slots(lengths, machines.nodes, cost,
                            {.largest = 16, .most_per_gpu = 8192, .is_soft = true})
            .value()
            .digest());
  std::vector<ballast::row_mask> const masks = {{}, {.window = 512, .layers = 3}};
  print("sharding/rows",
        ballast::split_rows(std::span(lengths).first(400), 8, masks).value().digest());
}

}  // namespace

int main()
{
  draw("uniform", ballast::uniform_lengths{.shortest = 8, .longest = 9000});
  draw("pareto", ballast::bounded_pareto_lengths{.shortest = 8, .longest = 90000, .alpha = 1.1});
  auto const lengths =
      draw("lognormal", ballast::clamped_lengths{
                            ballast::lognormal_lengths{.median = 1024, .sigma = 1.3}, 8, 200000});

  auto const spec = ballast::parse_cost_spec("transformer:d=3072,gamma=0.405,layers=57").value();
  price("transformer", spec.cost, lengths);
  price("odd_gamma", ballast::parse_cost_spec("transformer:d=1000,gamma=0.1").value().cost,
        lengths);
  price("latency",
        ballast::latency_cost({.seconds_per_flop = 1.7e-15, .gamma = 0.413}, spec.forward).value(),
        lengths);

  auto const plan_over = [&](std::string const& bags, ballast::cluster const& machines) {
    auto const layout = ballast::lay_out(ballast::parse_bags(bags).value(), machines,
                                         ballast::misplaced_bags::largest_first)
                            .value();
    for (auto const* policy : {"round_robin", "longest_processing_time", "greedy_knapsack",
                               "greedy_knapsack:capacity=full", "karmarkar_karp", "refine",
                               "refine:nodes=100000", "padded_batches", "attention_padded_batches",
                               "conv_transformer_batches", "quadratic_with_tolerance"}) {
      auto const plan =
          ballast::partition(lengths, layout, spec.cost, {}, by_name::parse_policy(policy).value())
              .value();
      ballast::digest digest;
      digest.add(plan.digest()).add(plan.samples.values());
      digest.add(static_cast<std::uint64_t>(plan.lower_bound.numerator));
      digest.add(static_cast<std::uint64_t>(plan.lower_bound.denominator));
      print("plan/" + bags + "/" + policy, digest.value());
    }
  };
  for (auto const* bags : {"g1n64", "g8n8", "g1n16+g2n8+g4n4+g8n2"}) {
    plan_over(bags, ballast::cluster_of(64).value());
  }
  auto uneven = ballast::cluster_of({8, 8, 8, 8, 5}).value();
  for (std::uint32_t gpu = 0; gpu < 37; ++gpu) { uneven.gpu_speeds.push_back(60 + gpu / 8 * 10); }
  plan_over("g1n5+g4n4+g8n2", uneven);

  std::vector<ballast::rank_id> home;
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    home.push_back(ballast::to_id<ballast::rank_id>(each * 7 % 64));
  }
  std::vector<std::int64_t> images;
  for (ballast::tokens const length : lengths) { images.push_back(length % 7); }
  using ballast::placement_limits;
  std::int64_t const most = 200'000;
  for (auto const& [name, limits] :
       {std::pair("cap", placement_limits{.home = home, .most_per_gpu = most}),
        std::pair("moves", placement_limits{.home = home, .then = ballast::fewest_moves}),
        std::pair("equal", placement_limits{.samples = ballast::counts::equal()}),
        std::pair("two", placement_limits{.most_per_gpu = most,
                                          .also = {{.of = images, .most_per_gpu = 20'000}},
                                          .then = ballast::most_level})}) {
    auto const plan =
        ballast::partition(lengths, ballast::one_gpu_bags(64), spec.cost, limits).value();
    ballast::digest digest;
    digest.add(plan.digest()).add(static_cast<std::uint64_t>(plan.moved.numerator));
    print(std::string("plan/limits/") + name, digest.value());
  }
  plan_grids(lengths, spec.cost);
  plan_vectors("longest_processing_time", ballast::longest_processing_time{}, lengths);
  plan_vectors("refine", ballast::refine<>{}, lengths);
  plan_vectors("refine:nodes=10000", ballast::refine<>{.nodes = 10'000}, lengths);
  pack(lengths);
  choose(lengths, spec.cost);
  shard(lengths);
  cut(lengths);
  place_replicas(lengths);

  for (auto const* schedule : {"gpipe", "1f1b", "interleaved:v=2"}) {
    constexpr std::size_t microbatches = 20;
    auto const chosen = by_name::parse_schedule(schedule).value();
    auto const stages = ballast::chain_of_stages(8, 8 / chosen.virtual_stages, 700);
    auto const compiled = ballast::compiled_schedule::make(stages, chosen, microbatches).value();
    ballast::pipeline_times times(microbatches, 8);
    for (std::size_t task = 0; task < times.rows.size(); ++task) {
      times.rows[task] = {lengths[task], lengths[task] + lengths[task + 1000]};
    }
    for (auto const* policy :
         {"ascending", "interval", "insertion", "search:evaluations=2000", "exact:nodes=2000"}) {
      auto const plan =
          ballast::order_microbatches(compiled, times, by_name::parse_order_policy(policy).value())
              .value();
      ballast::digest digest;
      digest.add(plan.digest()).add(static_cast<std::uint64_t>(plan.lower_bound));
      print(std::string("order/") + schedule + "/" + policy, digest.value());
    }
  }

  ballast::random_source random(7);
  auto const codes = ballast::parse_data_codes("g8b4i256f1s0,g4b5i1024f1s0,g4b2i512f85s1").value();
  auto const batch = ballast::draw_batch(codes, 32, {}, random).value();
  print("batch/codes", digest_of(batch.lengths));
  ballast::batch_sampler sampler(lengths, 777, 32, 3);
  for (int step = 0; step < 10; ++step) { (void)sampler.next(); }
  print("batch/trace", digest_of(sampler.next().lengths));

  ballast::length_histogram const histogram(lengths);
  std::vector<tokens> edges;
  for (auto const& bin : histogram.bins(40)) { edges.push_back(bin.longest); }
  print("histogram/bins", digest_of(edges));
}
