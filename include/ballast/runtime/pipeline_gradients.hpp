// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP
#define BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP

#include <ballast/comm/concepts.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/text/detail/counted.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace ballast::inline v0 {

/// Where a stage is: its pipeline rank is a pipeline coordinate of the grid, module after module.
///
/// Expects     the grid has that pipeline rank, and its module these coordinates.
[[nodiscard]] inline rank_id rank_of_stage(process_grid const& grid, stage_graph const& stages,
                                           stage_id stage, std::uint32_t data,
                                           std::uint32_t tensor = 0)
{
  std::size_t coordinate = to_index(stages[stage].rank);
  std::uint32_t module = 0;
  while (coordinate >= grid[module].pipeline) { coordinate -= grid[module++].pipeline; }
  return grid.rank({module, data, static_cast<std::uint32_t>(coordinate), tensor});
}

/// Gradients of some weights of a stage, on the rank that has them.
template <std::floating_point T>
struct stage_gradient {
  stage_id stage{};
  std::span<T> values;
  bool counts = true;  ///< false for a copy of what counts elsewhere: a shared weight, or one that
                       ///< all tensor ranks have
};

/// Scales the gradients of all stages, so that their Euclidean norm is at most `most`, and returns
/// what it was before.
///
///     auto const norm = clip_gradients(comm, grid, stages.stages(), own, 1.0).value();
///
/// Call it when replicas have the same gradients; those of the first replica are added up.
///
/// Shapes      own: all gradients of this rank's stages.
/// Expects     most > 0; stages below `stages`. Every rank of the grid calls it.
/// Ensures     squares are added in the order of stages, of tensor ranks, and of `own`, in double
///             precision. So norm and gradients have the same bits however stages are spread over
///             ranks, on one rank too
/// Errors      those of the communicator.
/// Complexity  O(gradients + ranks x stages), one all_gather of 8 bytes for each stage.
template <communicator C, std::floating_point T>
[[nodiscard]] result<double> clip_gradients(C& comm, process_grid const& grid, std::size_t stages,
                                            std::span<stage_gradient<T> const> own, double most)
{
  BALLAST_EXPECTS(most > 0, "gradients are to be clipped to a norm that is not above 0");
  BALLAST_EXPECTS(comm.size() == grid.ranks(), "a grid of ", detail::counted(grid.ranks(), "rank"),
                  " was given a communicator of ", comm.size());
  std::size_t const bytes = stages * sizeof(double);
  auto const memory = comm.scratch(bytes * (comm.size() + 1));
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double squares = 0;
    for (stage_gradient<T> const& each : own) {
      if (to_index(each.stage) != stage || !each.counts) { continue; }
      for (T const value : each.values) {
        squares += static_cast<double>(value) * static_cast<double>(value);
      }
    }
    std::memcpy(&memory[stage * sizeof(double)], &squares, sizeof(squares));
  }
  auto const all = memory.subspan(bytes, bytes * comm.size());
  if (auto done = comm.all_gather(memory.first(bytes), all); !done) {
    return tl::unexpected(done.error());
  }
  if (auto done = comm.wait(); !done) { return tl::unexpected(done.error()); }
  double sum = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      if (grid.place(to_id<rank_id>(rank)).data > 0) { continue; }
      double squares = 0;
      std::memcpy(&squares, &all[rank * bytes + stage * sizeof(double)], sizeof(squares));
      sum += squares;
    }
  }
  double const norm = std::sqrt(sum);
  if (norm > most) {
    auto const factor = static_cast<T>(most / norm);
    for (stage_gradient<T> const& each : own) {
      for (T& value : each.values) { value *= factor; }
    }
  }
  return norm;
}

/// Adds up the gradients of a weight that several stages share, as embedding and head of an LLM do:
/// afterwards each of them has the sum. Each replica and tensor rank adds those of its own.
///
/// Shapes      sharing: at least two stages, in increasing order, on ranks of their own; gradient:
///             equally many numbers on each.
/// Expects     the ranks of these stages call it, at the same point; on others it does nothing.
/// Ensures     they are added in the order of stages, so all have the same bits
/// Errors      infeasible: the stages are in modules of different data or tensor sizes; position is
///             that of the stage among `sharing`. Those of the communicator; then `gradient` is
///             unchanged.
/// Complexity  O(numbers x stages); a message to each of the other stages.
template <class C, std::floating_point T>
  requires communicator<C> && point_to_point<C>
[[nodiscard]] result<void> add_shared_gradients(C& comm, process_grid const& grid,
                                                stage_graph const& stages,
                                                std::span<stage_id const> sharing,
                                                std::span<T> gradient)
{
  grid_place const place = grid.place(comm.rank());
  auto const sizes_of = [&](stage_id stage) {
    return grid[grid.place(rank_of_stage(grid, stages, stage, 0)).module];
  };
  for (std::size_t at = 1; at < sharing.size(); ++at) {
    auto const [data, pipeline, tensor] = sizes_of(sharing[at]);
    auto const first = sizes_of(sharing.front());
    if (data == first.data && tensor == first.tensor) { continue; }
    return fail(error_code::infeasible, at, "stages ", sharing.front(), " and ", sharing[at],
                " share a weight, and have ", first.data, " x ", first.tensor, " and ", data, " x ",
                tensor, " replicas and tensor ranks; give them equally many");
  }
  std::vector<rank_id> ranks;
  for (stage_id const stage : sharing) {
    bool const here = place.data < sizes_of(stage).data && place.tensor < sizes_of(stage).tensor;
    if (here) { ranks.push_back(rank_of_stage(grid, stages, stage, place.data, place.tensor)); }
  }
  if (std::find(ranks.begin(), ranks.end(), comm.rank()) == ranks.end()) { return {}; }

  std::size_t const bytes = gradient.size_bytes();
  auto const memory = comm.scratch(bytes * (ranks.size() + 1));
  auto const own = memory.first(bytes);  // where the communicator reaches it
  if (bytes > 0) { std::memcpy(own.data(), gradient.data(), bytes); }
  std::vector<transfer_id> transfers;
  transfers.reserve(2 * ranks.size());
  result<void> done;
  auto const begin = [&](result<transfer_id> const& begun) {
    if (!begun) {
      done = tl::unexpected(begun.error());
    } else {
      transfers.push_back(*begun);
    }
  };
  for (std::size_t at = 0; at < ranks.size() && done; ++at) {
    if (ranks[at] == comm.rank()) { continue; }
    begin(comm.receive(memory.subspan((at + 1) * bytes, bytes), ranks[at]));
    if (done) { begin(comm.send(own, ranks[at])); }
  }
  if (done) { done = comm.start(); }
  while (done && !transfers.empty()) {
    done = comm.wait_for(transfers.back());
    if (done || done.error().code == error_code::mismatch) { transfers.pop_back(); }
  }
  if (!done) {
    for (; !transfers.empty(); transfers.pop_back()) { (void)comm.cancel(transfers.back()); }
    return done;
  }
  for (std::size_t number = 0; number < gradient.size(); ++number) {
    T sum = 0;
    for (std::size_t at = 0; at < ranks.size(); ++at) {
      std::size_t const array = ranks[at] == comm.rank() ? 0 : at + 1;
      T value = 0;
      std::memcpy(&value, &memory[array * bytes + number * sizeof(T)], sizeof(T));
      sum = at == 0 ? value : sum + value;
    }
    gradient[number] = sum;
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP
