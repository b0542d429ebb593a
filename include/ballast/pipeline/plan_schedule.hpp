// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/detail/open_step.hpp>
#include <ballast/pipeline/schedule_policies.hpp>

namespace ballast::inline v0 {

/// A schedule that was made for the microbatches of one step, and their order.
///
/// Ensures     (1) compiled_schedule::make takes the schedule, check_memory() finds no fault, and
///             simulate() of both takes `makespan`
///             (2) no schedule of these tasks within this memory takes less than lower_bound
struct schedule_plan : certified<time_units> {
  pipeline_schedule schedule;
  std::vector<microbatch_id> order;  ///< the microbatch at each position of the schedule
  /// By stage, when its last pass with gradients of weights ends: its all-reduce can begin then. 0
  /// where it has none.
  std::vector<time_units> weights_end;
};

namespace detail {

/// A time that no schedule of a step gets below: the largest of
///   (a) the longest path of a microbatch;
///   (b) for every rank and any tasks of it, the earliest start of the first, their work, and the
///       shortest way from one of them to the end;
///   (c) the same of all tasks with what no rank can do while it waits: before the first gradient
///       reaches it, a rank can only do forwards that are kept together, and after its last
///       gradient of inputs only weights passes that were kept together;
///   (d) for every rank, the bytes that a microbatch keeps times how long it keeps them at the
///       least, summed over all, over what the rank may keep. Before the sum, bytes are rounded
///       by a dual feasible function, which is why two microbatches that do not fit together count
///       as one after the other;
///   (e) the longest path of a microbatch, from its first forward to its last backward, and of each
///       other one the shortest task on that path: it is done before the path begins, or ends it,
///       or it overtakes somewhere, and then the microbatch waits at that place for its task.
///
/// Complexity  O(microbatches x (stages + links) + tasks x log(tasks)).
/// Source      (b): J. Carlier, "The One-Machine Sequencing Problem", European Journal of Operational
///             Research 11(1):42-47, 1982. (d): area (energy) bounds of cumulative scheduling; the functions: S. P. Fekete,
///             J. Schepers, "New Classes of Fast Lower Bounds for Bin Packing Problems",
///             Mathematical Programming 91(1):11-31, 2001.
class open_step_bound {
 public:
  explicit open_step_bound(open_step const& step)
      : step_(step), there_and_back_(step.stages().stages() * step.microbatches())
  {
    for (std::uint32_t at = 0; at < step.microbatches(); ++at) { look_up_ways(at); }
  }

  [[nodiscard]] time_units operator()() const
  {
    time_units bound = 0;
    for (std::uint32_t task = 0; task < step_.numbers(); ++task) {
      bound = std::max(bound, step_.head(task) + step_.duration(task) + step_.tail(task));
    }
    for (std::size_t rank = 0; rank < step_.ranks(); ++rank) {
      bound = std::max({bound, work_of(rank), ends_of(rank), memory_of(rank)});
    }
    return std::max(bound, longest_passed());
  }

 private:
  static constexpr time_units none = std::numeric_limits<time_units>::max() / 4;

  template <class Visit>
  void for_each_task(std::size_t rank, Visit const& visit) const
  {
    for (std::size_t column = 0; column < step_.columns(); ++column) {
      if (step_.rank_of(column) != rank || !step_.exists(column)) { continue; }
      for (std::uint32_t at = 0; at < step_.microbatches(); ++at) {
        visit(step_.number(column, at), open_step::pass_of(column));
      }
    }
  }

  /// The longest of: the earliest start of some tasks of a rank, their work, and the shortest way to
  /// the end after them. Jackson's preemptive schedule finds it for all sets of tasks at once.
  [[nodiscard]] time_units work_of(std::size_t rank) const
  {
    std::vector<std::uint32_t> tasks;
    tasks.reserve(step_.tasks_on(rank));
    for_each_task(rank, [&tasks](std::uint32_t task, pass) { tasks.push_back(task); });
    std::sort(tasks.begin(), tasks.end(), [this](std::uint32_t a, std::uint32_t b) {
      return precedes(step_.head(a), step_.head(b), a, b);
    });
    struct part {
      time_units tail;
      time_units left;
    };
    auto const by_tail = [](part const& a, part const& b) { return a.tail < b.tail; };
    std::vector<part> begun;
    begun.reserve(tasks.size());
    time_units now = 0;
    time_units bound = 0;
    for (std::size_t at = 0; at < tasks.size() || !begun.empty();) {
      if (begun.empty()) { now = std::max(now, step_.head(tasks[at])); }
      for (; at < tasks.size() && step_.head(tasks[at]) <= now; ++at) {
        begun.push_back({step_.tail(tasks[at]), step_.duration(tasks[at])});
        std::push_heap(begun.begin(), begun.end(), by_tail);
      }
      time_units const until =
          at < tasks.size() ? step_.head(tasks[at]) : std::numeric_limits<time_units>::max();
      part& first = begun.front();
      time_units const done = std::min(first.left, until - now);
      now += done;
      first.left -= done;
      if (first.left > 0) { continue; }
      bound = std::max(bound, now + first.tail);
      std::pop_heap(begun.begin(), begun.end(), by_tail);
      begun.pop_back();
    }
    return bound;
  }

