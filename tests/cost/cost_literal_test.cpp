// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_literal.hpp>

#include "../support/test.hpp"

#include <ballast/cost/cost_spec.hpp>

namespace {

using namespace ballast;
using ballast::detail::read_double;

static_assert("tokens"_cost(7) == 7);

TEST(CostLiteral, IsAConstant)
{
  // [literal]
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  static_assert(cost == gamma_corrected(classic_transformer(3072), 0.405));
  static_assert(cost(4488) == 17'040'072);  // no rank, compiler or device computes another number
  // [literal]
  EXPECT_EQ(cost, parse_cost_spec("transformer:d=3072,gamma=0.405")->cost);
}

TEST(CostLiteral, IsWhatTheParserReads)  // Ensures (1)
{
  constexpr auto grouped =
      "transformer:recompute=1,gamma=0.5,vocab=128256,causal=1,gated=1,ffn=14336,head_dim=128,"
      "kv_heads=8,heads=32,layers=32,d=4096"_cost;
  EXPECT_EQ(grouped, parse_cost_spec("transformer:recompute=1,gamma=0.5,vocab=128256,causal=1,"
                                     "gated=1,ffn=14336,head_dim=128,kv_heads=8,heads=32,"
                                     "layers=32,d=4096")
                         ->cost);
  EXPECT_EQ("transformer:d=16"_cost, parse_cost_spec("transformer:d=16")->cost);
  EXPECT_EQ("tokens"_cost, parse_cost_spec("tokens")->cost);
}

TEST(GammaCorrected, OfAShapeIsThatOfItsFlop)
{
  constexpr auto fixed = gamma_corrected(classic_transformer(1280, 32), 0.3);
  auto const flops = ballast::forward_flops(classic_transformer(1280, 32)).value();
  EXPECT_EQ(fixed, gamma_corrected(flops, 0.3)->cost);
}

RC_GTEST_PROP(CostLiteral, ReadsTheNearestDouble, (std::uint64_t digits))
{
  digits %= std::uint64_t{10'000'000'000'000'000'000U};
  std::string text = std::to_string(digits >> *rc::gen::inRange(0, 63));
  text.insert(*rc::gen::inRange<std::size_t>(0, text.size() + 1), 1, '.');
  double expected = 0;
  std::from_chars(text.data(), text.data() + text.size(), expected);
  RC_ASSERT(read_double(text) == expected);
}

TEST(ReadDouble, RoundsTiesToEven)
{
  EXPECT_EQ(read_double("9007199254740993"), 9007199254740992.0);  // 2^53 + 1
  EXPECT_EQ(read_double("9007199254740995"), 9007199254740996.0);
  EXPECT_EQ(read_double("9007199254740993.001"), 9007199254740994.0);
  EXPECT_EQ(read_double("0.0000000000000000001"), std::nullopt);  // 20 digits
  EXPECT_EQ(read_double(".0000000000000000001"), 1e-19);
  EXPECT_EQ(read_double("0"), 0.0);
}

}  // namespace
