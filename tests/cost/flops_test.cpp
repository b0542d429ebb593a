// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/flops.hpp>

#include "../support/exact.hpp"
#include "../support/plan_checks.hpp"
#include "../support/test.hpp"

namespace {

using namespace ballast;
using ballast_test::cpp_int;
using testing::HasSubstr;

static_assert(std::regular<flop_polynomial>);

constexpr auto most_coefficient = std::numeric_limits<std::uint64_t>::max();
constexpr flop_polynomial largest_polynomial{most_coefficient, most_coefficient};
constexpr flop_polynomial smallest_polynomial{1, 1};

RC_GTEST_PROP(Flops, AreTheFormulaExactly, (std::uint64_t linear, std::uint64_t quadratic))
{
  auto const length = *rc::gen::inRange<tokens>(0, longest_sample + 1);
  cpp_int const exact = cpp_int(linear) * length + cpp_int(quadratic) * length * length;
  RC_ASSERT(cpp_int(flop_polynomial{linear, quadratic}.exact(length)) == exact);
}

TEST(Flops, OfTheLargestPolynomialAndLengthFit)
{
  cpp_int const l = longest_sample;
  EXPECT_EQ(cpp_int(largest_polynomial.exact(longest_sample)),
            most_coefficient * l + most_coefficient * l * l);
  EXPECT_EQ(largest_polynomial.exact(0), 0U);
}

TEST(Flops, AsADoubleAreTheNearest)
{
  EXPECT_DOUBLE_EQ((flop_polynomial{24, 4}.of(10)), 640);
  constexpr double l = longest_sample;
  EXPECT_DOUBLE_EQ((flop_polynomial{0, most_coefficient}.of(longest_sample)), 0x1p64 * l * l);
}

RC_GTEST_PROP(Flops, AddAndMultiplyExactlyOrFail,
              (std::uint64_t a, std::uint64_t b, std::uint64_t times))
{
  auto const expect = [](ballast::result<flop_polynomial> const& found, cpp_int const& linear,
                         cpp_int const& quadratic) {
    if (linear > most_coefficient || quadratic > most_coefficient) {
      RC_ASSERT(!found.has_value());
      RC_ASSERT(found.error().code == error_code::out_of_range);
    } else {
      flop_polynomial const expected{.linear = static_cast<std::uint64_t>(linear),
                                     .quadratic = static_cast<std::uint64_t>(quadratic)};
      RC_ASSERT(found.value() == expected);
    }
  };
  expect(flop_polynomial{a, b}.plus({b, a}), cpp_int(a) + b, cpp_int(a) + b);
  expect(flop_polynomial{a, 0}.plus({b, 5}), cpp_int(a) + b, 5);
  expect(flop_polynomial{a, 0}.times(times), cpp_int(a) * times, 0);
  expect(flop_polynomial{0, b}.times(times), 0, cpp_int(b) * times);
}

TEST(Flops, SayWhatToDoWhenTheyDoNotFit)
{
  EXPECT_EQ(largest_polynomial.plus({}).value(), largest_polynomial);
  EXPECT_THAT(largest_polynomial.plus({1, 0}).error().message,
              testing::HasSubstr("do not fit 64 bits; check its dimensions"));
}

TEST(FlopsDeathTest, RejectLengthsThatHaveNoCost)
{
  EXPECT_DEATH((void)smallest_polynomial.exact(-1), "the FLOP of -1 tokens");
  EXPECT_DEATH((void)smallest_polynomial.exact(longest_sample + 1), "which is not from 0 to ");
}

static_assert(std::regular<training_passes>);

constexpr flop_polynomial forward{.linear = 1000, .quadratic = 10};

TEST(TrainingPasses, AreThreeForTheModelAndFourForTheHardware)
{
  EXPECT_EQ(step_flops(forward, {}).value(), (flop_polynomial{3000, 30}));
  EXPECT_EQ(step_flops(forward, {.recompute = 1}).value(), (flop_polynomial{4000, 40}));
}

TEST(TrainingPasses, OfAFrozenModuleSkipTheGradientsOfItsWeights)  // Ensures (1)
{
  // Attention has no weights, so that freezing saves it nothing.
  auto const through = frozen_gradient::passes_through;
  EXPECT_EQ(step_flops(forward, training_passes{}.frozen(through)).value(),
            (flop_polynomial{2000, 30}));
  EXPECT_EQ(step_flops(forward, training_passes{.recompute = 1}.frozen(through)).value(),
            (flop_polynomial{3000, 40}));
}

TEST(TrainingPasses, OfAFrozenFrontAreTheForwardPassAlone)  // Ensures (2)
{
  auto const stops = frozen_gradient::stops;
  EXPECT_EQ(step_flops(forward, training_passes{}.frozen(stops)).value(), forward);
  EXPECT_EQ(step_flops(forward, training_passes{.recompute = 1}.frozen(stops)).value(), forward);
}

TEST(TrainingPasses, RefuseFlopsThatDoNotFit)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(step_flops({most / 3, most / 3}, {}).has_value());
  EXPECT_EQ(step_flops({most / 3 + 1, 0}, {}).error().code, error_code::out_of_range);
  EXPECT_EQ(step_flops({0, most / 3 + 1}, {}).error().code, error_code::out_of_range);
  constexpr auto often = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(step_flops({most, most}, {often, often, often, often}).error().code,
            error_code::out_of_range);
}

