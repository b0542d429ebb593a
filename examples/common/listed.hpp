// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdio>
#include <string>
#include <vector>

/// Numbers as docs/notes/five_systems.md lists them: "1.88, 1.81, 1.88".
inline std::string listed(std::vector<double> const& values, int digits = 2)
{
  std::string text;
  for (double const each : values) {
    std::array<char, 32> one{};
    std::snprintf(one.data(), one.size(), "%s%.*f", text.empty() ? "" : ", ", digits, each);
    text += one.data();
  }
  return text;
}
