// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/partition/grid/grid_plan.hpp>
#include <ballast/pipeline/simulate.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace ballast::inline v0::report {

/// Writes down what every step of a training run was: one line a step, for `ballast report`.
///
/// One rank keeps the log, usually rank 0, which has the plan as all others. A line is an object in
/// JSON, with keys in this order and without spaces:
///
///     {"step":1,"lengths":[900,100],"costs":[81,1],"owner":[0,1],"loads":[81,1],"speeds":[1,1],
///     "makespan":[81,1],"bound":[81,1],"measured_ns":[5200,300]}
///
/// in one line. Makespan and bound are fractions, numerator first. What is not known is an empty
/// array. Where bags have several GPUs or microbatches, or the plan kept to limits, more keys say so:
///
///     "gpus":[1,1],"microbatches":2,"meet":"step","most_per_gpu":4096,"weights":[900,100],
///     "samples":"at_most:4"
///
/// A step of a pipeline has a line of its own, with an array for each task: rank, stage,
/// microbatch, 1 for backwards, start, end, simulated start and end.
///
///     {"step":1,"tasks":[[0,0,2,0,0,5200,0,5000],[0,0,2,1,5300,9900,5000,9500]]}
///
/// Expects     one thread at a time.
/// Ensures     (1) a line is written whole and by one call of write(), at the end of the file, while
///                 no other writer has the file (flock), so that the lines of several do not mix
///             (2) a file that is there is continued; a line that a writer left unfinished, as one
///                 that was killed, is removed before the next one is written
///             (3) where a line cannot be written, as on a full disk, append() says so and what was
///                 written of it is removed: the step may go on, and so may the log
///             (4) append() allocates nothing once it has seen a line as long
///             (5) a line that `ballast report` would pass over is refused, and nothing is written:
///                 check() says what is right; a step without samples is, one without tasks
///                 is not
/// Errors      unwritable, with the path and the reason: the file cannot be opened or written, or
///             an unfinished last line is none of a log. out_of_range: check() refuses it.
/// Complexity  make: O(bytes behind the last end of a line), read 64 KiB at a time; append:
///             O(samples + bags + ranks); append_pipeline: O(tasks).
class step_log {
 public:
  /// What a line says of a step: what was planned, and how long it took.
  ///
  /// Shapes      lengths[n], costs[n], owner[n] of a plan of n samples, or of none; speeds[m] of its
  ///             m bags; of k microbatches, cells[n] and loads[k m] as a grid_plan has them; gpus[m], or empty where a bag has as many as its
  ///             speed; weights[n], what most_per_gpu counts, or empty where that is lengths;
  ///             measured_ns[ranks], or empty where nothing was measured.
  /// Units       costs and loads in the cost model's unit; makespan and bound in that unit per
  ///             speed, as those of a plan; a bag's speed is as bag_layout::speeds() has it;
  ///             nanoseconds that a rank computed in the whole step.
  struct step_line {
    std::uint64_t step = 0;
    std::span<tokens const> lengths{};
    std::span<cost_units const> costs{};
    std::span<bag_id const> owner{};
    std::span<cost_units const> loads{};
    std::span<std::uint32_t const> speeds{};
    ratio makespan{};
    ratio lower_bound{};
    std::span<std::int64_t const> measured_ns{};
    std::span<std::uint32_t const> gpus{};
    std::size_t microbatches = 1;
    std::span<cell_id const> cells{};  ///< in place of owner, of a grid_plan
    grid_meeting meet = grid_meeting::step;
    std::int64_t most_per_gpu = no_limit;
    std::span<std::int64_t const> weights{};
    counts samples{};
  };

