// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_SHORTEN_STEP_HPP
#define BALLAST_RUNTIME_DETAIL_SHORTEN_STEP_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/cost/saturating_sum.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/runtime/detail/step_cells.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/scheduler_setup.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace ballast::inline v0::detail {

/// Makes a step shorter by making its microbatches unequal: those that run while a pipeline fills
/// or drains had better be small.
///
/// One change after the other is tried in the group that ends last: a sample goes to another
/// position, or two samples change places, within the group or with another one; or two positions
/// of the group change their microbatches. The groups concerned are simulated. The change stays if
/// they end no later than the last group did before, or later by no more than a limit: at first what
/// a sample takes on a stage on average, at last 0 (threshold accepting). The shortest step that was
/// met is what is left.
///
/// Shapes      sizes[samples x D] and times[samples], those of the step.
/// In, out     owner, times and makespan of the step, which are filled in.
/// Expects     check_times() finds no fault in the times of any group.
/// Ensures     (1) the makespan is no longer than before, and that of simulate()
///             (2) no replica of the last module holds more than most_per_microbatch, if none did
///             (3) an empty step, one whose times add up to more than 2^61, and one of a budget of
///                 no change stay as they are
/// Complexity  O(simulated_tasks + changes x groups + samples): as many changes are tried as
///             simulate setup.simulated_tasks tasks.
/// Source      threshold accepting: G. Dueck, T. Scheuer, J. Comput. Phys. 90(1):161-175, 1990.
template <std::size_t D>
class step_shortener {
 public:
  using sample_time = std::array<stage_time, D>;

  step_shortener(scheduled_step<D>& step, workspace& memory, scheduler_setup const& setup,
                 std::span<tokens const> sizes, std::span<sample_time const> times,
                 std::span<microbatch_id const> as_given)
      : step_(step),
        memory_(memory),
        scratch_(memory.open()),
        setup_(setup),
        times_(times),
        as_given_(as_given),
        cells_(step, scratch_, setup, sizes, times),
        makespans_(scratch_.template take<time_units>(step.pipelines())),
        samples_(scratch_.template take<sample_id>(times.size())),
        begin_(scratch_.template take<std::size_t>(step.pipelines() + 1))
  {
    for (auto& owner : best_owner_) { owner = scratch_.template take<bag_id>(times.size()); }
    for (auto& row : kept_rows_) { row = scratch_.template take<stage_time>(step.stages.size()); }
  }

  void operator()(std::uint64_t seed)
  {
    std::uint64_t const changes =
        setup_.simulated_tasks / std::max<std::size_t>(1, setup_.schedule.tasks().size());
    time_units const all = time_of_all();
    if (changes == 0 || samples_.empty() || all > time_units{1} << 61) { return; }
    cells_.add_up();
    sort_samples();
    for (std::size_t group = 0; group < makespans_.size(); ++group) { simulate(group); }
    note_owners();
    random_source random(seed);
    auto const most = static_cast<uint128>(all) / (samples_.size() * step_.stages.size());
    for (std::uint64_t left = changes; left > 0; --left) {
      limit_ = static_cast<time_units>(most * left / changes * left / changes);
      change_one(random);
    }
    go_back_to_best();
  }

 private:
  [[nodiscard]] std::size_t positions() const { return as_given_.size(); }

  /// What all samples take in all modules.
  [[nodiscard]] time_units time_of_all() const
  {
    time_units all = 0;
    for (sample_time const& each : times_) {
      for (auto const& [forward, backward] : each) {
        all = saturating_sum(all, saturating_sum(forward, backward));
      }
    }
    return all;
  }

