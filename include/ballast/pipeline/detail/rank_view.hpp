// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>

#include <functional>

namespace ballast::inline v0::detail {

/// What is known of a step whatever the order of its microbatches: their times by column, how long
/// each takes through a pipeline that has nothing else to do, and how early a task can start and
/// how soon after it everything can be over. An order decides which microbatches any n tasks of a
/// column are of. A pass that a stage does not have takes no time.
///
/// Bounds of tasks are longest paths in which a task takes as long as the shortest of its column,
/// except that tasks which a rank does one after the other take together at least as long as the
/// shortest ones of their columns. A rank counts such tasks from two of them on: its first task and
/// its first backward or, from the end, its last task and its last forward.
///
/// Shapes      times, before, after: [columns x microbatches]; between: [stages x microbatches];
///             heads[tasks], tails[tasks], numbered as tasks() of the schedule.
/// Expects     at least one microbatch.
/// Ensures     (1) most(c, n) and least(c, n) are the sums of the n longest and n shortest times
///             (2) they do not depend on how the microbatches are numbered
///             (3) before(c)[m] is the longest path of m from the start to its task of column c,
///             which it does not count, and after(c)[m] the one from that task to the end
///             (4) between(s)[m] is a path from m's forward on stage s to its backward there,
///             neither counted: the longest of those whose backwards are on the same stages as
///             their forwards
///             (5) under no order a task starts before its head
///             (6) under no order the last task ends sooner than its tail after the end of a task
/// Complexity  construction: O(stages x microbatches x log(microbatches) + links x microbatches +
///             tasks + waits); most, least and longest: O(1).
class step_view {
 public:
  step_view(compiled_schedule const& schedule, pipeline_times const& times,
            workspace::frame& scratch)
      : schedule_(schedule),
        microbatches_(times.microbatches()),
        times_(scratch.take<time_units>(stage_passes * times.rows.size())),
        most_(scratch.take<time_units>(stage_passes * (times.rows.size() + times.stages))),
        before_(scratch.take<time_units>(stage_passes * times.rows.size())),
        after_(scratch.take<time_units>(stage_passes * times.rows.size())),
        between_(scratch.take<time_units>(times.rows.size())),
        heads_(scratch.take<time_units>(schedule.tasks().size())),
        tails_(scratch.take<time_units>(schedule.tasks().size()))
  {
    detail::find_paths(stages(), times, times_, before_, after_);
    sort_times();
    find_trips();
    bound_tasks(scratch);
  }

  [[nodiscard]] compiled_schedule const& schedule() const noexcept { return schedule_; }
  [[nodiscard]] stage_graph const& stages() const noexcept { return schedule_.stages(); }
  [[nodiscard]] std::size_t microbatches() const noexcept { return microbatches_; }

  [[nodiscard]] std::span<time_units const> operator[](std::size_t column) const
  {
    return row(times_, column);
  }

  [[nodiscard]] time_units most(std::size_t column, std::size_t tasks) const
  {
    BALLAST_EXPECTS(tasks <= microbatches_);
    return most_[column * (microbatches_ + 1) + tasks];
  }
  [[nodiscard]] time_units total(std::size_t column) const { return most(column, microbatches_); }
  [[nodiscard]] time_units least(std::size_t column, std::size_t tasks) const
  {
    return total(column) - most(column, microbatches_ - tasks);
  }

  /// The n-th longest time of a column, counted from 0.
  [[nodiscard]] time_units longest(std::size_t column, std::size_t n) const
  {
    return most(column, n + 1) - most(column, n);
  }

  /// The most that so many tasks of other microbatches take.
  [[nodiscard]] time_units most_without(std::size_t column, std::size_t tasks,
                                        std::size_t microbatch) const
  {
    if (tasks == 0) { return 0; }
    time_units const time = (*this)[column][microbatch];
    return time < longest(column, tasks - 1) ? most(column, tasks) : most(column, tasks + 1) - time;
  }

