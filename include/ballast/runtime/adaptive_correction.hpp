// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/runtime/scheduled_step.hpp>

namespace ballast::inline v0 {

namespace detail {

/// Calls visit(shape bucket, what was predicted) for each sample that a rank computes in a
/// microbatch: time `index` of [ranks x microbatches].
template <std::size_t D, class Visit>
void for_each_part(scheduled_step<D> const& step, std::size_t index, Visit visit)
{
  std::size_t const rank = index / step.microbatches;
  auto const& [module, of_group, layers, of_layers] = step.stages[rank % step.stages.size()];
  std::size_t const group = rank / step.stages.size();
  std::size_t const replica = group * (step.replicas[module] / step.pipelines()) + of_group;
  for (sample_id const sample : step.microbatch(module, replica, index % step.microbatches)) {
    auto const [forward, backward] = step.predicted[to_index(sample)][module];
    uint128 const work = (static_cast<uint128>(forward) + static_cast<uint128>(backward)) * layers;
    visit(step.shapes[to_index(sample)][module], work / of_layers);
  }
}

/// Why the times of a step cannot be learned from, if so: others than there are, a negative one, or
/// one above `longest`, of those that were measured, planned, or predicted of a call.
template <std::size_t D>
[[nodiscard]] result<void> check_times(scheduled_step<D> const& step, std::size_t ranks,
                                       time_units step_time, std::span<time_units const> measured,
                                       time_units longest)
{
  if (step.ranks() != ranks) {
    return fail(error_code::out_of_range, 0, "a step of ", counted(step.ranks(), "rank"),
                " was given to a correction of ", ranks);
  }
  if (!measured.empty() && measured.size() != ranks * step.microbatches) {
    return fail(error_code::out_of_range, measured.size(), "measured has ",
                counted(measured.size(), "time"), " for ", counted(ranks, "rank"), " with ",
                counted(step.microbatches, "microbatch"), " each; give one of each, or none");
  }
  if (step_time <= 0) {
    return fail(error_code::out_of_range, 0, "a step took ", step_time,
                "; give the time of the slowest rank");
  }
  auto most = static_cast<uint128>(std::max({step_time, step.makespan, step.uncorrected}));
  for (std::size_t index = 0; index < measured.size(); ++index) {
    if (measured[index] < 0) {
      std::size_t const rank = index / step.microbatches;
      return comm_failure::of_rank(
          to_id<rank_id>(rank),
          fail(error_code::out_of_range, index, "rank ", rank, " measured ", measured[index],
               " for microbatch ", index % step.microbatches, "; give times from 0 on"));
    }
    uint128 predicted = 0;
    if (measured[index] > 0) {
      for_each_part(step, index, [&](std::uint32_t, uint128 part) { predicted += part; });
    }
    most = std::max({most, static_cast<uint128>(measured[index]), predicted});
  }
  if (most <= static_cast<uint128>(longest)) { return {}; }
  return fail(error_code::out_of_range, 0, "a time that was measured or planned is longer than ",
              longest,
              ", so that sums of it may not fit 63 bits; use a coarser unit or shorter intervals");
}

/// A microbatch on a rank.
struct measured_call {
  std::uint32_t rank = 0;
  time_units measured = 0;
  time_units predicted = 0;
};

struct predicted_part {
  std::uint32_t call = 0;
  std::uint32_t shape = 0;
  time_units predicted = 0;
};

/// The calls of the last two intervals and what was predicted of them.
///
/// Ensures     parts lie in the order of their calls, and a call has one part of each of its
///             shapes.
class measured_calls {
 public:
  [[nodiscard]] std::span<measured_call const> calls() const noexcept { return span_of(calls_); }
  [[nodiscard]] std::span<predicted_part const> parts() const noexcept { return span_of(parts_); }

  /// Expects     measured > 0.
  void begin_call(std::size_t rank, time_units measured)
  {
    calls_.push_back({static_cast<std::uint32_t>(rank), measured, 0});
    first_part_ = parts_.size();
  }

