// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_UMBRELLAS_HPP
#define BALLAST_TESTS_STRUCTURE_UMBRELLAS_HPP

#include "floors.hpp"
#include "libraries.hpp"
#include "source_tree.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// Umbrellas include each door of their floor that needs neither nvcc nor CUDA, NCCL or MPI, and
/// nothing else; ballast.hpp includes doors that need only std. Internals are another rule's.
inline problems wrong_umbrellas(std::vector<source_file> const& tree)
{
  constexpr auto bare =
      std::to_array<std::string_view>({"version.hpp", "gpu", "cuda", "by_name", "interop"});
  needs need(tree);
  std::map<std::string, std::set<std::string>> doors;  // by umbrella
  std::set<std::string> headers;
  for (source_file const& file : tree) {
    if (!is_header(file.path)) { continue; }
    headers.insert(file.path);
    bool const is_door = !is_internal(file.path) && !is_umbrella(file.path) &&
                         !std::ranges::count(bare, floor_name(file.path));
    if (is_door && !need.a_device_library(file.path)) {
      doors["ballast/" + std::string(floor_name(file.path)) + ".hpp"].insert(file.path);
    }
  }

  problems found;
  for (source_file const& file : tree) {
    if (!is_umbrella(file.path)) { continue; }
    auto const report = [&](std::string const& what) { found.push_back(file.path + ": " + what); };
    bool const main = file.path == "ballast/ballast.hpp";
    auto const wanted = doors.extract(file.path);
    if (!main && !wanted) { report("is of a floor without an umbrella"); }
    std::set<std::string> lacking = wanted ? wanted.mapped() : std::set<std::string>();
    for (auto const& [name, quoted] : includes_of(file)) {
      if (!headers.contains(name)) {
        report("includes unknown " + name);
      } else if (main && need.more_than_std(name)) {
        report("includes " + name + ", which needs more than std");
      } else if (wanted && !wanted.mapped().contains(name) && !is_internal(name)) {
        report("includes " + name + ", which is no door of its floor that all can include");
      }
      lacking.erase(name);
    }
    for (std::string const& door : lacking) { report("lacks " + door); }
  }
  for (auto const& [umbrella, unused] : doors) { found.push_back(umbrella + ": is not there"); }
  return found;
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_UMBRELLAS_HPP
