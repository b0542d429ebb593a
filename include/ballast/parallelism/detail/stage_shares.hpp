// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP
#define BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/parallelism/detail/divided_up.hpp>

#include <algorithm>
#include <cstdint>

namespace ballast::inline v0::detail {

/// The share of a module's time that each of its stages takes: by layers, of which the first stages
/// have one more; or by the costs of their parts, where layers were cut. Stages of one kind take
/// the same.
class stage_shares {
 public:
  /// Shapes      parts[pp], or null.
  stage_shares(std::uint32_t layers, std::uint32_t pp, stage_part const* parts = nullptr) noexcept
      : parts_(parts), pp_(pp), whole_(layers), fewer_(layers / pp), larger_stages_(layers % pp)
  {
    if (parts_ == nullptr) { return; }
    whole_ = 0;
    for (std::uint32_t stage = 0; stage < pp_; ++stage) { whole_ += parts_[stage].cost; }
  }
  stage_shares(module_profile const& module, std::uint32_t pp) noexcept
      : stage_shares(module.layers, pp, parts_of(module, pp))
  {}

  /// The parts of a module's stages; null where its layers are equal.
  [[nodiscard]] static stage_part const* parts_of(module_profile const& module,
                                                  std::uint32_t pp) noexcept
  {
    return module.cuts.empty() ? nullptr : module.cuts[pp - 1].data();
  }

  [[nodiscard]] stage_part const* parts() const noexcept { return parts_; }
  [[nodiscard]] std::uint32_t layers() const noexcept { return fewer_ * pp_ + larger_stages_; }

  [[nodiscard]] std::uint32_t kinds() const noexcept
  {
    if (parts_ != nullptr) { return pp_; }
    return larger_stages_ > 0 ? 2 : 1;
  }
  [[nodiscard]] std::uint32_t kind_of(std::uint32_t stage) const noexcept
  {
    if (parts_ != nullptr) { return stage; }
    return stage < larger_stages_ ? 1 : 0;
  }
  [[nodiscard]] std::uint32_t stages_of(std::uint32_t kind) const noexcept
  {
    if (parts_ != nullptr) { return 1; }
    return kind == 1 ? larger_stages_ : pp_ - larger_stages_;
  }
  [[nodiscard]] std::uint32_t layers_of(std::uint32_t kind) const noexcept
  {
    return parts_ != nullptr ? parts_[kind].layers : fewer_ + kind;
  }

  /// The share of a kind of stages is cost_of() / whole().
  [[nodiscard]] std::uint32_t cost_of(std::uint32_t kind) const noexcept
  {
    return parts_ != nullptr ? parts_[kind].cost : fewer_ + kind;
  }
  [[nodiscard]] std::uint32_t whole() const noexcept { return whole_; }

  /// The kind with the largest share.
  [[nodiscard]] std::uint32_t costliest() const noexcept
  {
    std::uint32_t costliest = 0;
    for (std::uint32_t kind = 1; kind < kinds(); ++kind) {
      if (cost_of(kind) > cost_of(costliest)) { costliest = kind; }
    }
    return costliest;
  }
  [[nodiscard]] std::uint32_t most_layers() const noexcept
  {
    std::uint32_t most = 0;
    for (std::uint32_t kind = 0; kind < kinds(); ++kind) { most = std::max(most, layers_of(kind)); }
    return most;
  }

  [[nodiscard]] time_units of(time_units whole, std::uint32_t kind) const noexcept
  {
    std::uint64_t const own = cost_of(kind);
    auto const time = static_cast<std::uint64_t>(whole);
    if (time >> 52 == 0 && own >> 11 == 0) {
      return static_cast<time_units>((time * own + whole_ - 1) / whole_);
    }
    return static_cast<time_units>(divided_up(static_cast<uint128>(time) * own, whole_));
  }

 private:
  stage_part const* parts_;
  std::uint32_t pp_;
  std::uint32_t whole_;
  std::uint32_t fewer_;
  std::uint32_t larger_stages_;
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_STAGE_SHARES_HPP
