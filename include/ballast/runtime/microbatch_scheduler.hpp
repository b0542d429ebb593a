// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/runtime/detail/group_microbatches.hpp>

namespace ballast::inline v0 {

namespace detail {

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
      bins_[module] = scratch.take<bin_sums>(size() * replicas_[module]);
    }
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
    for (std::size_t module = 0; module < D; ++module) {
      std::fill(bins_[module].begin(), bins_[module].end(), bin_sums{});
      for (std::size_t sample = 0; sample < times_.size(); ++sample) {
        add(to_id<sample_id>(sample), module, to_index(step_.owner[module][sample]));
      }
    }
  }

  void write_rows()
  {
    add_up();
    for (std::size_t cell = 0; cell < size(); ++cell) { write_row(cell); }
  }

  void move(sample_id sample, places const& to)
  {
    for (std::size_t module = 0; module < D; ++module) {
      auto const& [forward, backward] = times_[to_index(sample)][module];
      bin_sums& left = bins_[module][to_index(step_.owner[module][sample])];
      left.time.forward -= forward;
      left.time.backward -= backward;
      left.held -= sizes_[to_index(sample) * D + module];
      add(sample, module, to[module]);
    }
  }

  /// All that is in two cells of a group changes places, but for the owners of the samples.
  void swap_sums(std::size_t left, std::size_t right)
  {
    for (std::size_t module = 0; module < D; ++module) {
      auto const ones = bins_of(module, left);
      std::swap_ranges(ones.begin(), ones.end(), bins_of(module, right).begin());
    }
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

  /// The replicas of a cell that have least to do when they get a sample.
  [[nodiscard]] places least_loaded(std::size_t cell, sample_id sample) const
  {
    places found{};
    for (std::size_t module = 0; module < D; ++module) {
      auto const [forward, backward] = times_[to_index(sample)][module];
      time_units least = no_cost;
      for (std::size_t replica = 0; replica < replicas_[module]; ++replica) {
        std::size_t const bin = cell * replicas_[module] + replica;
        auto const& own = bins_[module][bin].time;
        time_units const all = saturating_sum(own.forward + own.backward, forward + backward);
        time_units const taken = setup_.modules[module].taken(replica, all);
        if (taken >= least && replica > 0) { continue; }
        least = taken;
        found[module] = bin;
      }
    }
    return found;
  }

  /// Whether some module has several replicas in a group.
  [[nodiscard]] bool has_replicas() const
  {
    return std::any_of(replicas_.begin(), replicas_.end(), [](std::size_t of) { return of > 1; });
  }

  /// The same cell, at any replica of one module.
  [[nodiscard]] places elsewhere(places at, random_source& random) const
  {
    std::size_t const module = random.below(D);
    at[module] += random.below(replicas_[module]) - at[module] % replicas_[module];
    return at;
  }

  [[nodiscard]] bool has_unequal_replicas() const
  {
    return std::any_of(setup_.modules.begin(), setup_.modules.end(),
                       [](auto const& each) { return !each.factors.empty(); });
  }

  /// Whether a stage can take what the replicas of a cell take, and the last module hold it.
  [[nodiscard]] bool is_in_range(std::size_t cell) const
  {
    for (std::size_t module = 0; module < D; ++module) {
      std::int64_t const most = module + 1 == D ? setup_.most_per_gpu : no_limit;
      for (auto const& [time, held] : bins_of(module, cell)) {
        if (std::max(time.forward, time.backward) > stage_graph::longest_time || held > most) {
          return false;
        }
      }
    }
    return true;
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
      auto const& spread = setup_.modules[module];
      auto const bins = bins_of(module, cell);
      for (std::size_t replica = 0; replica < bins.size(); ++replica) {
        auto const [forward, backward] = bins[replica].time;
        std::size_t const stages = spread.layers.size();
        stage_times_of(row.first(stages), spread,
                       {spread.taken(replica, forward), spread.taken(replica, backward)});
        row = row.subspan(stages);
      }
    }
  }

 private:
  struct bin_sums {
    stage_time time;
    tokens held = 0;
  };

  void add(sample_id sample, std::size_t module, std::size_t bin)
  {
    auto const& [forward, backward] = times_[to_index(sample)][module];
    auto& [time, held] = bins_[module][bin];
    time = {saturating_sum(time.forward, forward), saturating_sum(time.backward, backward)};
    held += sizes_[to_index(sample) * D + module];
    step_.owner[module][sample] = to_id<bag_id>(bin);
  }

  [[nodiscard]] std::span<bin_sums> bins_of(std::size_t module, std::size_t cell) const
  {
    return bins_[module].subspan(cell * replicas_[module], replicas_[module]);
  }

  scheduled_step<D>& step_;
  scheduler_setup const& setup_;
  std::span<tokens const> sizes_;
  std::span<sample_time const> times_;
  std::array<std::size_t, D> replicas_{};  // in a group
  std::array<std::span<bin_sums>, D> bins_;
};

