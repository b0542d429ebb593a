// SPDX-License-Identifier: Apache-2.0
#include <ballast/partition/packing/pack.hpp>
