// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trainer {

/// What a training leaves behind.
struct training {
  std::string bags;
  torch::Tensor losses;                  ///< of each step
  std::vector<torch::Tensor> gradients;  ///< of each parameter in step 1
  double balance_ratio = 1;              ///< work of the busiest rank / mean, over all steps
  double share_moved = 0;  ///< of the tokens, computed on a rank that did not read them
};

/// How far a training is from the one without a balancer; NaN where numbers are lost.
struct difference {
  double losses = 0;        ///< the largest of all steps, relative to the loss
  double gradients = 0;     ///< the largest of all elements, relative to the largest element
  double worst_tensor = 0;  ///< the same within one tensor, of the tensor where it is largest
};

/// The most that a training may differ from the one without a balancer.
inline constexpr difference tolerance = {.losses = 1e-5, .gradients = 1e-9, .worst_tensor = 1e-9};

/// NaN is not tolerable.
[[nodiscard]] inline bool tolerable(difference const& found)
{
  return found.losses <= tolerance.losses && found.gradients <= tolerance.gradients &&
         found.worst_tensor <= tolerance.worst_tensor;
}

[[nodiscard]] inline difference compare(training const& found, training const& expected)
{
  std::vector<torch::Tensor> differences;
  std::vector<torch::Tensor> magnitudes;
  for (std::size_t tensor = 0; tensor < expected.gradients.size(); ++tensor) {
    auto const& gradient = expected.gradients[tensor];
    differences.push_back((found.gradients[tensor] - gradient).abs().max());
    magnitudes.push_back(gradient.abs().max());
  }
  auto const apart = torch::stack(differences);
  auto const largest = torch::stack(magnitudes);
  auto const losses = (found.losses - expected.losses).abs() / expected.losses.abs();
  return {.losses = losses.max().item<double>(),
          .gradients = (apart.max() / largest.max()).item<double>(),
          .worst_tensor = (apart / largest).max().item<double>()};
}

/// Prints a row per training, of which the first is the one without a balancer. Says whether the
/// others are within the tolerance.
[[nodiscard]] inline bool print_comparison(std::vector<training> const& trainings)
{
  auto const steps = trainings.front().losses.size(0);
  std::vector<std::int64_t> shown;
  for (std::int64_t const step : {1, 10, 25}) {
    if (step < steps) { shown.push_back(step); }
  }
  shown.push_back(steps);

  fmt::print("{:<12}", "bags");
  for (std::int64_t const step : shown) { fmt::print("{:>14}", fmt::format("loss {}", step)); }
  fmt::print("{:>11}{:>11}{:>14}{:>14}{:>8}\n", "loss diff", "grad diff", "worst tensor",
             "busiest/mean", "moved");
  bool all_tolerable = true;
  for (training const& each : trainings) {
    difference const found = compare(each, trainings.front());
    all_tolerable = all_tolerable && tolerable(found);
    fmt::print("{:<12}", each.bags);
    for (std::int64_t const step : shown) {
      fmt::print("{:>14.10f}", each.losses[step - 1].item<double>());
    }
    fmt::print("{:>11.1e}{:>11.1e}{:>14.1e}{:>14.3f}{:>7.0f}%\n", found.losses, found.gradients,
               found.worst_tensor, each.balance_ratio, 100 * each.share_moved);
  }
  fmt::print("tolerance: losses {:.0e}, gradients of step 1 {:.0e}: {}\n", tolerance.losses,
             tolerance.gradients, all_tolerable ? "kept" : "NOT KEPT");
  return all_tolerable;
}

}  // namespace trainer
