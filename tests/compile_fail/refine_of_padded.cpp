// EXPECT: refine exchanges samples of packed bags, and its inner policy pads them
#include <ballast/partition/padded_batches.hpp>
#include <ballast/partition/refine.hpp>

int main()
{
  auto const policy = ballast::refine{ballast::padded_batches{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
