// SPDX-License-Identifier: Apache-2.0
#include "output_paths.hpp"

#include "follow_links.hpp"
#include "notes.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

/// What tells files apart, however their paths are written: device and inode, and for a file that
/// is not there yet those of its folder, and its name.
struct identity {
  dev_t device = 0;
  ino_t inode = 0;
  std::string name;  ///< empty where the file is there
  bool is_plain = true;
  bool is_pipe = false;
  bool is_device = false;

  [[nodiscard]] bool is_same_file(identity const& other) const
  {
    return device == other.device && inode == other.inode && name == other.name;
  }
};

identity identity_of(struct stat const& there)
{
  return {there.st_dev,
          there.st_ino,
          {},
          S_ISREG(there.st_mode),
          S_ISFIFO(there.st_mode),
          S_ISCHR(there.st_mode) || S_ISBLK(there.st_mode)};
}

/// Nothing where not even the folder is there: reading or writing such a path fails by itself.
std::optional<identity> identity_of(std::string const& path)
{
  struct stat there{};
  if (stat(path.c_str(), &there) == 0) { return identity_of(there); }
  std::string const end = follow_links(path);
  std::size_t const name = end.find_last_of('/') + 1;
  if (stat(name == 0 ? "." : end.substr(0, name).c_str(), &there) != 0) { return std::nullopt; }
  return identity{there.st_dev, there.st_ino, end.substr(name)};
}

/// Whether a file ends inside a line, as one does that was cut.
bool is_open_at_the_end(std::string const& path)
{
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || file.tellg() <= 0) { return false; }
  file.seekg(-1, std::ios::end);
  return file.get() != '\n';
}

struct named_file {
  std::string_view name;
  identity file;
};

}  // namespace

outcome<void> check_paths(std::vector<file_option> const& read,
                          std::vector<file_option> const& written)
{
  std::vector<named_file> inputs;
  std::string_view reader;  // of standard input
  for (auto const& [name, path] : read) {
    if (path->empty()) { continue; }
    if (*path == "-") {
      return usage(fmt::format(
          "{}: '-' is no file; give /dev/stdin for standard input, or ./- for a file of this name",
          name));
    }
    if (*path == standard_input) {
      if (!reader.empty()) {
        return usage(fmt::format("{} and {} both read standard input; name a file for {}", reader,
                                 name, name));
      }
      reader = name;
    }
    auto const file = identity_of(*path);
    if (!file) { continue; }
    if (file->is_device) {
      return usage(fmt::format("{}: {} is a device; name a file", name, *path));
    }
    if (file->is_plain && name.starts_with("--") && is_open_at_the_end(*path)) {
      notes().push_back(fmt::format(
          "{}: the last line of {} has no end, as in a file that was cut; end it with a newline "
          "if it is whole",
          name, *path));
    }
    inputs.push_back({name, *file});
  }
  auto const refuse = [](std::string_view first, std::string_view second, std::string const& path) {
    return usage(fmt::format("{} and {} name the same file{}; choose another for {}", first, second,
                             path.empty() ? "" : ", " + path, second));
  };
  std::vector<named_file> outputs;
  struct stat standard{};
  if (fstat(STDOUT_FILENO, &standard) == 0) {
    constexpr std::string_view name = "standard output";
    identity const file = identity_of(standard);
    for (named_file const& input : inputs) {
      if (file.is_plain && file.is_same_file(input.file)) { return refuse(input.name, name, ""); }
    }
    outputs.push_back({name, file});
  }
  for (auto const& [name, path] : written) {
    if (*path == "-" && name != "--plan") {
      return usage(fmt::format(
          "{}: '-' is standard output for --plan alone; name a file, or ./- for one of this name",
          name));
    }
    auto const file = path->empty() || *path == "-" ? std::nullopt : identity_of(*path);
    if (!file) { continue; }
    for (named_file const& input : inputs) {
      if ((file->is_plain || file->is_pipe) && file->is_same_file(input.file)) {
        return refuse(input.name, name, *path);
      }
    }
    for (named_file const& output : outputs) {
      if (file->is_plain && file->is_same_file(output.file)) {
        return refuse(output.name, name, *path);
      }
    }
    outputs.push_back({name, *file});
  }
  return {};
}

}  // namespace cli
