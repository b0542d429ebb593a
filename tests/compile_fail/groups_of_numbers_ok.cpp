// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/groups.hpp>

ballast::groups<ballast::bag_id, ballast::sample_id> bags;
