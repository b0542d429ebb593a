// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cli {

/// A file, with the archive in front of its name where it is from one.
struct named_text {
  std::string file;
  std::string text;
};

/// Whether the beginning of a file holds no bytes that text does not have.
[[nodiscard]] bool is_text(std::string_view bytes);

/// Whether a file may be an instance: a text that begins with a number. The first file of an
/// archive may be called "1.txt", so that a number alone does not tell.
[[nodiscard]] bool may_be_instance(std::string_view bytes);

/// Everything in an archive but folders, in its order; nothing where the bytes are no archive. The
/// text is empty of what cannot be an instance, and of what has no content: links of both
/// kinds, devices.
///
/// In          most_bytes is what may be unpacked; 0 stands for 100 times the archive, at least
///             16 MiB and at most 1 GiB. Names count too, and what it takes to keep them.
[[nodiscard]] outcome<std::optional<std::vector<named_text>>> unpack(std::string const& path,
                                                                     std::string const& bytes,
                                                                     std::size_t most_bytes);

}  // namespace cli