  [[nodiscard]] std::span<time_units const> before(std::size_t column) const
  {
    return row(before_, column);
  }
  [[nodiscard]] std::span<time_units const> after(std::size_t column) const
  {
    return row(after_, column);
  }
  [[nodiscard]] std::span<time_units const> between(stage_id stage) const
  {
    return row(between_, to_index(stage));
  }

  /// The longest path of a microbatch through all of its stages.
  [[nodiscard]] time_units longest_path_of(std::size_t microbatch) const
  {
    time_units longest = 0;
    for (std::size_t column = 0; column < stage_passes * stages().stages();
         column += stage_passes) {
      longest = std::max(longest, before(column)[microbatch] + (*this)[column][microbatch] +
                                      after(column)[microbatch]);
    }
    return longest;
  }

  [[nodiscard]] std::span<time_units const> heads() const noexcept { return heads_; }
  [[nodiscard]] std::span<time_units const> tails() const noexcept { return tails_; }

  /// The longest path of any microbatch, and through any task.
  [[nodiscard]] time_units longest_path() const
  {
    time_units longest = 0;
    for (std::size_t at = 0; at < microbatches_; ++at) {
      longest = std::max(longest, longest_path_of(at));
    }
    for (std::size_t task = 0; task < heads_.size(); ++task) {
      time_units const own = least(column_of(schedule_.tasks()[task]), 1);
      longest = std::max(longest, heads_[task] + own + tails_[task]);
    }
    return longest;
  }

 private:
  /// Tasks that a rank does one after the other, from one on.
  struct run {
    bool begun = false;
    time_units least = 0;  ///< a lower bound of where the next task of the rank is

    void begin(time_units at) noexcept
    {
      if (!begun) { *this = {true, at}; }
    }
    void add(step_view const& step, std::size_t column, std::uint32_t& count)
    {
      least -= step.least(column, count);
      least += step.least(column, ++count);
    }
  };

  [[nodiscard]] std::span<time_units> row(std::span<time_units> all, std::size_t number) const
  {
    return all.subspan(number * microbatches_, microbatches_);
  }

  void sort_times()
  {
    for (std::size_t column = 0; column < stage_passes * stages().stages(); ++column) {
      std::span<time_units> const sums =
          most_.subspan(column * (microbatches_ + 1), microbatches_ + 1);
      sums[0] = 0;
      std::copy_n((*this)[column].begin(), microbatches_, sums.begin() + 1);
      std::sort(sums.begin() + 1, sums.end(), std::greater{});
      std::partial_sum(sums.begin(), sums.end(), sums.begin());
    }
  }

  // Links are sorted by the stage that they leave, which is below the one that they enter. So a
  // loop downwards finds the upper stage complete.
  void find_trips()
  {
    std::fill(between_.begin(), between_.end(), 0);
    std::span<stage_link const> const links = stages().links();
    for (std::size_t link = links.size(); link-- > 0;) {
      auto const& [from, to, transfer] = links[link];
      if (!stages()[from].backward) { continue; }
      std::span<time_units> const trip = row(between_, to_index(from));
      std::span<time_units const> const longer = between(to);
      for (std::size_t at = 0; at < microbatches_; ++at) {
        trip[at] =
            std::max(trip[at], longer[at] + (*this)[column_of(to, pass::forward)][at] +
                                   (*this)[column_of(to, pass::backward)][at] + 2 * transfer);
      }
    }
  }

