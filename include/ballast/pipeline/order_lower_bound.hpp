// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/detail/rank_view.hpp>

namespace ballast::inline v0 {

namespace detail {

/// A lower bound of the step, by paths that follow a rank's list of tasks.
///
/// Such a path has all of the rank's work on it, except what is beyond its ends and what a detour
/// leaves out. A detour leaves the list after the forward of a microbatch, follows it through the
/// later stages, and returns for its backward on the same stage: the 1F1B window. An order chooses
/// whose tasks are off the path, so the bound takes the longest ones off. For the microbatch with
/// the longest trip the order can only choose the position. So the least, over the positions, of
/// the longest path for each is a bound too; it is larger than the others where one trip takes
/// longer than all that can be done meanwhile.
///
/// Ensures     (1) no order of the microbatches takes less than bound()
/// Complexity  O(microbatches x stages^2), and with one stage O(window x microbatches x
///             log(microbatches)), where window is the number of tasks in a detour if it is small.
class rank_bound {
 public:
  rank_bound(rank_view const& rank, workspace::frame& scratch) : rank_(rank), step_(rank.step())
  {
    for (std::size_t const column : rank.columns()) { work_ += step_.total(column); }
    if (rank.kinds() == 2) {
      apart_ = {step_[rank.columns()[0]], step_[rank.columns()[1]], scratch};
    }
    for (std::size_t head = 0; head < rank.heads().size(); ++head) {
      for (std::size_t tail = 0; tail < rank.tails().size(); ++tail) {
        least_of_ends_[head][tail] = least_of_both(rank.heads()[head], rank.tails()[tail]);
      }
    }
  }

  /// All work of the rank, and what comes before and after it.
  [[nodiscard]] time_units whole() const { return work_ + least_of_ends_[0][0]; }

  /// The larger of `found` and what this rank takes.
  [[nodiscard]] time_units bound(time_units found)
  {
    found = std::max(found, longest_path({}, most_time));
    for (std::size_t kind = 0; kind < rank_.kinds(); ++kind) {
      if (!starts_detour(kind)) { continue; }
      std::span<time_units const> const trips = trips_after(kind);
      fixed_microbatch fixed;
      fixed.microbatch =
          static_cast<std::size_t>(std::max_element(trips.begin(), trips.end()) - trips.begin());
      time_units least = most_time;
      for (fixed.position = 0; fixed.position < trips.size() && least > found; ++fixed.position) {
        least = std::min(least, longest_path(fixed, least));
      }
      found = std::max(found, least);
    }
    return found;
  }

 private:
  static constexpr time_units most_time = std::numeric_limits<time_units>::max();
  static constexpr std::size_t most_counted = 256;  // tasks off a path, one by one

  /// A microbatch that is assumed to be at a position; none where the position is not set.
  struct fixed_microbatch {
    std::size_t microbatch = 0;
    std::size_t position = no_position;
  };
  /// The tasks from `leave` to `back`, neither included, are off the path, and the trip is on it.
  struct detour {
    std::size_t leave;
    std::size_t back;
    time_units trip;
  };
  struct path {
    std::size_t head;  // among the ends of the rank
    std::size_t tail;
    std::optional<detour> around;
  };
  /// The last result of most_apart(), and what it was found for.
  struct last_result {
    std::array<std::size_t, 2> tasks{};
    std::size_t in_both = 0;
    std::size_t without = 0;
    time_units most = 0;
  };

  [[nodiscard]] bool starts_detour(std::size_t kind) const
  {
    return kind + 1 < rank_.kinds() && rank_[rank_.index_of(kind, 0)].pass == pass::forward &&
           rank_.columns()[kind + 1] == rank_.columns()[kind] + 1;
  }
  [[nodiscard]] std::span<time_units const> trips_after(std::size_t kind) const
  {
    return step_.between(rank_[rank_.index_of(kind, 0)].stage);
  }

