// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "makespan_instances.hpp"
#include "outcome.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace cli {

/// An instance and the file that it is from, with the archive in front of what is in one.
struct named_instance {
  std::string file;
  makespan_instance instance;
};

/// What paths hold: instances in the order of their names within each path, and the names of files
/// in folders and archives that were passed over: they do not begin with a number, as a licence, or
/// are links, pipes and the like.
struct instance_files {
  std::vector<named_instance> instances;
  std::vector<std::string> passed_over;
};

/// Reads files, all files in folders, and archives of any kind that libarchive knows; most_bytes is
/// what may be unpacked from each, see `unpack`.
[[nodiscard]] outcome<instance_files> read_instances(std::vector<std::string> const& paths,
                                                     std::size_t most_bytes);

}  // namespace cli
