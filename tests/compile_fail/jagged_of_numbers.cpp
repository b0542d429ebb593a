// EXPECT: (constraint failure|constraints not satisfied)
// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/jagged.hpp>

ballast::jagged<int, ballast::sample_id> bags;
