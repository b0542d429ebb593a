// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_CONCAT_HPP
#define BALLAST_CORE_DETAIL_CONCAT_HPP

#include <ballast/core/detail/text_piece.hpp>

#include <initializer_list>
#include <string>

namespace ballast::inline v0::detail {

/// A sentence of texts, numbers and identifiers, for errors and reports:
///
///     concat({"bag ", bag, " of ", gpus, " GPUs"})
///
/// Whoever includes ballast pays for its templates. A sum of strings is a function and a place to
/// clean up for each of its operands; this is one call for all of them.
[[nodiscard]] inline std::string concat(std::initializer_list<text_piece> pieces)
{
  std::string text;
  for (text_piece const piece : pieces) {
    text_piece::digits room;
    auto const characters = piece.read(room);
    text.append(characters.first, characters.count);
  }
  return text;
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_CONCAT_HPP