  void bound_tasks(workspace::frame& scratch)
  {
    std::span<pipeline_task const> const tasks = schedule_.tasks();
    std::span<run> const runs = scratch.take<run>(2 * stages().ranks());
    std::span<std::uint32_t> const counts =
        scratch.take<std::uint32_t>(2 * stage_passes * stages().stages());
    // By column: the shortest of all microbatches' paths.
    std::span<time_units> const least_before =
        scratch.take<time_units>(stage_passes * stages().stages());
    std::span<time_units> const least_after =
        scratch.take<time_units>(stage_passes * stages().stages());
    auto const shortest = [](std::span<time_units const> paths) {
      return *std::min_element(paths.begin(), paths.end());
    };
    for (std::size_t column = 0; column < least_before.size(); ++column) {
      least_before[column] = shortest(before(column));
      least_after[column] = shortest(after(column));
    }
    auto const restart = [&] {
      std::fill(runs.begin(), runs.end(), run{});
      std::fill(counts.begin(), counts.end(), 0U);
    };
    // Raises a bound to what the runs of the rank give, and adds the task to them.
    auto const advance = [&](std::size_t task, time_units& bound, pass turn) {
      std::size_t const rank = to_index(stages()[tasks[task].stage].rank);
      std::size_t const column = column_of(tasks[task]);
      run& whole = runs[2 * rank];
      run& turned = runs[2 * rank + 1];
      if (whole.begun) { bound = std::max(bound, whole.least); }
      if (turned.begun) { bound = std::max(bound, turned.least); }
      whole.begin(bound);
      if (tasks[task].pass == turn) { turned.begin(bound); }
      whole.add(*this, column, counts[2 * column]);
      if (turned.begun) { turned.add(*this, column, counts[2 * column + 1]); }
    };
    restart();
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      time_units head = least_before[column_of(tasks[task])];
      for (auto const& [other, transfer] : schedule_.waits_for(task)) {
        head = std::max(head, heads_[other] + least(column_of(tasks[other]), 1) + transfer);
      }
      advance(task, head, pass::backward);
      heads_[task] = head;
    }
    restart();
    std::fill(tails_.begin(), tails_.end(), 0);
    for (std::size_t task = tasks.size(); task-- > 0;) {
      std::size_t const column = column_of(tasks[task]);
      time_units tail = std::max(tails_[task], least_after[column]);
      advance(task, tail, pass::forward);
      tails_[task] = tail;
      for (auto const& [other, transfer] : schedule_.waits_for(task)) {
        tails_[other] = std::max(tails_[other], tail + least(column, 1) + transfer);
      }
    }
  }

  compiled_schedule const& schedule_;
  std::size_t microbatches_;
  std::span<time_units> times_;
  std::span<time_units> most_;  // [column x (microbatches + 1) + n]
  std::span<time_units> before_;
  std::span<time_units> after_;
  std::span<time_units> between_;
  std::span<time_units> heads_;
  std::span<time_units> tails_;
};

inline constexpr std::size_t no_position = std::numeric_limits<std::size_t>::max();

/// Where a path along a rank begins, or where it ends.
///
/// The rank's tasks beyond the end are not on the path. On it is what leads to the end, or on from
/// there: for any microbatch, or for the one at `position`, less that one's tasks beyond.
struct path_end {
  std::size_t index = 0;  ///< in the rank's list, of the first task of the path, or of its last
  std::size_t position = no_position;
  time_units least = 0;               ///< whichever microbatch is at the position
  std::span<time_units const> own{};  ///< by the microbatch at the position, if there is a position
};

/// What a head and a tail take together at the least: different microbatches are at different
/// positions.
[[nodiscard]] inline time_units least_of_both(path_end const& head, path_end const& tail)
{
  time_units const apart = head.least + tail.least;
  if (head.position == no_position || tail.position == no_position ||
      head.position == tail.position) {
    return apart;
  }
  struct two_least {
    std::size_t at = 0;
    time_units second = std::numeric_limits<time_units>::max();
  };
  auto const find = [](std::span<time_units const> own) {
    two_least found;
    for (std::size_t at = 1; at < own.size(); ++at) {
      if (own[at] < own[found.at]) {
        found = {at, own[found.at]};
      } else {
        found.second = std::min(found.second, own[at]);
      }
    }
    return found;
  };
  two_least const of_head = find(head.own);
  two_least const of_tail = find(tail.own);
  if (of_head.at != of_tail.at) { return apart; }
  return std::max(apart, std::min(head.own[of_head.at] + of_tail.second,
                                  of_head.second + tail.own[of_tail.at]));
}

