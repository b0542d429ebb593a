// SPDX-License-Identifier: Apache-2.0
// KnapFormer (K. Zhang et al., arXiv 2508.06001, 3.2 to 3.5, and 4's training loop): bags filled by
// a greedy knapsack, one all-to-all to get there, one to come back, Ulysses inside the bags, blocks
// with adaptive layer norm and activation checkpointing. Eight ranks find the loss and gradients of
// a single rank that computes all images. Assumed: two small blocks, one step, gamma 0.405. Not
// shown: GPUs, weights that are split over ranks (FSDP).

#include "common/adaptive_block.hpp"     // defines: block::{adaptive_blocks, token_rows_of}
#include "common/transformer_block.hpp"  // defines: block::pixels

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
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

namespace {

using namespace ballast;
using block::values;
using model = std::vector<block::block_parameters>;
constexpr std::size_t width = block::shape{}.width;

struct picture {  // an image, and the text that describes it
  tokens text, patches;
  [[nodiscard]] constexpr tokens length() const { return text + patches; }
};

struct pictures {
  std::vector<picture> all;
  sample_batch batch;  // their lengths, and who has read them
  values conditions;   // of each a row: what its timestep and its text have become

  [[nodiscard]] std::vector<picture> read_by(rank_id rank) const
  {
    std::vector<picture> read;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (batch.source[i] == rank) { read.push_back(all[i]); }
    }
    return read;
  }

  [[nodiscard]] values conditions_read_by(rank_id rank) const
  {
    values rows;
    for (std::size_t at = 0; at < conditions.size(); ++at) {
      if (batch.source[at / width] == rank) { rows.push_back(conditions[at]); }
    }
    return rows;
  }
};

struct step_outcome {
  double loss = 0;
  std::size_t kept = 0;  // numbers between the forward and the backward pass
  values gradients;      // of the parameters: this rank's share
  values conditions;     // gradients of those that this rank has read
  report::balance_metrics as_read;
  report::balance_metrics balanced;
};

// [knapformer]
step_outcome train_step(thread_communicator& comm, bag_layout const& bags, pictures const& data,
                        model const& weights, block::keep what)
{
  block::shape const shape;
  auto const rows = [](auto const& from, auto& to) { return rows_of(from, to, width); };
  constexpr auto cost = cost_of{"transformer:d=16,gamma=0.405"_cost, &picture::length};

  // One small collective tells everyone what everyone has read; all find the same plan.
  step_options<picture> const options{.length_of = [](picture const& p) { return p.length(); },
                                      .query_heads = shape.query_heads};
  step_balancer balancer(comm, bags, cost, greedy_knapsack{}, options);
  or_throw(balancer.plan(data.read_by(comm.rank())));
  auto const& plan = balancer.planned();

  // Tokens go where they are computed,
  values const x = block::pixels(balancer.as_read(), comm.rank(), width);
  values x_there(balancer.rows_computed() * width), y_there(x_there.size()), y(x.size());
  or_throw(balancer.route(rows(x, x_there)));

  // and the condition of each sequence to every GPU of its bag.
  auto const beside = plan_sequence_rows(balancer.samples().source, plan.owner, bags, comm.rank());
  values const c = data.conditions_read_by(comm.rank());
  values copies(static_cast<std::size_t>(beside.route.rows_before) * width);
  values c_there(static_cast<std::size_t>(beside.route.rows_after) * width);
  repeat_rows<double>(beside.copies, c, copies);
  workspace memory;
  or_throw(route(comm, beside.route, memory, rows(copies, c_there)));

  // Forward keeps what enters each block.
  auto const text = [&](sample_id each) { return balancer.samples().samples[each].text; };
  block::adaptive_blocks layers(shape, weights, balancer.bag_comm(), what, balancer.heads(),
                                block::token_rows_of(balancer.as_computed(), comm.rank(),
                                                     plan.samples[balancer.bag()], text));
  or_throw(layers.forward(x_there, c_there, y_there));
  or_throw(balancer.reverse_route(rows(y_there, y)));
  std::size_t const kept = layers.kept();

  // The loss is |y|^2 / 2 where the data were read. Its gradient, y, takes the same two routes, and
  // between them the backward pass computes each block again, exchanges and all.
  double const loss = std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2;
  values dx_there(x_there.size()), dx(x.size()), dc_there(c_there.size()), dc(c.size());
  model gradients = block::zero_parameters(shape);
  or_throw(balancer.route(rows(y, y_there)));
  or_throw(layers.backward(y_there, dx_there, dc_there, gradients));
  or_throw(balancer.reverse_route(rows(dx_there, dx)));
  or_throw(reverse_route(comm, beside.route, memory, rows(dc_there, copies)));
  sum_rows<double>(beside.copies, copies, dc);
  return {loss,
          kept,
          block::flat(gradients),
          dc,
          report::measure_as_read(data.batch, plan.costs, comm.size()),
          report::measure_balance(plan.loads, bags.speeds())};
}
// [knapformer]

