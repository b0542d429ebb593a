// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_spec.hpp>

#include "../support/test.hpp"

namespace {

using ballast::detail::read_double;
using namespace ballast;
using testing::HasSubstr;
using testing::StartsWith;

static_assert(std::regular<cost_spec>);

TEST(CostSpec, ReadsATransformer)
{
  auto const spec =
      ballast::parse_cost_spec("transformer:d=3072,gamma=0.405,layers=57,heads=24").value();
  EXPECT_EQ(spec.shape.head_dim, 128U);
  EXPECT_EQ(spec.log2_flops_per_unit, 22);
  EXPECT_EQ(spec.cost(4488), 15'176'314);
}

TEST(CostSpec, FillsInTheClassicShape)  // Ensures (1)
{
  auto const spec = parse_cost_spec("transformer:d=3072,gamma=0.405").value();
  EXPECT_FALSE(spec.layers_written);
  EXPECT_TRUE(parse_cost_spec("transformer:d=96,layers=1")->layers_written);
  EXPECT_EQ(spec.shape, classic_transformer(3072));
  EXPECT_EQ(spec.gamma, 0.405);
  EXPECT_EQ(spec.passes, training_passes{});
  EXPECT_EQ(spec.forward, forward_flops(classic_transformer(3072)).value());
  auto const expected = gamma_corrected(spec.forward, 0.405).value();
  EXPECT_EQ(spec.cost, expected.cost);
  EXPECT_EQ(spec.log2_flops_per_unit, expected.log2_flops_per_unit);
}

TEST(CostSpec, TakesEveryKeyInAnyOrder)  // Ensures (1)
{
  auto const spec = parse_cost_spec(
                        "transformer:recompute=1,gamma=5e-1,vocab=128256,causal=1,gated=1,"
                        "ffn=14336,head_dim=128,kv_heads=8,heads=32,layers=32,d=4096")
                        .value();
  EXPECT_EQ(spec.shape, (transformer_shape{.hidden = 4096,
                                           .layers = 32,
                                           .heads = 32,
                                           .kv_heads = 8,
                                           .head_dim = 128,
                                           .ffn_hidden = 14336,
                                           .gated_ffn = true,
                                           .mask = attention_mask::causal,
                                           .vocabulary = 128256}));
  EXPECT_EQ(spec.gamma, 0.5);
  EXPECT_EQ(spec.passes, training_passes{.recompute = 1});
  EXPECT_EQ(spec.forward, forward_flops(spec.shape).value());
}

TEST(CostSpec, HasDefaultsThatFollowOtherKeys)
{
  EXPECT_EQ(parse_cost_spec("transformer:d=96,heads=12")->shape, classic_transformer(96, 1, 12));
  EXPECT_EQ(parse_cost_spec("transformer:d=96")->gamma, 1);
  EXPECT_EQ(parse_cost_spec("transformer:d=97,heads=12,head_dim=8")->shape.head_dim, 8U);
  EXPECT_EQ(parse_cost_spec("transformer:d=4294967295,head_dim=1,ffn=1")->shape.hidden,
            4294967295U);
}

TEST(CostSpec, OfTokensChargesTheLength)
{
  auto const spec = parse_cost_spec("tokens").value();
  for (ballast::tokens const length :
       {ballast::tokens{0}, ballast::tokens{17}, ballast::longest_sample}) {
    EXPECT_EQ(spec.cost(length), length);
  }
  EXPECT_EQ(spec.forward, flop_polynomial{});
}

TEST(CostSpec, PointsAtTheByteThatIsWrong)
{
  struct example {
    std::string_view text;
    error_code code;
    std::size_t position;
    std::string_view hint;
  };
  for (auto const& [text, code, position, hint] : std::initializer_list<example>{
           {"", error_code::unknown_name, 0, "'' is no cost model; write 'tokens' or"},
           {"flops", error_code::unknown_name, 0, "'flops' is no cost model"},
           {"transformer", error_code::unknown_name, 0, "is no cost model"},
           {"tokens ", error_code::unknown_name, 0, "is no cost model"},
           {"transformer:", error_code::syntax, 12, "is not of the form key=value"},
           {"transformer:gamma=1", error_code::syntax, 19, "needs its hidden size"},
           {"transformer:d=8,", error_code::syntax, 16, "is not of the form key=value"},
           {"transformer:,d=8", error_code::syntax, 12, "is not of the form key=value"},
           {"transformer:d", error_code::syntax, 12, "'d' is not of the form"},
           {"transformer:d=8,d=8", error_code::syntax, 16, "'d' is given twice"},
           {"transformer:d=8,gama=1", error_code::unknown_name, 16,
            "'gama' is no parameter of transformer, which takes d=N,layers=N,heads=N,kv_heads=N,"
            "head_dim=N,ffn=N,gated=0,causal=0,vocab=N,recompute=0,gamma=X"},
           {"transformer: d=8", error_code::unknown_name, 12, "' d' is no parameter"},
           {"transformer:=8", error_code::unknown_name, 12, "'' is no parameter"},
           {"transformer:d=", error_code::out_of_range, 14, "a whole number from 0 to 4294967295"},
           {"transformer:d=8x", error_code::out_of_range, 14, "d is '8x'"},
           {"transformer:d=-8", error_code::out_of_range, 14,
            "a whole number from 0 to 4294967295"},
           {"transformer:d=4294967296", error_code::out_of_range, 14,
            "a whole number from 0 to 4294967295"},
           {"transformer:d=1073741824", error_code::out_of_range, 14, "below 2^30, or ffn as well"},
           {"transformer:gama=1,d=8,d=8,x", error_code::unknown_name, 12, "'gama' is no parameter"},
           {"transformer:layers=x,d=y", error_code::out_of_range, 23, "d is 'y'"},
           {"transformer:d=0", error_code::out_of_range, 14, "hidden size is 0"},
           {"transformer:d=8,heads=0", error_code::out_of_range, 22, "number of heads is 0"},
           {"transformer:d=8,heads=3", error_code::out_of_range, 22, "a divisor of d"},
           {"transformer:d=8,heads=4,kv_heads=3", error_code::out_of_range, 33, "4 heads cannot"},
           {"transformer:d=8,kv_heads=0", error_code::out_of_range, 25, "key-value heads is 0"},
           {"transformer:d=8,layers=0", error_code::out_of_range, 23, "number of layers is 0"},
           {"transformer:d=8,head_dim=0", error_code::out_of_range, 25, "head dimension is 0"},
           {"transformer:d=8,ffn=0", error_code::out_of_range, 20, "feed-forward size is 0"},
           {"transformer:d=8,gated=2", error_code::out_of_range, 22, "give 0 or 1"},
           {"transformer:d=8,causal=yes", error_code::out_of_range, 23, "give 0 or 1"},
           {"transformer:d=8,recompute=3", error_code::out_of_range, 26, "give 0 or 1"},
           {"transformer:d=8,gamma=", error_code::out_of_range, 22, "a decimal number"},
           {"transformer:d=8,gamma=1e999", error_code::out_of_range, 22, "a decimal number"},
           {"transformer:d=8,gamma=-1", error_code::out_of_range, 22, "gamma is negative"},
           {"transformer:d=8,gamma=nan", error_code::out_of_range, 22, "not finite"},
           {"transformer:d=8,gamma=inf", error_code::out_of_range, 22, "not finite"},
           {"transformer:d=8,gamma=1e300", error_code::out_of_range, 22, "a smaller gamma"},
           {"transformer:d=1000000000,layers=4000000000", error_code::out_of_range, 14,
            "do not fit 64 bits"}}) {
    auto const failed = parse_cost_spec(text);
    ASSERT_FALSE(failed.has_value()) << text;
    EXPECT_EQ(failed.error().code, code) << text;
    EXPECT_EQ(failed.error().position, position) << text;
    EXPECT_THAT(failed.error().message, HasSubstr(std::string(hint))) << text;
    EXPECT_THAT(failed.error().message,
                StartsWith("at offset " + std::to_string(position) + " of '"));
  }
}

static_assert("tokens"_cost(7) == 7);

TEST(CostLiteral, IsAConstant)
{
  // [literal]
  using namespace ballast;
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
