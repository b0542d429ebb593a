// SPDX-License-Identifier: Apache-2.0
#include "floors.hpp"
#include "../support/test.hpp"
#include "source_tree.hpp"

namespace {

using structure::borrowed_internals;
using structure::source_file;
using structure::upward_includes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(Floors, IncludesGoDownTheHouseOnly)
{
  auto const headers = structure::public_headers();
  ASSERT_THAT(headers, testing::Not(IsEmpty()));
  for (source_file const& header : headers) { EXPECT_THAT(upward_includes(header), IsEmpty()); }
}

TEST(Floors, UseNoInternalsOfOthers)
{
  auto const headers = structure::public_headers();
  auto users = headers;
  for (source_file& test :
       structure::read_tree(structure::root() / "tests", {".cpp", ".hpp", ".cu"})) {
    std::string const folder = test.path.substr(0, test.path.find('/'));
    // What several floors share, and what measures or breaks what lies inside.
    constexpr auto of_no_floor =
        std::to_array<std::string_view>({"support", "soak", "structure", "determinism", "fuzz",
                                         "compile_fail", "headers", "mistakes", "world"});
    if (!std::ranges::count(of_no_floor, folder)) { users.push_back(std::move(test)); }
  }
  for (source_file& example :
       structure::read_tree(structure::root() / "examples", {".cpp", ".hpp", ".cu", ".cuh"})) {
    users.push_back({"examples/" + example.path, std::move(example.text)});
  }
  EXPECT_THAT(borrowed_internals(headers, users), IsEmpty());
}

// From here on: the checks themselves, on headers that are wrong.

TEST(Floors, ReportAnIncludeThatRunsTheOtherWay)
{
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", "#include <ballast/cost/b.hpp>\n"}),
              ElementsAre(HasSubstr("<ballast/cost/b.hpp>, which is on a lower floor")));
  EXPECT_THAT(upward_includes({"ballast/report/a.hpp", "#include <ballast/interop/b.hpp>\n"}),
              ElementsAre(HasSubstr("lower floor")));
}

TEST(Floors, ReportAnUmbrellaWhoeverIncludesIt)
{
  for (std::string const header : {"core/a.hpp", "interop/a.hpp", "cost.hpp"}) {
    for (std::string const umbrella : {"topology.hpp", "ballast.hpp"}) {
      EXPECT_THAT(
          upward_includes({"ballast/" + header, "#include <ballast/" + umbrella + ">\n"}),
          ElementsAre(HasSubstr("<ballast/" + umbrella + ">, an umbrella on a lower floor")));
    }
  }
}

TEST(Floors, AllIncludeThePreludeButCoreItself)
{
  std::string const prelude = "#include <ballast/core.hpp>\n";
  EXPECT_THAT(upward_includes({"ballast/text/a.hpp", prelude}), IsEmpty());
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", prelude}), ElementsAre(HasSubstr("umbrella")));
}

TEST(Floors, ReportAnUnknownFloorOnEitherSide)
{
  EXPECT_THAT(upward_includes({"ballast/attic/a.hpp", ""}), ElementsAre(HasSubstr("no known")));
  EXPECT_THAT(upward_includes({"ballast/attic.hpp", ""}), ElementsAre(HasSubstr("no known")));
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", "#include <ballast/attic/b.hpp>\n"}),
              ElementsAre(HasSubstr("lower floor")));
}

TEST(Floors, ReportAnIncludeByRelativePath)
{
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", "#include \"b.hpp\"\n"}),
              ElementsAre(HasSubstr("write <ballast/...>")));
}

TEST(Floors, AllowTheSameFloorAndThoseAbove)
{
  EXPECT_THAT(upward_includes({"ballast/cost.hpp", "#include <ballast/cost/a.hpp>\n"}), IsEmpty());
  EXPECT_THAT(upward_includes({"ballast/cost/a.hpp",
                               "#include <ballast/version.hpp>\n#include <ballast/core/b.hpp>\n"
                               "#include <ballast/cost/c.hpp>\n#include <vector>\n"}),
              IsEmpty());
}

TEST(Floors, ReportTheInternalsOfAnother)
{
  std::vector<source_file> const headers = {
      {"ballast/comm/a.hpp",
       "namespace ballast::inline v0 {\nnamespace detail {\nstruct roll {\n};\n}  // namespace "
       "detail\nstruct door {\n};\n"},
      {"ballast/core/b.hpp", "namespace ballast::inline v0::detail {\nint lent(int x)\n"}};
  auto const by = [&](std::string const& path, std::string const& text) {
    return borrowed_internals(headers, {{path, text}});
  };
  EXPECT_THAT(by("ballast/gpu/a.hpp", "detail::roll r;"),
              ElementsAre("ballast/gpu/a.hpp: names detail::roll of floor comm"));
  EXPECT_THAT(by("examples/a.cpp", "ballast::detail::roll r;"), SizeIs(1));
  EXPECT_THAT(by("gpu/a_test.cpp", "ballast::detail::roll r;"), SizeIs(1));
  for (std::string const path : {"comm/a_test.cpp", "mpi/a_test.cpp", "ballast/comm/c.hpp"}) {
    EXPECT_THAT(by(path, "detail::roll r;"), IsEmpty());
  }
  EXPECT_THAT(
      by("ballast/gpu/a.hpp", "detail::lent(door); // detail::roll\nauto t = \"detail::roll\";"),
      IsEmpty());
}

}  // namespace
