// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/ulysses.hpp>
