// SPDX-License-Identifier: Apache-2.0
#include "own_includes.hpp"
#include "sample_code.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using structure::in;
using structure::source_file;
using structure::unclean_includes;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(OwnIncludes, AreWhatHeadersUse)
{
  EXPECT_THAT(unclean_includes(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on headers that are wrong.

structure::problems of_header(std::string const& text)
{
  std::vector<source_file> const tree = {
      {"ballast/core.hpp", "#include <ballast/core/a.hpp>\n"},
      {"ballast/core/a.hpp", in("", "struct a;\nint name_of(a const&);\nstruct a {};")},
      {"ballast/core/b.hpp",
       "#include <ballast/core/a.hpp>\n#define BALLAST_B 1\n" + in("", "int name_of(int);\na* b;")},
      {"ballast/core/detail/d.hpp", in("::detail", "int d(int);\nint name_of(char);")},
      {"ballast/cost/h.hpp", text},
      {"ballast/report/r.hpp", in("::report", "struct row {};\nstruct a {};")}};
  return unclean_includes(tree);
}

std::string const with_a = "#include <ballast/core/a.hpp>\n";
std::string const with_b = "#include <ballast/core/b.hpp>\n";
std::string const with_d = "#include <ballast/core/detail/d.hpp>\n";

TEST(UncleanIncludes, LackWhatIsUsed)
{
  EXPECT_THAT(of_header(with_a + in("", "a x;")), IsEmpty());
  EXPECT_THAT(of_header(in("", "a x;")),
              ElementsAre("ballast/cost/h.hpp: uses a without <ballast/core/a.hpp>"));
  EXPECT_THAT(of_header(with_b + in("", "a* x = b;")),  // b.hpp's includes do not count
              ElementsAre("ballast/cost/h.hpp: uses a without <ballast/core/a.hpp>"));
  EXPECT_THAT(of_header(in("", "int x = BALLAST_B;")),
              ElementsAre("ballast/cost/h.hpp: uses BALLAST_B without <ballast/core/b.hpp>"));
}

TEST(UncleanIncludes, HaveWhatIsNotUsed)
{
  EXPECT_THAT(
      of_header(with_a + in("", "int x; // a\nint y(int a);")),
      ElementsAre("ballast/cost/h.hpp: includes <ballast/core/a.hpp> and uses nothing of it"));
}

TEST(UncleanIncludes, MayDeclareForwardOrThemselves)
{
  EXPECT_THAT(of_header(in("", "struct a;\na* x;")), IsEmpty());
  EXPECT_THAT(of_header(in("", "struct b {};\nb x;")), IsEmpty());
}

TEST(UncleanIncludes, AreSatisfiedByAnyOfTheOverloads)
{
  std::string const use = in("", "int x = name_of(1);");
  EXPECT_THAT(of_header(with_a + use), IsEmpty());
  EXPECT_THAT(of_header(with_a + with_b + use), IsEmpty());
  EXPECT_THAT(of_header(use),
              ElementsAre("ballast/cost/h.hpp: uses name_of without <ballast/core/a.hpp> or "
                          "<ballast/core/b.hpp> or <ballast/core/detail/d.hpp>"));
}

TEST(UncleanIncludes, LookForInternalsAmongInternals)
{
  std::string const use = in("", "int x = detail::name_of('a');");
  EXPECT_THAT(of_header(with_d + use), IsEmpty());
  EXPECT_THAT(of_header(use), ElementsAre("ballast/cost/h.hpp: uses name_of without "
                                          "<ballast/core/detail/d.hpp>"));
}

TEST(UncleanIncludes, TakeNothingFromLowerFloors)
{
  EXPECT_THAT(of_header(in("", "row x;")), IsEmpty());
}

}  // namespace
