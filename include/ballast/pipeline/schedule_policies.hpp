// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/schedule.hpp>

namespace ballast::inline v0 {

/// GPipe: all forwards, then all backwards. Simple, and every stage keeps all microbatches in
/// memory.
///
/// A rank with several stages does all forwards of its lowest one, then of the next, and the
/// backwards from its highest stage down, each before its weights passes.
///
/// Ensures     (1) it never deadlocks, whatever the stages: a forward waits for tasks of lower
///             stages, or of its own stage at lower positions; a backward waits for forwards, and
///             for backwards of higher stages, or of its own stage at lower positions
///             (2) backwards are done in the order of the forwards; the paper's figure has them in
///             reverse, which takes as long where all microbatches take equally long
/// Errors      out_of_range: there would be 2^31 tasks or more.
/// Complexity  O(tasks).
/// Source      Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline
///             Parallelism", NeurIPS 2019; several stages per rank: J. Lamy-Poirier, "Breadth-First
///             Pipeline Parallelism", MLSys 2023.
struct gpipe {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    pipeline_schedule schedule{microbatches, {}};
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto& tasks = schedule.ranks.emplace_back();
      auto const pass_all = [&](stage_id stage, pass direction) {
        for (std::uint32_t position = 0; position < microbatches; ++position) {
          tasks.push_back({position, stage, direction});
        }
      };
      std::span<stage_id const> const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
      for (stage_id const stage : of_rank) {
        if (stages[stage].has_forward()) { pass_all(stage, pass::forward); }
      }
      for (std::size_t left = of_rank.size(); left-- > 0;) {
        if (stages[of_rank[left]].backward) { pass_all(of_rank[left], pass::backward); }
        if (stages[of_rank[left]].weights) { pass_all(of_rank[left], pass::weights); }
      }
    }
    return schedule;
  }
  friend bool operator==(gpipe const&, gpipe const&) = default;
};

namespace detail {

/// Calls forward(k) and backward(k) for all k below `count`: backward k after forward k + `ahead`,
/// or after the last one.
template <class Forward, class Backward>
void alternate_passes(std::size_t count, std::size_t ahead, Forward const& forward,
                      Backward const& backward)
{
  for (std::size_t turn = 0; turn < count + ahead; ++turn) {
    if (turn < count) { forward(turn); }
    if (turn >= ahead) { backward(turn - ahead); }
  }
}

}  // namespace detail

/// 1F1B: as many forwards as it takes to reach the last stage, then a backward after every forward,
/// then the backwards that are left.
///
/// A stage from which the farthest stage that it feeds is d stages away, transfers not counted, has
/// done d forwards more than backwards when the alternation begins. A stage without backward does
/// its forwards one after the other, a transfer its only pass. A weights pass follows its backward.
///
/// Ensures     (1) a stage with a backward keeps at most d + 1 microbatches in memory
///             (2) it never deadlocks, whatever the links: numbered 2 k - d, forward k of a stage
///             is above, and numbered 2 k + d + 1, backward k is above all tasks that it waits for,
///             since d falls along every link; a transfer's tasks are between those of the stages
///             that it joins
/// Errors      infeasible: pipeline rank `position` has several stages; out_of_range: there would
///             be 2^31 tasks or more.
/// Complexity  O(tasks + links).
/// Source      D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training",
///             SOSP 2019 (the order); S. Fan et al., "DAPPLE: A Pipelined Data Parallel Approach
///             for Training Large Models", PPoPP 2021 (with a flush at the end of the step).
struct one_forward_one_backward {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    std::vector<std::size_t> depth(stages.stages(), 0);  // stages to the farthest one it feeds
    for (std::size_t stage = stages.stages(); stage-- > 0;) {
      for (auto const& [from, to, transfer] : stages.links_out_of(to_id<stage_id>(stage))) {
        std::size_t const step = stages[to].part == model_part::transfer ? 0 : 1;
        depth[stage] = std::max(depth[stage], depth[to_index(to)] + step);
      }
    }
    pipeline_schedule schedule{microbatches, {}};
    for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
      auto const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
      if (of_rank.size() > 1) {
        return fail(error_code::infeasible, rank, "pipeline rank ", rank, " has ",
                    detail::counted(of_rank.size(), "stage"),
                    ", and 1F1B is for one; use the interleaved schedule or GPipe");
      }
      stage_id const stage = of_rank.front();
      auto& tasks = schedule.ranks.emplace_back();
      auto const add = [&](std::size_t turn, pass direction) {
        tasks.push_back({static_cast<std::uint32_t>(turn), stage, direction});
      };
      detail::alternate_passes(
          microbatches, depth[to_index(stage)],
          [&](std::size_t turn) {
            if (stages[stage].has_forward()) { add(turn, pass::forward); }
          },
          [&](std::size_t turn) {
            if (stages[stage].backward) { add(turn, pass::backward); }
            if (stages[stage].weights) { add(turn, pass::weights); }
          });
    }
    return schedule;
  }
  friend bool operator==(one_forward_one_backward const&,
                         one_forward_one_backward const&) = default;
};

