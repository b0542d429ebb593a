// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "outcome.hpp"

#include <ballast/text/read_file.hpp>

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace cli {

/// Runs `work`. Where memory ends in it, the outcome says during what, and what can be done.
template <class Work>
[[nodiscard]] auto in_memory(std::string_view doing, std::string_view remedy, Work const& work)
    -> decltype(work())
{
  try {
    return work();
  } catch (std::bad_alloc const&) {
  } catch (std::length_error const&) {  // more than a vector or a string can ever hold
  }
  return bad_data(
      fmt::format("memory ran out while {}; {}, or allow the program more memory", doing, remedy));
}

template <class Work>
[[nodiscard]] auto read_in_memory(std::string const& path, Work const& work) -> decltype(work())
{
  return in_memory("reading " + path, "read a smaller file", work);
}

/// All bytes of a file.
[[nodiscard]] inline outcome<std::string> read_text(std::string const& path)
{
  return read_in_memory(path, [&]() -> outcome<std::string> {
    auto text = ballast::read_file(path);
    if (!text) { return bad_data(text.error().message); }
    return std::move(*text);
  });
}

}  // namespace cli
