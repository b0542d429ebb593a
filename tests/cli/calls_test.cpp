// SPDX-License-Identifier: Apache-2.0
// Makes the calls of the program that stand in calls/, and compares what it says. A line there is one of
//
//   [Name]                a test, in a folder of its own; lines above the first belong to all of the file
//   let name text         {name} is this text from here on
//   file name: text       a file; lines below that begin with "| " are its lines
//   sh command => text    a command of the shell, which succeeds, and what it prints where that is said
//   each name: a | b      the lines below, up to an empty one, for each
//   needs what            skips the test without data (BALLAST_DATA) or zsh, or where a sanitizer takes the memory
//   2 plan --x => text    a call, its exit status and what is in its one sentence on standard error, or for
//                         status 0 on standard output; a command of the shell where it names {ballast}
//   json plan => figures  a call that succeeds, with --format json: a.b = 5 | c.*.d >= e.0 | f ~ 1/3 +- 1e-9,
//                         where * is every element, name=x those of that name and size is their number; a is
//                         integer or float or absent; a like expression; a keys b,c; a.* are rising;
//                         a as name keeps it as {name}
//   page.html has a | b   what a file has, lacks, begins with, is, or is like (a regular expression); out
//                         and err are what the last call printed
//
// A line that begins with two spaces goes on with the one above. \n, \r, \t, \s (a space), \\, \xHH and
// \uHHHH are characters.

#include "program.hpp"

#include <regex>

namespace calls {

using nlohmann::json;

struct statement {
  std::size_t line;
  std::string text;
};

struct call_test {
  std::string file;
  std::string name;
  std::vector<statement> statements;  ///< an empty one ends what `each` repeats
};

std::string unescaped(std::string const& text)
{
  std::string_view constexpr letters = "nrts\\";
  std::string_view constexpr characters = "\n\r\t \\";
  std::string read;
  for (std::size_t at = 0; at < text.size(); ++at) {
    char const next = text[at] == '\\' && at + 1 < text.size() ? text[at + 1] : '\0';
    if (auto const which = letters.find(next); next != '\0' && which != letters.npos) {
      read += characters[which];
      ++at;
    } else if (next == 'x' || next == 'u') {
      std::size_t const digits = next == 'x' ? 2 : 4;
      auto const code = std::stoul(text.substr(at + 2, digits), nullptr, 16);
      if (next == 'u' && code >= 0x800) { read += static_cast<char>(0xE0 | code >> 12); }
      if (next == 'u' && code >= 0x80) {
        read += static_cast<char>(code >= 0x800 ? 0x80 | (code >> 6 & 0x3F) : 0xC0 | code >> 6);
      }
      read += static_cast<char>(next == 'u' && code >= 0x80 ? 0x80 | (code & 0x3F) : code);
      at += 1 + digits;
    } else {
      read += text[at];
    }
  }
  return read;
}

void PrintTo(call_test const& test, std::ostream* out)
{
  *out << test.file << ".calls";
}

std::vector<call_test> tests_of(std::filesystem::path const& path)
{
  std::vector<call_test> tests;
  std::vector<statement> for_all;
  std::istringstream lines(ballast_test::content_of(path));
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    auto& statements = tests.empty() ? for_all : tests.back().statements;
    if (line.starts_with("#")) { continue; }
    if (line.starts_with("[")) {
      tests.push_back({path.stem().string(), line.substr(1, line.find(']') - 1), for_all});
    } else if (line.starts_with("  ")) {
      statements.back().text += " " + line.substr(line.find_first_not_of(' '));
    } else if (line.starts_with("| ")) {
      std::string& text = statements.back().text;
      text += text.ends_with(':') ? " " : text.ends_with("\\n") ? "" : "\\n";
      text += line.substr(2) + "\\n";
    } else {
      statements.push_back({number, line});
    }
  }
  return tests;
}

std::vector<call_test> all_tests()
{
  std::set<std::filesystem::path> files;
  for (auto const& each :
       std::filesystem::directory_iterator(BALLAST_SOURCE_DIR "/tests/cli/calls")) {
    files.insert(each.path());
  }
  std::vector<call_test> all;
  for (auto const& path : files) {
    for (call_test& each : tests_of(path)) { all.push_back(std::move(each)); }
  }
  return all;
}

/// Sums of products, such as 11/9-1.
std::optional<double> number_from(std::string const& text)
{
  double sum = 0;
  double product = 1;
  char before = '+';
  char const* at = text.c_str();
  for (;;) {
    char* end = nullptr;
    double const factor = std::strtod(at, &end);
    if (end == at) { return std::nullopt; }
    if (before == '/') {
      product /= factor;
    } else if (before == '*') {
      product *= factor;
    } else {
      sum += product * (at == text.c_str() ? 0 : 1);
      product = before == '-' ? -factor : factor;
    }
    if (*end == '\0') { return sum + product; }
    before = *end;
    if (std::string_view("+-*/").find(before) == std::string_view::npos) { return std::nullopt; }
    at = end + 1;
  }
}

