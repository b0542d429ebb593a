// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/scaled_number.hpp>
#include <ballast/cost/flops.hpp>

namespace ballast::inline v0 {

namespace detail {

/// The straight line through (x0, y0) and (x1, y1) at x, rounded down; x0 <= x <= x1, x0 < x1.
[[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint64_t interpolate(
    std::int64_t x0, std::uint64_t y0, std::int64_t x1, std::uint64_t y1, std::int64_t x)
{
  auto const from_x0 = static_cast<uint128>(x - x0);
  auto const to_x1 = static_cast<uint128>(x1 - x);
  return static_cast<std::uint64_t>((y0 * to_x1 + y1 * from_x0) / (from_x0 + to_x1));
}

/// Refuses an axis unless it has 1 to `most` positions, increasing within [1, longest_sample].
[[nodiscard]] inline result<void> check_axis(std::span<std::int64_t const> axis, std::size_t most)
{
  if (axis.empty() || axis.size() > most) {
    return fail(error_code::out_of_range, axis.size(), "a throughput axis has ", axis.size(),
                " positions; give 1 to ", most);
  }
  std::int64_t before = 0;
  for (std::size_t index = 0; index < axis.size(); ++index) {
    if (axis[index] <= before || axis[index] > longest_sample) {
      return fail(error_code::out_of_range, index, "position ", index, " of a throughput axis is ",
                  axis[index], "; give increasing numbers from ", before + 1, " to ",
                  longest_sample);
    }
    before = axis[index];
  }
  return {};
}

/// Turns throughputs into work per picosecond, in fixed point with as many fraction bits as the
/// largest leaves room for, and returns that number of bits: from 43 to 102.
[[nodiscard]] inline result<std::uint32_t> fix_throughputs(std::span<double const> per_second,
                                                           std::span<std::uint64_t> fixed)
{
  // 10^-12 = 5^-12 2^-12, to 64 bits rather than a double's 53.
  constexpr auto inverse = static_cast<std::uint64_t>((uint128{1} << 91) / 244'140'625);
  constexpr scaled_number seconds_per_picosecond = scaled_number(inverse).shifted(-91 - 12);
  auto const per_picosecond = [&](double value) {
    return scaled_number::from(value).value_or(scaled_number()) * seconds_per_picosecond;
  };
  double largest = 0;
  for (std::size_t index = 0; index < per_second.size(); ++index) {
    double const value = per_second[index];
    // from() looks at the bits, since -ffast-math lets a compiler assume that no double is
    // infinite.
    if (!scaled_number::from(value) || value < 1 || value > 1e18) {
      return fail(error_code::out_of_range, index, "throughput ", index,
                  " is not a number from 1 to 1e18 per second; measure it again");
    }
    largest = std::max(largest, value);
  }
  int const fraction_bits = 62 - per_picosecond(largest).floor_log2();
  for (std::size_t index = 0; index < per_second.size(); ++index) {
    fixed[index] = per_picosecond(per_second[index]).shifted(fraction_bits).rounded().value_or(0);
  }
  return static_cast<std::uint32_t>(fraction_bits);
}

}  // namespace detail

/// How fast a module works, measured at some lengths and joined by straight lines.
///
/// The axis is the length of a sample, or another quantity that a profile varies, such as the
/// effective batch of an encoder. Outside the measured range the nearest measurement holds:
/// throughput saturates above it, and a straight line continued below it would soon cross zero.
///
/// Units       work per second, where work is FLOP, tokens, or what the caller counts.
/// Ensures     (1) linear between neighbouring measurements, constant outside
///             (2) off by no more than a 2^-60 part of the largest throughput given
///             (3) the same bits on every compiler, flag and device
/// Complexity  O(measurements) time. Kernels can take it by value: about half a kilobyte.
/// Source      H. An et al., "DFLOP: A Data-driven Framework for Multimodal LLM Training Pipeline
///             Optimization", arXiv:2603.25120, 2026 (its profiles).
class interpolated_throughput {
 public:
  static constexpr std::size_t most_lengths = 32;

  /// One unit of work per picosecond, at every length.
  interpolated_throughput() = default;

  /// Errors  out_of_range: lengths do not increase within [1, longest_sample], or a throughput is
  ///         not in [1, 1e18], and position is its index; or there is no length, there are more
  ///         than most_lengths, or not as many throughputs as lengths, and position is how many there
  ///         are.
  [[nodiscard]] static result<interpolated_throughput> make(std::span<tokens const> lengths,
                                                            std::span<double const> per_second)
  {
    if (auto const checked = detail::check_axis(lengths, most_lengths); !checked) {
      return tl::unexpected(checked.error());
    }
    if (per_second.size() != lengths.size()) {
      return fail(error_code::out_of_range, per_second.size(), "per_second has ",
                  detail::counted(per_second.size(), "entry"), " for ",
                  detail::counted(lengths.size(), "length"), "; give one for each");
    }
    interpolated_throughput curve;
    auto const fraction_bits = detail::fix_throughputs(per_second, curve.per_picosecond_);
    if (!fraction_bits) { return tl::unexpected(fraction_bits.error()); }
    std::copy(lengths.begin(), lengths.end(), curve.lengths_);
    curve.size_ = static_cast<std::uint32_t>(lengths.size());
    curve.fraction_bits_ = *fraction_bits;
    return curve;
  }

  /// How long `work` takes at the throughput of `length`, rounded to nearest, halves up;
  /// no_cost where it does not fit. Expects length >= 0. One cost unit is a picosecond.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units picoseconds(uint128 work,
                                                                     tokens length) const
  {
    return time_at(at(length), work);
  }

  /// How long `work` takes at the highest throughput of all lengths up to this one: no length up to
  /// it takes less. The rest is as for picoseconds().
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units least_picoseconds(uint128 work,
                                                                           tokens length) const
  {
    std::uint64_t highest = at(length);
    if (highest < per_picosecond_[0]) { highest = per_picosecond_[0]; }
    for (std::uint32_t index = 1; index < size_ && lengths_[index] < length; ++index) {
      if (highest < per_picosecond_[index]) { highest = per_picosecond_[index]; }
    }
    return time_at(highest, work);
  }

  /// So many times as fast at every length. Expects both parts of `speed` from 1 to 2^20.
  [[nodiscard]] constexpr interpolated_throughput scaled(ratio speed) const
  {
    auto const [by, per] = speed;
    BALLAST_EXPECTS(by >= 1 && per >= 1 && by >> 20 <= 1 && per >> 20 <= 1, "a speed of ", by,
                    " / ", per, " is no ratio of numbers up to 2^20");
    interpolated_throughput scaled = *this;
    std::uint64_t const largest = *std::max_element(per_picosecond_, per_picosecond_ + size_);
    std::uint32_t up = 0;  // so that slower ones keep their digits
    while (largest >> (62 - up) == 0) { ++up; }
    std::uint32_t down = 0;  // so that faster ones fit
    while (by > per << down) { ++down; }
    scaled.fraction_bits_ += up;
    scaled.fraction_bits_ -= down;
    for (std::uint32_t index = 0; index < size_; ++index) {
      uint128 const product =
          static_cast<uint128>(per_picosecond_[index] << up) * static_cast<std::uint64_t>(by);
      uint128 const faster = (product >> down) / static_cast<std::uint64_t>(per);
      scaled.per_picosecond_[index] = faster == 0 ? 1 : static_cast<std::uint64_t>(faster);
    }
    return scaled;
  }

  friend bool operator==(interpolated_throughput const&, interpolated_throughput const&) = default;

 private:
  friend class throughput_grid;

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units time_at(std::uint64_t throughput,
                                                                 uint128 work) const
  {
    // A throughput is at most 2^63, so work from here on takes 2^63 picoseconds or more.
    if (work >> (126 - fraction_bits_) != 0) { return no_cost; }
    uint128 const time = ((work << fraction_bits_) + throughput / 2) / throughput;
    return time < static_cast<uint128>(no_cost) ? static_cast<cost_units>(time) : no_cost;
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr std::uint64_t at(tokens length) const
  {
    BALLAST_EXPECTS(length >= 0, "the time of a sample of ", length, " tokens was asked for");
    std::uint32_t right = 0;
    while (right < size_ && lengths_[right] < length) { ++right; }
    if (right == 0) { return per_picosecond_[0]; }
    if (right == size_) { return per_picosecond_[size_ - 1]; }
    return detail::interpolate(lengths_[right - 1], per_picosecond_[right - 1], lengths_[right],
                               per_picosecond_[right], length);
  }

  // Plain arrays, since kernels cannot call std::array's operator[]. NOLINTBEGIN(*-avoid-c-arrays)
  tokens lengths_[most_lengths] = {1};
  std::uint64_t per_picosecond_[most_lengths] = {1};
  // NOLINTEND(*-avoid-c-arrays)
  std::uint32_t size_ = 1;
  std::uint32_t fraction_bits_ = 0;
};

static_assert(std::is_trivially_copyable_v<interpolated_throughput>);  // kernels take it by value

/// How fast a module works, measured over lengths and tensor-parallel degrees.
///
/// A plan is made for one degree at a time, so `at` returns the curve of one degree. The curve is
/// linear between lengths, so throughput is bilinear over the grid.
///
/// Shapes      per_second[degrees x lengths], the lengths of one degree next to each other.
/// Units       work per second of all GPUs of the degree together, or per GPU, as it was measured.
/// Ensures     (1) at(degree) is linear between the two neighbouring measured degrees at every
///                 measured length, and the nearest measured degree outside
///             (2) the same bits on every compiler, flag and device
/// Complexity  at: O(lengths + degrees). About two and a half kilobytes.
/// Source      H. An et al., arXiv:2603.25120, 2026 (profiles over tensor-parallel degrees).
class throughput_grid {
 public:
  static constexpr std::size_t most_degrees = 8;
  static constexpr std::size_t most_lengths = interpolated_throughput::most_lengths;

  /// One unit of work per picosecond, at every length and degree.
  throughput_grid() = default;

  /// Errors  out_of_range: lengths or degrees do not increase within [1, longest_sample], or a
  ///         throughput is not in [1, 1e18], and position is the index in its span; or a span has a
  ///         wrong number of elements, and position is that number.
  [[nodiscard]] static result<throughput_grid> make(std::span<tokens const> lengths,
                                                    std::span<std::int64_t const> degrees,
                                                    std::span<double const> per_second)
  {
    if (auto const checked = detail::check_axis(lengths, most_lengths); !checked) {
      return tl::unexpected(checked.error());
    }
    if (auto const checked = detail::check_axis(degrees, most_degrees); !checked) {
      return tl::unexpected(checked.error());
    }
    if (per_second.size() != lengths.size() * degrees.size()) {
      return fail(error_code::out_of_range, per_second.size(), "per_second has ",
                  detail::counted(per_second.size(), "entry"), " for ",
                  detail::counted(lengths.size(), "length"), " of ",
                  detail::counted(degrees.size(), "degree"), "; give one for each");
    }
    throughput_grid grid;
    auto const fraction_bits = detail::fix_throughputs(per_second, grid.per_picosecond_);
    if (!fraction_bits) { return tl::unexpected(fraction_bits.error()); }
    std::copy(lengths.begin(), lengths.end(), grid.lengths_);
    std::copy(degrees.begin(), degrees.end(), grid.degrees_);
    grid.length_count_ = static_cast<std::uint32_t>(lengths.size());
    grid.degree_count_ = static_cast<std::uint32_t>(degrees.size());
    grid.fraction_bits_ = *fraction_bits;
    return grid;
  }

  /// The throughput over lengths at a tensor-parallel degree of at least 1.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr interpolated_throughput at(std::int64_t degree) const
  {
    BALLAST_EXPECTS(degree >= 1, "a throughput was asked for at a degree of ", degree,
                    ", and the least is 1");
    std::uint32_t right = 0;
    while (right + 1 < degree_count_ && degrees_[right] < degree) { ++right; }
    bool const between = right > 0 && degree < degrees_[right];
    std::uint32_t const left = between ? right - 1 : right;

    interpolated_throughput curve;
    curve.size_ = length_count_;
    curve.fraction_bits_ = fraction_bits_;
    for (std::uint32_t column = 0; column < length_count_; ++column) {
      curve.lengths_[column] = lengths_[column];
      std::uint64_t const after = per_picosecond_[right * length_count_ + column];
      curve.per_picosecond_[column] =
          between
              ? detail::interpolate(degrees_[left], per_picosecond_[left * length_count_ + column],
                                    degrees_[right], after, degree)
              : after;
    }
    return curve;
  }

  friend bool operator==(throughput_grid const&, throughput_grid const&) = default;

 private:
  // Plain arrays, since kernels cannot call std::array's operator[]. NOLINTBEGIN(*-avoid-c-arrays)
  tokens lengths_[most_lengths] = {1};
  std::int64_t degrees_[most_degrees] = {1};
  std::uint64_t per_picosecond_[most_lengths * most_degrees] = {1};
  // NOLINTEND(*-avoid-c-arrays)
  std::uint32_t length_count_ = 1;
  std::uint32_t degree_count_ = 1;
  std::uint32_t fraction_bits_ = 0;
};

static_assert(std::is_trivially_copyable_v<throughput_grid>);  // kernels take it by value

/// Latency from measured throughput: attention and the products with weights each have their own,
/// because their speeds grow differently with length.
///
/// Samples that are packed into one call pass the weights together and attention one by one, so that
/// many short samples use the weights as well as a long one does, but attention no better than each
/// alone. A pack therefore has no sum of costs of its samples: a sample costs more alone than beside
/// others. For an encoder whose items attend to themselves alone, the lengths are numbers of items
/// and the quadratic coefficient is 0.
///
/// Unlike a quadratic cost it need not grow with the length: where measured throughput rises faster
/// than the work, the longer sample costs less.
///
/// Units       picoseconds; `flops` counts the work whose throughput the tables hold: `linear` over
///             the total length of a pack, `attention` over the length of a sample.
/// Ensures     (1) weights(S): linear S / T_linear(S), rounded to nearest, halves up
///             (2) attention_of(l): quadratic l^2 / T_attention(l), rounded likewise
///             (3) of a sample weights(l) + attention_of(l); of a pack weights(sum of l) + the sum of
///                 attention_of(l), of none 0
///             (4) no_cost where a length is negative or the total above longest_sample, or where a
///                 sum is not below no_cost
///             (5) the same bits on every compiler, flag and device
/// Complexity  O(samples * measurements), no allocation.
/// Source      H. An et al., arXiv:2603.25120, 2026.
struct interpolated_cost {
  interpolated_throughput linear;
  interpolated_throughput attention;
  flop_polynomial flops;

  /// The products with weights of a pack of `total` tokens.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units weights(tokens total) const
  {
    if (total < 0 || total > longest_sample) { return no_cost; }
    return linear.picoseconds(
        static_cast<uint128>(flops.linear) * static_cast<std::uint64_t>(total), total);
  }

  /// The attention of one sample of a pack.
  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units attention_of(tokens length) const
  {
    if (length < 0 || length > longest_sample) { return no_cost; }
    auto const l = static_cast<std::uint64_t>(length);
    std::uint64_t const squared = l * l;  // below 2^62
    return attention.picoseconds(static_cast<uint128>(flops.quadratic) * squared, length);
  }

  [[nodiscard]] BALLAST_HOST_DEVICE constexpr cost_units operator()(tokens length) const
  {
    return saturating_sum(weights(length), attention_of(length));
  }

  /// A whole pack. Kernels, which have no std::span, add up the parts above.
  [[nodiscard]] constexpr cost_units operator()(std::span<tokens const> pack) const
  {
    tokens total = 0;
    cost_units one_by_one = 0;
    for (tokens const length : pack) {
      one_by_one = saturating_sum(one_by_one, attention_of(length));
      // Also for a negative length or one that is too long, before they are added to the total.
      if (one_by_one == no_cost || length > longest_sample - total) { return no_cost; }
      total += length;
    }
    return saturating_sum(weights(total), one_by_one);
  }

  friend bool operator==(interpolated_cost const&, interpolated_cost const&) = default;
};

static_assert(std::is_trivially_copyable_v<interpolated_cost>);  // kernels take it by value

}  // namespace ballast::inline v0
