// EXPECT: (constraint failure|constraints not satisfied)
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/groups.hpp>

ballast::groups<int, ballast::sample_id> bags;
