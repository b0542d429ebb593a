// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_PROSE_HPP
#define BALLAST_TESTS_STRUCTURE_PROSE_HPP

#include "floors.hpp"
#include "source_tree.hpp"
#include "tokens.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

struct prose_line {
  std::size_t number;  // from 1
  std::string text;
};

/// The lines of a page but for blocks of code, tables and HTML comments.
inline std::vector<prose_line> prose_of(source_file const& page)
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

namespace detail {

// Characters, not bytes.
inline std::size_t columns_of(std::string_view utf8)
{
  return static_cast<std::size_t>(std::ranges::count_if(
      utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// The longest [text](target) or address.
inline std::size_t longest_link(std::string_view line)
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

}  // namespace detail

inline constexpr std::size_t most_columns = 120;

/// Prose that does not fit a screen; a line that is mainly one link cannot be helped.
inline problems long_lines(source_file const& page)
{
  problems found;
  for (auto const& [number, text] : prose_of(page)) {
    std::size_t const columns = detail::columns_of(text);
    if (columns > most_columns && 2 * detail::longest_link(text) < columns) {
      found.push_back(page.path + ":" + std::to_string(number) + ": has " +
                      std::to_string(columns) + " columns of " + std::to_string(most_columns));
    }
  }
  return found;
}

/// Files of the repository that a page names in `code` and that are not there; patterns such as
/// `tests/*_test.cpp` are not looked for. Headers may be named from include/ or from its ballast/.
inline problems missing_files(source_file const& page,
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
      if (is_code && floor_of("ballast/" + word) < umbrella_floor) { word.insert(0, "ballast/"); }
      if (is_code && is_header(word)) { word.insert(0, "include/"); }
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

/// House words, for which the field has words of its own.
inline problems house_words(source_file const& file)
{
  // In pieces, so that this file is not found.
  constexpr auto words =
      std::to_array<std::string_view>({"held"
                                       "_ways",
                                       "own"
                                       "_paths",
                                       "lock"
                                       "_steps",
                                       "like"
                                       "_bags",
                                       "bad"
                                       "ness",
                                       "re"
                                       "lay",
                                       "Ans"
                                       "wers"});
  problems found;
  std::string_view const text = file.text;
  for (std::string_view const word : words) {
    for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
      std::size_t const end = at + word.size();
      bool const whole = (at == 0 || !detail::in_word(text[at - 1])) &&
                         (end == text.size() || !detail::in_word(text[end]));
      if (whole) {
        auto const line = std::ranges::count(text.substr(0, at), '\n') + 1;
        found.push_back(file.path + ":" + std::to_string(line) + ": says " + std::string(word));
      }
    }
  }
  return found;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_PROSE_HPP
