// SPDX-License-Identifier: Apache-2.0
#include "auto_bags.hpp"

#include "steps.hpp"

#include <ballast/core/units.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/parallelism/bag_exchange_work.hpp>
#include <ballast/parallelism/bag_mix.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/lay_out.hpp>
#include <ballast/workload/sample_batch.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cli {
namespace {

using ballast::bag_mix;
using ballast::sample_batch;

constexpr std::size_t fitted_batches = 8;
constexpr std::size_t scored_batches = 32;
constexpr std::size_t most_scored = 12;  // mixes, and besides those of one size

std::string text_of(bag_mix const& mix)
{
  std::string text;
  for (ballast::bag_group const group : mix.spec().groups()) {
    text += fmt::format("{}g{}n{}", text.empty() ? "" : "+", group.gpus, group.bags);
  }
  return text;
}

/// What exchanging takes while the costs are computed: a forward pass.
outcome<ballast::bag_exchange_work> exchanges_of(job const& work)
{
  if (!work.times_known) { return ballast::bag_exchange_work{}; }
  auto const shape = ballast::parse_cost_spec(work.options.cost)->shape;
  constexpr std::uint64_t bf16_bytes = 2;
  std::uint64_t const heads = 2 * (std::uint64_t{shape.heads} + shape.kv_heads);
  auto const traffic = ballast::bag_traffic{
      .head_bytes_per_token = bf16_bytes * heads * shape.head_dim * shape.layers,
      .all_to_alls = 2 * shape.layers,
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

struct scored_mix {
  ballast::priced_mix fitted;
  std::size_t place = 0;    ///< as fitted
  std::int64_t scored = 0;  ///< the sum of the other batches' steps, in eighths of a unit
};

/// The mixes that came nearest and those of one size, the one with the shortest steps on the batches
/// first. Left out are mixes without a bag small enough for a sample of these batches.
outcome<std::vector<scored_mix>> score(std::vector<ballast::priced_mix> const& fitted,
                                       std::vector<sample_batch> const& batches,
                                       ballast::bag_exchange_work const& exchanges, job const& work,
                                       ballast::short_samples short_ones, progress& shown)
{
  std::vector<scored_mix> scored;
  std::vector<bag_mix> mixes;
  std::int64_t shortest = ballast::longest_sample;
  for (sample_batch const& batch : batches) {
    for (auto const length : batch.lengths) {
      if (length > 0) { shortest = std::min(shortest, length); }
    }
  }
  for (std::size_t place = 0; place < fitted.size(); ++place) {
    bag_mix const& mix = fitted[place].mix;
    bool const takes_all = short_ones == ballast::short_samples::admitted ||
                           mix.spec().groups().back().gpus <= shortest;
    if (!takes_all || (place >= most_scored && !mix.is_uniform())) { continue; }
    scored.push_back({fitted[place], place});
    mixes.push_back(mix);
  }
  for (std::size_t batch = 0; batch < batches.size(); ++batch) {
    shown.update([&] {
      return fmt::format("choosing bags, scoring on batch {} of {}", batch + 1, batches.size());
    });
    auto const priced =
        ballast::price_bags(mixes, std::span(&batches[batch], 1), exchanges, work.cost, short_ones);
    if (!priced) { return bad_data(fmt::format("--bags auto: {}", priced.error().message)); }
    for (std::size_t place = 0; place < mixes.size(); ++place) {
      scored[place].scored += (*priced)[place].mean_step.numerator;
    }
  }
  std::ranges::sort(scored, {},
                    [](scored_mix const& each) { return std::pair(each.scored, each.place); });
  return scored;
}

}  // namespace

outcome<named_layout> choose_layout(job const& work, progress& shown)
{
  auto const exchanges = exchanges_of(work);
  if (!exchanges) { return tl::unexpected(exchanges.error()); }
  // Another stream of random numbers than that of the steps, which have the seeds that people write.
  step_source source(work, ~work.options.seed);
  auto const fitted = draw_batches(source, fitted_batches, shown);
  if (!fitted) { return tl::unexpected(fitted.error()); }
  auto const others = draw_batches(source, scored_batches, shown);
  if (!others) { return tl::unexpected(others.error()); }

  auto const short_ones = work.admits_short_samples() ? ballast::short_samples::admitted
                                                      : ballast::short_samples::refused;
  shown.update([] { return std::string("choosing bags, searching"); });
  auto const found = ballast::choose_bags(*fitted, work.machines, *exchanges, work.cost,
                                          {.short_ones = short_ones});
  if (!found) { return usage("--bags auto", found.error()); }
  auto const scored = score(found->mixes, *others, *exchanges, work, short_ones, shown);
  if (!scored) { return tl::unexpected(scored.error()); }

  bag_mix const& best = scored->front().fitted.mix;
  auto layout =
      ballast::lay_out(best.spec(), work.machines, ballast::misplaced_bags::largest_first);
  if (!layout) { return usage("--bags auto", layout.error()); }
  named_layout chosen{text_of(best), layout->with_short_samples(short_ones)};
  for (scored_mix const& each : *scored) {
    constexpr double eighths = 8.0 * scored_batches;
    chosen.judged.push_back({text_of(each.fitted.mix),
                             each.fitted.mean_step.value() * work.seconds_per_unit,
                             static_cast<double>(each.scored) / eighths * work.seconds_per_unit});
  }
  return chosen;
}

}  // namespace cli
