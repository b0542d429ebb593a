// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>

#include <functional>

namespace ballast_test {

/// A job on nodes of any sizes: samples as they were read, and a plan of them.
struct node_job {
  ballast::cluster machines;
  ballast::bag_layout bags;
  std::vector<ballast::tokens> lengths = {};
  std::vector<ballast::rank_id> source = {};
  ballast::placement read = {};
  ballast::partition_plan plan = {};

  /// The most tokens that a rank sends to other nodes, or also receives from them, if the samples
  /// go where `owner` says: from the route itself.
  [[nodiscard]] ballast::tokens largest(std::span<ballast::bag_id const> owner,
                                        bool count_received) const
  {
    auto const computed = ballast::place(lengths, owner, bags);
    ballast::tokens most = 0;
    for (auto const& each : ballast::measure_route(read, computed, machines).ranks) {
      most = std::max(most, each.sent.between_nodes);
      if (count_received) { most = std::max(most, each.received.between_nodes); }
    }
    return most;
  }
};

/// Samples of any lengths, zero among them, on some of the ranks.
inline node_job random_node_job(std::span<std::uint32_t const> gpus_of_nodes,
                                ballast::bag_layout const& bags, std::size_t samples,
                                ballast::random_source& random)
{
  node_job job{.machines = ballast::cluster_of(gpus_of_nodes).value(), .bags = bags};
  for (std::size_t sample = 0; sample < samples; ++sample) {
    auto const root = static_cast<ballast::tokens>(random.below(60));  // so that few are long
    job.lengths.push_back(random.below(8) == 0 ? 0 : root * root / 8 + 16);
    job.source.push_back(ballast::to_id<ballast::rank_id>(random.below(bags.gpus())));
  }
  if (random.below(2) == 0) { std::ranges::sort(job.source); }  // gathered order, or any
  ballast::place(job.read, job.lengths, job.source, bags.gpus());
  job.plan =
      ballast::partition(job.lengths, bags, std::identity{}, {}, ballast::longest_processing_time{})
          .value();
  return job;
}

}  // namespace ballast_test
