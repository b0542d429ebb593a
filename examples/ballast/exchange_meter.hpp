// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/baselines/all_gather_dispatch.hpp"
#include "job.hpp"
#include "steps.hpp"

#include <ballast/core.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_volume.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace cli {

/// What it takes to bring the samples of a step from where they were read to where they are
/// computed.
class exchange_meter {
 public:
  explicit exchange_meter(job const& work) : work_(work) {}

  void measure(planned_step const& step, ballast::bag_layout const& layout)
  {
    ballast::place(read_, step.batch.lengths, step.batch.source, work_.gpus());
    measure_into(volume_before_, step, step.owner_before, layout);
    measure_into(volume_, step, step.plan.owner, layout);
  }

  [[nodiscard]] ballast::route_volume const& volume() const noexcept { return volume_; }
  /// What it would be had equal bags not changed places; no ranks where they did not.
  [[nodiscard]] ballast::route_volume const& volume_before() const noexcept
  {
    return volume_before_;
  }
  [[nodiscard]] ballast::route_volume::cost route() const { return price(volume_); }
  [[nodiscard]] ballast::route_volume::cost route_before() const { return price(volume_before_); }
  [[nodiscard]] ballast::route_volume::cost all_gather() const
  {
    return baselines::price_all_gather(read_, work_.machines, work_.bytes_per_token);
  }

 private:
  void measure_into(ballast::route_volume& volume, planned_step const& step,
                    std::span<ballast::bag_id const> owner, ballast::bag_layout const& layout)
  {
    if (owner.size() != step.batch.lengths.size()) { return volume.ranks.clear(); }
    ballast::place(computed_, step.batch.lengths, owner, layout);
    ballast::measure_route(volume, memory_, read_, computed_, work_.machines);
  }

  [[nodiscard]] ballast::route_volume::cost price(ballast::route_volume const& volume) const
  {
    return volume.price(work_.machines, work_.bytes_per_token);
  }

  job const& work_;
  ballast::placement read_;
  ballast::placement computed_;
  ballast::route_volume volume_;
  ballast::route_volume volume_before_;
  ballast::workspace memory_;
};

/// The exchanges of all steps: means, and the largest figures of any step.
class exchange_statistics {
  using cost = ballast::route_volume::cost;

 public:
  void add(cost const& step)
  {
    ++steps_;
    for (auto const figure : figures) {
      sum_.*figure += step.*figure;
      most_.*figure = std::max(most_.*figure, step.*figure);
    }
  }

  [[nodiscard]] cost mean() const
  {
    cost all = sum_;
    for (auto const figure : figures) {
      // Rounding may lift the mean of equal figures above them.
      all.*figure = std::min(all.*figure / static_cast<double>(steps_), most_.*figure);
    }
    return all;
  }
  [[nodiscard]] cost const& most() const noexcept { return most_; }

 private:
  static constexpr std::array<double cost::*, 9> figures = {
      &cost::kept_share,          &cost::messages_mean, &cost::messages_max,
      &cost::bytes_mean,          &cost::bytes_max,     &cost::within_node_bytes,
      &cost::between_nodes_bytes, &cost::memory_bytes,  &cost::seconds};

  std::size_t steps_ = 0;
  cost sum_;
  cost most_;
};

}  // namespace cli
