// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_OWN_INCLUDES_HPP
#define BALLAST_TESTS_STRUCTURE_OWN_INCLUDES_HPP

#include "declared_names.hpp"
#include "floors.hpp"
#include "source_tree.hpp"
#include "used_names.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace structure {

/// Whether others include the file: a header of the library or one of the tests.
inline bool is_included(std::string_view path)
{
  return is_header(path) || (path.starts_with("tests/") && path.ends_with(".hpp"));
}

/// What the headers of a tree declare.
class name_index {
 public:
  struct place {
    std::string header;
    std::string space;
    bool forward;
  };
  using places = std::vector<place>;

  explicit name_index(std::vector<source_file> const& tree)
  {
    for (source_file const& file : tree) {
      if (is_included(file.path)) { add(file); }
    }
  }

  /// Null where no header declares it.
  [[nodiscard]] places const* find(std::string_view name) const
  {
    auto const found = places_.find(name);
    return found == places_.end() ? nullptr : &found->second;
  }

  /// Last parts of the names of namespaces.
  [[nodiscard]] std::set<std::string> const& spaces() const { return spaces_; }

 private:
  void add(source_file const& header)
  {
    declared_names const& found = parsed(header.text).declared;
    for (declared_name const& each : found.names) {
      if (each.space.starts_with("ballast")) {
        places_[each.name].push_back({header.path, each.space, each.forward});
      }
    }
    for (std::string const& macro : macros_defined_by(header.text, guard_of(header.path))) {
      places_[macro].push_back({header.path, "", false});
    }
    spaces_.insert(found.spaces.begin(), found.spaces.end());
  }

  struct hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const
    {
      return std::hash<std::string_view>()(text);
    }
  };

  std::unordered_map<std::string, places, hash, std::equal_to<>> places_;
  std::set<std::string> spaces_;
};

/// An include of ours that a file lacks, or has without using it.
struct include_fault {
  std::string file;
  std::string name;                  // what is used; empty where an include is superfluous
  std::vector<std::string> headers;  // that declare it, or the one that is superfluous
};

inline std::vector<include_fault> include_faults(source_file const& file, name_index const& index)
{
  auto const& [tokens, own] = parsed(file.text);
  std::set<std::string> included;
  for (auto const& [name, quoted] : includes_of(file)) {
    if (is_header(name) && !is_umbrella(name)) { included.insert(name); }
  }

  std::set<std::string> needed;
  std::map<std::string, std::vector<std::string>> lacking;
  auto const is_known = [&](std::string_view name) { return index.find(name) != nullptr; };
  for (used_name const& use : names_used_by(tokens, own, index.spaces(), is_known)) {
    bool satisfied = false;
    std::vector<std::string> from;
    for (auto const& [header, space, forward] : *index.find(use.name)) {
      if (use.space == "detail" && !space.ends_with("::detail")) { continue; }
      if (header == file.path) { satisfied = true; }
      if (forward || header == file.path) { continue; }
      if (included.contains(header)) {
        needed.insert(header);
        satisfied = true;
      }
      if (!is_header(file.path) || floor_of(header) <= floor_of(file.path)) {
        if (!std::ranges::count(from, header)) { from.push_back(header); }
      }
    }
    if (!satisfied && !from.empty()) { lacking.emplace(use.name, from); }
  }

  std::vector<include_fault> faults;
  for (auto const& [name, headers] : lacking) { faults.push_back({file.path, name, headers}); }
  for (std::string const& header : included) {
    // It checks the standard, for every header.
    bool const is_a_check = header == "ballast/core/config.hpp";
    if (!needed.contains(header) && !is_a_check) { faults.push_back({file.path, "", {header}}); }
  }
  return faults;
}

/// Rule 6: headers include what they use of ours, and use what they include. Umbrellas use nothing.
inline problems unclean_includes(std::vector<source_file> const& tree)
{
  name_index const index(tree);
  problems found;
  for (source_file const& file : tree) {
    if (!is_header(file.path) || is_umbrella(file.path)) { continue; }
    for (include_fault const& fault : include_faults(file, index)) {
      std::string headers;
      for (std::string const& header : fault.headers) {
        headers += (headers.empty() ? "<" : " or <") + header + ">";
      }
      found.push_back(fault.name.empty()
                          ? file.path + ": includes " + headers + " and uses nothing of it"
                          : file.path + ": uses " + fault.name + " without " + headers);
    }
  }
  return found;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_OWN_INCLUDES_HPP
