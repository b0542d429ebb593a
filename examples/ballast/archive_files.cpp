// SPDX-License-Identifier: Apache-2.0
#include "archive_files.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>
#include <locale.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {
namespace {

struct archive_closer {
  void operator()(archive* open) const noexcept { (void)archive_read_free(open); }
};

/// While it exists, libarchive can name members in UTF-8 on this thread: in the "C" locale, in
/// which every program starts, it finds no name for those of zip archives outside ASCII.
class utf8_names {
 public:
  utf8_names() : locale_(newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr))
  {
    if (locale_ != nullptr) { before_ = uselocale(locale_); }
  }
  utf8_names(utf8_names const&) = delete;
  utf8_names& operator=(utf8_names const&) = delete;
  ~utf8_names()
  {
    if (locale_ == nullptr) { return; }
    (void)uselocale(before_);
    freelocale(locale_);
  }

 private:
  locale_t locale_;
  locale_t before_ = nullptr;
};

/// All kinds that hold files. Not archive_read_support_filter_all and its like: of those, mtree
/// lists paths and brings the content of any file or pipe of this machine, and some filters run
/// programs.
void support_archives(archive* reader)
{
  for (auto* const support :
       {archive_read_support_filter_bzip2, archive_read_support_filter_compress,
        archive_read_support_filter_gzip,  archive_read_support_filter_lz4,
        archive_read_support_filter_lzip,  archive_read_support_filter_lzma,
        archive_read_support_filter_xz,    archive_read_support_filter_zstd,
        archive_read_support_format_7zip,  archive_read_support_format_ar,
        archive_read_support_format_cab,   archive_read_support_format_cpio,
        archive_read_support_format_empty, archive_read_support_format_iso9660,
        archive_read_support_format_lha,   archive_read_support_format_rar,
        archive_read_support_format_rar5,  archive_read_support_format_tar,
        archive_read_support_format_xar,   archive_read_support_format_zip}) {
    (void)support(reader);  // fails where libarchive was built without it
  }
}

std::size_t first_visible(std::string_view text)
{
  return std::min(text.find_first_not_of(" \t\r\n"), text.size());
}

/// Unpacks one archive, member by member.
class unpacking {
 public:
  unpacking(std::string const& path, std::string const& bytes, std::size_t most_bytes)
      : path_(path), bytes_(bytes), given_(most_bytes), reader_(archive_read_new())
  {
    if (!reader_) { throw std::bad_alloc(); }
    constexpr std::size_t usual_ratio = 100;
    constexpr std::size_t least = std::size_t{1} << 24;
    constexpr std::size_t most = std::size_t{1} << 30;
    left_ =
        given_ != 0 ? given_ : std::clamp(std::min(bytes.size(), most) * usual_ratio, least, most);
    allowed_ = left_;
  }

  outcome<std::optional<std::vector<named_text>>> run()
  {
    archive* const reader = reader_.get();
    support_archives(reader);
    if (archive_read_open_memory(reader, bytes_.data(), bytes_.size()) != ARCHIVE_OK) {
      return nothing_or_refusal();
    }
    std::vector<named_text> files;
    while (true) {
      archive_entry* entry = nullptr;
      int const found = archive_read_next_header(reader, &entry);
      if (found == ARCHIVE_EOF) { return files; }
      // A warning is about the entry, as a name that this locale cannot write.
      if (found != ARCHIVE_OK && found != ARCHIVE_WARN) { return nothing_or_refusal(); }
      named_text file{fmt::format("{}/{}", path_, name_of(entry)), {}};
      bool const is_folder = archive_entry_filetype(entry) == AE_IFDIR;
      // Hard links have the type of a plain file, or none. Only in some kinds of archives one of
      // them has the content, which need not be the first.
      bool const is_plain =
          archive_entry_filetype(entry) == AE_IFREG || archive_entry_hardlink(entry) != nullptr;
      // Without content an entry takes memory too.
      if (!take(sizeof(file) + file.file.size())) { return too_much(); }
      if (auto read = read_into(file.text, is_plain); !read) {
        return tl::unexpected(read.error());
      }
      if (!is_folder) { files.push_back(std::move(file)); }
    }
  }

