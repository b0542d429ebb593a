// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace cli {

/// The path at the end of a chain of symbolic links, so that a file can be replaced without
/// replacing a link to it.
///
/// Ensures     (1) a path that is no link is returned as it is
///             (2) the file at the end need not exist
///             (3) links in /proc and /dev/fd, where /dev/stdout leads, are not followed: they are
///                 open files, which a new file of the same name would not reach
///             (4) chains of links that are longer than 40, or go in a circle, end at a link
[[nodiscard]] inline std::string follow_links(std::string path)
{
  constexpr int most_links = 40;  // as Linux has it
  for (int links = 0; links < most_links; ++links) {
    if (path.starts_with("/proc/") || path.starts_with("/dev/fd/")) { break; }
    std::array<char, 4096> buffer;  // written before it is read
    auto const size = readlink(path.c_str(), buffer.data(), buffer.size());
    if (size <= 0 || static_cast<std::size_t>(size) == buffer.size()) { break; }
    std::string_view const target(buffer.data(), static_cast<std::size_t>(size));
    if (target.starts_with('/')) {
      path = target;
    } else {
      path.replace(path.find_last_of('/') + 1, std::string::npos, target);
    }
  }
  return path;
}

}  // namespace cli