  void add_part(std::uint32_t shape, time_units predicted)
  {
    calls_.back().predicted += predicted;
    auto const same =
        std::find_if(parts_.begin() + static_cast<std::ptrdiff_t>(first_part_), parts_.end(),
                     [shape](predicted_part const& each) { return each.shape == shape; });
    if (same != parts_.end()) {
      same->predicted += predicted;
    } else {
      parts_.push_back({static_cast<std::uint32_t>(calls_.size() - 1), shape, predicted});
    }
  }

  /// A call of no predicted time says nothing.
  void end_call()
  {
    if (calls_.back().predicted > 0) { return; }
    parts_.resize(first_part_);
    calls_.pop_back();
  }

  /// Calls of the interval before this one are given up.
  void next_interval()
  {
    calls_.erase(calls_.begin(), calls_.begin() + static_cast<std::ptrdiff_t>(old_calls_));
    parts_.erase(parts_.begin(), parts_.begin() + static_cast<std::ptrdiff_t>(old_parts_));
    for (predicted_part& each : parts_) { each.call -= static_cast<std::uint32_t>(old_calls_); }
    old_calls_ = calls_.size();
    old_parts_ = parts_.size();
  }

  void forget_calls()
  {
    calls_.clear();
    parts_.clear();
    old_calls_ = 0;
    old_parts_ = 0;
  }

  /// Writes or reads all of it, of so many ranks and shapes and of times up to `longest`.
  template <class Self, class State>
  static void describe(Self& self, State& state, std::size_t ranks, std::size_t shapes,
                       time_units longest)
  {
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    auto const last = [](std::size_t count) { return static_cast<std::int64_t>(count) - 1; };
    state.line("old").number(self.old_calls_, 0, most).number(self.old_parts_, 0);
    std::vector<time_units> left_of;  // that parts of a call have to add up to
    state.line("calls").list(self.calls_, self.old_calls_, most, [&](auto& each) {
      state.number(each.rank, 0, last(ranks)).number(each.measured, 1, longest);
      state.number(each.predicted, 1, longest);
      left_of.push_back(each.predicted);
    });
    std::size_t parts = 0;
    state.line("parts").list(self.parts_, self.old_parts_, state_writer::any_most, [&](auto& each) {
      // A part of the present interval cannot be one of a call of the last one.
      bool const is_old = parts++ < self.old_parts_;
      auto const first = is_old ? 0 : static_cast<std::int64_t>(self.old_calls_);
      state.number(each.call, first, last(is_old ? self.old_calls_ : self.calls_.size()));
      state.number(each.shape, 0, last(shapes));
      if (state.failed()) { return; }
      time_units& rest = left_of[each.call];
      state.number(each.predicted, 0, rest);
      rest -= each.predicted;
    });
  }

