#include <ballast/partition/least_movement.hpp>
#include <ballast/partition/multifit.hpp>

int main()
{
  auto const policy = ballast::least_movement{ballast::multifit{}};
  return batching_of(policy) == ballast::batching::packed ? 0 : 1;
}
