// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP
#define BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP

#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
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
    calls_.rank.push_back(static_cast<std::uint32_t>(rank));
    calls_.measured.push_back(measured);
    calls_.predicted.push_back(0);
    first_part_ = parts_.size();
  }

  void add_part(std::uint32_t bucket, time_units predicted)
  {
    std::uint32_t const shape = module_of_rank_[calls_.rank.back()] * shape_buckets + bucket;
    calls_.predicted.back() += predicted;
    std::size_t same = first_part_;
    while (same < parts_.size() && parts_.shape[same] != shape) { ++same; }
    if (same < parts_.size()) {
      parts_.predicted[same] += predicted;
    } else {
      parts_.add(static_cast<std::uint32_t>(calls_.size() - 1), shape, predicted);
    }
  }

  /// A call of no predicted time says nothing.
  void end_call()
  {
    if (calls_.predicted.back() > 0) { return; }
    parts_.keep(0, first_part_);
    calls_.keep(0, calls_.size() - 1);
  }

  /// Calls of the interval before this one are given up.
  void next_interval()
  {
    calls_.keep(old_calls_, calls_.size());
    parts_.keep(old_parts_, parts_.size());
    for (std::uint32_t& call : parts_.call) { call -= static_cast<std::uint32_t>(old_calls_); }
    old_calls_ = calls_.size();
    old_parts_ = parts_.size();
  }

  void forget_calls()
  {
    calls_.keep(0, 0);
    parts_.keep(0, 0);
    old_calls_ = 0;
    old_parts_ = 0;
  }

  void fit(std::size_t fewest_calls)
  {
    constexpr int rounds = 4;
    sort_parts();
    explained_.assign(calls_.size(), 0);
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      explained_[parts_.call[part]] +=
          scaled(parts_.predicted[part], shape_factors_[parts_.shape[part]]);
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
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      out.number(calls_.rank[call]).number(calls_.measured[call]).number(calls_.predicted[call]);
    }
    out.line("parts").number(static_cast<std::int64_t>(parts_.size()));
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      out.number(parts_.call[part]).number(parts_.shape[part]).number(parts_.predicted[part]);
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
      calls_.rank.push_back(static_cast<std::uint32_t>(rank));
      calls_.measured.push_back(measured);
      calls_.predicted.push_back(in.number(1, most));
    }
    in.expect("parts");
    for (std::int64_t left = in.number(old_parts, most); left > 0 && !in.failed(); --left) {
      bool const is_old = std::cmp_less(parts_.size(), old_parts);
      auto const past = is_old ? old_calls : static_cast<std::int64_t>(calls_.size());
      auto const of_call = in.number(is_old ? 0 : old_calls, past - 1);
      auto const shape = in.number(0, static_cast<std::int64_t>(shape_factors_.size()) - 1);
      parts_.add(static_cast<std::uint32_t>(of_call), static_cast<std::uint32_t>(shape),
                 in.number(0, most));
    }
    old_calls_ = static_cast<std::size_t>(old_calls);
    old_parts_ = static_cast<std::size_t>(old_parts);
  }

 private:
  template <class T>
  static void keep_in(std::vector<T>& values, std::size_t first, std::size_t end)
  {
    if (first > 0) { std::copy(values.data() + first, values.data() + end, values.data()); }
    values.resize(end - first);
  }

  // Arrays of numbers, not of records: whoever includes ballast pays for each type in a vector.
  struct measured_times {
    std::vector<std::uint32_t> rank;
    std::vector<time_units> measured;
    std::vector<time_units> predicted;

    [[nodiscard]] std::size_t size() const noexcept { return rank.size(); }
    void keep(std::size_t first, std::size_t end)
    {
      keep_in(rank, first, end);
      keep_in(measured, first, end);
      keep_in(predicted, first, end);
    }
  };
  struct predicted_parts {
    std::vector<std::uint32_t> call;
    std::vector<std::uint32_t> shape;
    std::vector<time_units> predicted;

    [[nodiscard]] std::size_t size() const noexcept { return call.size(); }
    void add(std::uint32_t of_call, std::uint32_t of_shape, time_units time)
    {
      call.push_back(of_call);
      shape.push_back(of_shape);
      predicted.push_back(time);
    }
    void keep(std::size_t first, std::size_t end)
    {
      keep_in(call, first, end);
      keep_in(shape, first, end);
      keep_in(predicted, first, end);
    }
  };

  [[nodiscard]] static time_units scaled(time_units time, std::uint32_t factor)
  {
    return static_cast<time_units>(static_cast<uint128>(time) * factor / unchanged_factor);
  }

  /// What a call would have taken on the median rank.
  [[nodiscard]] time_units on_median_rank(std::size_t call) const
  {
    return static_cast<time_units>(static_cast<uint128>(calls_.measured[call]) * unchanged_factor /
                                   rank_factors_[calls_.rank[call]]);
  }

  void sort_parts()
  {
    first_of_shape_.assign(shape_factors_.size() + 1, 0);
    for (std::uint32_t const shape : parts_.shape) { ++first_of_shape_[shape + 1]; }
    for (std::size_t shape = 0; shape < shape_factors_.size(); ++shape) {
      first_of_shape_[shape + 1] += first_of_shape_[shape];
    }
    of_shape_.resize(parts_.size());
    next_ = first_of_shape_;
    for (std::size_t index = 0; index < parts_.size(); ++index) {
      of_shape_[next_[parts_.shape[index]]++] = index;
    }
    first_of_rank_.assign(ranks() + 1, 0);
    for (std::uint32_t const rank : calls_.rank) { ++first_of_rank_[rank + 1]; }
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      first_of_rank_[rank + 1] += first_of_rank_[rank];
    }
    of_rank_.resize(calls_.size());
    next_ = first_of_rank_;
    for (std::size_t index = 0; index < calls_.size(); ++index) {
      of_rank_[next_[calls_.rank[index]]++] = index;
    }
  }

  void fit_ranks(std::size_t fewest_calls)
  {
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      values_.clear();
      for (std::size_t at = first_of_rank_[rank]; at < first_of_rank_[rank + 1]; ++at) {
        std::size_t const index = of_rank_[at];
        values_.push_back(ratio_of(calls_.measured[index], explained_[index]));
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
      std::uint32_t const call = parts_.call[of_shape_[at]];
      time_units const predicted = parts_.predicted[of_shape_[at]];
      if (predicted <= calls_.predicted[call] / 16) { continue; }
      time_units const others = explained_[call] - scaled(predicted, before);
      time_units const left = on_median_rank(call) - others;
      values_.push_back(ratio_of(std::max<time_units>(left, 0), predicted));
    }
    if (values_.empty() || values_.size() < fewest_calls) { return; }
    std::uint32_t const now = median_of(values_);
    shape_factors_[shape] = now;
    for (std::size_t at = first_of_shape_[shape]; at < first_of_shape_[shape + 1]; ++at) {
      time_units const predicted = parts_.predicted[of_shape_[at]];
      explained_[parts_.call[of_shape_[at]]] += scaled(predicted, now) - scaled(predicted, before);
    }
  }

  std::vector<std::uint32_t> module_of_rank_;
  std::vector<std::uint32_t> rank_factors_;
  std::vector<std::uint32_t> shape_factors_;  // modules x shape_buckets
  measured_times calls_;
  predicted_parts parts_;
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
