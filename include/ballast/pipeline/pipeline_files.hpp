// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/decimal.hpp>

namespace ballast::inline v0 {

namespace detail {

inline constexpr std::int64_t last_written_stage = stage_graph::most_stages - 1;
inline constexpr std::int64_t last_written_microbatch = (std::int64_t{1} << 30) - 1;

/// Reads the header and the rows of a file, and shows `visit` each of them.
///
/// Errors      those of the rows and of `visit`; bad_row: there is no row, and `add` says what to
///             add.
template <class Rows, class Visit>
[[nodiscard]] result<void> read_rows(Rows& rows, std::string_view add, Visit const& visit)
{
  if (auto found = rows.read_header(); !found) { return found; }
  bool any = false;
  while (true) {
    typename Rows::row row{};
    auto const more = rows.next_into(row);
    if (!more) { return tl::unexpected(more.error()); }
    if (!*more) { break; }
    any = true;
    if (auto taken = visit(row); !taken) { return taken; }
  }
  if (!any) { return rows.refuse(concat("no row follows the header; add one ", add)); }
  return {};
}

/// A row of a file of times: how long one microbatch takes on one stage.
struct written_time {
  std::uint32_t microbatch = 0;
  std::uint32_t stage = 0;
  std::array<decimal, 3> passes;  ///< forward, backward and weights
  held_bytes bytes;
  std::size_t line = 0;
};

/// All rows of a CSV text with the columns of read_pipeline_times, in its order: at least one.
///
/// Errors      bad_row with the line of the first row that is wrong by itself.
/// Complexity  O(bytes).
[[nodiscard]] inline result<std::vector<written_time>> read_time_rows(std::string_view csv)
{
  constexpr std::array<std::string_view, 7> names = {
      "microbatch", "stage", "forward", "backward", "weights", "held", "held_for_weights"};
  constexpr std::int64_t most_bytes = std::int64_t{1} << 62;  // of all rows together
  std::int64_t bytes_left = most_bytes;
  column_rows<7> rows(csv, names, 4);
  std::vector<written_time> all;
  auto const take = [&](column_rows<7>::row const& fields) -> result<void> {
    auto const number = [&](std::size_t column, std::int64_t missing, std::int64_t most) {
      return rows.has(column) ? rows.number(fields, column, most) : result<std::int64_t>(missing);
    };
    std::array<std::int64_t, 4> numbers{};  // microbatch, stage and bytes
    for (std::size_t at = 0; at < numbers.size(); ++at) {
      std::size_t const column = at < 2 ? at : at + 3;
      std::int64_t const most = at == 0   ? last_written_microbatch
                                : at == 1 ? last_written_stage
                                          : most_bytes;
      auto const read = number(column, at == 2 ? 1 : numbers[2], most);
      if (!read) { return tl::unexpected(read.error()); }
      numbers[at] = *read;
    }
    auto const [microbatch, stage, held, for_weights] = numbers;
    if (for_weights > held || held > bytes_left) {
      return rows.refuse(concat("a microbatch keeps ", held, " bytes and ", for_weights,
                                for_weights > held
                                    ? " of them for weights; that is more"
                                    : " for weights, with which all are above 2^62"));
    }
    bytes_left -= held;
    all.push_back({static_cast<std::uint32_t>(microbatch),
                   static_cast<std::uint32_t>(stage),
                   {},
                   {static_cast<std::uint64_t>(held), static_cast<std::uint64_t>(for_weights)},
                   rows.line()});
    for (std::size_t at = 0; at < stage_passes; ++at) {
      if (!rows.has(at + 2)) { continue; }
      auto const time = parse_decimal(fields[at + 2]);
      if (!time) {
        return rows.refuse(concat("column '", names[at + 2], "': ", time.error().message));
      }
      all.back().passes[at] = *time;
    }
    return {};
  };
  auto const read = read_rows(rows, "per microbatch and stage", take);
  if (!read) { return tl::unexpected(read.error()); }
  return all;
}

/// Whether the sorted rows hold every microbatch on each of the `stages` once.
[[nodiscard]] inline result<void> check_complete(std::span<written_time const> rows,
                                                 std::size_t stages)
{
  auto const named = [](std::size_t microbatch, std::size_t stage) {
    return concat("microbatch ", microbatch, " on stage ", stage);
  };
  written_time const* twice = nullptr;  // of the rows that repeat one above them, the first
  for (std::size_t at = 1; at < rows.size(); ++at) {
    bool const again =
        rows[at].microbatch == rows[at - 1].microbatch && rows[at].stage == rows[at - 1].stage;
    if (again && (twice == nullptr || rows[at].line < twice->line)) { twice = &rows[at]; }
  }
  if (twice != nullptr) {
    return fail(error_code::bad_row, twice->line, "line ", twice->line, ": ",
                named(twice->microbatch, twice->stage), " has a row already; remove one");
  }
  for (std::size_t at = 0; at < rows.size() || at % stages != 0; ++at) {
    if (at < rows.size() && rows[at].microbatch == at / stages && rows[at].stage == at % stages) {
      continue;
    }
    std::size_t line = 0;
    for (written_time const& row : rows) { line = std::max(line, row.line); }
    return fail(error_code::bad_row, line, "there is no row for ", named(at / stages, at % stages),
                " up to line ", line,
                ", the last; number microbatches and stages from 0 without gaps and write a ",
                "row for each pair");
  }
  return {};
}

}  // namespace detail

/// The times of a step as a file has them, in whole units without rounding.
struct written_times {
  pipeline_times times;
  std::vector<held_bytes> held;  ///< of each row of times: 1 byte where the file does not say
  unsigned decimals = 0;         ///< a unit of times is 10^-decimals of the unit of the file
  time_units transfer = 0;       ///< what read_pipeline_times was given, in the unit of times
};

/// Reads how long every microbatch takes on every stage: a CSV text with the columns `microbatch`,
/// `stage`, `forward` and `backward` among others, rows and columns in any order. Microbatches and
/// stages are numbered from 0; times are decimal numbers of any unit, see `parse_decimal`.
///
/// With a column `weights`, that is how long the third pass takes, and `backward` the gradients of
/// inputs. `held` is how many bytes a microbatch keeps on the stage (1 without that column) and
/// `held_for_weights` how many of them until the weights pass (all).
///
/// In          transfer is a time of that unit too, for the links between the stages.
/// Ensures     (1) all times are exact to the ninth decimal of what is written
///             (2) the unit is the coarsest power of ten, of at most one, in which that is so
///             (3) of rows that are wrong by themselves, the first is reported
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is not a number or not a time, bad
///             quoting; a pair of microbatch and stage that has two rows or none; more bytes for
///             weights than are kept, or 2^62 of all rows. out_of_range: a time, or the transfer,
///             is above stage_graph::longest_time in the unit of all.
/// Complexity  O(bytes + rows log rows).
[[nodiscard]] inline result<written_times> read_pipeline_times(std::string_view csv,
                                                               decimal transfer = {})
{
  auto rows = detail::read_time_rows(csv);
  if (!rows) { return tl::unexpected(rows.error()); }
  unsigned decimals = transfer.decimals();
  std::size_t stages = 0;
  for (detail::written_time const& row : *rows) {
    for (decimal const& time : row.passes) { decimals = std::max(decimals, time.decimals()); }
    stages = std::max<std::size_t>(stages, row.stage + 1);
  }
  auto const in_units = [decimals](decimal const& time) { return time.in_units(decimals); };
  auto const refuse = [decimals](std::size_t line, std::string const& where, decimal const& time) {
    return fail(error_code::out_of_range, line, where, " ", time.text(), " is longer than ",
                decimal::make(stage_graph::longest_time, decimals).text(),
                ", the longest where one time has ", decimals,
                " decimals; use a coarser unit or fewer decimals");
  };
  constexpr auto most = static_cast<uint128>(stage_graph::longest_time);
  if (in_units(transfer) > most) { return refuse(0, "a transfer of", transfer); }
  for (detail::written_time const& row : *rows) {
    for (decimal const& time : row.passes) {
      if (in_units(time) > most) {
        return refuse(row.line, detail::concat("line ", row.line, ": a time of"), time);
      }
    }
  }
  auto const above = [](detail::written_time const& a, detail::written_time const& b) {
    return detail::precedes(a.microbatch, b.microbatch, a.stage, b.stage, a.line, b.line);
  };
  std::sort(rows->begin(), rows->end(), above);
  if (auto done = detail::check_complete(detail::span_of(*rows), stages); !done) {
    return tl::unexpected(done.error());
  }
  written_times written{pipeline_times(rows->size() / stages, stages),
                        {},
                        decimals,
                        static_cast<time_units>(in_units(transfer))};
  std::vector<time_units> weights;
  weights.reserve(rows->size());
  written.held.reserve(rows->size());
  for (std::size_t at = 0; at < rows->size(); ++at) {
    auto const& [forward, backward, third] = (*rows)[at].passes;
    written.times.rows[at] = {static_cast<time_units>(in_units(forward)),
                              static_cast<time_units>(in_units(backward))};
    weights.push_back(static_cast<time_units>(in_units(third)));
    written.held.push_back((*rows)[at].bytes);
  }
  bool const splits =
      std::any_of(weights.begin(), weights.end(), [](auto time) { return time > 0; });
  if (splits) { written.times.weights = std::move(weights); }
  return written;
}

namespace detail {

/// A task as a file has it.
struct written_task {
  pipeline_task task;
  bool is_whole = false;   ///< a backward that is the weights pass too where the stage has one
  bool is_inputs = false;  ///< a backward that needs a weights pass
};

/// A schedule of a chain of stages while its tasks are read.
class read_tasks {
 public:
  void begin_rank(std::size_t rank) { ranks_.resize(std::max(ranks_.size(), rank + 1)); }

