// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "source_tree.hpp"

namespace {

using structure::includes_of;
using structure::is_header;
using structure::is_internal;
using structure::is_umbrella;
using structure::lines_of;
using structure::problems;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Rule 1: a header lies under detail/ exactly when all of its names are in ballast::detail; macros
// are public. Namespaces open at the beginning of a line, which clang-format sees to.
problems misplaced_headers(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& file : tree) {
    if (!is_header(file.path) || is_umbrella(file.path)) { continue; }
    bool is_public = !structure::macros_defined_by(file).empty();
    for (std::string const& line : lines_of(file.text)) {
      is_public = is_public || (line.starts_with("namespace ballast") &&
                                line.find("::detail") == std::string::npos);
    }
    if (is_internal(file.path) && is_public) {
      found.push_back(file.path + ": lies under detail/ and has public names");
    }
    if (!is_internal(file.path) && !is_public) {
      found.push_back(file.path + ": has no public name and does not lie under detail/");
    }
  }
  return found;
}

// Rule 2: internals are for the library, its tests and its benchmarks alone. Others name neither
// their headers nor their namespace, and no umbrella includes them.
problems leaked_internals(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& file : tree) {
    auto const report = [&](std::string const& what) { found.push_back(file.path + ": " + what); };
    if (is_header(file.path)) {
      if (!is_umbrella(file.path)) { continue; }
      for (auto const& [name, quoted] : includes_of(file)) {
        if (is_internal(name)) { report("includes " + name + ", which is an internal"); }
      }
      continue;
    }
    std::string_view const text = file.text;
    constexpr std::string_view folder = "detail/";
    for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder, at + 1)) {
      std::string_view name = text.substr(at, text.find_first_of(" `\">),\n", at) - at);
      bool const is_file = name.find(".hpp") != name.npos || name.find(".cuh") != name.npos;
      if (is_file) { report("names the internal header " + std::string(name)); }
    }
    // Examples may have a namespace detail of their own.
    if (text.find("ballast::detail") != text.npos || text.find("v0::detail") != text.npos ||
        (file.path.ends_with(".md") && text.find("`detail::") != text.npos)) {
      report("names ballast::detail");
    }
  }
  return found;
}

constexpr std::size_t most_headers = 30;
constexpr std::size_t most_lines = 300;

// Rule 3: no folder holds more headers than one looks through, and no header more lines.
problems crowded_rooms(std::vector<source_file> const& tree)
{
  problems found;
  auto const report = [&](std::string const& path, std::size_t count, std::string const& what,
                          std::size_t most) {
    if (count > most) {
      found.push_back(path + ": holds " + std::to_string(count) + " " + what + ", more than " +
                      std::to_string(most));
    }
  };
  std::map<std::string, std::size_t> headers;
  for (source_file const& file : tree) {
    if (!is_header(file.path)) { continue; }
    report(file.path, lines_of(file.text).size(), "lines", most_lines);
    ++headers[file.path.substr(0, file.path.rfind('/'))];
  }
  for (auto const& [folder, count] : headers) { report(folder, count, "headers", most_headers); }
  return found;
}

TEST(Rooms, HoldDoorsAtTheTopAndInternalsUnderDetail)
{
  EXPECT_THAT(misplaced_headers(structure::public_headers()), IsEmpty());
}

TEST(Rooms, KeepTheirInternals)
{
  EXPECT_THAT(leaked_internals(structure::whole_tree()), IsEmpty());
}

TEST(Rooms, HoldNoCrowd)
{
  EXPECT_THAT(crowded_rooms(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on trees that are wrong.

TEST(MisplacedHeaders, AreInternalsWithAPublicNameAndDoorsWithoutOne)
{
  std::string const internal = "namespace ballast::inline v0::detail {\n";
  std::string const open = "namespace ballast::inline v0 {\n";
  std::string const macro = "#define BALLAST_A 1\n";
  auto const of = [](std::string const& path, std::string const& text) {
    return misplaced_headers({{"ballast/" + path, text}});
  };
  EXPECT_THAT(of("core/detail/a.hpp", internal), IsEmpty());
  EXPECT_THAT(of("core/a.hpp", internal + open), IsEmpty());
  EXPECT_THAT(of("core/a.hpp", macro), IsEmpty());
  EXPECT_THAT(of("core.hpp", ""), IsEmpty());
  EXPECT_THAT(of("core/detail/a.hpp", internal + open), ElementsAre(HasSubstr("public names")));
  EXPECT_THAT(of("core/detail/a.hpp", macro), ElementsAre(HasSubstr("public names")));
  EXPECT_THAT(of("core/a.hpp", internal), ElementsAre(HasSubstr("has no public name")));
}

TEST(LeakedInternals, AreFoundInAllThatIsNotTheLibrary)
{
  auto const with = [](std::string const& path, std::string const& text) {
    return leaked_internals(
        {{"ballast/core/a.hpp", "#include <ballast/core/detail/sort.hpp>\n"}, {path, text}});
  };
  EXPECT_THAT(with("docs/a.md", "See `core/detail/sort.hpp`."),
              ElementsAre("docs/a.md: names the internal header detail/sort.hpp"));
  EXPECT_THAT(with("docs/a.md", "`detail::sorter` sorts."), ElementsAre(HasSubstr("detail")));
  EXPECT_THAT(with("examples/a.cpp", "using ballast::detail::sorter;"),
              ElementsAre("examples/a.cpp: names ballast::detail"));
  EXPECT_THAT(with("ballast/core.hpp", "#include <ballast/core/detail/sort.hpp>\n"),
              ElementsAre(HasSubstr("ballast/core.hpp: includes")));
  EXPECT_THAT(with("examples/a.cpp", "detail::mine(); // in detail, tests/detail/a_test.cpp"),
              IsEmpty());
}

TEST(CrowdedRooms, AreCountedWithoutTheirSubfolders)
{
  std::vector<source_file> tree;
  for (std::size_t i = 0; i < most_headers; ++i) {
    tree.push_back({"ballast/core/a" + std::to_string(i) + ".hpp", ""});
    tree.push_back({"docs/a" + std::to_string(i) + ".md", ""});
  }
  tree.push_back({"ballast/core/detail/a.hpp", std::string(most_lines, '\n')});
  tree.push_back({"docs/a.md", std::string(most_lines + 1, '\n')});
  EXPECT_THAT(crowded_rooms(tree), IsEmpty());
  tree.push_back({"ballast/core/a.hpp", std::string(most_lines + 1, '\n')});
  EXPECT_THAT(crowded_rooms(tree), ElementsAre("ballast/core/a.hpp: holds 301 lines, more than 300",
                                               "ballast/core: holds 31 headers, more than 30"));
}

}  // namespace
