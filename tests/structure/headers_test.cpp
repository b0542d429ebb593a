// SPDX-License-Identifier: Apache-2.0
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

using structure::problems;
using structure::source_file;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

std::string guard_of(std::string_view path)
{
  path.remove_prefix(std::string_view("ballast/").size());
  std::string guard = "BALLAST_";
  for (char const c : path) {
    bool const kept = std::isalnum(static_cast<unsigned char>(c)) != 0;
    guard += kept ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : '_';
  }
  return guard;
}

// Whether anything is left once comment lines and directives are taken away.
bool declares_something(std::vector<std::string> const& lines)
{
  bool continued = false;  // the directive goes on
  for (std::string const& line : lines) {
    std::size_t const first = line.find_first_not_of(' ');
    bool const code = first != std::string::npos && !continued && line[first] != '#' &&
                      line.compare(first, 2, "//") != 0;
    if (code) { return true; }
    continued = line.ends_with('\\');
  }
  return false;
}

problems of_form(source_file const& header)
{
  problems found;
  auto const report = [&](std::string const& what) { found.push_back(header.path + ": " + what); };
  auto const lines = structure::lines_of(header.text);
  std::string const guard = guard_of(header.path);
  auto const at = [&](std::size_t line) { return line < lines.size() ? lines[line] : ""; };

  if (at(0) != "// SPDX-License-Identifier: Apache-2.0") { report("line 1 must be the licence"); }
  if (at(1) != "#ifndef " + guard || at(2) != "#define " + guard ||
      at(lines.size() - 1) != "#endif  // " + guard) {
    report("must be guarded by " + guard + " on lines 2 and 3 and on the last");
  }
  if (header.text.find("///") == std::string::npos) { report("documents nothing with ///"); }

  bool versioned = false;  // other namespaces nest in the versioned one
  for (std::string const& line : lines) {
    if (line.starts_with("namespace ballast::inline v0")) {
      versioned = true;
    } else if (line.starts_with("namespace ballast") ||
               (!versioned && line.starts_with("namespace "))) {
      report("opens '" + line + "' instead of ballast::inline v0");
    }
  }
  if (!versioned && declares_something(lines)) {
    report("declares names outside namespace ballast::inline v0");
  }
  return found;
}

// The macros that headers define, guards aside.
std::set<std::string> macros_of(std::vector<source_file> const& headers)
{
  std::set<std::string> macros;
  for (source_file const& header : headers) {
    for (std::string const& line : structure::lines_of(header.text)) {
      std::istringstream words(line);
      std::string directive;
      words >> directive;
      if (directive == "#") {
        words >> directive;
        directive.insert(0, "#");
      }
      if (directive != "#define") { continue; }
      std::string name;
      words >> name;
      name = name.substr(0, name.find('('));
      if (name != guard_of(header.path)) { macros.insert(name); }
    }
  }
  return macros;
}

// The standard library's names have neither folder nor extension.
bool host_and_std_suffice(std::string const& name,
                          std::map<std::string, source_file> const& headers)
{
  auto const header = headers.find(name);
  if (header == headers.end()) {
    return name == "tl/expected.hpp" || name.find_first_of("./") == std::string::npos;
  }
  return !name.ends_with(".cuh") &&
         std::ranges::all_of(structure::includes_of(header->second), [&](auto const& inner) {
           return host_and_std_suffice(inner.name, headers);
         });
}

problems of_umbrella(std::vector<source_file> const& headers)
{
  std::string const umbrella = "ballast/ballast.hpp";
  std::map<std::string, source_file> by_name;
  for (source_file const& header : headers) { by_name[header.path] = header; }

  problems found;
  std::set<std::string> included;
  for (auto const& [name, quoted] : structure::includes_of(by_name[umbrella])) {
    included.insert(name);
    if (!by_name.contains(name)) { found.push_back(umbrella + ": includes unknown " + name); }
  }
  for (auto const& [name, header] : by_name) {
    if (name == umbrella) { continue; }
    bool const wanted =
        !name.starts_with("ballast/interop/") && host_and_std_suffice(name, by_name);
    if (wanted && !included.contains(name)) { found.push_back(umbrella + ": lacks " + name); }
    if (!wanted && included.contains(name)) {
      found.push_back(umbrella + ": includes " + name + ", which needs more than std");
    }
  }
  return found;
}

