// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_DETAIL_CONCAT_HPP
#define BALLAST_CORE_DETAIL_CONCAT_HPP

#include <ballast/core/detail/text_piece.hpp>

#include <initializer_list>
#include <string>

namespace ballast::inline v0::detail {

/// A sentence of texts, numbers and identifiers, for errors and reports.
[[nodiscard]] inline std::string concat_pieces(std::initializer_list<text_piece> pieces)
{
  std::string text;
  for (text_piece const piece : pieces) {
    text_piece::digits room;
    auto const characters = piece.read(room);
    text.append(characters.first, characters.count);
  }
  return text;
}

/// The same, of pieces that are written as those of BALLAST_EXPECTS:
///
///     concat("bag ", bag, " of ", gpus, " GPUs")
template <class... Pieces>
[[nodiscard, gnu::cold]] std::string concat(Pieces const&... pieces)
{
  return concat_pieces({pieces...});
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_CORE_DETAIL_CONCAT_HPP
