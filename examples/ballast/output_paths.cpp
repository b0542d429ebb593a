// SPDX-License-Identifier: Apache-2.0
#include "output_paths.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace cli {

outcome<void> check_paths(std::vector<file_option> read, std::vector<file_option> const& written)
{
  std::vector<file_option>& taken = read;
  for (auto const& [name, path] : written) {
    if (path->empty()) { continue; }
    std::error_code ignored;
    auto const place = [&](std::string const& file) {
      return std::filesystem::weakly_canonical(file, ignored);
    };
    bool const device = std::filesystem::exists(*path, ignored) &&
                        !std::filesystem::is_regular_file(*path, ignored);
    for (auto const& [other, file] : taken) {
      if (!device && !file->empty() && place(*file) == place(*path)) {
        return usage(fmt::format("{} and {} name the same file, {}; choose another for {}", other,
                                 name, *path, name));
      }
    }
    taken.emplace_back(name, path);
  }
  return {};
}

}  // namespace cli
