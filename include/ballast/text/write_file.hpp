// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_WRITE_FILE_HPP
#define BALLAST_TEXT_WRITE_FILE_HPP

#include <ballast/core/result.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace ballast::inline v0 {

/// A file to write: its path and all that it shall contain.
struct file_content {
  std::string path;
  std::string content;
};

namespace detail {

/// Whether a new file may take the place of what is at `path`: a plain file, or nothing.
[[nodiscard]] inline bool is_replaceable(std::string const& path)
{
  std::error_code ignored;
  auto const kind = std::filesystem::symlink_status(path, ignored).type();
  return kind == std::filesystem::file_type::regular ||
         kind == std::filesystem::file_type::not_found;
}

/// Writes all of `content` and closes `file`, which is null where it could not be opened. Returns
/// whether all of this succeeded; where it did not, errno says why.
[[nodiscard]] inline bool write_and_close(std::FILE* file, std::string_view content)
{
  if (file == nullptr) { return false; }
  bool const written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  int const reason = errno;
  // A full disk may refuse the last bytes only here.
  bool const closed = std::fclose(file) == 0;
  if (!written) { errno = reason; }
  return written && closed;
}

/// Holds new content in ".part" files beside the files that it shall replace. The destructor
/// removes those ".part" files that have not replaced anything.
class staged_files {
 public:
  staged_files() = default;
  staged_files(staged_files const&) = delete;
  staged_files& operator=(staged_files const&) = delete;
  ~staged_files()
  {
    for (std::string const& path : paths_) { std::remove(part_of(path).c_str()); }
  }

  [[nodiscard]] bool add(std::string const& path, std::string_view content)
  {
    std::FILE* const file = std::fopen(part_of(path).c_str(), "wb");
    if (file != nullptr) { paths_.push_back(path); }
    return write_and_close(file, content);
  }

  /// Replaces the file whose content was added first; the next call replaces the next one.
  [[nodiscard]] bool replace_next()
  {
    std::string const& path = paths_.front();
    if (std::rename(part_of(path).c_str(), path.c_str()) != 0) { return false; }
    paths_.pop_front();
    return true;
  }

 private:
  [[nodiscard]] static std::string part_of(std::string const& path) { return path + ".part"; }

  std::deque<std::string> paths_;
};

}  // namespace detail

/// Writes whole files, or leaves the old ones as they were.
///
/// The content is first written to `path` + ".part". Once all content is written, each ".part" file
/// is renamed to its `path`. What is not a plain file (a pipe, a link, /dev/stdout) cannot be
/// replaced like this: it is written in place, after all ".part" files.
///
/// Expects     the paths and their ".part" files are all different files.
/// Ensures     (1) on success each file holds exactly its content
///             (2) where some content cannot be written, the plain files are as they were and no
///                 ".part" file is left
/// Errors      unwritable, with the system's reason: a missing folder, no permission, a full disk;
///             position is the number of the file, from 0.
[[nodiscard]] inline result<void> write_files(std::span<file_content const> files)
{
  detail::staged_files staged;
  std::vector<bool> replaces;
  for (auto const& file : files) { replaces.push_back(detail::is_replaceable(file.path)); }
  auto const for_each = [&](bool replaceable, auto write) -> result<void> {
    for (std::size_t index = 0; index < files.size(); ++index) {
      errno = 0;
      if (replaces[index] != replaceable || write(files[index])) { continue; }
      std::string const reason = std::strerror(errno);
      return fail(error_code::unwritable, index,
                  "cannot write '" + files[index].path + "': " + reason +
                      "; choose a folder that exists, may be written and has room");
    }
    return {};
  };
  auto done =
      for_each(true, [&](file_content const& file) { return staged.add(file.path, file.content); });
  if (!done) { return done; }
  done = for_each(false, [](file_content const& file) {
    return detail::write_and_close(std::fopen(file.path.c_str(), "wb"), file.content);
  });
  if (!done) { return done; }
  return for_each(true, [&](file_content const&) { return staged.replace_next(); });
}

/// Writes one file as write_files does.
[[nodiscard]] inline result<void> write_file(std::string path, std::string content)
{
  file_content const file{std::move(path), std::move(content)};
  return write_files({&file, 1});
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TEXT_WRITE_FILE_HPP
