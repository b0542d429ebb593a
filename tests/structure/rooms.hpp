// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_ROOMS_HPP
#define BALLAST_TESTS_STRUCTURE_ROOMS_HPP

#include "declared_names.hpp"
#include "floors.hpp"
#include "own_includes.hpp"
#include "source_tree.hpp"
#include "tokens.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// Rule 1: a header lies under detail/ exactly when all of its names are in ballast::detail.
inline problems misplaced_headers(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& file : tree) {
    if (!is_header(file.path) || is_umbrella(file.path)) { continue; }
    std::string open_name;  // that everybody may use
    for (std::string const& macro : macros_defined_by(file.text, guard_of(file.path))) {
      open_name = macro;
    }
    for (declared_name const& each : parsed(file.text).declared.names) {
      bool const internal = each.space.find("::detail") != std::string::npos;
      if (!internal && !each.forward) { open_name = each.name; }
    }
    if (is_internal(file.path) && !open_name.empty()) {
      found.push_back(file.path + ": lies under detail/ and declares the public name " + open_name);
    }
    if (!is_internal(file.path) && open_name.empty()) {
      found.push_back(file.path + ": has no public name and does not lie under detail/");
    }
  }
  return found;
}

/// Rule 2: internals are for the library, its tests and its benchmarks alone. Others name neither
/// their headers nor their names, and no umbrella includes them.
inline problems leaked_internals(std::vector<source_file> const& tree)
{
  constexpr std::string_view folder = "detail/";
  constexpr std::string_view space = "detail::";
  name_index const index(tree);
  problems found;
  for (source_file const& file : tree) {
    auto const report = [&](std::string const& what) { found.push_back(file.path + ": " + what); };
    std::string_view const text = file.text;
    if (is_header(file.path)) {
      if (!is_umbrella(file.path)) { continue; }
      for (auto const& [name, quoted] : includes_of(file)) {
        if (is_internal(name)) { report("includes " + name + ", which is an internal"); }
      }
      continue;
    }
    auto const word_from = [&](std::size_t first, std::string_view more) {
      std::size_t last = first;
      while (last < text.size() &&
             (detail::in_word(text[last]) || more.find(text[last]) != std::string_view::npos)) {
        ++last;
      }
      return text.substr(first, last - first);
    };
    for (std::size_t at = text.find(folder); at != text.npos; at = text.find(folder, at + 1)) {
      if (at > 0 && detail::in_word(text[at - 1])) { continue; }
      std::string_view const name = word_from(at, "/.");
      bool const is_file = name.find(".hpp") != name.npos || name.find(".cuh") != name.npos;
      if (is_file) { report("names the internal header " + std::string(name)); }
    }
    for (std::size_t at = text.find(space); at != text.npos; at = text.find(space, at + 1)) {
      if (at > 0 && detail::in_word(text[at - 1])) { continue; }
      auto const* const places = index.find(word_from(at + space.size(), ""));
      if (places == nullptr) { continue; }
      if (std::ranges::any_of(*places, [](name_index::place const& each) {
            return each.space.find("::detail") != std::string::npos;
          })) {
        report("names the internal " + std::string(word_from(at, ":")));
      }
    }
    if (text.find("ballast::detail") != text.npos || text.find("v0::detail") != text.npos) {
      report("names ballast::detail");
    }
  }
  return found;
}

inline constexpr std::size_t most_headers = 30;

/// Rule 3: no folder holds more headers than one looks through.
inline problems crowded_folders(std::vector<source_file> const& tree)
{
  std::map<std::string, std::size_t> headers;
  for (source_file const& file : tree) {
    if (is_header(file.path)) { ++headers[file.path.substr(0, file.path.rfind('/'))]; }
  }
  problems found;
  for (auto const& [folder, count] : headers) {
    if (count > most_headers) {
      found.push_back(folder + ": holds " + std::to_string(count) + " headers, more than " +
                      std::to_string(most_headers));
    }
  }
  return found;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_ROOMS_HPP
