// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "source_tree.hpp"

namespace {

using structure::lines_of;
using structure::problems;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct prose_line {
  std::size_t number;  // from 1
  std::string text;
};

// The lines of a page but for blocks of code, tables and HTML comments.
std::vector<prose_line> prose_of(source_file const& page)
{
  std::vector<prose_line> prose;
  bool in_block = false;
  bool in_comment = false;
  std::size_t number = 0;
  for (std::string const& line : lines_of(page.text)) {
    ++number;
    std::size_t const first = line.find_first_not_of(' ');
    std::string_view const text =
        first == line.npos ? std::string_view() : std::string_view(line).substr(first);
    bool const fence = text.starts_with("```");
    if (fence) { in_block = !in_block; }
    if (!in_block && text.starts_with("<!--")) { in_comment = true; }
    if (!fence && !in_block && !in_comment && !text.starts_with("|")) {
      prose.push_back({number, line});
    }
    if (text.find("-->") != text.npos) { in_comment = false; }
  }
  return prose;
}

// Characters, not bytes.
std::size_t columns_of(std::string_view utf8)
{
  return static_cast<std::size_t>(std::ranges::count_if(
      utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// The longest [text](target) or address.
std::size_t longest_link(std::string_view line)
{
  std::size_t most = 0;
  for (std::size_t at = line.find("]("); at != line.npos; at = line.find("](", at + 1)) {
    std::size_t const first = std::min(line.rfind('[', at), at);
    std::size_t const last = std::min(line.find(')', at), line.size() - 1);
    most = std::max(most, columns_of(line.substr(first, last + 1 - first)));
  }
  for (std::size_t at = line.find("https:"); at != line.npos; at = line.find("https:", at + 1)) {
    most = std::max(most, std::min(line.find(' ', at), line.size()) - at);
  }
  return most;
}

constexpr std::size_t most_columns = 120;

// Prose that does not fit a screen; a line that is mainly one link cannot be helped.
problems long_lines(source_file const& page)
{
  problems found;
  for (auto const& [number, text] : prose_of(page)) {
    std::size_t const columns = columns_of(text);
    if (columns > most_columns && 2 * longest_link(text) < columns) {
      found.push_back(page.path + ":" + std::to_string(number) + ": has " +
                      std::to_string(columns) + " columns of " + std::to_string(most_columns));
    }
  }
  return found;
}

// Files of the repository that a page names in `code` and that are not there; patterns such as
// `tests/*_test.cpp` are not looked for. Headers may be named from include/ or from its ballast/.
problems missing_files(source_file const& page,
                       std::function<bool(std::string const&)> const& exists)
{
  constexpr auto folders = std::to_array<std::string_view>(
      {"tests/", "include/", "bench/", "examples/", "docs/", "cmake/"});
  problems found;
  for (auto const& [number, text] : prose_of(page)) {
    bool in_code = false;
    std::string code;
    for (char const c : text) {
      if (c == '`') { in_code = !in_code; }
      code += in_code && c != '`' ? c : ' ';
    }
    std::istringstream words(code);
    for (std::string word; words >> word;) {
      while (!word.empty() && std::string_view("<\"'(").find(word.front()) != std::string::npos) {
        word.erase(0, 1);
      }
      while (!word.empty() &&
             std::string_view(">\"'),;:.").find(word.back()) != std::string::npos) {
        word.pop_back();
      }
      if (word.starts_with("./")) { word.erase(0, 2); }
      word = word.substr(0, word.find(':'));
      bool const is_code = word.ends_with(".hpp") || word.ends_with(".cuh");
      if (is_code && structure::floor_of("ballast/" + word) < structure::umbrella_floor) {
        word.insert(0, "ballast/");
      }
      if (is_code && structure::is_header(word)) { word.insert(0, "include/"); }
      bool const is_path = std::ranges::any_of(
          folders, [&](std::string_view folder) { return word.starts_with(folder); });
      if (is_path && word.find_first_of("*<>{}$") == std::string::npos && !exists(word)) {
        found.push_back(page.path + ":" + std::to_string(number) + ": names " + word +
                        ", which is not there");
      }
    }
  }
  return found;
}

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

}  // namespace
