// SPDX-License-Identifier: Apache-2.0
// Consequence invariance: a transformer block, its loss and its gradients, computed in any bags,
// are those of one rank that computes everything.

#include "../../examples/common/transformer_block.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::bag_id;
using ballast::bag_layout;
using ballast::rank_id;
using ballast::rows_of;
using ballast::thread_communicator;
using ballast::to_id;
using ballast::tokens;

struct step {
  std::vector<tokens> lengths;
  std::vector<rank_id> source;
  std::vector<bag_id> owner;
  bag_layout bags;
};

struct training {
  double loss = 0;
  block::parameters gradients;
  std::vector<block::values> input_gradient;  // of each rank's rows, as read

  training(block::shape const& shape, std::size_t ranks) : gradients(shape), input_gradient(ranks)
  {}
};

// The loss is the sum over tokens of sum_i (i + 1) y_i^2 / 2: no two features weigh the same.
double weight(std::size_t at, std::size_t width)
{
  return static_cast<double>(at % width + 1);
}

training train(block::shape const& shape, block::parameters const& weights, step const& data)
{
  std::size_t const ranks = data.bags.gpus();
  auto const read = ballast::place(data.lengths, data.source, ranks);
  auto const computed = ballast::place(data.lengths, data.owner, data.bags);
  ballast::jagged<bag_id, ballast::sample_id> samples;
  samples.collect(data.owner, data.bags.size());

  training all(shape, ranks);
  auto shares = ballast::run_ranks(ranks, [&](thread_communicator& comm) {
    auto const bag = data.bags.bag_of(comm.rank());
    auto in_bag = comm.split(static_cast<std::uint32_t>(bag)).value();
    auto const to_compute = ballast::plan_route(read, computed, comm.rank());
    ballast::ulysses_plan heads;
    heads.assign(data.lengths, samples[bag], data.bags[bag].gpus, shape.query_heads);
    ballast::workspace memory;
    block::transformer_block layer(shape, weights, in_bag);

    auto const x = block::pixels(read, comm.rank(), shape.width);
    block::values there(static_cast<std::size_t>(to_compute.rows_after) * shape.width);
    block::values y_there(there.size());
    block::values y(x.size());
    training share(shape, 1);
    share.input_gradient[0].resize(x.size());
    EXPECT_TRUE(route(comm, to_compute, memory, rows_of(x, there, shape.width)));
    EXPECT_TRUE(layer.forward(heads, there, y_there));
    EXPECT_TRUE(reverse_route(comm, to_compute, memory, rows_of(y_there, y, shape.width)));
    block::values dy(y.size());
    for (std::size_t at = 0; at < y.size(); ++at) {
      share.loss += weight(at, shape.width) * y[at] * y[at] / 2;
      dy[at] = weight(at, shape.width) * y[at];
    }
    EXPECT_TRUE(route(comm, to_compute, memory, rows_of(dy, y_there, shape.width)));
    EXPECT_TRUE(layer.backward(y_there, there, share.gradients));
    EXPECT_TRUE(reverse_route(comm, to_compute, memory,
                              rows_of(there, share.input_gradient[0], shape.width)));
    return share;
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    all.loss += shares[rank].loss;
    auto const sums = all.gradients.all();
    auto const terms = shares[rank].gradients.all();
    for (std::size_t each = 0; each < sums.size(); ++each) {
      std::ranges::transform(*sums[each], *terms[each], sums[each]->begin(), std::plus{});
    }
    all.input_gradient[rank] = std::move(shares[rank].input_gradient[0]);
  }
  return all;
}

std::vector<tokens> const sample_lengths{9, 31, 4, 0, 16, 7, 40, 5, 12, 4, 23};

step on_one_rank()
{
  return {sample_lengths, std::vector<rank_id>(sample_lengths.size()),
          std::vector<bag_id>(sample_lengths.size()), ballast::one_gpu_bags(1)};
}

// Rank 1 reads nothing.
std::vector<rank_id> read_by(std::size_t ranks)
{
  std::vector<rank_id> source;
  for (std::size_t sample = 0; sample < sample_lengths.size(); ++sample) {
    std::size_t const rank = sample * ranks / sample_lengths.size();
    source.push_back(to_id<rank_id>(rank == 1 ? 0 : rank));
  }
  return source;
}

step in_bags(std::string const& spec)
{
  auto const bags = ballast::parse_bags(spec).value();
  auto const layout = ballast::lay_out(bags, ballast::cluster_of(bags.gpus()).value()).value();
  auto plan = ballast::partition(sample_lengths, layout, ballast::quadratic_cost{.linear = 1}, {},
                                 ballast::longest_processing_time{})
                  .value();
  return {sample_lengths, read_by(layout.gpus()), plan.owner, layout};
}

// No balancer: every rank computes what it read.
step as_read(std::size_t ranks)
{
  step data{sample_lengths, read_by(ranks), {}, ballast::one_gpu_bags(ranks)};
  for (rank_id const rank : data.source) { data.owner.push_back(to_id<bag_id>(rank)); }
  return data;
}

void expect_close(block::values const& found, block::values const& expected, char const* what)
{
  ASSERT_EQ(found.size(), expected.size());
  double largest = 0;
  for (double const value : expected) { largest = std::max(largest, std::abs(value)); }
  for (std::size_t at = 0; at < found.size(); ++at) {
    ASSERT_NEAR(found[at], expected[at], 1e-11 * largest) << what << " at " << at;
  }
}

struct case_of_shape {
  block::shape shape;
  char const* name;
};

class Invariance : public testing::TestWithParam<case_of_shape> {};

TEST_P(Invariance, LossAndGradientsAreThoseOfOneRank)
{
  block::shape const shape = GetParam().shape;
  auto const weights = block::random_parameters(shape, 1);
  auto expected = train(shape, weights, on_one_rank());
  std::vector<step> const cases{as_read(4),           in_bags("g1n4"),      in_bags("g2n2"),
                                in_bags("g4n1"),      in_bags("g1n2+g2n1"), in_bags("g3n1+g1n1"),
                                in_bags("g4n1+g1n4"), in_bags("g2n1+g1n1")};
  for (step const& data : cases) {
    SCOPED_TRACE(testing::Message() << data.bags.size() << " bags on " << data.bags.gpus());
    auto found = train(shape, weights, data);
    EXPECT_NEAR(found.loss, expected.loss, 1e-12 * expected.loss);
    auto const found_each = found.gradients.all();
    auto const expected_each = expected.gradients.all();
    for (std::size_t each = 0; each < found_each.size(); ++each) {
      expect_close(*found_each[each], *expected_each[each], "parameter");
    }
    // Ranks read in the order of samples, so that their rows, one rank after the other, are all
    // rows.
    block::values input;
    for (block::values const& rows : found.input_gradient) {
      input.insert(input.end(), rows.begin(), rows.end());
    }
    expect_close(input, expected.input_gradient[0], "input");
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, Invariance,
                         testing::Values(case_of_shape{{16, 4, 4, 4, 24}, "all_heads"},
                                         case_of_shape{{16, 4, 2, 4, 24}, "grouped_query"},
                                         case_of_shape{{12, 5, 1, 3, 24}, "multi_query_uneven"},
                                         case_of_shape{{12, 6, 3, 2, 24}, "straddling"},
                                         case_of_shape{{8, 2, 1, 4, 16}, "fewer_heads_than_gpus"}),
                         [](auto const& each) { return std::string(each.param.name); });

TEST(InvarianceOracle, GradientsAreTheSlopesOfTheLoss)
{
  block::shape const shape{8, 4, 2, 2, 12};
  auto weights = block::random_parameters(shape, 2);
  auto const data = in_bags("g2n1+g1n2");
  auto gradients = train(shape, weights, data).gradients;
  auto const weights_of = weights.all();
  auto const gradients_of = gradients.all();
  for (std::size_t each = 0; each < weights_of.size(); ++each) {
    for (std::size_t at = 0; at < weights_of[each]->size();
         at += 1 + weights_of[each]->size() / 3) {
      double& value = (*weights_of[each])[at];
      double const kept = value;
      double const step_size = 1e-5;
      value = kept + step_size;
      double const above = train(shape, weights, data).loss;
      value = kept - step_size;
      double const below = train(shape, weights, data).loss;
      value = kept;
      double const slope = (above - below) / (2 * step_size);
      EXPECT_NEAR((*gradients_of[each])[at], slope, 1e-6 * (1 + std::abs(slope)))
          << "parameter " << each << " at " << at;
    }
  }
}

}  // namespace
