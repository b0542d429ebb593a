// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/unet_shape.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using ballast::costs_of;
using ballast::stable_diffusion_2_1;

// What the models' own files hold (num_parameters() of diffusers says the same): every layer is
// counted.
static_assert(costs_of(stable_diffusion_2_1, 64, 77).parameters == 865'910'724);  // Ensures (1)

TEST(UnetShape, HasTheParametersOfThePublishedModels)
{
  auto version_1_5 = stable_diffusion_2_1;
  version_1_5.context = 768;
  EXPECT_EQ(costs_of(version_1_5, 64, 77).parameters, 859'520'964U);
}

TEST(UnetShape, CountsWhatAnImageTakes)
{
  EXPECT_EQ(costs_of(stable_diffusion_2_1, 64, 77).forward_flops, 804'257'464'320U);
  EXPECT_EQ(costs_of(stable_diffusion_2_1, 128, 77).forward_flops, 4'674'990'243'840U);
  EXPECT_EQ(costs_of(stable_diffusion_2_1, 128, 77).parameters, 865'910'724U);
}

TEST(UnetShape, IsAddedUpLayerByLayer)
{
  // One channel everywhere, no attention but in the middle, one pixel at the lowest level.
  ballast::unet_shape const one{
      .channels = {1, 1, 1, 1}, .blocks = 1, .context = 1, .latent_channels = 1};
  auto const costs = costs_of(one, 8, 0);
  // Multiplications on the way down: in, a block a level (two convolutions, the step's embedding of
  // four), and three convolutions to the next size; the middle, two blocks and its transformer; on
  // the way up two blocks a level, of which the first convolution has two channels and a shortcut.
  std::uint64_t const block = 18, step = 4;
  std::uint64_t const down =
      (4 + 16) + 9 * 64 + block * (64 + 16 + 4 + 1) + 4 * step + 9 * (16 + 4 + 1);
  std::uint64_t const middle = 2 * (block + step) + (1 + 4 + 2 + 2 + 8 + 4 + 1);
  std::uint64_t const up =
      2 * (block + 9 + 2) * (64 + 16 + 4 + 1) + 8 * step + 9 * (4 + 16 + 64) + 9 * 64;
  EXPECT_EQ(costs.forward_flops, 2 * (down + middle + up));
}

TEST(UnetShapeDeathTest, RefusesSizesThatCannotBeHalved)
{
  EXPECT_DEATH((void)costs_of(stable_diffusion_2_1, 60, 77), "a latent is 60 pixels wide");
}

}  // namespace
