// SPDX-License-Identifier: Apache-2.0
#include <ballast/ballast.hpp>

#if __cplusplus < 202002L
// EXPECT: ballast needs C\+\+20: compile with -std=c\+\+20
#endif
