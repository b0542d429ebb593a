// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_model.hpp>

#include "../support/test.hpp"

#include <ballast/cost/flops.hpp>
#include <ballast/cost/quadratic_cost.hpp>

namespace {

using namespace ballast;

struct priced_document {
  std::string text;
};

// Has what the concept asks for and nothing more: it cannot even be copied.
class archetype {
 public:
  archetype() = delete;
  archetype(archetype const&) = delete;
  cost_units operator()(priced_document const& sample) const
  {
    return static_cast<cost_units>(sample.text.size());
  }
};

struct priced_patch {
  std::uint32_t cost = 0;
  double weight = 0;
};

struct answers_a_double {
  double operator()(tokens length) const { return static_cast<double>(length); }
};

struct changes_itself {
  cost_units operator()(tokens length) { return length; }
};

static_assert(cost_model<archetype, priced_document>);
static_assert(!cost_model<archetype>);
static_assert(cost_model<ballast::quadratic_cost>);
static_assert(!cost_model<ballast::quadratic_cost, priced_document>);
static_assert(!cost_model<answers_a_double>);
static_assert(!cost_model<changes_itself>);
static_assert(cost_model<std::uint32_t priced_patch::*, priced_patch>);
static_assert(!cost_model<double priced_patch::*, priced_patch>);

TEST(CostModel, MayBeALambdaOverTheCallersSamples)
{
  auto const by_size = [](priced_document const& sample) {
    return static_cast<cost_units>(sample.text.size());
  };
  static_assert(cost_model<decltype(by_size), priced_document>);
  EXPECT_EQ(by_size(priced_document{"four"}), 4);
}

struct sample {
  tokens patches;
  tokens text;
};

struct length_itself {
  constexpr cost_units operator()(tokens length) const { return length; }
  friend bool operator==(length_itself const&, length_itself const&) = default;
};

struct all_tokens {
  constexpr tokens operator()(sample const& s) const { return s.patches + s.text; }
  friend bool operator==(all_tokens const&, all_tokens const&) = default;
};

using composed =
    sum_of<cost_of<quadratic_cost, tokens sample::*>, cost_of<length_itself, all_tokens>>;
static_assert(cost_model<composed, sample>);
static_assert(!cost_model<composed, tokens>);
static_assert(std::regular<composed>);
static_assert(std::is_trivially_copyable_v<composed>);

static_assert(std::is_empty_v<cost_of<length_itself, all_tokens>>);

TEST(CostOf, PricesOneLengthOfASample)
{
  constexpr sample s{.patches = 10, .text = 3};
  static_assert(cost_of{quadratic_cost{1, 2, 0}, &sample::patches}(s) == 210);
  EXPECT_EQ((cost_of{length_itself{}, all_tokens{}}(s)), 13);
  EXPECT_EQ((cost_of{length_itself{}, [](sample const& x) { return 2 * x.text; }}(s)), 6);
}

TEST(SumOf, AddsWhatEveryModelCharges)  // Ensures (1)
{
  constexpr sample s{.patches = 10, .text = 3};
  constexpr sum_of cost{cost_of{quadratic_cost{1, 2, 0}, &sample::patches},
                        cost_of{length_itself{}, all_tokens{}},
                        cost_of{length_itself{}, all_tokens{}}};
  static_assert(cost(s) == 210 + 13 + 13);
  EXPECT_EQ(sum_of{length_itself{}}(7), 7);
  EXPECT_EQ((sum_of{sum_of{length_itself{}, length_itself{}}, length_itself{}}(7)), 21);
}

TEST(SumOf, OverflowsRatherThanWraps)  // Ensures (1)
{
  constexpr cost_units half = cost_units{1} << 62;
  EXPECT_EQ((sum_of{length_itself{}, length_itself{}}(half - 1)), no_cost - 1);
  EXPECT_EQ((sum_of{length_itself{}, length_itself{}}(half)), no_cost);
  EXPECT_EQ((sum_of{length_itself{}, length_itself{}, length_itself{}}(half)), no_cost);
  EXPECT_EQ((sum_of{quadratic_cost{}, length_itself{}}(no_cost)), no_cost);
}

// A cost model whose cost is attention alone.
struct attention_alone {
  constexpr cost_units operator()(tokens length) const { return length; }
  [[nodiscard]] constexpr cost_units attention_part(tokens length) const { return length; }
};

TEST(CostOf, SaysWhatOfACostIsAttention)
{
  constexpr sample s{.patches = 10, .text = 3};
  static_assert(cost_of{quadratic_cost{1, 2, 0}, &sample::patches}.attention_part(s) == 200);
  EXPECT_EQ((cost_of{quadratic_cost{1, 2, 0}, all_tokens{}}.attention_part(s)), 2 * 13 * 13);
  auto const twice = [](sample const& x) { return 2 * x.text; };
  EXPECT_EQ((cost_of{quadratic_cost{1, 2, 0}, twice}.attention_part(s)), 2 * 6 * 6);
  static_assert(ballast::attention_cost_model<cost_of<quadratic_cost, tokens sample::*>, sample>);
  static_assert(!ballast::attention_cost_model<cost_of<length_itself, all_tokens>, sample>);
}

TEST(SumOf, AddsTheAttentionOfEveryModel)  // Ensures (2)
{
  constexpr sample s{.patches = 10, .text = 3};
  constexpr sum_of cost{cost_of{quadratic_cost{1, 2, 0}, &sample::patches},
                        cost_of{quadratic_cost{5, 1, 0}, &sample::text}};
  static_assert(cost.attention_part(s) == 200 + 9);
  static_assert(cost(s) == 210 + 24);
  static_assert(!ballast::attention_cost_model<composed, sample>);  // one model does not say
  static_assert(ballast::attention_cost_model<sum_of<quadratic_cost>>);
  constexpr cost_units half = cost_units{1} << 62;
  EXPECT_EQ((sum_of{attention_alone{}, attention_alone{}}.attention_part(half)), no_cost);
  EXPECT_EQ((sum_of{attention_alone{}, attention_alone{}}.attention_part(half - 1)), no_cost - 1);
}

TEST(SumOf, PricesAMultimodalSample)
{
  struct document {
    ballast::tokens patches;  // what the vision encoder sees
    ballast::tokens merged;   // what the language model sees: text and merged patches
  };
  auto const llm = ballast::gamma_corrected(
                       ballast::forward_flops(ballast::classic_transformer(4096, 32)).value(), 0.5)
                       .value();
  auto const vision = ballast::gamma_corrected(
                          ballast::forward_flops(ballast::classic_transformer(1280, 32)).value(),
                          0.5, llm.log2_flops_per_unit)
                          .value();

  auto const cost = ballast::sum_of{ballast::cost_of{vision, &document::patches},
                                    ballast::cost_of{llm.cost, &document::merged}};
  EXPECT_EQ(cost(document{.patches = 4096, .merged = 1200}), 1'556'480 + 3'776'400);
  EXPECT_EQ(cost(document{.patches = 0, .merged = 1200}), llm.cost(1200));
}

__extension__ typedef __int128 wide;

RC_GTEST_PROP(SaturatingSum, IsTheSumOrOverflow, ())  // Ensures (1)
{
  auto const cost = [] { return *rc::gen::inRange<cost_units>(0, no_cost); };
  cost_units const a = cost();
  cost_units const b = cost();
  wide const exact = static_cast<wide>(a) + b;
  RC_ASSERT(saturating_sum(a, b) ==
            static_cast<cost_units>(std::min(exact, static_cast<wide>(no_cost))));
}

TEST(SaturatingSum, IsExactUpToTheLastCost)
{
  static_assert(saturating_sum(2, 3) == 5);
  EXPECT_EQ(saturating_sum(no_cost - 2, 1), no_cost - 1);
  EXPECT_EQ(saturating_sum(no_cost - 1, 1), no_cost);
  EXPECT_EQ(saturating_sum(1, no_cost - 1), no_cost);
  EXPECT_EQ(saturating_sum(no_cost, 0), no_cost);
  EXPECT_EQ(saturating_sum(no_cost, no_cost), no_cost);
}

TEST(SaturatingSumDeathTest, RejectsNegativeCosts)
{
  EXPECT_DEATH((void)saturating_sum(-1, 0), "a cost of -1 was to be added");
  EXPECT_DEATH((void)saturating_sum(0, -1), "a cost of -1 was to be added");
}

}  // namespace