  /// How long the longest path is with this microbatch at its position; it stops at `enough`.
  [[nodiscard]] time_units longest_path(fixed_microbatch fixed, time_units enough)
  {
    time_units longest = 0;
    for (bool const closely : {false, true}) {
      if (closely && rank_.kinds() != 2) { break; }
      for (std::size_t head = 0; head < rank_.heads().size(); ++head) {
        for (std::size_t tail = 0; tail < rank_.tails().size(); ++tail) {
          std::size_t const first = rank_.heads()[head].index;
          std::size_t const last = rank_.tails()[tail].index;
          if (first > last) { continue; }
          if (longest >= enough) { return longest; }
          longest = std::max(longest, least_time({head, tail, {}}, fixed, closely));
          for (std::size_t kind = 0; fixed.position != no_position && kind < rank_.kinds();
               ++kind) {
            if (!starts_detour(kind)) { continue; }
            detour const around{rank_.index_of(kind, fixed.position),
                                rank_.index_of(kind + 1, fixed.position),
                                trips_after(kind)[fixed.microbatch]};
            if (first > around.leave || last < around.back) { continue; }
            longest = std::max(longest, least_time({head, tail, around}, fixed, closely));
          }
        }
      }
    }
    return longest;
  }

  /// How long a path is at the least.
  [[nodiscard]] time_units least_time(path const& route, fixed_microbatch fixed, bool closely)
  {
    path_end const& head = rank_.heads()[route.head];
    path_end const& tail = rank_.tails()[route.tail];
    bool const any = fixed.position == no_position;
    auto const end_time = [&](path_end const& end) {
      return !any && end.position == fixed.position ? std::max(end.least, end.own[fixed.microbatch])
                                                    : end.least;
    };
    time_units time =
        work_ + std::max(least_of_ends_[route.head][route.tail], end_time(head) + end_time(tail));
    if (route.around) { time += route.around->trip; }

    auto const is_off = [&](std::size_t index, std::size_t position) {
      return (index < head.index && position != head.position) ||
             (index > tail.index && position != tail.position) ||
             (route.around && index > route.around->leave && index < route.around->back);
    };
    std::array<std::size_t, 2> off{};
    time_units most = 0;
    for (std::size_t kind = 0; kind < rank_.kinds(); ++kind) {
      std::size_t const column = rank_.columns()[kind];
      std::size_t tasks = rank_.before(head.index, kind) + step_.microbatches() -
                          rank_.before(tail.index + 1, kind);
      if (route.around) {
        tasks +=
            rank_.before(route.around->back, kind) - rank_.before(route.around->leave + 1, kind);
      }
      if (head.position != no_position && rank_.index_of(kind, head.position) < head.index) {
        --tasks;
      }
      if (tail.position != no_position && rank_.index_of(kind, tail.position) > tail.index) {
        --tasks;
      }
      if (!any && is_off(rank_.index_of(kind, fixed.position), fixed.position)) {
        --tasks;
        time -= step_[column][fixed.microbatch];
      }
      most += most_of(column, tasks, fixed);
      if (kind < off.size()) { off[kind] = tasks; }
    }
    if (closely && off[0] > 0 && off[1] > 0 && off[0] + off[1] <= most_counted) {
      std::size_t in_both = 0;
      auto const count = [&](std::size_t begin, std::size_t end) {
        for (std::size_t index = begin; index < end; ++index) {
          std::size_t const position = rank_[index].position;
          std::size_t const forward = rank_.index_of(0, position);
          in_both += index == forward && position != fixed.position && is_off(index, position) &&
                     is_off(rank_.index_of(1, position), position);
        }
      };
      count(0, head.index);
      if (route.around) { count(route.around->leave + 1, route.around->back); }
      count(tail.index + 1, rank_.size());
      most = std::min(most, most_apart(route, off, in_both, fixed));
    }
    return time - most;
  }

  [[nodiscard]] time_units most_of(std::size_t column, std::size_t tasks,
                                   fixed_microbatch fixed) const
  {
    return fixed.position == no_position ? step_.most(column, tasks)
                                         : step_.most_without(column, tasks, fixed.microbatch);
  }

