// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_DEALT_MODULE_HPP
#define BALLAST_PARALLELISM_DETAIL_DEALT_MODULE_HPP

#include <ballast/core/quantities.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ballast::inline v0::detail {

/// How a batch is cut for one module: what its times depend on beside its degree.
struct batch_cut {
  std::uint32_t microbatches = 1;
  std::uint32_t groups = 1;
  std::uint32_t replicas = 1;  ///< of a group

  [[nodiscard]] std::size_t cells() const noexcept
  {
    return std::size_t{microbatches} * groups * replicas;
  }

  friend bool operator==(batch_cut const&, batch_cut const&) = default;
};

/// How long the replicas of a module take for all layers, forward and backward.
struct dealt_module {
  /// The replica that computes longest in a batch, and how long.
  struct fullest {
    time_units sum = 0;
    std::uint32_t group = 0;
    std::uint32_t replica = 0;
  };

  std::vector<time_units> whole{};  ///< [batch][microbatch][group][replica]
  /// What they take to send what the module that they feed gets, and to receive what each module
  /// gives that feeds them: as `whole`, or none where it takes no time.
  std::vector<time_units> sent{};
  std::vector<std::vector<time_units>> received{};
  std::vector<time_units> sums{};  ///< [batch][group][replica], over all microbatches
  std::vector<fullest> most{};     ///< of each batch
  bool is_too_long = false;        ///< some time cannot be simulated
  tokens largest = 0;  ///< microbatch of a replica, of the share that memory has to suffice for
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_DEALT_MODULE_HPP
