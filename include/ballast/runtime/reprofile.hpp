// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_REPROFILE_HPP
#define BALLAST_RUNTIME_REPROFILE_HPP

#include <ballast/cost/profile_file.hpp>

#include <string>
#include <vector>

namespace ballast::inline v0 {

/// What of a profile holds no longer, and why.
struct reprofile_plan {
  bool model_profiler = false;         ///< speeds and memory, of `modules`
  bool data_profiler = false;          ///< shapes of the data, by the model's rules
  std::vector<std::string> modules{};  ///< to measure again, in the order of `now`
  std::vector<std::string> reasons{};  ///< one sentence each

  friend bool operator==(reprofile_plan const&, reprofile_plan const&) = default;
};

/// Compares the fingerprints of a profile with those of what is to be trained now.
///
/// Another model needs both profilers, since its rules make other shapes of the same data; other
/// data need the data profiler alone, and other hardware the model profiler alone, of all modules.
/// A module that is new is another model; one that is gone needs nothing.
///
/// In          of `now` only fingerprints are read: hardware, data, and of each module name, model,
///             layers and FLOP. What was not written down before (empty) counts as changed.
/// Complexity  O(modules^2).
[[nodiscard]] inline reprofile_plan reprofile(profile_file const& old, profile_file const& now)
{
  reprofile_plan plan;
  auto const quoted = [](std::string const& fingerprint) { return "'" + fingerprint + "'"; };
  bool const other_hardware = old.hardware != now.hardware;
  if (other_hardware) {
    plan.model_profiler = !now.modules.empty();
    plan.reasons.push_back("the hardware was " + quoted(old.hardware) + " and is " +
                           quoted(now.hardware));
  }
  for (measured_module const& module : now.modules) {
    measured_module const* const before = find_module(old, module.name);
    bool const other_model = before == nullptr || before->model != module.model ||
                             before->layers != module.layers || before->flops != module.flops;
    if (other_model) {
      plan.model_profiler = true;
      plan.data_profiler = true;
      std::string reason = "module " + module.name + " ";
      if (before == nullptr) {
        reason += "is new";
      } else if (before->model != module.model) {
        reason += "was " + quoted(before->model) + " and is " + quoted(module.model);
      } else {
        reason += "has another number of layers or FLOP";
      }
      plan.reasons.push_back(reason);
    }
    if (other_model || other_hardware) { plan.modules.push_back(module.name); }
  }
  if (old.data != now.data) {
    plan.data_profiler = true;
    plan.reasons.push_back("the data were " + quoted(old.data) + " and are " + quoted(now.data));
  }
  return plan;
}

}  // namespace ballast::inline v0

#endif  // BALLAST_RUNTIME_REPROFILE_HPP
