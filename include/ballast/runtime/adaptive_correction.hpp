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

/// What the samples of one shape add to a call.
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

  void write(state_writer& out) const
  {
    out.line("old").number(static_cast<std::int64_t>(old_calls_));
    out.number(static_cast<std::int64_t>(old_parts_));
    out.line("calls").number(static_cast<std::int64_t>(calls_.size()));
    for (measured_call const& each : calls_) {
      out.number(each.rank).number(each.measured).number(each.predicted);
    }
    out.line("parts").number(static_cast<std::int64_t>(parts_.size()));
    for (predicted_part const& each : parts_) {
      out.number(each.call).number(each.shape).number(each.predicted);
    }
  }

  /// Reads what write() wrote, of so many ranks and shapes and of times up to `longest`.
  void read(state_reader& in, std::size_t ranks, std::size_t shapes, time_units longest)
  {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t most_calls = std::numeric_limits<std::uint32_t>::max();
    forget_calls();
    in.expect("old");
    std::int64_t const old_calls = in.number(0, most_calls);
    std::int64_t const old_parts = in.number(0, most);
    in.expect("calls");
    for (std::int64_t left = in.number(old_calls, most_calls); left > 0 && !in.failed(); --left) {
      auto const rank = in.number(0, static_cast<std::int64_t>(ranks) - 1);
      auto const measured = in.number(1, longest);
      calls_.push_back({static_cast<std::uint32_t>(rank), measured, in.number(1, longest)});
    }
    std::vector<time_units> left_of(calls_.size());  // that parts of a call have to add up to
    std::transform(calls_.begin(), calls_.end(), left_of.begin(),
                   [](measured_call const& each) { return each.predicted; });
    in.expect("parts");
    for (std::int64_t left = in.number(old_parts, most); left > 0 && !in.failed(); --left) {
      // A part of the present interval cannot be one of a call of the last one.
      bool const is_old = std::cmp_less(parts_.size(), old_parts);
      auto const past = is_old ? old_calls : static_cast<std::int64_t>(calls_.size());
      auto const of_call = in.number(is_old ? 0 : old_calls, past - 1);
      auto const shape = in.number(0, static_cast<std::int64_t>(shapes) - 1);
      if (in.failed()) { break; }
      time_units& rest = left_of[static_cast<std::size_t>(of_call)];
      auto const predicted = in.number(0, rest);
      rest -= predicted;
      parts_.push_back(
          {static_cast<std::uint32_t>(of_call), static_cast<std::uint32_t>(shape), predicted});
    }
    old_calls_ = static_cast<std::size_t>(old_calls);
    old_parts_ = static_cast<std::size_t>(old_parts);
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

  /// The number of a shape that a rank computes.
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

  void write(state_writer& out) const
  {
    for (auto const* const factors : {&of_ranks_, &of_shapes_}) {
      out.line("factors").number(static_cast<std::int64_t>(factors->size()));
      for (std::uint32_t const each : *factors) { out.number(each); }
    }
  }

  void read(state_reader& in)
  {
    for (auto* const factors : {&of_ranks_, &of_shapes_}) {
      in.expect("factors");
      auto const count = static_cast<std::int64_t>(factors->size());
      static_cast<void>(in.number(count, count));
      for (std::uint32_t& each : *factors) {
        each = static_cast<std::uint32_t>(
            in.number(unchanged_factor / 16, std::int64_t{unchanged_factor} * 16));
      }
    }
  }

 private:
  [[nodiscard]] static time_units scaled(time_units time, std::uint32_t factor)
  {
    return static_cast<time_units>(static_cast<uint128>(time) * factor / unchanged_factor);
  }

  /// What a call would have taken on the median rank.
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

/// When an adaptive correction decides.
struct correction_options {
  std::uint32_t interval = 16;     ///< steps of a decision; at least 4
  std::uint32_t rest = 8;          ///< intervals without tracking until it is tried again
  std::uint32_t fewest_calls = 4;  ///< of a shape, before its factor changes
};

/// What an adaptive correction does at the moment.
enum class correction_mode : std::uint8_t {
  learning,  ///< calls are timed, and plans are not corrected yet
  on,        ///< plans are corrected, and three steps of four are timed
  off        ///< neither
};

/// Learns from measured times where predicted ones are wrong, and whether that is worth its cost.
///
///     correction.finish_step(plan, step_time, correction.tracking() ? gathered : none);
///     next.correct(correction.factors());  // costs of the steps that are submitted from now on
///
/// Measured over predicted time of each call (a microbatch on a rank) is a factor of the rank times
/// one of the shapes in it, `detail::time_factors`: so a slow GPU is told from a slow shape.
///
/// It learns for an interval. In each further one it compares B, the mean gain in step time of the
/// corrected plans over the uncorrected ones, both at measured rates, with C, the cost of tracking:
/// the median of step time over plan in steps that are tracked, less that in the one step of four
/// that is not. Where B does not exceed C it is off, for `rest` intervals, and then learns again.
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
  /// Shapes      module_of_rank[ranks], in the order of scheduled_step's ranks.
  explicit adaptive_correction(std::span<std::uint32_t const> module_of_rank,
                               correction_options const& options = {})
      : options_(options), factors_(module_of_rank)
  {
    BALLAST_EXPECTS(options.interval >= 4, "an interval of ",
                    detail::counted(options.interval, "step"),
                    " has too few to compare; give at least 4");
  }

  [[nodiscard]] correction_mode mode() const noexcept { return mode_; }

  /// Whether the calls of the next step are to be timed.
  [[nodiscard]] bool tracking() const noexcept
  {
    return mode_ == correction_mode::learning || (mode_ == correction_mode::on && steps_ % 4 != 3);
  }

  /// What costs of a module's shape are multiplied with, in units of 1 / unchanged_factor; empty
  /// where nothing is corrected. Shapes: [modules x shape_buckets].
  [[nodiscard]] std::span<std::uint32_t const> factors() const noexcept
  {
    if (mode_ != correction_mode::on) { return {}; }
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
    if (mode_ == correction_mode::off) {
      if (++steps_ >= std::uint64_t{options_.rest} * options_.interval) {
        begin(correction_mode::learning);
      }
      return {};
    }
    if (!measured.empty()) { collect(step, measured); }
    if (mode_ == correction_mode::learning) {
      if (++steps_ == options_.interval) {
        factors_.fit(calls_, options_.fewest_calls);
        begin(correction_mode::on);
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
    out.line("mode").number(static_cast<std::int64_t>(mode_));
    out.line("steps").number(static_cast<std::int64_t>(steps_));
    out.line("sums").number(sum_of_gains_).number(sum_of_plans_).number(gain_).number(cost_);
    for (auto const* const ratios : {&tracked_, &untracked_}) {
      out.line("ratios").number(static_cast<std::int64_t>(ratios->size()));
      for (std::uint32_t const each : *ratios) { out.number(each); }
    }
    factors_.write(out);
    calls_.write(out);
    return out.text();
  }

  /// Goes on where save() was called, of a correction of the same ranks and options.
  ///
  /// Errors      syntax: byte `position` of the text is not what save() wrote. Nothing changes
  ///             then.
  [[nodiscard]] result<void> restore(std::string_view text)
  {
    std::int64_t const most = longest_time() * options_.interval;
    adaptive_correction read = *this;
    detail::state_reader in(text);
    in.expect("adaptive_correction 1 mode");
    read.mode_ = static_cast<correction_mode>(in.number(0, 2));
    in.expect("steps");
    auto const whole = std::int64_t{options_.interval} *
                       (read.mode_ == correction_mode::off ? std::int64_t{options_.rest} : 1);
    read.steps_ = static_cast<std::uint64_t>(in.number(0, std::max<std::int64_t>(whole - 1, 0)));
    in.expect("sums");
    for (time_units* const sum :
         {&read.sum_of_gains_, &read.sum_of_plans_, &read.gain_, &read.cost_}) {
      *sum = in.number(-most, most);
    }
    for (auto* const ratios : {&read.tracked_, &read.untracked_}) {
      in.expect("ratios");
      ratios->clear();
      for (std::int64_t left = in.number(0, options_.interval); left > 0; --left) {
        ratios->push_back(
            static_cast<std::uint32_t>(in.number(0, std::numeric_limits<std::uint32_t>::max())));
      }
    }
    read.factors_.read(in);
    read.calls_.read(in, rank_factors().size(), factors_.of_shapes().size(), longest_time());
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
    begin(pays ? correction_mode::on : correction_mode::off);
  }

  void begin(correction_mode mode)
  {
    if (mode == correction_mode::off) {
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

  correction_options options_;
  correction_mode mode_ = correction_mode::learning;
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
