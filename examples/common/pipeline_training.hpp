// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "block_math.hpp"    // defines: block::{values, in}
#include "gradient_sum.hpp"  // defines: block::sum_over_ranks

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cmath>
#include <cstdio>

/// What a training of the small model has found, and whether it is what one rank by itself finds.
namespace pipeline_model {

using block::values;

struct trained {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<values> gradients;  // of the last step: of each layer, zeros where others have them
};

/// What follows a step of the pipeline: replicas add up their gradients, which are clipped to a
/// norm of 1, and weights descend.
template <class C, class Model>
void finish_step(trained& all, C& comm, C& replicas, ballast::process_grid const& grid, double loss,
                 Model& model)
{
  all.losses.push_back(model.add_replicas(comm, replicas, loss));
  auto const own = model.parts();
  std::span<ballast::stage_gradient<double> const> const parts(own);
  auto const norm = ballast::clip_gradients(comm, grid, model.gradients.size(), parts, 1);
  all.norms.push_back(norm.value());
  all.gradients = model.whole_gradients();
  model.descend(0.1);
}

/// Trains on a grid, and on one rank alone; returns the largest difference of losses, norms and
/// gradients, beside the largest of each. train(comm, on_one_rank) returns what was trained.
template <class C, class Train>
double difference(C& comm, ballast::process_grid const& grid, Train const& train)
{
  trained const mine = train(comm, false);
  trained const alone = ballast::run_ranks(
      1, [&](ballast::thread_communicator& self) { return train(self, true); })[0];
  double most = 0;
  auto const compare_all = [&most](block::in a, block::in b) {
    double largest = 1e-300;
    for (double const each : b) { largest = std::max(largest, std::abs(each)); }
    for (std::size_t i = 0; i < b.size(); ++i) {
      most = std::max(most, std::abs(a[i] - b[i]) / largest);
    }
  };
  compare_all(mine.losses, alone.losses);
  compare_all(mine.norms, alone.norms);
  for (std::size_t layer = 0; layer < alone.gradients.size(); ++layer) {
    // Tensor ranks have parts, and replicas the same.
    bool const counts = grid.place(comm.rank()).data == 0;
    auto const& part = mine.gradients[layer];
    compare_all(block::sum_over_ranks(comm, counts ? part : values(part.size())),
                alone.gradients[layer]);
  }
  if (to_index(comm.rank()) == 0) {
    std::printf(
        "%zu ranks train: loss %.3f, then %.3f; losses, norms and gradients are one rank's, ",
        grid.ranks(), mine.losses.front(), mine.losses.back());
    std::printf(most == 0 ? "bit for bit\n" : "to %.0e\n", most);
  }
  return most;
}

}  // namespace pipeline_model
