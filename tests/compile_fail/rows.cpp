// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/row_array.hpp>

#include <vector>

std::vector<float> activations()
{
  return {1, 2};
}

int main()
{
  std::vector<float> there(2);
  std::vector<float> const here = activations();
#if defined(OF_A_TEMPORARY)
  // EXPECT: movable_elements
  return ballast::rows_of(activations(), activations(), 1).row_bytes == 4 ? 0 : 1;
#else
  return ballast::rows_of(here, there, 1).row_bytes == 4 ? 0 : 1;
#endif
}
