// SPDX-License-Identifier: Apache-2.0
// Sources what `ballast completion` prints in the shells, and asks them for words.

#include "program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace shell_completion {

using ballast_test::expect_refused;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

using words = std::set<std::string>;

/// What a shell prints.
words printed_by(std::string const& command)
{
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  std::array<char, 4096> part{};
  while (std::size_t const size = std::fread(part.data(), 1, part.size(), pipe)) {
    out.append(part.data(), size);
  }
  EXPECT_EQ(pclose(pipe), 0) << command;
  words found;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) { found.insert(line); }
  return found;
}

std::string joined(std::vector<std::string> const& typed)
{
  std::string text;
  for (std::string const& each : typed) { text += "'" + each + "' "; }
  return text;
}

class BallastCompletion : public ballast_test::program_test {
 protected:
  std::string script(std::string const& shell) const
  {
    auto const result = run("completion " + shell);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return file("script." + shell, result.out);
  }

  /// What bash offers for the last word, as it splits words: at = too.
  words in_bash(std::vector<std::string> const& typed) const
  {
    std::string const test = "cd '" + path("") + "' && . '" + script("bash") + "' && COMP_WORDS=(" +
                             joined(typed) + ") && COMP_CWORD=" + std::to_string(typed.size() - 1) +
                             " ; _ballast; printf '%s\\n' \"${COMPREPLY[@]}\"";
    words found = printed_by("bash --norc --noprofile -c \"$(cat <<'END'\n" + test + "\nEND\n)\"");
    found.erase("");
    return found;
  }

  /// All that zsh chooses from; it drops by itself what does not begin as the word does.
  words in_zsh(std::vector<std::string> const& typed) const
  {
    std::string const test =
        "compdef() { :; }; compset() { :; }; _files() { print -l '(files)'; }; "
        "compadd() { print -l -- \"${@[2,-1]}\"; }; . '" +
        script("zsh") + "'; words=(" + joined(typed) +
        "); CURRENT=" + std::to_string(typed.size()) + "; _ballast";
    words found = printed_by("zsh -f -c \"$(cat <<'END'\n" + test + "\nEND\n)\"");
    found.erase("");
    return found;
  }
};

TEST_F(BallastCompletion, KnowsInBashWhatTheParserKnows)
{
  EXPECT_THAT(in_bash({"ballast", "p"}),
              ElementsAre("pack", "partition", "pipeline", "plan", "profile"));
  EXPECT_THAT(in_bash({"ballast", "help", "sea"}), ElementsAre("search"));
  EXPECT_THAT(in_bash({"ballast", "plan", "--mi"}), ElementsAre("--microbatches"));
  EXPECT_THAT(in_bash({"ballast", "plan", "--format", ""}), ElementsAre("json", "table"));
  EXPECT_THAT(in_bash({"ballast", "plan", "--format", "=", "j"}), ElementsAre("json"));
  EXPECT_THAT(in_bash({"ballast", "plan", "--format", "="}), ElementsAre("json", "table"));
  EXPECT_THAT(in_bash({"ballast", "plan", "--gpus", ""}), IsEmpty());  // a number
  EXPECT_THAT(in_bash({"ballast", "completion", ""}), IsSupersetOf({"bash", "zsh"}));
  EXPECT_THAT(in_bash({"ballast", "search", "--t"}), IsEmpty());  // --top is gone
  EXPECT_THAT(in_bash({"ballast", "nonsense", ""}), IsEmpty());

  (void)file("a trace.csv", "a\n1\n");
  EXPECT_THAT(in_bash({"ballast", "plan", "--trace", "a"}), ElementsAre("a trace.csv"));
  EXPECT_THAT(in_bash({"ballast", "report", "a"}), ElementsAre("a trace.csv"));
  EXPECT_THAT(in_bash({"ballast", "partition", "--instances", "x.txt", "a"}),
              ElementsAre("a trace.csv"));
}

TEST_F(BallastCompletion, HasAllOptionsOfTheHelp)
{
  for (std::string const command : {"plan", "route", "partition", "pack", "pipeline", "profile",
                                    "search", "orchestrate", "report", "compare"}) {
    words expected;
    std::istringstream lines(run(command + " --help").out);
    for (std::string line; std::getline(lines, line);) {
      std::size_t const begin = line.find_first_not_of(' ');
      if (begin == 0 || begin == line.npos || begin > 6) { continue; }
      std::size_t const option = line.find("--");
      if (option > 6) { continue; }
      expected.insert(line.substr(option, line.find_first_of(" =", option) - option));
    }
    EXPECT_GE(expected.size(), 2U);
    EXPECT_EQ(in_bash({"ballast", command, "--"}), expected) << command;
  }
}

TEST_F(BallastCompletion, KnowsInZshWhatTheParserKnows)
{
  if (std::system("command -v zsh >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "zsh is not installed";
  }
  EXPECT_THAT(in_zsh({"ballast", "p"}), IsSupersetOf({"pack", "plan", "search", "help"}));
  EXPECT_THAT(in_zsh({"ballast", "help", ""}), Contains("orchestrate"));
  EXPECT_THAT(in_zsh({"ballast", "plan", "--format", ""}), ElementsAre("json", "table"));
  EXPECT_THAT(in_zsh({"ballast", "plan", "--format=j"}), ElementsAre("json", "table"));
  EXPECT_THAT(in_zsh({"ballast", "plan", "--trace", ""}), ElementsAre("(files)"));
  EXPECT_THAT(in_zsh({"ballast", "plan", "--gpus", ""}), IsEmpty());
  EXPECT_THAT(in_zsh({"ballast", "plan", ""}), IsSupersetOf({"--bags", "--microbatches"}));
  EXPECT_THAT(in_zsh({"ballast", "report", ""}), ElementsAre("(files)"));
  EXPECT_THAT(in_zsh({"ballast", "search", ""}), Not(Contains("--top")));
}

TEST_F(BallastCompletion, RefusesOtherShells)
{
  expect_refused(run("completion"), 2, "there is no shell; choose one of bash, zsh");
  expect_refused(run("completion fish"), 2, "there is no 'fish'; choose one of bash, zsh");
  expect_refused(run("completion bash zsh"), 2, "completion does not take 'zsh'");
  expect_refused(run("completion --shell bash"), 2, "completion has no option '--shell'");
  EXPECT_THAT(run("completion --help").out, HasSubstr("bash"));
}

}  // namespace shell_completion
