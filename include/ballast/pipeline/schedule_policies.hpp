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
        if (!detail::has_pass(stages[stage], direction)) { return; }
        for (std::uint32_t position = 0; position < microbatches; ++position) {
          tasks.push_back({position, stage, direction});
        }
      };
      std::span<stage_id const> const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
      for (stage_id const stage : of_rank) { pass_all(stage, pass::forward); }
      for (std::size_t left = of_rank.size(); left-- > 0;) {
        pass_all(of_rank[left], pass::backward);
        pass_all(of_rank[left], pass::weights);
      }
    }
    return schedule;
  }
  friend bool operator==(gpipe const&, gpipe const&) = default;
};

namespace detail {

/// Adds the forward of forward(k), and the backward and the weights pass of backward(k), for all k
/// below `count`, as far as stages have them: backward k after forward k + `ahead`, or after the last
/// one.
template <class Forward, class Backward>
void alternate_passes(stage_graph const& stages, std::vector<pipeline_task>& tasks,
                      std::size_t count, std::size_t ahead, Forward const& forward,
                      Backward const& backward)
{
  auto const add = [&](pipeline_task task, pass direction) {
    task.pass = direction;
    if (has_pass(stages[task.stage], direction)) { tasks.push_back(task); }
  };
  for (std::size_t turn = 0; turn < count + ahead; ++turn) {
    if (turn < count) { add(forward(turn), pass::forward); }
    if (turn < ahead) { continue; }
    add(backward(turn - ahead), pass::backward);
    add(backward(turn - ahead), pass::weights);
  }
}

/// How many stages, transfers not counted, the farthest one that each stage feeds is away.
[[nodiscard]] inline std::vector<std::size_t> stages_ahead(stage_graph const& stages)
{
  std::vector<std::size_t> depth(stages.stages(), 0);
  for (std::size_t stage = stages.stages(); stage-- > 0;) {
    for (auto const& [from, to, transfer] : stages.links_out_of(to_id<stage_id>(stage))) {
      std::size_t const step = stages[to].part == model_part::transfer ? 0 : 1;
      depth[stage] = std::max(depth[stage], depth[to_index(to)] + step);
    }
  }
  return depth;
}

/// 1F1B in which each stage begins with one forward, and so many more for each stage ahead of it.
[[nodiscard]] inline result<pipeline_schedule> alternate_stages(stage_graph const& stages,
                                                                std::size_t microbatches,
                                                                std::size_t for_each_ahead)
{
  if (auto const fits = check_microbatches(stages, microbatches); !fits) {
    return tl::unexpected(fits.error());
  }
  std::vector<std::size_t> const depth = stages_ahead(stages);
  pipeline_schedule schedule{microbatches, {}};
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    auto const of_rank = stages.stages_on(to_id<pipeline_rank>(rank));
    if (of_rank.size() > 1) {
      return fail(error_code::infeasible, rank, "pipeline rank ", rank, " has ",
                  counted(of_rank.size(), "stage"),
                  ", and 1F1B is for one; use the interleaved schedule or GPipe");
    }
    stage_id const stage = of_rank.front();
    auto const task_at = [stage](std::size_t turn) {
      return pipeline_task{static_cast<std::uint32_t>(turn), stage};
    };
    alternate_passes(stages, schedule.ranks.emplace_back(), microbatches,
                     for_each_ahead * depth[to_index(stage)], task_at, task_at);
  }
  return schedule;
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
    return detail::alternate_stages(stages, microbatches, 1);
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
      auto const task_at = [&](std::uint32_t position, std::size_t chunk) {
        return pipeline_task{position, to_id<stage_id>(of.first_stage + chunk * of.ranks + rank)};
      };
      detail::alternate_passes(
          stages, schedule.ranks[of.first_rank + rank], visits.size(), ahead,
          [&](std::size_t turn) { return task_at(visits[turn].position, visits[turn].chunk); },
          [&](std::size_t turn) {
            return task_at(visits[turn].position, others - visits[turn].chunk);
          });
      ahead += rank > 0 ? 2 : 0;
    }
    bool const is_transfer = stages[to_id<stage_id>(of.first_stage)].part == model_part::transfer;
    return is_transfer ? behind : (ahead + 1 + 2 * others * largest) / of.chunks;
  }
};

