// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>
#include <ballast/text/read_file.hpp>

#include <charconv>
#include <system_error>

namespace cli {

/// A problem of scheduling jobs on identical machines so that the last ends early, P||Cmax: samples
/// and bags of one size, in the words of that literature.
struct makespan_instance {
  std::size_t machines = 1;
  std::vector<ballast::cost_units> times;  ///< of the jobs, in the order of the file

  friend bool operator==(makespan_instance const&, makespan_instance const&) = default;
};

/// The most machines of an instance that is read.
inline constexpr std::int64_t most_machines = std::int64_t{1} << 20;

/// Whole numbers between spaces and line ends, with the lines that they are in.
class number_reader {
 public:
  explicit number_reader(std::string_view text) noexcept : left_(text) {}

  /// The next one, from `least` to `most`. name() is what a message calls it.
  template <class Name>
  [[nodiscard]] ballast::result<std::int64_t> next(Name const& name, std::int64_t least,
                                                   std::int64_t most)
  {
    std::string_view const word = next_word();
    if (word.empty()) { return refuse("the text ends where " + name() + " should be; add it"); }
    std::int64_t number = 0;
    auto const [end, problem] = std::from_chars(word.data(), word.data() + word.size(), number);
    bool const is_number =
        end == word.data() + word.size() && problem != std::errc::invalid_argument;
    if (!is_number) {
      return refuse(ballast::excerpt(word) + " stands where " + name() +
                    " should be; write a whole number");
    }
    if (problem == std::errc::result_out_of_range || number < least || number > most) {
      return refuse(name() + " is " + std::string(word.substr(0, 40)) + ", expected " +
                    std::to_string(least) + " to " + std::to_string(most) + "; correct it");
    }
    return number;
  }

  /// Refuses anything that is left.
  [[nodiscard]] ballast::result<void> end(std::string const& last)
  {
    std::string_view const word = next_word();
    if (word.empty()) { return {}; }
    return refuse(ballast::excerpt(word) + " follows after " + last +
                  "; remove it or correct the count");
  }

 private:
  [[nodiscard]] std::string_view next_word() noexcept
  {
    constexpr std::string_view spaces = " \t\r\n\v\f";
    std::size_t const first = std::min(left_.find_first_not_of(spaces), left_.size());
    line_ += static_cast<std::size_t>(
        std::count(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
    left_.remove_prefix(first);
    std::string_view const word = left_.substr(0, left_.find_first_of(spaces));
    left_.remove_prefix(word.size());
    return word;
  }

  [[nodiscard]] tl::unexpected<ballast::error> refuse(std::string const& why) const
  {
    return ballast::fail(ballast::error_code::bad_row, line_,
                         "line " + std::to_string(line_) + ": " + why);
  }

  std::string_view left_;
  std::size_t line_ = 1;
};

/// Reads an instance in the form in which they are published: the number of machines, the number of
/// jobs, and the time of each, whole numbers between spaces or line ends.
///
/// Ensures     (1) times are not negative and add up to less than 2^63
/// Errors      bad_row with the line: something else than a number stands there, one is out of
///             range, is missing, or one is too many.
/// Complexity  O(bytes).
[[nodiscard]] inline ballast::result<makespan_instance> read_makespan_instance(
    std::string_view text)
{
  number_reader numbers(text);
  auto const called = [](char const* name) { return [name] { return std::string(name); }; };
  auto const machines = numbers.next(called("the number of machines"), 1, most_machines);
  if (!machines) { return tl::unexpected(machines.error()); }
  auto const jobs = numbers.next(called("the number of jobs"), 0, (std::int64_t{1} << 32) - 1);
  if (!jobs) { return tl::unexpected(jobs.error()); }

  makespan_instance instance{static_cast<std::size_t>(*machines), {}};
  std::int64_t total = 0;
  for (std::int64_t job = 1; job <= *jobs; ++job) {
    auto const name = [&] {
      return "time " + std::to_string(job) + " of " + std::to_string(*jobs);
    };
    auto const time = numbers.next(name, 0, ballast::no_cost - 1 - total);
    if (!time) { return tl::unexpected(time.error()); }
    instance.times.push_back(*time);
    total += *time;
  }
  if (auto end = numbers.end("the last of " + std::to_string(*jobs) + " jobs"); !end) {
    return tl::unexpected(end.error());
  }
  return instance;
}

}  // namespace cli