 private:
  std::vector<measured_call> calls_;
  std::vector<predicted_part> parts_;
  std::size_t old_calls_ = 0;  // of the interval before this one
  std::size_t old_parts_ = 0;
  std::size_t first_part_ = 0;  // of the last call
};

/// The lower median; rearranges the values. 0 where there are none.
[[nodiscard]] inline std::uint32_t median_of(std::vector<std::uint32_t>& values)
{
  if (values.empty()) { return 0; }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The factors of ranks and shapes that explain the times of calls:
///
///     measured = factor of the rank x sum over the shapes in the call of (factor x predicted).
///
/// Factors are medians in turn: of measured over explained time for a rank, and for a shape of what
/// the others in its calls leave of the measured time, over its own predicted time. So neither a
/// call that was disturbed moves them, nor a slow shape its ranks, nor a slow rank its shapes,
/// while most calls of each are neither. Ranks and shapes of a module share a common factor: the
/// median rank has 1.
///
/// Units       factors are in 1 / unchanged_factor, from 1/16 to 16.
/// Ensures     (1) they are integers of integer arithmetic, the same on every machine
///             (2) a shape of less than a sixteenth of a call learns nothing from it, and a rank or
///                 shape with no calls, or fewer than asked for, keeps its factor
/// Complexity  fit: O(rounds x parts).
/// Source      median polish: J. W. Tukey, "Exploratory Data Analysis", Addison-Wesley 1977; here
///             of products, and of calls with several shapes.
class time_factors {
 public:
  explicit time_factors(std::span<std::uint32_t const> module_of_rank)
      : module_of_rank_(module_of_rank.begin(), module_of_rank.end()),
        of_ranks_(module_of_rank.size(), unchanged_factor)
  {
    std::uint32_t modules = 0;
    for (std::uint32_t const module : module_of_rank) { modules = std::max(modules, module + 1); }
    of_shapes_.assign(std::size_t{modules} * shape_buckets, unchanged_factor);
  }

  [[nodiscard]] std::span<std::uint32_t const> of_ranks() const noexcept
  {
    return span_of(of_ranks_);
  }
  [[nodiscard]] std::span<std::uint32_t const> of_shapes() const noexcept
  {
    return span_of(of_shapes_);
  }

  [[nodiscard]] std::uint32_t shape(std::size_t rank, std::uint32_t bucket) const
  {
    return module_of_rank_[rank] * shape_buckets + bucket;
  }

  void fit(measured_calls const& measured, std::size_t fewest_calls)
  {
    constexpr int rounds = 4;
    std::span<measured_call const> const calls = measured.calls();
    calls_of_rank_.fill(of_ranks_.size(), [calls](auto const& visit) {
      for (std::size_t call = 0; call < calls.size(); ++call) {
        visit(std::size_t{calls[call].rank}, call);
      }
    });
    parts_of_shape_.fill(of_shapes_.size(), [&measured](auto const& visit) {
      for (predicted_part const& each : measured.parts()) { visit(std::size_t{each.shape}, each); }
    });
    explained_.assign(calls.size(), 0);
    for (predicted_part const& each : measured.parts()) {
      explained_[each.call] += scaled(each.predicted, of_shapes_[each.shape]);
    }
    for (int round = 0; round < rounds; ++round) {
      fit_ranks(calls, fewest_calls);
      for (std::size_t shape = 0; shape < of_shapes_.size(); ++shape) {
        fit_shape(calls, shape, fewest_calls);
      }
    }
  }

  [[nodiscard]] static std::uint32_t ratio_of(time_units measured, time_units planned)
  {
    constexpr uint128 most = uint128{unchanged_factor} * 16;
    uint128 const ratio = static_cast<uint128>(measured) * unchanged_factor /
                          static_cast<uint128>(std::max<time_units>(planned, 1));
    return std::max(static_cast<std::uint32_t>(std::min(ratio, most)), unchanged_factor / 16);
  }

  template <class Self, class State>
  static void describe(Self& self, State& state)
  {
    for (auto* const factors : {&self.of_ranks_, &self.of_shapes_}) {
      state.line("factors").list(*factors, factors->size(), factors->size(), [&](auto& each) {
        state.number(each, unchanged_factor / 16, std::int64_t{unchanged_factor} * 16);
      });
    }
  }

 private:
  [[nodiscard]] static time_units scaled(time_units time, std::uint32_t factor)
  {
    return static_cast<time_units>(static_cast<uint128>(time) * factor / unchanged_factor);
  }

  [[nodiscard]] time_units on_median_rank(measured_call const& call) const
  {
    return static_cast<time_units>(static_cast<uint128>(call.measured) * unchanged_factor /
                                   of_ranks_[call.rank]);
  }

  void fit_ranks(std::span<measured_call const> calls, std::size_t fewest_calls)
  {
    for (std::size_t rank = 0; rank < of_ranks_.size(); ++rank) {
      values_.clear();
      for (std::size_t const call : calls_of_rank_[rank]) {
        values_.push_back(ratio_of(calls[call].measured, explained_[call]));
      }
      if (values_.empty() || values_.size() < fewest_calls) { continue; }
      of_ranks_[rank] = median_of(values_);
    }
    for (std::size_t module = 0; module * shape_buckets < of_shapes_.size(); ++module) {
      values_.clear();
      for (std::size_t rank = 0; rank < of_ranks_.size(); ++rank) {
        if (module_of_rank_[rank] == module) { values_.push_back(of_ranks_[rank]); }
      }
      std::uint32_t const middle = std::max(median_of(values_), 1U);
      for (std::size_t rank = 0; rank < of_ranks_.size(); ++rank) {
        if (module_of_rank_[rank] == module) {
          of_ranks_[rank] = ratio_of(of_ranks_[rank], middle);
        }
      }
    }
  }

  void fit_shape(std::span<measured_call const> calls, std::size_t shape, std::size_t fewest_calls)
  {
    std::uint32_t const before = of_shapes_[shape];
    values_.clear();
    for (predicted_part const& each : parts_of_shape_[shape]) {
      if (each.predicted <= calls[each.call].predicted / 16) { continue; }
      time_units const others = explained_[each.call] - scaled(each.predicted, before);
      time_units const left = on_median_rank(calls[each.call]) - others;
      values_.push_back(ratio_of(std::max<time_units>(left, 0), each.predicted));
    }
    if (values_.empty() || values_.size() < fewest_calls) { return; }
    std::uint32_t const now = median_of(values_);
    of_shapes_[shape] = now;
    for (predicted_part const& each : parts_of_shape_[shape]) {
      explained_[each.call] += scaled(each.predicted, now) - scaled(each.predicted, before);
    }
  }

  std::vector<std::uint32_t> module_of_rank_;
  std::vector<std::uint32_t> of_ranks_;
  std::vector<std::uint32_t> of_shapes_;  // modules x shape_buckets

  // Scratch of fit().
  std::vector<time_units> explained_;  // of each call, on the median rank
  jagged<std::size_t, std::size_t> calls_of_rank_;
  jagged<std::size_t, predicted_part> parts_of_shape_;
  std::vector<std::uint32_t> values_;
};

}  // namespace detail

/// Learns from measured times where predicted ones are wrong, and whether that is worth its cost.
///
///     correction.finish_step(plan, step_time, correction.tracking() ? gathered : none);
///     next.correct(correction.factors());  // costs of the steps that are submitted from now on
///
/// A slow GPU is told from a slow shape by factors of both. It learns for an interval. In each
/// further one it compares B, the mean gain in step time of the corrected plans over the
/// uncorrected ones, both at measured rates, with C, the cost of tracking: the median of step time
/// over plan in steps that are tracked, less that in the one step of four that is not. Where B does
/// not exceed C it is off, for `rest` intervals, and then learns again.
///
/// Units       times are those of the plans.
/// Expects     what finish_step is given is the same on all ranks: measured times are gathered over
///             the communicator first, and step_time is that of the slowest rank.
/// Ensures     (1) decisions are made on these integers alone, so they are the same on all ranks
///             (2) once as many calls were measured, nothing is allocated
///             (3) restored from save(), all further decisions are the same
/// Complexity  finish_step: O(samples of the timed calls); at the end of an interval those of two
///             intervals, a few times over.
/// Source      H. An et al., "DFLOP: A Data-driven Framework for Multimodal LLM Training Pipeline
///             Optimization", arXiv:2603.25120, 2026, whose B is actual - predicted throughput:
///             that is negative for the slow shapes that it is to find, so that its switch could
///             not stay on.
class adaptive_correction {
 public:
  /// When it decides.
  struct options {
    std::uint32_t interval = 16;     ///< steps of a decision; at least 4
    std::uint32_t rest = 8;          ///< intervals without tracking until it is tried again
    std::uint32_t fewest_calls = 4;  ///< of a shape, before its factor changes
  };