/// Zero bubble: weights passes fill the time in which 1F1B waits for gradients, with the memory of
/// 1F1B's fullest rank or with twice that.
///
/// A stage whose farthest stage ahead is d away and behind which the farthest is h away begins as in
/// 1F1B with d + 1 forwards, or with 2 d + 1. Then gradients of inputs and forwards alternate, and
/// weights passes follow the former while more than h of them wait, or while d + h + 1 microbatches
/// are kept and a forward is left; the others come in the end. With twice the memory more of them
/// wait, h or as many as there are microbatches beyond d + h + 1, and 2 (d + h) + 1 are kept. Where
/// backwards are whole it is 1F1B, or that with 2 d + 1 forwards.
///
/// Ensures     (1) a rank keeps at most d + h + 1 microbatches, or 2 (d + h) + 1
///             (2) on a chain of p ranks whose passes all take one unit, l >= p microbatches take 3 l
///             + p - 1 units, for p to 32 and l to 3 p
///             (3) with twice the memory no rank of that chain idles between its first task and its
///             last one, where l >= 2 p - 1
/// Errors      those of one_forward_one_backward.
/// Complexity  O(tasks + links).
/// Source      P. Qi, X. Wan, G. Huang, M. Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024,
///             ZB-H1 and ZB-H2.
struct zero_bubble {
  bool twice_the_memory = false;

  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    std::size_t const times = twice_the_memory ? 2 : 1;
    auto schedule = detail::alternate_stages(stages, microbatches, times);
    if (!schedule) { return schedule; }
    std::vector<std::size_t> const ahead = detail::stages_ahead(stages);
    std::vector<std::size_t> behind(stages.stages());
    for (stage_link const& link : stages.links()) {
      std::size_t const step = stages[link.from].part == model_part::transfer ? 0 : 1;
      behind[to_index(link.to)] =
          std::max(behind[to_index(link.to)], behind[to_index(link.from)] + step);
    }
    for (auto& tasks : schedule->ranks) {
      if (tasks.empty() || !stages[tasks[0].stage].weights) { continue; }
      std::size_t const waiting = behind[to_index(tasks[0].stage)];
      std::size_t const path = ahead[to_index(tasks[0].stage)] + waiting;
      std::size_t const beyond = microbatches - std::min(microbatches, path + 1);
      delay_weights(tasks, waiting + (times - 1) * std::min(waiting, beyond), times * path + 1);
    }
    return schedule;
  }
  friend bool operator==(zero_bubble const&, zero_bubble const&) = default;

 private:
  /// Moves the weights passes of a rank under 1F1B behind so many others, but keeps to its room.
  static void delay_weights(std::vector<pipeline_task>& tasks, std::size_t most_waiting,
                            std::size_t room)
  {
    auto const is = [&](std::size_t at, pass direction) { return tasks[at].pass == direction; };
    std::size_t forwards_left = tasks.size() / detail::stage_passes;
    std::size_t kept = 0;
    std::vector<pipeline_task> moved;
    moved.reserve(tasks.size());
    std::vector<pipeline_task> waiting;
    std::size_t done = 0;
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      if (!is(at, pass::weights)) {
        moved.push_back(tasks[at]);
        kept += is(at, pass::forward);
        forwards_left -= is(at, pass::forward);
        continue;
      }
      waiting.push_back(tasks[at]);
      while (done < waiting.size() &&
             (waiting.size() - done > most_waiting || (forwards_left > 0 && kept >= room))) {
        moved.push_back(waiting[done++]);
        --kept;
      }
    }
    moved.insert(moved.end(), waiting.begin() + static_cast<std::ptrdiff_t>(done), waiting.end());
    tasks = std::move(moved);
  }
};

namespace detail {

/// Writes what one rank of a chain in a V does, each pass of a chunk in the order of positions. Rules
/// for more microbatches than there are leave the others out.
class v_tasks {
 public:
  v_tasks(stage_graph const& stages, std::size_t rank, std::size_t microbatches)
      : stages_(stages), own_(stages.stages_on(to_id<pipeline_rank>(rank))), count_(microbatches)
  {}