  struct pass_sums {
    time_units work = 0;
    time_units head = none;
    time_units tail = none;
  };

  [[nodiscard]] pass_sums sums_of(std::size_t rank, pass direction) const
  {
    pass_sums of;
    for_each_task(rank, [&](std::uint32_t task, pass own) {
      if (own != direction) { return; }
      of.work += step_.duration(task);
      of.head = std::min(of.head, step_.head(task));
      of.tail = std::min(of.tail, step_.tail(task));
    });
    return of;
  }

  /// All work of a rank, and what it cannot do while it waits at both ends.
  [[nodiscard]] time_units ends_of(std::size_t rank) const
  {
    pass_sums const forward = sums_of(rank, pass::forward);
    pass_sums const backward = sums_of(rank, pass::backward);
    pass_sums const weights = sums_of(rank, pass::weights);
    if (backward.head == none || forward.head == none) { return 0; }
    time_units const before =
        backward.head - std::min(most_together(rank, pass::forward), backward.head - forward.head);
    time_units after = backward.tail;
    if (weights.head != none) {
      after = std::max<time_units>(0, after - most_together(rank, pass::weights));
    }
    return before + forward.work + backward.work + weights.work + after;
  }

  /// How long the passes of one kind take at the most that a rank can do one after the other while
  /// nothing is freed for forwards, or while what it keeps is for weights passes: the fractional
  /// knapsack.
  [[nodiscard]] time_units most_together(std::size_t rank, pass direction) const
  {
    struct item {
      time_units time;
      std::int64_t bytes;
    };
    std::vector<item> items;
    for_each_task(rank, [&](std::uint32_t task, pass own) {
      if (own != direction) { return; }
      items.push_back({step_.duration(task), std::abs(step_.change(task))});
    });
    std::sort(items.begin(), items.end(), [](item const& a, item const& b) {
      return static_cast<uint128>(a.time) * static_cast<uint128>(b.bytes) >
             static_cast<uint128>(b.time) * static_cast<uint128>(a.bytes);
    });
    time_units together = 0;
    std::int64_t room = step_.most(rank);
    for (item const& each : items) {
      if (each.bytes > room) {
        auto const part = static_cast<uint128>(each.time) * static_cast<uint128>(room) /
                          static_cast<uint128>(each.bytes);
        return together + static_cast<time_units>(part) + 1;
      }
      room -= each.bytes;
      together += each.time;
    }
    return together;
  }

  /// From the start of a microbatch's forward on each stage to the end of its backward there at the
  /// least: over the stages that it feeds, one after the other.
  void look_up_ways(std::uint32_t at)
  {
    std::size_t const stages = step_.stages().stages();
    auto const longest = mutable_span_of(there_and_back_, at * stages, stages);
    for (std::size_t left = stages; left-- > 0;) {
      auto const own = to_id<stage_id>(left);
      if (!has_pass(step_.stages()[own], pass::backward)) { continue; }
      for (stage_link const& link : step_.stages().links_out_of(own)) {
        bool const returns = has_pass(step_.stages()[link.to], pass::forward) &&
                             has_pass(step_.stages()[link.to], pass::backward);
        if (!returns) { continue; }
        longest[left] = std::max(longest[left], longest[to_index(link.to)] + 2 * link.transfer);
      }
      longest[left] += step_.duration(step_.number(column_of(own, pass::forward), at)) +
                       step_.duration(step_.number(column_of(own, pass::backward), at));
    }
  }