/// Makes a step shorter by making its microbatches unequal: those that run while a pipeline fills
/// or drains had better be small.
///
/// One change after the other is tried in the group that ends last: a sample goes to another
/// position or, where samples are few, to another replica, or two samples change places, within the
/// group or with another one; or two positions of the group change their microbatches. The groups
/// concerned are simulated. The change stays if they end no later than the last group did before,
/// or later by no more than a limit: at first what a sample takes on a stage on average, at last 0
/// (threshold accepting). The shortest step that was met is what is left.
///
/// Shapes      sizes[samples x D] and times[samples], those of the step.
/// In, out     owner, times and makespan of the step, which are filled in.
/// Expects     check_times() finds no fault in the times of any group.
/// Ensures     (1) the makespan is no longer than before, and that of simulate()
///             (2) no replica of the last module holds more than most_per_gpu, if none did
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
  /// Up to so many, another replica than the least loaded one is tried; more samples even out.
  static constexpr std::size_t few_samples = 16;

  [[nodiscard]] std::size_t positions() const { return as_given_.size(); }

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
    fill_rows(
        begin_,
        [this](auto const& visit) {
          for (std::size_t sample = 0; sample < samples_.size(); ++sample) {
            auto const id = to_id<sample_id>(sample);
            visit(cells_.group_of(cells_.cell_of(id)), id);
          }
        },
        [this](std::size_t) { return samples_; });
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
      move_sample(from, other * positions() + position, random);
    } else if (begin_[other] < begin_[other + 1]) {
      swap_samples(from, begin_[other] + random.below(begin_[other + 1] - begin_[other]));
    }
  }

  void move_sample(std::size_t from, std::size_t cell, random_source& random)
  {
    sample_id const sample = samples_[from];
    std::size_t const left = cells_.cell_of(sample);
    if (left == cell && (samples_.size() > few_samples || !cells_.has_replicas())) { return; }
    auto const before = cells_.places_of(sample);
    cells_.move(sample, left == cell ? cells_.elsewhere(before, random)
                                     : cells_.least_loaded(cell, sample));
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
    // Equal replicas of a microbatch are even without it.
    if (left == right && !cells_.has_unequal_replicas()) { return; }
    auto const before = cells_.places_of(one);
    auto const after = cells_.places_of(other);
    cells_.move(one, after);
    cells_.move(other, before);
    if (accept(left, right)) {
      if (left != right) { std::swap(samples_[from], samples_[to]); }
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
      std::copy(step_.owner[module].begin(), step_.owner[module].end(),
                best_owner_[module].begin());
    }
  }

  void go_back_to_best()
  {
    for (std::size_t module = 0; module < D; ++module) {
      std::copy(best_owner_[module].begin(), best_owner_[module].end(),
                step_.owner[module].begin());
    }
    cells_.write_rows();
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

template <class TimesOf, std::size_t D>
concept sample_times = requires(TimesOf const& times_of, std::span<tokens const, D> sizes) {
  { std::invoke(times_of, sizes) } -> std::convertible_to<std::array<stage_time, D>>;
};

}  // namespace detail

