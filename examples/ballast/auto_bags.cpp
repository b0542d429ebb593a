// SPDX-License-Identifier: Apache-2.0
#include "auto_bags.hpp"

#include "steps.hpp"

#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cli {
namespace {

using ballast::bag_mix;
using ballast::sample_batch;

constexpr std::size_t fitted_batches = 8;

/// How many batches the finalists are judged on. A batch of a small job has few of the giants that
/// decide, so small jobs are judged on more.
std::size_t judged_batches(std::size_t gpus)
{
  return std::clamp<std::size_t>(4096 / gpus, 32, 256);
}

/// The largest bags whose GPUs all have heads, where the cost model says how many there are.
std::uint32_t largest_bag(job const& work)
{
  auto const spec = ballast::parse_cost_spec(work.options.cost);
  std::uint32_t const heads = spec ? spec->shape.heads : 1;
  return heads > 1 ? std::bit_floor(std::min(heads, bag_mix::largest)) : bag_mix::largest;
}

std::string text_of(bag_mix const& mix)
{
  std::string text;
  ballast::bag_spec const spec = mix.spec();  // groups() refers to it
  for (ballast::bag_group const group : spec.groups()) {
    text += fmt::format("{}g{}n{}", text.empty() ? "" : "+", group.gpus, group.bags);
  }
  return text;
}

/// What exchanging takes while the costs are computed: as measured steps say, or for a forward pass
/// over the links.
outcome<ballast::bag_exchange_work> exchanges_of(job const& work)
{
  if (!work.times_known) { return ballast::bag_exchange_work{}; }
  if (work.step_fit) {
    auto const priced = ballast::price_bag_exchanges(*work.step_fit);
    if (!priced) { return usage("--measured", priced.error()); }
    return *priced;
  }
  auto const spec = ballast::parse_cost_spec(work.options.cost);
  ballast::transformer_shape const& shape = spec->shape;
  if (!spec->layers_written) {
    return usage(fmt::format(
        "--bags auto: samples are brought to their bag once for all layers; say how many there "
        "are, as in --cost {},layers=57",
        work.options.cost));
  }
  constexpr std::uint64_t bf16_bytes = 2;
  std::uint64_t const heads = 2 * (std::uint64_t{shape.heads} + shape.kv_heads);
  auto const traffic = ballast::bag_traffic{
      .layers = shape.layers,
      .head_bytes_per_token_and_layer = bf16_bytes * heads * shape.head_dim,
      .all_to_alls_per_layer = 2,
      .routed_bytes_per_token = 2 * static_cast<std::uint64_t>(work.bytes_per_token),
      .routes = 2,
      .units_per_second = 1 / work.seconds_per_unit};
  auto const priced = ballast::price_bag_exchanges(traffic, work.machines);
  if (!priced) { return usage("--bags auto", priced.error()); }
  return *priced;
}

outcome<std::vector<sample_batch>> draw_batches(step_source& source, std::size_t count,
                                                progress& shown)
{
  std::vector<sample_batch> batches(count);
  for (sample_batch& batch : batches) {
    shown.update([] { return std::string("choosing bags, reading batches"); });
    if (auto const drawn = source.next_into(batch); !drawn) {
      return usage("--codes", drawn.error());
    }
  }
  return batches;
}

}  // namespace

outcome<named_layout> choose_layout(job const& work, progress& shown)
{
  auto const exchanges = exchanges_of(work);
  if (!exchanges) { return tl::unexpected(exchanges.error()); }
  // Another stream of random numbers than that of the steps, which have the seeds that people
  // write.
  step_source source(work, ~work.options.seed);
  auto const fitted = draw_batches(source, fitted_batches, shown);
  if (!fitted) { return tl::unexpected(fitted.error()); }
  auto const others = draw_batches(source, judged_batches(work.machines.gpus()), shown);
  if (!others) { return tl::unexpected(others.error()); }

  auto const short_ones = work.admits_short_samples() ? ballast::short_samples::admitted
                                                      : ballast::short_samples::refused;
  shown.update([] { return std::string("choosing bags, searching"); });
  ballast::bag_search const search{
      .largest_bag = largest_bag(work), .short_ones = short_ones, .judged_on = *others};
  // refine goes on from the plan of longest processing time, and wants the same bags to 0.1 %, for
  // which its own plans would take a thousand times as long.
  auto const found =
      work.policy == by_name::any_policy{ballast::refine<>{}}
          ? ballast::choose_bags(*fitted, work.machines, *exchanges, work.cost, search)
          : ballast::choose_bags(*fitted, work.machines, *exchanges, work.cost, search,
                                 work.policy);
  if (!found) { return usage("--bags auto", found.error()); }

  named_layout chosen{text_of(found->mixes.front().mix), found->bags};
  for (ballast::bag_choice::judged_mix const& each : found->mixes) {
    chosen.judged.push_back({text_of(each.mix), each.fitted_step.value() * work.seconds_per_unit,
                             each.judged_step.value() * work.seconds_per_unit});
  }
  return chosen;
}

}  // namespace cli
