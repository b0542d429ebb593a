// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/detail/transformer_keys.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/cost/cost_literal.hpp>
#include <ballast/cost/cost_spec.hpp>

#include <string>
#include <string_view>

namespace {

using ballast::detail::read_cost;
using ballast::detail::transformer_keys;
using ballast::detail::written_cost;

TEST(TransformerKeys, AreThoseOfTheLiteralAndOfTheParser)
{
  for (std::string_view const key : transformer_keys) {
    SCOPED_TRACE(key);
    std::string text = "transformer:" + std::string(key) + "=1";
    if (key != "d") { text += ",d=8"; }
    EXPECT_TRUE(ballast::parse_cost_spec(text).has_value());
    EXPECT_EQ(read_cost(text).wrong, written_cost::fault::none);
    text.insert(text.find('='), "x");
    EXPECT_EQ(ballast::parse_cost_spec(text).error().code, ballast::error_code::unknown_name);
    EXPECT_EQ(read_cost(text).wrong, written_cost::fault::unknown_key);
  }
}

}  // namespace
