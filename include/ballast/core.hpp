// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CORE_HPP
#define BALLAST_CORE_HPP

/// All of ballast/core: identifiers, quantities, jagged rows, results, exact fractions, digests,
/// random numbers, scratch memory.

// IWYU pragma: begin_exports
#include <ballast/core/certified.hpp>
#include <ballast/core/config.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/digest.hpp>
#include <ballast/core/id_vector.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/integer_projection.hpp>
#include <ballast/core/jagged.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/core/result.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/core/workspace.hpp>
// IWYU pragma: end_exports

#endif  // BALLAST_CORE_HPP
