// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP
#define BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/units.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/runtime/shape_bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The lower median; rearranges the values. 0 where there are none.
[[nodiscard]] inline std::uint32_t median_of(std::vector<std::uint32_t>& values)
{
  if (values.empty()) { return 0; }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The calls of the last two intervals, and the factors of ranks and shapes that explain their times:
///
///     measured = factor of the rank x sum over the shapes in the call of (factor x predicted).
///
/// Factors are medians in turn: of measured over explained time for a rank, and for a shape of what the
/// others in its calls leave of the measured time, over its own predicted time. So neither a call that
/// was disturbed moves them, nor a slow shape its ranks, nor a slow rank its shapes, while most calls of
/// each are neither. Ranks and shapes of a module share a common factor: the median rank has 1.
///
/// Units       factors are in 1 / unchanged_factor, from 1/16 to 16.
/// Ensures     (1) they are integers of integer arithmetic, the same on every machine
///             (2) a shape of less than a sixteenth of a call learns nothing from it, and one with fewer
///                 calls than asked for keeps its factor
/// Complexity  fit: O(rounds x parts).
/// Source      median polish: J. W. Tukey, "Exploratory Data Analysis", Addison-Wesley 1977; here of
///             products, and of calls with several shapes.
class measured_calls {
 public:
  explicit measured_calls(std::span<std::uint32_t const> module_of_rank)
      : module_of_rank_(module_of_rank.begin(), module_of_rank.end()),
        rank_factors_(module_of_rank.size(), unchanged_factor)
  {
    std::uint32_t modules = 0;
    for (std::uint32_t const module : module_of_rank) { modules = std::max(modules, module + 1); }
    shape_factors_.assign(std::size_t{modules} * shape_buckets, unchanged_factor);
  }

  [[nodiscard]] std::size_t ranks() const noexcept { return module_of_rank_.size(); }
  [[nodiscard]] std::span<std::uint32_t const> shape_factors() const noexcept
  {
    return span_of(shape_factors_);
  }
  [[nodiscard]] std::span<std::uint32_t const> rank_factors() const noexcept
  {
    return span_of(rank_factors_);
  }

  /// Expects     measured > 0, rank < ranks().
  void begin_call(std::size_t rank, time_units measured)
  {
    calls_.push_back({static_cast<std::uint32_t>(rank), measured, 0});
    first_part_ = parts_.size();
  }

  void add_part(std::uint32_t bucket, time_units predicted)
  {
    std::uint32_t const shape = module_of_rank_[calls_.back().rank] * shape_buckets + bucket;
    calls_.back().predicted += predicted;
    auto const first = parts_.begin() + static_cast<std::ptrdiff_t>(first_part_);
    auto const same = std::find_if(first, parts_.end(),
                                   [shape](part const& each) { return each.shape == shape; });
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
    for (part& each : parts_) { each.call -= static_cast<std::uint32_t>(old_calls_); }
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

  void fit(std::size_t fewest_calls)
  {
    constexpr int rounds = 4;
    sort_parts();
    explained_.assign(calls_.size(), 0);
    for (part const& each : parts_) {
      explained_[each.call] += scaled(each.predicted, shape_factors_[each.shape]);
    }
    for (int round = 0; round < rounds; ++round) {
      fit_ranks(fewest_calls);
      for (std::size_t shape = 0; shape < shape_factors_.size(); ++shape) {
        fit_shape(shape, fewest_calls);
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
    for (auto const* const factors : {&rank_factors_, &shape_factors_}) {
      out.line("factors").number(static_cast<std::int64_t>(factors->size()));
      for (std::uint32_t const each : *factors) { out.number(each); }
    }
    out.line("old").number(static_cast<std::int64_t>(old_calls_));
    out.number(static_cast<std::int64_t>(old_parts_));
    out.line("calls").number(static_cast<std::int64_t>(calls_.size()));
    for (call const& each : calls_) {
      out.number(each.rank).number(each.measured).number(each.predicted);
    }
    out.line("parts").number(static_cast<std::int64_t>(parts_.size()));
    for (part const& each : parts_) {
      out.number(each.call).number(each.shape).number(each.predicted);
    }
  }

  void read(state_reader& in)
  {
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t most_calls = std::numeric_limits<std::uint32_t>::max();
    for (auto* const factors : {&rank_factors_, &shape_factors_}) {
      in.expect("factors");
      auto const count = static_cast<std::int64_t>(factors->size());
      static_cast<void>(in.number(count, count));
      for (std::uint32_t& each : *factors) {
        each = static_cast<std::uint32_t>(
            in.number(unchanged_factor / 16, std::int64_t{unchanged_factor} * 16));
      }
    }
    forget_calls();
    in.expect("old");
    std::int64_t const old_calls = in.number(0, most_calls);
    std::int64_t const old_parts = in.number(0, most);
    in.expect("calls");
    for (std::int64_t left = in.number(old_calls, most_calls); left > 0 && !in.failed(); --left) {
      auto const rank = in.number(0, static_cast<std::int64_t>(ranks()) - 1);
      auto const measured = in.number(1, most);
      calls_.push_back({static_cast<std::uint32_t>(rank), measured, in.number(1, most)});
    }
    in.expect("parts");
    for (std::int64_t left = in.number(old_parts, most); left > 0 && !in.failed(); --left) {
      bool const is_old = std::cmp_less(parts_.size(), old_parts);
      auto const past = is_old ? old_calls : static_cast<std::int64_t>(calls_.size());
      auto const of_call = in.number(is_old ? 0 : old_calls, past - 1);
      auto const shape = in.number(0, static_cast<std::int64_t>(shape_factors_.size()) - 1);
      parts_.push_back({static_cast<std::uint32_t>(of_call), static_cast<std::uint32_t>(shape),
                        in.number(0, most)});
    }
    old_calls_ = static_cast<std::size_t>(old_calls);
    old_parts_ = static_cast<std::size_t>(old_parts);
  }

 private:
  struct call {
    std::uint32_t rank = 0;
    time_units measured = 0;
    time_units predicted = 0;
  };
  struct part {
    std::uint32_t call = 0;
    std::uint32_t shape = 0;
    time_units predicted = 0;
  };

  [[nodiscard]] static time_units scaled(time_units time, std::uint32_t factor)
  {
    return static_cast<time_units>(static_cast<uint128>(time) * factor / unchanged_factor);
  }

  /// What a call would have taken on the median rank.
  [[nodiscard]] time_units on_median_rank(call const& each) const
  {
    return static_cast<time_units>(static_cast<uint128>(each.measured) * unchanged_factor /
                                   rank_factors_[each.rank]);
  }

  void sort_parts()
  {
    first_of_shape_.assign(shape_factors_.size() + 1, 0);
    for (part const& each : parts_) { ++first_of_shape_[each.shape + 1]; }
    for (std::size_t shape = 0; shape < shape_factors_.size(); ++shape) {
      first_of_shape_[shape + 1] += first_of_shape_[shape];
    }
    of_shape_.resize(parts_.size());
    next_ = first_of_shape_;
    for (std::size_t index = 0; index < parts_.size(); ++index) {
      of_shape_[next_[parts_[index].shape]++] = index;
    }
    first_of_rank_.assign(ranks() + 1, 0);
    for (call const& each : calls_) { ++first_of_rank_[each.rank + 1]; }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      first_of_rank_[rank + 1] += first_of_rank_[rank];
    }
    of_rank_.resize(calls_.size());
    next_ = first_of_rank_;
    for (std::size_t index = 0; index < calls_.size(); ++index) {
      of_rank_[next_[calls_[index].rank]++] = index;
    }
  }

  void fit_ranks(std::size_t fewest_calls)
  {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      values_.clear();
      for (std::size_t at = first_of_rank_[rank]; at < first_of_rank_[rank + 1]; ++at) {
        std::size_t const index = of_rank_[at];
        values_.push_back(ratio_of(calls_[index].measured, explained_[index]));
      }
      if (values_.size() >= fewest_calls) { rank_factors_[rank] = median_of(values_); }
    }
    for (std::size_t module = 0; module * shape_buckets < shape_factors_.size(); ++module) {
      values_.clear();
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        if (module_of_rank_[rank] == module) { values_.push_back(rank_factors_[rank]); }
      }
      std::uint32_t const middle = std::max(median_of(values_), 1U);
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        if (module_of_rank_[rank] != module) { continue; }
        rank_factors_[rank] = ratio_of(rank_factors_[rank], middle);
      }
    }
  }

  void fit_shape(std::size_t shape, std::size_t fewest_calls)
  {
    std::uint32_t const before = shape_factors_[shape];
    values_.clear();
    for (std::size_t at = first_of_shape_[shape]; at < first_of_shape_[shape + 1]; ++at) {
      part const& own = parts_[of_shape_[at]];
      if (own.predicted <= calls_[own.call].predicted / 16) { continue; }
      time_units const others = explained_[own.call] - scaled(own.predicted, before);
      time_units const left = on_median_rank(calls_[own.call]) - others;
      values_.push_back(ratio_of(std::max<time_units>(left, 0), own.predicted));
    }
    if (values_.empty() || values_.size() < fewest_calls) { return; }
    std::uint32_t const now = median_of(values_);
    shape_factors_[shape] = now;
    for (std::size_t at = first_of_shape_[shape]; at < first_of_shape_[shape + 1]; ++at) {
      part const& own = parts_[of_shape_[at]];
      explained_[own.call] += scaled(own.predicted, now) - scaled(own.predicted, before);
    }
  }

  std::vector<std::uint32_t> module_of_rank_;
  std::vector<std::uint32_t> rank_factors_;
  std::vector<std::uint32_t> shape_factors_;  // modules x shape_buckets
  std::vector<call> calls_;
  std::vector<part> parts_;
  std::size_t old_calls_ = 0;  // of the interval before this one
  std::size_t old_parts_ = 0;
  std::size_t first_part_ = 0;  // of the last call

  // Scratch of fit().
  std::vector<time_units> explained_;  // of each call, on the median rank
  std::vector<std::size_t> first_of_shape_;
  std::vector<std::size_t> of_shape_;
  std::vector<std::size_t> first_of_rank_;
  std::vector<std::size_t> of_rank_;
  std::vector<std::size_t> next_;
  std::vector<std::uint32_t> values_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP
