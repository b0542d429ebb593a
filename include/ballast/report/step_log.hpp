// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_STEP_LOG_HPP
#define BALLAST_REPORT_STEP_LOG_HPP

#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/report/detail/append_integer.hpp>
#include <ballast/report/step_entry.hpp>

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
/// Ensures     (1) a line is written whole and by one call of write(), at the end of the file, while
///                 no other writer has the file (flock), so that the lines of several do not mix
///             (2) a file that is there is continued; a line that a writer left unfinished, as one
///                 that was killed, is removed before the next one is written
///             (3) where a line cannot be written, as on a full disk, append() says so and what was
///                 written of it is removed: the step may go on, and so may the log
///             (4) append() allocates nothing once it has seen a line as long
///             (5) a line that `ballast report` would pass over is refused, and nothing is written:
///                 check_line() says what is right; a step without samples is, one without tasks
///                 is not
/// Errors      unwritable, with the path and the reason: the file cannot be opened or written, or
///             an unfinished last line is none of a log. out_of_range: check_line() refuses it.
/// Complexity  make: O(bytes behind the last end of a line), read 64 KiB at a time; append:
///             O(samples + bags + ranks); append_pipeline: O(tasks).
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
  step_log(step_log const&) = delete;
  step_log& operator=(step_log const&) = delete;
  ~step_log()
  {
    if (descriptor_ >= 0) { (void)close(descriptor_); }
  }

  [[nodiscard]] result<void> append(step_entry const& entry)
  {
    if (auto right = check_line(entry); !right) { return right; }
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
    if (auto right = check_line(step, tasks); !right) { return right; }
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
    explicit file_lock(int descriptor) : descriptor_(descriptor)
    {
      do {
        is_held_ = flock(descriptor_, LOCK_EX) == 0;
      } while (!is_held_ && errno == EINTR);
    }
    file_lock(file_lock const&) = delete;
    file_lock& operator=(file_lock const&) = delete;
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

#endif  // BALLAST_REPORT_STEP_LOG_HPP
