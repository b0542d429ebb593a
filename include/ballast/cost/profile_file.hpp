// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>
#include <ballast/text/read_file.hpp>

#include <set>
#include <tuple>
#include <variant>

namespace ballast::inline v0 {

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

/// What a profile file holds: the measurements themselves, all of them or those made so far, and on
/// what they were made. `profiles` makes the curves of a search from them.
///
/// Files are equal where their measurements are, whatever there is to note.
struct profile_file {
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
    std::uint64_t weights_percent = 0;     ///< as there; 0: not known, and then its default
    std::uint64_t held_percent = 0;        ///< the same

    /// The measurements at a degree; where the module has none, a new one in its place.
    [[nodiscard]] measured_degree& find_or_add(parallel_degree const& degree)
    {
      auto const lower = [](measured_degree const& each, parallel_degree const& at) {
        return degree_of(each) < at;
      };
      auto const place = std::lower_bound(degrees.begin(), degrees.end(), degree, lower);
      if (place != degrees.end() && degree_of(*place) == degree) { return *place; }
      measured_degree added;
      added.tp = degree.tp;
      added.sp = degree.sp;
      added.ep = degree.ep;
      return *degrees.insert(place, std::move(added));
    }

    friend bool operator==(measured_module const&, measured_module const&) = default;
  };

  std::string hardware;  ///< a fingerprint, such as "8 x H100, CUDA 13.0"
  std::string data;      ///< a fingerprint of the data whose shapes were drawn
  std::vector<measured_module> modules;
  std::vector<std::string> notes = {};  ///< of who read it: sentences on what may be wrong

  /// The module of a name, or null.
  [[nodiscard]] measured_module const* find(std::string_view name) const
  {
    for (measured_module const& each : modules) {
      if (each.name == name) { return &each; }
    }
    return nullptr;
  }

  /// The module of a name; where the file has none, a new one after those that it has.
  [[nodiscard]] measured_module& find_or_add(std::string_view name)
  {
    for (measured_module& each : modules) {
      if (each.name == name) { return each; }
    }
    measured_module& added = modules.emplace_back();
    added.name = name;
    return added;
  }

  /// Adds a point in its place and returns whether there was none of its size.
  static bool add(std::vector<speed_point>& points, speed_point const& point)
  {
    return detail::add_ordered(
        points, point, [](speed_point const& a, speed_point const& b) { return a.size < b.size; });
  }

  /// Adds a point in its place and returns whether there was none of its layers and size.
  static bool add(std::vector<memory_point>& points, memory_point const& point)
  {
    return detail::add_ordered(points, point, [](memory_point const& a, memory_point const& b) {
      return detail::precedes(a.layers, b.layers, a.size, b.size);
    });
  }

  /// The profiles that a search reads, in the order of the file.
  ///
  /// Errors      out_of_range, position of the module: something is not measured yet, there is more
  ///             of it than a profile has room for, or module_profile::check refuses it. position 0 where
  ///             there is no module.
  /// Complexity  O(measurements).
  [[nodiscard]] result<std::vector<module_profile>> profiles() const;

  friend bool operator==(profile_file const& a, profile_file const& b)
  {
    return a.hardware == b.hardware && a.data == b.data && a.modules == b.modules;
  }
};