  void forward(std::size_t chunk) { add(chunk, pass::forward); }
  void inputs(std::size_t chunk)
  {
    add(chunk, pass::backward);
    waiting_.push_back(chunk);
  }
  /// The first weights pass of a chunk that waits, if there is one.
  void weights(std::size_t chunk)
  {
    auto const first = std::find(waiting_.begin(), waiting_.end(), chunk);
    if (first == waiting_.end()) { return; }
    waiting_.erase(first);
    add(chunk, pass::weights);
  }
  void first_weights() { weights(waiting_.front()); }
  void whole_backward(std::size_t chunk)
  {
    add(chunk, pass::backward);
    add(chunk, pass::weights);
  }
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }
  [[nodiscard]] std::vector<pipeline_task> take() noexcept { return std::move(tasks_); }

 private:
  void add(std::size_t chunk, pass direction)
  {
    std::uint32_t const position = next_[chunk][static_cast<std::size_t>(direction)]++;
    if (position >= count_ || !has_pass(stages_[own_[chunk]], direction)) { return; }
    tasks_.push_back({position, own_[chunk], direction});
  }

  stage_graph const& stages_;
  std::span<stage_id const> own_;
  std::size_t count_;
  std::array<std::array<std::uint32_t, stage_passes>, 2> next_{};
  std::vector<std::size_t> waiting_;  // chunks of weights passes, in the order of their backwards
  std::vector<pipeline_task> tasks_;
};

/// Has rule(rank, tasks) write the tasks of every rank of a chain in a V; refuses other stages.
template <class Rule>
[[nodiscard]] result<pipeline_schedule> write_v(stage_graph const& stages, std::size_t microbatches,
                                                Rule const& rule)
{
  if (auto const fits = check_microbatches(stages, microbatches); !fits) {
    return tl::unexpected(fits.error());
  }
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const fed_by = stages.links_into(to_id<stage_id>(stage));
    bool const linked =
        stage == 0 ? fed_by.empty() : fed_by.size() == 1 && to_index(fed_by[0].from) == stage - 1;
    std::size_t const rank = stage < stages.ranks() ? stage : 2 * stages.ranks() - 1 - stage;
    if (linked && stages.stages() == 2 * stages.ranks() &&
        to_index(stages[to_id<stage_id>(stage)].rank) == rank) {
      continue;
    }
    return fail(error_code::infeasible, stage, "stage ", stage, " of ", stages.stages(),
                " does not continue a chain that goes up ", counted(stages.ranks(), "rank"),
                " and down again, which schedules in a V are for; put stages r and ",
                2 * stages.ranks() - 1, " - r on rank r, or use the interleaved schedule");
  }
  pipeline_schedule schedule{microbatches, {}};
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    v_tasks tasks(stages, rank, microbatches);
    rule(rank, tasks);
    schedule.ranks.push_back(tasks.take());
  }
  return schedule;
}

template <class Step>
void repeat(std::size_t count, Step const& step)
{
  for (std::size_t turn = 0; turn < count; ++turn) { step(); }
}

}  // namespace detail

