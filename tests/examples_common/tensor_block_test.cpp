// SPDX-License-Identifier: Apache-2.0
#include "../../examples/common/tensor_block.hpp"

#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>

namespace {

using block::values;

constexpr block::shape whole{
    .width = 8, .query_heads = 8, .kv_heads = 4, .head_dim = 2, .hidden = 12};
std::vector<ballast::tokens> const lengths{3, 1, 0, 4};

values drawn(std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed);
  values all(count);
  for (double& each : all) { each = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  return all;
}

struct outcome {
  values y, dx;
  values gradients;  // of a whole block, of all sequences
};

/// What so many tensor ranks find; the loss is |y|^2 / 2.
outcome of_ranks(std::uint32_t ranks, block::parameters const& weights, values const& x,
                 block::attends to)
{
  auto const all = ballast::run_ranks(ranks, [&](ballast::thread_communicator& comm) {
    block::tensor_part const part(whole, ranks, static_cast<std::uint32_t>(to_index(comm.rank())));
    auto const own = part.cut(weights);
    std::vector<block::parameters> gradients(lengths.size(), block::parameters(part.own()));
    block::tensor_block layer(part.own(), own, comm, to);
    outcome found;
    found.y = layer.forward(lengths, x);
    found.dx = layer.backward(
        found.y, [&](std::size_t sequence) -> block::parameters& { return gradients[sequence]; });
    values sum(gradients[0].flat().size());
    for (block::parameters& each : gradients) {
      std::ranges::transform(sum, each.flat(), sum.begin(), std::plus{});
    }
    found.gradients = block::sum_over_ranks(comm, part.spread(sum));
    return found;
  });
  for (outcome const& each : all) {  // all have the same bits
    EXPECT_EQ(each.y, all[0].y);
    EXPECT_EQ(each.dx, all[0].dx);
  }
  return all[0];
}

double apart(values const& a, values const& b)
{
  double most = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
  }
  return most;
}

TEST(TensorBlock, IsTheSameOnAnyNumberOfTensorRanks)
{
  auto const weights = block::random_parameters(whole, 3);
  auto const x = drawn(8 * whole.width, 4);
  for (auto const to : {block::attends::to_earlier, block::attends::to_all}) {
    outcome const one = of_ranks(1, weights, x, to);
    for (std::uint32_t const ranks : {2U, 4U}) {
      outcome const several = of_ranks(ranks, weights, x, to);
      EXPECT_LT(apart(several.y, one.y), 1e-13);
      EXPECT_LT(apart(several.dx, one.dx), 1e-12);
      EXPECT_LT(apart(several.gradients, one.gradients), 1e-12);
    }
  }
}

TEST(TensorBlock, HasTheGradientsThatDifferencesOfLossesHave)
{
  auto weights = block::random_parameters(whole, 5);
  auto x = drawn(8 * whole.width, 6);
  auto const loss = [&] {
    double sum = 0;
    for (double const each : of_ranks(2, weights, x, block::attends::to_earlier).y) {
      sum += each * each / 2;
    }
    return sum;
  };
  auto const slope = [&](double& number) {
    double const h = 1e-5;
    double const before = std::exchange(number, number + h);
    double const above = loss();
    number = before - h;
    double const below = loss();
    number = before;
    return (above - below) / (2 * h);
  };
  outcome const found = of_ranks(2, weights, x, block::attends::to_earlier);
  for (std::size_t at = 0; at < x.size(); at += 7) {
    EXPECT_NEAR(slope(x[at]), found.dx[at], 1e-6) << "of x, at " << at;
  }
  std::size_t first = 0;
  for (values* const each : weights.all()) {
    for (std::size_t at = 1; at < each->size(); at += each->size() / 3) {
      EXPECT_NEAR(slope((*each)[at]), found.gradients[first + at], 1e-6) << "at " << first + at;
    }
    first += each->size();
  }
}

TEST(TensorBlock, AttendsWithinASequence)
{
  auto const weights = block::random_parameters(whole, 7);
  auto const x = drawn(8 * whole.width, 8);
  auto other = x;
  for (std::size_t i = 0; i < whole.width; ++i) {
    other[2 * whole.width + i] += 1;
  }  // row 2 of 0..2
  auto const rows_that_differ = [&](block::attends to) {
    auto const a = of_ranks(2, weights, x, to).y;
    auto const b = of_ranks(2, weights, other, to).y;
    std::vector<std::size_t> rows;
    for (std::size_t row = 0; row < 8; ++row) {
      auto const of = [&](values const& y) {
        return std::vector(y.begin() + static_cast<std::ptrdiff_t>(row * whole.width),
                           y.begin() + static_cast<std::ptrdiff_t>((row + 1) * whole.width));
      };
      if (of(a) != of(b)) { rows.push_back(row); }
    }
    return rows;
  };
  EXPECT_THAT(rows_that_differ(block::attends::to_earlier), testing::ElementsAre(2));
  EXPECT_THAT(rows_that_differ(block::attends::to_all), testing::ElementsAre(0, 1, 2));
}

TEST(TensorPart, RefusesHeadsThatRanksDoNotShareEqually)
{
  EXPECT_THROW(block::tensor_part(whole, 3, 0), std::runtime_error);
  EXPECT_THROW(block::tensor_part(whole, 8, 0), std::runtime_error);
}

}  // namespace
