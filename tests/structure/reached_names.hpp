// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_REACHED_NAMES_HPP
#define BALLAST_TESTS_STRUCTURE_REACHED_NAMES_HPP

#include "declared_names.hpp"
#include "own_includes.hpp"
#include "source_tree.hpp"
#include "used_names.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace structure {

/// What files reach by their includes, of each other.
class include_graph {
 public:
  explicit include_graph(std::vector<source_file> const& tree)
  {
    for (source_file const& file : tree) { files_.emplace(file.path, &file); }
  }

  /// The file itself, what it includes, what that includes, and so on.
  std::set<std::string> const& reached_from(std::string const& path)
  {
    auto const [found, is_new] = reached_.try_emplace(path);
    if (is_new) {
      std::set<std::string> reached = {path};
      for (auto const& [name, quoted] : includes_of(*files_.at(path))) {
        std::string const included = quoted ? beside(path, name) : name;
        if (files_.contains(included)) { reached.merge(std::set(reached_from(included))); }
      }
      reached_.at(path) = std::move(reached);
    }
    return reached_.at(path);
  }

 private:
  static std::string beside(std::string const& path, std::string const& name)
  {
    return (std::filesystem::path(path).parent_path() / name).lexically_normal().generic_string();
  }

  std::map<std::string, source_file const*> files_;
  std::map<std::string, std::set<std::string>> reached_;
};

/// Names of ours that a test uses, while neither it nor what it includes declares them: it compiles
/// only behind another test of the same translation unit. `tree` has the library, the
/// tests and what they include.
inline problems unreached_names(std::vector<source_file> const& tree)
{
  name_index const index(tree);
  include_graph graph(tree);
  problems found;
  for (source_file const& file : tree) {
    if (!file.path.starts_with("tests/")) { continue; }
    std::set<std::string> const& reached = graph.reached_from(file.path);
    auto const& [tokens, own] = parsed(file.text);
    auto const is_known = [&](std::string_view name) { return index.find(name) != nullptr; };
    std::map<std::string, std::string> missing;
    for (used_name const& use : names_used_by(tokens, own, index.spaces(), is_known)) {
      if (use.space.empty() && !use.name.starts_with("BALLAST_")) { continue; }  // said by `using`
      name_index::places const& places = *index.find(use.name);
      if (std::ranges::none_of(places,
                               [&](auto const& place) { return reached.contains(place.header); })) {
        missing.emplace(use.name, places.front().header);
      }
    }
    for (auto const& [name, header] : missing) {
      found.push_back(
          file.path + ": uses " + name +
          " and includes, itself or through others, no header that declares it, such as " + header);
    }
  }
  return found;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_REACHED_NAMES_HPP