// tests/core/ids_test.cpp for ballast/core/ids.hpp; headers on no floor are tested here, and what only
// a GPU can tell of cuda/x.cuh in gpu/x_test.cu.
problems of_tests(std::vector<source_file> const& headers, std::set<std::string> const& tests)
{
  problems found;
  for (source_file const& header : headers) {
    auto const path = std::filesystem::path(header.path).lexically_relative("ballast");
    auto folder = path.parent_path();
    if (folder.empty()) { folder = "structure"; }
    std::string const stem = (folder / path.stem()).generic_string() + "_test";
    bool const on_device = path.extension() == ".cuh" &&
                           tests.contains("gpu/" + path.stem().generic_string() + "_test.cu");
    if (!tests.contains(stem + ".cpp") && !tests.contains(stem + ".cu") && !on_device) {
      found.push_back(header.path + ": has no tests/" + stem + ".cpp");
    }
  }
  return found;
}

// nvcc sees headers in company only (tests/headers): one that is for nvcc alone must come first in a
// test, so that it is known to stand alone.
problems of_device_tests(std::vector<source_file> const& headers,
                         std::vector<source_file> const& tests)
{
  std::set<std::string> first;
  for (source_file const& test : tests) {
    auto const includes = structure::includes_of(test);
    if (!includes.empty()) { first.insert(includes.front().name); }
  }
  problems found;
  for (source_file const& header : headers) {
    if (header.path.ends_with(".cuh") && !first.contains(header.path)) {
      found.push_back(header.path + ": is what no test includes first");
    }
  }
  return found;
}

TEST(Headers, HaveTheFormOfTheHouse)
{
  for (source_file const& header : structure::public_headers()) {
    EXPECT_THAT(of_form(header), IsEmpty());
  }
}

TEST(Headers, DefineFourMacros)
{
  EXPECT_THAT(macros_of(structure::public_headers()),
              UnorderedElementsAre("BALLAST_VERSION", "BALLAST_EXPECTS", "BALLAST_AUDIT",
                                   "BALLAST_HOST_DEVICE"));
}

TEST(Headers, AreInTheUmbrellaIfTheyNeedOnlyStd)
{
  EXPECT_THAT(of_umbrella(structure::public_headers()), IsEmpty());
}

TEST(Headers, HaveATestEach)
{
  std::set<std::string> tests;
  for (source_file const& test :
       structure::read_tree(structure::root() / "tests", {".cpp", ".cu"})) {
    tests.insert(test.path);
  }
  EXPECT_THAT(of_tests(structure::public_headers(), tests), IsEmpty());
}

TEST(Headers, ThatNeedNvccComeFirstInTheirTests)
{
  EXPECT_THAT(of_device_tests(structure::public_headers(),
                              structure::read_tree(structure::root() / "tests", {".cu"})),
              IsEmpty());
}

// From here on: the checks themselves, on headers that are wrong.

std::string const good_text =
    "// SPDX-License-Identifier: Apache-2.0\n#ifndef BALLAST_CORE_A_HPP\n"
    "#define BALLAST_CORE_A_HPP\n\nnamespace ballast::inline v0 {\n/// One.\n"
    "inline constexpr int one = 1;\n}  // namespace ballast::inline v0\n\n"
    "#endif  // BALLAST_CORE_A_HPP\n";

source_file with(std::string const& from, std::string const& to)
{
  std::string text = good_text;
  text.replace(text.find(from), from.size(), to);
  return {"ballast/core/a.hpp", text};
}

TEST(HeaderForm, AcceptsAHeaderInOrder)
{
  EXPECT_THAT(of_form({"ballast/core/a.hpp", good_text}), IsEmpty());
}

TEST(HeaderForm, AcceptsMacrosWithoutANamespace)
{
  EXPECT_THAT(of_form({"ballast/a.hpp",
                       "// SPDX-License-Identifier: Apache-2.0\n#ifndef BALLAST_A_HPP\n"
                       "#define BALLAST_A_HPP\n/// A.\n#define BALLAST_VERSION \\\n  1\n"
                       "#endif  // BALLAST_A_HPP\n"}),
              IsEmpty());
}

