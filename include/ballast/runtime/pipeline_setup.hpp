// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_SETUP_HPP
#define BALLAST_RUNTIME_PIPELINE_SETUP_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/runtime/pipeline_gradients.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// What the ranks that share a stage have after its backward.
enum class tensor_gradients : std::uint8_t {
  copies,         ///< each the whole gradient of the inputs: one is sent
  float32_parts,  ///< parts of it, which are added in rank order
  float64_parts,
};

/// What does not change from step to step: who computes which stage, in which order, and how wide
/// the rows are that go over a link.
///
/// The pipeline ranks of the schedule are the pipeline coordinates of the grid, module after
/// module. So `joined_stages` goes with a grid that has a module for each of its modules, and
/// `chain_of_stages` with one module.
///
/// Shapes      row_bytes[links], in the order of stage_graph::links().
struct pipeline_setup {
  process_grid grid;
  compiled_schedule schedule;
  std::vector<std::size_t> row_bytes = {};
  unit_strategy strategy = unit_strategy::direct;  ///< between modules of several replicas
  tensor_gradients tensor = tensor_gradients::copies;
  std::size_t ahead = 1;  ///< for so many tasks beside its own a rank is ready to receive
};

/// The samples of a step: in which microbatch each is, which replica of each module computes it,
/// and how many rows it has on each link. Plain data, which fill() writes by rules, or a trainer in
/// its own manner; it may have more microbatches than the schedule where only some of them are
/// evaluated.
///
///     plan.fill(setup, microbatch, [&](std::size_t sample, std::size_t link) { return ...; });
///
/// A replica computes its samples of a microbatch in increasing order. With equally many replicas
/// everywhere, each may have an order of its own: number its microbatches by their positions.
///
/// Shapes      microbatch[samples], rows[links][samples], replica[modules][samples]; a module of
///             one replica may have an empty list.
/// Expects     lengths from 0 to longest_sample.
struct pipeline_plan {
  std::size_t microbatches = 0;
  std::vector<microbatch_id> microbatch = {};
  std::vector<std::vector<tokens>> rows = {};
  std::vector<std::vector<std::uint32_t>> replica = {};

  /// Writes the plan of samples that are in these microbatches, as many as the schedule has:
  /// rows_of(sample, link), replica_of(sample, module).
  ///
  /// Ensures     nothing is allocated for as many samples as before
  template <class RowsOf, class ReplicaOf>
  pipeline_plan& fill(pipeline_setup const& setup, std::span<microbatch_id const> of_sample,
                      RowsOf const& rows_of, ReplicaOf const& replica_of)
  {
    microbatches = setup.schedule.microbatches();
    if (of_sample.data() != microbatch.data()) {
      microbatch.assign(of_sample.begin(), of_sample.end());
    }
    rows.resize(setup.schedule.stages().links().size());
    replica.resize(setup.grid.size());
    for (auto& each : rows) { each.resize(of_sample.size()); }
    for (auto& each : replica) { each.resize(of_sample.size()); }
    for (std::size_t sample = 0; sample < of_sample.size(); ++sample) {
      for (std::size_t link = 0; link < rows.size(); ++link) {
        rows[link][sample] = static_cast<tokens>(rows_of(sample, link));
      }
      for (std::size_t module = 0; module < replica.size(); ++module) {
        replica[module][sample] = static_cast<std::uint32_t>(replica_of(sample, module));
      }
    }
    return *this;
  }

  /// The same with samples in turn on the replicas of each module: sample s on replica s mod data.
  template <class RowsOf>
  pipeline_plan& fill(pipeline_setup const& setup, std::span<microbatch_id const> of_sample,
                      RowsOf const& rows_of)
  {
    return fill(setup, of_sample, rows_of, [&setup](std::size_t sample, std::size_t module) {
      return sample % setup.grid[static_cast<std::uint32_t>(module)].data;
    });
  }

  /// The plan of a scheduler's step. Its microbatches are numbered by their positions, so that each
  /// group of replicas keeps its order: run it with the order 0, 1, 2, ...
  ///
  /// Expects     the grid has the scheduler's modules and replicas, the schedule its microbatches.
  template <class RowsOf, std::size_t D>
  pipeline_plan& fill(pipeline_setup const& setup, scheduled_step<D> const& step,
                      RowsOf const& rows_of)
  {
    auto const in_group = [&step](std::size_t module) {
      return step.replicas[module] / step.pipelines();
    };
    microbatch.clear();
    for (bag_id const bag : step.owner[0]) {
      microbatch.push_back(to_id<microbatch_id>(to_index(bag) / in_group(0) % step.microbatches));
    }
    return fill(setup, detail::span_of(microbatch), rows_of,
                [&](std::size_t sample, std::size_t module) {
                  std::size_t const bag = to_index(step.owner[module][to_id<sample_id>(sample)]);
                  std::size_t const here = in_group(module);
                  return bag / here / step.microbatches * here + bag % here;
                });
  }
};

/// The ranks between which a pipeline_runner of this setup may send, whatever its plans: what has to
/// connect before the first task where a first message waits for its receiver (`nccl_pairs`).
///
/// Expects     pipeline_runner::make accepts the setup.
/// Ensures     in increasing order, each once. What add_shared_gradients sends is not among them
/// Complexity  O(links x replicas of both sides + ranks).
[[nodiscard]] inline std::vector<rank_pair> pipeline_pairs(pipeline_setup const& setup)
{
  std::vector<rank_pair> pairs;
  auto const add = [&pairs](rank_id from, rank_id to, bool also_back) {
    if (from == to) { return; }
    pairs.push_back({from, to});
    if (also_back) { pairs.push_back({to, from}); }
  };
  stage_graph const& stages = setup.schedule.stages();
  process_grid const& grid = setup.grid;
  auto const unit_of = [&](stage_id stage) {
    std::uint32_t const module = grid.place(rank_of_stage(grid, stages, stage, 0)).module;
    std::vector<rank_id> ranks;
    for (std::uint32_t data = 0; data < grid[module].data; ++data) {
      ranks.push_back(rank_of_stage(grid, stages, stage, data));
    }
    return ranks;
  };
  for (stage_link const& link : stages.links()) {
    if (stages[link.from].rank == stages[link.to].rank) { continue; }
    bool const back = stages[link.from].backward;
    auto const senders = unit_of(link.from);
    auto const receivers = unit_of(link.to);
    bool const direct = setup.strategy == unit_strategy::direct;
    std::size_t const brokers =
        brokers_of({detail::span_of(senders), detail::span_of(receivers)}, setup.strategy);
    std::size_t const per_group = direct ? 1 : receivers.size() / brokers;
    for (std::size_t at = 0; at < receivers.size(); ++at) {
      rank_id const broker = receivers[at / per_group * per_group];
      add(broker, receivers[at], back);
      if (broker != receivers[at]) { continue; }
      for (rank_id const sender : senders) { add(sender, broker, back); }
    }
  }
  bool const parts = setup.tensor != tensor_gradients::copies;
  for (std::size_t rank = 0; rank < grid.ranks(); ++rank) {
    grid_place root = grid.place(to_id<rank_id>(rank));
    root.tensor = 0;
    add(grid.rank(root), to_id<rank_id>(rank), parts);
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_SETUP_HPP
