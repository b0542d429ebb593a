// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_THROUGHPUT_GRID_HPP
#define BALLAST_COST_THROUGHPUT_GRID_HPP

#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace ballast::inline v0 {

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
  static constexpr std::size_t degree_capacity = 8;
  static constexpr std::size_t length_capacity = interpolated_throughput::capacity;

  /// One unit of work per picosecond, at every length and degree.
  throughput_grid() = default;

  /// Errors  out_of_range: lengths or degrees do not increase within [1, longest_sample], or a
  ///         throughput is not in [1, 1e18], and position is the index in its span; or a span has a
  ///         wrong number of elements, and position is that number.
  [[nodiscard]] static result<throughput_grid> make(std::span<tokens const> lengths,
                                                    std::span<std::int64_t const> degrees,
                                                    std::span<double const> per_second)
  {
    if (auto const checked = detail::check_axis(lengths, length_capacity); !checked) {
      return tl::unexpected(checked.error());
    }
    if (auto const checked = detail::check_axis(degrees, degree_capacity); !checked) {
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
  tokens lengths_[length_capacity] = {1};
  std::int64_t degrees_[degree_capacity] = {1};
  std::uint64_t per_picosecond_[length_capacity * degree_capacity] = {1};
  // NOLINTEND(*-avoid-c-arrays)
  std::uint32_t length_count_ = 1;
  std::uint32_t degree_count_ = 1;
  std::uint32_t fraction_bits_ = 0;
};

static_assert(std::is_trivially_copyable_v<throughput_grid>);  // kernels take it by value

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_THROUGHPUT_GRID_HPP