  /// The most that so many forwards and backwards take, where `in_both` microbatches have both.
  [[nodiscard]] time_units most_apart(path const& route, std::array<std::size_t, 2> off,
                                      std::size_t in_both, fixed_microbatch fixed)
  {
    std::size_t const without =
        fixed.position == no_position ? step_.microbatches() : fixed.microbatch;
    last_result& last = last_results_[route.head][route.tail][route.around ? 1 : 0];
    if (last.tasks != off || last.in_both != in_both || last.without != without) {
      // The passes of these microbatches in one column may be of any; all others are apart.
      time_units const forward = apart_.most(off[0] - in_both, off[1], without) +
                                 most_of(rank_.columns()[0], in_both, fixed);
      time_units const backward = apart_.most(off[0], off[1] - in_both, without) +
                                  most_of(rank_.columns()[1], in_both, fixed);
      last = {off, in_both, without, std::min(forward, backward)};
    }
    return last.most;
  }

  template <class T>
  using by_ends = std::array<std::array<T, rank_view::most_ends>, rank_view::most_ends>;

  rank_view const& rank_;
  step_view const& step_;
  time_units work_ = 0;
  disjoint_sums apart_;  // for ranks with one forward and one backward kind
  by_ends<time_units> least_of_ends_{};
  by_ends<std::array<last_result, 2>> last_results_{};
};

/// How many forwards a stage is ahead of its backwards: it does backward k right after forward
/// k + lead, or after the last one. Nothing where the stage is not alone on its rank, has no
/// forward or backward or a weights pass, or does its passes in another order.
///
/// In 1F1B it is the number of stages behind, in GPipe that of microbatches less one.
[[nodiscard]] inline std::optional<std::size_t> lead_of(compiled_schedule const& schedule,
                                                        stage_id stage)
{
  pipeline_stage const& own = schedule.stages()[stage];
  bool const has_both = own.backward && own.has_forward() && !own.weights;
  if (!has_both || schedule.stages().stages_on(own.rank).size() > 1) { return std::nullopt; }
  std::size_t forwards = 0;
  std::size_t backwards = 0;
  std::size_t lead = 0;
  for (std::uint32_t const number : schedule.tasks_on(own.rank)) {
    auto const& [position, of, direction] = schedule.tasks()[number];
    std::size_t& done = direction == pass::forward ? forwards : backwards;
    if (direction == pass::backward && backwards == 0) { lead = forwards - 1; }
    if (position != done || (direction == pass::backward &&
                             forwards != std::min(schedule.microbatches(), backwards + lead + 1))) {
      return std::nullopt;
    }
    ++done;
  }
  return lead;
}

/// A lower bound of the step, by paths that change ranks with one microbatch.
///
/// Such a path follows the rank of a stage `first` up to the forward of a microbatch, goes with it
/// to a stage `middle`, follows its rank up to the backward, comes back with it to a stage `last`,
/// and follows that one's rank. The order chooses the position of the microbatch, and which others
/// come before and behind. Each of those has one forward and one backward on the path: of `first`
/// where it comes long before, of `last` where long behind, of two stages in between. Where the
/// leads of the stages differ, some have one pass only, as many as the leads differ by. So each
/// other microbatch counts with the least of these sums, less the most that those with one pass
/// can lack; and the chosen microbatch counts with its whole path. Any microbatch can be chosen;
/// the bound tries those with the longest paths.
///
/// In GPipe this is a bound on two flow shops in a row. In 1F1B it is the time that the front
/// stages wait while the backwards of a long microbatch reach them one after the other.
///
/// Ensures     (1) no order of the microbatches takes less than bound()
/// Complexity  O(stages^2 x microbatches), times log(microbatches) where a path may be longer than
///             those before; and O(stages^2 x (stages + links)). With more than 64 stages it tries
///             no path.
class crossing_bound {
 public:
  crossing_bound(step_view const& step, workspace::frame& scratch)
      : step_(step),
        stages_(step.stages().stages()),
        tried_(scratch.take<std::uint32_t>(step.microbatches())),
        leads_(scratch.take<std::size_t>(stages_)),
        heads_(scratch.take<time_units>(stages_)),
        tails_(scratch.take<time_units>(stages_)),
        counted_(scratch.take<time_units>(step.microbatches())),
        lacking_forward_(scratch.take<time_units>(step.microbatches())),
        lacking_backward_(scratch.take<time_units>(step.microbatches()))
  {
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      auto const id = to_id<stage_id>(stage);
      auto const list = step.schedule().tasks_on(step.stages()[id].rank);
      leads_[stage] = lead_of(step.schedule(), id).value_or(no_lead);
      heads_[stage] = step.heads()[list.front()];
      tails_[stage] = step.tails()[list.back()];
    }
    choose_tried(scratch);
    down_ = scratch.take<time_units>(tried_.size() * stages_ * stages_);
    up_ = scratch.take<time_units>(down_.size());
    std::fill(down_.begin(), down_.end(), no_path);
    std::fill(up_.begin(), up_.end(), no_path);
    for (std::size_t one = 0; one < tried_.size(); ++one) {
      for (std::size_t from = 0; from < stages_; ++from) { walk(one, from); }
    }
  }

