// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_MODULE_PROFILE_HPP
#define BALLAST_COST_MODULE_PROFILE_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// How fast a module is at one tensor-parallel degree, and what it takes of a GPU's memory.
///
/// Units       FLOP per second of each GPU of the degree: `linear` over the size of a microbatch,
///             since packed samples pass the weights together; `attention` over the length of a
///             sample, since attention takes samples one by one.
struct profiled_degree {
  std::uint32_t tp = 1;
  interpolated_throughput linear{};
  interpolated_throughput attention{};
  module_memory memory{};

  friend bool operator==(profiled_degree const&, profiled_degree const&) = default;
};

/// What was measured of one module of a model: an encoder, the LLM, a generator.
///
/// A sample has a size in every module: items of an encoder (tiles, frames), tokens of an LLM.
///
/// Units       flops: of a whole training step of all layers, per token or item and per their
///             square; an encoder whose items attend to themselves alone has no quadratic part.
///             boundary_bytes: of a token or item, what the next module gets, and as much comes
///             back as a gradient.
struct module_profile {
  static constexpr std::uint64_t most_boundary_bytes = std::uint64_t{1} << 53;

  std::string name;
  std::uint32_t layers = 1;
  flop_polynomial flops;
  std::vector<profiled_degree> degrees;  ///< by tp, increasing
  std::uint64_t boundary_bytes = 0;

  friend bool operator==(module_profile const&, module_profile const&) = default;
};

/// The degree of a tp, or null where the module was not measured at it.
[[nodiscard]] inline profiled_degree const* find_degree(module_profile const& module,
                                                        std::uint32_t tp) noexcept
{
  for (profiled_degree const& each : module.degrees) {
    if (each.tp == tp) { return &each; }
  }
  return nullptr;
}

/// Refuses a profile that no search can read.
///
/// Errors      out_of_range, position of the degree: it is 0, or not above the one before, or its
///             memory is none (check_memory); position 0 also: there is no degree, no layer or no
///             work, or it gives the next module more than most_boundary_bytes.
[[nodiscard]] inline result<void> check_profile(module_profile const& module)
{
  auto const refuse = [&module](std::size_t position, std::string const& why) {
    return fail(error_code::out_of_range, position, "module " + module.name + " " + why);
  };
  if (module.layers == 0) { return refuse(0, "has no layers; give at least 1"); }
  if (module.flops.linear == 0) {
    return refuse(0, "takes no FLOP per token or item; give those of a training step");
  }
  if (module.boundary_bytes > module_profile::most_boundary_bytes) {
    return refuse(0,
                  "gives more than 2^53 bytes of a token or item to the next one; check the unit");
  }
  if (module.degrees.empty()) {
    return refuse(0, "was measured at no tensor-parallel degree; measure one at least");
  }
  std::uint32_t before = 0;
  for (std::size_t index = 0; index < module.degrees.size(); ++index) {
    profiled_degree const& each = module.degrees[index];
    if (each.tp <= before) {
      return refuse(index, detail::concat("has tensor-parallel degree ", each.tp, " after ", before,
                                          "; give them in increasing order"));
    }
    if (auto checked = check_memory(each.memory); !checked) {
      return refuse(index, detail::concat("at tensor-parallel degree ", each.tp, ": ",
                                          checked.error().message));
    }
    before = each.tp;
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_MODULE_PROFILE_HPP
