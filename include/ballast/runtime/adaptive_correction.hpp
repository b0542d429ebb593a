// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_ADAPTIVE_CORRECTION_HPP
#define BALLAST_RUNTIME_ADAPTIVE_CORRECTION_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/detail/check_times.hpp>
#include <ballast/runtime/detail/measured_calls.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/runtime/detail/time_factors.hpp>
#include <ballast/runtime/scheduled_step.hpp>
#include <ballast/runtime/shape_bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

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

#endif  // BALLAST_RUNTIME_ADAPTIVE_CORRECTION_HPP
