// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_DETAIL_PROFILE_ROWS_HPP
#define BALLAST_COST_DETAIL_PROFILE_ROWS_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/excerpt.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace ballast::inline v0::detail {

/// The columns of a profile file, in the order in which it is written. Files may leave out those
/// from lower_quartile on, and those that are written do without the last two where all are 1.
enum class profile_column : std::uint8_t {
  of_module,
  tp,
  quantity,
  layers,
  size,
  value,
  lower_quartile,
  upper_quartile,
  forward_ns,
  backward_ns,
  sp,
  ep
};

inline constexpr std::array<std::string_view, 12> profile_columns = {
    "module",         "tp",         "quantity",    "layers", "size", "value", "lower_quartile",
    "upper_quartile", "forward_ns", "backward_ns", "sp",     "ep"};
inline constexpr std::size_t needed_profile_columns = 6;
inline constexpr std::size_t profile_columns_of_tp = 10;

/// What a row says.
enum class profile_quantity : std::uint8_t {
  schema,
  hardware,
  data,
  model,
  layers,
  linear_flop,
  quadratic_flop,
  boundary_bytes,
  linear_flop_per_second,
  attention_flop_per_second,
  state_bytes,
  activation_bytes
};

/// Which fields a row of a quantity fills, beside quantity and value; the others are empty.
struct profile_row_form {
  std::string_view name;
  bool module = false;
  bool tp = false;  // and may: sp, ep
  bool layers = false;
  bool size = false;
  bool spread = false;  // may: the quartiles and the passes
};

/// By profile_quantity.
inline constexpr std::array<profile_row_form, 12> profile_row_forms = {{
    {.name = "schema"},
    {.name = "hardware"},
    {.name = "data"},
    {.name = "model", .module = true},
    {.name = "layers", .module = true},
    {.name = "linear_flop", .module = true},
    {.name = "quadratic_flop", .module = true},
    {.name = "boundary_bytes", .module = true},
    {.name = "linear_flop_per_second", .module = true, .tp = true, .size = true, .spread = true},
    {.name = "attention_flop_per_second", .module = true, .tp = true, .size = true, .spread = true},
    {.name = "state_bytes", .module = true, .tp = true, .layers = true},
    {.name = "activation_bytes", .module = true, .tp = true, .layers = true, .size = true},
}};

[[nodiscard]] constexpr profile_row_form const& form_of(profile_quantity quantity)
{
  return profile_row_forms[static_cast<std::size_t>(quantity)];
}

/// The header of a profile file.
[[nodiscard]] inline std::string profile_header(std::size_t columns)
{
  std::string header;
  for (std::size_t at = 0; at < columns; ++at) {
    header.append(at == 0 ? "" : ",").append(profile_columns[at]);
  }
  return header;
}

/// The rows of a profile file one by one, each checked by itself.
class profile_row_reader {
 public:
  explicit profile_row_reader(std::string_view csv) : rows_(csv) {}

  /// Finds the columns. Call it once, before next().
  [[nodiscard]] result<void> read_header()
  {
    auto const header = rows_.next();
    if (!header) { return tl::unexpected(header.error()); }
    columns_ = header->fields.size();
    if (columns_ == 0) { return refuse("there is no header; write " + shortest_header()); }
    line_ = header->line;
    for (std::size_t name = 0; name < profile_columns.size(); ++name) {
      auto const first = header->fields.begin();
      auto const last = header->fields.end();
      auto const count = std::count(first, last, profile_columns[name]);
      if (count > 1 || (count == 0 && name < needed_profile_columns)) {
        return refuse((count == 0 ? "there is no column '" : "there are two columns '") +
                      std::string(profile_columns[name]) + "'; write the header " +
                      shortest_header());
      }
      if (count == 1) {
        at_[name] = static_cast<std::size_t>(std::find(first, last, profile_columns[name]) - first);
      }
    }
    return {};
  }

