// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "policy_expression.hpp"

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

namespace by_name {

/// A name that command lines know, and how the settings after it become a value.
template <class Value, class Reader>
struct named_value {
  std::string_view name;
  std::string_view short_name;  ///< or empty
  std::string_view arguments;   ///< for people; empty where it takes none
  Value (*read)(Reader&);

  [[nodiscard]] constexpr bool is_called(std::string_view text) const noexcept
  {
    return text == name || (!short_name.empty() && text == short_name);
  }
};

/// The names of a table and what each takes, as a sentence lists them: `lpt, refine:POLICY,work=N`.
template <class Value, class Reader, std::size_t Size>
[[nodiscard]] std::string list_names(std::array<named_value<Value, Reader>, Size> const& table)
{
  std::string all;
  for (auto const& each : table) {
    if (!all.empty()) { all += ", "; }
    all += each.name;
    if (!each.short_name.empty()) { all.append(" (").append(each.short_name).append(")"); }
    if (!each.arguments.empty()) { all.append(":").append(each.arguments); }
  }
  return all;
}

/// The row with this name, or null.
template <class Value, class Reader, std::size_t Size>
[[nodiscard]] constexpr named_value<Value, Reader> const* find_named(
    std::array<named_value<Value, Reader>, Size> const& table, std::string_view name)
{
  for (auto const& each : table) {
    if (each.is_called(name)) { return &each; }
  }
  return nullptr;
}

/// The error of a name that the table does not have. `kind` is what messages call a value.
template <class Value, class Reader, std::size_t Size>
[[nodiscard]] ballast::error no_such_name(std::array<named_value<Value, Reader>, Size> const& table,
                                          std::string_view kind, std::string_view text,
                                          std::size_t offset, std::string_view name)
{
  std::string reason = "there is no ";
  reason.append(kind).append(" ").append(ballast::excerpt(name));
  return text_error(ballast::error_code::unknown_name, text, offset,
                    reason.append("; choose one of ").append(list_names(table)));
}

/// The value that an expression names. A Reader is made from the expression, the arguments that the
/// table lists, and `more`.
///
/// Errors      unknown_name: the table has no such name; and those of the reader.
template <class Value, class Reader, std::size_t Size, class... More>
[[nodiscard]] ballast::result<Value> read_named(
    std::array<named_value<Value, Reader>, Size> const& table, policy_expression const& text,
    std::string_view kind, More... more)
{
  auto const* const named = find_named(table, text.name);
  if (named == nullptr) {
    return tl::unexpected(no_such_name(table, kind, text.text, text.position, text.name));
  }
  Reader read(text, named->arguments, more...);
  Value const value = named->read(read);
  return read.finish(value);
}

}  // namespace by_name