// Ranks that are threads need no collective to add up.
step_outcome over_all_ranks(bag_layout const& bags, pictures const& data, model const& weights,
                            block::keep what)
{
  auto const shares = run_ranks(bags.gpus(), [&](thread_communicator& comm) {
    return train_step(comm, bags, data, weights, what);
  });
  step_outcome all = shares.front();
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    step_outcome const& share = shares[rank];
    all.loss += share.loss;
    all.kept += share.kept;
    std::ranges::transform(all.gradients, share.gradients, all.gradients.begin(), std::plus{});
    all.conditions.insert(all.conditions.end(), share.conditions.begin(), share.conditions.end());
  }
  return all;
}

/// The largest difference, by the largest element; both are in the order in which data were read.
double difference(values const& expected, values const& found)
{
  double largest = 0;
  double apart = expected.size() == found.size() ? 0 : INFINITY;
  for (std::size_t at = 0; at < expected.size() && at < found.size(); ++at) {
    largest = std::max(largest, std::abs(expected[at]));
    apart = std::max(apart, std::abs(expected[at] - found[at]));
  }
  return apart / largest;
}

/// The data codes say what each GPU reads; text and conditions are drawn beside them.
pictures draw(std::vector<data_code> const& codes, std::size_t ranks, tokens longest_text)
{
  pictures drawn;
  random_source random(7);
  or_throw(draw_batch(drawn.batch, codes, ranks, {.longest_text = 0}, random));
  for (tokens& length : drawn.batch.lengths) {
    drawn.all.push_back({random.between(0, longest_text), length});
    length = drawn.all.back().length();
  }
  drawn.conditions.resize(drawn.all.size() * width);
  for (double& each : drawn.conditions) {
    each = static_cast<double>(random.between(-1000, 1000)) / 1000;
  }
  return drawn;
}

/// How far gradients are from differences of losses, on two GPUs that share each sequence.
double check_gradients(model weights)
{
  bag_layout const bags("g2n1"_bags, 2);
  auto data = draw(parse_data_codes("g1b1i32f1s0,g1b2i16f1s0").value(), 2, 3);
  auto const step = [&] { return over_all_ranks(bags, data, weights, block::keep::inputs); };
  step_outcome const expected = step();
  values gradients = expected.gradients;
  gradients.insert(gradients.end(), expected.conditions.begin(), expected.conditions.end());
  auto inputs = block::all_of(weights);
  inputs.push_back(&data.conditions);

  values slopes, found;
  std::size_t first = 0;
  for (values* const each : inputs) {  // three of every matrix
    for (std::size_t at = 5; at < each->size(); at += each->size() / 3) {
      double const h = 1e-5;
      double const before = std::exchange((*each)[at], (*each)[at] + h);
      double const above = step().loss;
      (*each)[at] = before - h;
      slopes.push_back((above - step().loss) / (2 * h));
      found.push_back(gradients[first + at]);
      (*each)[at] = before;
    }
    first += each->size();
  }
  return difference(slopes, found);
}

}  // namespace

int main()
{
  try {
    auto const weights = block::random_model(block::shape{}, /*seed=*/1);
    auto const codes = parse_data_codes("g4b4i128f1s0,g2b2i192f1s0,g2b1i320f1s0").value();
    auto data = draw(codes, 8, 64);
    bag_layout const bags("g1n4+g4n1"_bags, 8);
    auto const eight = over_all_ranks(bags, data, weights, block::keep::inputs);
    auto const all_kept = over_all_ranks(bags, data, weights, block::keep::everything);
    std::ranges::fill(data.batch.source, rank_id{0});
    auto const one = over_all_ranks(one_gpu_bags(1), data, weights, block::keep::everything);

    double const by_parameters = difference(one.gradients, eight.gradients);
    double const by_conditions = difference(one.conditions, eight.conditions);
    double const by_slopes = check_gradients(weights);
    bool const same_bits = eight.loss == all_kept.loss && eight.gradients == all_kept.gradients &&
                           eight.conditions == all_kept.conditions;
    std::printf("busiest / mean GPU  %.2f as read, %.2f balanced\n", eight.as_read.balance_ratio(),
                eight.balanced.balance_ratio());
    std::printf("loss                %.12g on one rank, %.12g on eight\n", one.loss, eight.loss);
    std::printf("gradients           differ by %.1e of the largest, of conditions by %.1e,\n",
                by_parameters, by_conditions);
    std::printf("                    from differences of losses by %.1e\n", by_slopes);
    std::printf("recomputed          keeps %.1f %% of the numbers, and finds %s\n",
                100.0 * static_cast<double>(eight.kept) / static_cast<double>(all_kept.kept),
                same_bits ? "the same bits" : "OTHER BITS");
    bool const same = std::abs(one.loss - eight.loss) <= 1e-10 * one.loss &&
                      by_parameters <= 1e-10 && by_conditions <= 1e-10 && by_slopes <= 1e-7;
    return same && same_bits ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "knapformer: %s\n", problem.what()), 1;
  }
}