  /// What it does at the moment.
  enum class switch_state : std::uint8_t {
    learning,  ///< calls are timed, and plans are not corrected yet
    on,        ///< plans are corrected, and three steps of four are timed
    off        ///< neither
  };

  /// Shapes      module_of_rank[ranks], in the order of scheduled_step's ranks.
  explicit adaptive_correction(std::span<std::uint32_t const> module_of_rank)
      : adaptive_correction(module_of_rank, options())
  {}
  adaptive_correction(std::span<std::uint32_t const> module_of_rank, options const& chosen)
      : options_(chosen), factors_(module_of_rank)
  {
    BALLAST_EXPECTS(chosen.interval >= 4, "an interval of ",
                    detail::counted(chosen.interval, "step"),
                    " has too few to compare; give at least 4");
  }

  [[nodiscard]] switch_state mode() const noexcept { return mode_; }

  /// Whether the calls of the next step are to be timed.
  [[nodiscard]] bool tracking() const noexcept
  {
    return mode_ == switch_state::learning || (mode_ == switch_state::on && steps_ % 4 != 3);
  }

  /// What costs of a module's shape are multiplied with, in units of 1 / unchanged_factor; empty
  /// where nothing is corrected. Shapes: [modules x shape_buckets].
  [[nodiscard]] std::span<std::uint32_t const> factors() const noexcept
  {
    if (mode_ != switch_state::on) { return {}; }
    return factors_.of_shapes();
  }

