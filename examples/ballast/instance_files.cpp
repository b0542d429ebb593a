// SPDX-License-Identifier: Apache-2.0
#include "instance_files.hpp"

#include <ballast/text/read_file.hpp>

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cli {
namespace {

struct named_text {
  std::string file;
  std::string text;
};

struct archive_closer {
  void operator()(archive* open) const noexcept { (void)archive_read_free(open); }
};

/// The files of an archive; nothing where the bytes are no archive.
outcome<std::optional<std::vector<named_text>>> unpack(std::string const& path,
                                                       std::string const& bytes)
{
  std::unique_ptr<archive, archive_closer> const reader(archive_read_new());
  if (!reader) { throw std::bad_alloc(); }
  archive_read_support_filter_all(reader.get());
  archive_read_support_format_all(reader.get());
  if (archive_read_open_memory(reader.get(), bytes.data(), bytes.size()) != ARCHIVE_OK) {
    return std::nullopt;
  }
  auto const refuse = [&] {
    char const* const reason = archive_error_string(reader.get());
    return bad_data(fmt::format("{}: {}; the archive is damaged or of no known kind", path,
                                reason == nullptr ? "it cannot be unpacked" : reason));
  };
  std::vector<named_text> files;
  archive_entry* entry = nullptr;
  while (true) {
    int const found = archive_read_next_header(reader.get(), &entry);
    if (found == ARCHIVE_EOF) { return files; }
    if (found != ARCHIVE_OK) {
      if (files.empty()) { return std::nullopt; }
      return refuse();
    }
    if (archive_entry_filetype(entry) != AE_IFREG) { continue; }
    char const* const name = archive_entry_pathname(entry);
    named_text& file = files.emplace_back(
        named_text{fmt::format("{}/{}", path, name == nullptr ? "?" : name), {}});
    std::array<char, std::size_t{1} << 16> part;  // filled before it is read
    while (true) {
      auto const size = archive_read_data(reader.get(), part.data(), part.size());
      if (size < 0) { return refuse(); }
      if (size == 0) { break; }
      file.text.append(part.data(), static_cast<std::size_t>(size));
    }
  }
}

bool begins_with_a_number(std::string_view text)
{
  std::size_t const first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] >= '0' && text[first] <= '9';
}

class instance_reader {
 public:
  /// Reads one path as the command line names it.
  outcome<void> read(std::string const& path)
  {
    std::error_code problem;
    if (!std::filesystem::is_directory(path, problem)) { return read_file(path, true); }
    std::vector<std::string> inside;
    for (auto each = std::filesystem::recursive_directory_iterator(path, problem);
         !problem && each != std::filesystem::recursive_directory_iterator();
         each.increment(problem)) {
      std::error_code dangling;  // a link to nothing is no file
      if (each->is_regular_file(dangling)) { inside.push_back(each->path().string()); }
    }
    if (problem) {
      return bad_data(
          fmt::format("{}: {}; name a folder that can be read", path, problem.message()));
    }
    std::ranges::sort(inside);
    for (std::string const& file : inside) {
      if (auto const done = read_file(file, false); !done) { return done; }
    }
    return {};
  }

  instance_files take() { return std::move(files_); }

 private:
  outcome<void> read_file(std::string const& path, bool named)
  {
    auto bytes = ballast::read_file(path);
    if (!bytes) { return bad_data(bytes.error().message); }
    if (begins_with_a_number(*bytes)) { return add({path, std::move(*bytes)}, named); }
    auto unpacked = unpack(path, *bytes);
    if (!unpacked) { return tl::unexpected(unpacked.error()); }
    if (!*unpacked) { return add({path, std::move(*bytes)}, named); }
    std::ranges::sort(**unpacked, {}, &named_text::file);
    for (named_text& file : **unpacked) {
      if (auto const done = add(std::move(file), false); !done) { return done; }
    }
    return {};
  }

  outcome<void> add(named_text file, bool named)
  {
    if (!named && !begins_with_a_number(file.text)) {
      files_.passed_over.push_back(std::move(file.file));
      return {};
    }
    auto instance = read_makespan_instance(file.text);
    if (!instance) { return bad_data(fmt::format("{}: {}", file.file, instance.error().message)); }
    files_.instances.push_back({std::move(file.file), std::move(*instance)});
    return {};
  }

  instance_files files_;
};

}  // namespace

outcome<instance_files> read_instances(std::vector<std::string> const& paths)
{
  instance_reader reader;
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
