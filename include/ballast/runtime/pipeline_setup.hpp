// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_SETUP_HPP
#define BALLAST_RUNTIME_PIPELINE_SETUP_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/route/unit_plan.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cstddef>
#include <cstdint>
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
/// and how many rows it has on each link. Plain data, so that a trainer can write its own; it may
/// have more microbatches than the schedule where only some of them are evaluated.
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
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_SETUP_HPP
