// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_PROFILE_FILE_HPP
#define BALLAST_COST_PROFILE_FILE_HPP

#include <ballast/core/detail/precedes.hpp>
#include <ballast/core/detail/span_of.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_memory.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/text/detail/counted.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// How fast a part of a module was at one size.
///
/// Units       FLOP per second of each GPU, of a forward and a backward pass together: the median
///             of the runs and their quartiles. Nanoseconds of a pass, its median. 0: not known.
struct speed_point {
  tokens size = 1;
  std::uint64_t flop_per_second = 1;
  std::uint64_t lower_quartile = 0;
  std::uint64_t upper_quartile = 0;
  std::uint64_t forward_ns = 0;
  std::uint64_t backward_ns = 0;

  friend bool operator==(speed_point const&, speed_point const&) = default;
};

/// The bytes that one GPU held of so many layers; size is that of a microbatch, 0 for a state.
struct memory_point {
  std::uint32_t layers = 1;
  tokens size = 0;
  std::uint64_t bytes = 0;

  friend bool operator==(memory_point const&, memory_point const&) = default;
};

/// What was measured of a module at one parallel degree, so far.
struct measured_degree {
  std::uint32_t tp = 1;
  std::vector<speed_point> linear;        ///< by size, increasing
  std::vector<speed_point> attention;     ///< by size, increasing
  std::vector<memory_point> state;        ///< by layers, increasing
  std::vector<memory_point> activations;  ///< by layers, then size, increasing
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(measured_degree const&, measured_degree const&) = default;
};

/// What was measured of a module so far.
struct measured_module {
  std::string name;
  std::string model;                     ///< a fingerprint: what makes it another model, in words
  std::uint32_t layers = 0;              ///< 0: not known
  flop_polynomial flops;                 ///< as in module_profile
  std::vector<measured_degree> degrees;  ///< by tp, sp and ep, increasing
  std::uint64_t boundary_bytes = 0;      ///< as in module_profile

  friend bool operator==(measured_module const&, measured_module const&) = default;
};

/// What a profile file holds: the measurements themselves, all of them or those made so far, and on
/// what they were made. `modules_of` makes the curves of a search from them.
///
/// Files are equal where their measurements are, whatever there is to note.
struct profile_file {
  std::string hardware;  ///< a fingerprint, such as "8 x H100, CUDA 13.0"
  std::string data;      ///< a fingerprint of the data whose shapes were drawn
  std::vector<measured_module> modules;
  std::vector<std::string> notes = {};  ///< of who read it: sentences on what may be wrong

  friend bool operator==(profile_file const& a, profile_file const& b)
  {
    return a.hardware == b.hardware && a.data == b.data && a.modules == b.modules;
  }
};

/// The module of a name, or null.
[[nodiscard]] inline measured_module const* find_module(profile_file const& file,
                                                        std::string_view name)
{
  for (measured_module const& each : file.modules) {
    if (each.name == name) { return &each; }
  }
  return nullptr;
}

/// The module of a name; where the file has none, a new one after those that it has.
[[nodiscard]] inline measured_module& find_or_add_module(profile_file& file, std::string_view name)
{
  for (measured_module& each : file.modules) {
    if (each.name == name) { return each; }
  }
  measured_module& added = file.modules.emplace_back();
  added.name = name;
  return added;
}

/// The measurements at a degree; where the module has none, a new one in its place.
[[nodiscard]] inline measured_degree& find_or_add_degree(measured_module& module,
                                                         parallel_degree const& degree)
{
  auto const lower = [](measured_degree const& each, parallel_degree const& at) {
    return degree_of(each) < at;
  };
  auto& all = module.degrees;  // nvcc takes a line that begins with "module" for a module
  auto const place = std::lower_bound(all.begin(), all.end(), degree, lower);
  if (place != all.end() && degree_of(*place) == degree) { return *place; }
  measured_degree added;
  added.tp = degree.tp;
  added.sp = degree.sp;
  added.ep = degree.ep;
  return *module.degrees.insert(place, std::move(added));
}

namespace detail {

/// Adds a point before the first one that does not precede it, and returns whether that is another.
template <class Point, class Before>
bool add_ordered(std::vector<Point>& points, Point const& point, Before before)
{
  auto const place = std::lower_bound(points.begin(), points.end(), point, before);
  if (place != points.end() && !before(point, *place)) { return false; }
  points.insert(place, point);
  return true;
}

}  // namespace detail