  /// The larger of `found` and the longest of these paths.
  [[nodiscard]] time_units bound(time_units found, workspace& memory)
  {
    std::size_t const count = tried_.empty() ? 0 : stages_;
    for (std::size_t first = 0; first < count; ++first) {
      for (std::size_t last = 0; last < count; ++last) {
        for (std::size_t middle = std::max(first, last); middle < count; ++middle) {
          if (!leads_to_path(first, middle, last)) { continue; }
          found = longest(first, middle, last, found, memory);
        }
      }
    }
    return found;
  }

 private:
  static constexpr std::size_t most_tried = 8;
  static constexpr std::size_t most_stages = 64;
  static constexpr std::size_t no_lead = std::numeric_limits<std::size_t>::max();
  static constexpr time_units no_path = -1;

  /// The microbatches with the longest paths, longest first; ties go to the lowest numbers.
  void choose_tried(workspace::frame& scratch)
  {
    std::span<time_units> const lengths = scratch.take<time_units>(tried_.size());
    for (std::uint32_t at = 0; at < lengths.size(); ++at) {
      tried_[at] = at;
      lengths[at] = step_.longest_path_of(at);
    }
    std::sort(tried_.begin(), tried_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return precedes(lengths[b], lengths[a], a, b);
    });
    tried_ = tried_.first(stages_ > most_stages ? 0 : std::min(most_tried, tried_.size()));
  }

  /// Where the longest paths of a tried microbatch from one stage to another are: in down_ from its
  /// forward on `from` to the one on `to`, in up_ from its backward on `to` to that on `from`,
  /// neither end counted; no_path where `to` cannot be reached.
  [[nodiscard]] std::size_t index(std::size_t one, std::size_t from, std::size_t to) const
  {
    return (one * stages_ + from) * stages_ + to;
  }

  void walk(std::size_t one, std::size_t from)
  {
    auto const time = [&](stage_id stage, pass direction) {
      return to_index(stage) == from ? 0 : step_[column_of(stage, direction)][tried_[one]];
    };
    down_[index(one, from, from)] = up_[index(one, from, from)] = 0;
    for (auto const& [before, behind, transfer] : step_.stages().links()) {
      std::size_t const at = index(one, from, to_index(before));
      std::size_t const to = index(one, from, to_index(behind));
      if (down_[at] == no_path) { continue; }
      down_[to] = std::max(down_[to], down_[at] + time(before, pass::forward) + transfer);
      // No gradient comes back to a stage without backward, nor through it.
      if (up_[at] == no_path || !step_.stages()[before].backward) { continue; }
      up_[to] = std::max(up_[to], up_[at] + time(before, pass::backward) + transfer);
    }
  }

  /// Whether there are such paths and the bound tries them: those with three different stages only
  /// where no stage follows the one in the middle.
  [[nodiscard]] bool leads_to_path(std::size_t first, std::size_t middle, std::size_t last) const
  {
    if (leads_[first] == no_lead || leads_[middle] == no_lead || leads_[last] == no_lead ||
        down_[index(0, first, middle)] == no_path || up_[index(0, last, middle)] == no_path) {
      return false;
    }
    if (first == last) { return first != middle; }
    return first == middle || last == middle ||
           step_.stages().links_out_of(to_id<stage_id>(middle)).empty();
  }

