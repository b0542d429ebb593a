// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DATA_DATA_DEAL_HPP
#define BALLAST_RUNTIME_DATA_DATA_DEAL_HPP

#include <ballast/core/contract.hpp>

#include <cstdint>

namespace ballast::inline v0 {

/// A sample that a loader is to fetch. Where one sample is dealt again after a loader was lost, it
/// has the same ticket; in another epoch it has another one.
struct data_deal {
  std::uint64_t ticket = 0;
  std::uint64_t sample = 0;

  friend bool operator==(data_deal, data_deal) = default;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_DATA_DATA_DEAL_HPP
