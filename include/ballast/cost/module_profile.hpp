// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COST_MODULE_PROFILE_HPP
#define BALLAST_COST_MODULE_PROFILE_HPP

#include <ballast/core/detail/concat.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_memory.hpp>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/text/detail/counted.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ballast::inline v0 {

/// How fast a module is at one parallel degree, and what it takes of a GPU's memory.
///
/// Units       FLOP per second of each of its tp x sp x ep GPUs: `linear` over the size of a microbatch,
///             since packed samples pass the weights together; `attention` over the length of a
///             sample, since attention takes samples one by one.
struct profiled_degree {
  std::uint32_t tp = 1;
  interpolated_throughput linear{};
  interpolated_throughput attention{};
  module_memory memory{};
  std::uint32_t sp = 1;
  std::uint32_t ep = 1;

  friend bool operator==(profiled_degree const&, profiled_degree const&) = default;
};

/// A stage's part of a module whose layers do not all cost the same.
struct stage_part {
  std::uint32_t layers = 0;
  std::uint32_t cost = 0;  ///< its share of the module's time is this over that of all parts

  friend bool operator==(stage_part, stage_part) = default;
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
  static constexpr std::uint64_t most_cost = std::uint64_t{1} << 31;  ///< of all parts of a cut

  std::string name;
  std::uint32_t layers = 1;
  flop_polynomial flops;
  std::vector<profiled_degree> degrees;  ///< by tp, sp and ep, increasing
  std::uint64_t boundary_bytes = 0;
  /// Empty where all layers cost the same, and else as `cut_layers` fills it: the parts of pp
  /// stages are cuts[pp - 1].
  std::vector<std::vector<stage_part>> cuts{};

  friend bool operator==(module_profile const&, module_profile const&) = default;
};

/// What was measured at a degree, or null where nothing was.
[[nodiscard]] inline profiled_degree const* find_degree(module_profile const& module,
                                                        parallel_degree const& degree) noexcept
{
  for (profiled_degree const& each : module.degrees) {
    if (degree_of(each) == degree) { return &each; }
  }
  return nullptr;
}

/// Refuses a profile that no search can read.
///
/// Errors      out_of_range, position of the degree: it has no GPU or 2^32 and more, or is not above
///             the one before, or its memory is none (check_memory); position 0 also: there is no degree, no layer or no
///             work, it gives the next module more than most_boundary_bytes, or cuts are not of its
///             layers.
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
    return refuse(0, "was measured at no parallel degree; measure one at least");
  }
  if (!module.cuts.empty() && module.cuts.size() != module.layers) {
    return refuse(0, detail::concat(
                         "has ", detail::counted(module.layers, "layer"), " and was cut for up to ",
                         detail::counted(module.cuts.size(), "stage"), "; cut its layers anew"));
  }
  for (std::size_t stages = 0; stages < module.cuts.size(); ++stages) {
    std::uint64_t layers = 0;
    std::uint64_t cost = 0;
    for (stage_part const& part : module.cuts[stages]) {
      layers += part.layers;
      cost += part.cost;
    }
    if (module.cuts[stages].size() != stages + 1 || layers != module.layers || cost == 0 ||
        cost > module_profile::most_cost) {
      return refuse(0, detail::concat("was cut for ", detail::counted(stages + 1, "stage"),
                                      " into parts that are not its layers; cut them anew"));
    }
  }
  parallel_degree before{0, 0, 0};
  for (std::size_t index = 0; index < module.degrees.size(); ++index) {
    parallel_degree const degree = degree_of(module.degrees[index]);
    if (degree.gpus() == 0 || degree.gpus() > std::numeric_limits<std::uint32_t>::max()) {
      return refuse(index, "has a degree of " + text_of(degree) +
                               ", which is no number of GPUs from 1 to 2^32 - 1");
    }
    if (degree <= before) {
      return refuse(index, detail::concat("has degree ", text_of(degree), " after ",
                                          text_of(before), "; give them in increasing order"));
    }
    if (auto checked = check_memory(module.degrees[index].memory); !checked) {
      return refuse(index, "at " + text_of(degree) + ": " + checked.error().message);
    }
    before = degree;
  }
  return {};
}

}  // namespace ballast::inline v0

#endif  // BALLAST_COST_MODULE_PROFILE_HPP
