// EXPECT: exact searches packed bags, and its inner policy pads them
#include <ballast/partition/exact.hpp>
#include <ballast/partition/padded_batches.hpp>

int main()
{
  auto const policy = ballast::exact{ballast::padded_batches{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
