// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_STEP_CELLS_HPP
#define BALLAST_RUNTIME_DETAIL_STEP_CELLS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/detail/stage_times_of.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/scheduler_setup.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace ballast::inline v0::detail {

/// The microbatches of a step while samples move between them. A *cell* is a position of a group; in
/// each module it has a *bin* for every replica of the group.
///
/// Shapes      sizes[samples x D] and times[samples], those of the step; arrays are taken from
///             scratch, which outlives the cells.
/// Complexity  O(samples) to read a step; of a change, O(D x replicas of a group) and the stages of
///             a group for each row that is written.
template <std::size_t D>
class step_cells {
 public:
  using sample_time = std::array<stage_time, D>;
  using places = std::array<std::size_t, D>;  ///< of a sample: its bin in each module

  step_cells(scheduled_step<D>& step, workspace::frame& scratch, scheduler_setup const& setup,
             std::span<tokens const> sizes, std::span<sample_time const> times)
      : step_(step), setup_(setup), sizes_(sizes), times_(times)
  {
    for (std::size_t module = 0; module < D; ++module) {
      replicas_[module] = step.replicas[module] / step.pipelines();
      sums_[module] = scratch.take<stage_time>(size() * replicas_[module]);
    }
    held_ = scratch.take<tokens>(sums_[D - 1].size());
  }

  [[nodiscard]] std::size_t size() const { return step_.pipelines() * step_.microbatches; }
  [[nodiscard]] std::size_t group_of(std::size_t cell) const { return cell / step_.microbatches; }
  [[nodiscard]] std::size_t cell_of(sample_id sample) const
  {
    return to_index(step_.owner[0][sample]) / replicas_[0];
  }

  /// Adds up what is in each bin, by the owners of the step.
  void add_up()
  {
    std::fill(held_.begin(), held_.end(), tokens{0});
    for (std::size_t module = 0; module < D; ++module) {
      std::fill(sums_[module].begin(), sums_[module].end(), stage_time{});
      for (std::size_t sample = 0; sample < times_.size(); ++sample) {
        add(to_id<sample_id>(sample), module, to_index(step_.owner[module][sample]));
      }
    }
  }

  void move(sample_id sample, places const& to)
  {
    for (std::size_t module = 0; module < D; ++module) {
      auto const& [forward, backward] = times_[to_index(sample)][module];
      std::size_t const bin = to_index(step_.owner[module][sample]);
      sums_[module][bin].forward -= forward;
      sums_[module][bin].backward -= backward;
      if (module + 1 == D) { held_[bin] -= sizes_[to_index(sample) * D + module]; }
      add(sample, module, to[module]);
    }
  }

  /// All that is in two cells of a group changes places, but for the owners of the samples.
  void swap_sums(std::size_t left, std::size_t right)
  {
    for (std::size_t module = 0; module < D; ++module) {
      std::size_t const count = replicas_[module];
      auto const ones = sums_[module].subspan(left * count, count);
      std::swap_ranges(ones.begin(), ones.end(), sums_[module].subspan(right * count).begin());
    }
    std::size_t const count = replicas_[D - 1];
    auto const ones = held_.subspan(left * count, count);
    std::swap_ranges(ones.begin(), ones.end(), held_.subspan(right * count).begin());
  }

  /// The owner of a sample whose cell has changed places with another one.
  void follow(sample_id sample, std::size_t cell)
  {
    for (std::size_t module = 0; module < D; ++module) {
      bag_id& bin = step_.owner[module][sample];
      bin = to_id<bag_id>(cell * replicas_[module] + to_index(bin) % replicas_[module]);
    }
  }

  [[nodiscard]] places places_of(sample_id sample) const
  {
    places found{};
    for (std::size_t module = 0; module < D; ++module) {
      found[module] = to_index(step_.owner[module][sample]);
    }
    return found;
  }

  /// The replicas of a cell that have least to do.
  [[nodiscard]] places least_loaded(std::size_t cell) const
  {
    places found{};
    for (std::size_t module = 0; module < D; ++module) {
      auto const own = bins_of(module, cell);
      auto const least =
          std::min_element(own.begin(), own.end(), [](stage_time const& a, stage_time const& b) {
            return a.forward + a.backward < b.forward + b.backward;
          });
      found[module] = cell * replicas_[module] + static_cast<std::size_t>(least - own.begin());
    }
    return found;
  }

  /// Whether a stage can take what the replicas of a cell take, and the last module hold it.
  [[nodiscard]] bool is_in_range(std::size_t cell) const
  {
    for (std::size_t module = 0; module < D; ++module) {
      for (auto const& [forward, backward] : bins_of(module, cell)) {
        if (std::max(forward, backward) > stage_graph::longest_time) { return false; }
      }
    }
    auto const held = held_.subspan(cell * replicas_[D - 1], replicas_[D - 1]);
    return std::all_of(held.begin(), held.end(),
                       [&](tokens own) { return own <= setup_.most_per_microbatch; });
  }

  /// The times of a cell's position in the step.
  [[nodiscard]] std::span<stage_time> row_of(std::size_t cell) const
  {
    return step_.times[group_of(cell)][to_id<microbatch_id>(cell % step_.microbatches)];
  }

  /// The times of a cell's position on all stages, from its sums.
  void write_row(std::size_t cell) const
  {
    auto row = row_of(cell);
    for (std::size_t module = 0; module < D; ++module) {
      for (stage_time const& bin : bins_of(module, cell)) {
        std::size_t const stages = setup_.modules[module].layers.size();
        stage_times_of(row.first(stages), setup_.modules[module], bin);
        row = row.subspan(stages);
      }
    }
  }

 private:
  void add(sample_id sample, std::size_t module, std::size_t bin)
  {
    auto const& [forward, backward] = times_[to_index(sample)][module];
    sums_[module][bin].forward += forward;
    sums_[module][bin].backward += backward;
    if (module + 1 == D) { held_[bin] += sizes_[to_index(sample) * D + module]; }
    step_.owner[module][sample] = to_id<bag_id>(bin);
  }

  [[nodiscard]] std::span<stage_time> bins_of(std::size_t module, std::size_t cell) const
  {
    return sums_[module].subspan(cell * replicas_[module], replicas_[module]);
  }

  scheduled_step<D>& step_;
  scheduler_setup const& setup_;
  std::span<tokens const> sizes_;
  std::span<sample_time const> times_;
  std::array<std::size_t, D> replicas_{};      // in a group
  std::array<std::span<stage_time>, D> sums_;  // of the bins
  std::span<tokens> held_;                     // in the bins of the last module
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_STEP_CELLS_HPP
