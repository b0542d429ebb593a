// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "names.hpp"
#include "source_tree.hpp"

namespace {

using structure::problems;
using structure::source_file;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using code_lines = std::vector<std::string>;

// What a path of the repository holds, or nothing where there is no such file.
using repository = std::function<std::optional<std::string>(std::string const&)>;

// Takes away the indentation that all lines share; empty lines have none to share.
code_lines flush_left(code_lines block)
{
  std::size_t common = std::string::npos;
  for (std::string const& line : block) { common = std::min(common, line.find_first_not_of(' ')); }
  for (std::string& line : block) { line.erase(0, common); }
  return block;
}

// The lines between the two that read `// [name]`; nothing unless there are exactly two.
std::optional<code_lines> region(std::string const& text, std::string const& name)
{
  std::string const marker = "// [" + name + "]";
  code_lines found;
  int markers = 0;
  for (std::string const& line : structure::lines_of(text)) {
    std::size_t const first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.substr(first) == marker) {
      ++markers;
    } else if (markers == 1) {
      found.push_back(line);
    }
  }
  if (markers != 2) { return std::nullopt; }
  return flush_left(found);
}

struct snippet {
  std::size_t line;  // of the opening fence, from 1
  std::string path;  // of its source; empty where the document does not say
  std::string name;
  code_lines text;
};

std::vector<snippet> snippets_of(source_file const& document)
{
  std::vector<snippet> all;
  auto const text = structure::lines_of(document.text);
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (!text[at].starts_with("```")) { continue; }
    snippet block{at + 1, "", "", {}};
    bool const is_cpp =
        text[at] == "```cpp" || text[at] == "```c++" || text[at] == "```cuda" || text[at] == "```c";
    if (at > 0 && text[at - 1].starts_with("<!-- snippet: ")) {
      std::istringstream words(text[at - 1].substr(14));
      std::string end;
      words >> block.path >> block.name >> end;
      if (end != "-->") { block.name.clear(); }
    }
    for (++at; at < text.size() && !text[at].starts_with("```"); ++at) {
      block.text.push_back(text[at]);
    }
    if (is_cpp) { all.push_back(block); }
  }
  return all;
}

// Takes the includes that a block begins with, and the empty lines below them.
code_lines take_includes(code_lines& block)
{
  code_lines includes;
  while (!block.empty() && (block.front().empty() || block.front().starts_with("#include "))) {
    if (!block.front().empty()) { includes.push_back(block.front()); }
    block.erase(block.begin());
  }
  return includes;
}

// A block is its region, or that below the includes that a reader needs for it.
problems of_snippets(source_file const& document, repository const& find)
{
  problems found;
  for (snippet const& block : snippets_of(document)) {
    auto const report = [&](std::string const& what) {
      found.push_back(document.path + ":" + std::to_string(block.line) + ": " + what);
    };
    if (block.path.empty() || block.name.empty()) {
      report("precede this block by <!-- snippet: path name -->");
      continue;
    }
    auto const text = find(block.path);
    auto const source = text ? region(*text, block.name) : std::nullopt;
    if (!source) {
      report(block.path + " has no region between two lines // [" + block.name + "]");
    } else if (code_lines text_below = block.text; *source != flush_left(block.text)) {
      for (std::string const& line : take_includes(text_below)) {
        std::string const header = line.substr(0, line.find('>')).substr(line.find('<') + 1);
        if (header.starts_with("ballast/") && !find("include/" + header)) {
          report("includes " + header + ", which is not there");
        }
      }
      if (*source != flush_left(text_below)) {
        report("differs from region [" + block.name + "] of " + block.path);
      }
    }
  }
  return found;
}

// Targets of [text](target) and ![text](target), outside of code.
std::vector<std::string> links_of(std::string const& markdown)
{
  std::string prose;
  bool in_block = false;
  for (std::string const& line : structure::lines_of(markdown)) {
    if (line.starts_with("```")) { in_block = !in_block; }
    bool in_code = false;
    for (char const c : in_block ? std::string() : line) {
      if (c == '`') { in_code = !in_code; }
      if (!in_code) { prose += c; }
    }
    prose += '\n';
  }
  std::vector<std::string> links;
  for (std::size_t at = prose.find("]("); at != std::string::npos; at = prose.find("](", at + 1)) {
    std::string const target = prose.substr(at + 2, prose.find(')', at) - at - 2);
    links.push_back(target.substr(0, target.find(' ')));  // a title may follow
  }
  return links;
}