  /// Goes to the next row and returns whether there is one.
  ///
  /// Errors      bad_row: it has more or fewer fields than the header, an unknown quantity, or it
  ///             fills other fields than the quantity's.
  [[nodiscard]] result<bool> next()
  {
    auto const row = rows_.next();
    if (!row) { return tl::unexpected(row.error()); }
    row_ = *row;
    if (row->fields.empty()) { return false; }
    line_ = row->line;
    if (row->fields.size() != columns_) {
      return refuse(concat("the number of fields is ", row->fields.size(), ", but the header has ",
                           columns_, "; correct the row"));
    }
    std::string_view const name = field(profile_column::quantity);
    auto const form = std::find_if(profile_row_forms.begin(), profile_row_forms.end(),
                                   [&](profile_row_form const& each) { return each.name == name; });
    if (form == profile_row_forms.end()) {
      std::string names;
      for (profile_row_form const& each : profile_row_forms) {
        names.append(names.empty() ? "" : ", ").append(each.name);
      }
      return refuse("column 'quantity' holds " + excerpt(name) + "; write one of " + names);
    }
    quantity_ = static_cast<profile_quantity>(form - profile_row_forms.begin());
    if (auto filled = check_form(*form); !filled) { return tl::unexpected(filled.error()); }
    return true;
  }

  [[nodiscard]] profile_quantity quantity() const { return quantity_; }
  [[nodiscard]] std::size_t line() const { return line_; }

  /// The text of a field, empty where the file lacks the column; valid until next().
  [[nodiscard]] std::string_view field(profile_column column) const
  {
    std::size_t const at = at_[static_cast<std::size_t>(column)];
    return at == none ? std::string_view() : row_.fields[at];
  }

  /// The number in a field: whole, or rounded to a whole one.
  [[nodiscard]] result<std::uint64_t> number(profile_column column, std::uint64_t low,
                                             std::uint64_t high, bool rounds = false) const
  {
    std::string_view const text = field(column);
    auto const read = parse_decimal(text);
    if (read && (rounds || read->decimals() == 0)) {
      constexpr std::uint64_t billion = 1'000'000'000;
      uint128 const whole = (read->in_units(decimal::most_decimals) + billion / 2) / billion;
      if (whole >= low && whole <= high) { return static_cast<std::uint64_t>(whole); }
    }
    return refuse(concat("column '", profile_columns[static_cast<std::size_t>(column)], "' of ",
                         form_of(quantity_).name, " holds ", excerpt(text),
                         ", expected a whole number from ", low, " to ", high,
                         " such as 4096 or 4e14; correct the row"));
  }

  [[nodiscard]] tl::unexpected<error> refuse(std::string const& why) const
  {
    return fail(error_code::bad_row, line_, "line ", line_, ": ", why);
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  [[nodiscard]] static std::string shortest_header()
  {
    return profile_header(needed_profile_columns);
  }

  [[nodiscard]] result<void> check_form(profile_row_form const& form) const
  {
    std::array<bool, profile_columns.size()> const fills = {
        form.module, form.tp,     true,        form.layers, form.size, true,
        form.spread, form.spread, form.spread, form.spread, form.tp,   form.tp};
    for (std::size_t at = 0; at < fills.size(); ++at) {
      std::string_view const text = field(static_cast<profile_column>(at));
      if (text.empty() && fills[at] && at < needed_profile_columns) {
        return refuse("column '" + std::string(profile_columns[at]) + "' of " +
                      std::string(form.name) + " is empty; fill it");
      }
      if (!text.empty() && !fills[at]) {
        return refuse("column '" + std::string(profile_columns[at]) + "' holds " + excerpt(text) +
                      ", but " + std::string(form.name) + " has none; leave it empty");
      }
    }
    return {};
  }

  csv_reader rows_;
  csv_row row_;
  std::array<std::size_t, profile_columns.size()> at_ = {none, none, none, none, none, none,
                                                         none, none, none, none, none, none};
  std::size_t columns_ = 0;
  std::size_t line_ = 1;
  profile_quantity quantity_ = profile_quantity::schema;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COST_DETAIL_PROFILE_ROWS_HPP
