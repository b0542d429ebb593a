// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/bag_layout.hpp>
#include <ballast/version.hpp>

#include <cstdio>

static_assert(BALLAST_VERSION >= 100);

// A bag of two GPUs and two of one: whether all that a header includes is found. Whole plans are made by
// find_package_compiled and by the first lines of docs/installing.md.
int main()
{
  using namespace ballast::literals;
  ballast::bag_layout const bags("g2n1+g1n2"_bags, 4);
  std::printf("%zu bags\n", bags.size());
  return bags.size() == 3 && !ballast::parse_bags("g2n1+") ? 0 : 1;
}