problems of_links(source_file const& document,
                  std::function<bool(std::string const&)> const& exists)
{
  problems found;
  auto const folder = std::filesystem::path(document.path).parent_path();
  for (std::string const& link : links_of(document.text)) {
    std::string const target = link.substr(0, link.find('#'));
    if (target.empty() || target.find(':') != std::string::npos) { continue; }
    if (!exists((folder / target).lexically_normal().generic_string())) {
      found.push_back(document.path + ": links to " + link + ", which is not there");
    }
  }
  return found;
}

TEST(Documents, ShowOnlyCodeThatIsTested)
{
  repository const find = [](std::string const& path) -> std::optional<std::string> {
    auto const full = structure::root() / path;
    if (!std::filesystem::is_regular_file(full)) { return std::nullopt; }
    return structure::read(full);
  };
  for (source_file const& document : structure::pages()) {
    EXPECT_THAT(of_snippets(document, find), IsEmpty());
  }
}

TEST(Documents, LinkToWhatExists)
{
  auto const exists = [](std::string const& path) {
    return std::filesystem::exists(structure::root() / path);
  };
  for (source_file const& document : structure::pages()) {
    EXPECT_THAT(of_links(document, exists), IsEmpty());
  }
}

// The page on threads has tables with a sentence and its test in each row.
TEST(Documents, NameATestForEachSentenceOnThreads)
{
  std::string tests;
  for (std::string const folder : {"tests/threads", "tests/mpi"}) {
    for (source_file const& each : structure::read_tree(structure::root() / folder, {".cpp"})) {
      tests += each.text;
    }
  }
  std::size_t sentences = 0;
  for (std::string const& row :
       structure::lines_of(structure::read(structure::root() / "docs/threads.md"))) {
    if (!row.starts_with("| ") || row == "| sentence | test |") { continue; }
    std::size_t const first = row.find("| `", 1);
    ASSERT_NE(first, row.npos) << row;
    std::string name = row.substr(first + 3, row.find('`', first + 3) - first - 3);
    ASSERT_NE(name.find('.'), name.npos) << row;
    name = "TEST(" + name.replace(name.find('.'), 1, ", ") + ")";
    EXPECT_NE(tests.find(name), tests.npos) << name;
    ++sentences;
  }
  EXPECT_GE(sentences, 20U);
}

// A column of the vocabulary, and the words of its sources.
struct language {
  std::string column;
  std::set<std::string> words;
};

// Names of a table of vocabulary that their column lacks. A name with parts, such as
// `counts::equal`, is all of them.
problems unknown_names(std::string const& page, std::vector<language> const& languages)
{
  problems found;
  std::size_t rows = 0;
  for (std::string const& line : structure::lines_of(page.substr(page.find("| thing |")))) {
    if (!line.starts_with("| ") || line.starts_with("| thing |")) { continue; }
    ++rows;
    std::istringstream cells(line.substr(2));
    std::string cell;
    std::getline(cells, cell, '|');  // the thing
    for (auto const& [column, words] : languages) {
      std::getline(cells, cell, '|');
      bool in_code = false;
      for (char& c : cell) {
        in_code = in_code != (c == '`');
        if (!in_code || c == '`' || c == ':' || c == '.') { c = ' '; }
      }
      std::istringstream names(cell);
      for (std::string name; names >> name;) {
        if (!words.contains(name)) { found.push_back(column + " has no " + name); }
      }
    }
  }
  if (rows < 15) { found.push_back("the table has " + std::to_string(rows) + " rows"); }
  return found;
}

std::set<std::string> words_of(std::vector<source_file> const& files)
{
  std::set<std::string> words;
  for (source_file const& file : files) {
    if (!structure::is_internal(file.path)) { words.merge(structure::words_of(file)); }
  }
  return words;
}

// What the files have between quotation marks.
std::set<std::string> texts_of(std::vector<source_file> const& files)
{
  std::set<std::string> texts;
  for (source_file const& file : files) {
    std::size_t last = 0;
    for (std::size_t at = file.text.find('"'); at != file.text.npos;
         at = file.text.find('"', at + 1)) {
      texts.insert(file.text.substr(last, at - last));
      last = at + 1;
    }
  }
  return texts;
}

