// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/text/excerpt.hpp>

#include <exception>
#include <new>

namespace ballast::inline v0::detail {

/// What a caught exception says, in one line.
[[nodiscard]] inline std::string thrown_text(std::exception_ptr const& thrown)
{
#ifdef __cpp_exceptions
  try {
    std::rethrow_exception(thrown);
  } catch (std::exception const& problem) {
    return in_one_line(problem.what());
  } catch (...) {
    return "something that is no std::exception";
  }
#else
  static_cast<void>(thrown);
  return {};  // nothing throws
#endif
}

/// Throws it again where memory was lacking: that is an exception everywhere, and no error.
inline void rethrow_if_out_of_memory(std::exception_ptr const& thrown)
{
#ifdef __cpp_exceptions
  try {
    std::rethrow_exception(thrown);
  } catch (std::bad_alloc const&) {
    throw;
  } catch (...) {  // NOLINT(bugprone-empty-catch)
  }
#else
  static_cast<void>(thrown);
#endif
}

/// A text that ranks tell each other, cut between letters where it is long.
struct told_text {
  std::array<char, 256> bytes{};  // with a zero behind the last

  told_text() = default;
  explicit told_text(std::string_view text)
  {
    constexpr std::string_view cut = "...";
    std::size_t const most = bytes.size() - 1;
    bool const is_cut = text.size() > most;
    std::size_t const shown = is_cut ? whole_characters(text, most - cut.size()) : text.size();
    std::copy_n(text.begin(), shown, bytes.begin());
    if (is_cut) { std::copy(cut.begin(), cut.end(), bytes.data() + shown); }
  }
};

}  // namespace ballast::inline v0::detail