  [[nodiscard]] time_units memory_of(std::size_t rank) const
  {
    std::int64_t const room = step_.most(rank);
    if (room == std::numeric_limits<std::int64_t>::max() || room == 0) { return 0; }
    time_units head = none;
    time_units tail = none;
    constexpr std::int64_t most_parts = 8;
    std::array<uint128, most_parts> area{};  // of part / (room x part) each
    auto const add = [&](std::int64_t bytes, time_units time) {
      for (std::int64_t part = 1; part <= most_parts; ++part) {
        auto const scaled = static_cast<uint128>(bytes) * static_cast<uint128>(part + 1);
        auto const whole = static_cast<uint128>(room);
        bool const exact = scaled % whole == 0;
        auto const rounded = exact ? static_cast<uint128>(bytes) * static_cast<uint128>(part)
                                   : scaled / whole * whole;
        area[static_cast<std::size_t>(part - 1)] += rounded * static_cast<uint128>(time);
      }
    };
    for (stage_id const stage : step_.stages().stages_on(to_id<pipeline_rank>(rank))) {
      pipeline_stage const& own = step_.stages()[stage];
      if (!own.backward || !own.has_forward() || own.part == model_part::transfer) { continue; }
      for (std::uint32_t at = 0; at < step_.microbatches(); ++at) {
        std::uint32_t const forward = step_.number(column_of(stage, pass::forward), at);
        std::uint32_t const backward = step_.number(column_of(stage, pass::backward), at);
        std::uint32_t const weights = step_.number(column_of(stage, pass::weights), at);
        add(step_.change(forward), there_and_back_[at * step_.stages().stages() + to_index(stage)]);
        head = std::min(head, step_.head(forward));
        if (own.weights) { add(-step_.change(weights), step_.duration(weights)); }
        tail = std::min(tail, own.weights ? step_.tail(weights) : step_.tail(backward));
      }
    }
    if (head == none) { return 0; }
    uint128 longest = 0;
    for (std::int64_t part = 1; part <= most_parts; ++part) {
      auto const whole = static_cast<uint128>(room) * static_cast<uint128>(part);
      longest = std::max(longest, (area[static_cast<std::size_t>(part - 1)] + whole - 1) / whole);
    }
    return head + static_cast<time_units>(longest) + tail;
  }

  /// The longest paths of single microbatches, with what each other one delays them at the least.
  [[nodiscard]] time_units longest_passed() const
  {
    struct begin {
      time_units path;
      std::uint32_t task;
    };
    std::vector<begin> longest(step_.microbatches(), begin{-1, 0});
    for (std::uint32_t task = 0; task < step_.numbers(); ++task) {
      time_units const path = step_.duration(task) + step_.tail(task);
      begin& of = longest[step_.microbatch(task)];
      if (step_.head(task) == 0 && path > of.path) { of = {path, task}; }
    }
    std::size_t const most = std::min<std::size_t>(longest.size(), 4);
    std::partial_sort(
        longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(most), longest.end(),
        [](begin const& a, begin const& b) { return precedes(-a.path, -b.path, a.task, b.task); });
    time_units bound = 0;
    for (std::size_t at = 0; at < most; ++at) {
      bound = std::max(bound, longest[at].path + delays_of(longest[at].task));
    }
    return bound;
  }

  /// How long the other microbatches delay one at the least, on its longest path from a task on.
  [[nodiscard]] time_units delays_of(std::uint32_t task) const
  {
    std::uint32_t const own = step_.microbatch(task);
    std::vector<time_units> delays(step_.microbatches(), none);
    while (true) {
      std::size_t const column = step_.column(task);
      std::uint32_t next = no_task;
      std::size_t weights = column;
      for (auto const& [other, transfer] : step_.needed_by(column)) {
        std::uint32_t const behind = step_.number(other, own);
        bool const own_weights = open_step::pass_of(other) == pass::weights;
        if (own_weights) { weights = other; }
        if (step_.duration(behind) + step_.tail(behind) + transfer != step_.tail(task)) {
          continue;
        }
        if (!own_weights) { next = behind; }
      }
      for (std::uint32_t at = 0; at < step_.microbatches(); ++at) {
        time_units delay = step_.duration(step_.number(column, at));
        if (next == no_task && weights != column) {
          delay += step_.duration(step_.number(weights, at));
        }
        delays[at] = std::min(delays[at], delay);
      }
      if (next == no_task) { break; }
      task = next;
    }
    time_units sum = -delays[own];
    for (time_units const delay : delays) { sum += delay; }
    return sum;
  }

