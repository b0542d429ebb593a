// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All of ballast/core, and what nearly every room uses of std: the prelude of every header.
/// Identifiers, quantities, exact fractions, results, contracts, scratch memory, jagged rows, random
/// numbers, digests.

// IWYU pragma: begin_exports
#include <ballast/core/cancellable.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/workspace.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
// IWYU pragma: end_exports
