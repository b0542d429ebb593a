// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/nccl_communicator.hpp>

// Without a GPU there is no communicator to be had, but NCCL can say so.
int main()
{
  ncclComm_t none = nullptr;
  auto const comm = ballast::nccl_communicator<>::over(none, nullptr);
  return !comm && comm.error().code == ballast::error_code::transport ? 0 : 1;
}
