// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "names.hpp"
#include "source_tree.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
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

/// "ballast/core/quantities.hpp" is on "core", "ballast/version.hpp" on its own.
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

/// The umbrella that every header includes.
inline bool is_prelude(std::string_view path)
{
  return path == "ballast/core.hpp";
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
    } else if (is_umbrella(name) && (!is_prelude(name) || floor_name(header.path) == "core")) {
      found.push_back(header.path + ": includes <" + name + ">, an umbrella on a lower floor");
    } else if (!is_prelude(name) && floor_of(name) > own) {
      found.push_back(header.path + ": includes <" + name + ">, which is on a lower floor");
    }
  }
  return found;
}

/// Whether other floors may use the internals of a floor.
inline bool lends_internals(std::string_view floor)
{
  return floor == "core" || floor == "text";
}

/// Rule 6, by names: the internals of a floor are its own, but for those of core and text. A header
/// may be on any floor, a test in a folder of tests/; other files have no floor.
inline problems borrowed_internals(std::vector<source_file> const& headers,
                                   std::vector<source_file> const& users)
{
  std::map<std::string, std::set<std::string>> owners;  // floors, by the internal name
  for (source_file const& header : headers) {
    for (auto const& [name, internal] : declarations_of(header)) {
      if (internal) { owners["detail::" + name].insert(std::string(floor_name(header.path))); }
    }
  }
  // Tests of what needs MPI, NCCL or LibTorch, or several ranks, have folders of their own.
  static std::map<std::string, std::set<std::string>> const tested_by = {
      {"comm", {"threads", "mpi", "survivors"}},
      {"gpu", {"nccl", "device"}},
      {"cuda", {"nccl", "device"}},
      {"interop", {"torch"}},
      {"route", {"cuda", "nccl", "device"}},
      {"runtime", {"cuda", "mpi", "nccl", "device"}}};
  problems found;
  for (source_file const& user : users) {
    std::string const folder(user.path.substr(0, user.path.find('/')));
    std::string const own(is_header(user.path) ? floor_name(user.path) : folder);
    for (std::string const& word : words_of(user)) {
      auto const floors_of_it = owners.find(word);
      if (floors_of_it == owners.end()) { continue; }
      bool const may = std::ranges::any_of(floors_of_it->second, [&](std::string const& floor) {
        auto const tests = tested_by.find(floor);
        return floor == own || lends_internals(floor) ||
               (tests != tested_by.end() && tests->second.contains(own));
      });
      if (!may) {
        found.push_back(user.path + ": names " + word + " of floor " +
                        *floors_of_it->second.begin());
      }
    }
  }
  return found;
}

}  // namespace structure
