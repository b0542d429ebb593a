// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_READ_PROFILE_HPP
#define BALLAST_COST_READ_PROFILE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/detail/profile_outliers.hpp>
#include <ballast/cost/detail/profile_rows.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/text/read_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

namespace detail {

/// Builds a profile row by row.
class profile_builder {
 public:
  explicit profile_builder(std::string_view csv) : rows_(csv) {}

  [[nodiscard]] result<profile_file> read()
  {
    if (auto found = rows_.read_header(); !found) { return tl::unexpected(found.error()); }
    while (true) {
      auto const more = rows_.next();
      if (!more) { return tl::unexpected(more.error()); }
      if (!*more) {
        file_.notes = notes_on(std::move(values_), file_);
        return std::move(file_);
      }
      if (auto added = add_row(); !added) { return tl::unexpected(added.error()); }
    }
  }

 private:
  using column = profile_column;
  using quantity = profile_quantity;
  static constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  static constexpr std::uint64_t most_layers = std::numeric_limits<std::int32_t>::max();
  static constexpr std::uint64_t most_speed = 1'000'000'000'000'000'000;
  static constexpr auto most_size = static_cast<std::uint64_t>(longest_sample);

  [[nodiscard]] result<void> add_row()
  {
    switch (rows_.quantity()) {
      case quantity::schema: return rows_.number(column::value, 1, 1).map([](std::uint64_t) {});
      case quantity::hardware: return set_text(file_.hardware);
      case quantity::data: return set_text(file_.data);
      case quantity::model: return set_text(module().model);
      case quantity::layers:
        return set_number(1, most_layers, [this](std::uint64_t layers) -> std::uint64_t {
          return std::exchange(module().layers, static_cast<std::uint32_t>(layers));
        });
      case quantity::linear_flop:
        return set_number(1, most, [this](std::uint64_t flop) {
          return std::exchange(module().flops.linear, flop);
        });
      case quantity::quadratic_flop:
        return set_number(0, most, [this](std::uint64_t flop) {
          return std::exchange(module().flops.quadratic, flop);
        });
      case quantity::boundary_bytes:
        return set_number(0, module_profile::most_boundary_bytes, [this](std::uint64_t bytes) {
          return std::exchange(module().boundary_bytes, bytes);
        });
      case quantity::linear_flop_per_second: return add_speed(&measured_degree::linear);
      case quantity::attention_flop_per_second: return add_speed(&measured_degree::attention);
      case quantity::state_bytes: return add_memory(&measured_degree::state);
      case quantity::activation_bytes: return add_memory(&measured_degree::activations);
    }
    return {};
  }

  [[nodiscard]] measured_module& module()
  {
    return find_or_add_module(file_, rows_.field(column::of_module));
  }

  [[nodiscard]] tl::unexpected<error> twice() const
  {
    return rows_.refuse(std::string(form_of(rows_.quantity()).name) +
                        " is there already, on a row above; remove one of the two");
  }

  [[nodiscard]] result<void> set_text(std::string& text) const
  {
    if (!text.empty()) { return twice(); }
    text = rows_.field(column::value);
    return {};
  }

  /// exchange stores the number and returns what was there: 0 for nothing.
  template <class Exchange>
  [[nodiscard]] result<void> set_number(std::uint64_t low, std::uint64_t high,
                                        Exchange const& exchange) const
  {
    auto const number = rows_.number(column::value, low, high);
    if (!number) { return tl::unexpected(number.error()); }
    if (exchange(*number) != 0) { return twice(); }
    return {};
  }

  [[nodiscard]] result<parallel_degree> degree() const
  {
    parallel_degree read;
    for (auto const& [name, member] :
         {std::pair{column::tp, &parallel_degree::tp}, std::pair{column::sp, &parallel_degree::sp},
          std::pair{column::ep, &parallel_degree::ep}}) {
      if (name != column::tp && rows_.field(name).empty()) { continue; }
      auto const number = rows_.number(name, 1, most_layers);
      if (!number) { return tl::unexpected(number.error()); }
      read.*member = static_cast<std::uint32_t>(*number);
    }
    if (read.gpus() > most_layers) {
      return rows_.refuse(text_of(read) + " takes 2^31 GPUs or more; correct the row");
    }
    return read;
  }

