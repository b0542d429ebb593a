// SPDX-License-Identifier: Apache-2.0
// What tests of papers' figures include, and the page that their figures stand on.
#pragma once

#include <ballast/text/read_file.hpp>

#include "../support/test.hpp"

#include <ostream>

namespace ballast_test {

/// Figures as docs/notes/five_systems.md has them, three digits each: "17.4, 3.88, 1.28".
inline std::string figures(std::span<double const> values)
{
  std::string text;
  for (double const each : values) {
    char one[32];
    std::snprintf(one, sizeof one, "%.*f", each >= 9.995 ? 1 : 2, each);
    text += (text.empty() ? "" : ", ") + std::string(one);
  }
  return text;
}
inline std::string figures(std::initializer_list<double> values)
{
  return figures(std::span(values.begin(), values.size()));
}

/// What a run found is what docs/notes/five_systems.md says. Prints it, as programs do whose output
/// tests/papers/on_page.cmake compares.
inline void expect_on_page(std::string const& text)
{
  std::printf("on the page: %s\n", text.c_str());
  auto const page = ballast::read_file(BALLAST_SOURCE_DIR "/docs/notes/five_systems.md");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_NE(page->find(text), std::string::npos)
      << "docs/notes/five_systems.md does not say \"" << text << "\"; correct its row";
}

}  // namespace ballast_test
