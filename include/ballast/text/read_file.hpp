// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_READ_FILE_HPP
#define BALLAST_TEXT_READ_FILE_HPP

#include <ballast/core/result.hpp>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>

namespace ballast::inline v0 {

/// All bytes of a file.
///
/// Errors      unreadable, with the path and the system's reason: there is no such file, it is a
///             directory, or its permissions forbid reading.
/// Complexity  O(bytes).
[[nodiscard]] inline result<std::string> read_file(std::string const& path)
{
  auto const refuse = [&path](int reason) {
    return fail(
        error_code::unreadable, 0,
        path + ": " + std::generic_category().message(reason) + "; name a file that can be read");
  };
  struct closer {
    void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
  };
  errno = 0;
  std::unique_ptr<std::FILE, closer> const file(std::fopen(path.c_str(), "rb"));
  if (!file) { return refuse(errno); }

  std::string bytes;
  std::array<char, 1 << 16> chunk;  // filled by fread before it is read
  while (std::size_t const read = std::fread(chunk.data(), 1, chunk.size(), file.get())) {
    bytes.append(chunk.data(), read);
  }
  // A directory opens as if it were a file and fails here.
  if (std::ferror(file.get()) != 0) { return refuse(errno); }
  return bytes;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_TEXT_READ_FILE_HPP
