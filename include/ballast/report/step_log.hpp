// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_STEP_LOG_HPP
#define BALLAST_REPORT_STEP_LOG_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/report/detail/append_integer.hpp>
#include <ballast/text/detail/counted.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace ballast::inline v0::report {

/// A step, as a step_log writes it: what was planned, and how long it took.
///
/// Shapes      lengths[n], costs[n], owner[n] of a plan of n samples; loads[m], speeds[m] of its m
///             bags; measured_ns[ranks], or empty where nothing was measured.
/// Units       costs and loads in the cost model's unit; makespan and bound in that unit per speed,
///             as those of a plan; a bag's speed is as bag_layout::speeds() has it; nanoseconds
///             that a rank computed.
struct step_entry {
  std::uint64_t step = 0;
  std::span<tokens const> lengths{};
  std::span<cost_units const> costs{};
  std::span<bag_id const> owner{};
  std::span<cost_units const> loads{};
  std::span<std::uint32_t const> speeds{};
  ratio makespan{};
  ratio lower_bound{};
  std::span<std::int64_t const> measured_ns{};
};

/// A task of a step of a pipeline: when it ran, and when it should have.
///
/// Units       nanoseconds from the start of the step; simulated ones are 0 where nothing was
///             simulated.
struct task_entry {
  std::uint32_t rank = 0;  ///< of the pipeline
  std::uint32_t stage = 0;
  std::uint32_t microbatch = 0;
  bool is_backward = false;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t simulated_start = 0;
  std::int64_t simulated_end = 0;

  friend bool operator==(task_entry const&, task_entry const&) = default;
};

/// Writes down what every step of a training run was: one line a step, for `ballast report`.
///
/// One rank keeps the log, usually rank 0, which has the plan as all others. A line is an object in
/// JSON, with keys in this order and without spaces:
///
///     {"step":1,"lengths":[900,100],"costs":[81,1],"owner":[0,1],"loads":[81,1],"speeds":[1,1],
///     "makespan":[81,1],"bound":[81,1],"measured_ns":[5200,300]}
///
/// in one line. Makespan and bound are fractions, numerator first. What is not known is an empty
/// array. A step of a pipeline has a line of its own, with an array for each task: rank, stage,
/// microbatch, 1 for backwards, start, end, simulated start and end.
///
///     {"step":1,"tasks":[[0,0,2,0,0,5200,0,5000],[0,0,2,1,5300,9900,5000,9500]]}
///
/// Expects     one thread at a time.
/// Ensures     (1) a line is written whole and by one call of write(), at the end of the file, so
///                 that the lines of several writers do not mix on a local file system
///             (2) a file that is there is continued; a line that its last writer left unfinished
///                 is removed first, and one that another writer is writing is waited for (flock)
///             (3) where a line cannot be written, as on a full disk, append() says so and what was
///                 written of it is removed: the step may go on, and so may the log
///             (4) append() allocates nothing once it has seen a line as long
/// Errors      unwritable, with the path and the reason: the file cannot be opened or written, or
///             an unfinished last line is none of a log.
/// Complexity  append: O(samples + bags + ranks); append_pipeline: O(tasks).
class step_log {
 public:
  [[nodiscard]] static result<step_log> make(std::string path)
  {
    int descriptor = -1;
    do {
      descriptor = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
    } while (descriptor < 0 && errno == EINTR);
    step_log log(std::move(path), descriptor);
    if (descriptor < 0) { return log.refuse(); }
    file_lock const nobody_writes(descriptor, LOCK_EX);  // what is unfinished now stays so
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
  step_log(step_log const&) = delete;
  step_log& operator=(step_log const&) = delete;
  ~step_log()
  {
    if (descriptor_ >= 0) { (void)close(descriptor_); }
  }

  /// Expects equal sizes, as the shapes of step_entry say.
  [[nodiscard]] result<void> append(step_entry const& entry)
  {
    BALLAST_EXPECTS(
        entry.lengths.size() == entry.owner.size() && entry.costs.size() == entry.owner.size(),
        "a step has ", detail::counted(entry.lengths.size(), "length"), ", ",
        detail::counted(entry.costs.size(), "cost"), " and ", entry.owner.size(),
        " owners, and each sample has one of each");
    BALLAST_EXPECTS(entry.loads.size() == entry.speeds.size(), "a step has loads of ",
                    detail::counted(entry.loads.size(), "bag"), " and speeds of ",
                    entry.speeds.size());
    line_ = "{\"step\":";
    detail::append_integer(line_, entry.step);
    add("lengths", entry.lengths);
    add("costs", entry.costs);
    add("owner", entry.owner);
    add("loads", entry.loads);
    add("speeds", entry.speeds);
    add("makespan", std::array{entry.makespan.numerator, entry.makespan.denominator});
    add("bound", std::array{entry.lower_bound.numerator, entry.lower_bound.denominator});
    add("measured_ns", entry.measured_ns);
    line_ += "}\n";
    return write_line();
  }

  /// A step of a pipeline, in a line of its own.
  [[nodiscard]] result<void> append_pipeline(std::uint64_t step, std::span<task_entry const> tasks)
  {
    line_ = "{\"step\":";
    detail::append_integer(line_, step);
    line_ += ",\"tasks\":[";
    bool is_first = true;
    for (task_entry const& each : tasks) {
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
    file_lock(int descriptor, int operation) : descriptor_(descriptor)
    {
      while (flock(descriptor_, operation) != 0 && errno == EINTR) {}
    }
    file_lock(file_lock const&) = delete;
    file_lock& operator=(file_lock const&) = delete;
    ~file_lock()
    {
      int const reason = errno;
      (void)flock(descriptor_, LOCK_UN);
      errno = reason;
    }

   private:
    int descriptor_;
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
    file_lock const nobody_cuts(descriptor_, LOCK_SH);  // writers do not wait for each other
    std::ptrdiff_t written = -1;
    do {
      written = write(descriptor_, line_.data(), line_.size());
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<std::ptrdiff_t>(line_.size())) { return {}; }
    if (written < 0) { return refuse(); }
    // Part of the line found room. It is taken back unless somebody has written behind it.
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
    if (fstat(descriptor_, &now) != 0 || !S_ISREG(now.st_mode)) { return {}; }
    std::string tail;  // behind the last end of a line
    std::int64_t begin = now.st_size;
    while (begin > 0) {
      std::array<char, 1 << 16> chunk;  // filled by pread before it is read
      std::int64_t const from = begin > static_cast<std::int64_t>(chunk.size())
                                    ? begin - static_cast<std::int64_t>(chunk.size())
                                    : 0;
      std::ptrdiff_t read = -1;
      do {
        read = pread(descriptor_, chunk.data(), static_cast<std::size_t>(begin - from), from);
      } while (read < 0 && errno == EINTR);
      if (read >= 0 && read != begin - from) { errno = EIO; }  // somebody shortens the file
      if (read != begin - from) { return refuse(); }
      std::string_view const part(chunk.data(), static_cast<std::size_t>(read));
      std::size_t const line_end = part.rfind('\n');
      tail.insert(0, part.substr(line_end == std::string_view::npos ? 0 : line_end + 1));
      if (line_end != std::string_view::npos) { break; }
      begin = from;
    }
    if (tail.empty()) { return {}; }
    if (!begins_a_line(tail)) {
      return fail(error_code::unwritable, 0, path_,
                  ": its last line is no line of a step log; name another file");
    }
    if (ftruncate(descriptor_, now.st_size - static_cast<std::int64_t>(tail.size())) != 0) {
      return refuse();
    }
    return {};
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

#endif  // BALLAST_REPORT_STEP_LOG_HPP