  [[nodiscard]] auto forward(std::size_t stage) const
  {
    return step_[column_of(to_id<stage_id>(stage), pass::forward)];
  }
  [[nodiscard]] auto backward(std::size_t stage) const
  {
    return step_[column_of(to_id<stage_id>(stage), pass::backward)];
  }

  /// How much more one of the tried microbatches adds to such a path that follows it than it counts
  /// as one of the others.
  [[nodiscard]] time_units more_of(std::size_t one, std::size_t first, std::size_t middle,
                                   std::size_t last) const
  {
    std::size_t const at = tried_[one];
    time_units more = forward(middle)[at] + backward(middle)[at] - counted_[at];
    if (first != middle) { more += forward(first)[at] + down_[index(one, first, middle)]; }
    if (last != middle) { more += backward(last)[at] + up_[index(one, last, middle)]; }
    return more;
  }

  /// The larger of `found` and the longest such path with any of the tried microbatches.
  [[nodiscard]] time_units longest(std::size_t first, std::size_t middle, std::size_t last,
                                   time_units found, workspace& memory)
  {
    std::size_t const others = step_.microbatches() - 1;
    std::size_t const lead = leads_[middle];
    std::size_t const only_forward = leads_[first] - std::min(leads_[first], lead);
    std::size_t const only_backward = leads_[last] - std::min(leads_[last], lead);
    if (only_forward + only_backward > others) { return found; }
    time_units const ends = heads_[first] + tails_[last] + count(first, middle, last);
    time_units most = 0;
    for (std::size_t one = 0; one < tried_.size(); ++one) {
      most = std::max(most, ends + more_of(one, first, middle, last));
    }
    if (most <= found || only_forward + only_backward == 0) { return std::max(found, most); }
    for (std::size_t at = 0; at <= others; ++at) {
      lacking_backward_[at] = std::max<time_units>(0, counted_[at] - forward(first)[at]);
      lacking_forward_[at] = std::max<time_units>(0, counted_[at] - backward(last)[at]);
    }
    auto scratch = memory.open();
    disjoint_sums lacking(lacking_backward_, lacking_forward_, scratch);
    for (std::size_t one = 0; one < tried_.size(); ++one) {
      time_units const time = ends + more_of(one, first, middle, last);
      if (time <= found) { continue; }
      found = std::max(found, time - lacking.most(only_forward, only_backward, tried_[one]));
    }
    return found;
  }

  /// Sets the least that each microbatch with both passes on such a path takes; returns the sum.
  [[nodiscard]] time_units count(std::size_t first, std::size_t middle, std::size_t last)
  {
    constexpr time_units never = std::numeric_limits<time_units>::max();
    std::size_t const others = step_.microbatches() - 1;
    bool const long_before = others > leads_[first];
    bool const before = std::min(leads_[first], leads_[middle]) > 0;
    bool const behind = std::min(leads_[last], leads_[middle]) > 0;
    bool const long_behind = others > leads_[last];
    auto const [forward_first, backward_first] = std::pair(forward(first), backward(first));
    auto const [forward_middle, backward_middle] = std::pair(forward(middle), backward(middle));
    auto const [forward_last, backward_last] = std::pair(forward(last), backward(last));
    time_units sum = 0;
    for (std::size_t at = 0; at <= others; ++at) {
      time_units const forwards = forward_first[at];
      time_units const backwards = backward_last[at];
      time_units const least = std::min({long_before ? forwards + backward_first[at] : never,
                                         before ? forwards + backward_middle[at] : never,
                                         behind ? forward_middle[at] + backwards : never,
                                         long_behind ? forward_last[at] + backwards : never});
      counted_[at] = least == never ? 0 : least;
      sum += counted_[at];
    }
    return sum;
  }

