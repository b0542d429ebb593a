// EXPECT: (no matching function for call|no matching member function for call)
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/workspace.hpp>

#include <string>

// Nobody would run the destructors of what a frame gives back.
void use(ballast::workspace& memory)
{
  auto scratch = memory.open();
  (void)scratch.take<std::string>(3);
}
