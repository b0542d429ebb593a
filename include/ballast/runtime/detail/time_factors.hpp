// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_TIME_FACTORS_HPP
#define BALLAST_RUNTIME_DETAIL_TIME_FACTORS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/runtime/detail/measured_calls.hpp>
#include <ballast/runtime/detail/state_text.hpp>
#include <ballast/runtime/shape_bucket.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_TIME_FACTORS_HPP
