// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_CLI_PROGRAM_HPP
#define BALLAST_TESTS_CLI_PROGRAM_HPP

#include "../support/temporary_folder.hpp"

#include <sys/wait.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

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

/// A folder of its own for each test, gone afterwards, and the program under test.
class program_test : public testing::Test {
 protected:
  void SetUp() override
  {
    char const* const named = std::getenv("BALLAST_PROGRAM");
    if (named == nullptr) { GTEST_SKIP() << "BALLAST_PROGRAM does not name the program"; }
    program_ = named;
  }

  /// Runs the program; `before` is what the shell does first, such as to limit memory, and `input`
  /// the file that is its standard input.
  answer run(std::string const& arguments, std::string const& before = "",
             std::string const& input = "/dev/null") const
  {
    std::filesystem::path const errors = folder_ / "stderr";
    std::string const command = before + "'" + program_ + "' " + arguments + " 2>'" +
                                errors.string() + "' <'" + input + "'";
    std::FILE* const pipe = popen(command.c_str(), "r");
    answer result;
    std::array<char, 4096> part{};
    while (std::size_t const size = std::fread(part.data(), 1, part.size(), pipe)) {
      result.out.append(part.data(), size);
    }
    int const status = pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.error = content_of(errors);
    return result;
  }

  /// What a run with --format json says, which succeeds.
  nlohmann::json json_of(std::string const& arguments) const
  {
    auto const result = run(arguments + " --format json");
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }

  std::string file(std::string const& name, std::string_view content) const
  {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  std::string path(std::string const& name) const { return (folder_ / name).string(); }
  std::string const& program() const { return program_; }

  /// The names of all files in the folder, but for what the program said.
  std::set<std::string> names() const
  {
    std::set<std::string> all;
    for (auto const& each : std::filesystem::directory_iterator(folder_)) {
      if (each.path() != folder_ / "stderr") { all.insert(each.path().filename().string()); }
    }
    return all;
  }

 private:
  std::string program_;
  temporary_folder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

/// 32 GPUs that read images of four sizes, few of them large.
inline constexpr char const* mixed =
    "--codes g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0 ";

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

#endif  // BALLAST_TESTS_CLI_PROGRAM_HPP
