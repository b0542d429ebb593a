// EXPECT: least_movement changes how many samples a bag has
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/least_movement.hpp>

int main()
{
  auto const policy = ballast::least_movement{ballast::equal_count{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
