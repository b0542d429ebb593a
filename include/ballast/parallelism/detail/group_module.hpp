// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_PARALLELISM_DETAIL_GROUP_MODULE_HPP
#define BALLAST_PARALLELISM_DETAIL_GROUP_MODULE_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cost/module_profile.hpp>

#include <cstddef>
#include <cstdint>

namespace ballast::inline v0::detail {

/// A module of one group of replicas: how long each of them takes for each microbatch.
///
/// Shapes      whole[microbatch * stride + replica]: all layers, forward and backward; sent so too:
///             what a replica sends to the module that it feeds, and received, by that module's
///             replicas and stride: what each of those receives. Both null where it takes no time.
struct group_module {
  std::uint32_t layers = 1;
  std::uint32_t pp = 1;
  stage_part const* parts = nullptr;  ///< [pp], where layers were cut by their costs
  std::uint32_t replicas = 1;
  time_units const* whole = nullptr;
  std::size_t stride = 1;
  time_units const* sent = nullptr;
  time_units const* received = nullptr;
  time_units const* reducing = nullptr;  ///< gradients of a stage, by its kind (stage_shares)
  std::size_t feeds = 0;                 ///< a later module; the last one's is not read
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_PARALLELISM_DETAIL_GROUP_MODULE_HPP