  open_step const& step_;
  std::vector<time_units> there_and_back_;  // of each microbatch and stage
};

/// Searches for short sequences: by orders under the greedy rule, and by moves of single tasks.
///
/// A move takes a task that the step is as long as because of the one before it on its rank, and
/// puts it before that one or further, or that one behind it; or it moves any task; or it
/// exchanges two microbatches, everywhere or on one rank. A longer step is accepted up to a
/// threshold that falls to 0.
///
/// Source      tasks on the longest path: P. J. M. van Laarhoven, E. H. L. Aarts, J. K. Lenstra,
///             "Job Shop Scheduling by Simulated Annealing", Operations Research 40(1):113-125,
///             1992; thresholds: G. Dueck, T. Scheuer, "Threshold Accepting", Journal of
///             Computational Physics 90(1):161-175, 1990.
class sequence_search {
 public:
  sequence_search(open_step const& step, time_units bound, std::uint64_t steps, std::uint64_t seed)
      : step_(step),
        bound_(bound),
        left_(steps),
        random_(seed),
        greedy_(step),
        tried_(step),
        now_(step)
  {}

  [[nodiscard]] task_sequences const& best() const noexcept { return best_; }
  [[nodiscard]] time_units makespan() const noexcept { return makespan_; }
  [[nodiscard]] std::uint64_t left() const noexcept { return left_; }
  [[nodiscard]] bool is_done() const noexcept { return left_ == 0 || makespan_ <= bound_; }
  [[nodiscard]] random_source& random() noexcept { return random_; }

  /// Takes these sequences if they keep within memory and are the best so far.
  void offer(task_sequences const& sequences)
  {
    if (!step_.fits(sequences)) { return; }
    spend(tried_.simulate(step_, sequences));
    take(sequences, tried_.makespan);
  }

  /// What the greedy rule makes of an order; no_makespan where that takes longer than `most`.
  time_units decode(std::span<std::uint32_t const> order, greedy_rule const& rule,
                    time_units most = no_makespan)
  {
    time_units const makespan = greedy_(decoded_, order, rule, random_, most);
    spend(greedy_price * (greedy_.done() + 1));
    if (makespan != no_makespan) { take(decoded_, makespan); }
    return makespan;
  }

  /// What decode() built last.
  [[nodiscard]] task_sequences const& decoded() const noexcept { return decoded_; }

  /// Moves microbatches of an order for as long as that many steps last, and starts again from a
  /// random one where that was long in vain. The order becomes the best that it found.
  void improve_order(std::vector<std::uint32_t>& order, greedy_rule const& rule,
                     std::uint64_t steps)
  {
    std::uint64_t const end = left_ - std::min(left_, steps);
    std::size_t const count = order.size();
    std::vector<std::uint32_t> current = order;
    time_units now = decode(span_of(order), rule);
    time_units least = now;
    std::size_t in_vain = 0;
    while (left_ > end && !is_done() && count > 1) {
      std::vector<std::uint32_t> other = current;
      bool const again = in_vain > 3 * count * count;
      if (again) {
        random_.shuffle(std::span<std::uint32_t>(other));
      } else {
        change_order(other);
      }
      time_units const makespan = decode(span_of(other), rule, again ? no_makespan : now);
      ++in_vain;
      if (makespan > now && !again) { continue; }
      if (makespan < now || again) { in_vain = 0; }
      now = makespan;
      current = std::move(other);
      if (now >= least) { continue; }
      least = now;
      order = current;
    }
  }

  /// Moves tasks, for as long as that many steps last.
  void improve(task_sequences sequences, std::uint64_t steps, time_units threshold)
  {
    std::uint64_t const begin = left_;
    std::uint64_t const end = left_ - std::min(left_, steps);
    spend(now_.simulate(step_, sequences));
    find_critical(sequences);
    while (left_ > end && !is_done()) {
      auto const allowed =
          static_cast<time_units>(static_cast<uint128>(threshold) * (left_ - end) / (begin - end));
      spend(8);
      std::uint64_t const kind = random_.below(10);
      bool const moved = kind < 8 ? move_task(sequences, kind < 7, now_.makespan + allowed)
                                  : exchange(sequences, now_.makespan + allowed);
      if (!moved) { continue; }
      std::swap(now_, tried_);
      take(sequences, now_.makespan);
      find_critical(sequences);
    }
  }

