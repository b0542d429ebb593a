// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
