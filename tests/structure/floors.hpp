// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "source_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// From the top of the house down: a floor stands on those before it.
inline constexpr auto floors = std::to_array<std::string_view>(
    {"version.hpp", "core", "text", "workload", "cost", "topology", "partition", "sharding",
     "pipeline", "parallelism", "comm", "gpu", "route", "cuda", "runtime", "report", "interop"});

inline constexpr std::size_t umbrella_floor = floors.size();
inline constexpr std::size_t no_floor = floors.size() + 1;

/// "ballast/core/ids.hpp" is on "core", "ballast/version.hpp" on its own.
inline std::string_view floor_name(std::string_view path)
{
  path.remove_prefix(std::string_view("ballast/").size());
  return path.substr(0, path.find('/'));
}

/// The floor's number from the top.
inline std::size_t floor_of(std::string_view path)
{
  std::string_view name = floor_name(path);
  auto const found = std::ranges::find(floors, name);
  if (found != floors.end()) { return static_cast<std::size_t>(found - floors.begin()); }
  if (name == "ballast.hpp") { return umbrella_floor; }
  if (!name.ends_with(".hpp")) { return no_floor; }
  name.remove_suffix(4);
  return std::ranges::find(floors, name) != floors.end() ? umbrella_floor : no_floor;
}

inline bool is_umbrella(std::string_view path)
{
  return is_header(path) && floor_of(path) == umbrella_floor;
}

/// Rule 5: a header includes headers of its own floor and of the floors above; an umbrella is
/// included by no header.
inline problems upward_includes(source_file const& header)
{
  problems found;
  std::size_t const own = floor_of(header.path);
  if (own == no_floor) { found.push_back(header.path + ": is on no known floor"); }
  for (auto const& [name, quoted] : includes_of(header)) {
    bool const ends_the_compilation = name.find(' ') != std::string::npos;  // there is no such file
    if (ends_the_compilation) { continue; }
    if (quoted) {
      found.push_back(header.path + ": includes \"" + name + "\"; write <ballast/...>");
    } else if (!is_header(name)) {
      continue;
    } else if (is_umbrella(name)) {
      found.push_back(header.path + ": includes <" + name + ">, an umbrella on a lower floor");
    } else if (floor_of(name) > own) {
      found.push_back(header.path + ": includes <" + name + ">, which is on a lower floor");
    }
  }
  return found;
}

/// Whether headers of other floors may include the internals of a header's floor.
inline bool lends_internals(std::string_view path)
{
  return floor_name(path) == "core" || floor_name(path) == "text";
}

/// Rule 6: the internals of a floor are its own, but for those of core and text.
inline problems borrowed_internals(source_file const& header)
{
  problems found;
  for (auto const& [name, quoted] : includes_of(header)) {
    if (is_header(name) && is_internal(name) && !lends_internals(name) &&
        floor_name(name) != floor_name(header.path)) {
      found.push_back(header.path + ": includes <" + name + ">, an internal of another floor");
    }
  }
  return found;
}

}  // namespace structure
