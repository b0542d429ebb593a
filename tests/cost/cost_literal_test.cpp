// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_literal.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/cost_spec.hpp>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace ballast::literals;
using ballast::classic_transformer;
using ballast::gamma_corrected;
using ballast::parse_cost_spec;
using ballast::detail::read_cost;
using ballast::detail::read_double;
using ballast::detail::transformer_keys;
using ballast::detail::written_cost;

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

TEST(CostLiteral, SaysWhatIsWrongAndWhere)
{
  using fault = written_cost::fault;
  auto const expect_fault = [](std::string_view text, fault wrong, std::string_view where) {
    SCOPED_TRACE(text);
    EXPECT_EQ(read_cost(text).wrong, wrong);
    EXPECT_EQ(read_cost(text).where, where);
  };
  for (std::string_view const text : {"", "token", "transformer"}) {
    expect_fault(text, fault::syntax, text);
  }
  expect_fault("transformer:", fault::syntax, "");
  expect_fault("transformer:d", fault::syntax, "d");
  expect_fault("transformer:d=8,", fault::syntax, "");
  expect_fault("transformer:layers=2", fault::missing_size, "d");
  expect_fault("transformer:d=8,e=2", fault::unknown_key, "e");
  expect_fault("transformer:d=8,=2", fault::unknown_key, "");
  expect_fault("transformer:d=8,d=8", fault::repeated_key, "d");
  expect_fault("transformer:d=8,gamma=1,gamma=1", fault::repeated_key, "gamma");
  for (std::string_view const text :
       {"transformer:d=", "transformer:d=-8", "transformer:d=4294967296"}) {
    expect_fault(text, fault::number, "d");
  }
  for (std::string_view const text :
       {"transformer:d=8,gamma=", "transformer:d=8,gamma=.", "transformer:d=8,gamma=1.2.3",
        "transformer:d=8,gamma=1e3", "transformer:d=8,gamma=12345678901234567890"}) {
    expect_fault(text, fault::number, "gamma");
  }
  for (std::string_view const text :
       {"transformer:d=8,gated=2", "transformer:d=8,gated=", "transformer:d=8,gated=yes"}) {
    expect_fault(text, fault::flag, "gated");
  }
  expect_fault("transformer:d=8,heads=3", fault::heads, "heads");
  expect_fault("transformer:d=1073741824", fault::large_size, "d");
  expect_fault("transformer:d=8,heads=3,head_dim=4", fault::none, "");
  expect_fault("transformer:d=1073741824,ffn=1", fault::none, "");
}

// What the parser takes, the literal takes, unless a number has a sign, an exponent or more digits.
RC_GTEST_PROP(CostLiteral, AgreesWithTheParser, ())
{
  auto const number = rc::gen::element<std::string>("0", "1", "2", "3", "6", "8", "0.25", "07", "");
  std::string text = "transformer:d=" + *number;
  for (std::size_t const key : *rc::gen::container<std::vector<std::size_t>>(
           rc::gen::inRange<std::size_t>(0, transformer_keys.size()))) {
    text.append(",").append(transformer_keys[key]).append("=").append(*number);
  }
  RC_LOG(text);
  auto const spec = parse_cost_spec(text);
  auto const read = read_cost(text);
  bool const is_shape =
      read.wrong == written_cost::fault::none &&
      ballast::detail::check_shape(read.shape).fault == ballast::detail::shape_fault::none;
  RC_ASSERT(is_shape == spec.has_value());
  if (is_shape) {
    RC_ASSERT(read.shape == spec->shape);
    RC_ASSERT(read.gamma == spec->gamma);
  }
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
