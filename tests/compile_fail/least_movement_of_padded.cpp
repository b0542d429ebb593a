// EXPECT: least_movement moves samples between packed bags, and its inner policy pads
#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/padded_batches.hpp>

int main()
{
  auto const policy = ballast::least_movement{ballast::padded_batches{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