/// A rank of a step: its list of tasks, where in it each task is, and the ends that paths along it
/// can have. A kind is a pass on one of its stages; kinds are in the order of their columns.
///
/// Heads are the rank's first task and its first backward, tails its last task and its last
/// forward. At the first backward and at the last forward there are two ends: one with the path of
/// any microbatch to or from that task, and one with the path of the task's own microbatch.
///
/// Ensures     (1) before(index, kind) counts the tasks of a kind among the first `index` of the
///             list
///             (2) index_of(kind, position) is the index of the task of that kind and position
/// Complexity  construction: O(tasks of the rank x its stages); all else O(1).
class rank_view {
 public:
  static constexpr std::size_t most_ends = 3;

  rank_view(step_view const& step, pipeline_rank rank, workspace::frame& scratch)
      : step_(step),
        microbatches_(step.microbatches()),
        all_(step.schedule().tasks()),
        numbers_(step.schedule().tasks_on(rank)),
        heads_(scratch.take<path_end>(most_ends)),
        tails_(scratch.take<path_end>(most_ends))
  {
    list_tasks(step.stages().stages_on(rank), scratch);
    find_ends(scratch);
  }

  [[nodiscard]] step_view const& step() const noexcept { return step_; }

  /// The numbers of the tasks in the schedule, in the order in which the rank does them.
  [[nodiscard]] std::span<std::uint32_t const> numbers() const noexcept { return numbers_; }
  [[nodiscard]] std::size_t size() const noexcept { return numbers_.size(); }
  [[nodiscard]] pipeline_task const& operator[](std::size_t index) const
  {
    return all_[numbers_[index]];
  }

  [[nodiscard]] std::span<std::size_t const> columns() const noexcept { return columns_; }
  [[nodiscard]] std::size_t kinds() const noexcept { return columns_.size(); }
  [[nodiscard]] std::size_t kind_of(std::size_t column) const
  {
    auto const found = std::lower_bound(columns_.begin(), columns_.end(), column);
    return static_cast<std::size_t>(found - columns_.begin());
  }

  [[nodiscard]] std::size_t before(std::size_t index, std::size_t kind) const
  {
    return counts_[index * kinds() + kind];
  }
  [[nodiscard]] std::size_t index_of(std::size_t kind, std::size_t position) const
  {
    return indices_[kind * microbatches_ + position];
  }

  [[nodiscard]] std::span<path_end const> heads() const { return heads_; }
  [[nodiscard]] std::span<path_end const> tails() const { return tails_; }

 private:
  void list_tasks(std::span<stage_id const> stages, workspace::frame& scratch)
  {
    columns_ = scratch.take<std::size_t>(stage_passes * stages.size());
    std::size_t kinds = 0;
    for (stage_id const stage : stages) {
      pipeline_stage const& own = step_.stages()[stage];
      for (pass const each : {pass::forward, pass::backward, pass::weights}) {
        if (has_pass(own, each)) { columns_[kinds++] = column_of(stage, each); }
      }
    }
    columns_ = columns_.first(kinds);
    counts_ = scratch.take<std::uint32_t>((size() + 1) * kinds);
    indices_ = scratch.take<std::uint32_t>(kinds * microbatches_);
    std::fill_n(counts_.begin(), kinds, 0U);
    for (std::size_t index = 0; index < size(); ++index) {
      pipeline_task const& task = (*this)[index];
      std::size_t const kind = kind_of(column_of(task));
      std::copy_n(counts_.data() + index * kinds, kinds, counts_.data() + (index + 1) * kinds);
      ++counts_[(index + 1) * kinds + kind];
      indices_[kind * microbatches_ + task.position] = static_cast<std::uint32_t>(index);
    }
  }