  /// Measured over planned time of each rank, without what its shapes have to do with it, in units
  /// of 1 / unchanged_factor: the median of a module's ranks is 1.
  [[nodiscard]] std::span<std::uint32_t const> rank_factors() const noexcept
  {
    return factors_.of_ranks();
  }

  /// The speed of each rank, for bag_layout::with_speeds: 1000 is that of the median rank.
  [[nodiscard]] std::vector<std::uint32_t> speeds() const
  {
    std::vector<std::uint32_t> speeds;
    for (std::uint32_t const factor : rank_factors()) {
      speeds.push_back((1000 * unchanged_factor + factor / 2) / factor);
    }
    return speeds;
  }

  /// B and C as they were last compared, of one step.
  [[nodiscard]] time_units gain() const noexcept { return gain_; }
  [[nodiscard]] time_units cost() const noexcept { return cost_; }

  /// Takes what a step has shown.
  ///
  /// Shapes      measured[ranks x microbatches], how long each rank computed each microbatch,
  ///             forward and backward, in the order in which they ran; 0 where it had none. Empty
  ///             where the step was not timed.
  /// Errors      out_of_range: there are other times, or time `position` is negative, or the step
  ///             took no time above 0, or a time, a plan or what was predicted of a call is so long
  ///             that the sums of an interval would not fit 63 bits. Nothing changes then.
  template <std::size_t D>
  [[nodiscard]] result<void> finish_step(scheduled_step<D> const& step, time_units step_time,
                                         std::span<time_units const> measured)
  {
    if (auto checked =
            detail::check_times(step, rank_factors().size(), step_time, measured, longest_time());
        !checked) {
      return checked;
    }
    if (mode_ == switch_state::off) {
      if (++steps_ >= std::uint64_t{options_.rest} * options_.interval) {
        begin(switch_state::learning);
      }
      return {};
    }
    if (!measured.empty()) { collect(step, measured); }
    if (mode_ == switch_state::learning) {
      if (++steps_ == options_.interval) {
        factors_.fit(calls_, options_.fewest_calls);
        begin(switch_state::on);
      }
      return {};
    }
    if (!step.corrected || step.makespan == 0) { return {}; }  // planned before there were factors
    auto& ratios = measured.empty() ? untracked_ : tracked_;
    ratios.push_back(detail::time_factors::ratio_of(step_time, step.makespan));
    sum_of_gains_ += step.uncorrected - step.makespan;
    sum_of_plans_ += step.makespan;
    if (++steps_ == options_.interval) { decide(); }
    return {};
  }

  /// All that decisions depend on, as text.
  [[nodiscard]] std::string save() const
  {
    detail::state_writer out("adaptive_correction 1");
    describe(*this, out);
    return out.text();
  }

