// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "instances.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/topology/bag_layout.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace {

using ballast::bag;
using ballast::bag_id;
using ballast::bag_layout;
using ballast::device_groups;
using ballast::group_id;
using ballast::node_sizes;
using ballast::piece;
using ballast::placement;
using ballast::rank_id;
using ballast::sample_id;
using ballast::tokens;
using namespace ballast::literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bag_layout one_and_three()
{
  return bag_layout(std::array{bag{rank_id{0}, 1}, bag{rank_id{1}, 3}});
}

placement place_groups(device_groups const& groups, std::vector<tokens> const& lengths,
                       std::vector<group_id> const& owner)
{
  return ballast::place(ballast_test::plan_of(groups, lengths, owner), groups).value();
}

TEST(Place, PutsWholeSamplesOneAfterTheOther)
{
  auto const where = ballast::place(std::array<tokens, 4>{5, 0, 2, 3},
                                    std::array{rank_id{1}, rank_id{1}, rank_id{0}, rank_id{1}}, 3);

  EXPECT_EQ(where.size(), 4U);
  EXPECT_EQ(where.ranks(), 3U);
  EXPECT_THAT(where[sample_id{0}], ElementsAre(piece{rank_id{1}, 0, 5, 0}));
  EXPECT_THAT(where[sample_id{1}], IsEmpty());
  EXPECT_THAT(where[sample_id{2}], ElementsAre(piece{rank_id{0}, 0, 2, 0}));
  EXPECT_THAT(where[sample_id{3}], ElementsAre(piece{rank_id{1}, 0, 3, 5}));
  EXPECT_EQ(where.rows(rank_id{0}), 2);
  EXPECT_EQ(where.rows(rank_id{1}), 8);
  EXPECT_EQ(where.rows(rank_id{2}), 0);
  EXPECT_EQ(where.length(sample_id{3}), 3);
  EXPECT_EQ(where.length(sample_id{1}), 0);
}

TEST(Place, GivesChunkGToGpuGOfTheBag)
{
  auto const where = ballast::place(std::array<tokens, 3>{7, 4, 5},
                                    std::array{bag_id{1}, bag_id{0}, bag_id{1}}, one_and_three());

  EXPECT_THAT(where[sample_id{0}],
              ElementsAre(piece{rank_id{1}, 0, 3, 0}, piece{rank_id{2}, 3, 2, 0},
                          piece{rank_id{3}, 5, 2, 0}));
  EXPECT_THAT(where[sample_id{1}], ElementsAre(piece{rank_id{0}, 0, 4, 0}));
  EXPECT_THAT(where[sample_id{2}],
              ElementsAre(piece{rank_id{1}, 0, 2, 3}, piece{rank_id{2}, 2, 2, 2},
                          piece{rank_id{3}, 4, 1, 2}));
}

TEST(Place, PutsTheSamplesOfLargerGroupsBeforeThoseOfSmallerOnes)
{
  // Four GPUs; groups 0 to 3 are single GPUs, 4 and 5 pairs, 6 is all of them.
  device_groups const groups(node_sizes::equal(1, 4), 4);
  auto const where =
      place_groups(groups, {3, 5, 0, 6, 2, 4},
                   {group_id{1}, group_id{4}, group_id{6}, group_id{6}, group_id{1}, group_id{4}});
  EXPECT_EQ(where.ranks(), 4U);
  EXPECT_THAT(where[sample_id{0}], ElementsAre(piece{rank_id{1}, 0, 3, 6}));
  EXPECT_THAT(where[sample_id{1}],
              ElementsAre(piece{rank_id{0}, 0, 3, 2}, piece{rank_id{1}, 3, 2, 2}));
  EXPECT_THAT(where[sample_id{2}], IsEmpty());
  EXPECT_THAT(where[sample_id{3}],
              ElementsAre(piece{rank_id{0}, 0, 2, 0}, piece{rank_id{1}, 2, 2, 0},
                          piece{rank_id{2}, 4, 1, 0}, piece{rank_id{3}, 5, 1, 0}));
  EXPECT_THAT(where[sample_id{4}], ElementsAre(piece{rank_id{1}, 0, 2, 9}));
  EXPECT_THAT(where[sample_id{5}],
              ElementsAre(piece{rank_id{0}, 0, 2, 5}, piece{rank_id{1}, 2, 2, 4}));
  EXPECT_EQ(where.rows(rank_id{1}), 11);
  EXPECT_EQ(where.rows(rank_id{3}), 1);
}