  step_view const& step_;
  std::size_t stages_;
  std::span<std::uint32_t> tried_;
  std::span<time_units> down_{};  // [tried x stages x stages], from the stage in front
  std::span<time_units> up_{};
  std::span<std::size_t> leads_;
  std::span<time_units> heads_;
  std::span<time_units> tails_;
  std::span<time_units> counted_;
  std::span<time_units> lacking_forward_;
  std::span<time_units> lacking_backward_;
};

/// What a rank does in a step of two that synchronise: at least one task, or none where there are
/// none or more than two.
struct synchronised_side {
  std::size_t tasks = 0;
  std::array<std::size_t, 2> columns{};
  bool one_microbatch = false;  ///< both tasks are of the same

  friend bool operator==(synchronised_side const&, synchronised_side const&) = default;
};

/// The steps of two ranks that synchronise: neither begins a step before both have ended the step
/// before.
struct synchronised_steps {
  std::size_t count = 0;                     ///< how many steps have the shape
  std::array<synchronised_side, 2> sides{};  ///< what the first and the second rank do in each
};

/// Two ranks synchronise before task i of the one and task j of the other where each of the two
/// waits for the task before i and for the one before j. A path can change ranks at every such
/// point, so the time from the first to the last is at least the sum, over the steps in between, of
/// the longer of what the two ranks do. Neighbours in 1F1B synchronise once per microbatch, since a
/// later forward waits for a backward.
///
/// It counts only steps of the shape that the step in the middle has: the same columns, at most two
/// tasks per rank.
///
/// Expects     the ranks differ; index[tasks]: of each task in the list of its rank.
/// Complexity  O(tasks of the first rank x their waits).
[[nodiscard]] inline synchronised_steps synchronise(compiled_schedule const& schedule,
                                                    pipeline_rank first, pipeline_rank second,
                                                    std::span<std::uint32_t const> index,
                                                    workspace& memory)
{
  struct sync_point {
    std::uint32_t first;
    std::uint32_t second;
  };
  std::span<std::uint32_t const> const one = schedule.tasks_on(first);
  std::span<std::uint32_t const> const two = schedule.tasks_on(second);
  auto const waits_for = [&](std::uint32_t task, std::uint32_t other) {
    auto const waits = schedule.waits_for(task);
    return std::any_of(waits.begin(), waits.end(),
                       [&](auto const& wait) { return wait.task == other; });
  };
  auto scratch = memory.open();
  std::span<sync_point> const found = scratch.take<sync_point>(one.size());
  std::size_t points = 0;
  for (std::uint32_t at = 1; at < one.size(); ++at) {
    for (auto const& wait : schedule.waits_for(one[at])) {
      if (schedule.stages()[schedule.tasks()[wait.task].stage].rank != second) { continue; }
      std::uint32_t const next = index[wait.task] + 1;
      if (next < two.size() && waits_for(two[next], one[at - 1])) {
        found[points++] = {at, next};
        break;
      }
    }
  }
  synchronised_steps steps;
  if (points < 2) { return steps; }
  auto const side_of = [&](std::span<std::uint32_t const> list, std::size_t begin,
                           std::size_t end) {
    synchronised_side of;
    if (begin >= end || end - begin > of.columns.size()) { return of; }
    for (std::size_t at = begin; at < end; ++at) {
      of.columns[of.tasks++] = column_of(schedule.tasks()[list[at]]);
    }
    of.one_microbatch =
        schedule.tasks()[list[begin]].position == schedule.tasks()[list[end - 1]].position;
    return of;
  };
  auto const sides_of = [&](std::size_t step) {
    return std::array{side_of(one, found[step].first, found[step + 1].first),
                      side_of(two, found[step].second, found[step + 1].second)};
  };
  steps.sides = sides_of((points - 1) / 2);
  if (steps.sides[0].tasks == 0 || steps.sides[1].tasks == 0) { return steps; }
  for (std::size_t step = 0; step + 1 < points; ++step) {
    if (sides_of(step) == steps.sides) { ++steps.count; }
  }
  return steps;
}