  /// The line of a step as it was planned, a partition_plan or a grid_plan, within these limits.
  ///
  ///     log.append(step_log::line_of(step, balancer.planned(), bags, lengths, limits, measured_ns));
  ///
  /// Shapes      lengths[n] of all samples, in the order of the plan.
  /// Expects     what is given outlives the line.
  /// Ensures     (1) of the limits the line has most_per_gpu, or the first of `also` where that alone
  ///                 is per GPU, and how many samples a bag gets
  template <class Plan>
  [[nodiscard]] static step_line line_of(std::uint64_t step, Plan const& plan,
                                         bag_layout const& bags, std::span<tokens const> lengths,
                                         placement_limits const& limits = {},
                                         std::span<std::int64_t const> measured_ns = {})
  {
    step_line line{.step = step,
                   .lengths = lengths,
                   .costs = plan.costs,
                   .loads = plan.loads,
                   .speeds = bags.speeds(),
                   .makespan = plan.makespan,
                   .lower_bound = plan.lower_bound,
                   .measured_ns = measured_ns,
                   .gpus = bags.sizes(),
                   .most_per_gpu = limits.most_per_gpu,
                   .samples = limits.samples};
    if (limits.most_per_gpu == no_limit && limits.also.size() > 0) {
      line.most_per_gpu = limits.also[0].most_per_gpu;
      line.weights = limits.also[0].of;
    }
    if constexpr (std::same_as<Plan, grid_plan>) {
      line.cells = plan.owner;
      line.microbatches = plan.microbatches;
      line.meet = plan.meet;
    } else {
      line.owner = plan.owner;
    }
    return line;
  }

  /// How a line writes counts::rule, a colon and its number behind it.
  static constexpr std::array<std::string_view, 5> rule_names = {"any", "at_most", "equal",
                                                                 "filled", "multiple_of"};

  /// A task of a step of a pipeline: when it ran, and when it should have.
  ///
  /// Units       nanoseconds from the start of the step; simulated ones are 0 where nothing was
  ///             simulated.
  struct task {
    std::uint32_t rank = 0;  ///< of the pipeline
    std::uint32_t stage = 0;
    std::uint32_t microbatch = 0;
    bool is_backward = false;
    std::int64_t start = 0;
    std::int64_t end = 0;
    std::int64_t simulated_start = 0;
    std::int64_t simulated_end = 0;

    friend bool operator==(task const&, task const&) = default;
  };

