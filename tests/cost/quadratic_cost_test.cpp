// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/quadratic_cost.hpp>

#include "../support/exact.hpp"
#include "../support/test.hpp"

#include <ballast/cost/cost_model.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using ballast_test::cpp_int;
using ballast_test::cpp_rational;
using ballast_test::exact;
using ballast_test::power_of_two;
using testing::HasSubstr;

static_assert(ballast::cost_model<quadratic_cost>);
static_assert(ballast::attention_cost_model<quadratic_cost>);
static_assert(std::regular<quadratic_cost>);

template <quadratic_cost Cost>
constexpr cost_units priced_at_compile_time = Cost(10);
static_assert(priced_at_compile_time<quadratic_cost{1, 2, 0}> == 210);  // structural

cost_units oracle(quadratic_cost const& cost, tokens length)
{
  if (length > longest_sample) { return no_cost; }
  cpp_int const work = cpp_int(cost.linear) * length + cpp_int(cost.quadratic) * length * length;
  return ballast_test::as_cost(cpp_rational(work, cpp_int(1) << cost.fraction_bits));
}

// Coefficients of every magnitude, so that small, large and overflowing costs all occur.
quadratic_cost any_cost()
{
  auto const coefficient = [] {
    return std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 64);
  };
  return {.linear = *rc::gen::inRange<std::uint64_t>(0, coefficient()),
          .quadratic = *rc::gen::inRange<std::uint64_t>(0, coefficient()),
          .fraction_bits = *rc::gen::inRange<std::uint32_t>(0, 128)};
}

tokens any_length()
{
  return *rc::gen::inRange<tokens>(0, (longest_sample >> *rc::gen::inRange(0, 31)) + 2);
}

RC_GTEST_PROP(QuadraticCost, IsTheFormulaRoundedOrOverflow, ())  // Ensures (1) (2)
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  RC_ASSERT(cost(length) == oracle(cost, length));
}

RC_GTEST_PROP(QuadraticCost, GrowsWithLength, ())  // Ensures (3)
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  RC_ASSERT(cost(length) <= cost(length + *rc::gen::inRange<tokens>(0, 1000)));
}

RC_GTEST_PROP(QuadraticCost, HasAnAttentionPartFromZeroToTheCost, ())
{
  quadratic_cost const cost = any_cost();
  tokens const length = any_length();
  cost_units const part = cost.attention_part(length);
  RC_ASSERT(part == oracle({0, cost.quadratic, cost.fraction_bits}, length));
  RC_ASSERT(part >= 0);
  RC_ASSERT(part <= cost(length));
}

TEST(QuadraticCost, IsExactAtTheLimitsOfItsMembers)  // Ensures (1) (2)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t bits = 0; bits <= 127; ++bits) {
    for (quadratic_cost const cost :
         {quadratic_cost{most, most, bits}, quadratic_cost{most, 0, bits},
          quadratic_cost{0, most, bits}, quadratic_cost{0, 0, bits}}) {
      for (tokens const length : {tokens{0}, tokens{1}, longest_sample}) {
        EXPECT_EQ(cost(length), oracle(cost, length)) << bits << ' ' << length;
      }
    }
  }
}

TEST(QuadraticCost, OverflowsExactlyWhereTheCostDoesNotFit)  // Ensures (2)
{
  constexpr auto last = static_cast<std::uint64_t>(no_cost) - 1;
  EXPECT_EQ(quadratic_cost{last}(1), no_cost - 1);
  EXPECT_EQ(quadratic_cost{last + 1}(1), no_cost);
  EXPECT_EQ(quadratic_cost{1}(longest_sample), longest_sample);
  EXPECT_EQ(quadratic_cost{0}(longest_sample + 1), no_cost);
  EXPECT_EQ(quadratic_cost{0}(std::numeric_limits<tokens>::max()), no_cost);
}

TEST(QuadraticCost, HasNoCostForANegativeLength)  // Ensures (2)
{
  EXPECT_EQ(quadratic_cost{1}(-1), ballast::no_cost);
  EXPECT_EQ(quadratic_cost{1}(std::numeric_limits<ballast::tokens>::min()), ballast::no_cost);
}

