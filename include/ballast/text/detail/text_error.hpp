// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_TEXT_ERROR_HPP
#define BALLAST_TEXT_DETAIL_TEXT_ERROR_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/text/excerpt.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace ballast::inline v0::detail {

/// What is wrong with a text of one line, and where: "at offset 4 of 'a + ': expected a column".
///
/// Units       offset counts bytes from 0.
[[nodiscard]] inline error text_error(error_code code, std::string_view text, std::size_t offset,
                                      std::string const& reason)
{
  return {code, offset, concat("at offset ", offset, " of ", excerpt(text), ": ", reason)};
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_TEXT_ERROR_HPP
