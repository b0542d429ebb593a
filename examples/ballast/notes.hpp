// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_EXAMPLES_NOTES_HPP
#define BALLAST_EXAMPLES_NOTES_HPP

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

#endif  // BALLAST_EXAMPLES_NOTES_HPP
