// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP
#define BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/detail/gather_alike.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_words.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
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
/// Errors      mismatch, on every rank: `most` or the grid differs, and nothing is scaled. Those of
///             the communicator, also where numbers of stages differ.
/// Complexity  O(gradients + ranks x stages), one all_gather of 8 bytes and 8 for each stage.
template <communicator C, std::floating_point T>
[[nodiscard]] result<double> clip_gradients(C& comm, process_grid const& grid, std::size_t stages,
                                            std::span<stage_gradient<T> const> own, double most)
{
  BALLAST_EXPECTS(most > 0, "gradients are to be clipped to a norm that is not above 0");
  BALLAST_EXPECTS(comm.size() == grid.ranks(), "a grid of ", detail::counted(grid.ranks(), "rank"),
                  " was given a communicator of ", comm.size());
  for (stage_gradient<T> const& each : own) {
    BALLAST_EXPECTS(to_index(each.stage) < stages, "a gradient of stage ", each.stage, " of ",
                    detail::counted(stages, "stage"), " is to be clipped; stages count from 0");
  }
  auto const word = digest{}.add(std::bit_cast<std::uint64_t>(most)).add(detail::word_of(grid));
  auto const all = detail::gather_alike<double>(
      comm, "clip_gradients", {word.value(), "`most` or the grid"},
      "clip to the same norm over the same grid", stages, [own](std::size_t stage) {
        double squares = 0;
        for (stage_gradient<T> const& each : own) {
          if (to_index(each.stage) != stage || !each.counts) { continue; }
          for (T const value : each.values) {
            squares += static_cast<double>(value) * static_cast<double>(value);
          }
        }
        return squares;
      });
  if (!all) { return tl::unexpected(all.error()); }
  double sum = 0;
  for (std::size_t stage = 0; stage < stages; ++stage) {
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      if (grid.place(to_id<rank_id>(rank)).data > 0) { continue; }
      sum += (*all)(rank, stage);
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
///             equally many numbers of one type on each.
/// Expects     the ranks of these stages call it, at the same point; on others it does nothing.
/// Ensures     they are added in the order of stages, so all have the same bits
/// Errors      infeasible: the stages are in modules of different data or tensor sizes; position is
///             that of the stage among `sharing`. mismatch, on every rank that shares: numbers or
///             their types differ, or the ranks that share. Those of the communicator. `gradient`
///             is then unchanged.
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

  // What has to be the same on all of them goes before the numbers.
  auto const word = digest{}.add(sizeof(T)).add(detail::span_of(ranks)).value();
  std::size_t const bytes = sizeof(word) + gradient.size_bytes();
  auto const memory = comm.scratch(bytes * (ranks.size() + 1));
  auto const own = memory.first(bytes);  // where the communicator reaches it
  std::memcpy(own.data(), &word, sizeof(word));
  if (!gradient.empty()) {
    std::memcpy(&own[sizeof(word)], gradient.data(), gradient.size_bytes());
  }
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
  result<void> different;  // of sizes: the other messages come all the same
  while (done && !transfers.empty()) {
    done = comm.wait_for(transfers.back());
    if (!done && done.error().code == error_code::mismatch) { different = std::exchange(done, {}); }
    if (done) { transfers.pop_back(); }
  }
  if (!done) {
    for (; !transfers.empty(); transfers.pop_back()) { (void)comm.cancel(transfers.back()); }
    return done;
  }
  if (!different) { return different; }
  auto const message_of = [&](std::size_t at) {
    return memory.subspan((ranks[at] == comm.rank() ? 0 : at + 1) * bytes, bytes);
  };
  std::vector<std::uint64_t> words(ranks.size());
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    std::memcpy(&words[at], message_of(at).data(), sizeof(words[at]));
  }
  if (auto differing = detail::dissenters(detail::span_of(words)); !differing.empty()) {
    for (rank_id& each : differing) { each = ranks[to_index(each)]; }
    return comm_failure::mismatch(
        "add_shared_gradients", "the type of the gradients or the ranks that share them",
        std::move(differing), "give gradients of the same type, and the same grid and stages",
        "nothing was added");
  }
  for (std::size_t number = 0; number < gradient.size(); ++number) {
    T sum = 0;
    for (std::size_t at = 0; at < ranks.size(); ++at) {
      T value = 0;
      std::memcpy(&value, &message_of(at)[sizeof(word) + number * sizeof(T)], sizeof(T));
      sum = at == 0 ? value : sum + value;
    }
    gradient[number] = sum;
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_PIPELINE_GRADIENTS_HPP
