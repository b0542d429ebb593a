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

/// A file as it shall be.
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

/// Writes all of `content` and closes `file`, which may be null where opening failed. Where it
/// answers false, errno says why.
[[nodiscard]] inline bool write_and_close(std::FILE* file, std::string_view content)
{
  if (file == nullptr) { return false; }
  bool const written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  int const reason = errno;
  // The last bytes for a full disk are refused only here.
  bool const closed = std::fclose(file) == 0;
  if (!written) { errno = reason; }
  return written && closed;
}

/// New content beside the files that it is for, gone again unless it took their places.
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

  /// Gives the content added first its place, then that added next.
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

/// Writes whole files, or leaves what was there.
///
/// The content goes to `path` + ".part" first, which then takes the name once all content is
/// written. What is not a plain file (a pipe, a link, /dev/stdout) cannot be replaced in this way
/// and is written in place, after all ".part"s.
///
/// Expects     the paths and their ".part"s name different files.
/// Ensures     (1) on success each file holds exactly its content
///             (2) where some content cannot be written, the plain files are as they were; no
///                 ".part" is left
/// Errors      unwritable, with the system's reason: a missing folder, no permission, a full disk;
///             position is that of the file.
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