/// Turns the samples of a global batch into the microbatches of every replica, in the order in
/// which they run.
///
/// Samples go to as many microbatches as all groups have, so that the largest time of any stage of
/// any module is small; microbatches to groups, equally many and about as much work to each; and
/// each group's into an order. Then samples move where the whole step is simulated to be shorter.
/// Where a module has several replicas in a group, they share each microbatch. Where a rank computes
/// its microbatches alone, without stages, partition_grid fills them.
///
/// TimesOf     returns how long a sample of these sizes takes in each module: all layers, forward and
///             backward, on one replica.
/// Units       times_of's; sizes are tokens of the LLM, items of an encoder.
/// Ensures     (1) those of scheduled_step: every replica has as many microbatches, some perhaps
///                 empty
///             (2) no replica of the last module holds more than most_per_gpu
///             (3) the plan depends on nothing but the arguments, so every rank finds the same one
///             (4) once a step as large was planned, nothing is allocated
///             (5) the step is no longer than with even microbatches, even_makespan
/// Complexity  partition, the order policy and setup.simulated_tasks, all twice where costs are
///             corrected.
/// Source      the online microbatch scheduler: H. An et al., "DFLOP: A Data-driven Framework for
///             Multimodal LLM Training Pipeline Optimization", arXiv:2603.25120, 2026.
template <std::size_t D, class TimesOf, order_policy Order = local_search<>,
          cost_vector_policy<D> Split = refine<>>
  requires detail::sample_times<TimesOf, D>
class microbatch_scheduler {
 public:
  using plan_type = scheduled_step<D>;

  /// Errors      those of scheduler_setup::groups.
  [[nodiscard]] static result<microbatch_scheduler> make(scheduler_setup setup, TimesOf times_of,
                                                         Order order = {},
                                                         Split split = usual_split())
  {
    auto const groups = setup.groups(D);
    if (!groups) { return tl::unexpected(groups.error()); }
    return microbatch_scheduler(std::move(setup), *groups, std::move(times_of), std::move(order),
                                std::move(split));
  }

  /// Plans a step. A policy that has a seed gets one that is made of `seed` and `number`.
  ///
  /// Shapes      sizes[samples x D], those of a sample next to each other; factors[D x
  ///             shape_buckets], or empty where nothing is corrected.
  /// Errors      out_of_range: the sizes are no whole number of samples, or size `position` is not
  ///             from 0 to longest_sample, or times_of has no time for sample `position`, or there
  ///             are other factors; those of partition and of order_microbatches. The plan
  ///             is then unspecified.
  [[nodiscard]] result<void> operator()(scheduled_step<D>& step, std::span<tokens const> sizes,
                                        std::uint64_t seed, std::uint64_t number,
                                        std::span<std::uint32_t const> factors)
  {
    step.number = number;
    step.corrected = !factors.empty();
    if (auto read = read_samples(step, sizes, factors); !read) { return read; }
    if (auto planned = arrange(step, sizes, detail::span_of(corrected_), seed); !planned) {
      return planned;
    }
    step.uncorrected = step.makespan;
    if (!step.corrected) { return {}; }
    plain_.number = number;
    if (auto planned = arrange(plain_, sizes, detail::span_of(step.predicted), seed); !planned) {
      return planned;
    }
    step.uncorrected = 0;
    write_times(plain_, sizes, detail::span_of(corrected_));
    for (pipeline_times const& times : plain_.times) {
      if (auto checked = check_times(times, setup_.schedule); !checked) { return checked; }
      step.uncorrected =
          std::max(step.uncorrected,
                   makespan_of(setup_.schedule, times, detail::span_of(as_given_), memory_));
    }
    return {};
  }