  /// Takes over the next task of a rank. Where another rank has its stage, returns which.
  [[nodiscard]] std::optional<std::size_t> add(std::size_t rank, written_task const& next)
  {
    auto const& [task, is_whole, is_inputs] = next;
    std::size_t const stage = to_index(task.stage);
    if (stage >= stages_.size()) {
      stages_.resize(stage + 1, {.backward = false});
      is_placed_.resize(stage + 1, false);
    }
    pipeline_stage& own = stages_[stage];
    if (is_placed_[stage] && to_index(own.rank) != rank) { return to_index(own.rank); }
    is_placed_[stage] = true;
    own.rank = to_id<pipeline_rank>(rank);
    own.backward = own.backward || task.pass != pass::forward;
    own.weights = own.weights || task.pass == pass::weights || is_inputs;
    microbatches_ = std::max(microbatches_, std::size_t{task.position} + 1);
    begin_rank(rank);
    ranks_[rank].push_back(next);
    return {};
  }

  [[nodiscard]] result<compiled_schedule> compile(time_units transfer)
  {
    pipeline_schedule schedule{microbatches_, {}};
    for (auto const& tasks : ranks_) {
      auto& written = schedule.ranks.emplace_back();
      written.reserve(tasks.size());
      for (auto const& [task, is_whole, is_inputs] : tasks) {
        written.push_back(task);
        if (is_whole && stages_[to_index(task.stage)].weights) {
          written.push_back({task.position, task.stage, pass::weights});
        }
      }
    }
    std::vector<stage_link> links;
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) {
      bool const stays = stages_[stage - 1].rank == stages_[stage].rank;
      links.push_back({to_id<stage_id>(stage - 1), to_id<stage_id>(stage), stays ? 0 : transfer});
    }
    auto const graph = stage_graph::make(std::move(stages_), links);
    if (!graph) { return tl::unexpected(graph.error()); }
    return compiled_schedule::make(*graph, schedule);
  }

