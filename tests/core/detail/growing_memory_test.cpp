// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/detail/message_array.hpp>  // first: proves it is self-contained

#include "../../support/test.hpp"

#include <new>

namespace growing_memories {

using block = std::vector<int>;
using ballast::detail::growing_memory;

TEST(GrowingMemory, KeepsEveryBlockAndMakesFew)  // Ensures (1) (2)
{
  growing_memory<block> memory;
  std::vector<block const*> made;
  std::size_t elements = 0;
  for (std::size_t count = 0; count <= 1000; ++count) {
    block& last = memory.at_least(count, [&](std::size_t size) {
      elements += size;
      return block(size, static_cast<int>(made.size()));
    });
    EXPECT_GE(last.size(), count);
    EXPECT_TRUE(memory.has(count));
    if (made.empty() || made.back() != &last) { made.push_back(&last); }
    EXPECT_LE(elements, 2 * last.size());
  }
  EXPECT_LE(made.size(), 12U);
  for (std::size_t at = 1; at < made.size(); ++at) {  // a sanitizer sees whether they are there
    EXPECT_EQ(made[at]->front(), static_cast<int>(at));
  }
  EXPECT_FALSE(memory.has(10'000));
}

TEST(GrowingMemory, IsAsItWasWhereNothingCanBeMade)  // Errors
{
  growing_memory<block> memory;
  block const* const first = &memory.at_least(3, [](std::size_t size) { return block(size, 7); });
  auto const refuse = [](std::size_t) -> block { throw std::bad_alloc(); };
  EXPECT_THROW(static_cast<void>(memory.at_least(4, refuse)), std::bad_alloc);
  EXPECT_EQ(&memory.at_least(3, refuse), first);
}

}  // namespace growing_memories