  /// Samples by group: those of group g are from begin_[g] to begin_[g + 1].
  void sort_samples()
  {
    std::fill(begin_.begin(), begin_.end(), std::size_t{0});
    for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
      ++begin_[cells_.group_of(cells_.cell_of(to_id<sample_id>(sample)))];
    }
    std::size_t end = 0;
    for (std::size_t& each : begin_) { each = end += each; }
    for (std::size_t sample = samples_.size(); sample-- > 0;) {
      auto const id = to_id<sample_id>(sample);
      samples_[--begin_[cells_.group_of(cells_.cell_of(id))]] = id;
    }
  }

  void change_one(random_source& random)
  {
    std::size_t const group = static_cast<std::size_t>(
        std::max_element(makespans_.begin(), makespans_.end()) - makespans_.begin());
    std::size_t const other = random.below(2) == 0 ? random.below(makespans_.size()) : group;
    std::uint64_t const kind = random.below(8);
    std::size_t const position = random.below(positions());
    if (group == other && kind < 2) {
      swap_positions(group, position, random.below(positions()));
      return;
    }
    if (begin_[group] == begin_[group + 1]) { return; }
    std::size_t const from = begin_[group] + random.below(begin_[group + 1] - begin_[group]);
    if (kind < 5) {
      move_sample(from, other * positions() + position);
    } else if (begin_[other] < begin_[other + 1]) {
      swap_samples(from, begin_[other] + random.below(begin_[other + 1] - begin_[other]));
    }
  }

  void move_sample(std::size_t from, std::size_t cell)
  {
    sample_id const sample = samples_[from];
    std::size_t const left = cells_.cell_of(sample);
    if (left == cell) { return; }
    auto const before = cells_.places_of(sample);
    cells_.move(sample, cells_.least_loaded(cell));
    if (accept(left, cell)) {
      change_group(from, cells_.group_of(left), cells_.group_of(cell));
      note_best();
    } else {
      cells_.move(sample, before);
    }
  }

  void swap_samples(std::size_t from, std::size_t to)
  {
    sample_id const one = samples_[from];
    sample_id const other = samples_[to];
    std::size_t const left = cells_.cell_of(one);
    std::size_t const right = cells_.cell_of(other);
    if (left == right) { return; }
    auto const before = cells_.places_of(one);
    auto const after = cells_.places_of(other);
    cells_.move(one, after);
    cells_.move(other, before);
    if (accept(left, right)) {
      std::swap(samples_[from], samples_[to]);
      note_best();
    } else {
      cells_.move(one, before);
      cells_.move(other, after);
    }
  }

  void swap_positions(std::size_t group, std::size_t one, std::size_t other)
  {
    if (one == other) { return; }
    std::size_t const left = group * positions() + one;
    std::size_t const right = group * positions() + other;
    cells_.swap_sums(left, right);
    if (!accept(left, right)) {
      cells_.swap_sums(left, right);
      return;
    }
    for (std::size_t at = begin_[group]; at < begin_[group + 1]; ++at) {
      std::size_t const cell = cells_.cell_of(samples_[at]);
      if (cell != left && cell != right) { continue; }
      cells_.follow(samples_[at], cell == left ? right : left);
    }
    note_best();
  }

  /// A sample that has gone to another group changes places with the outermost of each group
  /// between.
  void change_group(std::size_t at, std::size_t group, std::size_t other)
  {
    for (; group < other; ++group) {
      std::swap(samples_[at], samples_[--begin_[group + 1]]);
      at = begin_[group + 1];
    }
    for (; group > other; --group) {
      std::swap(samples_[at], samples_[begin_[group]]);
      at = begin_[group]++;
    }
  }

  /// Simulates the groups of two cells whose sums have changed; whether the change stays.
  [[nodiscard]] bool accept(std::size_t left, std::size_t right)
  {
    if (!cells_.is_in_range(left) || !cells_.is_in_range(right)) { return false; }
    std::size_t const group = cells_.group_of(left);
    std::size_t const other = cells_.group_of(right);
    time_units const before = makespans_[group];
    time_units const other_before = makespans_[other];
    time_units const most = std::max(before, other_before) + limit_;
    std::array const rows{cells_.row_of(left), cells_.row_of(right)};
    for (std::size_t const each : {0U, 1U}) {
      std::copy(rows[each].begin(), rows[each].end(), kept_rows_[each].begin());
    }
    cells_.write_row(left);
    cells_.write_row(right);
    simulate(group);
    if (makespans_[group] <= most && other != group) { simulate(other); }
    if (std::max(makespans_[group], makespans_[other]) <= most) { return true; }
    for (std::size_t const each : {0U, 1U}) {
      std::copy(kept_rows_[each].begin(), kept_rows_[each].end(), rows[each].begin());
    }
    makespans_[group] = before;
    makespans_[other] = other_before;
    return false;
  }

  void simulate(std::size_t group)
  {
    makespans_[group] = makespan_of(setup_.schedule, step_.times[group], as_given_, memory_);
  }

  /// Owners have to be those of the sums by now.
  void note_best()
  {
    time_units const longest = *std::max_element(makespans_.begin(), makespans_.end());
    if (longest >= step_.makespan) { return; }
    step_.makespan = longest;
    note_owners();
  }

  void note_owners()
  {
    for (std::size_t module = 0; module < D; ++module) {
      auto const& owner = step_.owner[module];
      std::copy(owner.begin(), owner.end(), best_owner_[module].begin());
    }
  }

  void go_back_to_best()
  {
    for (std::size_t module = 0; module < D; ++module) {
      std::copy(best_owner_[module].begin(), best_owner_[module].end(),
                step_.owner[module].begin());
    }
    cells_.add_up();
    for (std::size_t cell = 0; cell < cells_.size(); ++cell) { cells_.write_row(cell); }
  }

  scheduled_step<D>& step_;
  workspace& memory_;
  workspace::frame scratch_;
  scheduler_setup const& setup_;
  std::span<sample_time const> times_;
  std::span<microbatch_id const> as_given_;  // 0, 1, 2, ...
  step_cells<D> cells_;
  std::span<time_units> makespans_;  // of the groups
  std::span<sample_id> samples_;     // group by group
  std::span<std::size_t> begin_;     // of each group in them
  std::array<std::span<bag_id>, D> best_owner_;
  std::array<std::span<stage_time>, 2> kept_rows_;
  time_units limit_ = 0;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_SHORTEN_STEP_HPP