 private:
  std::size_t microbatches_ = 0;
  std::vector<std::vector<written_task>> ranks_;
  std::vector<pipeline_stage> stages_;
  std::vector<bool> is_placed_;
};

/// A cell, or a part of one, while it is read.
class cell_text {
 public:
  explicit cell_text(std::string_view cell)
  {
    std::size_t const first = std::min(cell.find_first_not_of(" \t"), cell.size());
    left_ = cell.substr(first, cell.find_last_not_of(" \t") + 1 - first);
  }

  [[nodiscard]] std::string_view left() const noexcept { return left_; }

  [[nodiscard]] std::optional<std::uint32_t> take_number(std::int64_t most)
  {
    std::uint32_t number = 0;
    auto const [past, problem] = std::from_chars(left_.data(), left_.data() + left_.size(), number);
    if (problem != std::errc{} || number > most) { return {}; }
    left_.remove_prefix(static_cast<std::size_t>(past - left_.data()));
    return number;
  }

  /// What stands before the first of these characters, which stays.
  [[nodiscard]] std::string_view take_until(std::string_view characters)
  {
    std::string_view const taken = left_.substr(0, left_.find_first_of(characters));
    left_.remove_prefix(taken.size());
    return taken;
  }

  [[nodiscard]] bool take(std::string_view expected)
  {
    bool const is_next = left_.starts_with(expected);
    if (is_next) { left_.remove_prefix(expected.size()); }
    return is_next;
  }