 private:
  using sample_time = std::array<stage_time, D>;

  /// Groups have few samples, so all their plans are tried.
  [[nodiscard]] static Split usual_split()
  {
    if constexpr (std::same_as<Split, refine<>>) {
      return {.nodes = std::uint64_t{1} << 16};
    } else {
      return {};
    }
  }

  microbatch_scheduler(scheduler_setup setup, std::uint32_t groups, TimesOf times_of, Order order,
                       Split split)
      : setup_(std::move(setup)),
        groups_(groups),
        times_of_(std::move(times_of)),
        order_(std::move(order)),
        made_(setup_, groups, std::move(split))
  {
    for (std::size_t position = 0; position < setup_.schedule.microbatches(); ++position) {
      as_given_.push_back(to_id<microbatch_id>(position));
    }
    for (std::size_t module = 0; module < D; ++module) {
      scheduler_setup::module_spread const& each = setup_.modules[module];
      for (std::uint32_t replica = 0; replica < made_.replicas(module); ++replica) {
        for (std::uint32_t const of_stage : each.layers) {
          stages_.push_back(
              {static_cast<std::uint32_t>(module), replica, of_stage, each.all_layers()});
        }
      }
    }
  }

  /// Prices all samples, as predicted and as corrected.
  [[nodiscard]] result<void> read_samples(scheduled_step<D>& step, std::span<tokens const> sizes,
                                          std::span<std::uint32_t const> factors)
  {
    if (sizes.size() % D != 0) {
      return fail(error_code::out_of_range, sizes.size(), "sizes has ",
                  detail::counted(sizes.size(), "entry"), ", no whole number of samples of ",
                  detail::counted(D, "module"));
    }
    if (!factors.empty() && factors.size() != D * shape_buckets) {
      return fail(error_code::out_of_range, 0, "factors has ",
                  detail::counted(factors.size(), "entry"), " for ", D * shape_buckets,
                  " shapes; give all or none");
    }
    std::size_t const count = sizes.size() / D;
    step.predicted.resize(count);
    step.shapes.resize(count);
    corrected_.resize(count);
    for (std::size_t sample = 0; sample < count; ++sample) {
      auto const own = sizes.subspan(sample * D).template first<D>();
      for (std::size_t module = 0; module < D; ++module) {
        if (own[module] < 0 || own[module] > longest_sample) {
          return fail(error_code::out_of_range, sample * D + module, "sample ", sample,
                      " has size ", own[module], " in module ", module, "; sizes are from 0 to ",
                      longest_sample);
        }
        step.shapes[sample][module] = shape_bucket(own[module]);
      }
      sample_time const times = std::invoke(times_of_, own);
      for (std::size_t module = 0; module < D; ++module) {
        auto const [forward, backward] = times[module];
        if (forward < 0 || backward < 0 || forward > stage_graph::longest_time ||
            backward > stage_graph::longest_time) {
          return fail(error_code::out_of_range, sample, "sample ", sample,
                      " takes no time from 0 to 2^53 in module ", module,
                      "; correct the sample or use a coarser unit");
        }
        std::uint32_t const factor =
            factors.empty() ? unchanged_factor
                            : factors[module * shape_buckets + step.shapes[sample][module]];
        corrected_[sample][module] = {corrected(forward, factor), corrected(backward, factor)};
      }
      step.predicted[sample] = times;
    }
    return {};
  }

  [[nodiscard]] static time_units corrected(time_units time, std::uint32_t factor)
  {
    // Up to 2^53 2^32 / 2^16; what is above 16 times the longest time is cut to that.
    uint128 const exact = static_cast<uint128>(time) * factor / unchanged_factor;
    return static_cast<time_units>(std::min(exact, static_cast<uint128>(std::uint64_t{1} << 57)));
  }

