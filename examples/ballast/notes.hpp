// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace cli {

/// Sentences for standard error where all went well: what the user may not have meant.
inline std::vector<std::string>& notes()
{
  static std::vector<std::string> all;
  return all;
}

}  // namespace cli