 private:
  std::string_view left_;
};

/// Reads `{stage}{F|I|B|W}{microbatch}`. Returns how many tasks that are: none for a cell that only
/// communicates; nothing where it is neither.
[[nodiscard]] inline std::optional<std::size_t> read_cell_into(written_task& task, cell_text cell)
{
  constexpr std::array<std::string_view, 7> skipped = {"SEND_F",  "RECV_F",  "SEND_B",     "RECV_B",
                                                       "UNSHARD", "RESHARD", "REDUCE_GRAD"};
  constexpr std::array<std::string_view, 4> computed = {"F", "I", "W", "B"};
  auto const stage = cell.take_number(last_written_stage);
  std::string_view const kind = cell.take_until("0123456789");
  auto const microbatch = cell.take_number(last_written_microbatch);
  if (!stage || !cell.left().empty()) { return {}; }
  if (std::find(skipped.begin(), skipped.end(), kind) != skipped.end()) { return 0; }
  auto const at = static_cast<std::size_t>(std::find(computed.begin(), computed.end(), kind) -
                                           computed.begin());
  if (!microbatch || at == computed.size()) { return {}; }
  constexpr std::array<pass, 4> passes = {pass::forward, pass::backward, pass::weights,
                                          pass::backward};
  task = {{*microbatch, to_id<stage_id>(*stage), passes[at]}, kind == "B", kind == "I"};
  return 1;
}

/// Reads a cell or an overlapped pair, `({cell};{cell})OVERLAP_F_B`, into at most two tasks and
/// returns how many these are; nothing where it is neither.
[[nodiscard]] inline std::optional<std::size_t> read_cell_into(std::span<written_task, 2> tasks,
                                                               cell_text cell)
{
  if (cell.left().find('(') == std::string_view::npos) { return read_cell_into(tasks[0], cell); }
  (void)cell.take_number(last_written_stage);  // some writers repeat the stage
  for (std::size_t at = 0; at < tasks.size(); ++at) {
    if (!cell.take(at == 0 ? "(" : ";") ||
        read_cell_into(tasks[at], cell_text(cell.take_until(";)"))) != 1U) {
      return {};
    }
  }
  if (!cell.take(")OVERLAP_F_B") || !cell.left().empty()) { return {}; }
  return tasks.size();
}

/// Whether a CSV text has cells in its first row rather than the names of columns.
[[nodiscard]] inline bool has_cells(std::string_view csv)
{
  csv_reader rows(csv);
  auto const row = rows.next();
  if (!row) { return false; }
  for (std::string_view const field : row->fields) {
    std::string_view const text = cell_text(field).left();
    if (!text.empty()) { return std::string_view("(0123456789").find(text[0]) != text.npos; }
  }
  return false;
}

}  // namespace detail

