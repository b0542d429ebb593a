#include <ballast/partition/packing/detail/bit_hierarchy.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/core/random.hpp>

#include <cstdint>
#include <set>

namespace {

using ballast::detail::bit_hierarchy;

TEST(BitHierarchy, AgreesWithASortedSet)
{
  // One to four levels of words, and the edges between them.
  std::size_t const sizes[] = {1, 2, 63, 64, 65, 4096, 4097, 262'144, 262'145, 1 << 24};
  for (std::size_t const size : sizes) {
    SCOPED_TRACE(testing::Message() << "size " << size);
    ballast::random_source random(size);
    ballast::workspace memory;
    auto scratch = memory.open();
    bit_hierarchy numbers(size, scratch);
    std::set<std::size_t> oracle;
    for (int step = 0; step < 2000; ++step) {
      // Half of the calls near the end, so that words fill and empty.
      std::size_t const range = random.below(2) == 0 ? size : size < 100 ? size : 100;
      std::size_t const number = size - 1 - random.below(range);
      if (random.below(3) != 0) {
        numbers.insert(number);
        oracle.insert(number);
      } else {
        numbers.erase(number);
        oracle.erase(number);
      }
      std::size_t const asked = random.below(size);
      ASSERT_EQ(numbers.contains(asked), oracle.contains(asked));
      auto const next = oracle.lower_bound(asked);
      ASSERT_EQ(numbers.first_from(asked), next == oracle.end() ? bit_hierarchy::none : *next);
      std::uint64_t window = 0;
      for (auto at = oracle.lower_bound(number); at != oracle.end() && *at < number + 64; ++at) {
        window |= std::uint64_t{1} << (*at - number);
      }
      ASSERT_EQ(numbers.window(number), window) << "from " << number;
    }
  }
}

}  // namespace
