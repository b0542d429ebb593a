// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>

/// limits.fits as other languages hand it over: a byte for each sample and bag, 0 where the sample
/// may not go there.
///
/// Shapes      bytes[samples x bags], sample after sample.
struct fit_table {
  std::uint8_t const* bytes = nullptr;
  std::size_t bags = 0;

  bool operator()(ballast::sample_id sample, ballast::bag_id bag) const
  {
    return bytes[ballast::to_index(sample) * bags + ballast::to_index(bag)] != 0;
  }
};