/// A schedule as a file has it.
struct written_schedule {
  compiled_schedule schedule;
  std::size_t skipped = 0;     ///< cells that only communicate
  std::size_t overlapped = 0;  ///< pairs to compute side by side, here one after the other
};

namespace detail {

[[nodiscard]] inline result<written_schedule> read_cells(std::string_view csv, time_units transfer)
{
  csv_reader rows(csv);
  read_tasks read;
  std::size_t skipped = 0;
  std::size_t overlapped = 0;
  for (std::size_t rank = 0;; ++rank) {
    auto const row = rows.next();
    if (!row) { return tl::unexpected(row.error()); }
    if (row->fields.empty()) { break; }
    read.begin_rank(rank);
    for (std::size_t at = 0; at < row->fields.size(); ++at) {
      cell_text const cell(row->fields[at]);
      if (cell.left().empty()) { continue; }
      auto const refuse = [&](std::string const& why) {
        return fail(error_code::bad_row, row->line, "line ", row->line, ": cell ", at, " of rank ",
                    rank, " holds ", excerpt(cell.left()), why);
      };
      std::array<written_task, 2> tasks;
      auto const count = read_cell_into(tasks, cell);
      if (!count) {
        return refuse(
            ", expected a stage, one of F, I, W and B, and a microbatch, such as 0F1; "
            "correct the cell");
      }
      skipped += *count == 0 ? 1U : 0U;
      overlapped += *count == 2 ? 1U : 0U;
      for (std::size_t each = 0; each < *count; ++each) {
        if (auto const other = read.add(rank, tasks[each])) {
          return refuse(concat(" and a row above has stage ", to_index(tasks[each].task.stage),
                               " on rank ", *other, "; give a stage one rank"));
        }
      }
    }
  }
  auto schedule = read.compile(transfer);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  return written_schedule{*std::move(schedule), skipped, overlapped};
}

}  // namespace detail

/// Reads a schedule of your own: a CSV text of one of two kinds. The stages are a chain, each on the
/// rank of its tasks, such as 0, 1, 1, 0; one without backwards has none, and one with a weights
/// pass has it for all microbatches. Between stages of one rank nothing is transferred.
///
/// With the columns `rank`, `stage`, `microbatch` and `pass` (`forward`, `backward` or `weights`)
/// among others, the tasks of each rank come in their order. Without names of columns a row has the
/// cells of a rank, as torchtitan and others load them: `0F1` is the forward of microbatch 1 on
/// stage 0, `I` the gradients of inputs, `W` those of weights, `B` the whole backward. A cell may be
/// empty or a pair, `(0F1;7B0)OVERLAP_F_B`; those that only communicate, such as `0SEND_F1` and
/// `0UNSHARD`, are skipped.
///
/// Expects     0 <= transfer <= stage_graph::longest_time.
/// Errors      bad_row with the line: no header, a column that is missing or there twice, a number
///             of fields other than the header's, a field that is no number or pass, bad quoting, a
///             cell that is none of those, a stage on two ranks, no row; those of stage_graph::make
///             and compiled_schedule::make: a schedule that deadlocks is refused with the tasks that
///             need each other.
/// Complexity  O(bytes + tasks + waits).
[[nodiscard]] inline result<written_schedule> read_schedule(std::string_view csv,
                                                            time_units transfer = 0)
{
  if (detail::has_cells(csv)) { return detail::read_cells(csv, transfer); }
  using detail::integer_column;
  detail::integer_rows<4> rows(
      csv, {integer_column{"rank", detail::last_written_stage},
            integer_column{"stage", detail::last_written_stage},
            integer_column{"microbatch", detail::last_written_microbatch},
            integer_column{.name = "pass", .names = {"forward", "backward", "weights"}}});
  detail::read_tasks read;
  auto const take = [&](detail::integer_rows<4>::row const& row) -> result<void> {
    auto const rank = static_cast<std::size_t>(row[0]);
    auto const stage = static_cast<std::size_t>(row[1]);
    pipeline_task const task{static_cast<std::uint32_t>(row[2]), to_id<stage_id>(stage),
                             static_cast<pass>(row[3])};
    if (auto const other = read.add(rank, {task})) {
      return rows.refuse(detail::concat("column 'rank' puts stage ", stage, " on rank ", rank,
                                        ", and a row above on rank ", *other,
                                        "; give a stage one rank"));
    }
    return {};
  };
  if (auto const done = detail::read_rows(rows, "for each task", take); !done) {
    return tl::unexpected(done.error());
  }
  auto schedule = read.compile(transfer);
  if (!schedule) { return tl::unexpected(schedule.error()); }
  return written_schedule{*std::move(schedule)};
}

