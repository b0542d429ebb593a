// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

#include <cerrno>
#include <memory>
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

/// What a reader of text makes of the file at `path`, with the path in front of an error's message:
/// `read_file(path, read_length_trace, "text_tokens")` returns what `read_length_trace` does.
///
/// Errors      those of `read`, and unreadable as above.
template <class Read, class... Arguments>
  requires std::invocable<Read const&, std::string_view, Arguments const&...>
[[nodiscard]] auto read_file(std::string const& path, Read const& read,
                             Arguments const&... arguments)
    -> std::invoke_result_t<Read const&, std::string_view, Arguments const&...>
{
  auto const text = read_file(path);
  if (!text) { return tl::unexpected(text.error()); }
  auto made = read(std::string_view(*text), arguments...);
  if (!made) { made.error().message.insert(0, path + ": "); }
  return made;
}

}  // namespace ballast::inline v0
