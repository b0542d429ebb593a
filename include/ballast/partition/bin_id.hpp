// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARTITION_BIN_ID_HPP
#define BALLAST_PARTITION_BIN_ID_HPP

#include <ballast/core/ids.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// Position of a bin: a microbatch or a packed sequence, which any GPUs may compute later. A bag is
/// certain GPUs; a bin is a set of samples only, and all bins of one plan are identical.
enum class bin_id : std::uint32_t {};

static_assert(identifier<bin_id>);

}  // namespace ballast::inline v0

#endif  // BALLAST_PARTITION_BIN_ID_HPP