TEST(HeaderForm, ReportsEachFault)
{
  EXPECT_THAT(of_form(with("SPDX", "spdx")), ElementsAre(HasSubstr("licence")));
  EXPECT_THAT(of_form(with("#ifndef BALLAST_CORE_A", "#ifndef CORE_A")),
              ElementsAre(HasSubstr("guarded by BALLAST_CORE_A_HPP")));
  EXPECT_THAT(of_form(with("#endif  // BALLAST_CORE_A_HPP\n", "#endif\n")),
              ElementsAre(HasSubstr("guarded")));
  EXPECT_THAT(of_form(with("/// One.", "// One.")), ElementsAre(HasSubstr("documents nothing")));
  EXPECT_THAT(of_form(with("ballast::inline v0 {", "ballast {")),
              Contains(HasSubstr("instead of ballast::inline v0")));
  EXPECT_THAT(of_form(with("namespace ballast::inline v0 {", "")),
              ElementsAre(HasSubstr("declares names outside")));
  EXPECT_THAT(of_form({"ballast/core/a.hpp", ""}), Contains(HasSubstr("licence")));
}

TEST(HeaderMacros, AreFoundInEverySpelling)
{
  EXPECT_THAT(macros_of({{"ballast/a.hpp", "#define BALLAST_A_HPP\n#define f(x) x\n"},
                         {"ballast/b.hpp", "  #define B\n#  define C 1\n#ifdef D\n"}}),
              UnorderedElementsAre("f", "B", "C"));
}

TEST(Umbrella, ReportsWhatItLacksAndWhatItMustNotHave)
{
  source_file const alone{"ballast/core/a.hpp", "#include <vector>\n"};
  source_file const expected{"ballast/core/e.hpp", "#include <tl/expected.hpp>\n"};
  source_file const device{"ballast/comm/n.hpp", "#include <nccl.h>\n"};
  source_file const above_device{"ballast/comm/m.hpp", "#include <ballast/comm/n.hpp>\n"};
  source_file const kernel{"ballast/cuda/k.cuh", ""};
  source_file const ranges{"ballast/interop/r.hpp", ""};
  auto const check = [&](std::string const& umbrella) {
    return of_umbrella(
        {alone, expected, device, above_device, kernel, ranges, {"ballast/ballast.hpp", umbrella}});
  };
  std::string const complete = "#include <ballast/core/a.hpp>\n#include <ballast/core/e.hpp>\n";

  EXPECT_THAT(check(complete), IsEmpty());
  EXPECT_THAT(check("#include <ballast/core/a.hpp>\n"), ElementsAre(HasSubstr("core/e.hpp")));
  EXPECT_THAT(check(complete + "#include <ballast/core/gone.hpp>\n"),
              ElementsAre(HasSubstr("unknown")));
  for (std::string const name : {"comm/n.hpp", "comm/m.hpp", "cuda/k.cuh", "interop/r.hpp"}) {
    EXPECT_THAT(check(complete + "#include <ballast/" + name + ">\n"),
                ElementsAre(HasSubstr(name + ", which needs more than std")));
  }
}

TEST(HeaderTests, AreMissedByName)
{
  std::vector<source_file> const headers = {
      {"ballast/core/a.hpp", ""}, {"ballast/cuda/b.cuh", ""}, {"ballast/version.hpp", ""}};
  EXPECT_THAT(
      of_tests(headers, {"core/a_test.cpp", "cuda/b_test.cu", "structure/version_test.cpp"}),
      IsEmpty());
  EXPECT_THAT(of_tests(headers, {"core/b_test.cpp", "a_test.cpp"}),
              ElementsAre(HasSubstr("tests/core/a_test.cpp"), HasSubstr("tests/cuda/b_test.cpp"),
                          HasSubstr("tests/structure/version_test.cpp")));
}

TEST(HeaderTests, OfWhatRunsOnADeviceMayBeThere)
{
  std::vector<source_file> const headers = {{"ballast/cuda/a.cuh", ""}, {"ballast/cuda/b.hpp", ""}};
  EXPECT_THAT(of_tests(headers, {"gpu/a_test.cu", "gpu/b_test.cu"}),
              ElementsAre(HasSubstr("tests/cuda/b_test.cpp")));
}

TEST(DeviceHeaderTests, BeginWithTheHeader)
{
  std::vector<source_file> const headers = {{"ballast/cuda/a.cuh", ""}, {"ballast/cuda/b.hpp", ""}};
  std::string const own = "#include <ballast/cuda/a.cuh>\n";
  EXPECT_THAT(of_device_tests(headers, {{"gpu/a_test.cu", own + "#include <vector>\n"}}),
              IsEmpty());
  EXPECT_THAT(of_device_tests(headers, {{"gpu/a_test.cu", "#include <vector>\n" + own}}),
              ElementsAre(HasSubstr("ballast/cuda/a.cuh")));
  EXPECT_THAT(of_device_tests(headers, {{"gpu/a_test.cu", ""}}), SizeIs(1));
}

}  // namespace