  /// Goes on where save() was called, of a correction of the same ranks and options.
  ///
  /// Errors      syntax: byte `position` of the text is not what save() wrote. Nothing changes
  ///             then.
  [[nodiscard]] result<void> restore(std::string_view text)
  {
    adaptive_correction read = *this;
    detail::state_reader in("adaptive_correction 1", text);
    describe(read, in);
    if (auto done = in.finish(); !done) { return done; }
    *this = std::move(read);
    return {};
  }

 private:
  /// The longest of all times: factors go up to 16, and an interval has as many steps.
  [[nodiscard]] time_units longest_time() const
  {
    return std::numeric_limits<time_units>::max() / 32 / options_.interval;
  }

  /// Writes or reads all that decisions depend on.
  template <class Self, class State>
  static void describe(Self& self, State& state)
  {
    std::int64_t const interval = self.options_.interval;
    std::int64_t const most = self.longest_time() * interval;
    state.line("mode").number(self.mode_, 0, 2);
    bool const rests = self.mode_ == switch_state::off;
    auto const whole = interval * (rests ? std::int64_t{self.options_.rest} : 1);
    state.line("steps").number(self.steps_, 0, std::max<std::int64_t>(whole - 1, 0));
    state.line("sums");
    for (auto* const sum : {&self.sum_of_gains_, &self.sum_of_plans_, &self.gain_, &self.cost_}) {
      state.number(*sum, -most, most);
    }
    for (auto* const ratios : {&self.tracked_, &self.untracked_}) {
      state.line("ratios").list(*ratios, 0, self.options_.interval, [&](auto& each) {
        state.number(each, 0, std::numeric_limits<std::uint32_t>::max());
      });
    }
    detail::time_factors::describe(self.factors_, state);
    detail::measured_calls::describe(self.calls_, state, self.rank_factors().size(),
                                     self.factors_.of_shapes().size(), self.longest_time());
  }

  template <std::size_t D>
  void collect(scheduled_step<D> const& step, std::span<time_units const> measured)
  {
    for (std::size_t index = 0; index < measured.size(); ++index) {
      if (measured[index] == 0) { continue; }
      calls_.begin_call(index / step.microbatches, measured[index]);
      detail::for_each_part(step, index, [&](std::uint32_t bucket, uint128 predicted) {
        calls_.add_part(factors_.shape(index / step.microbatches, bucket),
                        static_cast<time_units>(predicted));
      });
      calls_.end_call();
    }
  }

  void decide()
  {
    auto const on = std::int64_t{detail::median_of(tracked_)};
    auto const off = std::int64_t{detail::median_of(untracked_)};
    auto const share = static_cast<uint128>(std::max<std::int64_t>(0, on - off));
    auto const cost =
        static_cast<time_units>(share * static_cast<uint128>(sum_of_plans_) / unchanged_factor);
    gain_ = sum_of_gains_ / options_.interval;
    cost_ = cost / options_.interval;
    bool const pays = sum_of_gains_ > cost;
    factors_.fit(calls_, options_.fewest_calls);
    begin(pays ? switch_state::on : switch_state::off);
  }

  void begin(switch_state mode)
  {
    if (mode == switch_state::off) {
      calls_.forget_calls();
    } else {
      calls_.next_interval();
    }
    mode_ = mode;
    steps_ = 0;
    sum_of_gains_ = 0;
    sum_of_plans_ = 0;
    tracked_.clear();
    untracked_.clear();
  }

  options options_;
  switch_state mode_ = switch_state::learning;
  std::uint64_t steps_ = 0;  // of this interval, or of the rest
  time_units sum_of_gains_ = 0;
  time_units sum_of_plans_ = 0;
  time_units gain_ = 0;
  time_units cost_ = 0;
  std::vector<std::uint32_t> tracked_;  // step time over plan, in this interval
  std::vector<std::uint32_t> untracked_;
  detail::measured_calls calls_;
  detail::time_factors factors_;
};

}  // namespace ballast::inline v0
