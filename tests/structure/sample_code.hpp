// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_STRUCTURE_SAMPLE_CODE_HPP
#define BALLAST_TESTS_STRUCTURE_SAMPLE_CODE_HPP

#include <string>

namespace structure {

/// Code in the namespace of the library, or in one below it.
[[nodiscard]] inline std::string in(std::string const& space, std::string const& text)
{
  return "namespace ballast::inline v0" + space + " {\n" + text + "\n}\n";
}

}  // namespace structure

#endif  // BALLAST_TESTS_STRUCTURE_SAMPLE_CODE_HPP
