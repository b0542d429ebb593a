// SPDX-License-Identifier: Apache-2.0
#include "precompiled.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using structure::hidden_includes;
using structure::source_file;
using testing::ElementsAre;
using testing::IsEmpty;

// In a build without a precompiled header every test compiles as well.
TEST(PrecompiledHeader, HidesNoMissingInclude)
{
  auto const tree = structure::headers_and_users({".cpp", ".hpp"});
  EXPECT_THAT(hidden_includes(tree)(), IsEmpty());
}

TEST(PrecompiledHeader, HasOnlyHeadersWhoseNamesAreKnown)
{
  auto const listed =
      structure::precompiled_headers(structure::read(structure::root() / "tests/CMakeLists.txt"));
  EXPECT_GT(listed.size(), 20U);
  for (std::string const& header : listed) {
    EXPECT_TRUE(structure::names_by_header().contains(header)) << header;
  }
}

// From here on: the checks themselves, on trees that are wrong.

TEST(PrecompiledHeaders, AreThoseOfBothLists)
{
  EXPECT_THAT(
      structure::precompiled_headers("set(standard_headers\n  <a> <b>)\nset(other <c>)\n"
                                     "set(precompiled_headers <d/e.h> ${standard_headers})"),
      ElementsAre("a", "b", "d/e.h"));
}

TEST(HiddenIncludes, AreReportedWithTheHeaderThatIsMissing)
{
  std::vector<source_file> const tree = {
      {"tests/core/a_test.cpp",
       "#include <gtest/gtest.h>\nTEST(A, B) { EXPECT_EQ(std::vector<int>(1), f(rc::gen::x)); }\n"},
      {"tests/core/b_test.cpp",
       "auto a = std::ranges::sort(b);  // std::map\nEXPECT_THAT(a, b);\n"}};
  EXPECT_THAT(hidden_includes(tree)(),
              ElementsAre("tests/core/a_test.cpp: rc needs <rapidcheck.h>",
                          "tests/core/a_test.cpp: vector needs <vector>",
                          "tests/core/b_test.cpp: EXPECT_THAT needs <gmock/gmock.h>",
                          "tests/core/b_test.cpp: sort needs <algorithm>"));
}

TEST(HiddenIncludes, MayStandInHeadersOfTheRepository)
{
  std::vector<source_file> const tree = {
      {"ballast/core/a.hpp", "#include <vector>\n"},
      {"tests/support/b.hpp", "#include <ballast/core/a.hpp>\n#include <rapidcheck/gtest.h>\n"},
      {"tests/core/c/d_test.cpp",
       "#include \"../../support/b.hpp\"\nRC_GTEST_PROP(A, B, ()) { "
       "RC_ASSERT(rc::f(std::vector<int>())); }\n"},
      {"tests/core/e_test.cpp", "int vector = ours::sort(x.optional);\n"}};
  EXPECT_THAT(hidden_includes(tree)(), IsEmpty());
}

}  // namespace