TEST(QuadraticCostDeathTest, RejectsMoreFractionBitsThanItHasRoomFor)
{
  EXPECT_DEATH((void)(quadratic_cost{1, 1, 128}(1)), "128 fraction bits,");
}

static_assert(std::regular<priced>);

// 24 l d^2 + gamma 4 l^2 d, in units, without rounding.
cpp_rational formula(flop_polynomial flops, double gamma, int log2_flops_per_unit, tokens length)
{
  cpp_rational const linear = cpp_rational(flops.linear) * length;
  cpp_rational const quadratic = cpp_rational(flops.quadratic) * length * length;
  return (linear + exact(gamma) * quadratic) * power_of_two(-log2_flops_per_unit);
}

flop_polynomial any_flops()
{
  auto const coefficient = [] {
    return *rc::gen::inRange<std::uint64_t>(
        0, std::numeric_limits<std::uint64_t>::max() >> *rc::gen::inRange(0, 60));
  };
  return {coefficient(), coefficient()};
}

double any_gamma()
{
  return *rc::gen::inRange(0, 1 << 20) * 0x1p-18;
}

void expect_within_bound(quadratic_cost const& cost, cpp_rational const& true_cost, tokens length)
{
  cpp_rational const bound =
      cpp_rational(1, 2) +
      cpp_rational(length) * length * power_of_two(1 - static_cast<int>(cost.fraction_bits));
  cost_units const found = cost(length);
  if (found == no_cost) {
    RC_ASSERT(true_cost + bound >= no_cost);
  } else {
    RC_ASSERT(abs(true_cost - found) <= bound);
  }
}

RC_GTEST_PROP(GammaCorrected, IsCloseToTheFormula, ())  // Ensures (1) of both
{
  flop_polynomial const flops = any_flops();
  double const gamma = any_gamma();
  auto const length =
      *rc::gen::inRange<tokens>(0, (ballast::longest_sample >> *rc::gen::inRange(0, 31)) + 1);

  auto const [cost, unit] = gamma_corrected(flops, gamma).value();
  expect_within_bound(cost, formula(flops, gamma, unit, length), length);

  int const coarser = unit + *rc::gen::inRange(0, 12);
  auto const explicitly = gamma_corrected(flops, gamma, coarser).value();
  expect_within_bound(explicitly, formula(flops, gamma, coarser, length), length);
}

RC_GTEST_PROP(GammaCorrected, ChoosesAUnitThatSuitsTheModel, ())  // Ensures (1) of the second
{
  flop_polynomial flops = any_flops();
  flops.linear += 1;
  double const gamma = any_gamma();
  auto const [cost, unit] = gamma_corrected(flops, gamma).value();
  cpp_rational const larger =
      std::max(cpp_rational(flops.linear), exact(gamma) * flops.quadratic) * power_of_two(-unit);
  RC_ASSERT(larger >= power_of_two(11));
  RC_ASSERT(larger < power_of_two(12));
  RC_ASSERT(cost.fraction_bits == 51U);
}

TEST(GammaCorrected, PricesTheSequencesOfMixedResolutionTraining)
{
  // One layer of a diffusion transformer of width 3072, whose attention takes 0.405 times as long
  // per FLOP as its other products.
  auto const layer = ballast::forward_flops(ballast::classic_transformer(3072)).value();
  auto const [cost, log2_flops_per_unit] = ballast::gamma_corrected(layer, 0.405).value();

  EXPECT_EQ(log2_flops_per_unit, 16);  // a unit is 65,536 FLOP, so a token's linear part is 3,456
  EXPECT_EQ(cost(256), 889'713);       // a 256-pixel image
  EXPECT_EQ(cost(4488), 17'040'072);   // a 1024-pixel image with 392 tokens of text
  EXPECT_EQ(cost(16776), 79'349'264);  // a 2048-pixel image with as much text
  EXPECT_EQ(forward_flops(classic_transformer(3072)).value(),
            (flop_polynomial{226'492'416, 12'288}));
}

TEST(GammaCorrected, CountsFlopsWhereGammaIsOne)
{
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, 0).value()(10), 640);
  EXPECT_EQ(gamma_corrected({24, 4}, 0.0, 0).value()(10), 240);
  EXPECT_EQ(gamma_corrected({24, 4}, -0.0, 0).value()(10), 240);
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, 6).value()(10), 10);
  EXPECT_EQ(gamma_corrected({24, 4}, 1.0, -1).value()(10), 1280);
}