static_assert(std::regular<transformer_shape>);

// Adds up the matrix products of a forward pass over `length` tokens, one by one.
cpp_int products_of(transformer_shape const& shape, cpp_int const& length)
{
  cpp_int flops = 0;
  auto const product = [&](cpp_int const& rows, cpp_int const& inner, cpp_int const& columns) {
    flops += 2 * rows * inner * columns;
  };
  cpp_int const d = shape.hidden;
  cpp_int const head = shape.head_dim;
  for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (std::uint32_t h = 0; h < shape.heads; ++h) {
      product(length, d, head);  // queries
      cpp_int const before = flops;
      product(length, head, length);  // scores
      product(length, length, head);  // their product with the values
      if (shape.mask == attention_mask::causal) { flops = before + (flops - before) / 2; }
      product(length, head, d);  // the head's rows of the output matrix
    }
    for (std::uint32_t h = 0; h < shape.kv_heads; ++h) {
      product(length, d, head);  // keys
      product(length, d, head);  // values
    }
    if (shape.gated_ffn) { product(length, d, shape.ffn_hidden); }
    product(length, d, shape.ffn_hidden);
    product(length, shape.ffn_hidden, d);
  }
  product(length, d, shape.vocabulary);
  return flops;
}

RC_GTEST_PROP(ForwardFlops, AreThoseOfTheMatrixProducts, ())  // Ensures (1) of forward_flops
{
  auto const up_to = [](std::uint32_t most) {
    return *rc::gen::inRange<std::uint32_t>(1, most + 1);
  };
  transformer_shape shape{.hidden = up_to(20'000),
                          .layers = up_to(5),
                          .kv_heads = up_to(8),
                          .head_dim = up_to(256),
                          .ffn_hidden = up_to(60'000),
                          .gated_ffn = *rc::gen::arbitrary<bool>(),
                          .vocabulary = up_to(300'000) - 1};
  shape.heads = shape.kv_heads * up_to(8);
  shape.mask = *rc::gen::element(attention_mask::full, attention_mask::causal);
  auto const length = *rc::gen::inRange<ballast::tokens>(0, ballast::longest_sample + 1);

  RC_ASSERT(cpp_int(forward_flops(shape).value().exact(length)) == products_of(shape, length));
}

RC_GTEST_PROP(ClassicTransformer, TakesTheTextbooksFlops, ())  // Ensures (1) of classic_transformer
{
  auto const heads = *rc::gen::inRange<std::uint32_t>(1, 65);
  auto const d = heads * *rc::gen::inRange<std::uint32_t>(1, 257);
  auto const layers = *rc::gen::inRange<std::uint32_t>(1, 129);
  auto const flops = forward_flops(classic_transformer(d, layers, heads)).value();
  RC_ASSERT(flops.linear == std::uint64_t{24} * d * d * layers);
  RC_ASSERT(flops.quadratic == std::uint64_t{4} * d * layers);
}

TEST(ForwardFlops, OfLlama3Are2PerParameterThatMultiplies)
{
  transformer_shape const llama3_8b{.hidden = 4096,
                                    .layers = 32,
                                    .heads = 32,
                                    .kv_heads = 8,
                                    .head_dim = 128,
                                    .ffn_hidden = 14336,
                                    .gated_ffn = true,
                                    .mask = attention_mask::causal,
                                    .vocabulary = 128256};
  // 8.03 G parameters, less the embedding and the norms, which are not multiplied by.
  constexpr std::uint64_t parameters = 8'030'261'248 - 128'256 * 4096 - 65 * 4096;
  EXPECT_EQ(forward_flops(llama3_8b).value(), (flop_polynomial{2 * parameters, 2 * 4096 * 32}));
}

TEST(ForwardFlops, NameTheDimensionThatIsMissing)
{
  std::string const names[] = {"hidden size",     "number of layers",
                               "number of heads", "number of key-value heads",
                               "head dimension",  "feed-forward size"};
  std::uint32_t transformer_shape::* const members[] = {
      &transformer_shape::hidden,   &transformer_shape::layers,   &transformer_shape::heads,
      &transformer_shape::kv_heads, &transformer_shape::head_dim, &transformer_shape::ffn_hidden};
  for (std::size_t place = 0; place < std::size(names); ++place) {
    transformer_shape shape = classic_transformer(64);
    shape.*members[place] = 0;
    ballast_test::expect_refused(forward_flops(shape), error_code::out_of_range, place,
                                 names[place] + " is 0");
  }
}

TEST(ForwardFlops, RefuseHeadsThatDoNotShareKeysEqually)
{
  transformer_shape shape = classic_transformer(96, 1, 12);
  shape.kv_heads = 5;
  auto const failed = forward_flops(shape);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().position, 3U);
  EXPECT_THAT(failed.error().message, HasSubstr("12 heads cannot share 5 key-value heads"));
}

TEST(ForwardFlops, RefuseWhatDoesNotFit)
{
  constexpr auto most = std::numeric_limits<std::uint32_t>::max();
  transformer_shape const enormous{.hidden = most,
                                   .layers = most,
                                   .heads = most,
                                   .kv_heads = most,
                                   .head_dim = most,
                                   .ffn_hidden = most,
                                   .vocabulary = most};
  EXPECT_EQ(forward_flops(enormous).error().code, error_code::out_of_range);
  transformer_shape deep = classic_transformer(std::uint32_t{1} << 20, most);
  EXPECT_EQ(forward_flops(deep).error().code, error_code::out_of_range);
  transformer_shape wide_head = classic_transformer(1);
  wide_head.hidden = most;
  wide_head.vocabulary = most;
  EXPECT_EQ(forward_flops(wide_head).error().code, error_code::out_of_range);
}

TEST(ClassicTransformerDeathTest, RejectsHeadsThatDoNotDivideTheHiddenSize)
{
  EXPECT_DEATH((void)classic_transformer(10, 1, 3),
               "3 heads, which do not divide its hidden size of 10");
  EXPECT_DEATH((void)classic_transformer(10, 1, 0), "0 heads, which do not");
  EXPECT_DEATH((void)classic_transformer(std::uint32_t{1} << 30), "a hidden size of 1073741824,");
}

}  // namespace
