#include <ballast/partition/concepts.hpp>  // first: proves it is self-contained

#include "../support/test.hpp"

namespace {

using namespace ballast;

TEST(PricedSample, IsASampleAndItsCost)
{
  EXPECT_EQ(priced_sample{}, (priced_sample{0, sample_id{0}}));
  EXPECT_NE((priced_sample{3, sample_id{1}}), (priced_sample{3, sample_id{2}}));
  EXPECT_NE((priced_sample{3, sample_id{1}}), (priced_sample{4, sample_id{1}}));
}

}  // namespace