namespace detail {

using measured_degree = profile_file::measured_degree;
using measured_module = profile_file::measured_module;
using speed_point = profile_file::speed_point;
using memory_point = profile_file::memory_point;

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

inline result<std::vector<module_profile>> profile_file::profiles() const
{
  if (modules.empty()) {
    return fail(error_code::out_of_range, 0, "the profile has no module; measure one at least");
  }
  std::vector<module_profile> made;
  for (measured_module const& each : modules) {
    module_profile& profile = made.emplace_back(
        module_profile{each.name, each.layers, each.flops, {}, each.boundary_bytes});
    auto const set = [](std::uint32_t& own, std::uint64_t known) {
      if (known != 0) { own = static_cast<std::uint32_t>(known); }
    };
    set(profile.weights_percent, each.weights_percent);
    set(profile.held_percent, each.held_percent);
    auto const refuse = [&](std::string const& why) {
      return fail(error_code::out_of_range, made.size() - 1, "module " + each.name + " " + why);
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
    if (auto checked = profile.check(); !checked) {
      return fail(checked.error().code, made.size() - 1, checked.error().message);
    }
  }
  return made;
}

namespace detail {

/// The whole numbers that a field may hold.
struct profile_range {
  std::uint64_t low = 0;
  std::uint64_t high = 0;  ///< 0: the field holds text
  bool rounds = false;     ///< whether a number that is not whole is rounded
};

inline constexpr std::uint64_t most_in_profile = std::numeric_limits<std::int64_t>::max();
inline constexpr std::uint64_t most_profiled_speed = 1'000'000'000'000'000'000;
inline constexpr profile_range profiled_groups = {1, std::numeric_limits<std::int32_t>::max()};
inline constexpr profile_range profiled_spread = {0, most_profiled_speed, true};
inline constexpr profile_range profiled_time = {0, most_in_profile, true};

/// What rows of a name say: where a file stores it, which fields such a row fills beside those that
/// are in all, and what its value may be.
struct profile_quantity {
  static constexpr unsigned in_all = 1;
  static constexpr unsigned module = 2;
  static constexpr unsigned degree = 4;  // and may: sp, ep
  static constexpr unsigned layers = 8;
  static constexpr unsigned size = 16;
  static constexpr unsigned spread = 32;  // may: the quartiles and the passes
  static constexpr unsigned speed = module | degree | size | spread;
  static constexpr unsigned state = module | degree | layers;

  std::string_view name;
  std::variant<std::monostate, std::string profile_file::*, std::string measured_module::*,
               std::uint32_t measured_module::*, std::uint64_t measured_module::*,
               std::uint64_t flop_polynomial::*, std::vector<speed_point> measured_degree::*,
               std::vector<memory_point> measured_degree::*>
      stored;
  unsigned filled = 0;
  profile_range value = {};

  [[nodiscard]] constexpr bool fills(unsigned fields) const
  {
    return ((filled | in_all) & fields) != 0;
  }
};

/// In the order in which a file is written.
inline constexpr std::array<profile_quantity, 14> profile_quantities = {{
    {"schema", {}, 0, {1, 1}},
    {"hardware", &profile_file::hardware},
    {"data", &profile_file::data},
    {"model", &measured_module::model, profile_quantity::module},
    {"layers", &measured_module::layers, profile_quantity::module, profiled_groups},
    {"linear_flop", &flop_polynomial::linear, profile_quantity::module, {1, most_in_profile}},
    {"quadratic_flop", &flop_polynomial::quadratic, profile_quantity::module, {0, most_in_profile}},
    {"boundary_bytes",
     &measured_module::boundary_bytes,
     profile_quantity::module,
     {0, module_profile::most_boundary_bytes}},
    {"weights_percent", &measured_module::weights_percent, profile_quantity::module, {1, 100}},
    {"held_percent", &measured_module::held_percent, profile_quantity::module, {1, 100}},
    {"linear_flop_per_second",
     &measured_degree::linear,
     profile_quantity::speed,
     {1, most_profiled_speed, true}},
    {"attention_flop_per_second",
     &measured_degree::attention,
     profile_quantity::speed,
     {1, most_profiled_speed, true}},
    {"state_bytes", &measured_degree::state, profile_quantity::state, {0, most_in_profile}},
    {"activation_bytes",
     &measured_degree::activations,
     profile_quantity::state | profile_quantity::size,
     {0, most_in_profile}},
}};

/// What a row says in numbers; 0 where a field is empty.
struct profile_row {
  profile_quantity const* quantity = profile_quantities.data();
  std::uint64_t tp = 1;
  std::uint64_t layers = 0;
  std::uint64_t size = 0;
  std::uint64_t value = 1;
  std::uint64_t lower_quartile = 0;
  std::uint64_t upper_quartile = 0;
  std::uint64_t forward_ns = 0;
  std::uint64_t backward_ns = 0;
  std::uint64_t sp = 1;
  std::uint64_t ep = 1;
  std::size_t module = 0;  ///< its index
  std::size_t line = 0;

  [[nodiscard]] parallel_degree degree() const
  {
    return {static_cast<std::uint32_t>(tp), static_cast<std::uint32_t>(sp),
            static_cast<std::uint32_t>(ep)};
  }
};

using number_of_row = std::uint64_t profile_row::*;

/// A column: which rows fill it, where its number is in a row, and what it may be.
struct profile_column {
  std::string_view name;
  unsigned of = profile_quantity::in_all;
  number_of_row number = nullptr;
  profile_range range = {};
};

/// In the order in which a file is written. Files may leave out those from lower_quartile on, and
/// those that are written do without the last two where all are 1.
inline constexpr std::array<profile_column, 12> profile_columns = {{
    {"module", profile_quantity::module},
    {"tp", profile_quantity::degree, &profile_row::tp, profiled_groups},
    {"quantity"},
    {"layers", profile_quantity::layers, &profile_row::layers, profiled_groups},
    {"size", profile_quantity::size, &profile_row::size, {0, longest_sample}},
    {"value", profile_quantity::in_all, &profile_row::value},
    {"lower_quartile", profile_quantity::spread, &profile_row::lower_quartile, profiled_spread},
    {"upper_quartile", profile_quantity::spread, &profile_row::upper_quartile, profiled_spread},
    {"forward_ns", profile_quantity::spread, &profile_row::forward_ns, profiled_time},
    {"backward_ns", profile_quantity::spread, &profile_row::backward_ns, profiled_time},
    {"sp", profile_quantity::degree, &profile_row::sp, profiled_groups},
    {"ep", profile_quantity::degree, &profile_row::ep, profiled_groups},
}};
inline constexpr std::size_t needed_profile_columns = 6;
inline constexpr std::size_t profile_columns_of_tp = 10;

/// Calls `use` with each number that a point stores and its place in a row, to read or to write.
template <class Row, class Point, class Use>
void each_number(Row& row, Point& point, Use const& use)
{
  use(row.size, point.size);
  if constexpr (std::is_same_v<std::remove_const_t<Point>, memory_point>) {
    use(row.layers, point.layers);
    use(row.value, point.bytes);
  } else {
    use(row.value, point.flop_per_second);
    use(row.lower_quartile, point.lower_quartile);
    use(row.upper_quartile, point.upper_quartile);
    use(row.forward_ns, point.forward_ns);
    use(row.backward_ns, point.backward_ns);
  }
}

/// Whether two measurements of a quantity differ more than 100 times as much as their sizes, layers
/// and, of memory, GPUs explain: a speed of 380 beside 380e12, a size of a few bytes.
[[nodiscard]] inline bool far_apart(profile_row const& a, profile_row const& b)
{
  auto const times = [](std::uint64_t x, std::uint64_t y) {  // 0: those that a row does not have
    return static_cast<double>(std::max({x, y, std::uint64_t{1}})) /
           static_cast<double>(std::max(std::min(x, y), std::uint64_t{1}));
  };
  bool const is_memory = a.quantity->fills(profile_quantity::layers);
  return times(a.value, b.value) >
         100 * times(a.size, b.size) * times(a.layers, b.layers) *
             (is_memory ? times(a.degree().gpus(), b.degree().gpus()) : 1);
}

/// Sentences on measurements that lie far from the median of their quantity in their module, one
/// for each degree, by line.
[[nodiscard]] inline std::vector<std::string> notes_on(std::vector<profile_row> rows,
                                                       profile_file const& file)
{
  std::sort(rows.begin(), rows.end(), [](profile_row const& a, profile_row const& b) {
    return precedes(a.module, b.module, a.quantity, b.quantity, a.value, b.value, a.line, b.line);
  });
  std::vector<std::pair<profile_row, profile_row>> found;  // and the median
  for (auto first = rows.begin(); first != rows.end();) {
    auto const last = std::find_if(first, rows.end(), [first](profile_row const& each) {
      return each.module != first->module || each.quantity != first->quantity;
    });
    auto const median = *(first + (last - first) / 2);
    for (; first != last; ++first) {
      if (far_apart(*first, median)) { found.emplace_back(*first, median); }
    }
  }
  std::sort(found.begin(), found.end(),
            [](auto const& a, auto const& b) { return a.first.line < b.first.line; });
  std::set<std::tuple<std::size_t, profile_quantity const*, parallel_degree>> noted;
  std::vector<std::string> notes;
  for (auto const& [at, median] : found) {
    if (!noted.emplace(at.module, at.quantity, at.degree()).second) { continue; }
    notes.push_back(concat("line ", at.line, ": ", at.quantity->name, " of ",
                           excerpt(file.modules[at.module].name), " at ", text_of(at.degree()),
                           " is ", at.value, ", more than 100 times ",
                           at.value < median.value ? "below" : "above", " the ", median.value,
                           " of line ", median.line, "; correct the one that is wrong"));
  }
  return notes;
}

/// Builds a profile row by row.
class profile_builder {
 public:
  explicit profile_builder(std::string_view csv) : rows_(csv, names(), needed_profile_columns) {}

  [[nodiscard]] result<profile_file> read()
  {
    if (auto found = rows_.read_header(); !found) { return tl::unexpected(found.error()); }
    while (true) {
      auto const more = rows_.next_into(fields_);
      if (!more) { return tl::unexpected(more.error()); }
      if (!*more) {
        file_.notes = notes_on(std::move(measured_), file_);
        return std::move(file_);
      }
      row_ = {};
      row_.line = rows_.line();
      auto added = check_fields();
      if (added) { added = read_numbers(); }
      if (!added) { return tl::unexpected(added.error()); }
      if (!std::visit([this](auto member) { return this->add(member); }, row_.quantity->stored)) {
        return rows_.refuse(std::string(row_.quantity->name) +
                            " is there already, on a row above; remove one of the two");
      }
    }
  }

 private:
  [[nodiscard]] static std::array<std::string_view, profile_columns.size()> names()
  {
    std::array<std::string_view, profile_columns.size()> all;
    for (std::size_t at = 0; at < all.size(); ++at) { all[at] = profile_columns[at].name; }
    return all;
  }

  /// Says which quantity the row has, and whether it fills this quantity's fields.
  [[nodiscard]] result<void> check_fields()
  {
    std::string_view const name = fields_[2];
    auto const* const known = std::find_if(
        profile_quantities.data(), profile_quantities.data() + profile_quantities.size(),
        [name](profile_quantity const& each) { return each.name == name; });
    if (known == profile_quantities.data() + profile_quantities.size()) {
      std::string names;
      for (profile_quantity const& each : profile_quantities) {
        names.append(names.empty() ? "" : ", ").append(each.name);
      }
      return rows_.refuse("column 'quantity' holds " + excerpt(name) + "; write one of " + names);
    }
    row_.quantity = known;
    for (std::size_t at = 0; at < profile_columns.size(); ++at) {
      auto const& [column, of, number, range] = profile_columns[at];
      if (fields_[at].empty() && known->fills(of) && at < needed_profile_columns) {
        return rows_.refuse(concat("column '", column, "' of ", name, " is empty; fill it"));
      }
      if (!fields_[at].empty() && !known->fills(of)) {
        return rows_.refuse(concat("column '", column, "' holds ", excerpt(fields_[at]), ", but ",
                                   name, " has none; leave it empty"));
      }
    }
    return {};
  }

  /// Reads the fields that are not empty, those of the degree first.
  [[nodiscard]] result<void> read_numbers()
  {
    for (bool const of_degree : {true, false}) {
      for (std::size_t at = 0; at < profile_columns.size(); ++at) {
        auto const& [column, of, number, range] = profile_columns[at];
        if ((of == profile_quantity::degree) != of_degree || number == nullptr ||
            fields_[at].empty()) {
          continue;
        }
        auto [low, high, rounds] = of == profile_quantity::in_all ? row_.quantity->value : range;
        if (high == 0) { continue; }
        if (of == profile_quantity::size && row_.quantity->fills(profile_quantity::spread)) {
          low = 1;
        }
        auto const read = whole(fields_[at], rounds);
        if (!read || *read < low || *read > high) {
          return rows_.refuse(concat("column '", column, "' of ", row_.quantity->name, " holds ",
                                     excerpt(fields_[at]), ", expected a whole number from ", low,
                                     " to ", high, " such as 4096 or 4e14; correct the row"));
        }
        row_.*number = static_cast<std::uint64_t>(*read);
      }
      if (row_.degree().gpus() > profiled_groups.high) {
        return rows_.refuse(text_of(row_.degree()) + " takes 2^31 GPUs or more; correct the row");
      }
    }
    return {};
  }

  [[nodiscard]] static std::optional<uint128> whole(std::string_view text, bool rounds)
  {
    constexpr std::uint64_t billion = 1'000'000'000;
    auto const read = parse_decimal(text);
    if (!read || (!rounds && read->decimals() != 0)) { return std::nullopt; }
    return (read->in_units(decimal::most_decimals) + billion / 2) / billion;
  }

  /// Stores what the row says and returns whether there was none.
  [[nodiscard]] static bool add(std::monostate) { return true; }

  template <class Object, class Member>
  [[nodiscard]] bool add(Member Object::* member)
  {
    if constexpr (std::is_same_v<Object, profile_file>) {
      return add_to(file_.*member);
    } else {
      auto& module = file_.find_or_add(fields_[0]);
      row_.module = static_cast<std::size_t>(&module - file_.modules.data());
      if constexpr (std::is_same_v<Object, measured_module>) { return add_to(module.*member); }
      if constexpr (std::is_same_v<Object, flop_polynomial>) {
        return add_to(module.flops.*member);
      }
      if constexpr (std::is_same_v<Object, measured_degree>) {
        return add_to(module.find_or_add(row_.degree()).*member);
      }
    }
  }

  [[nodiscard]] bool add_to(std::string& text) const
  {
    bool const is_new = text.empty();
    if (is_new) { text = fields_[5]; }
    return is_new;
  }

  template <std::integral Number>
  [[nodiscard]] bool add_to(Number& number) const
  {
    return std::exchange(number, static_cast<Number>(row_.value)) == 0;
  }

  template <class Point>
  [[nodiscard]] bool add_to(std::vector<Point>& points)
  {
    Point point;
    each_number(std::as_const(row_), point, [](std::uint64_t number, auto& stored) {
      stored = static_cast<std::decay_t<decltype(stored)>>(number);
    });
    // 0 bytes, and those of no token, have no neighbours to differ from.
    bool const has_size = row_.quantity->fills(profile_quantity::size);
    if (row_.value != 0 && (row_.size != 0 || !has_size)) { measured_.push_back(row_); }
    return profile_file::add(points, point);
  }

  column_rows<profile_columns.size()> rows_;
  column_rows<profile_columns.size()>::row fields_{};
  profile_row row_;
  profile_file file_;
  std::vector<profile_row> measured_;
};

/// Writes a profile row by row.
class profile_writer {
 public:
  explicit profile_writer(profile_file const& file)
  {
    bool has_tp_only = true;
    for (measured_module const& module : file.modules) {
      for (measured_degree const& each : module.degrees) {
        has_tp_only = has_tp_only && each.sp == 1 && each.ep == 1;
      }
    }
    if (has_tp_only) { columns_ = profile_columns_of_tp; }
    for (std::size_t at = 0; at < columns_; ++at) {
      text_.append(at == 0 ? "" : ",").append(profile_columns[at].name);
    }
    text_ += '\n';
    write_row({}, {});
    write({}, {}, file);
    for (measured_module const& module : file.modules) {
      std::string const name = csv_field(module.name);
      write(name, {}, module, module.flops);
      for (measured_degree const& degree : module.degrees) {
        profile_row row;
        row.tp = degree.tp;
        row.sp = degree.sp;
        row.ep = degree.ep;
        write(name, row, degree);
      }
    }
  }

  [[nodiscard]] std::string const& text() const { return text_; }

 private:
  /// Writes what is stored in these objects.
  template <class... Objects>
  void write(std::string_view module, profile_row row, Objects const&... objects)
  {
    for (profile_quantity const& quantity : profile_quantities) {
      row.quantity = &quantity;
      std::visit([&](auto member) { (write_member(module, row, objects, member), ...); },
                 quantity.stored);
    }
  }

  template <class Object, class Member>
  void write_member(std::string_view module, profile_row const& row, Object const& object,
                    Member member)
  {
    if constexpr (requires { object.*member; }) { write_stored(module, row, object.*member); }
  }

  void write_stored(std::string_view module, profile_row const& row, std::string const& text)
  {
    if (!text.empty()) { write_row(module, row, csv_field(text)); }
  }

  void write_stored(std::string_view module, profile_row row, std::uint64_t number)
  {
    row.value = number;
    if (number != 0) { write_row(module, row); }
  }

  template <class Point>
  void write_stored(std::string_view module, profile_row row, std::vector<Point> const& points)
  {
    for (Point const& point : points) {
      each_number(row, point, [](std::uint64_t& number, auto stored) {
        number = static_cast<std::uint64_t>(stored);
      });
      write_row(module, row);
    }
  }

  void write_row(std::string_view module, profile_row const& row, std::string_view text = {})
  {
    for (std::size_t at = 0; at < columns_; ++at) {
      auto const& [column, of, number, range] = profile_columns[at];
      text_.append(at == 0 ? "" : ",");
      if (at == 0) {
        text_ += module;
      } else if (number == nullptr) {
        text_ += row.quantity->name;
      } else if (of == profile_quantity::in_all && !text.empty()) {
        text_ += text;
      } else if (row.quantity->fills(of) && (at < needed_profile_columns || row.*number != 0)) {
        text_ += std::to_string(row.*number);
      }
    }
    text_ += '\n';
  }

  std::size_t columns_ = profile_columns.size();
  std::string text_;
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