/// Writes a schedule as the cells that read_schedule() reads and torchtitan and others load: a row
/// for each rank, with the microbatch of each task.
///
/// Shapes      order[microbatches]: the microbatch at each position.
/// Ensures     read_schedule() finds the same tasks, at the positions of their microbatches
/// Errors      infeasible: the stages are no chain, each one feeding the next: cells do not say what
///             feeds which, and who loads them takes a chain; position is the stage.
/// Complexity  O(tasks).
[[nodiscard]] inline result<std::string> schedule_cells(compiled_schedule const& schedule,
                                                        std::span<microbatch_id const> order)
{
  detail::expect_order_of(schedule, order);
  stage_graph const& stages = schedule.stages();
  for (std::size_t stage = 0; stage < stages.stages(); ++stage) {
    auto const feeds = stages.links_out_of(to_id<stage_id>(stage));
    bool const is_last = stage + 1 == stages.stages();
    if (is_last ? feeds.empty() : feeds.size() == 1 && to_index(feeds[0].to) == stage + 1) {
      continue;
    }
    return fail(error_code::infeasible, stage, "stage ", stage, " feeds ",
                detail::counted(feeds.size(), "stage"),
                " and not the next one alone; cells are of a chain of stages");
  }
  std::string cells;
  for (std::size_t rank = 0; rank < stages.ranks(); ++rank) {
    std::string_view between;
    for (std::uint32_t const task : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
      auto const& [position, stage, direction] = schedule.tasks()[task];
      std::string_view const kind = direction == pass::forward   ? "F"
                                    : direction == pass::weights ? "W"
                                    : stages[stage].weights      ? "I"
                                                                 : "B";
      cells += detail::concat(between, to_index(stage), kind, to_index(order[position]));
      between = ",";
    }
    cells += '\n';
  }
  return cells;
}

/// Times for stages that keep their backwards whole though the times are of three passes: there the
/// backward takes as long as both of its parts.
///
/// Complexity  O(microbatches x stages).
[[nodiscard]] inline pipeline_times whole_backwards(pipeline_times times, stage_graph const& stages)
{
  BALLAST_EXPECTS(times.stages == stages.stages(), "times on ",
                  detail::counted(times.stages, "stage"), " were given for ", stages.stages());
  for (std::size_t row = 0; row < times.weights.size(); ++row) {
    if (stages[to_id<stage_id>(row % times.stages)].weights) { continue; }
    times.rows[row].backward += std::exchange(times.weights[row], 0);
  }
  return times;
}

}  // namespace ballast::inline v0