 private:
  static constexpr std::uint64_t greedy_price = 4;  // of a task, in tasks that are simulated

  void spend(std::uint64_t steps) { left_ -= std::min(left_, steps); }

  void take(task_sequences const& sequences, time_units makespan)
  {
    if (makespan >= makespan_) { return; }
    makespan_ = makespan;
    best_ = sequences;
  }

  template <class T>
  static void move(std::vector<T>& list, std::size_t from, std::size_t to)
  {
    auto const at = [&](std::size_t index) {
      return list.begin() + static_cast<std::ptrdiff_t>(index);
    };
    if (to < from) {
      std::rotate(at(to), at(from), at(from + 1));
    } else {
      std::rotate(at(from), at(from + 1), at(to + 1));
    }
  }

  void change_order(std::vector<std::uint32_t>& order)
  {
    auto const from = static_cast<std::size_t>(random_.below(order.size()));
    auto to = static_cast<std::size_t>(random_.below(order.size() - 1));
    to += to >= from ? 1 : 0;
    if (random_.below(4) == 0) {
      std::swap(order[from], order[to]);
    } else {
      move(order, from, to);
    }
  }

  /// The tasks of one longest path that wait for the one before them on their rank.
  void find_critical(task_sequences const& sequences)
  {
    critical_.clear();
    std::uint32_t task = no_task;
    for (auto const& tasks : sequences) {
      if (tasks.empty() || now_.end[tasks.back()] != now_.makespan) { continue; }
      if (task == no_task || random_.below(2) == 0) { task = tasks.back(); }
    }
    while (task != no_task) {
      std::uint32_t const column = step_.column(task);
      std::uint32_t before = no_task;
      std::uint64_t choices = 0;
      if (now_.index[task] > 0) {
        std::uint32_t const other = sequences[step_.rank_of(column)][now_.index[task] - 1];
        if (now_.end[other] == now_.start[task]) {
          critical_.push_back(task);
          before = other;
          choices = 1;
        }
      }
      for (auto const& [other, transfer] : step_.needs(column)) {
        std::uint32_t const need = step_.number(other, step_.microbatch(task));
        if (need == before || now_.end[need] + transfer != now_.start[task]) { continue; }
        if (random_.below(++choices) == 0) { before = need; }
      }
      task = before;
    }
    spend(step_.tasks() / 8);
  }

  /// Whether these are of one microbatch on one stage, so that their order is given.
  [[nodiscard]] bool are_of_one(std::uint32_t a, std::uint32_t b) const
  {
    return step_.microbatch(a) == step_.microbatch(b) &&
           step_.column(a) / stage_passes == step_.column(b) / stage_passes;
  }

  bool move_task(task_sequences& sequences, bool critical, time_units most)
  {
    std::size_t rank = 0;
    std::size_t from = 0;
    std::size_t far = 1;
    bool const up = random_.below(2) == 0;
    if (critical) {
      if (critical_.empty()) { return false; }
      std::uint32_t const task = critical_[random_.below(critical_.size())];
      rank = step_.rank_of(step_.column(task));
      from = now_.index[task] - (up ? 0U : 1U);
      while (random_.below(2) == 0) { ++far; }
    } else {
      rank = static_cast<std::size_t>(random_.below(sequences.size()));
      if (sequences[rank].size() < 2) { return false; }
      from = static_cast<std::size_t>(random_.below(sequences[rank].size()));
      far += static_cast<std::size_t>(random_.below(12));
    }
    std::vector<std::uint32_t>& tasks = sequences[rank];
    std::size_t to = from;
    while (far > 0 && (up ? to > 0 : to + 1 < tasks.size())) {
      std::size_t const next = up ? to - 1 : to + 1;
      if (are_of_one(tasks[next], tasks[from])) { break; }
      to = next;
      --far;
    }
    if (to == from) { return false; }
    move(tasks, from, to);
    spend(tasks.size() / 4);
    if (step_.first_above(span_of(tasks), rank) == no_task && is_short(sequences, most)) {
      return true;
    }
    move(tasks, to, from);
    return false;
  }