  /// What a line may say: who writes one and who reads one ask here.
  ///
  /// Ensures     (1) right is a step with bags, as many of each as the shapes say, whose owners are
  ///                 among its bags, whose speeds and denominators are at least 1, whose other
  ///                 numbers are at least 0, whose lengths add up to less than 2^63, and whose
  ///                 makespan is not below its bound
  ///             (2) where it is right, nothing is allocated
  /// Errors      out_of_range, at the index of what is wrong.
  /// Complexity  O(samples + bags + ranks).
  [[nodiscard]] static result<void> check(step_line const& entry)
  {
    auto const wrong = [&entry](std::size_t at, auto const&... pieces) {
      return fail(error_code::out_of_range, at, "step ", entry.step, pieces...);
    };
    std::size_t const owners = entry.cells.empty() ? entry.owner.size() : entry.cells.size();
    if (entry.lengths.size() != owners || entry.costs.size() != owners) {
      return wrong(0, " has ", detail::counted(entry.lengths.size(), "length"), ", ",
                   detail::counted(entry.costs.size(), "cost"), " and ",
                   detail::counted(owners, "owner"), "; give each sample one of each");
    }
    if (entry.microbatches == 1 && entry.loads.size() != entry.speeds.size()) {
      return wrong(0, " has loads of ", detail::counted(entry.loads.size(), "bag"),
                   " and speeds of ", entry.speeds.size(), "; give each bag one of each");
    }
    if (entry.speeds.empty() || entry.microbatches == 0) {
      return wrong(0, " has no bags; give the loads and speeds of its plan");
    }
    if (entry.loads.size() % entry.speeds.size() != 0 ||
        entry.loads.size() / entry.speeds.size() != entry.microbatches) {
      return wrong(0, " has loads of ", detail::counted(entry.loads.size(), "cell"), ", and ",
                   detail::counted(entry.speeds.size(), "bag"), " of ",
                   detail::counted(entry.microbatches, "microbatch"),
                   "; give the loads of all cells");
    }
    if (!entry.gpus.empty() && entry.gpus.size() != entry.speeds.size()) {
      return wrong(0, " has GPUs of ", detail::counted(entry.gpus.size(), "bag"), " and speeds of ",
                   entry.speeds.size(), "; give each bag one of each");
    }
    if (!entry.weights.empty() && entry.weights.size() != owners) {
      return wrong(0, " has ", detail::counted(entry.weights.size(), "weight"), " of ",
                   detail::counted(owners, "sample"), "; give each sample one, or none");
    }
    result<void> found;
    auto const least_of = [&](std::string_view name, auto numbers, std::int64_t least) {
      for (std::size_t at = 0; at < numbers.size() && found; ++at) {
        if (numbers[at] < least) {
          found =
              wrong(at, " has ", numbers[at], " in ", name, "[", at, "]; give ", least, " or more");
        }
      }
    };
    least_of("lengths", entry.lengths, 0);
    least_of("costs", entry.costs, 0);
    least_of("loads", entry.loads, 0);
    least_of("speeds", entry.speeds, 1);
    least_of("measured_ns", entry.measured_ns, 0);
    least_of("gpus", entry.gpus, 1);
    least_of("weights", entry.weights, 0);
    least_of("most_per_gpu", std::array{entry.most_per_gpu}, 0);
    if (!found) { return found; }
    tokens rest = std::numeric_limits<tokens>::max();
    for (std::size_t sample = 0; sample < owners; ++sample) {
      std::size_t const owner =
          entry.cells.empty() ? to_index(entry.owner[sample]) : to_index(entry.cells[sample]);
      if (owner >= entry.loads.size()) {
        return wrong(sample, " gives sample ", sample, " to ",
                     entry.cells.empty() ? "bag " : "cell ", owner, " of ", entry.loads.size(),
                     "; give an owner below the number of ",
                     entry.cells.empty() ? "bags" : "cells");
      }
      if (entry.lengths[sample] > rest) {
        return wrong(sample, " has lengths that add up to 2^63 or more; give numbers of tokens");
      }
      rest -= entry.lengths[sample];
    }
    for (auto const& [name, fraction] :
         {std::pair<std::string_view, ratio>("makespan", entry.makespan),
          {"bound", entry.lower_bound}}) {
      if (fraction.numerator < 0 || fraction.denominator < 1) {
        return wrong(0, " has a ", name, " of ", fraction.numerator, "/", fraction.denominator,
                     "; give a numerator from 0 and a denominator from 1");
      }
    }
    if (entry.makespan < entry.lower_bound) {
      return wrong(0, " has a makespan of ", entry.makespan.numerator, "/",
                   entry.makespan.denominator, ", which is below its bound of ",
                   entry.lower_bound.numerator, "/", entry.lower_bound.denominator,
                   "; give both of one plan");
    }
    return {};
  }

  /// The same of a step of a pipeline: right is one with tasks, each with a rank, a stage and a
  /// microbatch below 2^20, and with times that begin at 0 or later and end when they begin or
  /// later.
  [[nodiscard]] static result<void> check(std::uint64_t step, std::span<task const> tasks)
  {
    constexpr std::uint32_t most = std::uint32_t{1} << 20;
    if (tasks.empty()) {
      return fail(error_code::out_of_range, 0, "step ", step,
                  " has no tasks; leave out a step that ran none");
    }
    for (std::size_t at = 0; at < tasks.size(); ++at) {
      task const& own = tasks[at];
      if (std::max({own.rank, own.stage, own.microbatch}) >= most) {
        return fail(error_code::out_of_range, at, "step ", step, " has task ", at, " of rank ",
                    own.rank, ", stage ", own.stage, " and microbatch ", own.microbatch,
                    "; give numbers below ", most);
      }
      for (auto const& [start, end] :
           {std::pair(own.start, own.end), std::pair(own.simulated_start, own.simulated_end)}) {
        if (start < 0 || end < start) {
          return fail(error_code::out_of_range, at, "step ", step, " has task ", at, " from ",
                      start, " to ", end,
                      " ns; give times from the start of the step, the end last");
        }
      }
    }
    return {};
  }