/// Interleaved 1F1B: every rank has v stages of a chain, its chunks, and the idle time at both ends
/// of a step shrinks to one v-th.
///
/// Microbatches go in groups of p, the number of ranks. A rank does the forwards of a group through
/// its first chunk, then through its second and so on, and its backwards from the last chunk to the
/// first. Rank r begins to alternate after 2 (p - r - 1) + (v - 1) p forwards, or p - r - 1 where
/// v = 1. A stage without backward leaves its backwards out; a weights pass follows its backward.
///
/// Units may feed each other, each a chain that is dealt to ranks of its own, with its own p and v,
/// as joined modules are, and replicas behind a broker: the last stage of a unit feeds the first
/// ones of others. A stage alone on its rank is a unit; a transfer adds nothing to what is on its
/// way. Of a unit behind which D microbatches are on their way, the most of the units that it
/// feeds, rank r begins v D + (v - 1) (p - 1) forwards later, if D > 0; and before it are (its
/// forwards before it alternates + 1 + 2 (v - 1) p) / v, rounded down.
///
/// Ensures     (1) for microbatches that are a multiple of p it is the schedule of Megatron-Core,
///             which in early versions did all forwards first for p of them; with v = 1, and of
///             units too, it is one_forward_one_backward
///             (2) for other numbers, which Megatron-Core refuses, there are as many groups as fit,
///             with p or more microbatches in each and as equal as can be, larger ones first; in
///             the sums above the size of the largest stands instead of p where v - 1 stands before
///             it. Fewer microbatches than ranks are one group
///             (3) it never deadlocks: numbered 2 (x + r), forward x of rank r is above, and
///             numbered 2 (y + w) + 2 r + 1 with w the sum above, backward y is above all tasks
///             that it waits for, since groups have p or more; a group of fewer is one of p without
///             its last ones. Before backward k a unit's last rank has done forward k + D, and
///             needs forward k + D - 1 to get it
/// Errors      infeasible: the stages are no such units, and stage `position` is the first that
///             differs; out_of_range: there would be 2^31 tasks or more.
/// Complexity  O(tasks + links).
/// Source      D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters
///             Using Megatron-LM", SC 2021, section 2.2.
struct interleaved_one_forward_one_backward {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    if (auto const fits = detail::check_microbatches(stages, microbatches); !fits) {
      return tl::unexpected(fits.error());
    }
    std::vector<unit> units;
    std::vector<bool> ends_unit(stages.stages());
    for (std::size_t next = 0; next < stages.stages();) {
      unit const each = unit_at(stages, next, units.empty() ? 0 : units.back().end_rank());
      std::size_t const alien = first_outside(stages, each, ends_unit);
      if (alien < next + each.ranks * each.chunks) {
        return fail(error_code::infeasible, alien, "stage ", alien, " of ", stages.stages(),
                    " does not continue a chain that deals equally many stages to each of ",
                    detail::counted(each.ranks, "rank"),
                    " in turn, which the interleaved schedule is for; use 1F1B ", "or GPipe");
      }
      units.push_back(each);
      next += each.ranks * each.chunks;
      ends_unit[next - 1] = true;
    }
    pipeline_schedule schedule{microbatches, {}};
    schedule.ranks.resize(stages.ranks());
    std::vector<std::size_t> depths(stages.stages());  // of the unit that begins with a stage
    for (std::size_t at = units.size(); at-- > 0;) {
      unit const& each = units[at];
      std::size_t behind = 0;
      auto const last = to_id<stage_id>(each.first_stage + each.ranks * each.chunks - 1);
      for (stage_link const& link : stages.links_out_of(last)) {
        behind = std::max(behind, depths[to_index(link.to)]);
      }
      depths[each.first_stage] = write(each, stages, behind, schedule);
    }
    return schedule;
  }
  friend bool operator==(interleaved_one_forward_one_backward const&,
                         interleaved_one_forward_one_backward const&) = default;

 private:
  /// Stages that are dealt to ranks in turn.
  struct unit {
    std::size_t first_stage;
    std::size_t first_rank;
    std::size_t ranks;
    std::size_t chunks;

    [[nodiscard]] std::size_t end_rank() const { return first_rank + ranks; }
  };

  [[nodiscard]] static unit unit_at(stage_graph const& stages, std::size_t first, std::size_t rank)
  {
    if (rank >= stages.ranks()) { return {first, rank, 1, 1}; }
    auto const own = stages.stages_on(to_id<pipeline_rank>(rank));
    std::size_t const ranks = own.size() == 1 ? 1 : to_index(own[1]) - to_index(own[0]);
    return {first, rank, ranks, own.size()};
  }

  /// The first stage of a unit that is not as it is dealt; its end where all are.
  [[nodiscard]] static std::size_t first_outside(stage_graph const& stages, unit const& of,
                                                 std::vector<bool> const& ends_unit)
  {
    std::size_t const end = of.first_stage + of.ranks * of.chunks;
    for (std::size_t stage = of.first_stage; stage < end; ++stage) {
      std::size_t const in_round = (stage - of.first_stage) % of.ranks;
      if (stage >= stages.stages()) { return stage - in_round; }
      auto const fed_by = stages.links_into(to_id<stage_id>(stage));
      bool const linked =
          stage == of.first_stage
              ? std::all_of(fed_by.begin(), fed_by.end(),
                            [&](stage_link const& link) { return ends_unit[to_index(link.from)]; })
              : fed_by.size() == 1 && to_index(fed_by[0].from) == stage - 1;
      std::size_t const rank = to_index(stages[to_id<stage_id>(stage)].rank);
      if (!linked || rank != of.first_rank + in_round) { return stage; }
    }
    return end;
  }

  /// Writes what the ranks of a unit do, and returns how many microbatches are on their way in it
  /// and behind it.
  static std::size_t write(unit const& of, stage_graph const& stages, std::size_t behind,
                           pipeline_schedule& schedule)
  {
    struct visit {
      std::uint32_t position;
      std::size_t chunk;
    };
    std::size_t const microbatches = schedule.microbatches;
    std::size_t const groups = std::max<std::size_t>(1, microbatches / of.ranks);
    std::vector<visit> visits;  // forwards in order, or backwards with chunks counted from the last
    std::size_t first = 0;
    for (std::size_t group = 0; group < groups; ++group) {
      std::size_t const end = first + microbatches / groups + (group < microbatches % groups);
      for (std::size_t chunk = 0; chunk < of.chunks; ++chunk) {
        for (std::size_t at = first; at < end; ++at) {
          visits.push_back({static_cast<std::uint32_t>(at), chunk});
        }
      }
      first = end;
    }
    std::size_t const largest = (microbatches + groups - 1) / groups;
    std::size_t const others = of.chunks - 1;
    std::size_t ahead = others * largest + of.chunks * behind;
    if (behind > 0 && largest > 0) { ahead += others * (largest - 1); }
    for (std::size_t rank = of.ranks; rank-- > 0;) {
      auto& tasks = schedule.ranks[of.first_rank + rank];
      auto const stage = [&](std::size_t chunk) {
        return to_id<stage_id>(of.first_stage + chunk * of.ranks + rank);
      };
      detail::alternate_passes(
          visits.size(), ahead,
          [&](std::size_t turn) {
            auto const [position, chunk] = visits[turn];
            stage_id const stage_of = stage(chunk);
            if (stages[stage_of].has_forward()) {
              tasks.push_back({position, stage_of, pass::forward});
            }
          },
          [&](std::size_t turn) {
            auto const [position, chunk] = visits[turn];
            stage_id const stage_of = stage(others - chunk);
            if (stages[stage_of].backward) {
              tasks.push_back({position, stage_of, pass::backward});
            }
            if (stages[stage_of].weights) { tasks.push_back({position, stage_of, pass::weights}); }
          });
      ahead += rank > 0 ? 2 : 0;
    }
    bool const is_transfer = stages[to_id<stage_id>(of.first_stage)].part == model_part::transfer;
    return is_transfer ? behind : (ahead + 1 + 2 * others * largest) / of.chunks;
  }
};

