#include <list>

#include "../support/test.hpp"

namespace {

using ballast::integer_projection;

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
