#include <ballast/comm/agree.hpp>
#include <ballast/comm/thread_communicator.hpp>

#include <cstddef>

int main()
{
  auto ranks = ballast::thread_communicator::make(1);
  return ballast::agree(ranks[0], 7, "the plan") ? 0 : 1;
}
