// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/step_balancer.hpp>
