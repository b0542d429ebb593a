// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/module_profile.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using testing::HasSubstr;

constexpr std::uint32_t largest_degree = std::numeric_limits<std::uint32_t>::max();

TEST(ParallelDegree, IsAGroupOfAsManyGpusAsItsProduct)
{
  EXPECT_EQ(parallel_degree{}.gpus(), 1U);
  EXPECT_EQ((parallel_degree{2, 3, 5}.gpus()), 30U);
  EXPECT_EQ((parallel_degree{2, 0, 5}.gpus()), 0U);
  EXPECT_EQ((parallel_degree{2, 5, 0}.gpus()), 0U);
  EXPECT_EQ((parallel_degree{largest_degree, largest_degree, 1}.gpus()),
            std::uint64_t{largest_degree} * largest_degree);
  EXPECT_EQ((parallel_degree{largest_degree, largest_degree, 2}.gpus()),
            std::numeric_limits<std::uint64_t>::max());
}

TEST(ParallelDegree, IsOrderedByTpThenSpThenEp)  // Ensures (1)
{
  EXPECT_LT((parallel_degree{1, 9, 9}), (parallel_degree{2, 1, 1}));
  EXPECT_LT((parallel_degree{2, 1, 9}), (parallel_degree{2, 2, 1}));
  EXPECT_LT((parallel_degree{2, 2, 1}), (parallel_degree{2, 2, 2}));
  struct point {
    std::uint32_t ep = 5;
    std::uint32_t sp = 3;
    std::uint32_t tp = 2;
  };
  EXPECT_EQ(ballast::degree_of(point{}), (parallel_degree{2, 3, 5}));
}

TEST(ParallelDegree, NamesWhatIsNotOne)
{
  EXPECT_EQ(text_of(parallel_degree{4}), "tp 4");
  EXPECT_EQ(text_of(parallel_degree{1, 2, 1}), "tp 1 sp 2");
  EXPECT_EQ(text_of(parallel_degree{2, 1, 8}), "tp 2 ep 8");
  EXPECT_EQ(text_of(parallel_degree{2, 4, 8}), "tp 2 sp 4 ep 8");
}

constexpr module_memory measured_memory{.layers = {2, 6},
                                        .state_bytes = {30, 70},
                                        .sizes = {100, 300},
                                        .activation_bytes = {{{25, 65}, {65, 185}}}};

TEST(ModuleMemory, IsExactWhereItWasMeasured)  // state (1), activations (1)
{
  for (std::size_t of_layers = 0; of_layers < 2; ++of_layers) {
    EXPECT_EQ(measured_memory.state(measured_memory.layers[of_layers]),
              measured_memory.state_bytes[of_layers]);
    for (std::size_t of_size = 0; of_size < 2; ++of_size) {
      EXPECT_EQ(measured_memory.activations(measured_memory.layers[of_layers],
                                            measured_memory.sizes[of_size]),
                measured_memory.activation_bytes[of_layers][of_size]);
    }
  }
  static_assert(measured_memory.state(4) == 50);
  EXPECT_EQ(measured_memory.state(1), 20U);
  EXPECT_EQ(measured_memory.activations(2, 200), 45U);
  EXPECT_EQ(measured_memory.activations(10, 300), 305U);
  EXPECT_EQ(measured_memory.activations(2, 0), 5U);
}

TEST(ModuleMemory, IsRoundedUpAndNeverNegative)
{
  module_memory const slow{.layers = {1, 4}, .state_bytes = {0, 1}};
  EXPECT_EQ(slow.state(2), 1U);
  module_memory const falling{.layers = {2, 3}, .state_bytes = {5, 15}, .sizes = {1, 2}};
  EXPECT_EQ(falling.state(1), 0U);
  module_memory const huge{.layers = {1, 2},
                           .state_bytes = {0, std::numeric_limits<std::uint64_t>::max()}};
  EXPECT_EQ(huge.state(3), std::numeric_limits<std::uint64_t>::max());
}

TEST(ModuleMemory, IsTheLineInExactNumbers)
{
  ballast::random_source random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    auto const draw = [&](std::int64_t most) { return random.between(0, most); };
    auto const first = static_cast<std::uint32_t>(1 + draw(40));
    module_memory const memory{.layers = {first, first + 1 + static_cast<std::uint32_t>(draw(20))},
                               .state_bytes = {static_cast<std::uint64_t>(draw(1000)),
                                               static_cast<std::uint64_t>(draw(1000))}};
    auto const at = static_cast<std::uint32_t>(1 + draw(90));
    double const slope =
        (static_cast<double>(memory.state_bytes[1]) - static_cast<double>(memory.state_bytes[0])) /
        (memory.layers[1] - memory.layers[0]);
    double const exact = static_cast<double>(memory.state_bytes[0]) +
                         slope * (static_cast<double>(at) - memory.layers[0]);
    EXPECT_EQ(memory.state(at), static_cast<std::uint64_t>(std::max(0.0, std::ceil(exact - 1e-9))));
  }
}

