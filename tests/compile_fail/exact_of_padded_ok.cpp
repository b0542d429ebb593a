#include <ballast/partition/exact.hpp>
#include <ballast/partition/multifit.hpp>

int main()
{
  auto const policy = ballast::exact{ballast::multifit{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