  /// Fills a step with microbatches by the times of its samples.
  [[nodiscard]] result<void> arrange(scheduled_step<D>& step, std::span<tokens const> sizes,
                                     std::span<sample_time const> times, std::uint64_t seed)
  {
    if (auto done = made_.split(memory_, sizes, times); !done) { return done; }
    std::size_t const count = times.size();
    step.microbatches = as_given_.size();
    // Microbatches are bags of one GPU, so denominators are 1.
    step.largest_load = made_.parts().makespan.numerator;
    step.largest_load_bound = made_.parts().lower_bound.numerator;
    step.makespan = 0;
    step.times.resize(groups_);
    for (pipeline_times& each : step.times) {
      each.stages = stages_.size();
      each.rows.resize(stages_.size() * step.microbatches);
    }
    step.stages = stages_;
    for (std::size_t module = 0; module < D; ++module) {
      step.replicas[module] = setup_.modules[module].replicas;
      step.owner[module].resize(count);
    }
    for (std::size_t group = 0; group < groups_; ++group) {
      if (auto done = made_.share(step.owner, memory_, group, times); !done) { return done; }
    }
    write_times(step, sizes, times);
    place_of_.resize(groups_ * step.microbatches);
    for (std::size_t group = 0; group < groups_; ++group) {
      if (auto done = order(step, group, seed); !done) { return done; }
      step.makespan = std::max(step.makespan, ordered_.makespan);
    }
    for (std::size_t module = 0; module < D; ++module) {
      std::size_t const replicas = made_.replicas(module);
      for (bag_id& bin : step.owner[module]) {
        bin = to_id<bag_id>(place_of_[to_index(bin) / replicas] * replicas +
                            to_index(bin) % replicas);
      }
    }
    step.even_makespan = step.makespan;
    detail::step_shortener<D>(step, memory_, setup_, sizes, times, detail::span_of(as_given_))(
        digest().add(seed).add(step.number).value());
    for (std::size_t module = 0; module < D; ++module) {
      step.samples[module].collect(detail::span_of(step.owner[module]),
                                   groups_ * as_given_.size() * made_.replicas(module));
    }
    return {};
  }

  void write_times(scheduled_step<D>& step, std::span<tokens const> sizes,
                   std::span<sample_time const> times)
  {
    auto scratch = memory_.open();
    detail::step_cells<D>(step, scratch, setup_, sizes, times).write_rows();
  }

  /// Puts the times of a group's microbatches in order, and notes where each of them then is.
  [[nodiscard]] result<void> order(scheduled_step<D>& step, std::size_t group, std::uint64_t seed)
  {
    auto policy = order_;
    if constexpr (requires { policy.seed = seed; }) {
      policy.seed = digest().add(seed).add(step.number).add(std::uint64_t{group}).value();
    }
    pipeline_times& times = step.times[group];
    given_ = times;
    auto done = order_microbatches_into(ordered_, memory_, setup_.schedule, given_, policy);
    for (std::size_t at = 0; at < as_given_.size() && done; ++at) {
      microbatch_id const microbatch = ordered_.order[at];
      std::copy_n(given_[microbatch].begin(), given_.stages, times[as_given_[at]].begin());
      place_of_[group * as_given_.size() + to_index(microbatch)] = group * as_given_.size() + at;
    }
    return done;
  }

  scheduler_setup setup_;
  std::uint32_t groups_;
  TimesOf times_of_;
  Order order_;
  detail::group_microbatches<D, Split> made_;
  workspace memory_;
  std::vector<microbatch_id> as_given_;                    // 0, 1, 2, ...
  std::vector<typename scheduled_step<D>::stage> stages_;  // of a group
  std::vector<sample_time> corrected_;
  order_plan ordered_;
  std::vector<std::size_t> place_of_;  // of each group's microbatches, in order
  pipeline_times given_;               // of a group before they are in order
  scheduled_step<D> plain_;            // of uncorrected costs
};

}  // namespace ballast::inline v0
