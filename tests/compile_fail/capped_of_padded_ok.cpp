#include <ballast/partition/capped.hpp>
#include <ballast/partition/multifit.hpp>

int main()
{
  auto const policy = ballast::capped{ballast::multifit{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
