// SPDX-License-Identifier: Apache-2.0
#include "prose.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace {

using structure::house_words;
using structure::long_lines;
using structure::missing_files;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Prose, FitsTheScreen)
{
  for (source_file const& page : structure::pages()) { EXPECT_THAT(long_lines(page), IsEmpty()); }
}

TEST(Prose, NamesFilesThatExist)
{
  auto const exists = [](std::string const& path) {
    return std::filesystem::exists(structure::root() / path);
  };
  for (source_file const& page : structure::pages()) {
    EXPECT_THAT(missing_files(page, exists), IsEmpty());
  }
}

TEST(Prose, HasNoHouseWords)
{
  for (source_file const& page : structure::pages()) { EXPECT_THAT(house_words(page), IsEmpty()); }
  for (std::string const folder : {"include", "tests", "bench", "examples", "cmake"}) {
    for (source_file const& file : structure::read_tree(
             structure::root() / folder,
             {".hpp", ".cuh", ".cpp", ".cu", ".txt", ".cmake", ".in", ".sh", ".py", ".md"})) {
      EXPECT_THAT(house_words(file), IsEmpty());
    }
  }
}

// From here on: the checks themselves, on pages that are wrong.

std::string const long_text = std::string(60, 'a') + " " + std::string(60, 'b');

TEST(LongLines, AreCountedInCharacters)
{
  std::string dashes;
  for (int i = 0; i < 120; ++i) { dashes += "\xE2\x80\x94"; }
  EXPECT_THAT(long_lines({"a.md", dashes + "\n"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.md", "# A\n\n" + long_text + "\n"}),
              ElementsAre("a.md:3: has 121 columns of 120"));
  EXPECT_THAT(long_lines({"a.md", "- " + long_text + "\n"}), ElementsAre(HasSubstr("123")));
}

TEST(LongLines, MayBeOfTablesCodeCommentsAndLinks)
{
  EXPECT_THAT(long_lines({"a.md", "| " + long_text + " |\n"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.md", "```\n" + long_text + "\n```\n"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.md", "<!-- " + long_text + "\n" + long_text + " -->\n"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.md", "![" + long_text + "](a.svg)\n"}), IsEmpty());
  EXPECT_THAT(long_lines({"a.md", "See https://example.org/" + std::string(110, 'a') + "\n"}),
              IsEmpty());
  EXPECT_THAT(long_lines({"a.md", long_text + " [a](b.md)\n"}), ElementsAre(HasSubstr("a.md:1")));
  EXPECT_THAT(long_lines({"a.md", "```\n```\n<!-- a -->\n" + long_text + "\n"}),
              ElementsAre(HasSubstr("a.md:4")));
}

TEST(MissingFiles, AreThoseInCode)
{
  auto const exists = [](std::string const& path) {
    return path == "tests/a.cpp" || path == "include/ballast/core/a.hpp";
  };
  EXPECT_THAT(missing_files({"a.md", "`tests/a.cpp`, `<ballast/core/a.hpp>` and `tests/a.cpp:3`\n"},
                            exists),
              IsEmpty());
  EXPECT_THAT(missing_files({"a.md", "tests/b.cpp, `a/b.cpp`, `tests/*_test.cpp` and `ballast/`\n"},
                            exists),
              IsEmpty());
  EXPECT_THAT(
      missing_files({"a.md", "\n`./tests/b.cpp --all`, `ballast/core/b.hpp` and `core/c.hpp`\n"},
                    exists),
      ElementsAre("a.md:2: names tests/b.cpp, which is not there",
                  "a.md:2: names include/ballast/core/b.hpp, which is not there",
                  "a.md:2: names include/ballast/core/c.hpp, which is not there"));
}

TEST(HouseWords, AreFoundAsWholeWords)
{
  std::string const word =
      "bad"
      "ness";
  EXPECT_THAT(house_words({"a.hpp", "\nits " + word + ".\n"}),
              ElementsAre("a.hpp:2: says " + word));
  EXPECT_THAT(house_words({"a.hpp", word + "es, " + word + "_1 and a" + word + "\n"}), IsEmpty());
}

}  // namespace
