#include <ballast/cost/span_cost.hpp>  // first: proves it is self-contained

#include <ballast/core/quantities.hpp>
#include <ballast/core/random.hpp>
#include <ballast/core/ratio.hpp>
#include <ballast/cost/concepts.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/no_length.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/topology/bag_layout.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::cost_units;
using ballast::document_with_images;
using ballast::no_cost;
using ballast::quadratic_cost;
using ballast::span_cost;
using ballast::tokens;

static_assert(ballast::attention_cost_model<span_cost>);
static_assert(ballast::attention_cost_model<span_cost, document_with_images>);
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
    ASSERT_EQ(cost(document_with_images{length, images}), rounded(cost, image_of.size(), pairs));
    ASSERT_EQ(cost.attention_part(document_with_images{length, images}),
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
  EXPECT_EQ(cost(document_with_images{4, images}), no_cost);
  EXPECT_NE(cost(document_with_images{5, images}), no_cost);
}

TEST(SpanCost, BalancesRowsThatArePacked)
{
  // [rows]
  // Four packed rows of 8,192 tokens: one document, two, four, and 64.
  std::vector<std::vector<ballast::tokens>> const rows = {
      {8192}, {4096, 4096}, {2048, 2048, 2048, 2048}, std::vector<ballast::tokens>(64, 128)};
  ballast::span_cost const cost{{.linear = 1000, .quadratic = 1}};  // per token and per pair
  auto const plan = ballast::partition(rows, ballast::one_gpu_bags(2), ballast::refine{}, cost,
                                       ballast::no_length{});
  // The row of one document costs nearly five times the row of 64, and has a GPU for itself.
  // [rows]
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->costs[0], 8192 * 1000 + std::int64_t{8192} * 8193 / 2);
  EXPECT_EQ(plan->makespan, (ballast::ratio{50'278'400, 1}));
  EXPECT_TRUE(plan->proven_optimal());
}

}  // namespace
