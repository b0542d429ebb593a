// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "source_tree.hpp"

namespace {

using structure::problems;
using structure::source_file;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Headers without a header of ballast. All others come to core/contract.hpp, which refuses old
// standards, before they come to code.
problems without_the_check_of_the_standard(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& header : tree) {
    bool const first = header.path == "ballast/core/contract.hpp" ||
                       header.path == "ballast/version.hpp";  // read by the build too
    if (!first && header.text.find("\n#include <ballast/") == std::string::npos) {
      found.push_back(header.path + ": must include <ballast/core.hpp>");
    }
  }
  return found;
}

TEST(Headers, CheckTheStandardBeforeTheyUseIt)
{
  EXPECT_THAT(without_the_check_of_the_standard(structure::public_headers()), IsEmpty());
  EXPECT_THAT(without_the_check_of_the_standard({{"ballast/a.hpp", "#include <vector>\n"}}),
              ElementsAre("ballast/a.hpp: must include <ballast/core.hpp>"));
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

constexpr auto letters = "abcdefghijklmnopqrstuvwxyz_";

problems of_form(source_file const& header)
{
  problems found;
  auto const report = [&](std::string const& what) { found.push_back(header.path + ": " + what); };
  auto const lines = structure::lines_of(header.text);
  auto const at = [&](std::size_t line) { return line < lines.size() ? lines[line] : ""; };

  if (at(0) != "// SPDX-License-Identifier: Apache-2.0") { report("line 1 must be the licence"); }
  if (at(1) != "#pragma once") { report("line 2 must be #pragma once"); }
  if (header.text.find("///") == std::string::npos) { report("documents nothing with ///"); }

  bool versioned = false;  // other namespaces nest in the versioned one
  for (std::string const& line : lines) {
    std::string first_word;
    std::istringstream(line) >> first_word;
    first_word.resize(std::min(first_word.size(), first_word.find_first_not_of(letters)));
    if (first_word == "module" || first_word == "import" || first_word == "export") {
      report("nvcc takes '" + line + "' for a directive; let the line begin with another word");
    }
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

// The macros that headers define.
std::set<std::string> macros_of(std::vector<source_file> const& headers)
{
  std::set<std::string> macros;
  for (source_file const& header : headers) {
    auto const own = structure::macros_defined_by(header);
    macros.insert(own.begin(), own.end());
  }
  return macros;
}

TEST(Headers, HaveTheFormOfTheHouse)
{
  for (source_file const& header : structure::public_headers()) {
    EXPECT_THAT(of_form(header), IsEmpty());
  }
}

TEST(Headers, DefineFiveMacros)
{
  EXPECT_THAT(macros_of(structure::public_headers()),
              UnorderedElementsAre("BALLAST_VERSION", "BALLAST_EXPECTS", "BALLAST_AUDIT",
                                   "BALLAST_HOST_DEVICE", "BALLAST_ONCE"));
}

// From here on: the checks themselves, on headers that are wrong.

std::string const good_text =
    "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n\nnamespace ballast::inline v0 {\n/// "
    "One.\ninline constexpr int one = 1;\n}  // namespace ballast::inline v0\n";

source_file good_header_with(std::string const& from, std::string const& to)
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
                       "// SPDX-License-Identifier: Apache-2.0\n#pragma once\n/// A.\n"
                       "#define BALLAST_VERSION \\\n  1\n"}),
              IsEmpty());
}

TEST(HeaderForm, AcceptsNamespacesInTheVersionedOne)
{
  for (std::string const inner : {"report", "detail", "literals"}) {
    EXPECT_THAT(of_form(good_header_with("inline v0 {", "inline v0::" + inner + " {")), IsEmpty());
  }
}

TEST(HeaderForm, ReportsEachFault)
{
  EXPECT_THAT(of_form(good_header_with("SPDX", "spdx")), ElementsAre(HasSubstr("licence")));
  EXPECT_THAT(of_form(good_header_with("#pragma once", "#ifndef A")),
              ElementsAre(HasSubstr("#pragma once")));
  EXPECT_THAT(of_form(good_header_with("/// One.", "// One.")),
              ElementsAre(HasSubstr("documents nothing")));
  EXPECT_THAT(of_form(good_header_with("ballast::inline v0 {", "ballast {")),
              Contains(HasSubstr("instead of ballast::inline v0")));
  EXPECT_THAT(of_form(good_header_with("namespace ballast::inline v0 {", "")),
              ElementsAre(HasSubstr("declares names outside")));
  EXPECT_THAT(of_form(good_header_with("one = 1;", "one = 1 +\n    module.layers;")),
              ElementsAre(HasSubstr("nvcc takes '    module.layers;' for a directive")));
  EXPECT_THAT(of_form({"ballast/core/a.hpp", ""}), Contains(HasSubstr("licence")));
}

TEST(HeaderMacros, AreFoundInEverySpelling)
{
  EXPECT_THAT(macros_of({{"ballast/a.hpp", "#define f(x) x\n"},
                         {"ballast/b.hpp", "  #define B\n#  define C 1\n#ifdef D\n"}}),
              UnorderedElementsAre("f", "B", "C"));
}

}  // namespace
