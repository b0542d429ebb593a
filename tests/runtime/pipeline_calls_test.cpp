// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/pipeline_runner.hpp>

#include "../support/test.hpp"

namespace {

using ballast::backward_call;
using ballast::forward_call;
using testing::ElementsAre;
using testing::IsEmpty;
using bytes = std::span<std::byte const>;

// The least that each is.
struct only_forward {
  void forward(forward_call const&) {}
};
struct with_backward : only_forward {
  void backward(backward_call const&) {}
};
struct in_two_parts {
  float forward(forward_call const&) { return 0; }
  void backward_inputs(backward_call const&) {}
  void backward_weights(backward_call const&) {}
};
static_assert(ballast::forward_stage<only_forward> && !ballast::trained_stage<only_forward>);
static_assert(ballast::trained_stage<with_backward>);
static_assert(!ballast::split_backward_stage<with_backward>);
static_assert(ballast::trained_stage<in_two_parts> && ballast::split_backward_stage<in_two_parts>);

struct returns_text {
  char const* forward(forward_call const&);
};
static_assert(!ballast::forward_stage<returns_text>);

TEST(PipelineCalls, ShowTheRowsOfALinkAsElements)
{
  std::array<float, 3> came{1, 2, 3};
  std::array<double, 2> leaves{};
  std::array<double, 2> const gradient{4, 5};
  std::array const inputs{bytes(std::as_bytes(std::span(came)))};
  std::array<std::span<std::byte>, 2> const outputs{
      {{}, std::as_writable_bytes(std::span(leaves))}};
  std::array const gradients{bytes(std::as_bytes(std::span(gradient)))};
  forward_call const forth{.inputs = inputs, .outputs = outputs};
  EXPECT_THAT(forth.input<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(forth.output<double>(0), IsEmpty());
  forth.output<double>(1)[0] = 7;
  EXPECT_EQ(leaves[0], 7);
  backward_call const back{
      .inputs = inputs, .output_gradients = gradients, .input_gradients = outputs};
  EXPECT_THAT(back.input<float>(), ElementsAre(1, 2, 3));
  EXPECT_THAT(back.output_gradient<double>(), ElementsAre(4, 5));
  back.input_gradient<double>(1)[1] = 8;
  EXPECT_EQ(leaves[1], 8);
}

TEST(PipelineCallsDeathTest, RefuseElementsThatAreNotWhole)  // Expects
{
  std::array<float, 3> const came{};
  std::array const inputs{bytes(std::as_bytes(std::span(came)))};
  forward_call const forth{.inputs = inputs, .outputs = {}};
  EXPECT_DEATH((void)forth.input<double>(),
               "link 0 has 12 bytes, which are no whole elements of 8");
  EXPECT_DEATH((void)forth.input<float>(1), "link 1 of a stage of 1");
}

}  // namespace
