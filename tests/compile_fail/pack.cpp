// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/quantities.hpp>
#include <ballast/partition/packing/pack.hpp>

#include <vector>

struct document {
  ballast::tokens words = 0;
};

bool packs(std::vector<ballast::tokens> const& lengths, std::vector<document> const& documents)
{
#if defined(BY_A_NUMBER)
  // EXPECT: placement_limits
  return ballast::pack(lengths, 8192).has_value();
#elif defined(WITHOUT_LENGTH)
  // EXPECT: integer_projection
  return ballast::pack(documents, {.most_per_gpu = 8192}).has_value();
#else
  return ballast::pack(lengths, {.most_per_gpu = 8192}).has_value() &&
         ballast::pack(documents, &document::words, {.most_per_gpu = 8192}).has_value();
#endif
}
