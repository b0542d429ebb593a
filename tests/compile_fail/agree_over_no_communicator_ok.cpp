#include <ballast/comm/agree.hpp>
#include <ballast/comm/thread_communicator.hpp>

bool agrees()
{
  auto ranks = ballast::thread_communicator::make(1);
  return ballast::agree(ranks[0], 7, "the plan").has_value();
}