  /// Exchanges two microbatches: on all ranks or on one, and in all passes or in the later ones.
  bool exchange(task_sequences& sequences, time_units most)
  {
    std::uint32_t const count = step_.microbatches();
    if (count < 2) { return false; }
    auto const a = static_cast<std::uint32_t>(random_.below(count));
    auto b = static_cast<std::uint32_t>(random_.below(count - 1));
    b += b >= a ? 1 : 0;
    std::uint64_t const kind = random_.below(4);
    auto const one = static_cast<std::size_t>(random_.below(sequences.size()));
    auto const first = static_cast<std::size_t>(kind >= 2 ? random_.below(stage_passes) : 0);
    bool const everywhere = kind == 0 || (kind == 3 && random_.below(2) == 0);
    auto const relabel = [&] {
      for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
        if (!everywhere && rank != one) { continue; }
        for (std::uint32_t& task : sequences[rank]) {
          std::uint32_t const column = step_.column(task);
          std::uint32_t const microbatch = step_.microbatch(task);
          if (column % stage_passes < first || (microbatch != a && microbatch != b)) { continue; }
          task = step_.number(column, microbatch == a ? b : a);
        }
      }
    };
    relabel();
    spend(step_.tasks() / 2);
    if (step_.fits(sequences) && is_short(sequences, most)) { return true; }
    relabel();
    return false;
  }

  bool is_short(task_sequences const& sequences, time_units most)
  {
    spend(tried_.simulate(step_, sequences, most));
    return tried_.makespan <= most;
  }

  open_step const& step_;
  time_units bound_;
  std::uint64_t left_;
  random_source random_;
  greedy_ranks greedy_;
  task_sequences decoded_;
  task_sequences best_;
  time_units makespan_ = no_makespan;
  sequence_times tried_;
  sequence_times now_;
  std::vector<std::uint32_t> critical_;
};

[[nodiscard]] inline task_sequences one_by_one(open_step const& step)
{
  task_sequences sequences(step.ranks());
  std::size_t const stages = step.stages().stages();
  for (std::uint32_t at = 0; at < step.microbatches(); ++at) {
    auto const add = [&](std::size_t stage, pass direction) {
      std::size_t const column = column_of(to_id<stage_id>(stage), direction);
      if (!step.exists(column)) { return; }
      sequences[step.rank_of(column)].push_back(step.number(column, at));
    };
    for (std::size_t stage = 0; stage < stages; ++stage) { add(stage, pass::forward); }
    for (std::size_t stage = stages; stage-- > 0;) {
      add(stage, pass::backward);
      add(stage, pass::weights);
    }
  }
  return sequences;
}

/// The sequences of a schedule whose positions are filled in an order.
[[nodiscard]] inline task_sequences sequences_of(open_step const& step,
                                                 pipeline_schedule const& schedule,
                                                 std::span<std::uint32_t const> order)
{
  task_sequences sequences(step.ranks());
  for (std::size_t rank = 0; rank < sequences.size(); ++rank) {
    for (pipeline_task const& task : schedule.ranks[rank]) {
      sequences[rank].push_back(step.number(column_of(task), order[task.position]));
    }
  }
  return sequences;
}

}  // namespace detail

/// How long plan_schedule() searches.
struct schedule_effort {
  /// Tasks that are simulated, or as much other work: about ten nanoseconds each.
  std::uint64_t steps = 2'800'000;
  std::uint64_t seed = 1;
};

