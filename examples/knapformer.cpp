// SPDX-License-Identifier: Apache-2.0
// KnapFormer (K. Zhang et al., arXiv 2508.06001, 3.2 to 3.5): compute bags filled by a greedy
// knapsack, one all-to-all to get there, one to come back, Ulysses inside the bags. Eight ranks
// train a transformer block on images of three sizes; a single rank that computes all of them finds
// the same loss and the same gradients. Assumed: one small block, one step, gamma 0.405. Not shown:
// GPUs, weights that are split over ranks (FSDP).

#include "common/transformer_block.hpp"  // defines: block::{transformer_block, parameters, values}

#include <ballast/ballast.hpp>
#include <ballast/comm.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace {

using namespace ballast;

// [knapformer]
struct step_outcome {
  double loss;
  block::values gradients;  // this rank's share
  report::balance_metrics as_read;
  report::balance_metrics balanced;
};

step_outcome train_step(thread_communicator& comm, bag_layout const& bags, sample_batch const& data)
{
  block::shape const shape;
  auto const weights = block::random_parameters(shape, /*seed=*/1);
  constexpr auto cost = "transformer:d=16,gamma=0.405"_cost;

  std::vector<tokens> mine;
  for (std::size_t sample = 0; sample < data.lengths.size(); ++sample) {
    if (data.source[sample] == comm.rank()) { mine.push_back(data.lengths[sample]); }
  }

  // One small collective tells everyone what everyone has read; all find the same plan.
  step_balancer balancer(comm, bags, cost, greedy_knapsack{}, {.query_heads = shape.query_heads});
  or_throw(balancer.plan(mine));

  block::values const x = block::pixels(balancer.as_read(), comm.rank(), shape.width);
  block::values x_there(balancer.rows_computed() * shape.width);
  block::values y_there(x_there.size());
  block::values y(x.size());
  block::transformer_block layer(shape, weights, balancer.bag_comm());
  or_throw(balancer.route(rows_of(x, x_there, shape.width)));
  or_throw(layer.forward(balancer.heads(), x_there, y_there));
  or_throw(balancer.reverse_route(rows_of(y_there, y, shape.width)));

  // The loss is where the data were read, and its gradient takes the same two routes.
  double const loss = std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2;
  block::values const& dy = y;
  block::values dx(x.size());
  block::parameters gradients(shape);
  or_throw(balancer.route(rows_of(dy, y_there, shape.width)));
  or_throw(layer.backward(y_there, x_there, gradients));
  or_throw(balancer.reverse_route(rows_of(x_there, dx, shape.width)));
  auto const& plan = balancer.planned();
  return {loss, gradients.flat(), report::measure_as_read(data, plan.costs, comm.size()),
          report::measure_balance(plan.loads, bags.speeds())};
}
// [knapformer]

// Ranks that are threads need no collective to add up.
step_outcome over_all_ranks(bag_layout const& bags, sample_batch const& data)
{
  auto const shares = run_ranks(
      bags.gpus(), [&](thread_communicator& comm) { return train_step(comm, bags, data); });
  step_outcome all = shares.front();
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    all.loss += shares[rank].loss;
    std::ranges::transform(all.gradients, shares[rank].gradients, all.gradients.begin(),
                           std::plus{});
  }
  return all;
}

}  // namespace

int main()
{
  try {
    sample_batch data;
    random_source random(7);
    auto const codes = parse_data_codes("g4b4i128f1s0,g2b2i256f1s0,g2b1i384f1s0").value();
    or_throw(draw_batch_into(data, codes, 8, {}, random));
    auto const bags = lay_out("g1n4+g4n1"_bags, 8).value();
    auto const eight = over_all_ranks(bags, data);

    std::ranges::fill(data.source, rank_id{0});
    auto const one = over_all_ranks(one_gpu_bags(1), data);
    double largest = 0;
    double difference = 0;
    for (std::size_t at = 0; at < one.gradients.size(); ++at) {
      largest = std::max(largest, std::abs(one.gradients[at]));
      difference = std::max(difference, std::abs(one.gradients[at] - eight.gradients[at]));
    }
    std::printf("busiest / mean GPU  %.2f as read, %.2f balanced\n", eight.as_read.balance_ratio(),
                eight.balanced.balance_ratio());
    std::printf("loss                %.12g on one rank, %.12g on eight\n", one.loss, eight.loss);
    std::printf("gradients           differ by %.1e of the largest\n", difference / largest);
    bool const same =
        std::abs(one.loss - eight.loss) <= 1e-10 * one.loss && difference <= 1e-10 * largest;
    return same ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "knapformer: %s\n", problem.what()), 1;
  }
}
