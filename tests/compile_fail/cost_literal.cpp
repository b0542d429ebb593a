// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_spec.hpp>

using namespace ballast::literals;

#if defined(FLAG)
// EXPECT: a_flag_of_a_cost_is_0_or_1.*"causal"
constexpr auto cost = "transformer:d=3072,causal=2"_cost;
#elif defined(HEADS)
// EXPECT: heads_divide_d_or_head_dim_is_given.*"heads"
constexpr auto cost = "transformer:d=8,heads=3"_cost;
#elif defined(KEY)
// EXPECT: a_cost_has_no_such_key.*"gama"
constexpr auto cost = "transformer:d=3072,gama=0.405"_cost;
#elif defined(LARGE)
// EXPECT: the_hidden_size_is_below_2_to_the_30_or_ffn_is_given.*"d"
constexpr auto cost = "transformer:d=1073741824"_cost;
#elif defined(NUMBER)
// EXPECT: a_value_of_a_cost_is_a_number_without_sign_or_exponent.*"gamma"
constexpr auto cost = "transformer:d=3072,gamma=1e3"_cost;
#elif defined(REPEATED)
// EXPECT: a_key_of_a_cost_is_given_once.*"gamma"
constexpr auto cost = "transformer:d=8,gamma=1,gamma=1"_cost;
#elif defined(SHAPE)
// EXPECT: a_dimension_of_a_transformer_is_at_least_1
constexpr auto cost = "transformer:d=0"_cost;
#elif defined(SIZE)
// EXPECT: a_transformer_needs_its_hidden_size.*"d"
constexpr auto cost = "transformer:layers=2,gamma=0.405"_cost;
#elif defined(SYNTAX)
// EXPECT: a_cost_reads_like_transformer_d_3072_gamma_0_405_or_tokens.*"transformers"
constexpr auto cost = "transformers"_cost;
#else
constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
constexpr auto of_one = "transformer:d=1"_cost;
constexpr auto of_tokens = "tokens"_cost;
#endif

int main()
{
  return cost(16) > 0 ? 0 : 1;
}
