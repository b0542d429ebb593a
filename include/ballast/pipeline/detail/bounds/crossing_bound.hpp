// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PIPELINE_DETAIL_BOUNDS_CROSSING_BOUND_HPP
#define BALLAST_PIPELINE_DETAIL_BOUNDS_CROSSING_BOUND_HPP

#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/workspace.hpp>
#include <ballast/pipeline/compiled_schedule.hpp>
#include <ballast/pipeline/detail/bounds/disjoint_sums.hpp>
#include <ballast/pipeline/detail/bounds/microbatch_paths.hpp>
#include <ballast/pipeline/detail/bounds/slowest_microbatches.hpp>
#include <ballast/pipeline/detail/bounds/task_bounds.hpp>
#include <ballast/pipeline/detail/bounds/time_columns.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/stage_graph.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace ballast::inline v0::detail {

/// How many forwards a stage is ahead of its backwards: it does backward k right after forward
/// k + lead, or after the last one. Nothing where the stage is not alone on its rank, has no
/// forward or backward, or does its passes in another order.
///
/// In 1F1B it is the number of stages behind, in GPipe that of microbatches less one.
[[nodiscard]] inline std::optional<std::size_t> lead_of(compiled_schedule const& schedule,
                                                        stage_id stage)
{
  pipeline_stage const& own = schedule.stages()[stage];
  bool const has_both = own.backward && own.has_forward();
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
///             those before; and O(stages^3). With more than 64 stages it tries no path.
class crossing_bound {
 public:
  crossing_bound(compiled_schedule const& schedule, time_columns const& columns,
                 microbatch_paths const& paths, task_bounds const& bounds,
                 workspace::frame& scratch)
      : stages_(schedule.stages()),
        columns_(columns),
        slowest_(stages_, columns, paths, stages_.stages() > most_stages ? 0 : most_tried, scratch),
        leads_(scratch.take<std::size_t>(stages_.stages())),
        heads_(scratch.take<time_units>(stages_.stages())),
        tails_(scratch.take<time_units>(stages_.stages())),
        counted_(scratch.take<time_units>(columns.microbatches())),
        lacking_forward_(scratch.take<time_units>(columns.microbatches())),
        lacking_backward_(scratch.take<time_units>(columns.microbatches()))
  {
    for (std::size_t stage = 0; stage < stages_.stages(); ++stage) {
      auto const id = to_id<stage_id>(stage);
      auto const list = schedule.tasks_on(stages_[id].rank);
      leads_[stage] = lead_of(schedule, id).value_or(no_lead);
      heads_[stage] = bounds.heads()[list.front()];
      tails_[stage] = bounds.tails()[list.back()];
    }
  }

  /// The larger of `found` and the longest of these paths.
  [[nodiscard]] time_units bound(time_units found, workspace& memory)
  {
    std::size_t const count = slowest_.microbatches().empty() ? 0 : stages_.stages();
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

  /// Whether there are such paths and the bound tries them: those with three different stages only
  /// where no stage follows the one in the middle.
  [[nodiscard]] bool leads_to_path(std::size_t first, std::size_t middle, std::size_t last) const
  {
    if (leads_[first] == no_lead || leads_[middle] == no_lead || leads_[last] == no_lead ||
        slowest_.down(0, first, middle) == slowest_microbatches::no_path ||
        slowest_.up(0, last, middle) == slowest_microbatches::no_path) {
      return false;
    }
    if (first == last) { return first != middle; }
    return first == middle || last == middle ||
           stages_.links_out_of(to_id<stage_id>(middle)).empty();
  }
  [[nodiscard]] std::span<time_units const> forward(std::size_t stage) const
  {
    return columns_[time_columns::column_of(to_id<stage_id>(stage), pass::forward)];
  }
  [[nodiscard]] std::span<time_units const> backward(std::size_t stage) const
  {
    return columns_[time_columns::column_of(to_id<stage_id>(stage), pass::backward)];
  }

  /// How much more one of the slowest microbatches adds to such a path that follows it than it
  /// counts as one of the others.
  [[nodiscard]] time_units more_of(std::size_t one, std::size_t first, std::size_t middle,
                                   std::size_t last) const
  {
    std::size_t const at = slowest_.microbatches()[one];
    time_units more = forward(middle)[at] + backward(middle)[at] - counted_[at];
    if (first != middle) { more += forward(first)[at] + slowest_.down(one, first, middle); }
    if (last != middle) { more += backward(last)[at] + slowest_.up(one, last, middle); }
    return more;
  }

  /// The larger of `found` and the longest such path with any of the slowest microbatches.
  [[nodiscard]] time_units longest(std::size_t first, std::size_t middle, std::size_t last,
                                   time_units found, workspace& memory)
  {
    std::size_t const others = columns_.microbatches() - 1;
    std::size_t const lead = leads_[middle];
    std::size_t const only_forward = leads_[first] - std::min(leads_[first], lead);
    std::size_t const only_backward = leads_[last] - std::min(leads_[last], lead);
    if (only_forward + only_backward > others) { return found; }

    time_units const ends = heads_[first] + tails_[last] + count(first, middle, last);
    time_units most = 0;
    for (std::size_t one = 0; one < slowest_.microbatches().size(); ++one) {
      most = std::max(most, ends + more_of(one, first, middle, last));
    }
    if (most <= found || only_forward + only_backward == 0) { return std::max(found, most); }

    for (std::size_t at = 0; at <= others; ++at) {
      lacking_backward_[at] = std::max<time_units>(0, counted_[at] - forward(first)[at]);
      lacking_forward_[at] = std::max<time_units>(0, counted_[at] - backward(last)[at]);
    }
    auto scratch = memory.open();
    disjoint_sums lacking(lacking_backward_, lacking_forward_, scratch);
    for (std::size_t one = 0; one < slowest_.microbatches().size(); ++one) {
      time_units const time = ends + more_of(one, first, middle, last);
      if (time <= found) { continue; }
      found = std::max(
          found, time - lacking.most(only_forward, only_backward, slowest_.microbatches()[one]));
    }
    return found;
  }

  /// Sets the least that each microbatch with both passes on such a path takes; returns the sum.
  [[nodiscard]] time_units count(std::size_t first, std::size_t middle, std::size_t last)
  {
    constexpr time_units never = std::numeric_limits<time_units>::max();
    std::size_t const others = columns_.microbatches() - 1;
    bool const long_before = others > leads_[first];
    bool const before = std::min(leads_[first], leads_[middle]) > 0;
    bool const behind = std::min(leads_[last], leads_[middle]) > 0;
    bool const long_behind = others > leads_[last];
    time_units sum = 0;
    for (std::size_t at = 0; at <= others; ++at) {
      time_units const forwards = forward(first)[at];
      time_units const backwards = backward(last)[at];
      time_units const least = std::min({long_before ? forwards + backward(first)[at] : never,
                                         before ? forwards + backward(middle)[at] : never,
                                         behind ? forward(middle)[at] + backwards : never,
                                         long_behind ? forward(last)[at] + backwards : never});
      counted_[at] = least == never ? 0 : least;
      sum += counted_[at];
    }
    return sum;
  }

  stage_graph const& stages_;
  time_columns const& columns_;
  slowest_microbatches slowest_;
  std::span<std::size_t> leads_;
  std::span<time_units> heads_;
  std::span<time_units> tails_;
  std::span<time_units> counted_;
  std::span<time_units> lacking_forward_;
  std::span<time_units> lacking_backward_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PIPELINE_DETAIL_BOUNDS_CROSSING_BOUND_HPP
