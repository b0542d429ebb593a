#include <ballast/partition/multifit.hpp>
#include <ballast/partition/refine.hpp>

int main()
{
  auto const policy = ballast::refine{ballast::multifit{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
