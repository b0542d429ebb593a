// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "source_tree.hpp"

namespace {

using structure::borrowed_internals;
using structure::source_file;
using structure::upward_includes;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Floors, IncludesGoDownTheHouseOnly)
{
  auto const headers = structure::public_headers();
  ASSERT_THAT(headers, testing::Not(IsEmpty()));
  for (source_file const& header : headers) { EXPECT_THAT(upward_includes(header), IsEmpty()); }
}

TEST(Floors, IncludeNoInternalsOfOthers)
{
  for (source_file const& header : structure::public_headers()) {
    EXPECT_THAT(borrowed_internals(header), IsEmpty());
  }
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
    for (std::string const umbrella : {"core.hpp", "ballast.hpp"}) {
      EXPECT_THAT(
          upward_includes({"ballast/" + header, "#include <ballast/" + umbrella + ">\n"}),
          ElementsAre(HasSubstr("<ballast/" + umbrella + ">, an umbrella on a lower floor")));
    }
  }
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
  EXPECT_THAT(
      borrowed_internals({"ballast/gpu/a.hpp", "#include <ballast/comm/detail/b.hpp>\n"}),
      ElementsAre("ballast/gpu/a.hpp: includes <ballast/comm/detail/b.hpp>, an internal of another "
                  "floor"));
  EXPECT_THAT(borrowed_internals({"ballast/gpu/a.hpp",
                                  "#include <ballast/core/detail/b.hpp>\n"
                                  "#include <ballast/text/detail/c.hpp>\n"
                                  "#include <ballast/gpu/detail/d.hpp>\n"
                                  "#include <ballast/comm/e.hpp>\n"}),
              IsEmpty());
}

}  // namespace