TEST(ModuleMemory, GrowsWithTheSizeAndSaysWhichIsTheLargest)  // activations (2), largest_size
{
  ballast::random_source random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    auto const draw = [&](std::int64_t most) {
      return static_cast<std::uint64_t>(random.between(0, most));
    };
    auto const first = static_cast<std::uint32_t>(1 + draw(5));
    std::uint64_t const few = draw(40);
    std::uint64_t const many = draw(40);
    module_memory const memory{
        .layers = {first, first + 1 + static_cast<std::uint32_t>(draw(5))},
        .sizes = {random.between(0, 9), 10 + random.between(0, 9)},
        .activation_bytes = {{{few, few + draw(30)}, {many, many + draw(30)}}}};
    ASSERT_TRUE(memory.check());
    auto const stage = static_cast<std::uint32_t>(1 + draw(12));
    std::uint64_t const bytes = draw(80);
    tokens largest = -1;
    for (tokens size = 0; size < 200; ++size) {
      if (memory.activations(stage, size) <= bytes) {
        EXPECT_EQ(largest, size - 1);
        largest = size;
      }
    }
    auto const said = memory.largest_size(stage, bytes);
    EXPECT_EQ(std::min<tokens>(said, 199), largest) << "trial " << trial;
  }
  module_memory const flat{.activation_bytes = {{{3, 3}, {3, 3}}}};
  EXPECT_EQ(flat.largest_size(1, 3), ballast::longest_sample);
  EXPECT_EQ(flat.largest_size(1, 2), -1);
}

TEST(ModuleMemory, IsMeasuredAtTwoLayersAndTwoSizes)
{
  EXPECT_TRUE(measured_memory.check());
  module_memory memory = measured_memory;
  memory.layers = {6, 6};
  EXPECT_EQ(memory.check().error().position, 0U);
  memory.layers = {0, 6};
  EXPECT_EQ(memory.check().error().position, 0U);
  memory = measured_memory;
  for (tokens const second : {tokens{100}, ballast::longest_sample + 1}) {
    memory.sizes[1] = second;
    EXPECT_EQ(memory.check().error().position, 1U);
  }
  memory = measured_memory;
  memory.activation_bytes[1][1] = 64;
  EXPECT_EQ(memory.check().error().position, 2U);
  memory.sizes = {-1, 5};
  EXPECT_THAT(memory.check().error().message, testing::HasSubstr("sizes -1 and 5"));
}

module_profile sound()
{
  return {.name = "encoder",
          .layers = 24,
          .flops = {.linear = 1000},
          .degrees = {{.tp = 1}, {.tp = 2}, {.tp = 8}}};
}

std::string said(module_profile const& module)
{
  auto const checked = module.check();
  return checked ? "" : checked.error().message;
}

TEST(ModuleProfile, HasLayersWorkAndDegreesInOrder)
{
  EXPECT_EQ(said(sound()), "");
  auto module = sound();
  module.layers = 0;
  EXPECT_THAT(said(module), HasSubstr("module encoder has no layers"));
  module = sound();
  module.flops = {};
  EXPECT_THAT(said(module), HasSubstr("takes no FLOP"));
  module = sound();
  module.degrees.clear();
  EXPECT_THAT(said(module), HasSubstr("no parallel degree"));
  module = sound();
  module.boundary_bytes = (std::uint64_t{1} << 53) + 1;
  EXPECT_THAT(said(module), HasSubstr("gives more than 2^53 bytes"));
  module = sound();
  module.degrees[2].tp = 2;
  EXPECT_THAT(said(module), HasSubstr("has degree tp 2 after tp 2"));
  EXPECT_EQ(module.check().error().position, 2U);
  module.degrees[2].ep = 2;
  EXPECT_EQ(said(module), "");
  module.degrees[1].sp = 2;
  EXPECT_THAT(said(module), HasSubstr("has degree tp 2 ep 2 after tp 2 sp 2"));
  module.degrees[2].sp = 0;
  EXPECT_THAT(said(module),
              HasSubstr("has a degree of tp 2 sp 0 ep 2, which is no number of GPUs"));
  module.degrees[2].sp = 1U << 31;
  EXPECT_THAT(said(module), HasSubstr("no number of GPUs from 1 to 2^32 - 1"));
  module = sound();
  module.degrees[1].memory.layers = {3, 3};
  EXPECT_THAT(said(module), HasSubstr("at tp 2: memory was measured with 3"));
}

TEST(ModuleProfile, FindsTheDegreesThatItWasMeasuredAt)
{
  auto const module = sound();
  EXPECT_EQ(module.find({1}), &module.degrees[0]);
  EXPECT_EQ(module.find({8}), &module.degrees[2]);
  EXPECT_EQ(module.find({4}), nullptr);
  EXPECT_EQ(module.find({8, 2}), nullptr);
  EXPECT_EQ(module_profile{}.find({1}), nullptr);
}

}  // namespace