/// What is at a path: several values where it has a *; name=x chooses the elements of that name.
std::vector<json> values_at(json const& all, std::string const& path)
{
  std::vector<json> found{all};
  for (std::string const& part : ballast_test::split(path, ".")) {
    std::vector<json> next;
    for (json const& each : found) {
      bool const is_index = part.find_first_not_of("0123456789") == part.npos;
      if (part.empty()) {
        next.push_back(each);
      } else if (part == "*") {
        next.insert(next.end(), each.begin(), each.end());
      } else if (auto const equals = part.find('='); equals != part.npos) {
        std::string const wanted = part.substr(equals + 1);
        json const value = json::accept(wanted) ? json::parse(wanted) : json(wanted);
        for (json const& one : each.is_array() ? each : json::array({each})) {
          std::string const key = part.substr(0, equals);
          if (one.contains(key) && one.at(key) == value) { next.push_back(one); }
        }
      } else if (part == "size" && each.is_array()) {
        next.emplace_back(each.size());
      } else if (each.is_object() && each.contains(part)) {
        next.push_back(each.at(part));
      } else if (each.is_array() && is_index && std::stoul(part) < each.size()) {
        next.push_back(each.at(std::stoul(part)));
      }
    }
    found = next;
  }
  return found;
}

/// One call after the other, with what `let`, `each` and `as` named.
class BallastCalls : public ballast_test::program_test,
                     public testing::WithParamInterface<call_test> {
 protected:
  void SetUp() override
  {
    program_test::SetUp();
    names_["ballast"] = "'" + program() + "'";
    names_["source"] = BALLAST_SOURCE_DIR;
    names_["version"] = BALLAST_PROJECT_VERSION;
    names_["mixed"] = ballast_test::mixed;
    char const* const data = std::getenv("BALLAST_DATA");
    names_["data"] = data == nullptr ? "" : data;
    names_["few_nodes"] = ballast_test::is_sanitized ? ",nodes=30000" : ",nodes=16777216";
  }

  void make(std::vector<statement> const& all, std::size_t from, std::size_t to)
  {
    for (std::size_t at = from; at < to && !HasFatalFailure() && !IsSkipped(); ++at) {
      statement const& each = all[at];
      SCOPED_TRACE("line " + std::to_string(each.line) + ": " + each.text);
      if (!each.text.starts_with("each ")) {
        make(each.text);
        continue;
      }
      std::size_t end = at + 1;
      while (end < to && !all[end].text.empty()) { ++end; }
      std::string const list = named(unescaped(each.text.substr(5)));
      std::size_t const colon = list.find(": ");
      for (std::string const& value : ballast_test::split(list.substr(colon + 2), " | ")) {
        names_[list.substr(0, colon)] = value;
        make(all, at + 1, end);
      }
      at = end;
    }
  }

 private:
  /// The text with what names stand for.
  std::string named(std::string text) const
  {
    static std::regex const form("\\{([a-z_]+)\\}");
    std::smatch found;
    while (std::regex_search(text, found, form)) {
      auto const known = names_.find(found[1]);
      if (known == names_.end()) {
        ADD_FAILURE() << "nothing is named " << found[0];
        return text;
      }
      text.replace(static_cast<std::size_t>(found.position()), found[0].str().size(),
                   known->second);
    }
    return text;
  }

  void make(std::string const& written)
  {
    std::string const unnamed = unescaped(written);
    std::string const word = unnamed.substr(0, unnamed.find(' '));
    if (word == "json" || word == "sh" || word == "0" || word == "1" || word == "2") {
      make_call(word, unnamed.substr(word.size() + 1));
      return;
    }
    std::string const text = named(unnamed);
    std::string const first = text.substr(0, text.find(' '));
    std::string const rest = text.substr(std::min(first.size() + 1, text.size()));
    std::size_t const end = std::min(rest.find(first == "file" ? ':' : ' '), rest.size());
    std::string const name = rest.substr(0, end);
    std::string const value = rest.substr(std::min(rest.find(' ', end), rest.size() - 1) + 1);
    if (first.empty()) { return; }
    if (first == "let") {
      names_[name] = value;
    } else if (first == "file") {
      std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
      file(name, value);
    } else if (first == "needs") {
      if (name == "data" && names_.at("data").empty()) { GTEST_SKIP() << "without BALLAST_DATA"; }
      if (name == "zsh" && run_in_shell("command -v zsh").exit_code != 0) {
        GTEST_SKIP() << "no zsh";
      }
      if (name == "memory" && ballast_test::is_sanitized) { GTEST_SKIP() << "a sanitizer's"; }
    } else if (first == "out" || first == "err") {
      compare(first == "out" ? last_.out : last_.error, name, value);
    } else {
      ASSERT_TRUE(std::filesystem::exists(path(first))) << "neither a statement nor a file";
      compare(content(first), name, value);
    }
  }

  void make_call(std::string const& word, std::string const& text)
  {
    std::size_t const arrow = std::min(text.find(" => "), text.size());
    std::string const call =
        named(text.substr(0, arrow)) + (word == "json" ? " --format json" : "");
    int const exit_code = word == "1" || word == "2" ? std::stoi(word) : 0;
    // What is refused takes no memory worth speaking of; a sanitizer needs it.
    bool const is_limited = exit_code == 2 && !ballast_test::is_sanitized;
    std::string const before = is_limited ? "ulimit -v 4000000; " : "";
    bool const in_shell = word == "sh" || text.find("{ballast}") < arrow;
    last_ = in_shell ? run_in_shell(before + call) : run(call, before);
    ASSERT_EQ(last_.exit_code, exit_code) << last_.out << last_.error;
    if (word == "json") {
      EXPECT_EQ(last_.error, "");
      ASSERT_TRUE(json::accept(last_.out)) << last_.out << last_.error;
      said_ = json::parse(last_.out);
    }
    if (arrow == text.size()) { return; }
    for (auto const& each : ballast_test::split(text.substr(arrow + 4), " | ")) {
      if (word == "json") {
        figure(named(each));
      } else if (exit_code == 0) {
        EXPECT_THAT(last_.out, testing::HasSubstr(named(each)));
      } else {
        ballast_test::expect_refused(last_, exit_code, named(each));
      }
    }
  }

  static void compare(std::string const& text, std::string const& how, std::string const& list)
  {
    if (how == "is") {
      EXPECT_EQ(text, list);
      return;
    }
    for (std::string const& each : ballast_test::split(list, " | ")) {
      if (how == "has") {
        EXPECT_THAT(text, testing::HasSubstr(each));
      } else if (how == "lacks") {
        EXPECT_THAT(text, testing::Not(testing::HasSubstr(each)));
      } else if (how == "begins") {
        EXPECT_THAT(text, testing::StartsWith(each));
      } else {
        ASSERT_EQ(how, "like") << "no such comparison";
        EXPECT_THAT(text, testing::ContainsRegex(each));
      }
    }
  }

  void figure(std::string const& text)
  {
    auto const words = ballast_test::split(text, " ");
    ASSERT_GE(words.size(), 3U) << text;
    auto const values = values_at(said_, words[0]);
    std::string const& how = words[1];
    std::string const expected = text.substr(words[0].size() + how.size() + 2);
    if (how == "is" && expected == "absent") {
      EXPECT_TRUE(values.empty()) << text;
      return;
    }
    ASSERT_FALSE(values.empty()) << "there is no " << words[0] << " in " << said_;
    if (how == "are") {
      EXPECT_TRUE(expected == "rising" && std::ranges::is_sorted(values)) << text;
      return;
    }
    if (how == "as") { names_[expected] = values.front().dump(); }
    for (json const& value : values) {
      if (how != "as") { EXPECT_TRUE(holds(value, how, expected)) << text << ", not " << value; }
    }
  }

  bool holds(json const& value, std::string const& how, std::string expected) const
  {
    if (how == "is") {
      return expected == "integer" ? value.is_number_integer() : value.is_number_float();
    }
    std::optional<double> tolerance;
    if (auto const at = expected.find(" +- "); at != expected.npos) {
      tolerance = std::stod(expected.substr(at + 4));
      expected.erase(at);
    }
    if (how == "keys") {
      std::string keys;
      for (auto const& [key, ignored] : value.items()) { keys += (keys.empty() ? "" : ",") + key; }
      return keys == expected;
    }
    if (how == "like") { return std::regex_search(value.get<std::string>(), std::regex(expected)); }
    json other = expected;
    if (json::accept(expected)) {
      other = json::parse(expected);
    } else if (auto const of_answer = values_at(said_, expected); of_answer.size() == 1) {
      other = of_answer.front();
    } else if (auto const number = number_from(expected)) {
      other = *number;
    }
    if (how == "=") { return value == other; }
    if (how == "!=") { return value != other; }
    auto const a = value.get<double>();
    auto const b = other.get<double>();
    if (how == "~") {
      return std::abs(a - b) <= tolerance.value_or(1e-12 * std::max(1.0, std::abs(b)));
    }
    return how == "<" ? a < b : how == "<=" ? a <= b : how == ">" ? a > b : how == ">=" && a >= b;
  }

  std::map<std::string, std::string> names_;
  ballast_test::answer last_;
  json said_;
};

TEST_P(BallastCalls, SayWhatIsWritten)
{
  auto const& statements = GetParam().statements;
  make(statements, 0, statements.size());
}

INSTANTIATE_TEST_SUITE_P(Of, BallastCalls, testing::ValuesIn(all_tests()),
                         [](auto const& each) { return each.param.file + "_" + each.param.name; });

}  // namespace calls