namespace detail {

/// The best of some orders under a rule: the given one, shortest first, longest first, and long ones
/// in the middle or at both ends.
[[nodiscard]] inline std::vector<std::uint32_t> best_of_sorted(sequence_search& search,
                                                               open_step const& step,
                                                               std::vector<std::uint32_t> order,
                                                               greedy_rule const& rule)
{
  std::vector<time_units> total(order.size());
  for (std::uint32_t task = 0; task < step.numbers(); ++task) {
    total[step.microbatch(task)] += step.duration(task);
  }
  std::vector<std::uint32_t> rising = order;
  std::sort(rising.begin(), rising.end(),
            [&](std::uint32_t a, std::uint32_t b) { return precedes(total[a], total[b], a, b); });
  std::vector<std::uint32_t> middle(order.size());
  for (std::size_t at = 0; at < order.size(); ++at) {
    middle[at % 2 == 0 ? at / 2 : order.size() - 1 - at / 2] = rising[at];
  }
  std::vector<std::uint32_t> ends = middle;
  std::rotate(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(ends.size() / 2),
              ends.end());
  std::vector<std::uint32_t> const falling(rising.rbegin(), rising.rend());
  time_units least = search.decode(span_of(order), rule);
  for (auto const& other : {rising, falling, middle, ends}) {
    time_units const makespan = search.decode(span_of(other), rule);
    if (makespan >= least) { continue; }
    least = makespan;
    order = other;
  }
  return order;
}

inline void search_schedule(sequence_search& search, open_step const& step, std::uint64_t steps)
{
  std::size_t const ranks = step.ranks();
  std::vector<std::uint32_t> order(step.microbatches());
  std::iota(order.begin(), order.end(), 0U);
  search.offer(one_by_one(step));
  auto const offer = [&](result<pipeline_schedule> const& schedule) {
    if (schedule) { search.offer(sequences_of(step, *schedule, span_of(order))); }
  };
  offer(one_forward_one_backward{}(step.stages(), order.size()));
  offer(interleaved_one_forward_one_backward{}(step.stages(), order.size()));
  offer(zero_bubble{}(step.stages(), order.size()));
  offer(zero_bubble{true}(step.stages(), order.size()));
  offer(zero_bubble_v{}(step.stages(), order.size()));
  offer(dual_pipe_v{}(step.stages(), order.size()));

  std::array<greedy_rule, 3> rules;
  rules[1].room.resize(ranks);
  rules[2].room.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t const chunks = step.stages().stages_on(to_id<pipeline_rank>(rank)).size();
    rules[1].room[rank] = chunks * ranks;
    rules[2].room[rank] = chunks * (2 * (ranks - rank) - 1);
  }
  // The first rule is the best on most steps of unequal microbatches.
  std::uint64_t const of_phase = 1600 * step.tasks();
  std::vector<std::uint32_t> found = best_of_sorted(search, step, order, rules[0]);
  search.improve_order(found, rules[0], std::min(steps - steps / 8, 4 * of_phase));
  std::array<time_units, 3> makespans{};
  for (std::size_t at = 0; at < rules.size(); ++at) {
    makespans[at] = search.decode(span_of(found), rules[at]);
  }
  auto const best = static_cast<std::size_t>(std::min_element(makespans.begin(), makespans.end()) -
                                             makespans.begin());
  search.improve_order(found, rules[best], std::min(steps / 8, of_phase));
  // Small steps have many plans that no single move improves: they start often, and shortly.
  std::uint64_t const phases =
      std::clamp<std::uint64_t>(search.left() / (700 * step.tasks()), 1, 200);
  for (std::uint64_t phase = phases; phase > 0 && !search.is_done(); --phase) {
    task_sequences start = search.best();
    if (phase % 2 == 0) {
      random_source& random = search.random();
      random.shuffle(std::span<std::uint32_t>(order));
      greedy_rule rule = rules[static_cast<std::size_t>(random.below(rules.size()))];
      rule.noisy = true;
      if (search.decode(span_of(order), rule) != no_makespan) { start = search.decoded(); }
    }
    search.improve(std::move(start), search.left() / phase, search.makespan() / 25);
  }
}

[[nodiscard]] inline result<void> check_step(stage_graph const& stages, pipeline_times const& times,
                                             pipeline_memory const& memory)
{
  if (auto const fits = check_microbatches(stages, times.microbatches()); !fits) { return fits; }
  if (auto const sound = check_times_on(stages, times, times.microbatches()); !sound) {
    return sound;
  }
  if (memory.held.size() != times.rows.size()) {
    return fail(error_code::out_of_range, 0, "there are bytes for ", memory.held.size(),
                " microbatches times stages, and times for ", times.rows.size(),
                "; make them agree");
  }
  if (!memory.most.empty() && memory.most.size() != stages.ranks()) {
    return fail(error_code::out_of_range, 0, "there are limits for ",
                counted(memory.most.size(), "rank"), ", and the stages are on ", stages.ranks(),
                "; give one for each, or none");
  }
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  std::uint64_t total = 0;
  for (std::size_t microbatch = 0; microbatch < times.microbatches(); ++microbatch) {
    std::vector<std::uint64_t> of_rank(stages.ranks());
    for (std::size_t stage = 0; stage < times.stages; ++stage) {
      auto const& [held, for_weights] = memory.held[microbatch * times.stages + stage];
      if (for_weights > held || held > most - total) {
        return fail(error_code::out_of_range, microbatch, "microbatch ", microbatch, " keeps ",
                    held, " bytes on stage ", stage, " and ", for_weights,
                    for_weights > held ? " of them for weights; that is more"
                                       : " for weights, with which all are above 2^62");
      }
      total += held;
      pipeline_stage const& own = stages[to_id<stage_id>(stage)];
      std::uint64_t& bytes = of_rank[to_index(own.rank)];
      if (own.part == model_part::transfer) { continue; }
      bytes = own.backward ? bytes + held : std::max(bytes, held);
    }
    for (std::size_t rank = 0; rank < memory.most.size(); ++rank) {
      if (of_rank[rank] <= memory.most[rank]) { continue; }
      return fail(error_code::infeasible, microbatch, "microbatch ", microbatch, " alone keeps ",
                  of_rank[rank], " bytes on pipeline rank ", rank, ", which may keep ",
                  memory.most[rank], "; allow it more or make microbatches smaller");
    }
  }
  return {};
}

