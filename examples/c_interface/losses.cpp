// SPDX-License-Identifier: Apache-2.0
#include "planner.hpp"

#include <ballast/core.hpp>

#include <cstddef>
#include <cstdint>

namespace c_interface {
namespace {

result<ballast_losses> weigh_step(ballast_planner& planner, ballast_loss_step const& step)
{
  loss_job& job = planner.losses;
  auto const labels = array("labels", step.labels, step.samples);
  if (!labels) { return tl::unexpected(labels.error()); }
  auto const owner = array("owner", step.owner, step.samples);
  if (!owner) { return tl::unexpected(owner.error()); }
  constexpr std::int64_t most = std::int64_t{1} << 53;  // exact in a double
  job.labels.assign(step.cells, 0);
  std::int64_t all = 0;
  for (std::size_t sample = 0; sample < step.samples; ++sample) {
    std::int64_t const own = (*labels)[sample];
    std::uint32_t const cell = (*owner)[sample];
    if (own < 0 || own > most - all || cell >= step.cells) {
      return fail(error_code::out_of_range, sample, "sample ", sample, " has ", own,
                  " labels in cell ", cell, " of ", step.cells,
                  "; give a number from 0 on, 2^53 in all, and a cell that there is");
    }
    all += own;
    job.labels[cell] += own;
  }
  double const processes = step.averaged_over == 0 ? 1 : static_cast<double>(step.averaged_over);
  auto const whole = static_cast<double>(all);
  job.weights.clear();
  for (std::int64_t const own : job.labels) {
    job.weights.push_back(own == 0 ? 0 : processes * static_cast<double>(own) / whole);
  }
  ballast_losses found{};
  found.cells = step.cells;
  found.weights = job.weights.data();
  found.token_weight = all == 0 ? 0 : processes / whole;
  found.labels = job.labels.data();
  found.all_labels = all;
  return found;
}

}  // namespace
}  // namespace c_interface

int ballast_weigh_losses(ballast_planner* planner, ballast_loss_step const* step,
                         ballast_losses* losses)
{
  return c_interface::answer(planner, step, losses, c_interface::weigh_step);
}
