// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

namespace {

using ballast::bag_id;
using ballast::sample_id;
using bags_of_samples = ballast::id_vector<sample_id, bag_id>;

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

}  // namespace
