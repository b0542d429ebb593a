// SPDX-License-Identifier: Apache-2.0
#include "reached_names.hpp"
#include "sample_code.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using structure::in;
using structure::source_file;
using structure::unreached_names;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// In a unity build a test sees what those before it include.
TEST(Tests, ReachWhatTheyUse)
{
  auto const tree = structure::headers_and_users({".cpp", ".hpp", ".cu", ".cuh"});
  EXPECT_THAT(unreached_names(tree), IsEmpty());
}

// From here on: the check itself, on tests that are wrong.

structure::problems of_test(std::string const& text)
{
  return unreached_names(
      {{"ballast/core/a.hpp", "#define BALLAST_A 1\n" + in("", "struct a {};")},
       {"ballast/core/b.hpp", "#include <ballast/core/a.hpp>\n" + in("", "struct b {};")},
       {"tests/support/c.hpp",
        "#include <ballast/core/b.hpp>\nnamespace ballast_test {\n"
        "int c();\n}  // namespace ballast_test\n"},
       {"tests/core/x_test.cpp", text}});
}

TEST(UnreachedNames, AreThoseOfHeadersThatAreNotIncluded)
{
  EXPECT_THAT(
      of_test("#include <ballast/core/a.hpp>\nballast::b x;\n"),
      ElementsAre("tests/core/x_test.cpp: uses b and includes, itself or through others, no "
                  "header that declares it, such as ballast/core/b.hpp"));
  EXPECT_THAT(of_test("int x = BALLAST_A + ballast_test::c();\n"),
              ElementsAre(HasSubstr("uses BALLAST_A"), HasSubstr("uses c")));
}

TEST(UnreachedNames, AreNotThoseThatAnIncludeBrings)
{
  EXPECT_THAT(of_test("#include <ballast/core/b.hpp>\nballast::a x;\nint y = BALLAST_A;\n"),
              IsEmpty());
  EXPECT_THAT(of_test("#include \"../support/c.hpp\"\nballast::a x;\nint y = ballast_test::c();\n"),
              IsEmpty());
  EXPECT_THAT(of_test("int b = 1;\nint c = b;  // ballast::b\n"), IsEmpty());
}

}  // namespace
