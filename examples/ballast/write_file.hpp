// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "follow_links.hpp"
#include "unfinished_files.hpp"

#include <ballast/core.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <deque>

namespace cli {

/// A file to write: its path and all that it shall contain.
struct file_content {
  std::string path;
  std::string content;
};

/// A file that is open for writing, or could not be opened; errno says why.
class open_file {
 public:
  open_file(char const* path, int flags, mode_t mode = 0)
  {
    do {
      descriptor_ = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags, mode);
    } while (descriptor_ < 0 && errno == EINTR);
  }
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file()
  {
    if (is_open()) { (void)close(descriptor_); }
  }

  [[nodiscard]] bool is_open() const noexcept { return descriptor_ >= 0; }

  [[nodiscard]] bool give_permissions(mode_t mode) const { return fchmod(descriptor_, mode) == 0; }

  /// Writes all of `content` and closes the file, where a full disk may refuse the last bytes.
  [[nodiscard]] bool finish(std::string_view content)
  {
    while (!content.empty()) {
      auto const written = write(descriptor_, content.data(), content.size());
      if (written < 0 && errno != EINTR) { return false; }
      if (written > 0) { content.remove_prefix(static_cast<std::size_t>(written)); }
    }
    return close(std::exchange(descriptor_, -1)) == 0;
  }

 private:
  int descriptor_ = -1;
};

/// What is at a path, as far as writing there is concerned.
struct write_place {
  std::string path;           ///< of the file that is written, links followed
  bool is_replaced = false;   ///< by a new file; otherwise it is written in place
  bool is_new = true;         ///< there is nothing yet
  bool is_read_only = false;  ///< for everybody, or for this process
  mode_t permissions = 0;     ///< of the file that is there
};

[[nodiscard]] inline write_place place_of(std::string const& path)
{
  struct stat there{};
  struct stat found{};
  write_place place{follow_links(path)};
  place.is_new = stat(path.c_str(), &there) != 0;
  if (place.is_new) {
    // Only a name can be created; the reasons against it are those of creating the temporary file.
    place.is_replaced = errno == ENOENT && !place.path.empty() && place.path.back() != '/';
    return place;
  }
  // A link in /proc is an open file: it may have lost its name, and a new file would not be it.
  place.is_replaced = S_ISREG(there.st_mode) && lstat(place.path.c_str(), &found) == 0 &&
                      there.st_dev == found.st_dev && there.st_ino == found.st_ino;
  place.permissions = there.st_mode & 0777U;
  // The superuser may write what nobody may; but who takes all permissions away means it.
  place.is_read_only =
      S_ISREG(there.st_mode) &&
      ((there.st_mode & 0222U) == 0 || faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0);
  return place;
}

/// A name that nobody else uses, in the folder of `path`. Returns false where the system has no
/// random numbers.
[[nodiscard]] inline bool choose_name_beside(std::string const& path, std::string& name)
{
  std::array<unsigned char, 8> random{};
  if (getentropy(random.data(), random.size()) != 0) { return false; }
  name = path.substr(0, path.find_last_of('/') + 1) + ".ballast-";
  for (unsigned const byte : random) {
    constexpr std::string_view digits = "0123456789abcdef";
    (name += digits[byte >> 4]) += digits[byte & 15U];
  }
  return true;
}

/// Holds new content in temporary files beside the files that it shall replace. The destructor
/// removes those that have not replaced anything.
class staged_files {
 public:
  explicit staged_files(unfinished_files& unfinished) noexcept : unfinished_(unfinished) {}
  staged_files(staged_files const&) = delete;
  staged_files& operator=(staged_files const&) = delete;
  ~staged_files()
  {
    unfinished_.remove();
    while (!names_.empty()) {
      unfinished_.forget_newest();
      names_.pop_back();
    }
  }

  [[nodiscard]] bool add(write_place const& place, std::string_view content)
  {
    while (true) {
      std::string path;
      if (!choose_name_beside(place.path, path)) { return false; }
      // Known before it is there: a signal in between would leave it behind.
      unfinished_.add(names_.emplace_back(unfinished_files::name{std::move(path)}));
      open_file file(names_.back().path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW,
                     place.is_new ? 0666 : 0600);
      if (file.is_open()) {
        return (place.is_new || file.give_permissions(place.permissions)) && file.finish(content);
      }
      int const reason = errno;
      unfinished_.forget_newest();  // it is not ours
      names_.pop_back();
      errno = reason;
      if (reason != EEXIST) { return false; }
    }
  }

  /// Replaces the file whose content was added first; the next call replaces the next one.
  [[nodiscard]] bool replace_next(std::string const& path)
  {
    if (std::rename(names_[replaced_].path.c_str(), path.c_str()) != 0) { return false; }
    ++replaced_;
    return true;
  }

 private:
  unfinished_files& unfinished_;
  std::deque<unfinished_files::name> names_;  // which stay where they are
  std::size_t replaced_ = 0;
};

/// Writes whole files, or leaves the old ones as they were.
///
/// The content is first written to temporary files beside the files that it shall replace. Once all
/// content is written, each is renamed to its `path`. A symbolic link stays, and what it points to
/// is replaced; what has other hard links is replaced under this name alone. What is no plain file
/// (a pipe, /dev/stdout) is written in place, after all temporary files.
///
/// In, out     unfinished names the temporary files while there are any.
/// Expects     the paths lead to different files.
/// Ensures     (1) on success each file holds exactly its content; one that was there keeps its
///                 permissions
///             (2) where some content cannot be written, the plain files are as they were and no
///                 temporary file is left
///             (3) temporary files are new: their names are random, and no file or link that was
///                 there is opened
/// Errors      unwritable, with the reason: a file that is read-only, a missing folder, no
///             permission, a full disk; position is the number of the file, from 0.
[[nodiscard]] inline ballast::result<void> write_files(std::span<file_content const> files,
                                                       unfinished_files& unfinished)
{
  auto const refuse = [&](std::size_t index, std::string_view why) {
    return ballast::fail(ballast::error_code::unwritable, index, "cannot write '",
                         files[index].path, "': ", why);
  };
  std::vector<write_place> places;
  for (std::size_t index = 0; index < files.size(); ++index) {
    places.push_back(place_of(files[index].path));
    if (places.back().is_read_only) {
      return refuse(index, "the file is read-only; allow writing to it or choose another");
    }
  }
  staged_files staged(unfinished);
  auto const for_each = [&](bool is_replaced, auto attempt) -> ballast::result<void> {
    for (std::size_t index = 0; index < files.size(); ++index) {
      if (places[index].is_replaced != is_replaced || attempt(index)) { continue; }
      return refuse(index, std::strerror(errno) +
                               std::string("; choose a folder that exists, may be written and has "
                                           "room"));
    }
    return {};
  };
  auto done =
      for_each(true, [&](std::size_t at) { return staged.add(places[at], files[at].content); });
  if (!done) { return done; }
  done = for_each(false, [&](std::size_t at) {
    open_file file(files[at].path.c_str(), O_TRUNC);
    return file.is_open() && file.finish(files[at].content);
  });
  if (!done) { return done; }
  return for_each(true, [&](std::size_t at) { return staged.replace_next(places[at].path); });
}

/// Writes one file as write_files does.
[[nodiscard]] inline ballast::result<void> write_file(std::string path, std::string content,
                                                      unfinished_files& unfinished)
{
  file_content const file{std::move(path), std::move(content)};
  return write_files({&file, 1}, unfinished);
}

}  // namespace cli
