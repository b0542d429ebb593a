// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_JOB_HPP
#define BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_JOB_HPP

#include <ballast/core/random.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/detail/pipeline/pipeline_words.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/topology/process_grid.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// A setup, seen by one rank: which stages are its own, and where all others are.
class pipeline_job {
 public:
  /// Errors   those of pipeline_runner::make.
  [[nodiscard]] static result<pipeline_job> make(pipeline_setup setup, rank_id rank, bool can_add)
  {
    if (!can_add && setup.tensor != tensor_gradients::copies) {
      return fail(error_code::infeasible, 0,
                  "parts of gradients are not added in memory that the host does not reach; add "
                  "them in the stage, and give copies");
    }
    stage_graph const& stages = setup.schedule.stages();
    std::size_t coordinates = 0;
    for (std::uint32_t module = 0; module < setup.grid.size(); ++module) {
      coordinates += setup.grid[module].pipeline;
    }
    if (coordinates != stages.ranks()) {
      return fail(error_code::infeasible, coordinates, "the modules of the grid are ",
                  counted(coordinates, "pipeline rank"), " long, and the schedule is for ",
                  stages.ranks(), "; make both of the same modules");
    }
    for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
      if (stages[to_id<stage_id>(stage)].part != model_part::transfer) { continue; }
      return fail(error_code::infeasible, stage, "stage ", stage,
                  " of the schedule is a transfer, which only a simulation has; compile one of the "
                  "model's stages alone");
    }
    if (setup.row_bytes.size() != stages.links().size()) {
      return fail(error_code::infeasible, setup.row_bytes.size(), "row_bytes has ",
                  counted(setup.row_bytes.size(), "entry"), " for ",
                  counted(stages.links().size(), "link"),
                  "; give one for each, in the order of links()");
    }
    for (std::size_t link = 0; link < setup.row_bytes.size(); ++link) {
      constexpr std::size_t widest = std::size_t{1} << 32U;
      if (setup.row_bytes[link] == 0 || setup.row_bytes[link] > widest) {
        return fail(error_code::out_of_range, link, "rows of link ", link, " have ",
                    counted(setup.row_bytes[link], "byte"), "; give from 1 to 2^32");
      }
    }
    if (to_index(rank) >= setup.grid.ranks()) {
      return fail(error_code::out_of_range, to_index(rank), "rank ", rank, " of a grid of ",
                  setup.grid.ranks(), "; make the grid and the communicator of the same ranks");
    }
    pipeline_job job(std::move(setup), rank);
    for (stage_link const& link : job.stages().links()) {
      bool const adds = job.setup().tensor != tensor_gradients::copies;
      if (!adds || !job.is_local(link) || job.grid()[job.module_of(link.to)].tensor == 1) {
        continue;
      }
      return fail(
          error_code::infeasible, to_index(link.to), "stages ", link.from, " and ", link.to,
          " are on one rank, where parts of gradients are not added; give copies of them, or "
          "give each stage a rank");
    }
    return job;
  }

  [[nodiscard]] pipeline_setup const& setup() const noexcept { return setup_; }
  [[nodiscard]] process_grid const& grid() const noexcept { return setup_.grid; }
  [[nodiscard]] compiled_schedule const& schedule() const noexcept { return setup_.schedule; }
  [[nodiscard]] stage_graph const& stages() const noexcept { return schedule().stages(); }
  [[nodiscard]] std::uint64_t word() const noexcept { return word_; }

  [[nodiscard]] rank_id self() const noexcept { return self_; }
  [[nodiscard]] grid_place const& place() const noexcept { return place_; }
  [[nodiscard]] bool is_root() const noexcept { return place_.tensor == 0; }
  [[nodiscard]] rank_id root() const { return beside(0); }
  [[nodiscard]] rank_id beside(std::uint32_t tensor) const
  {
    grid_place other = place_;
    other.tensor = tensor;
    return grid().rank(other);
  }
  [[nodiscard]] std::uint32_t tensor_ranks() const { return grid()[place_.module].tensor; }
  [[nodiscard]] pipeline_rank own_rank() const noexcept { return own_rank_; }
  [[nodiscard]] bool is_mine(stage_id stage) const { return stages()[stage].rank == own_rank_; }

  [[nodiscard]] std::uint32_t module_of(stage_id stage) const
  {
    return coordinates_[to_index(stages()[stage].rank)].module;
  }
  [[nodiscard]] rank_id rank(stage_id stage, std::uint32_t data, std::uint32_t tensor = 0) const
  {
    grid_place where = coordinates_[to_index(stages()[stage].rank)];
    where.data = data;
    where.tensor = tensor;
    return grid().rank(where);
  }
  /// Its place among the stages of its rank.
  [[nodiscard]] std::size_t chunk_of(stage_id stage) const { return chunk_[to_index(stage)]; }
  [[nodiscard]] std::size_t most_chunks() const noexcept { return most_chunks_; }

  /// Whether a link joins stages of one rank, so that nothing is sent.
  [[nodiscard]] bool is_local(stage_link const& link) const
  {
    return stages()[link.from].rank == stages()[link.to].rank;
  }
  [[nodiscard]] bool has_gradient(stage_link const& link) const
  {
    return stages()[link.from].backward;
  }
  /// The number of the k-th link into, or out of, a stage.
  [[nodiscard]] std::size_t link_into(stage_id stage, std::size_t k) const
  {
    stage_link const& link = stages().links_into(stage)[k];
    auto const leaving = stages().links_out_of(link.from);
    std::size_t at = 0;
    while (leaving[at].to != stage) { ++at; }
    return first_out_[to_index(link.from)] + at;
  }
  [[nodiscard]] std::size_t link_out_of(stage_id stage, std::size_t k) const
  {
    return first_out_[to_index(stage)] + k;
  }

 private:
  pipeline_job(pipeline_setup setup, rank_id rank)
      : setup_(std::move(setup)), self_(rank), place_(setup_.grid.place(rank))
  {
    for (std::uint32_t module = 0; module < grid().size(); ++module) {
      for (std::uint32_t at = 0; at < grid()[module].pipeline; ++at) {
        if (module == place_.module && at == place_.pipeline) {
          own_rank_ = to_id<pipeline_rank>(coordinates_.size());
        }
        coordinates_.push_back({module, 0, at, 0});
      }
    }
    chunk_.resize(stages().stages());
    for (std::size_t each = 0; each < stages().ranks(); ++each) {
      auto const of_rank = stages().stages_on(to_id<pipeline_rank>(each));
      for (std::size_t chunk = 0; chunk < of_rank.size(); ++chunk) {
        chunk_[to_index(of_rank[chunk])] = chunk;
      }
      most_chunks_ = std::max(most_chunks_, of_rank.size());
    }
    std::size_t links = 0;
    for (std::size_t stage = 0; stage < stages().stages(); ++stage) {
      first_out_.push_back(links);
      links += stages().links_out_of(to_id<stage_id>(stage)).size();
    }
    digest all;
    all.add(word_of(schedule())).add(word_of(grid()));
    for (std::size_t const bytes : setup_.row_bytes) { all.add(bytes); }
    all.add(static_cast<std::uint64_t>(setup_.strategy));
    word_ = all.add(static_cast<std::uint64_t>(setup_.tensor)).value();
  }

  pipeline_setup setup_;
  rank_id self_{};
  grid_place place_;
  pipeline_rank own_rank_{};
  std::vector<grid_place> coordinates_;  // of each pipeline rank
  std::vector<std::size_t> chunk_;       // of each stage
  std::vector<std::size_t> first_out_;   // number of the first link out of each stage
  std::size_t most_chunks_ = 0;
  std::uint64_t word_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_PIPELINE_PIPELINE_JOB_HPP