/// Writes sequences as a schedule: an order is that of the forwards on the first stage.
inline void write_plan(schedule_plan& plan, open_step const& step, task_sequences const& sequences)
{
  std::vector<std::uint32_t> position_of(step.microbatches());
  std::size_t const first = column_of(stage_id{0}, pass::forward);
  for (std::uint32_t const task : sequences[step.rank_of(first)]) {
    if (step.column(task) != first) { continue; }
    position_of[step.microbatch(task)] = static_cast<std::uint32_t>(plan.order.size());
    plan.order.push_back(to_id<microbatch_id>(step.microbatch(task)));
  }
  plan.schedule.microbatches = step.microbatches();
  sequence_times times(step);
  times.simulate(step, sequences);
  plan.makespan = times.makespan;
  plan.weights_end.assign(step.stages().stages(), 0);
  for (auto const& tasks : sequences) {
    auto& written = plan.schedule.ranks.emplace_back();
    written.reserve(tasks.size());
    for (std::uint32_t const task : tasks) {
      std::size_t const column = step.column(task);
      std::size_t const stage = column / stage_passes;
      pass const direction = open_step::pass_of(column);
      written.push_back({position_of[step.microbatch(task)], to_id<stage_id>(stage), direction});
      bool const is_last = step.stages()[to_id<stage_id>(stage)].weights
                               ? direction == pass::weights
                               : direction == pass::backward;
      if (is_last) { plan.weights_end[stage] = std::max(plan.weights_end[stage], times.end[task]); }
    }
  }
}

}  // namespace detail

/// Plans what every rank does and in which order it takes the microbatches, so that the step is
/// short and no rank keeps more than it may.
///
/// Starts are 1F1B, the zero-bubble rules, those for a V, a greedy rule with the room of one and of
/// two 1F1B's and with all, and one microbatch after the other; then orders and single tasks are
/// moved. Ranks may take the backwards and the weights passes, and even the forwards, in different
/// orders.
///
/// Expects     times and memory of microbatches that are numbered alike.
/// Ensures     (1) those of schedule_plan
///             (2) the plan depends on nothing but the arguments, so every rank finds the same one
///             (3) it takes no longer than 1F1B, interleaved 1F1B, zero_bubble, zero_bubble_v and
///             dual_pipe_v take on these stages in the order of the numbers, where their memory fits
/// Errors      infeasible: microbatch `position` alone keeps more on a rank than that may keep;
///             out_of_range: times, bytes or limits are not as many as the stages, microbatches or
///             ranks, or too large, or there would be 2^31 tasks or more.
/// Complexity  O(effort.steps + tasks x stages).
[[nodiscard]] inline result<schedule_plan> plan_schedule(stage_graph const& stages,
                                                         pipeline_times const& times,
                                                         pipeline_memory const& memory,
                                                         schedule_effort effort = {})
{
  if (auto const sound = detail::check_step(stages, times, memory); !sound) {
    return tl::unexpected(sound.error());
  }
  schedule_plan plan;
  if (times.microbatches() == 0) {
    plan.schedule.ranks.resize(stages.ranks());
    plan.weights_end.resize(stages.stages());
    return plan;
  }
  detail::open_step const step(stages, times, memory);
  plan.lower_bound = detail::open_step_bound(step)();
  detail::sequence_search search(step, plan.lower_bound, effort.steps, effort.seed);
  detail::search_schedule(search, step, effort.steps);
  detail::write_plan(plan, step, search.best());
  return plan;
}

}  // namespace ballast::inline v0