TEST(GammaCorrected, GivesModelsOneUnit)
{
  auto const llm =
      gamma_corrected(forward_flops(classic_transformer(4096, 32)).value(), 0.5).value();
  auto const encoder = gamma_corrected(forward_flops(classic_transformer(1024, 24)).value(), 0.5,
                                       llm.log2_flops_per_unit);
  // 24 layers of width 1024 against 32 of width 4096: 1/21.33 of the linear part.
  EXPECT_EQ(llm.cost(1), 3072);
  EXPECT_EQ(encoder.value()(1), 144);
}

TEST(GammaCorrected, ChargesNothingForNoFlops)
{
  auto const [cost, unit] = gamma_corrected({}, 0.4).value();
  EXPECT_EQ(unit, -11);
  EXPECT_EQ(cost(ballast::longest_sample), 0);
}

TEST(GammaCorrected, KeepsItsUnitWhereGammaVanishes)  // Ensures (2) of the second
{
  auto const [cost, unit] = gamma_corrected({0, 1}, 0x1p-30).value();
  EXPECT_EQ(unit, -11);
  EXPECT_EQ(cost(1 << 20), cost_units{1} << (40 - 30 + 11));
}

TEST(GammaCorrected, RefusesAGammaThatIsNoFactor)
{
  using limits = std::numeric_limits<double>;
  for (double const gamma : {-1.0, limits::infinity(), -limits::infinity(), limits::quiet_NaN()}) {
    auto const failed = gamma_corrected({24, 4}, gamma);
    ASSERT_FALSE(failed.has_value());
    EXPECT_EQ(failed.error().code, error_code::out_of_range);
    EXPECT_THAT(failed.error().message, HasSubstr("gamma is negative or not finite"));
  }
}

TEST(GammaCorrected, RefusesAUnitThatIsTooSmall)
{
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_TRUE(gamma_corrected({most, 0}, 1.0, 0).has_value());
  EXPECT_THAT(gamma_corrected({most, 0}, 1.0, -1).error().message, HasSubstr("2^64 units"));
  EXPECT_THAT(gamma_corrected({1, 1}, 1e300).error().message, HasSubstr("2^64 units"));
}

TEST(GammaCorrectedDeathTest, RejectsAnAbsurdUnit)
{
  EXPECT_DEATH((void)gamma_corrected({1, 1}, 1.0, 65), "log2_flops_per_unit is 65,");
  EXPECT_DEATH((void)gamma_corrected({1, 1}, 1.0, -65), "log2_flops_per_unit is -65,");
}

static_assert(ballast::attention_cost_model<span_cost>);
static_assert(ballast::attention_cost_model<span_cost, span_cost::document>);
static_assert(ballast::attention_cost_model<span_cost, std::vector<tokens>>);

// Oracle: looks at every pair of tokens.
std::uint64_t count_pairs(span_cost const& cost, std::vector<int> const& document_of,
                          std::vector<int> const& image_of)
{
  std::uint64_t pairs = 0;
  for (std::size_t from = 0; from < document_of.size(); ++from) {
    for (std::size_t to = 0; to < document_of.size(); ++to) {
      bool const is_later = to > from;
      auto const distance = static_cast<tokens>(is_later ? to - from : from - to);
      bool const is_seen = distance < cost.window && (!cost.causal || !is_later);
      bool const in_image = image_of[from] != 0 && image_of[from] == image_of[to];
      pairs += document_of[from] == document_of[to] && (is_seen || in_image) ? 1U : 0U;
    }
  }
  return pairs;
}

span_cost draw_cost(ballast::random_source& random)
{
  span_cost cost{{.linear = random.below(9), .quadratic = random.below(9), .fraction_bits = 1}};
  cost.causal = random.below(2) == 0;
  if (random.below(2) == 0) { cost.window = random.between(1, 8); }
  return cost;
}

cost_units rounded(span_cost const& cost, std::size_t total, std::uint64_t pairs)
{
  return static_cast<cost_units>((cost.each.linear * total + cost.each.quadratic * pairs + 1) / 2);
}

