// SPDX-License-Identifier: Apache-2.0
#include <ballast/core/jagged.hpp>

ballast::jagged<ballast::bag_id, ballast::sample_id> bags;
