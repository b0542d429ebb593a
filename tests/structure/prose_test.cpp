// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "source_tree.hpp"

#include <map>

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

// Where the reader of a page is: users, or who asks for proofs and for what was tried.
enum class page_kind : std::uint8_t { user, notes, other };

page_kind kind_of(std::string_view path)
{
  if (path == "README.md") { return page_kind::user; }
  if (path.starts_with("docs/notes/")) { return page_kind::notes; }
  bool const is_user = path.starts_with("docs/") && path.find('/', 5) == path.npos;
  return is_user ? page_kind::user : page_kind::other;
}

// As `wc -w` counts them, code included.
std::size_t count_words(source_file const& page)
{
  std::istringstream text(page.text);
  std::size_t words = 0;
  for (std::string each; text >> each;) { ++words; }
  return words;
}

constexpr std::size_t most_words_of_users = 60'000;
constexpr std::size_t most_words_with_notes = 85'000;

// A page of users is read at one sitting; that of the program is its --help, by command.
std::size_t most_words_of(source_file const& page)
{
  return page.path == "docs/command_line.md" ? 3'500 : 1'800;
}

problems too_many_words(std::vector<source_file> const& pages)
{
  problems found;
  std::size_t of_users = 0;
  std::size_t of_notes = 0;
  auto const judge = [&](std::string const& what, std::size_t words, std::size_t most) {
    if (words > most) {
      found.push_back(what + " " + std::to_string(words) + " words of " + std::to_string(most));
    }
  };
  for (source_file const& page : pages) {
    std::size_t const words = count_words(page);
    page_kind const kind = kind_of(page.path);
    (kind == page_kind::notes ? of_notes : of_users) += kind == page_kind::other ? 0 : words;
    if (kind == page_kind::user) { judge(page.path + ": has", words, most_words_of(page)); }
  }
  judge("the pages of users have", of_users, most_words_of_users);
  judge("the pages of users and notes have", of_users + of_notes, most_words_with_notes);
  return found;
}

// A line as it is read: links are their names, without addresses.
std::string without_targets(std::string text)
{
  for (std::size_t at = text.find("]("); at != text.npos; at = text.find("](", at)) {
    std::size_t const end = text.find(')', at);
    text.replace(at, (end == text.npos ? text.size() : end + 1) - at, " ");
  }
  return text;
}

// A page without what a program writes at its end, such as options that several commands have.
source_file written_by_hand(source_file const& page)
{
  return {page.path, page.text.substr(0, page.text.find("<!-- written by "))};
}

constexpr std::size_t words_of_a_run = 12;

// Sentences that stand twice: twelve words of prose one behind the other, capitals, marks and links
// aside, that are on a page before, or before on the page. Each such passage is told once.
problems repeated_runs(std::vector<source_file> const& pages)
{
  struct word {
    std::string text;
    std::string place;
  };
  std::map<std::string, std::string> first;  // of each run, where it stands
  problems found;
  auto const look = [&](std::vector<word> const& paragraph) {
    bool told = false;
    for (std::size_t at = 0; at + words_of_a_run <= paragraph.size(); ++at) {
      std::string run;
      for (std::size_t i = 0; i < words_of_a_run; ++i) { run += paragraph[at + i].text + " "; }
      auto const [before, is_new] = first.emplace(run, paragraph[at].place);
      if (!is_new && !told) {
        found.push_back(paragraph[at].place + ": says what " + before->second + " says: " + run);
      }
      told = !is_new;
    }
  };
  for (source_file const& page : pages) {
    if (kind_of(page.path) == page_kind::other) { continue; }
    std::vector<word> paragraph;
    std::size_t last = 0;
    for (auto const& [number, text] : prose_of(written_by_hand(page))) {
      if (number != last + 1 || text.empty()) {
        look(paragraph);
        paragraph.clear();
      }
      last = number;
      if (paragraph.empty() && text.starts_with("    ")) { continue; }  // a formula, as code
      std::string spelled = without_targets(text);
      for (char& c : spelled) {
        auto const byte = static_cast<unsigned char>(c);
        c = byte >= 0x80U || std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : ' ';
      }
      std::istringstream words(spelled);
      for (std::string each; words >> each;) {
        paragraph.push_back({each, page.path + ":" + std::to_string(number)});
      }
    }
    look(paragraph);
  }
  return found;
}

