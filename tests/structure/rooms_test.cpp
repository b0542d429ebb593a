// SPDX-License-Identifier: Apache-2.0
#include "rooms.hpp"
#include "sample_code.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

namespace {

using structure::crowded_folders;
using structure::in;
using structure::leaked_internals;
using structure::misplaced_headers;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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
  EXPECT_THAT(crowded_folders(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on trees that are wrong.

TEST(MisplacedHeaders, AreInternalsWithAPublicName)
{
  std::string const both = in("::detail", "struct a {};") + in("", "struct b;\nint c();");
  EXPECT_THAT(misplaced_headers({{"ballast/core/detail/a.hpp", both}}),
              ElementsAre(HasSubstr("declares the public name c")));
  EXPECT_THAT(misplaced_headers({{"ballast/core/a.hpp", both}}), IsEmpty());
  EXPECT_THAT(misplaced_headers({{"ballast/core/detail/a.hpp", "#define BALLAST_A 1\n"}}),
              ElementsAre(HasSubstr("BALLAST_A")));
}

TEST(MisplacedHeaders, AreDoorsWithoutOne)
{
  std::string const one = in("::detail", "struct a {};") + in("", "struct b;");
  EXPECT_THAT(misplaced_headers({{"ballast/core/a.hpp", one}}),
              ElementsAre(HasSubstr("has no public name")));
  EXPECT_THAT(misplaced_headers({{"ballast/core/detail/a.hpp", one}}), IsEmpty());
  EXPECT_THAT(misplaced_headers({{"ballast/core/a.hpp", "#define BALLAST_A 1\n"}}), IsEmpty());
  EXPECT_THAT(misplaced_headers({{"ballast/core.hpp", ""}}), IsEmpty());
}

TEST(LeakedInternals, AreFoundInAllThatIsNotTheLibrary)
{
  auto const with = [](std::string const& path, std::string const& text) {
    std::vector<source_file> const tree = {
        {"ballast/core/detail/sort.hpp", in("::detail", "struct sorter {};")},
        {"ballast/core/a.hpp", "#include <ballast/core/detail/sort.hpp>\n"},
        {path, text}};
    return leaked_internals(tree);
  };
  EXPECT_THAT(with("docs/a.md", "See `core/detail/sort.hpp`."),
              ElementsAre(HasSubstr("names the internal header detail/sort.hpp")));
  EXPECT_THAT(with("docs/a.md", "`detail::sorter` sorts."),
              ElementsAre("docs/a.md: names the internal detail::sorter"));
  EXPECT_THAT(with("examples/a.cpp", "using ballast::detail::sorter;"),
              ElementsAre(HasSubstr("detail::sorter"), HasSubstr("ballast::detail")));
  EXPECT_THAT(with("ballast/core.hpp", "#include <ballast/core/detail/sort.hpp>\n"),
              ElementsAre(HasSubstr("ballast/core.hpp: includes")));
  EXPECT_THAT(
      with("docs/a.md", "`detail::mine`, in detail, `cub/detail/` and tests/detail/a_test.cpp"),
      IsEmpty());
}

TEST(CrowdedFolders, AreCountedWithoutTheirSubfolders)
{
  std::vector<source_file> tree;
  for (std::size_t i = 0; i < structure::most_headers; ++i) {
    tree.push_back({"ballast/core/a" + std::to_string(i) + ".hpp", ""});
    tree.push_back({"docs/a" + std::to_string(i) + ".md", ""});
  }
  tree.push_back({"ballast/core/detail/a.hpp", ""});
  tree.push_back({"docs/a.md", ""});
  EXPECT_THAT(crowded_folders(tree), IsEmpty());
  tree.push_back({"ballast/core/a.hpp", ""});
  EXPECT_THAT(crowded_folders(tree), ElementsAre("ballast/core: holds 31 headers, more than 30"));
}

}  // namespace