/// Zero bubble with the memory of 1F1B's fullest rank: weights passes fill the time in which 1F1B
/// waits for gradients.
///
/// A stage whose farthest stage ahead is d away and behind which the farthest is h away begins as in
/// 1F1B with d + 1 forwards. Then gradients of inputs and forwards alternate, and weights passes
/// follow the former while more than h of them wait, or while d + h + 1 microbatches are kept and a
/// forward is left; the others come in the end. Where backwards are whole it is 1F1B.
///
/// Ensures     (1) a rank keeps at most d + h + 1 microbatches
///             (2) on a chain of p ranks whose passes all take one unit, l >= p microbatches take 3 l
///             + p - 1 units, for p to 32 and l to 3 p
/// Errors      those of one_forward_one_backward.
/// Complexity  O(tasks + links).
/// Source      P. Qi, X. Wan, G. Huang, M. Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024,
///             ZB-H1.
struct zero_bubble {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    auto schedule = one_forward_one_backward{}(stages, microbatches);
    if (!schedule) { return schedule; }
    std::vector<std::size_t> behind(stages.stages());
    for (stage_link const& link : stages.links()) {
      std::size_t const step = stages[link.from].part == model_part::transfer ? 0 : 1;
      behind[to_index(link.to)] =
          std::max(behind[to_index(link.to)], behind[to_index(link.from)] + step);
    }
    for (auto& tasks : schedule->ranks) {
      if (!tasks.empty() && stages[tasks[0].stage].weights) {
        delay_weights(tasks, behind[to_index(tasks[0].stage)]);
      }
    }
    return schedule;
  }
  friend bool operator==(zero_bubble const&, zero_bubble const&) = default;

 private:
  /// Moves the weights passes of a rank under 1F1B.
  static void delay_weights(std::vector<pipeline_task>& tasks, std::size_t behind)
  {
    auto const is = [&](std::size_t at, pass direction) { return tasks[at].pass == direction; };
    std::size_t ahead = 0;
    while (ahead < tasks.size() && is(ahead, pass::forward)) { ++ahead; }
    std::size_t const room = ahead + behind;
    std::size_t forwards_left = tasks.size() / detail::stage_passes - ahead;
    std::size_t kept = ahead;
    std::vector<pipeline_task> moved(tasks.begin(),
                                     tasks.begin() + static_cast<std::ptrdiff_t>(ahead));
    moved.reserve(tasks.size());
    std::vector<pipeline_task> waiting;
    std::size_t done = 0;
    for (std::size_t at = ahead; at < tasks.size(); ++at) {
      if (is(at, pass::weights)) {
        waiting.push_back(tasks[at]);
        while (done < waiting.size() &&
               (waiting.size() - done > behind || (forwards_left > 0 && kept >= room))) {
          moved.push_back(waiting[done++]);
          --kept;
        }
        continue;
      }
      moved.push_back(tasks[at]);
      if (is(at, pass::forward)) {
        ++kept;
        --forwards_left;
      }
    }
    moved.insert(moved.end(), waiting.begin() + static_cast<std::ptrdiff_t>(done), waiting.end());
    tasks = std::move(moved);
  }
};

}  // namespace ballast::inline v0