  /// What append_pipeline writes: every task as measured, beside the simulation.
  ///
  ///     auto const measured = measured_timeline(comm, schedule, runner.measured()).value();
  ///     auto const tasks = step_log::tasks_of(schedule, order, measured, simulated, 1e9 / units);
  ///     or_throw(log.append_pipeline(step, tasks));                // on one rank
  ///
  /// Shapes      order[microbatches of the schedule], or those that ran.
  /// Units       measured: nanoseconds; simulated: units of which `ns_per_unit` nanoseconds are
  ///             one.
  /// Expects     both timelines are of this schedule; that of the simulation may be empty.
  /// Ensures     (1) one entry for each task that ran, rank by rank, in the order in which each
  ///                 does them
  /// Complexity  O(tasks).
  [[nodiscard]] static std::vector<task> tasks_of(compiled_schedule const& schedule,
                                                  std::span<microbatch_id const> order,
                                                  pipeline_timeline const& measured,
                                                  pipeline_timeline const& simulated = {},
                                                  double ns_per_unit = 1)
  {
    std::size_t const count = schedule.tasks().size();
    BALLAST_EXPECTS(measured.start.size() == measured.end.size() && measured.end.size() == count,
                    "a timeline of ", detail::counted(measured.end.size(), "task"),
                    " was given for a schedule of ", count);
    BALLAST_EXPECTS(simulated.start.size() == simulated.end.size() &&
                        (simulated.end.empty() || simulated.end.size() == count),
                    "a simulated timeline of ", detail::counted(simulated.end.size(), "task"),
                    " was given for a schedule of ", count);
    auto const nanoseconds = [ns_per_unit](time_units units) {
      double const time = static_cast<double>(units) * ns_per_unit;
      BALLAST_EXPECTS(time >= 0 && time < 9.2e18, "a simulated time of ", units, " units of ",
                      ns_per_unit, " nanoseconds does not fit 63 bits");
      return static_cast<std::int64_t>(time);
    };
    std::vector<task> all;
    all.reserve(count);
    for (std::size_t rank = 0; rank < schedule.stages().ranks(); ++rank) {
      for (std::uint32_t const number : schedule.tasks_on(to_id<pipeline_rank>(rank))) {
        if (measured.end[number] == 0) { continue; }  // as backwards in an evaluation
        pipeline_task const& own = schedule.tasks()[number];
        BALLAST_EXPECTS(own.position < order.size(), "position ", own.position,
                        " ran, and the order has ", detail::counted(order.size(), "microbatch"));
        task each{static_cast<std::uint32_t>(rank),
                  static_cast<std::uint32_t>(to_index(own.stage)),
                  static_cast<std::uint32_t>(to_index(order[own.position])),
                  own.pass == pass::backward,
                  measured.start[number],
                  measured.end[number]};
        if (!simulated.end.empty()) {
          each.simulated_start = nanoseconds(simulated.start[number]);
          each.simulated_end = nanoseconds(simulated.end[number]);
        }
        all.push_back(each);
      }
    }
    return all;
  }

  [[nodiscard]] static result<step_log> make(std::string path)
  {
    int descriptor = -1;
    do {
      descriptor = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } while (descriptor < 0 && errno == EINTR);
    step_log log(std::move(path), descriptor);
    if (descriptor < 0) { return log.refuse(); }
    file_lock const nobody_writes(descriptor);
    if (auto cut = log.cut_unfinished_line(); !cut) { return tl::unexpected(cut.error()); }
    return log;
  }