/// How long one rank takes in each step at an extreme, in increasing order: with the longest tasks
/// of each column or the shortest, and where a step has two, with long ones put to short ones or to
/// long ones.
///
/// The total of a convex function of these times is least where the two columns are oppositely
/// ordered, and greatest where they are similarly ordered. Where the two tasks of a step are of one
/// microbatch, only the choice of microbatches is left.
///
/// Shapes      returns `steps` times.
[[nodiscard]] inline std::span<time_units> extreme_steps(synchronised_side const& side,
                                                         std::size_t steps, bool longest,
                                                         bool opposite, step_view const& step,
                                                         workspace::frame& scratch)
{
  std::size_t const all = step.microbatches();
  std::span<time_units> const into = scratch.take<time_units>(all);
  if (side.tasks == 2 && side.one_microbatch) {
    for (std::size_t at = 0; at < all; ++at) {
      into[at] = step[side.columns[0]][at] + step[side.columns[1]][at];
    }
    std::sort(into.begin(), into.end());
    return into.subspan(longest ? all - steps : 0, steps);
  }
  std::span<time_units> const times = into.first(steps);
  std::size_t const shortest = (longest ? steps : all) - 1;  // its rank among the longest
  for (std::size_t at = 0; at < steps; ++at) {
    times[at] = step.longest(side.columns[0], shortest - at);
    if (side.tasks == 2) {
      times[at] +=
          step.longest(side.columns[1], opposite ? shortest + 1 - steps + at : shortest - at);
    }
  }
  if (opposite) { std::sort(times.begin(), times.end()); }
  return times;
}

/// The greatest value, over all t >= 0, of the sum of max(0, t - a) less that of max(0, t - b).
///
/// Expects     both are in increasing order and equally many, and none is negative.
[[nodiscard]] inline time_units most_shortfall(std::span<time_units const> a,
                                               std::span<time_units const> b)
{
  // It is linear between times, and its slope falls at those of b only.
  uint128 most = 0;
  uint128 sum_a = 0;
  uint128 sum_b = 0;
  std::size_t below = 0;
  for (std::size_t at = 0; at < b.size(); ++at) {
    auto const level = static_cast<uint128>(b[at]);
    while (below < a.size() && a[below] < b[at]) { sum_a += static_cast<uint128>(a[below++]); }
    uint128 const gained = below * level - sum_a;
    uint128 const lost = at * level - sum_b;
    if (gained > lost) { most = std::max(most, gained - lost); }
    sum_b += static_cast<uint128>(b[at]);
  }
  return static_cast<time_units>(most);
}

/// The least time that one of two synchronised ranks waits for the other, over all steps.
///
/// For any t, max(own, other) - own is at least max(0, t - own) - max(0, t - other), and at least
/// max(0, other - t) - max(0, own - t). Both are a convex function of one rank's time less one of
/// the other's, so each rank has its own extreme, and both bounds hold.
///
/// Expects     at least one step.
/// Ensures     (1) under no order is the sum of max(0, other - own) less
/// Complexity  O(microbatches x log(microbatches)).
/// Source      the extremes: G. H. Hardy, J. E. Littlewood, G. Polya, "Inequalities", Cambridge
///             1934, theorems 368 and 108.
[[nodiscard]] inline time_units waiting_bound(synchronised_side const& own,
                                              synchronised_side const& other, std::size_t steps,
                                              step_view const& step, workspace& memory)
{
  BALLAST_EXPECTS(steps >= 1 && steps <= step.microbatches());
  auto scratch = memory.open();
  auto const extreme = [&](synchronised_side const& side, bool longest, bool opposite) {
    return extreme_steps(side, steps, longest, opposite, step, scratch);
  };
  time_units const below = most_shortfall(extreme(own, true, true), extreme(other, false, false));
  // The second inequality is the first one for the differences of the times from the longest.
  std::span<time_units> const others = extreme(other, false, true);
  std::span<time_units> const owns = extreme(own, true, false);
  time_units const top = std::max(others.back(), owns.back());
  for (std::span<time_units> const times : {others, owns}) {
    std::reverse(times.begin(), times.end());
    for (time_units& time : times) { time = top - time; }
  }
  return std::max(below, most_shortfall(others, owns));
}

}  // namespace detail