  void find_ends(workspace::frame& scratch)
  {
    std::size_t head_count = 0;
    std::size_t tail_count = 0;
    auto const add = [&](bool head, std::size_t index) {
      std::uint32_t const number = numbers_[index];
      pipeline_task const& task = (*this)[index];
      time_units const any = head ? step_.heads()[number] : step_.tails()[number];
      auto const paths = head ? step_.before(column_of(task)) : step_.after(column_of(task));
      std::span<time_units> const own = scratch.take<time_units>(paths.size());
      std::copy(paths.begin(), paths.end(), own.begin());
      for (std::size_t kind = 0; kind < kinds(); ++kind) {
        std::size_t const other = index_of(kind, task.position);
        if (head ? other >= index : other <= index) { continue; }
        std::span<time_units const> const times = step_[columns_[kind]];
        for (std::size_t at = 0; at < own.size(); ++at) { own[at] -= times[at]; }
      }
      time_units const least = *std::min_element(own.begin(), own.end());
      bool const whole = index == (head ? 0 : size() - 1);
      auto const& ends = head ? heads_ : tails_;
      std::size_t& count = head ? head_count : tail_count;
      ends[count++] = {index, task.position, whole ? std::max(any, least) : least, own};
      if (!whole) { ends[count++] = {index, no_position, any, {}}; }
    };
    std::size_t first_backward = 0;
    while (first_backward < size() && (*this)[first_backward].pass == pass::forward) {
      ++first_backward;
    }
    std::size_t forwards = size();  // up to the last one
    while (forwards > 0 && (*this)[forwards - 1].pass != pass::forward) { --forwards; }
    add(true, 0);
    add(false, size() - 1);
    if (first_backward > 0 && first_backward < size()) { add(true, first_backward); }
    if (forwards > 0 && forwards < size()) { add(false, forwards - 1); }
    heads_ = heads_.first(head_count);
    tails_ = tails_.first(tail_count);
  }

  step_view const& step_;
  std::size_t microbatches_;
  std::span<pipeline_task const> all_;
  std::span<std::uint32_t const> numbers_;
  std::span<std::size_t> columns_;
  std::span<std::uint32_t> counts_;   // [(tasks + 1) x kinds]
  std::span<std::uint32_t> indices_;  // [kinds x microbatches]
  std::span<path_end> heads_;
  std::span<path_end> tails_;
};

/// The most that n tasks of one column and k of another can take together, all of different
/// microbatches.
///
/// In a best choice no microbatch of the first column has a smaller difference of its two times
/// than one of the second, since exchanging the two would not be worse. So the microbatches are
/// sorted by their difference and cut in two, and each side gives its longest.
///
/// Shapes      first[l], second[l]: the two times of every microbatch.
/// Complexity  construction: O(l log l); most: O(l log l).
class disjoint_sums {
 public:
  /// Of no microbatches.
  disjoint_sums() = default;

  disjoint_sums(std::span<time_units const> first, std::span<time_units const> second,
                workspace::frame& scratch)
      : first_(first),
        second_(second),
        order_(scratch.take<std::uint32_t>(first.size())),
        kept_(scratch.take<time_units>(first.size())),
        sums_(scratch.take<time_units>(first.size() + 1))
  {
    std::iota(order_.begin(), order_.end(), 0U);
    std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
      time_units const of_a = first_[a] - second_[a];
      time_units const of_b = first_[b] - second_[b];
      return of_a != of_b ? of_a > of_b : a < b;
    });
  }

  /// The most for n + k microbatches other than `left_out`. Expects that there are so many.
  [[nodiscard]] time_units most(std::size_t n, std::size_t k, std::size_t left_out)
  {
    std::size_t const others = order_.size() - (left_out < order_.size() ? 1 : 0);
    BALLAST_EXPECTS(n + k <= others);
    longest kept{kept_, n};
    std::size_t taken = 0;
    sums_[0] = 0;
    for (std::uint32_t const at : order_) {
      if (at == left_out) { continue; }
      kept.add(first_[at]);
      sums_[++taken] = kept.sum;
    }
    kept = {kept_, k};
    time_units most = 0;
    for (std::size_t left = order_.size(); left-- > 0;) {
      std::uint32_t const at = order_[left];
      if (taken >= n && others - taken >= k) { most = std::max(most, sums_[taken] + kept.sum); }
      if (at == left_out) { continue; }
      kept.add(second_[at]);
      --taken;
    }
    return n == 0 ? std::max(most, kept.sum) : most;
  }

 private:
  /// The sum of the longest of all times so far.
  struct longest {
    std::span<time_units> heap;  // of `most` times, the shortest in front
    std::size_t most;
    std::size_t size = 0;
    time_units sum = 0;

    void add(time_units time)
    {
      auto const end = [&] { return heap.begin() + static_cast<std::ptrdiff_t>(size); };
      if (size == most) {
        if (most == 0 || time <= heap[0]) { return; }
        std::pop_heap(heap.begin(), end(), std::greater{});
        sum -= heap[--size];
      }
      heap[size++] = time;
      sum += time;
      std::push_heap(heap.begin(), end(), std::greater{});
    }
  };

  std::span<time_units const> first_;
  std::span<time_units const> second_;
  std::span<std::uint32_t> order_;  // by difference, largest first
  std::span<time_units> kept_;
  std::span<time_units> sums_;
};

