// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/transformer_shape.hpp>  // first: proves it is self-contained

#include "../support/exact.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace {

using ballast::attention_mask;
using ballast::classic_transformer;
using ballast::error_code;
using ballast::flop_polynomial;
using ballast::forward_flops;
using ballast::transformer_shape;
using ballast_test::cpp_int;
using testing::HasSubstr;

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

  RC_ASSERT(cpp_int(ballast::exact_flops(forward_flops(shape).value(), length)) ==
            products_of(shape, length));
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
    auto const failed = forward_flops(shape);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, error_code::out_of_range);
    EXPECT_EQ(failed.error().position, place);
    EXPECT_THAT(failed.error().message, HasSubstr(names[place] + " is 0"));
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
