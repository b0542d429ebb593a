// SPDX-License-Identifier: Apache-2.0
// What every test of the command line includes, and the fixture that runs the program.
#pragma once

#include "../support/temporary_folder.hpp"
#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

namespace ballast_test {

/// What a run of the program gave.
struct answer {
  int exit_code = -1;
  std::string out;
  std::string error;
};

inline std::string content_of(std::filesystem::path const& path)
{
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> split(std::string const& text, std::string_view separator)
{
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; (at = text.find(separator, from)) != text.npos;) {
    parts.push_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

using csv_row = std::map<std::string, std::string>;

/// Rows of a CSV text by the names in its header.
inline std::vector<csv_row> rows_of(std::string const& text)
{
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  auto const names = split(line, ",");
  std::vector<csv_row> rows;
  while (std::getline(lines, line)) {
    auto const values = split(line, ",");
    EXPECT_EQ(values.size(), names.size()) << line;
    rows.emplace_back();
    for (std::size_t at = 0; at < std::min(values.size(), names.size()); ++at) {
      rows.back()[names[at]] = values[at];
    }
  }
  return rows;
}

/// A folder of its own for each test, in which the program runs and which is gone afterwards.
class program_test : public testing::Test {
 protected:
  void SetUp() override
  {
    char const* const named = std::getenv("BALLAST_PROGRAM");
    if (named == nullptr) { GTEST_SKIP() << "BALLAST_PROGRAM does not name the program"; }
    program_ = named;
  }

  /// Runs a command of the shell in the folder.
  answer run_in_shell(std::string const& command) const
  {
    std::filesystem::path const errors = temporary_.path() / "stderr";
    std::string const whole =
        "cd '" + path() + "'; { " + command + "\n} 2>'" + errors.string() + "' </dev/null";
    std::FILE* const pipe = popen(whole.c_str(), "r");
    answer result;
    std::array<char, 4096> part{};
    while (std::size_t const size = std::fread(part.data(), 1, part.size(), pipe)) {
      result.out.append(part.data(), size);
    }
    int const status = pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    // What is told of a call that takes long is of the machine's load.
    std::istringstream lines(content_of(errors));
    for (std::string line; std::getline(lines, line);) {
      if (!line.ends_with(" s so far")) { result.error += line + "\n"; }
    }
    return result;
  }

  /// Runs the program; `before` is what the shell does first, such as to limit memory.
  answer run(std::string const& arguments, std::string const& before = "") const
  {
    return run_in_shell(before + "'" + program_ + "' " + arguments);
  }

  /// What a run with --format json says, which succeeds.
  nlohmann::json json_of(std::string const& arguments) const
  {
    auto const result = run(arguments + " --format json");
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  void file(std::string const& name, std::string_view content) const
  {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string path(std::string const& name = "") const
  {
    return (temporary_.path() / "files" / name).string();
  }
  std::string content(std::string const& name) const { return content_of(path(name)); }
  std::string const& program() const { return program_; }

  /// The names of all files in the folder.
  std::set<std::string> names() const
  {
    std::set<std::string> all;
    for (auto const& each : std::filesystem::directory_iterator(path())) {
      all.insert(each.path().filename().string());
    }
    return all;
  }

 private:
  std::string program_;
  temporary_folder temporary_;
  bool const is_made_ = std::filesystem::create_directory(temporary_.path() / "files");
};

/// 32 GPUs that read images of four sizes, few of them large.
inline std::string const mixed = "--codes g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0 ";

/// One sentence on standard error, nothing on standard output.
inline void expect_refused(answer const& result, int exit_code, std::string const& why)
{
  EXPECT_EQ(result.exit_code, exit_code) << result.error;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.error, testing::StartsWith("ballast: "));
  EXPECT_THAT(result.error, testing::HasSubstr(why));
  EXPECT_EQ(std::count(result.error.begin(), result.error.end(), '\n'), 1) << result.error;
}

}  // namespace ballast_test