std::vector<language> languages()
{
  std::filesystem::path const examples = structure::root() / "examples";
  auto const program = texts_of(structure::read_tree(examples / "ballast", {".cpp", ".hpp"}));
  auto const modules = structure::read_tree(examples / "python/src/ballast", {".py"});
  auto python = words_of(modules);
  python.merge(texts_of(modules));
  source_file c{"ballast.h", structure::read(examples / "c_interface/ballast.h")};
  for (std::size_t at = c.text.find("/*"); at != c.text.npos; at = c.text.find("/*", at)) {
    c.text.erase(at, c.text.find("*/", at) + 2 - at);
  }
  return {{"C++", words_of(structure::public_headers())},
          {"program", program},
          {"Python", python},
          {"C", words_of({c})},
          {"JSON", program}};
}

TEST(Glossary, HasNamesThatAreThere)
{
  std::string const page = structure::read(structure::root() / "docs/glossary.md");
  auto all = languages();
  EXPECT_THAT(unknown_names(page, all), IsEmpty());
  for (language& each : all) {  // and would miss one
    each.words.erase(each.column == "program" ? "--most-per-gpu" : "most_per_gpu");
    EXPECT_THAT(unknown_names(page, all), Contains(HasSubstr(each.column + " has no")));
  }
}

// From here on: the checks themselves, on documents that are wrong.

std::optional<std::string> one_source(std::string const& path)
{
  if (path != "a.cpp") { return std::nullopt; }
  return "int main()\n{\n  // [sum]\n  int a = 1;\n\n    a += 2;\n  // [sum]\n  // [open]\n}\n";
}

problems of_block(std::string const& before, std::string const& code)
{
  return of_snippets({"d.md", "Text.\n" + before + "```cpp\n" + code + "```\n"}, one_source);
}

TEST(Snippets, MayDifferInCommonIndentationOnly)
{
  std::string const from_sum = "<!-- snippet: a.cpp sum -->\n";
  EXPECT_THAT(of_block(from_sum, "int a = 1;\n\n  a += 2;\n"), IsEmpty());
  EXPECT_THAT(of_block(from_sum, "int a = 1;\n\na += 2;\n"), ElementsAre(HasSubstr("differs")));
  EXPECT_THAT(of_block(from_sum, "int a = 1;\n"), ElementsAre(HasSubstr("d.md:3: differs")));
}

TEST(Snippets, MayBeginWithIncludes)
{
  std::string const from_sum = "<!-- snippet: a.cpp sum -->\n";
  std::string const sum = "\nint a = 1;\n\n  a += 2;\n";
  EXPECT_THAT(of_block(from_sum, "#include <vector>\n" + sum), IsEmpty());
  EXPECT_THAT(of_block(from_sum, "#include <ballast/gone.hpp>\n" + sum),
              ElementsAre(HasSubstr("includes ballast/gone.hpp, which is not there")));
  EXPECT_THAT(of_block(from_sum, "#include <vector>\n"), ElementsAre(HasSubstr("differs")));
}

TEST(Snippets, NeedASourceThatExists)
{
  EXPECT_THAT(of_block("", "int a = 1;\n"), ElementsAre(HasSubstr("precede this block")));
  EXPECT_THAT(of_block("<!-- snippet: a.cpp -->\n", ""), ElementsAre(HasSubstr("precede")));
  EXPECT_THAT(of_block("<!-- snippet: b.cpp sum -->\n", ""), ElementsAre(HasSubstr("no region")));
  EXPECT_THAT(of_block("<!-- snippet: a.cpp gone -->\n", ""), ElementsAre(HasSubstr("no region")));
  EXPECT_THAT(of_block("<!-- snippet: a.cpp open -->\n", ""), ElementsAre(HasSubstr("no region")));
}

TEST(Snippets, LeaveOtherLanguagesAlone)
{
  EXPECT_THAT(of_snippets({"d.md", "```sh\nmake\n```\n\n```\n```cpp\n"}, one_source), IsEmpty());
}

TEST(Links, AreReadFromTheDocumentsFolder)
{
  auto const exists = [](std::string const& path) { return path == "docs/a.md"; };
  EXPECT_THAT(of_links({"docs/b.md", "[a](a.md) [a](../docs/a.md#part) ![a](a.md \"A\")"}, exists),
              IsEmpty());
  EXPECT_THAT(of_links({"b.md", "see [a](a.md)"}, exists), ElementsAre(HasSubstr("a.md")));
}

TEST(Links, OutsideTheRepositoryAndInCodeAreNotFollowed)
{
  auto const nothing = [](std::string const&) { return false; };
  EXPECT_THAT(of_links({"b.md",
                        "[w](https://example.org/a) [p](#part) `[i](gone)`\n```\n"
                        "[](scratch)\n```\n"},
                       nothing),
              IsEmpty());
}

}  // namespace
