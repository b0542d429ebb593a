// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_REPORT_WRITE_FILE_HPP
#define BALLAST_REPORT_WRITE_FILE_HPP

#include <ballast/core/result.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace ballast::inline v0 {

/// Writes a whole file, or leaves what was there.
///
/// The content goes to `path` + ".part" first, which then takes the name. What is not a plain file
/// (a pipe, a link, /dev/stdout) cannot be replaced in this way and is written in place.
///
/// Ensures     (1) on success the file holds exactly `content`
///             (2) on failure a plain file at `path` is as it was, and no ".part" is left
/// Errors      unwritable, with the system's reason: a missing folder, no permission, a full disk.
[[nodiscard]] inline result<void> write_file(std::string const& path, std::string_view content)
{
  std::error_code ignored;
  auto const kind = std::filesystem::symlink_status(path, ignored).type();
  bool const replaces =
      kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
  std::string const target = replaces ? path + ".part" : path;

  errno = 0;
  std::FILE* const file = std::fopen(target.c_str(), "wb");
  bool written = file != nullptr;
  if (file != nullptr) {
    written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
    int const reason = errno;
    // The last bytes for a full disk are refused only here.
    if (std::fclose(file) == 0) {
      errno = reason;
    } else {
      written = false;
    }
  }
  if (written && replaces) { written = std::rename(target.c_str(), path.c_str()) == 0; }
  if (written) { return {}; }

  std::string const reason = std::strerror(errno);
  if (replaces && file != nullptr) { std::remove(target.c_str()); }
  return fail(error_code::unwritable, 0,
              "cannot write '" + path + "': " + reason +
                  "; choose a folder that exists, may be written and has room");
}

}  // namespace ballast::inline v0

#endif  // BALLAST_REPORT_WRITE_FILE_HPP
