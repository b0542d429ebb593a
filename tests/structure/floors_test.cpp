// SPDX-License-Identifier: Apache-2.0
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace {

using structure::problems;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// From the top of the house down: a floor stands on those before it.
constexpr auto floors = std::to_array<std::string_view>(
    {"version.hpp", "core", "workload", "cost", "topology", "partition", "pipeline", "parallelism",
     "comm", "route", "cuda", "runtime", "report", "interop", "ballast.hpp"});

// "ballast/core/ids.hpp" is on "core", "ballast/version.hpp" on its own.
std::string_view floor_name(std::string_view path)
{
  path.remove_prefix(std::string_view("ballast/").size());
  return path.substr(0, path.find('/'));
}

auto floor_of(std::string_view path)
{
  return std::ranges::find(floors, floor_name(path));
}

problems upward_includes(source_file const& header)
{
  problems found;
  auto const own = floor_of(header.path);
  if (own == floors.end()) { found.push_back(header.path + ": is on no known floor"); }
  for (auto const& [name, quoted] : structure::includes_of(header)) {
    if (quoted) {
      found.push_back(header.path + ": includes \"" + name + "\"; write <ballast/...>");
    } else if (name.starts_with("ballast/") && floor_of(name) > own) {
      found.push_back(header.path + ": includes <" + name + ">, which is on a lower floor");
    }
  }
  return found;
}

TEST(Floors, IncludesGoDownTheHouseOnly)
{
  auto const headers = structure::public_headers();
  ASSERT_THAT(headers, testing::Not(IsEmpty()));
  for (source_file const& header : headers) { EXPECT_THAT(upward_includes(header), IsEmpty()); }
}

TEST(Floors, ReportAnIncludeThatRunsTheOtherWay)
{
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", "#include <ballast/cost/b.hpp>\n"}),
              ElementsAre(HasSubstr("<ballast/cost/b.hpp>, which is on a lower floor")));
  EXPECT_THAT(upward_includes({"ballast/core/a.hpp", "#include <ballast/ballast.hpp>\n"}),
              ElementsAre(HasSubstr("lower floor")));
}

TEST(Floors, ReportAnUnknownFloorOnEitherSide)
{
  EXPECT_THAT(upward_includes({"ballast/attic/a.hpp", ""}), ElementsAre(HasSubstr("no known")));
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
  EXPECT_THAT(upward_includes({"ballast/cost/a.hpp",
                               "#include <ballast/version.hpp>\n#include <ballast/core/b.hpp>\n"
                               "#include <ballast/cost/c.hpp>\n#include <vector>\n"}),
              IsEmpty());
}

}  // namespace
