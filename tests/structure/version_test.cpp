// SPDX-License-Identifier: Apache-2.0
#include <ballast/version.hpp>

#include "../support/test.hpp"

namespace {

TEST(Version, IsOneNumberForThePreprocessorAndForTheBuild)
{
#if BALLAST_VERSION < 100 || BALLAST_VERSION >= 1000000
#error "BALLAST_VERSION must be major * 10000 + minor * 100 + patch"
#endif
  std::string const built_as = std::to_string(BALLAST_VERSION / 10000) + '.' +
                               std::to_string(BALLAST_VERSION / 100 % 100) + '.' +
                               std::to_string(BALLAST_VERSION % 100);
  EXPECT_EQ(built_as, BALLAST_PROJECT_VERSION);
}

}  // namespace
