// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TEXT_DETAIL_COUNTED_HPP
#define BALLAST_TEXT_DETAIL_COUNTED_HPP

#include <ballast/core/detail/concat.hpp>

#include <concepts>
#include <string>
#include <string_view>

namespace ballast::inline v0::detail {

/// So many of a thing, for sentences: "1 sample", "2 samples", "0 batches", "3 entries".
template <std::integral Number>
[[nodiscard]] std::string counted(Number number, std::string_view thing)
{
  if (number == 1) { return concat(number, " ", thing); }
  if (thing.ends_with("y")) {
    return concat(number, " ", thing.substr(0, thing.size() - 1), "ies");
  }
  return concat(number, " ", thing, thing.ends_with("ch") ? "es" : "s");
}

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_TEXT_DETAIL_COUNTED_HPP
