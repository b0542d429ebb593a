// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "source_tree.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace structure {

/// Whether the header belongs to CUDA, NCCL, NVTX or MPI.
inline bool is_of_a_device_library(std::string_view name)
{
  constexpr auto starts = std::to_array<std::string_view>(
      {"cuda.h", "cuda_", "cuda/", "cub/", "thrust/", "vector_types.h", "vector_functions.h",
       "nccl.h", "nvtx3/", "nvToolsExt.h", "mpi.h"});
  return std::ranges::any_of(starts, [&](auto start) { return name.starts_with(start); });
}

/// Whether the path is where headers of CUDA, NCCL, NVTX and MPI may be included.
inline bool may_need_a_device_library(std::string_view path)
{
  constexpr auto starts = std::to_array<std::string_view>(
      {"ballast/gpu/", "ballast/cuda/", "ballast/comm/mpi", "ballast/comm/detail/mpi_"});
  return std::ranges::any_of(starts, [&](auto start) { return path.starts_with(start); }) ||
         (path.starts_with("ballast/runtime/") && path.ends_with(".cuh"));
}

/// Rule 4: CUDA, NCCL, NVTX and MPI have rooms of their own. Thrust may be adapted to in interop/.
inline problems stray_libraries(std::vector<source_file> const& tree)
{
  problems found;
  for (source_file const& file : tree) {
    if (!is_header(file.path) || may_need_a_device_library(file.path)) { continue; }
    for (auto const& [name, quoted] : includes_of(file)) {
      bool const adapted = file.path.starts_with("ballast/interop/") && name.starts_with("thrust/");
      if (is_of_a_device_library(name) && !adapted) {
        found.push_back(file.path + ": includes <" + name + ">, which this folder may not need");
      }
    }
  }
  return found;
}

/// What headers need by their includes and by those of the headers that they include.
class needs {
 public:
  explicit needs(std::vector<source_file> const& tree)
  {
    for (source_file const& file : tree) {
      if (is_header(file.path)) { files_.emplace(file.path, &file); }
    }
  }

  /// Whether nvcc, or a library of CUDA, NCCL, NVTX or MPI, has to be there.
  bool a_device_library(std::string const& name)
  {
    return name.ends_with(".cuh") || any(name, device_, is_of_a_device_library);
  }

  /// Whether anything has to be there but the standard library, whose headers have neither folder
  /// nor extension, and tl::expected.
  bool more_than_std(std::string const& name)
  {
    return name.ends_with(".cuh") || any(name, beyond_std_, [](std::string_view library) {
             return library != "tl/expected.hpp" &&
                    library.find_first_of("./") != std::string_view::npos;
           });
  }

 private:
  using known = std::map<std::string, bool>;

  template <class Test>
  bool any(std::string const& name, known& answers, Test const& is_wanted)
  {
    auto const header = files_.find(name);
    if (header == files_.end()) { return is_wanted(std::string_view(name)); }
    auto const [answer, is_new] = answers.emplace(name, false);
    if (is_new) {
      for (included const& inner : includes_of(*header->second)) {
        if (any(inner.name, answers, is_wanted)) { answer->second = true; }
      }
    }
    return answer->second;
  }

  std::map<std::string, source_file const*> files_;
  known device_;
  known beyond_std_;
};

}  // namespace structure