/// Groups over random nodes, and sequences in them.
struct sharded_step {
  device_groups groups;
  std::vector<tokens> lengths;
  std::vector<group_id> owner;

  explicit sharded_step(ballast::random_source& random)
  {
    std::vector<std::uint32_t> nodes(1 + random.below(3));
    for (auto& node : nodes) { node = static_cast<std::uint32_t>(1 + random.below(8)); }
    groups = device_groups(node_sizes(nodes), static_cast<std::uint32_t>(1 + random.below(20)));
    for (std::size_t count = random.below(30); count > 0; --count) {
      owner.push_back(ballast::to_id<group_id>(random.below(groups.size())));
      auto const length = static_cast<tokens>(random.below(40));
      lengths.push_back(length >= groups[owner.back()].gpus ? length : 0);
    }
  }
};

TEST(Place, OfGroupsHasPackAfterPackAndEveryTokenOnce)  // Ensures (1) (2) (3)
{
  ballast::random_source random(29);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharded_step const step(random);
    auto const where = place_groups(step.groups, step.lengths, step.owner);
    ASSERT_EQ(where.size(), step.lengths.size());
    // Written down from the definition, rank by rank: its groups from the largest to the smallest.
    std::vector<std::vector<piece>> expected(step.lengths.size());
    for (std::size_t rank = 0; rank < step.groups.gpus(); ++rank) {
      auto const chain = step.groups.groups_of(ballast::to_id<rank_id>(rank));
      tokens row = 0;
      for (std::size_t place = chain.size(); place > 0; --place) {
        auto const [first, gpus] = step.groups[chain[place - 1]];
        for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
          if (step.owner[sample] != chain[place - 1] || step.lengths[sample] == 0) { continue; }
          auto const part =
              ballast::chunk_of(step.lengths[sample], gpus,
                                static_cast<std::uint32_t>(rank - ballast::to_index(first)));
          expected[sample].push_back({ballast::to_id<rank_id>(rank), part.first, part.count, row});
          row += part.count;
        }
      }
      ASSERT_EQ(where.rows(ballast::to_id<rank_id>(rank)), row);
    }
    for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
      ASSERT_THAT(where[ballast::to_id<sample_id>(sample)],
                  testing::ElementsAreArray(expected[sample]));
    }
  }
}

TEST(Place, OfGroupsHasRoutesThatBringEveryTokenToItsRow)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < 100; ++trial) {
    sharded_step const step(random);
    std::size_t const ranks = step.groups.gpus();
    std::vector<rank_id> source(step.lengths.size());
    for (auto& each : source) { each = ballast::to_id<rank_id>(random.below(ranks)); }
    auto const read = ballast::place(step.lengths, source, ranks);
    auto const computed = place_groups(step.groups, step.lengths, step.owner);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const id = ballast::to_id<rank_id>(rank);
      auto const plan = ballast::plan_route(read, computed, id);
      std::vector<int> filled(static_cast<std::size_t>(computed.rows(id)), 0);
      auto const fill = [&](tokens first, tokens count) {
        for (tokens row = first; row < first + count; ++row) {
          ++filled[static_cast<std::size_t>(row)];
        }
      };
      for (std::size_t peer = 0; peer < ranks; ++peer) {
        for (auto const& rows : plan.received[ballast::to_id<rank_id>(peer)]) {
          fill(rows.first, rows.count);
        }
      }
      for (auto const& kept : plan.kept) { fill(kept.to_row, kept.count); }
      ASSERT_THAT(filled, testing::Each(1));
    }
  }
}

TEST(Place, PutsPartsWhereTheirTokensAre)
{
  auto const samples =
      ballast::place(std::array<tokens, 2>{7, 4}, std::array{bag_id{1}, bag_id{0}},
                     one_and_three());  // 3, 2 and 2 tokens on ranks 1 to 3, 4 on rank 0
  auto const parts =
      ballast::place_parts(samples, std::array{ballast::sample_part{sample_id{0}, 2, 4},
                                               ballast::sample_part{sample_id{1}, 1, 2},
                                               ballast::sample_part{sample_id{0}, 6, 0},
                                               ballast::sample_part{sample_id{0}, 0, 1}});
  EXPECT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts.ranks(), 4U);
  EXPECT_THAT(parts[sample_id{0}],
              ElementsAre(piece{rank_id{1}, 0, 1, 2}, piece{rank_id{2}, 1, 2, 0},
                          piece{rank_id{3}, 3, 1, 0}));
  EXPECT_THAT(parts[sample_id{1}], ElementsAre(piece{rank_id{0}, 0, 2, 1}));
  EXPECT_THAT(parts[sample_id{2}], IsEmpty());
  EXPECT_THAT(parts[sample_id{3}], ElementsAre(piece{rank_id{1}, 0, 1, 0}));
  EXPECT_EQ(parts.rows(rank_id{0}), 4);  // those of the samples' arrays
  EXPECT_EQ(parts.rows(rank_id{1}), 3);
}

TEST(Place, OfPartsHasEveryTokenWhereItIsInTheSample)
{
  ballast::random_source random(13);
  for (int trial = 0; trial < 200; ++trial) {
    auto const bags = ballast_test::random_bags(1 + random.below(12), random);
    ballast_test::random_step const step(1 + random.below(20), bags, random);
    std::vector<ballast::sample_part> all;
    for (std::size_t count = random.below(20); count > 0; --count) {
      std::size_t const sample = random.below(step.lengths.size());
      tokens const first = random.between(0, step.lengths[sample]);
      tokens const tokens_of_part = random.between(0, step.lengths[sample] - first);
      all.push_back({ballast::to_id<sample_id>(sample), first, tokens_of_part});
    }
    auto const parts = ballast::place_parts(step.computed, all);
    auto const place_of = [](placement const& where, sample_id id, tokens token) {
      for (piece const& each : where[id]) {
        if (token >= each.first && token < each.first + each.count) {
          return std::pair(each.rank, each.row + token - each.first);
        }
      }
      return std::pair(rank_id{999}, tokens{-1});
    };
    for (std::size_t part = 0; part < all.size(); ++part) {
      ASSERT_EQ(parts.length(ballast::to_id<sample_id>(part)), all[part].count);
      for (tokens token = 0; token < all[part].count; ++token) {
        ASSERT_EQ(place_of(parts, ballast::to_id<sample_id>(part), token),
                  place_of(step.computed, all[part].sample, all[part].first + token));
      }
    }
  }
}

TEST(Place, CoversEveryTokenOnceAndEveryRowOnce)  // Ensures (1) (2) (3)
{
  ballast::random_source random(7);
  for (int trial = 0; trial < 300; ++trial) {
    auto const bags = ballast_test::random_bags(1 + random.below(12), random);
    ballast_test::random_step const step(random.below(20), bags, random);
    for (placement const* where : {&step.read, &step.computed}) {
      std::vector<tokens> next_row(bags.gpus(), 0);
      for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
        tokens next = 0;
        for (piece const& each : (*where)[ballast::to_id<sample_id>(sample)]) {
          ASSERT_EQ(each.first, next);
          ASSERT_GT(each.count, 0);
          ASSERT_EQ(each.row, next_row[ballast::to_index(each.rank)]);
          next += each.count;
          next_row[ballast::to_index(each.rank)] += each.count;
        }
        ASSERT_EQ(next, step.lengths[sample]);
      }
      for (std::size_t rank = 0; rank < bags.gpus(); ++rank) {
        ASSERT_EQ(where->rows(ballast::to_id<rank_id>(rank)), next_row[rank]);
      }
    }
  }
}

TEST(Place, TakesPlansAndRefusesThoseOfOthers)  // Errors
{
  std::vector<tokens> const lengths{7, 0, 3, 12};
  auto const bags = ballast::lay_out("g1n2+g2n1"_bags, 4).value();
  auto const plan = ballast::partition(lengths, bags, ballast::longest_processing_time{},
                                       ballast::quadratic_cost{1})
                        .value();
  EXPECT_EQ(ballast::place(plan, bags).value(), ballast::place(lengths, plan.owner, bags));

  auto const others = ballast::lay_out("g1n4"_bags, 4).value();
  placement where = ballast::place(plan, bags).value();
  auto const refused = ballast::place_into(where, plan, others);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("for other bags than these"));
  EXPECT_EQ(where, placement());
  EXPECT_FALSE(ballast::place(plan, others));

  device_groups const groups(node_sizes::equal(1, 4), 4);
  device_groups const pairs(node_sizes::equal(2, 2), 2);
  auto const of_groups = ballast_test::plan_of(groups, {7, 9}, {group_id{4}, group_id{0}});
  EXPECT_TRUE(ballast::place_into(where, of_groups, groups));
  auto const other_groups = ballast::place_into(where, of_groups, pairs);
  ASSERT_FALSE(other_groups);
  EXPECT_EQ(other_groups.error().code, ballast::error_code::mismatch);
  EXPECT_THAT(other_groups.error().message, HasSubstr("for other groups of GPUs"));
  EXPECT_EQ(where, placement());
  EXPECT_FALSE(ballast::place(of_groups, pairs));
}

TEST(Place, AsReadIsWhereTheSamplesCameFrom)
{
  ballast::gathered_samples<tokens> const all{{5, 0, 2}, {rank_id{0}, rank_id{2}, rank_id{2}}, 4};
  EXPECT_EQ(ballast::place_as_read(all), ballast::place(all.samples, all.source, 4));
}

TEST(Place, GivesTheFirstGpusATokenEachOfAShortSample)
{
  auto const refusing = ballast::lay_out("g8n2"_bags, ballast::cluster_of(16, 16).value()).value();
  auto const admitting = refusing.with_short_samples(ballast::short_samples::admitted);
  std::vector<tokens> const lengths{6, 24};
  auto const plan = ballast::partition(lengths, admitting, ballast::longest_processing_time{},
                                       ballast::quadratic_cost{1})
                        .value();
  auto const where = ballast::place(plan, admitting).value();
  std::size_t const first = to_index(admitting[plan.owner[0]].first);
  ASSERT_EQ(where[sample_id{0}].size(), 6U);
  for (std::size_t gpu = 0; gpu < 6; ++gpu) {
    EXPECT_EQ(where[sample_id{0}][gpu],
              (piece{ballast::to_id<rank_id>(first + gpu), static_cast<tokens>(gpu), 1, 0}));
  }
  EXPECT_EQ(where.rows(ballast::to_id<rank_id>(first + 6)), 0);
  EXPECT_EQ(where[sample_id{1}].size(), 8U);
}

TEST(Place, AllocatesNothingInTheSteadyState)
{
  std::vector<tokens> const lengths(100, 12);
  std::vector<bag_id> const owner(100, bag_id{1});
  std::vector<rank_id> const source(100, rank_id{2});
  auto const bags = one_and_three();
  auto read = ballast::place(lengths, source, 4);
  auto computed = ballast::place(lengths, owner, bags);
  auto const before = ballast_test::allocations();
  ballast::place_into(read, lengths, source, 4);
  ballast::place_into(computed, std::span(lengths).first(50), std::span(owner).first(50), bags);
  EXPECT_EQ(ballast_test::allocations(), before);

  device_groups const groups(node_sizes::equal(1, 4), 4);
  auto const large = ballast_test::plan_of(groups, lengths, std::vector(100, group_id{6}));
  auto const small = ballast_test::plan_of(groups, {12, 12}, {group_id{6}, group_id{5}});
  ASSERT_TRUE(ballast::place_into(computed, large, groups));
  auto const between = ballast_test::allocations();
  ASSERT_TRUE(ballast::place_into(computed, small, groups));
  EXPECT_EQ(ballast_test::allocations(), between);
}

TEST(PlaceDeathTest, RefusesWhatIsNoPlacement)
{
  placement where;
  std::array<tokens, 1> const two{2};
  EXPECT_DEATH(ballast::place_into(where, two, std::array{rank_id{3}}, 3),
               "sample 0 lies on rank 3 of 3");
  EXPECT_DEATH(ballast::place_into(where, two, std::vector<rank_id>{}, 3),
               "lengths of 1 sample and owners of 0");
  EXPECT_DEATH(ballast::place_into(where, std::array<tokens, 1>{-5}, std::array{rank_id{0}}, 3),
               "sample 0 has a length of -5, which is not from 0 to ");
  placement parts;
  ballast::place_into(where, two, std::array{rank_id{0}}, 1);
  EXPECT_DEATH(
      ballast::place_parts_into(parts, where, std::array{ballast::sample_part{sample_id{0}, 1, 2}}),
      "part 0 is 2 tokens from token 1 on of sample 0, which has 2");
  EXPECT_DEATH(
      ballast::place_parts_into(parts, where, std::array{ballast::sample_part{sample_id{1}, 0, 0}}),
      "sample 1 of a placement of 1 sample");
  EXPECT_DEATH(ballast::place_into(where, two, std::array{bag_id{1}}, one_and_three()),
               "sample 0 of 2 tokens cannot lie on the 3 GPUs of bag 1");
  device_groups const groups(node_sizes::equal(1, 4), 4);
  EXPECT_DEATH((void)place_groups(groups, {2}, {group_id{6}}),
               "sample 0 of 2 tokens cannot lie on the 4 GPUs of group 6");
}

}  // namespace
