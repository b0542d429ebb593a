// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_WRITE_PROFILE_HPP
#define BALLAST_COST_WRITE_PROFILE_HPP

#include <ballast/cost/detail/profile_rows.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/text/csv_field.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// Writes a profile row by row.
class profile_writer {
 public:
  explicit profile_writer(profile_file const& file)
      : has_tp_only_(std::all_of(file.modules.begin(), file.modules.end(), is_of_tp)),
        text_(profile_header(has_tp_only_ ? profile_columns_of_tp : profile_columns.size()) + "\n")
  {
    write(quantity::schema, {}, "1");
    write_text(quantity::hardware, {}, file.hardware);
    write_text(quantity::data, {}, file.data);
    for (measured_module const& module : file.modules) { write_module(module); }
  }

  [[nodiscard]] std::string const& text() const { return text_; }

 private:
  using quantity = profile_quantity;

  [[nodiscard]] static bool is_of_tp(measured_module const& module)
  {
    return std::all_of(module.degrees.begin(), module.degrees.end(),
                       [](measured_degree const& each) { return each.sp == 1 && each.ep == 1; });
  }

  /// What a row has beside quantity and value, as text.
  struct place {
    std::string module{};
    std::string tp{};
    std::string layers{};
    std::string size{};
    std::string spread = ",,,,";  ///< quartiles and passes
    std::string sp{};
    std::string ep{};
  };

  void write(quantity what, place const& where, std::string_view value)
  {
    auto& row = text_;
    row.append(where.module).append(",").append(where.tp).append(",").append(form_of(what).name);
    row.append(",").append(where.layers).append(",").append(where.size).append(",").append(value);
    row.append(where.spread);
    if (!has_tp_only_) { row.append(",").append(where.sp).append(",").append(where.ep); }
    row.append("\n");
  }

  void write_text(quantity what, place const& where, std::string_view value)
  {
    if (!value.empty()) { write(what, where, csv_field(value)); }
  }
  void write_number(quantity what, place const& where, std::uint64_t value)
  {
    if (value != 0) { write(what, where, std::to_string(value)); }
  }

  void write_module(measured_module const& module)
  {
    place const of_module{.module = csv_field(module.name)};
    write_text(quantity::model, of_module, module.model);
    write_number(quantity::layers, of_module, module.layers);
    write_number(quantity::linear_flop, of_module, module.flops.linear);
    write_number(quantity::quadratic_flop, of_module, module.flops.quadratic);
    write_number(quantity::boundary_bytes, of_module, module.boundary_bytes);
    for (measured_degree const& degree : module.degrees) {
      place where = of_module;
      where.tp = std::to_string(degree.tp);
      where.sp = std::to_string(degree.sp);
      where.ep = std::to_string(degree.ep);
      write_speeds(quantity::linear_flop_per_second, where, degree.linear);
      write_speeds(quantity::attention_flop_per_second, where, degree.attention);
      write_memory(quantity::state_bytes, where, degree.state);
      write_memory(quantity::activation_bytes, where, degree.activations);
    }
  }

  void write_speeds(quantity what, place where, std::vector<speed_point> const& points)
  {
    for (speed_point const& each : points) {
      where.size = std::to_string(each.size);
      where.spread.clear();
      for (std::uint64_t const known :
           {each.lower_quartile, each.upper_quartile, each.forward_ns, each.backward_ns}) {
        where.spread.append(",").append(known == 0 ? "" : std::to_string(known));
      }
      write(what, where, std::to_string(each.flop_per_second));
    }
  }

  void write_memory(quantity what, place where, std::vector<memory_point> const& points)
  {
    for (memory_point const& each : points) {
      where.layers = std::to_string(each.layers);
      if (form_of(what).size) { where.size = std::to_string(each.size); }
      write(what, where, std::to_string(each.bytes));
    }
  }

  bool has_tp_only_;
  std::string text_;
};

}  // namespace detail

/// A profile as CSV.
///
/// Expects     numbers are within the ranges that read_profile has; modules have names, and those
///             of different modules differ; degrees and points are in order.
/// Ensures     (1) read_profile reads the same back, but for modules and degrees of which nothing
///                 is known
/// Complexity  O(measurements).
[[nodiscard]] inline std::string write_profile(profile_file const& file)
{
  return detail::profile_writer(file).text();
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_WRITE_PROFILE_HPP
