// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "names.hpp"
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
using testing::SizeIs;

// Whether a header defines what a public one declares, which includes it where BALLAST_COMPILED does not
// bring that.
bool is_definition(source_file const& internal, std::vector<source_file> const& headers)
{
  std::string_view const path = internal.path;
  std::string const included = "#ifndef BALLAST_COMPILED\n#include <" +
                               std::string(path.substr(path.find("ballast/"))) + ">\n#endif";
  return std::ranges::any_of(headers, [&](source_file const& header) {
    return !is_internal(header.path) && header.text.find(included) != header.text.npos;
  });
}

// Rule 1: a header lies under detail/ exactly when all of its names are in ballast::detail, or are
// declared by the public header that it defines them for; macros are public.
problems misplaced_headers(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& file : tree) {
    if (!is_header(file.path) || is_umbrella(file.path)) { continue; }
    auto const own = structure::declarations_of(file);
    bool const is_public =
        !structure::macros_defined_by(file).empty() ||
        std::ranges::any_of(own, [](auto const& each) { return !each.internal; });
    if (is_internal(file.path) && is_public && !is_definition(file, tree)) {
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

// Rule 3: an internal header has several users, or it and its user together are longer than a room,
// or a public header includes it only where BALLAST_COMPILED does not bring what it defines. Who names
// one of its names uses it.
constexpr std::size_t longest_room = 700;

problems lonely_internals(std::vector<source_file> const& headers)
{
  std::map<std::string, std::set<source_file const*>> users;  // of a floor, by "floor:word"
  auto const key = [](source_file const& header, std::string const& name) {
    return std::string(structure::floor_name(header.path)) + ":" + name;
  };
  for (source_file const& header : headers) {
    for (std::string const& word : structure::words_of(header)) {
      users[key(header, word)].insert(&header);
    }
  }
  problems found;
  for (source_file const& header : headers) {
    bool const is_compiled_apart = header.path.find("/compiled_") != header.path.npos ||
                                   is_definition(header, headers) ||
                                   header.path.ends_with(".cuh");  // tests on the host replace it
    if (!is_internal(header.path) || is_compiled_apart ||
        structure::lends_internals(structure::floor_name(header.path))) {
      continue;
    }
    std::set<source_file const*> own;
    for (auto const& each : structure::declarations_of(header)) {
      own.insert(users[key(header, each.name)].begin(), users[key(header, each.name)].end());
    }
    own.erase(&header);
    if (own.size() > 1) { continue; }
    std::size_t lines = lines_of(header.text).size();
    bool host_part = false;  // of kernels: the host can test it
    for (source_file const* const user : own) {
      lines += lines_of(user->text).size();
      host_part = user->path.ends_with(".cuh") && header.path.ends_with(".hpp");
    }
    if (own.empty() || (lines <= longest_room && !host_part)) {
      found.push_back(header.path + ": is used by " +
                      (own.empty() ? "nobody" : (*own.begin())->path + " alone"));
    }
  }
  return found;
}

struct budget {
  std::size_t lines;
  std::size_t names;  ///< public ones
};

// Rule 7: what each floor may hold. A change that needs more says in its message what it replaces,
// and changes the number here.
std::map<std::string, budget> const budgets = {
    {"core", {2051, 40}},     {"text", {976, 9}},       {"workload", {717, 19}},
    {"cost", {3591, 47}},     {"topology", {1314, 19}}, {"partition", {19343, 59}},
    {"sharding", {4159, 20}}, {"pipeline", {7302, 57}}, {"parallelism", {10552, 51}},
    {"comm", {3446, 30}},     {"gpu", {2997, 17}},      {"route", {4989, 50}},
    {"cuda", {3483, 31}},     {"runtime", {11019, 67}}, {"report", {1098, 15}},
    {"interop", {432, 4}},    {"umbrellas", {267, 0}},  {"version.hpp", {9, 0}}};

std::map<std::string, budget> sizes_of(std::vector<source_file> const& headers)
{
  std::map<std::string, budget> sizes;
  std::map<std::string, std::set<std::string>> names;
  for (source_file const& header : headers) {
    std::string const floor(is_umbrella(header.path) ? "umbrellas"
                                                     : structure::floor_name(header.path));
    sizes[floor].lines += lines_of(header.text).size();
    if (is_internal(header.path)) { continue; }
    source_file declared = header;  // without the definitions at its end
    declared.text = header.text.substr(0, header.text.find("\n#ifndef BALLAST_COMPILED\n"));
    for (auto const& [name, internal] : structure::declarations_of(declared)) {
      if (!internal) { names[floor].insert(name); }
    }
  }
  for (auto const& [floor, own] : names) { sizes[floor].names = own.size(); }
  return sizes;
}

problems over_budget(std::vector<source_file> const& headers,
                     std::map<std::string, budget> const& allowed)
{
  problems found;
  for (auto const& [floor, size] : sizes_of(headers)) {
    auto const most = allowed.find(floor);
    budget const limit = most == allowed.end() ? budget{0, 0} : most->second;
    if (size.lines > limit.lines) {
      found.push_back(floor + ": has " + std::to_string(size.lines) + " lines, more than " +
                      std::to_string(limit.lines));
    }
    if (size.names > limit.names) {
      found.push_back(floor + ": has " + std::to_string(size.names) + " public names, more than " +
                      std::to_string(limit.names));
    }
  }
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

TEST(Rooms, HoldInternalsOfOneUserThemselves)
{
  EXPECT_THAT(lonely_internals(structure::public_headers()), IsEmpty());
}

TEST(Floors, KeepToTheirBudgets)
{
  EXPECT_THAT(over_budget(structure::public_headers(), budgets), IsEmpty());
}

// From here on: the checks themselves, on trees that are wrong.

TEST(MisplacedHeaders, AreInternalsWithAPublicNameAndDoorsWithoutOne)
{
  std::string const internal =
      "namespace ballast::inline v0::detail {\nstruct a {\n};\n}  // namespace "
      "ballast::inline v0::detail\n";
  std::string const open = "namespace ballast::inline v0 {\nstruct b {\n};\n";
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

source_file of_one(std::string const& path, std::string const& name, std::size_t lines = 0)
{
  return {path, "namespace ballast::inline v0::detail {\nstruct " + name + " {\n};\n" +
                    std::string(lines, '\n')};
}

TEST(LonelyInternals, AreThoseOfOneUserWithinARoom)
{
  source_file const inner = of_one("ballast/cost/detail/a.hpp", "a");
  source_file const user = {"ballast/cost/b.hpp", "detail::a x;\n"};
  EXPECT_THAT(lonely_internals({inner}), ElementsAre(HasSubstr("used by nobody")));
  EXPECT_THAT(lonely_internals({inner, user}), ElementsAre(HasSubstr("ballast/cost/b.hpp alone")));
  EXPECT_THAT(lonely_internals({inner, user, {"ballast/cost/c.hpp", "a y;\n"}}), IsEmpty());
  EXPECT_THAT(lonely_internals({of_one("ballast/cost/detail/a.hpp", "a", longest_room), user}),
              IsEmpty());
  EXPECT_THAT(lonely_internals({of_one("ballast/core/detail/a.hpp", "a"), user}), IsEmpty());
}

TEST(Budgets, CountLinesAndPublicNames)
{
  std::vector<source_file> const tree = {{"ballast/cost/a.hpp", "struct a {\n};\nint f(int x);\n"},
                                         {"ballast/cost.hpp", "\n"}};
  auto const with = [&](budget cost) {
    return over_budget(tree, {{"cost", cost}, {"umbrellas", {267, 0}}});
  };
  EXPECT_THAT(with({3, 2}), IsEmpty());
  EXPECT_THAT(with({2, 1}), ElementsAre("cost: has 3 lines, more than 2",
                                        "cost: has 2 public names, more than 1"));
  EXPECT_THAT(over_budget(tree, {}), SizeIs(3));
}

}  // namespace
