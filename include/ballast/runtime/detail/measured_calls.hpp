// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP
#define BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/runtime/detail/state_text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_MEASURED_CALLS_HPP
