// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace structure {

/// A file of the repository; checks take these, so that they can be tried on files that never were.
struct source_file {
  std::string path;  // from the folder it was read under, with '/'
  std::string text;
};

/// What is wrong, as lines a person can act on; empty when nothing is.
using problems = std::vector<std::string>;

inline std::filesystem::path root()
{
  return BALLAST_SOURCE_DIR;
}

inline std::string read(std::filesystem::path const& path)
{
  std::ifstream file(path, std::ios::binary);
  if (!file) { throw std::runtime_error("cannot read " + path.string()); }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// All files under `folder` with one of the extensions, by path.
inline std::vector<source_file> read_tree(std::filesystem::path const& folder,
                                          std::vector<std::string> const& extensions)
{
  std::vector<source_file> files;
  if (!std::filesystem::exists(folder)) { return files; }
  for (auto const& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::string const extension = entry.path().extension().string();
    if (!entry.is_regular_file() || !std::ranges::count(extensions, extension)) { continue; }
    files.push_back({entry.path().lexically_relative(folder).generic_string(), read(entry.path())});
  }
  std::ranges::sort(files, {}, &source_file::path);
  return files;
}

/// Whether the path is one of ours, as it is included.
inline bool is_header(std::string_view path)
{
  return path.starts_with("ballast/");
}

/// Whether a header lies under a folder of internals.
inline bool is_internal(std::string_view path)
{
  return path.find("/detail/") != std::string_view::npos;
}

/// The public headers, with paths as they are included: "ballast/core/quantities.hpp".
inline std::vector<source_file> public_headers()
{
  return read_tree(root() / "include", {".hpp", ".cuh"});
}

/// The pages at the top and under docs/, with paths from the root, but for the CHANGELOG, which may
/// name what is gone.
inline std::vector<source_file> pages()
{
  auto all = read_tree(root() / "docs", {".md"});
  for (source_file& page : all) { page.path.insert(0, "docs/"); }
  for (auto const& entry : std::filesystem::directory_iterator(root())) {
    if (entry.path().extension() == ".md" && entry.path().stem() != "CHANGELOG") {
      all.push_back({entry.path().filename().string(), read(entry.path())});
    }
  }
  return all;
}

/// The public headers, as public_headers() has them, and what others read and build: pages,
/// examples, and CMake's files, with paths from the root. CONTRIBUTING is for who works on the
/// library.
inline std::vector<source_file> whole_tree()
{
  auto all = public_headers();
  std::ranges::move(pages(), std::back_inserter(all));
  std::erase_if(all, [](source_file const& file) { return file.path == "CONTRIBUTING.md"; });
  for (std::string const folder : {"examples", "cmake"}) {
    for (source_file& file : read_tree(
             root() / folder, {".cpp", ".hpp", ".cu", ".cuh", ".txt", ".cmake", ".in", ".sh"})) {
      all.push_back({folder + "/" + file.path, std::move(file.text)});
    }
  }
  all.push_back({"CMakeLists.txt", read(root() / "CMakeLists.txt")});
  return all;
}

inline std::vector<std::string> lines_of(std::string_view text)
{
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) { lines.push_back(line); }
  return lines;
}

struct included {
  std::string name;
  bool quoted;  // "name", not <name>
};

inline std::vector<included> includes_of(source_file const& file)
{
  constexpr std::string_view directive = "#include ";
  std::vector<included> all;
  for (std::string const& line : lines_of(file.text)) {
    if (!line.starts_with(directive) || line.size() < directive.size() + 2) { continue; }
    bool const quoted = line[directive.size()] == '"';
    std::size_t const first = directive.size() + 1;
    std::size_t const last = line.find(quoted ? '"' : '>', first);
    all.push_back({line.substr(first, last - first), quoted});
  }
  return all;
}

/// The macros that a header defines.
inline std::vector<std::string> macros_defined_by(source_file const& header)
{
  std::vector<std::string> macros;
  for (std::string const& line : lines_of(header.text)) {
    std::size_t const sign = line.find_first_not_of(' ');
    if (sign == line.npos || line[sign] != '#') { continue; }
    std::istringstream words(line.substr(sign + 1));
    std::string directive;
    std::string name;
    words >> directive >> name;
    name = name.substr(0, name.find('('));
    if (directive == "define") { macros.push_back(name); }
  }
  return macros;
}

}  // namespace structure