/// A time that no order of the microbatches gets below: what every order is compared with.
///
/// The largest of
///   (a) the longest path of one microbatch through its stages, forward and backward;
///   (b) how early a task can start and how soon after it everything can be over, whichever
///       microbatches come before and after;
///   (c) for every rank, paths along its list of tasks that may leave it after the forward of a
///       microbatch, follow that microbatch through the later stages, and return for its backward;
///   (d) for every stage, round trips that can only be made one after the other, since a later
///       forward waits for a backward: the largest bound where transfers are long;
///   (e) for two ranks that wait for each other after every step, as neighbours in 1F1B do, the
///       longer of what the two do in each step;
///   (f) for two or three stages under 1F1B or GPipe, paths that change ranks with one long
///       microbatch, and count every other one on the rank on which it takes least.
/// The order decides how long a path through the tasks is; each bound is the least that any order
/// can give to one path, or to the longest of several.
///
/// Expects     check_times() finds no fault.
/// Ensures     (1) no order has a smaller makespan
///             (2) with a workspace that has seen a step as large, nothing is allocated
/// Complexity  O(tasks x (waits + stages of a rank) + stages x microbatches x log(microbatches))
///             for (a) (b) (d) (e); for (c) and (f) O(microbatches x stages^2), times
///             log(microbatches) where a path may be longer than those before, and O(stages^2 x
///             (stages + links)). About 8 x tasks x (8 + stages of a rank) bytes of scratch.
/// Source      (a) (b) and the work of a rank: folklore, as in flow shops, e.g. B. J. Lageweg,
///             J. K. Lenstra, A. H. G. Rinnooy Kan, "A General Bounding Scheme for the Permutation
///             Flow-Shop Problem", Operations Research 26(1):53-67, 1978. (c) to (f) use what is
///             particular to pipelines: docs/notes/pipeline_bounds.md has the proofs.
[[nodiscard]] inline time_units order_lower_bound(compiled_schedule const& schedule,
                                                  pipeline_times const& times, workspace& memory)
{
  detail::expect_times_of(schedule, times);
  if (schedule.microbatches() == 0) { return 0; }
  stage_graph const& stages = schedule.stages();
  auto scratch = memory.open();
  detail::step_view const step(schedule, times, scratch);
  time_units bound = step.longest_path();
  std::span<time_units> const whole = scratch.take<time_units>(stages.ranks());
  std::span<std::uint32_t> const index = scratch.take<std::uint32_t>(schedule.tasks().size());
  for (std::size_t number = 0; number < stages.ranks(); ++number) {
    auto const id = to_id<pipeline_rank>(number);
    auto of_rank = memory.open();
    detail::rank_view const rank(step, id, of_rank);
    detail::rank_bound along(rank, of_rank);
    bound = along.bound(bound);
    whole[number] = along.whole();
    for (stage_id const stage : stages.stages_on(id)) {
      if (!stages[stage].backward || !stages[stage].has_forward()) { continue; }
      bound = std::max(bound, detail::round_trip_bound(rank, stage, memory));
    }
    for (std::uint32_t at = 0; at < rank.size(); ++at) { index[rank.numbers()[at]] = at; }
  }
  bound = detail::crossing_bound(step, scratch).bound(bound, memory);
  for (stage_link const& link : stages.links()) {
    pipeline_rank const first = stages[link.from].rank;
    pipeline_rank const second = stages[link.to].rank;
    if (first == second) { continue; }
    auto const [steps, sides] = detail::synchronise(schedule, first, second, index, memory);
    if (steps == 0) { continue; }
    auto const& [one, two] = sides;
    bound = std::max(
        {bound, whole[to_index(first)] + detail::waiting_bound(one, two, steps, step, memory),
         whole[to_index(second)] + detail::waiting_bound(two, one, steps, step, memory)});
  }
  return bound;
}

}  // namespace ballast::inline v0
