// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include <list>

namespace {

using namespace ballast;
using bags_of_samples = ballast::id_vector<sample_id, bag_id>;

struct document_id : ballast::basic_id<document_id> {
  using basic_id::basic_id;
};  // a user's own
enum class wide : std::uint64_t {};

static_assert(identifier<sample_id> && identifier<rank_id> && identifier<node_id> &&
              identifier<bag_id> && identifier<document_id>);
static_assert(!identifier<std::uint32_t> && !identifier<wide>);

// An index, but no number: no mixing, no arithmetic, no way in without a name.
static_assert(!std::convertible_to<std::uint32_t, rank_id>);
static_assert(std::convertible_to<rank_id, std::size_t>);
template <class A, class B>
concept adds_up =
    requires(A a, B b) { a + b; } || requires(A a, B b) { a - b; } || requires(A a, B b) { a* b; };
template <class A, class B>
concept compares = requires(A a, B b) { a == b; } || requires(A a, B b) { a < b; } ||
                   requires(A a, B b) { b < a; };
static_assert(!adds_up<rank_id, int> && !adds_up<int, rank_id> && !adds_up<rank_id, rank_id>);
static_assert(!compares<rank_id, bag_id> && !compares<rank_id, int> &&
              !compares<rank_id, std::size_t>);
static_assert(!std::constructible_from<bag_id, rank_id>);
static_assert(!std::constructible_from<bool, rank_id>);
static_assert(std::is_trivially_copyable_v<rank_id> && sizeof(rank_id) == 4);

static_assert(ballast::to_index(rank_id{7}) == 7);
static_assert(ballast::to_id<bag_id>(7) == bag_id{7});

TEST(Identifier, RoundTripsEveryPosition)
{
  for (std::size_t const index : {std::size_t{0}, std::size_t{1}, std::size_t{0xffff'ffff}}) {
    EXPECT_EQ(ballast::to_index(ballast::to_id<sample_id>(index)), index);
  }
}

TEST(Identifier, IsOrderedByPosition)
{
  EXPECT_LT(rank_id{1}, rank_id{2});
  EXPECT_LT(rank_id{0x7fff'ffff}, rank_id{0x8000'0000});
}

TEST(IdVector, TakesIdentifiersAndIndices)
{
  bags_of_samples owner(3, bag_id{7});
  owner[sample_id{1}] = bag_id{2};
  owner[2] = bag_id{4};
  EXPECT_EQ(std::as_const(owner)[1], bag_id{2});
  EXPECT_EQ(std::as_const(owner)[sample_id{2}], bag_id{4});
  EXPECT_EQ(owner[sample_id{0}], bag_id{7});
}

TEST(IdVector, IsTheVectorThatItIsMadeOf)
{
  std::vector<bag_id> const values = {bag_id{3}, bag_id{1}};
  bags_of_samples owner = {bag_id{5}};
  owner = values;
  EXPECT_EQ(owner, values);
  EXPECT_EQ(bags_of_samples(values), owner);
  EXPECT_EQ(bags_of_samples{}, bags_of_samples(std::vector<bag_id>{}));
}

struct document {
  std::int32_t text;
  double weight;
  [[nodiscard]] std::int64_t tokens() const { return text; }
};
using documents = std::vector<document>;
constexpr auto doubled_text = [](document const& each) { return 2 * each.text; };
constexpr auto halved = [](document const& each) { return 0.5 * each.text; };

TEST(IntegerProjection, IsACallableOrAPointerToAMember)
{
  EXPECT_TRUE((integer_projection<decltype(doubled_text), documents>));
  EXPECT_TRUE((integer_projection<decltype(&document::text), documents const&>));
  EXPECT_TRUE((integer_projection<decltype(&document::tokens), std::list<document>&>));
  EXPECT_TRUE((integer_projection<std::identity, std::vector<int>>));
}

TEST(IntegerProjection, IsNothingThatGivesFloatingPointOrTakesSomethingElse)
{
  EXPECT_FALSE((integer_projection<decltype(halved), documents>));
  EXPECT_FALSE((integer_projection<decltype(&document::weight), documents>));
  EXPECT_FALSE((integer_projection<decltype(doubled_text), std::vector<int>>));
  EXPECT_FALSE((integer_projection<std::identity, documents>));
  EXPECT_FALSE((integer_projection<std::identity, int>));
}

}  // namespace