  step_log(step_log&& other) noexcept
      : path_(std::move(other.path_)),
        line_(std::move(other.line_)),
        descriptor_(std::exchange(other.descriptor_, -1))
  {}
  step_log& operator=(step_log&& other) noexcept
  {
    std::swap(path_, other.path_);
    std::swap(line_, other.line_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~step_log()
  {
    if (descriptor_ >= 0) { (void)close(descriptor_); }
  }

  [[nodiscard]] result<void> append(step_line const& entry)
  {
    if (auto right = check(entry); !right) { return right; }
    line_ = "{\"step\":";
    detail::append_integer(line_, entry.step);
    add("lengths", entry.lengths);
    add("costs", entry.costs);
    if (entry.cells.empty()) {
      add("owner", entry.owner);
    } else {
      add("owner", entry.cells);
    }
    add("loads", entry.loads);
    add("speeds", entry.speeds);
    add("makespan", std::array{entry.makespan.numerator, entry.makespan.denominator});
    add("bound", std::array{entry.lower_bound.numerator, entry.lower_bound.denominator});
    add("measured_ns", entry.measured_ns);
    if (!entry.gpus.empty()) { add("gpus", entry.gpus); }
    if (entry.microbatches > 1) {
      line_ += ",\"microbatches\":";
      detail::append_integer(line_, entry.microbatches);
      line_ += entry.meet == grid_meeting::step ? R"(,"meet":"step")" : R"(,"meet":"microbatch")";
    }
    if (entry.most_per_gpu != no_limit) {
      line_ += ",\"most_per_gpu\":";
      detail::append_integer(line_, entry.most_per_gpu);
      if (!entry.weights.empty()) { add("weights", entry.weights); }
    }
    if (entry.samples.kind != counts::rule::any) {
      line_ += R"(,"samples":")";
      line_ += rule_names[static_cast<std::size_t>(entry.samples.kind)];
      line_ += ':';
      detail::append_integer(line_, entry.samples.number);
      line_ += '"';
    }
    line_ += "}\n";
    return write_line();
  }

  /// A step of a pipeline, in a line of its own.
  [[nodiscard]] result<void> append_pipeline(std::uint64_t step, std::span<task const> tasks)
  {
    if (auto right = check(step, tasks); !right) { return right; }
    line_ = "{\"step\":";
    detail::append_integer(line_, step);
    line_ += ",\"tasks\":[";
    bool is_first = true;
    for (task const& each : tasks) {
      if (!std::exchange(is_first, false)) { line_ += ','; }
      add_numbers(std::array<std::int64_t, 8>{each.rank, each.stage, each.microbatch,
                                              each.is_backward ? 1 : 0, each.start, each.end,
                                              each.simulated_start, each.simulated_end});
    }
    line_ += "]}\n";
    return write_line();
  }

 private:
  /// Where a file system has no locks, nothing is locked.
  class file_lock {
   public:
    explicit file_lock(int descriptor) : descriptor_(descriptor)
    {
      do {
        is_held_ = flock(descriptor_, LOCK_EX) == 0;
      } while (!is_held_ && errno == EINTR);
    }
    file_lock& operator=(file_lock&&) = delete;
    ~file_lock()
    {
      int const reason = errno;
      (void)flock(descriptor_, LOCK_UN);
      errno = reason;
    }
    [[nodiscard]] bool is_held() const noexcept { return is_held_; }

   private:
    int descriptor_;
    bool is_held_ = false;
  };

  step_log(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  template <class Numbers>
  void add(std::string_view name, Numbers const& numbers)
  {
    ((line_ += ",\"") += name) += "\":";
    add_numbers(numbers);
  }

  template <class Numbers>
  void add_numbers(Numbers const& numbers)
  {
    line_ += '[';
    bool is_first = true;
    for (auto const number : numbers) {
      if (!std::exchange(is_first, false)) { line_ += ','; }
      detail::append_integer(line_, static_cast<std::int64_t>(number));
    }
    line_ += ']';
  }

  [[nodiscard]] result<void> write_line()
  {
    file_lock const nobody_writes(descriptor_);
    if (nobody_writes.is_held()) {  // what is unfinished now stays so
      if (auto cut = cut_unfinished_line(); !cut) { return cut; }
    }
    std::ptrdiff_t written = -1;
    do {
      written = write(descriptor_, line_.data(), line_.size());
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<std::ptrdiff_t>(line_.size())) { return {}; }
    if (written < 0) { return refuse(); }
    // Part of the line found room. It is taken back unless somebody without a lock wrote behind it.
    struct stat now{};
    auto const end = lseek(descriptor_, 0, SEEK_CUR);
    if (fstat(descriptor_, &now) == 0 && S_ISREG(now.st_mode) && now.st_size == end) {
      (void)!ftruncate(descriptor_, end - written);
    }
    errno = ENOSPC;
    return refuse();
  }

  /// What follows the last end of a line is a line that was not finished.
  [[nodiscard]] result<void> cut_unfinished_line() const
  {
    struct stat now{};
    if (fstat(descriptor_, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size == 0) { return {}; }
    char last = 0;
    if (!read_at(now.st_size - 1, &last, 1)) { return refuse(); }
    if (last == '\n') { return {}; }
    std::int64_t begin = now.st_size;  // of what is behind the last end of a line
    for (bool found = false; begin > 0 && !found;) {
      std::array<char, 1 << 16> chunk;  // filled by pread before it is read
      std::int64_t const from =
          std::max<std::int64_t>(begin - static_cast<std::int64_t>(chunk.size()), 0);
      auto const size = static_cast<std::size_t>(begin - from);
      if (!read_at(from, chunk.data(), size)) { return refuse(); }
      std::size_t const line_end = std::string_view(chunk.data(), size).rfind('\n');
      found = line_end != std::string_view::npos;
      begin = from + (found ? static_cast<std::int64_t>(line_end) + 1 : 0);
    }
    std::array<char, 64> first;  // more than begins_a_line() needs; filled by pread
    auto const size = std::min(first.size(), static_cast<std::size_t>(now.st_size - begin));
    if (!read_at(begin, first.data(), size)) { return refuse(); }
    if (!begins_a_line({first.data(), size})) {
      return fail(error_code::unwritable, 0, path_,
                  ": its last line is no line of a step log; name another file");
    }
    if (ftruncate(descriptor_, begin) != 0) { return refuse(); }
    return {};
  }

  /// Whether all of it could be read; if not, errno says why.
  [[nodiscard]] bool read_at(std::int64_t from, char* into, std::size_t size) const
  {
    std::ptrdiff_t read = -1;
    do {
      read = pread(descriptor_, into, size, from);
    } while (read < 0 && errno == EINTR);
    if (read >= 0 && read != static_cast<std::ptrdiff_t>(size)) { errno = EIO; }  // was shortened
    return read == static_cast<std::ptrdiff_t>(size);
  }

  /// Whether a text is the first part of a line: {"step":, a number and ,"lengths":[ or ,"tasks":[.
  [[nodiscard]] static bool begins_a_line(std::string_view text)
  {
    auto const begins_with = [&text](std::string_view word) {
      return text.substr(0, word.size()) == word.substr(0, text.size());
    };
    constexpr std::string_view step = "{\"step\":";
    if (!begins_with(step)) { return false; }
    text.remove_prefix(std::min(step.size(), text.size()));
    text.remove_prefix(std::min(text.find_first_not_of("0123456789"), text.size()));
    return begins_with(",\"lengths\":[") || begins_with(",\"tasks\":[");
  }

  [[nodiscard]] tl::unexpected<error> refuse() const
  {
    return fail(error_code::unwritable, 0, path_, ": ", std::generic_category().message(errno),
                "; name a file that can be written and has room");
  }

  std::string path_;
  std::string line_{};
  int descriptor_ = -1;
};

}  // namespace ballast::inline v0::report