// Words that only who works on the library knows; floor(x) is of mathematics, and there may be room.
problems words_of_the_house(source_file const& page)
{
  constexpr auto house = std::to_array<std::string_view>(
      {"floor", "floors", "rooms", "door", "doors", "prelude", "umbrella", "umbrellas"});
  problems found;
  bool in_block = false;
  std::size_t number = 0;
  for (std::string const& line : lines_of(page.text)) {
    ++number;
    if (line.starts_with("```")) { in_block = !in_block; }
    if (in_block) { continue; }
    bool in_code = false;
    std::string prose;
    for (char const c : without_targets(line)) {
      if (c == '`') { in_code = !in_code; }
      bool const is_read = !in_code && (c == '(' || std::isalpha(static_cast<unsigned char>(c)));
      prose += is_read ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : ' ';
    }
    std::istringstream words(prose);
    for (std::string word; words >> word;) {
      if (word.starts_with('(')) { word.erase(0, 1); }
      if (std::ranges::count(house, word) > 0) {
        found.push_back(page.path + ":" + std::to_string(number) + ": \"" + word +
                        "\" is a word of the house");
      }
    }
  }
  return found;
}

TEST(Prose, IsShort)
{
  EXPECT_THAT(too_many_words(structure::pages()), IsEmpty());
}

TEST(Prose, SaysNothingTwice)
{
  EXPECT_THAT(repeated_runs(structure::pages()), IsEmpty());
}

TEST(Prose, SpeaksToUsersInTheirWords)
{
  for (source_file const& page : structure::pages()) {
    bool const is_of_users = kind_of(page.path) == page_kind::user;
    if (!is_of_users || page.path == "docs/architecture.md") { continue; }
    EXPECT_THAT(words_of_the_house(page), IsEmpty());
  }
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

TEST(TooManyWords, AreCountedByPageAndInAll)
{
  std::string words;
  for (int i = 0; i < 1'801; ++i) { words += "a "; }
  EXPECT_THAT(too_many_words({{"docs/a.md", words.substr(2)}, {"docs/decisions/b.md", words}}),
              IsEmpty());
  EXPECT_THAT(too_many_words({{"docs/a.md", words}, {"docs/command_line.md", words}}),
              ElementsAre("docs/a.md: has 1801 words of 1800"));
  std::vector<source_file> const user(34, {"README.md", words.substr(2)});
  EXPECT_THAT(too_many_words(user), ElementsAre("the pages of users have 61200 words of 60000"));
  std::vector<source_file> const notes(48, {"docs/notes/a.md", words});
  EXPECT_THAT(too_many_words(notes),
              ElementsAre("the pages of users and notes have 86448 words of 85000"));
}

std::string const eleven = "A plan of [one](b.md) step has the\nsame owners, on every ";

TEST(RepeatedRuns, AreFoundAcrossLinesPagesMarksAndLinks)
{
  source_file const first{"docs/a.md", "# A\n\n" + eleven + "rank.\n"};
  EXPECT_THAT(repeated_runs({first, {"docs/notes/b.md", eleven + "day.\n"}}), IsEmpty());
  EXPECT_THAT(repeated_runs({first, {"docs/decisions/b.md", eleven + "rank.\n"}}), IsEmpty());
  EXPECT_THAT(repeated_runs({first,
                             {"docs/notes/b.md",
                              "But a PLAN of one step has the same owners: on\n"
                              "every rank, always.\n"}}),
              ElementsAre("docs/notes/b.md:1: says what docs/a.md:3 says: "
                          "a plan of one step has the same owners on every rank "));
  EXPECT_THAT(repeated_runs({{"README.md", eleven + "rank.\n\nAnd: " + eleven + "rank.\n"}}),
              ElementsAre(HasSubstr("README.md:4: says what README.md:1 says")));
}

TEST(RepeatedRuns, AreNotLookedForInCodeTablesAndParts)
{
  std::string const line = "A plan of one step has the same owners on every rank.\n";
  EXPECT_THAT(repeated_runs({{"docs/a.md", line + "\n```\n" + line + "```\n| " + line + "\n<!-- " +
                                               line + "-->\n"}}),
              IsEmpty());
  EXPECT_THAT(repeated_runs({{"docs/a.md", line + "\n<!-- written by a.sh -->\n\n" + line}}),
              IsEmpty());
  EXPECT_THAT(repeated_runs({{"docs/a.md", line + "\nA plan of one step has the\n\n"
                                                  "same owners on every rank.\n"}}),
              IsEmpty());
}

TEST(WordsOfTheHouse, AreFoundOutsideOfCode)
{
  EXPECT_THAT(words_of_the_house({"docs/a.md",
                                  "`floor`, floor(x), room for rows, a\n```\ndoor\n"
                                  "```\n[why](0014-doors.md) indoors\n"}),
              IsEmpty());
  EXPECT_THAT(words_of_the_house({"docs/a.md", "a\nThe floors, and\n| `core` | the Prelude |\n"}),
              ElementsAre("docs/a.md:2: \"floors\" is a word of the house",
                          "docs/a.md:3: \"prelude\" is a word of the house"));
}

}  // namespace
