// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/workspace.hpp>

#include <string>

// Nobody would run the destructors of what a frame gives back.
#if defined(OF_OWNERS)
// EXPECT: (no matching function for call|no matching member function for call)
using element = std::string;
#else
using element = int;
#endif

void use(ballast::workspace& memory)
{
  auto scratch = memory.open();
  (void)scratch.take<element>(3);
}
