// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/core/uint128.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>

#include <cstdint>

namespace ballast::inline v0::detail {

/// The share of a module's time that each of its stages takes, by layers: the first stages have one
/// more.
class stage_shares {
 public:
  stage_shares(std::uint32_t layers, std::uint32_t pp) noexcept
      : layers_(layers), fewer_(layers / pp), larger_stages_(layers % pp)
  {}

  /// How many stages have a layer more than the others.
  [[nodiscard]] std::uint32_t larger_stages() const noexcept { return larger_stages_; }

  /// The layers of the first stage, and of the last one.
  [[nodiscard]] std::uint32_t most_layers() const noexcept
  {
    return fewer_ + (larger_stages_ > 0 ? 1 : 0);
  }
  [[nodiscard]] std::uint32_t least_layers() const noexcept { return fewer_; }

  [[nodiscard]] time_units of(time_units whole, bool is_larger) const noexcept
  {
    std::uint64_t const own = fewer_ + (is_larger ? 1U : 0U);
    auto const time = static_cast<std::uint64_t>(whole);
    if (time >> 52 == 0 && own >> 11 == 0) {
      return static_cast<time_units>((time * own + layers_ - 1) / layers_);
    }
    return static_cast<time_units>(divided_up(static_cast<uint128>(time) * own, layers_));
  }

 private:
  std::uint32_t layers_;
  std::uint32_t fewer_;
  std::uint32_t larger_stages_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP
