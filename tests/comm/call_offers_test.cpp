// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/collective_check.hpp>

#include "../support/test.hpp"

namespace {

using ballast::call_offers;
using ballast::collective;
using ballast::rank_id;

/// What three ranks send each other, in an order of their own.
struct CallOffers : testing::Test {
  void put_all()
  {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      offers.put(rank, {{collective::all_to_all_v}, sent, to[rank], from[rank]});
    }
  }

  std::vector<std::byte> const sent = std::vector<std::byte>(60);
  std::vector<std::vector<std::size_t>> to{{0, 20, 40}, {1, 20, 39}, {2, 20, 38}};
  std::vector<std::vector<std::size_t>> from{{0, 1, 2}, {20, 20, 20}, {40, 39, 38}};
  call_offers offers{3};
};

TEST_F(CallOffers, FindMessagesBehindEachOther)
{
  put_all();
  EXPECT_TRUE(offers.all_agree());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(offers.message(rank, 0).data(), sent.data());
    EXPECT_EQ(offers.message(rank, 1).data(), sent.data() + rank);
    EXPECT_EQ(offers.message(rank, 2).data(), sent.data() + rank + 20);
    EXPECT_EQ(offers.message(rank, 2).size(), 40 - rank);
  }
}

TEST_F(CallOffers, TellEachRankWithWhomItDisagrees)
{
  from[2][1] = 7;
  put_all();
  EXPECT_FALSE(offers.all_agree());
  EXPECT_EQ(offers.mismatch(0).value().ranks, std::vector<rank_id>());
  EXPECT_EQ(offers.mismatch(1).value().ranks, std::vector{rank_id{2}});
  EXPECT_EQ(offers.mismatch(2).value().ranks, std::vector{rank_id{1}});
  offers.put(1, {{collective::barrier}});
  EXPECT_FALSE(offers.all_agree());
  EXPECT_EQ(offers.mismatch(0).value().ranks, std::vector{rank_id{1}});
}

}  // namespace
