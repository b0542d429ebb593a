// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/device_groups.hpp>

namespace ballast_test {

/// Bags of random sizes that together have `gpus` GPUs, often of one size, and half of them admit
/// short samples.
inline ballast::bag_layout random_bags(std::size_t gpus, ballast::random_source& random)
{
  std::vector<ballast::bag> bags;
  bool const one_size = random.below(2) == 0;
  for (std::size_t first = 0; first < gpus;) {
    auto const size =
        one_size && first > 0
            ? std::min(bags.front().gpus, static_cast<std::uint32_t>(gpus - first))
            : static_cast<std::uint32_t>(1 + random.below(std::min<std::size_t>(gpus - first, 8)));
    bags.push_back({ballast::to_id<ballast::rank_id>(first), size});
    first += size;
  }
  bool const admitted = random.below(2) == 0;
  return ballast::bag_layout(bags).with_short_samples(admitted ? ballast::short_samples::admitted
                                                               : ballast::short_samples::refused);
}

/// A step: samples of random lengths, zero among them, read somewhere and placed somewhere. Where
/// the bags admit short samples, some are.
struct random_step {
  std::vector<ballast::tokens> lengths;
  std::vector<ballast::rank_id> source;
  std::vector<ballast::bag_id> owner;
  ballast::placement read;
  ballast::placement computed;

  random_step(std::size_t samples, ballast::bag_layout const& bags, ballast::random_source& random)
  {
    for (std::size_t sample = 0; sample < samples; ++sample) {
      auto const bag = ballast::to_id<ballast::bag_id>(random.below(bags.size()));
      bool const few = random.below(4) == 0;
      auto const length = static_cast<ballast::tokens>(random.below(few ? 9 : 40));
      owner.push_back(bag);
      lengths.push_back(bags.takes(bag, length) ? length : 0);
      source.push_back(ballast::to_id<ballast::rank_id>(random.below(bags.gpus())));
    }
    std::ranges::sort(source);  // gathered order
    ballast::place(read, lengths, source, bags.gpus());
    ballast::place(computed, lengths, owner, bags);
  }
};

/// The plan of hybrid sharding that has these owners.
inline ballast::sharding_plan plan_of(ballast::device_groups const& groups,
                                      std::vector<ballast::tokens> lengths,
                                      std::vector<ballast::group_id> owner)
{
  ballast::sharding_plan plan;
  plan.owner = std::move(owner);
  plan.lengths = std::move(lengths);
  plan.samples.collect(plan.owner, groups.size());
  plan.groups_digest = groups.digest();
  return plan;
}

/// A number for every token of every sample, no two the same.
inline std::int64_t token_name(std::size_t sample, ballast::tokens token)
{
  return static_cast<std::int64_t>(sample) * 1'000'000 + token;
}

/// What the arrays of every rank hold where each token carries its name: written down from the
/// definition, sample by sample, with no help of a piece's row.
inline std::vector<std::vector<std::int64_t>> named_rows(ballast::placement const& where)
{
  std::vector<std::vector<std::int64_t>> rows(where.ranks());
  for (std::size_t sample = 0; sample < where.size(); ++sample) {
    for (ballast::piece const& each : where[ballast::to_id<ballast::sample_id>(sample)]) {
      for (ballast::tokens token = each.first; token < each.first + each.count; ++token) {
        rows[ballast::to_index(each.rank)].push_back(token_name(sample, token));
      }
    }
  }
  return rows;
}

}  // namespace ballast_test
