// SPDX-License-Identifier: Apache-2.0
#include "instance_files.hpp"

#include "archive_files.hpp"
#include "out_of_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {
namespace {

class instance_reader {
 public:
  explicit instance_reader(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Reads one path as the command line names it.
  outcome<void> read(std::string const& path)
  {
    std::error_code problem;
    if (!std::filesystem::is_directory(path, problem)) { return read_file(path, true); }
    std::vector<std::string> inside;
    std::vector<std::string> others;
    for (auto each = std::filesystem::recursive_directory_iterator(path, problem);
         !problem && each != std::filesystem::recursive_directory_iterator();
         each.increment(problem)) {
      std::error_code dangling;  // a link to nothing is no file
      if (each->is_regular_file(dangling)) {
        inside.push_back(each->path().string());
      } else if (each->is_symlink(dangling) || !each->is_directory(dangling)) {
        others.push_back(each->path().string());
      }
    }
    if (problem) {
      return bad_data(
          fmt::format("{}: {}; name a folder that can be read", path, problem.message()));
    }
    std::ranges::sort(inside);
    std::ranges::sort(others);
    files_.passed_over.insert(files_.passed_over.end(), others.begin(), others.end());
    for (std::string const& file : inside) {
      if (auto const done = read_file(file, false); !done) { return done; }
    }
    return {};
  }

  instance_files take() { return std::move(files_); }

 private:
  outcome<void> read_file(std::string const& path, bool named)
  {
    return read_in_memory(path, [&]() -> outcome<void> {
      auto bytes = read_text(path);
      if (!bytes) { return tl::unexpected(bytes.error()); }
      if (may_be_instance(*bytes)) { return add({path, std::move(*bytes)}, named); }
      auto unpacked = unpack(path, *bytes, most_bytes_);
      if (!unpacked) { return tl::unexpected(unpacked.error()); }
      if (!*unpacked) {
        if (named && !is_text(*bytes)) {
          return bad_data(path +
                          ": this is neither text nor an archive that can be unpacked; name a "
                          "file of whole numbers");
        }
        return add({path, std::move(*bytes)}, named);
      }
      std::ranges::sort(**unpacked, {}, &named_text::file);
      for (named_text& file : **unpacked) {
        if (auto const done = add(std::move(file), false); !done) { return done; }
      }
      return {};
    });
  }

  outcome<void> add(named_text file, bool named)
  {
    if (!named && !may_be_instance(file.text)) {
      files_.passed_over.push_back(std::move(file.file));
      return {};
    }
    auto instance = read_makespan_instance(file.text);
    if (!instance) { return bad_data(fmt::format("{}: {}", file.file, instance.error().message)); }
    files_.instances.push_back({std::move(file.file), std::move(*instance)});
    return {};
  }

  std::size_t most_bytes_;
  instance_files files_;
};

}  // namespace

outcome<instance_files> read_instances(std::vector<std::string> const& paths,
                                       std::size_t most_bytes)
{
  instance_reader reader(most_bytes);
  for (std::string const& path : paths) {
    if (auto const done = reader.read(path); !done) { return tl::unexpected(done.error()); }
  }
  instance_files files = reader.take();
  if (files.instances.empty()) {
    return bad_data(
        fmt::format("{}: no file in it is an instance; instances are the number of "
                    "machines, the number of jobs and their times",
                    paths.front()));
  }
  return files;
}

}  // namespace cli
