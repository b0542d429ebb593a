// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "libraries.hpp"
#include "source_tree.hpp"

namespace {

using structure::floor_name;
using structure::includes_of;
using structure::is_header;
using structure::is_internal;
using structure::is_umbrella;
using structure::problems;
using structure::source_file;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Umbrellas include each door of their floor that needs neither nvcc nor CUDA, NCCL or MPI, and
// nothing else; ballast.hpp includes doors that need only std. Core's also has what its doors lend of
// std, since every header includes it. They export what they include, so
// that tools take them for it. Internals are another rule's.
problems wrong_umbrellas(std::vector<source_file> const& tree)
{
  constexpr auto bare = std::to_array<std::string_view>({"version.hpp", "gpu", "cuda", "interop"});
  structure::needs need(tree);
  std::map<std::string, std::set<std::string>> doors;  // by umbrella
  std::set<std::string> headers;
  for (source_file const& file : tree) {
    if (!is_header(file.path)) { continue; }
    headers.insert(file.path);
    bool const is_door = !is_internal(file.path) && !is_umbrella(file.path) &&
                         !std::ranges::count(bare, floor_name(file.path));
    if (is_door && !need.a_device_library(file.path)) {
      doors["ballast/" + std::string(floor_name(file.path)) + ".hpp"].insert(file.path);
    }
  }

  problems found;
  for (source_file const& file : tree) {
    if (!is_umbrella(file.path)) { continue; }
    auto const report = [&](std::string const& what) { found.push_back(file.path + ": " + what); };
    bool const main = file.path == "ballast/ballast.hpp";
    auto const wanted = doors.extract(file.path);
    if (!main && !wanted) { report("is of a floor without an umbrella"); }
    std::size_t const first = file.text.find("// IWYU pragma: begin_exports\n#include ");
    std::size_t const last = file.text.find("\n// IWYU pragma: end_exports\n");
    if (first > file.text.find("#include ") || last == file.text.npos ||
        file.text.find("#include ", last) != file.text.npos) {
      report("does not export what it includes");
    }
    std::set<std::string> lacking = wanted ? wanted.mapped() : std::set<std::string>();
    for (auto const& [name, quoted] : includes_of(file)) {
      if (structure::is_prelude(file.path) && !is_header(name)) { continue; }
      if (!headers.contains(name)) {
        report("includes unknown " + name);
      } else if (main && need.more_than_std(name)) {
        report("includes " + name + ", which needs more than std");
      } else if (wanted && !wanted.mapped().contains(name) && !is_internal(name)) {
        report("includes " + name + ", which is no door of its floor that all can include");
      }
      lacking.erase(name);
    }
    for (std::string const& door : lacking) { report("lacks " + door); }
  }
  for (auto const& [umbrella, unused] : doors) { found.push_back(umbrella + ": is not there"); }
  return found;
}

TEST(Umbrellas, IncludeTheDoorsOfTheirFloors)
{
  EXPECT_THAT(wrong_umbrellas(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on umbrellas that are wrong.

std::string exported(std::string const& includes)
{
  return "// IWYU pragma: begin_exports\n" + includes + "// IWYU pragma: end_exports\n";
}

problems of_umbrellas(std::string const& core, std::string const& comm, std::string const& main)
{
  return wrong_umbrellas({{"ballast/ballast.hpp", exported(main)},
                          {"ballast/comm.hpp", exported(comm)},
                          {"ballast/comm/m.hpp", "#include <ballast/comm/n.hpp>\n"},
                          {"ballast/comm/n.hpp", "#include <mpi.h>\n"},
                          {"ballast/comm/t.hpp", "#include <boost/any.hpp>\n"},
                          {"ballast/core.hpp", exported(core)},
                          {"ballast/core/a.hpp", "#include <vector>\n"},
                          {"ballast/core/detail/d.hpp", ""},
                          {"ballast/core/sub/e.hpp", "#include <tl/expected.hpp>\n"},
                          {"ballast/cuda/k.cuh", ""},
                          {"ballast/interop/r.hpp", ""},
                          {"ballast/version.hpp", ""}});
}

std::string const core = "#include <ballast/core/a.hpp>\n#include <ballast/core/sub/e.hpp>\n";
std::string const comm = "#include <ballast/comm/t.hpp>\n";

TEST(Umbrella, ReportsWhatItLacksAndWhatItMustNotHave)
{
  auto const check = [](std::string const& main) { return of_umbrellas(core, comm, main); };
  EXPECT_THAT(check(core + "#include <ballast/version.hpp>\n"), IsEmpty());
  EXPECT_THAT(check("#include <ballast/version.hpp>\n"),
              IsEmpty());  // of the main path, not of all doors
  EXPECT_THAT(check("#include <ballast/core/gone.hpp>\n"), ElementsAre(HasSubstr("unknown")));
  for (std::string const name : {"comm/n.hpp", "comm/m.hpp", "comm/t.hpp", "cuda/k.cuh"}) {
    EXPECT_THAT(check("#include <ballast/" + name + ">\n"),
                ElementsAre(HasSubstr(name + ", which needs more than std")));
  }
}

TEST(Umbrella, OfAFloorHasItsDoorsAndNoOthers)
{
  EXPECT_THAT(of_umbrellas("#include <ballast/core/a.hpp>\n", comm, ""),
              ElementsAre("ballast/core.hpp: lacks ballast/core/sub/e.hpp"));
  EXPECT_THAT(of_umbrellas(core, "", ""), ElementsAre(HasSubstr("lacks ballast/comm/t.hpp")));
  for (std::string const name : {"core/a.hpp", "comm/m.hpp", "version.hpp"}) {
    EXPECT_THAT(of_umbrellas(core, comm + "#include <ballast/" + name + ">\n", ""),
                ElementsAre(HasSubstr(name + ", which is no door of its floor")));
  }
}

TEST(Umbrella, IsThereWhereItsFloorHasDoorsThatAllCanInclude)
{
  EXPECT_THAT(
      wrong_umbrellas({{"ballast/core/a.hpp", ""}, {"ballast/comm/n.hpp", "#include <mpi.h>\n"}}),
      ElementsAre("ballast/core.hpp: is not there"));
  EXPECT_THAT(wrong_umbrellas({{"ballast/gpu.hpp", ""}, {"ballast/gpu/a.hpp", ""}}),
              Contains("ballast/gpu.hpp: is of a floor without an umbrella"));
}

TEST(Umbrella, ExportsWhatItIncludes)
{
  auto const of = [](std::string const& text) {
    return wrong_umbrellas({{"ballast/core/a.hpp", ""}, {"ballast/core.hpp", text}});
  };
  std::string const include = "#include <ballast/core/a.hpp>\n";
  EXPECT_THAT(of(exported(include)), IsEmpty());
  for (std::string const& text :
       {include, include + exported(include), exported(include) + include}) {
    EXPECT_THAT(of(text), ElementsAre("ballast/core.hpp: does not export what it includes"));
  }
}

}  // namespace