 private:
  /// UTF-8 where the archive says so; otherwise the bytes that it has.
  static std::string name_of(archive_entry* entry)
  {
    for (auto* const name_in : {archive_entry_pathname_utf8, archive_entry_pathname}) {
      if (char const* const name = name_in(entry)) { return name; }
    }
    return "?";
  }

  /// Counts bytes; false where they are too many.
  bool take(std::size_t bytes)
  {
    if (bytes > left_) { return false; }
    left_ -= bytes;
    return true;
  }

  /// Reads the content of an entry to its end, since what is skipped is unpacked as well, and keeps
  /// it where it may be an instance.
  outcome<void> read_into(std::string& text, bool is_plain)
  {
    bool kept = is_plain;
    bool begun = false;                           // something visible has been read
    std::array<char, std::size_t{1} << 16> part;  // filled before it is read
    while (true) {
      auto const size = archive_read_data(reader_.get(), part.data(), part.size());
      if (size < 0) { return refusal(); }
      if (size == 0) { break; }
      std::string_view const next(part.data(), static_cast<std::size_t>(size));
      if (!take(next.size())) { return too_much(); }
      if (!begun && first_visible(next) != next.size()) {
        begun = true;
        kept = kept && may_be_instance(next);
      }
      if (kept) {
        text += next;
      } else {
        text = std::string();  // blanks before it
      }
    }
    return {};
  }

  /// What libarchive says, or that there is no archive: it found neither a kind nor a compression.
  [[nodiscard]] outcome<std::optional<std::vector<named_text>>> nothing_or_refusal()
  {
    bool const known =
        archive_format(reader_.get()) != 0 || archive_filter_count(reader_.get()) > 1;
    if (!known && archive_errno(reader_.get()) != ENOMEM) { return std::nullopt; }
    return refusal();
  }

  [[nodiscard]] tl::unexpected<failure> refusal()
  {
    if (archive_errno(reader_.get()) == ENOMEM) { throw std::bad_alloc(); }
    char const* const reason = archive_error_string(reader_.get());
    return bad_data(fmt::format("{}: {}; the archive is damaged or of no known kind", path_,
                                reason == nullptr ? "it cannot be unpacked" : reason));
  }

  [[nodiscard]] tl::unexpected<failure> too_much() const
  {
    return bad_data(
        fmt::format("{}: the archive has {} bytes, and what is in it takes more than the {} that "
                    "{}; unpack it, "
                    "or allow more by --most-bytes",
                    path_, bytes_.size(), allowed_,
                    given_ != 0 ? "--most-bytes allows" : "are read of such an archive"));
  }

  std::string const& path_;
  std::string const& bytes_;
  std::size_t given_;
  std::size_t allowed_ = 0;
  std::size_t left_ = 0;
  utf8_names names_;
  std::unique_ptr<archive, archive_closer> reader_;
};

}  // namespace

bool is_text(std::string_view bytes)
{
  constexpr std::size_t most_looked_at = 512;
  return std::ranges::all_of(bytes.substr(0, most_looked_at), [](unsigned char byte) {
    return byte >= 0x20 ? byte != 0x7f : byte >= '\t' && byte <= '\r';
  });
}

bool may_be_instance(std::string_view bytes)
{
  std::size_t const first = first_visible(bytes);
  return first != bytes.size() && bytes[first] >= '0' && bytes[first] <= '9' && is_text(bytes);
}

outcome<std::optional<std::vector<named_text>>> unpack(std::string const& path,
                                                       std::string const& bytes,
                                                       std::size_t most_bytes)
{
  return unpacking(path, bytes, most_bytes).run();
}

}  // namespace cli