/// Adds a point in its place and returns whether there was none of its size.
inline bool add_point(std::vector<speed_point>& points, speed_point const& point)
{
  return detail::add_ordered(
      points, point, [](speed_point const& a, speed_point const& b) { return a.size < b.size; });
}

/// Adds a point in its place and returns whether there was none of its layers and size.
inline bool add_point(std::vector<memory_point>& points, memory_point const& point)
{
  return detail::add_ordered(points, point, [](memory_point const& a, memory_point const& b) {
    return detail::precedes(a.layers, b.layers, a.size, b.size);
  });
}

namespace detail {

/// A curve through measured points; of no points the one that no work is read from.
[[nodiscard]] inline result<interpolated_throughput> curve_through(
    std::vector<speed_point> const& points)
{
  if (points.empty()) { return interpolated_throughput(); }
  std::vector<tokens> sizes(points.size());
  std::vector<double> speeds(points.size());
  for (std::size_t at = 0; at < points.size(); ++at) {
    sizes[at] = points[at].size;
    speeds[at] = static_cast<double>(points[at].flop_per_second);
  }
  return interpolated_throughput::make(span_of(sizes), span_of(speeds));
}

/// The memory through measured points, if these are of two numbers of layers, and of two sizes with
/// each.
[[nodiscard]] inline result<module_memory> memory_through(measured_degree const& degree)
{
  auto const& state = degree.state;
  auto const& held = degree.activations;
  if (state.size() != 2) {
    return fail(error_code::out_of_range, state.size(), "has ", state.size(),
                " state_bytes; give two, of two numbers of layers, or two of 0 bytes where "
                "memory is no limit");
  }
  bool const is_grid = held.size() == 4 && held[0].layers == held[1].layers &&
                       held[2].layers == held[3].layers && held[0].size == held[2].size &&
                       held[1].size == held[3].size && held[0].layers == state[0].layers &&
                       held[2].layers == state[1].layers;
  if (!is_grid) {
    return fail(error_code::out_of_range, held.size(), "has ", held.size(),
                " activation_bytes; give four, of ", state[0].layers, " and ",
                counted(state[1].layers, "layer"),
                " as state_bytes has them, each at the same two sizes");
  }
  return module_memory{
      .layers = {state[0].layers, state[1].layers},
      .state_bytes = {state[0].bytes, state[1].bytes},
      .sizes = {held[0].size, held[1].size},
      .activation_bytes = {{{held[0].bytes, held[1].bytes}, {held[2].bytes, held[3].bytes}}}};
}

}  // namespace detail

/// The profiles that a search reads, in the order of the file.
///
/// Errors      out_of_range, position of the module: something is not measured yet, there is more
///             of it than a profile has room for, or check_profile refuses it. position 0 where
///             there is no module.
/// Complexity  O(measurements).
[[nodiscard]] inline result<std::vector<module_profile>> modules_of(profile_file const& file)
{
  if (file.modules.empty()) {
    return fail(error_code::out_of_range, 0, "the profile has no module; measure one at least");
  }
  std::vector<module_profile> modules;
  for (measured_module const& each : file.modules) {
    module_profile& profile = modules.emplace_back(
        module_profile{each.name, each.layers, each.flops, {}, each.boundary_bytes});
    auto const refuse = [&](std::string const& why) {
      return fail(error_code::out_of_range, modules.size() - 1, "module " + each.name + " " + why);
    };
    for (measured_degree const& degree : each.degrees) {
      auto const refuse_degree = [&](std::string const& why) {
        return refuse("at " + text_of(degree_of(degree)) + ": " + why);
      };
      if (degree.linear.empty()) {
        return refuse_degree("has no linear_flop_per_second; give one at least");
      }
      if (degree.attention.empty() && each.flops.quadratic != 0) {
        return refuse_degree(
            "has quadratic_flop but no attention_flop_per_second; give one at least");
      }
      auto const linear = detail::curve_through(degree.linear);
      if (!linear) { return refuse_degree("linear_flop_per_second: " + linear.error().message); }
      auto const attention = detail::curve_through(degree.attention);
      if (!attention) {
        return refuse_degree("attention_flop_per_second: " + attention.error().message);
      }
      auto const memory = detail::memory_through(degree);
      if (!memory) { return refuse_degree(memory.error().message); }
      profile.degrees.push_back({degree.tp, *linear, *attention, *memory, degree.sp, degree.ep});
    }
    if (auto checked = check_profile(profile); !checked) {
      return fail(checked.error().code, modules.size() - 1, checked.error().message);
    }
  }
  return modules;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_PROFILE_FILE_HPP