TEST(SpanCost, CountsThePairsOfPackedRows)  // Ensures (1) (2)
{
  ballast::random_source random(11);
  for (int trial = 0; trial < 300; ++trial) {
    span_cost const cost = draw_cost(random);
    std::vector<tokens> row(random.below(5));
    std::vector<int> document_of;
    for (std::size_t each = 0; each < row.size(); ++each) {
      row[each] = random.between(0, 12);
      document_of.insert(document_of.end(), static_cast<std::size_t>(row[each]),
                         static_cast<int>(each));
    }
    auto const pairs = count_pairs(cost, document_of, std::vector<int>(document_of.size(), 0));
    ASSERT_EQ(cost(row), rounded(cost, document_of.size(), pairs)) << "trial " << trial;
    if (row.size() == 1) { ASSERT_EQ(cost(row[0]), cost(row)); }
  }
}

TEST(SpanCost, CountsThePairsOfTextWithImages)  // Ensures (1) (2) (3)
{
  ballast::random_source random(12);
  for (int trial = 0; trial < 300; ++trial) {
    span_cost const cost = draw_cost(random);
    std::vector<tokens> images(random.below(4));
    std::vector<int> image_of(random.below(6), 0);
    for (std::size_t each = 0; each < images.size(); ++each) {
      images[each] = random.between(0, 10);
      image_of.insert(image_of.end(), static_cast<std::size_t>(images[each]),
                      static_cast<int>(each) + 1);
      image_of.insert(image_of.end(), random.below(5), 0);  // text
    }
    auto const length = static_cast<tokens>(image_of.size());
    auto const pairs = count_pairs(cost, std::vector<int>(image_of.size(), 0), image_of);
    ASSERT_EQ(cost(span_cost::document{length, images}), rounded(cost, image_of.size(), pairs));
    ASSERT_EQ(cost.attention_part(span_cost::document{length, images}),
              rounded({{0, cost.each.quadratic, 1}}, image_of.size(), pairs));
  }
}

TEST(SpanCost, IsTheQuadraticCostWithoutMask)  // Ensures (5)
{
  quadratic_cost const each{.linear = 12'345, .quadratic = 77, .fraction_bits = 7};
  for (tokens const length : {tokens{0}, tokens{1}, tokens{8191}, ballast::longest_sample}) {
    EXPECT_EQ((span_cost{each, false}(length)), each(length));
  }
  EXPECT_EQ((span_cost{{0, 1}}(ballast::longest_sample)),
            ballast::longest_sample * (ballast::longest_sample + 1) / 2);
}

TEST(SpanCost, HasNoCostForWhatIsNoRow)  // Ensures (4)
{
  span_cost const cost{{1, 1}};
  constexpr tokens most = ballast::longest_sample;
  EXPECT_EQ(cost(-1), no_cost);
  EXPECT_EQ(cost(most + 1), no_cost);
  EXPECT_EQ(cost(std::vector<tokens>{most, 1}), no_cost);
  EXPECT_EQ(cost(std::vector<tokens>{3, -1}), no_cost);
  std::vector<tokens> const images = {3, 2};
  EXPECT_EQ(cost(span_cost::document{4, images}), no_cost);
  EXPECT_NE(cost(span_cost::document{5, images}), no_cost);
}

TEST(SpanCost, BalancesRowsThatArePacked)
{
  // [rows]
  // Four packed rows of 8,192 tokens: one document, two, four, and 64.
  std::vector<std::vector<ballast::tokens>> const rows = {
      {8192}, {4096, 4096}, {2048, 2048, 2048, 2048}, std::vector<ballast::tokens>(64, 128)};
  ballast::span_cost const cost{{.linear = 1000, .quadratic = 1}};  // per token and per pair
  auto const plan = ballast::partition(rows, ballast::one_gpu_bags(2), cost, ballast::no_length{});
  // The row of one document costs nearly five times the row of 64, and has a GPU for itself.
  // [rows]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->costs[0], 8192 * 1000 + std::int64_t{8192} * 8193 / 2);
  EXPECT_EQ(plan->makespan, (ballast::ratio{50'278'400, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

}  // namespace
