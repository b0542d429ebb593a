// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/workspace.hpp>

void use(ballast::workspace& memory)
{
  auto scratch = memory.open();
  (void)scratch.take<char>(3);
}
