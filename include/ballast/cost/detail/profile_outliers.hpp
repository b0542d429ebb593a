// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_PROFILE_OUTLIERS_HPP
#define BALLAST_COST_DETAIL_PROFILE_OUTLIERS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/cost/detail/profile_rows.hpp>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace ballast::inline v0::detail {

/// A measurement, and the line of the file that it is on.
struct profile_value {
  std::size_t module = 0;
  profile_quantity quantity{};
  parallel_degree degree;
  std::uint64_t value = 1;
  std::uint64_t size = 1;    ///< of a state: 1
  std::uint64_t layers = 1;  ///< of a speed: 1
  std::size_t line = 0;
};

/// Whether two measurements of a quantity differ more than 100 times as much as their sizes, layers
/// and, of memory, GPUs explain: a speed of 380 beside 380e12, a size of a few bytes.
[[nodiscard]] inline bool far_apart(profile_value const& a, profile_value const& b)
{
  auto const times = [](std::uint64_t x, std::uint64_t y) {
    return static_cast<double>(std::max(x, y)) / static_cast<double>(std::min(x, y));
  };
  bool const is_memory = a.quantity == profile_quantity::state_bytes ||
                         a.quantity == profile_quantity::activation_bytes;
  return times(a.value, b.value) > 100 * times(a.size, b.size) * times(a.layers, b.layers) *
                                       (is_memory ? times(a.degree.gpus(), b.degree.gpus()) : 1);
}

/// Sentences on measurements that lie far from the median of their quantity in their module, one
/// for each degree, by line.
[[nodiscard]] inline std::vector<std::string> notes_on(std::vector<profile_value> values,
                                                       profile_file const& file)
{
  std::sort(values.begin(), values.end(), [](profile_value const& a, profile_value const& b) {
    return std::tie(a.module, a.quantity, a.value, a.line) <
           std::tie(b.module, b.quantity, b.value, b.line);
  });
  struct outlier {
    profile_value at;
    profile_value median;
  };
  std::vector<outlier> found;
  for (auto first = values.begin(); first != values.end();) {
    auto const last = std::find_if(first, values.end(), [first](profile_value const& each) {
      return each.module != first->module || each.quantity != first->quantity;
    });
    auto const median = *(first + (last - first) / 2);
    for (; first != last; ++first) {
      if (far_apart(*first, median)) { found.push_back({*first, median}); }
    }
  }
  std::sort(found.begin(), found.end(),
            [](outlier const& a, outlier const& b) { return a.at.line < b.at.line; });
  std::set<std::tuple<std::size_t, profile_quantity, parallel_degree>> noted;
  std::vector<std::string> notes;
  for (auto const& [at, median] : found) {
    if (!noted.emplace(at.module, at.quantity, at.degree).second) { continue; }
    notes.push_back(concat("line ", at.line, ": ", form_of(at.quantity).name, " of ",
                           excerpt(file.modules[at.module].name), " at ", text_of(at.degree),
                           " is ", at.value, ", more than 100 times ",
                           at.value < median.value ? "below" : "above", " the ", median.value,
                           " of line ", median.line, "; correct the one that is wrong"));
  }
  return notes;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_PROFILE_OUTLIERS_HPP