/// Zero bubble in a V: a chain goes up the p ranks and down again, so that rank r has stages r and
/// 2 p - 1 - r, each half as long, and the last rank turns a microbatch round at once.
///
/// Rank r begins with 2 (p - r) - 1 forwards of its first chunk and r pairs of a forward of each;
/// then p - r forwards of the second chunk, each with its backward and weights pass. From there on
/// forward, backward and weights pass of either chunk alternate; in the end weights passes wait for
/// backwards that others wait for. It is written for 2 p - 1 microbatches or more; fewer leave out
/// the tasks of the others.
///
/// Ensures     (1) a rank keeps at most 2 p chunks of microbatches, as much as p microbatches
///             (2) where all passes take one unit, l >= 2 p - 1 microbatches take 6 l + p - 1, and no
///             rank idles between its first task and its last one
///             (3) it never deadlocks
/// Errors      infeasible: the stages are no chain in a V, and stage `position` is the first that
///             differs; out_of_range: there would be 2^31 tasks or more.
/// Complexity  O(tasks + ranks^2).
/// Source      P. Qi, X. Wan, N. Amar, M. Lin, "Pipeline Parallelism with Controllable Memory",
///             NeurIPS 2024, V-ZB, as PyTorch's ScheduleZBVZeroBubble has it.
struct zero_bubble_v {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    std::size_t const ranks = stages.ranks();
    std::size_t const count = std::max(microbatches, 2 * ranks - 1);
    return detail::write_v(stages, microbatches, [&](std::size_t rank, detail::v_tasks& tasks) {
      std::size_t const early = 2 * (ranks - rank) - 1 + rank;  // forwards of the first chunk
      detail::repeat(early - rank, [&] { tasks.forward(0); });
      detail::repeat(rank, [&] {
        tasks.forward(1);
        tasks.forward(0);
      });
      auto const turn_round = [&] {
        tasks.forward(1);
        tasks.whole_backward(1);
      };
      detail::repeat(ranks - rank, turn_round);
      for (std::size_t turn = ranks; turn < count; ++turn) {
        if (turn - ranks < count - early) { tasks.forward(0); }
        tasks.whole_backward(0);
        turn_round();
      }
      detail::repeat(rank, [&] {
        tasks.inputs(0);
        tasks.inputs(1);
      });
      detail::repeat(ranks - rank, [&] {
        tasks.inputs(0);
        tasks.weights(0);
      });
      detail::repeat(rank, [&] { tasks.weights(1); });
      detail::repeat(rank, [&] { tasks.weights(0); });
    });
  }
  friend bool operator==(zero_bubble_v const&, zero_bubble_v const&) = default;
};

/// DualPipeV: the same V, in which a forward of one microbatch and the backward of another follow
/// each other, so that a rank can do them side by side and hide what they transfer.
///
/// Rank r begins with 2 (p - r - 1) forwards of its first chunk, r + 1 pairs of a forward of each,
/// and p - r - 1 backwards, weights passes and forwards of the second; then pairs of a forward and a
/// whole backward, of either chunk in turn. In the end weights passes wait for backwards that others
/// wait for. It is written for 2 p microbatches or more; fewer leave out the tasks of the others. The
/// two-way DualPipe has each stage on two ranks and cannot be written as a schedule.
///
/// Ensures     (1) a rank keeps at most 2 p + 1 chunks of microbatches
///             (2) where all passes take one unit, l >= 2 p microbatches take 6 l + p - 1
///             (3) it never deadlocks
/// Errors      those of zero_bubble_v.
/// Complexity  O(tasks + ranks^2).
/// Source      DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, and its repository DualPipe; the
///             V: P. Qi et al., "DualPipe could be better without the Dual", 2025.
struct dual_pipe_v {
  [[nodiscard]] result<pipeline_schedule> operator()(stage_graph const& stages,
                                                     std::size_t microbatches) const
  {
    std::size_t const ranks = stages.ranks();
    std::size_t const count = std::max(microbatches, 2 * ranks);
    return detail::write_v(stages, microbatches, [&](std::size_t rank, detail::v_tasks& tasks) {
      std::size_t const behind = ranks - rank - 1;
      detail::repeat(2 * behind, [&] { tasks.forward(0); });
      detail::repeat(rank + 1, [&] {
        tasks.forward(0);
        tasks.forward(1);
      });
      detail::repeat(behind, [&] {
        tasks.inputs(1);
        tasks.first_weights();
        tasks.forward(1);
      });
      auto const pair = [&](std::size_t chunk) {
        tasks.forward(chunk);
        tasks.whole_backward(1 - chunk);
      };
      detail::repeat(count - 2 * ranks + rank + 1, [&] {
        pair(0);
        pair(1);
      });
      detail::repeat(behind, [&] {
        tasks.whole_backward(1);
        pair(1);
      });
      for (std::size_t turn = 0; turn < 2 * (rank + 1); ++turn) {
        if (turn <= rank) {
          tasks.whole_backward(1 - turn % 2);
        } else {
          tasks.inputs(1 - turn % 2);
        }
      }
      detail::repeat(behind, [&] {
        tasks.first_weights();
        tasks.inputs(0);
      });
      detail::repeat(tasks.waiting(), [&] { tasks.first_weights(); });
    });
  }
  friend bool operator==(dual_pipe_v const&, dual_pipe_v const&) = default;
};

}  // namespace ballast::inline v0
