// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/sharded_weights.hpp>

#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/core/random.hpp>

namespace {

using ballast::sharded_weights;
using ballast::time_units;

// Two layers of 400 bytes of weights and 400 of gradients on four ranks, whose links take a
// picosecond for a byte: 300 bytes of a layer come from others, and as many of its gradients leave.
constexpr sharded_weights two_layers{.layers = 2,
                                     .ranks = 4,
                                     .weight_bytes = 800,
                                     .gradient_bytes = 800,
                                     .optimizer_bytes = 4800,
                                     .bytes_per_second = 1'000'000'000'000};

TEST(ShardedWeights, AreThoseOfTwoLayersByHand)
{
  static_assert(two_layers.of_layer(800) == 300);
  static_assert(two_layers.gathering() == 600);   // of both layers, once
  static_assert(two_layers.scattering() == 600);  // 1,800 bytes a microbatch: 900 of each layer
  // A quarter of 6,400 bytes, and both layers whole: 800 of weights and 800 of gradients.
  static_assert(two_layers.held_bytes() == 1600 + 1600);
  // Layers of 500 forward and 1,000 backward: the first gather, 0 to 300; forward to 1,300; the
  // first gather of the backward to 1,600; backward to 3,600; the last scatter to 3,900.
  static_assert(two_layers.microbatch(1000, 2000) == 3900);
  // Layers of 100 and 200, a short microbatch: forward computes at 300 and 600 and ends at 700, then
  // two gathers and two scatters follow without a gap, to 1,900; the price is one backward longer.
  static_assert(two_layers.microbatch(200, 400) == 2100);
  static_assert(two_layers.microbatch(0, 0) == 1800);  // a dummy pass gathers as much
  // On two stages nothing hides: each gathers and scatters its layer before and behind.
  static_assert(two_layers.microbatch(1000, 2000, 2) == 3000 + 1800);
}

TEST(ShardedWeights, TakeAndHoldWhatFrozenOnesDo)
{
  sharded_weights frozen = two_layers;
  frozen.gradient_bytes = frozen.optimizer_bytes = 0;
  EXPECT_EQ(frozen.held_bytes(), 200U + 800);
  EXPECT_EQ(frozen.microbatch(1000, 1000), 2600);  // gathered twice, nothing is scattered
  frozen.has_backward = false;
  EXPECT_EQ(frozen.microbatch(1000, 0), 1300);
  sharded_weights alone = two_layers;
  alone.ranks = 1;
  EXPECT_EQ(alone.microbatch(1000, 2000), 3000);
  sharded_weights free = two_layers;
  free.bytes_per_second = 0;
  EXPECT_EQ(free.microbatch(1000, 2000), 3000);
  EXPECT_EQ(two_layers.microbatch(ballast::no_cost - 1, 0), ballast::no_cost);
}

// A rank that computes one layer after the other while its link gathers the next one, and scatters
// the gradients of the one before: which begins when, task by task.
time_units simulated(int layers, time_units forward_time, time_units backward_time,
                     time_units gather, time_units scatter)
{
  time_units link = 0;      // when it is free
  time_units computed = 0;  // when the layer before is done
  time_units issued = 0;    // when the gather of the next layer may begin
  for (int layer = 0; layer < layers; ++layer) {
    link = std::max(link, issued) + gather;
    issued = std::max(computed, link);
    computed = issued + forward_time;
  }
  issued = computed;
  time_units to_scatter = -1;  // when the gradients of the layer before are there
  for (int layer = 0; layer < layers; ++layer) {
    link = std::max(link, issued) + gather;
    time_units const gathered = link;
    if (to_scatter >= 0) { link = std::max(link, to_scatter) + scatter; }
    issued = std::max(computed, gathered);
    computed = issued + backward_time;
    to_scatter = computed;
  }
  return std::max(link, to_scatter) + scatter;
}

TEST(ShardedWeights, TakeWhatTheirGathersTakeTaskByTask)  // Ensures (1) (2)
{
  EXPECT_EQ(simulated(2, 500, 1000, 300, 300), 3900);
  EXPECT_EQ(simulated(2, 100, 200, 300, 300), 1900);
  ballast::random_source random(8);
  int exact = 0;
  int const trials = ballast_test::trials_of(2000);
  for (int trial = 0; trial < trials; ++trial) {
    auto const layers = static_cast<std::uint32_t>(random.between(1, 12));
    time_units const forward_time = random.between(0, 1000);
    time_units const backward_time = random.between(0, 2000);
    auto const gather = static_cast<std::uint64_t>(random.between(1, 1500));
    auto const scatter = static_cast<std::uint64_t>(random.between(1, 1500));
    sharded_weights const weights{.layers = layers,
                                  .ranks = 2,
                                  .weight_bytes = 2 * gather * layers,
                                  .gradient_bytes = 2 * scatter * layers,
                                  .bytes_per_second = 1'000'000'000'000};
    time_units const priced = weights.microbatch(layers * forward_time, layers * backward_time);
    time_units const expected =
        simulated(static_cast<int>(layers), forward_time, backward_time,
                  static_cast<time_units>(gather), static_cast<time_units>(scatter));
    EXPECT_GE(priced, expected);
    EXPECT_LE(priced, expected + backward_time);
    exact += priced == expected ? 1 : 0;
  }
  EXPECT_GT(exact, trials / 4);
}

TEST(ShardedWeights, TakeNoLongerForLess)  // Ensures (1)
{
  ballast::random_source random(9);
  for (int trial = 0; trial < ballast_test::trials_of(500); ++trial) {
    auto const layers = static_cast<std::uint32_t>(random.between(1, 40));
    sharded_weights const weights{
        .layers = layers,
        .ranks = static_cast<std::uint32_t>(random.between(2, 64)),
        .weight_bytes = static_cast<std::uint64_t>(random.between(0, 1'000'000)),
        .gradient_bytes = static_cast<std::uint64_t>(random.between(0, 1'000'000)),
        .bytes_per_second = 1'000'000'000'000};
    time_units const forward_time = random.between(0, 1'000'000);
    time_units const backward_time = random.between(0, 1'000'000);
    auto const stages = static_cast<std::uint32_t>(random.between(1, layers));
    time_units const priced = weights.microbatch(forward_time, backward_time, stages);
    time_units const passed = 2 * weights.gathering() + weights.scattering();
    EXPECT_GE(priced, std::max(forward_time + backward_time, passed));
    EXPECT_LE(priced, forward_time + backward_time + passed);
    EXPECT_GE(weights.microbatch(forward_time + 1, backward_time, stages), priced);
    EXPECT_GE(weights.microbatch(forward_time, backward_time + 1, stages), priced);
  }
}

}  // namespace
