// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "source_tree.hpp"

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

inline bool is_letter(char c)
{
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// The first word of the text from `at` on, and where it ends.
inline std::string word_at(std::string_view text, std::size_t at)
{
  std::size_t end = at;
  while (end < text.size() && is_letter(text[end])) { ++end; }
  return std::string(text.substr(at, end - at));
}

/// The name that a line at namespace scope declares, by the line's form; empty where it declares
/// none: a type, a concept, an alias, a constant or a function.
inline std::string declared_by(std::string_view line)
{
  if (line.starts_with("[[")) {
    std::size_t const end = line.find("]] ");
    line.remove_prefix(end == line.npos ? line.size() : end + 3);
  }
  if (line.empty() || !is_letter(line[0])) { return ""; }
  auto const after = [&](std::string_view words) {
    std::size_t at = words.size();
    for (std::string_view const attribute : {"[[", "alignas("}) {
      if (!line.substr(at).starts_with(attribute)) { continue; }
      char const end = attribute == "[[" ? ']' : ')';
      at = line.find_first_not_of("]) ", line.find(end, at));
    }
    return word_at(line, at);
  };
  for (std::string_view const type : {"struct ", "class ", "enum class ", "union "}) {
    if (line.starts_with(type)) { return line.ends_with(';') ? "" : after(type); }
  }
  for (std::string_view const kind : {"concept ", "using "}) {
    if (!line.starts_with(kind)) { continue; }
    std::string const name = after(kind);
    bool const is_alias = line.substr(kind.size() + name.size()).starts_with(" =");
    return is_alias && name != "detail" ? name : "";
  }
  static std::set<std::string> const others = {"if",       "for",       "return",       "requires",
                                               "template", "namespace", "friend",       "extern",
                                               "using",    "case",      "static_assert"};
  if (others.contains(word_at(line, 0)) || line.starts_with("BALLAST_EXPECTS") ||
      line.starts_with("BALLAST_AUDIT")) {
    return "";
  }
  std::size_t const end = line.find_first_of(line.starts_with("inline constexpr ") ? "=({;" : "(");
  if (end == line.npos) { return ""; }
  std::size_t last = end;
  while (last > 0 && line[last - 1] == ' ') { --last; }
  std::size_t first = last;
  while (first > 0 && is_letter(line[first - 1])) { --first; }
  return first == 0 ? "" : std::string(line.substr(first, last - first));
}

struct declaration {
  std::string name;
  bool internal;  ///< in namespace detail
};

/// What a header declares at namespace scope. Namespaces open and close at the beginning of a line,
/// which clang-format sees to.
inline std::vector<declaration> declarations_of(source_file const& header)
{
  std::vector<declaration> all;
  bool internal = false;
  for (std::string const& line : lines_of(header.text)) {
    if (line.starts_with("namespace ")) {
      internal =
          internal || line.find("detail {") != line.npos || line.find("detail::") != line.npos;
    } else if (line.starts_with("}  // namespace ") && line.find("detail") != line.npos) {
      internal = false;
    } else if (std::string name = declared_by(line); !name.empty()) {
      all.push_back({std::move(name), internal});
    }
  }
  return all;
}

/// The words of a source without its comments and texts; those behind `detail::` also as
/// "detail::word".
inline std::set<std::string> words_of(source_file const& file)
{
  std::set<std::string> words;
  bool behind_detail = false;
  std::string_view const text = file.text;
  for (std::size_t at = 0; at < text.size();) {
    if (text.substr(at).starts_with("//")) {
      at = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"') {
      for (++at; at < text.size() && text[at] != '"' && text[at] != '\n'; ++at) {
        at += text[at] == '\\' ? 1 : 0;
      }
      ++at;
    } else if (is_letter(text[at])) {
      std::string const word = word_at(text, at);
      at += word.size();
      words.insert(word);
      if (behind_detail) { words.insert("detail::" + word); }
      behind_detail = word == "detail" && text.substr(at).starts_with("::");
      if (behind_detail) { at += 2; }
      continue;
    } else {
      ++at;
    }
    behind_detail = false;
  }
  return words;
}

}  // namespace structure