/// The least w >= 1 such that a stage does the forward of position k + w after the backward of
/// position k, for all k; the number of microbatches where passes are not in the order of
/// positions.
///
/// In 1F1B it is how many microbatches the stage keeps in memory at most.
[[nodiscard]] inline std::size_t window_of(rank_view const& rank, std::size_t forward,
                                           std::size_t backward)
{
  std::size_t const microbatches = rank.step().microbatches();
  std::size_t window = 1;
  for (std::size_t at = 0; at + 1 < microbatches; ++at) {
    if (rank.index_of(forward, at) > rank.index_of(forward, at + 1) ||
        rank.index_of(backward, at) > rank.index_of(backward, at + 1)) {
      return microbatches;
    }
    while (at + window < microbatches &&
           rank.index_of(forward, at + window) < rank.index_of(backward, at)) {
      ++window;
    }
  }
  return window;
}

/// How long round trips from a stage take that can only be made one after the other.
///
/// With a window of w positions k, k + w, k + 2 w, ... are such a chain. The first c of the w
/// chains make m round trips, so the longest of them takes at least the m shortest round trips and
/// what c chains have before and after them, over c.
///
/// Ensures     (1) no order of the microbatches takes less
/// Complexity  O(microbatches x log(microbatches)).
[[nodiscard]] inline time_units round_trip_bound(rank_view const& rank, stage_id stage,
                                                 workspace& memory)
{
  step_view const& step = rank.step();
  std::size_t const forward = rank.kind_of(column_of(stage, pass::forward));
  std::size_t const backward = rank.kind_of(column_of(stage, pass::backward));
  std::size_t const microbatches = step.microbatches();
  std::size_t const window = window_of(rank, forward, backward);
  if (window >= microbatches) { return 0; }
  auto scratch = memory.open();
  std::span<time_units> const trips = scratch.take<time_units>(microbatches);
  for (std::size_t at = 0; at < microbatches; ++at) {
    trips[at] = step[rank.columns()[forward]][at] + step.between(stage)[at] +
                step[rank.columns()[backward]][at];
  }
  std::sort(trips.begin(), trips.end());
  std::partial_sum(trips.begin(), trips.end(), trips.begin());
  time_units bound = 0;
  uint128 ends = 0;
  std::size_t made = 0;
  for (std::size_t chain = 0; chain < window; ++chain) {
    std::size_t const more = (microbatches - 1 - chain) / window;
    std::size_t const first = rank.index_of(forward, chain);
    std::size_t const last = rank.index_of(backward, chain + more * window);
    ends += static_cast<uint128>(step.heads()[rank.numbers()[first]] +
                                 step.tails()[rank.numbers()[last]]);
    made += more + 1;
    uint128 const chains = chain + 1;
    auto const all = ends + static_cast<uint128>(trips[made - 1]);
    bound = std::max(bound, static_cast<time_units>((all + chains - 1) / chains));
  }
  return bound;
}

}  // namespace ballast::inline v0::detail