  [[nodiscard]] result<void> add_speed(std::vector<speed_point> measured_degree::* points)
  {
    auto const at = degree();
    if (!at) { return tl::unexpected(at.error()); }
    auto const size = rows_.number(column::size, 1, most_size);
    if (!size) { return tl::unexpected(size.error()); }
    auto const speed = rows_.number(column::value, 1, most_speed, true);
    if (!speed) { return tl::unexpected(speed.error()); }
    speed_point point;
    point.size = static_cast<tokens>(*size);
    point.flop_per_second = *speed;
    for (auto const& [name, member, high] :
         {std::tuple{column::lower_quartile, &speed_point::lower_quartile, most_speed},
          std::tuple{column::upper_quartile, &speed_point::upper_quartile, most_speed},
          std::tuple{column::forward_ns, &speed_point::forward_ns, most},
          std::tuple{column::backward_ns, &speed_point::backward_ns, most}}) {
      if (rows_.field(name).empty()) { continue; }
      auto const known = rows_.number(name, 0, high, true);
      if (!known) { return tl::unexpected(known.error()); }
      point.*member = *known;
    }
    if (!add_point(find_or_add_degree(module(), *at).*points, point)) { return twice(); }
    remember(*at, *speed, *size, 1);
    return {};
  }

  [[nodiscard]] result<void> add_memory(std::vector<memory_point> measured_degree::* points)
  {
    auto const at = degree();
    if (!at) { return tl::unexpected(at.error()); }
    auto const layers = rows_.number(column::layers, 1, most_layers);
    if (!layers) { return tl::unexpected(layers.error()); }
    memory_point point;
    point.layers = static_cast<std::uint32_t>(*layers);
    if (form_of(rows_.quantity()).size) {
      auto const size = rows_.number(column::size, 0, most_size);
      if (!size) { return tl::unexpected(size.error()); }
      point.size = static_cast<tokens>(*size);
    }
    auto const bytes = rows_.number(column::value, 0, most);
    if (!bytes) { return tl::unexpected(bytes.error()); }
    point.bytes = *bytes;
    if (!add_point(find_or_add_degree(module(), *at).*points, point)) { return twice(); }
    remember(*at, *bytes, static_cast<std::uint64_t>(point.size), point.layers);
    return {};
  }

  /// Keeps a measurement for the notes; 0 bytes, and those of no token, have no neighbours.
  void remember(parallel_degree const& at, std::uint64_t value, std::uint64_t size,
                std::uint64_t layers)
  {
    bool const is_state = rows_.quantity() == quantity::state_bytes;
    if (value == 0 || (size == 0 && !is_state)) { return; }
    auto const of = static_cast<std::size_t>(&module() - file_.modules.data());
    values_.push_back({of, rows_.quantity(), at, value, is_state ? 1 : size, layers, rows_.line()});
  }

  profile_row_reader rows_;
  profile_file file_;
  std::vector<profile_value> values_;
};

}  // namespace detail

/// Reads a profile file, complete or not: a CSV text with the columns `module`, `tp`, `quantity`,
/// `layers`, `size` and `value`, and perhaps `sp`, `ep`, the quartiles and passes of speeds, among
/// others, rows and columns in any order. docs/profile.md has the contract of its rows.
///
/// Ensures     (1) modules are in the order of their first rows, and all else is sorted
///             (2) of several bad rows, the first is reported
///             (3) notes has a sentence, with the line, on measurements that differ from others of
///                 their quantity in their module more than 100 times as much as their sizes,
///                 layers and GPUs explain, the first of each degree: 380 where 380e12 is meant
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, an unknown quantity, a field that is empty or
///             full where its quantity has it otherwise, a number that is none or out of its range,
///             a measurement that is there twice, bad quoting.
/// Complexity  O(bytes + rows * (measurements of a degree + log rows)).
[[nodiscard]] inline result<profile_file> read_profile(std::string_view csv)
{
  return detail::profile_builder(csv).read();
}

/// Reads the file at `path`; as `read_profile`, with the path in front of every message and note.
///
/// Errors      also unreadable: the file cannot be opened or read, or it is a directory; bad_row:
///             its last line has no end, so that it may have been cut.
[[nodiscard]] inline result<profile_file> load_profile(std::string const& path)
{
  auto const csv = read_file(path);
  if (!csv) { return tl::unexpected(csv.error()); }
  if (!csv->empty() && csv->back() != '\n') {
    auto const line = 1 + static_cast<std::size_t>(std::count(csv->begin(), csv->end(), '\n'));
    return fail(error_code::bad_row, line, path, ": line ", line,
                " has no end, as in a file that was cut; end it with a newline if it is whole");
  }
  auto file = read_profile(*csv);
  if (!file) { file.error().message.insert(0, path + ": "); }
  if (file) {
    for (std::string& note : file->notes) { note.insert(0, path + ": "); }
  }
  return file;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_READ_PROFILE_HPP
