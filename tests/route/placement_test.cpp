// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "instances.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/core/random.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/partition.hpp>
#include <ballast/route/chunking.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/sharding/sharding_plan.hpp>
#include <ballast/topology/bag_spec.hpp>
#include <ballast/topology/device_groups.hpp>
#include <ballast/topology/lay_out.hpp>
#include <ballast/topology/node_sizes.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

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
using ballast::sharding_plan;
using ballast::tokens;
using namespace ballast::literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

bag_layout one_and_three()
{
  return bag_layout(std::array{bag{rank_id{0}, 1}, bag{rank_id{1}, 3}});
}

TEST(Placement, PutsWholeSamplesOneAfterTheOther)
{
  placement where;
  where.assign_whole(std::array<tokens, 4>{5, 0, 2, 3},
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

TEST(Placement, GivesChunkGToGpuGOfTheBag)
{
  placement where;
  where.assign_chunks(std::array<tokens, 3>{7, 4, 5}, std::array{bag_id{1}, bag_id{0}, bag_id{1}},
                      one_and_three());

  EXPECT_THAT(where[sample_id{0}],
              ElementsAre(piece{rank_id{1}, 0, 3, 0}, piece{rank_id{2}, 3, 2, 0},
                          piece{rank_id{3}, 5, 2, 0}));
  EXPECT_THAT(where[sample_id{1}], ElementsAre(piece{rank_id{0}, 0, 4, 0}));
  EXPECT_THAT(where[sample_id{2}],
              ElementsAre(piece{rank_id{1}, 0, 2, 3}, piece{rank_id{2}, 2, 2, 2},
                          piece{rank_id{3}, 4, 1, 2}));
}

TEST(Placement, PutsTheSamplesOfLargerGroupsBeforeThoseOfSmallerOnes)
{
  // Four GPUs; groups 0 to 3 are single GPUs, 4 and 5 pairs, 6 is all of them.
  device_groups const groups(node_sizes::equal(1, 4), 4);
  placement where;
  where.assign_groups(
      std::array<tokens, 6>{3, 5, 0, 6, 2, 4},
      std::array{group_id{1}, group_id{4}, group_id{6}, group_id{6}, group_id{1}, group_id{4}},
      groups);
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

TEST(Placement, OfGroupsHasPackAfterPackAndEveryTokenOnce)  // Ensures (1) (2) (3)
{
  ballast::random_source random(29);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    sharded_step const step(random);
    placement where;
    where.assign_groups(step.lengths, step.owner, step.groups);
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

TEST(Placement, OfGroupsHasRoutesThatBringEveryTokenToItsRow)
{
  ballast::random_source random(31);
  for (int trial = 0; trial < 100; ++trial) {
    sharded_step const step(random);
    std::size_t const ranks = step.groups.gpus();
    std::vector<rank_id> source(step.lengths.size());
    for (auto& each : source) { each = ballast::to_id<rank_id>(random.below(ranks)); }
    placement read;
    read.assign_whole(step.lengths, source, ranks);
    placement computed;
    computed.assign_groups(step.lengths, step.owner, step.groups);
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

TEST(Placement, TakesAPlanOfGroupsAndRefusesThatOfOthers)  // Errors
{
  device_groups const groups(node_sizes::equal(1, 4), 4);
  sharding_plan plan;
  plan.groups_digest = groups.digest();
  plan.owner = {group_id{4}, group_id{0}};
  placement expected;
  expected.assign_groups(std::array<tokens, 2>{7, 9}, plan.owner, groups);
  placement made;
  ASSERT_TRUE(made.assign_groups(std::array<tokens, 2>{7, 9}, plan, groups));
  EXPECT_EQ(made, expected);

  auto const refused = [&](std::vector<tokens> const& lengths, device_groups const& given) {
    auto const placed = made.assign_groups(lengths, plan, given);
    EXPECT_EQ(made.size(), 0U);
    return placed ? ballast::error{} : placed.error();
  };
  device_groups const others(node_sizes::equal(2, 2), 2);
  EXPECT_EQ(refused({7, 9}, others).code, ballast::error_code::mismatch);
  EXPECT_THAT(refused({7, 9}, others).message, HasSubstr("for other groups of GPUs"));
  EXPECT_EQ(refused({7}, groups).code, ballast::error_code::mismatch);
  EXPECT_THAT(refused({7}, groups).message, HasSubstr("for 2 sequences, not for 1"));
  for (tokens const wrong : {tokens{1}, tokens{-1}, ballast::longest_sample + 1}) {
    EXPECT_EQ(refused({wrong, 9}, groups).code, ballast::error_code::out_of_range);
    EXPECT_EQ(refused({wrong, 9}, groups).position, 0U);
    EXPECT_THAT(refused({wrong, 9}, groups).message, HasSubstr("give the lengths that were"));
  }
}

TEST(Placement, PutsPartsWhereTheirTokensAre)
{
  placement samples;
  samples.assign_chunks(std::array<tokens, 2>{7, 4}, std::array{bag_id{1}, bag_id{0}},
                        one_and_three());  // 3, 2 and 2 tokens on ranks 1 to 3, 4 on rank 0
  placement parts;
  parts.assign_parts(samples, std::array{ballast::sample_part{sample_id{0}, 2, 4},
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

TEST(Placement, OfPartsHasEveryTokenWhereItIsInTheSample)
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
    placement parts;
    parts.assign_parts(step.computed, all);
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

TEST(Placement, CoversEveryTokenOnceAndEveryRowOnce)  // Ensures (1) (2) (3)
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

// Samples of the caller's own type, with the plan that partition() made of them.
struct planned_document {
  tokens words = 0;
};

TEST(Placement, TakesAPlanAndAProjection)
{
  std::vector<planned_document> const documents{{7}, {0}, {3}, {12}};
  std::vector<tokens> const lengths{7, 0, 3, 12};
  auto const bags = ballast::lay_out("g1n2+g2n1"_bags, 4).value();
  auto const plan = ballast::partition(documents, bags, ballast::longest_processing_time{},
                                       &planned_document::words, &planned_document::words)
                        .value();
  placement expected;
  expected.assign_chunks(lengths, plan.owner, bags);
  placement made;
  ASSERT_TRUE(made.assign_chunks(lengths, plan, bags));
  EXPECT_EQ(made, expected);
  ASSERT_TRUE(made.assign_chunks(documents, plan, bags, &planned_document::words));
  EXPECT_EQ(made, expected);

  std::vector<rank_id> const source(4, rank_id{1});
  expected.assign_whole(lengths, source, 4);
  made.assign_whole(documents, source, 4, &planned_document::words);
  EXPECT_EQ(made, expected);
}

TEST(Placement, RefusesThePlanOfOtherBagsOrSamples)  // Errors
{
  std::vector<tokens> const lengths{7, 9};
  auto const bags = ballast::lay_out("g2n2"_bags, 4).value();
  auto const others = ballast::lay_out("g1n4"_bags, 4).value();
  auto const plan = ballast::partition(lengths, bags, ballast::longest_processing_time{},
                                       ballast::quadratic_cost{1})
                        .value();
  auto const refused = [&](std::vector<tokens> const& given, bag_layout const& layout) {
    placement made;
    auto const placed = made.assign_chunks(given, plan, layout);
    EXPECT_EQ(made.size(), 0U);
    return placed ? ballast::error{} : placed.error();
  };
  EXPECT_EQ(refused(lengths, others).code, ballast::error_code::mismatch);
  EXPECT_THAT(refused(lengths, others).message, HasSubstr("for other bags than these"));
  EXPECT_EQ(refused({7}, bags).code, ballast::error_code::mismatch);
  EXPECT_THAT(refused({7}, bags).message, HasSubstr("for 2 samples, not for 1"));
  for (tokens const wrong : {tokens{1}, tokens{-1}, ballast::longest_sample + 1}) {
    EXPECT_EQ(refused({7, wrong}, bags).code, ballast::error_code::out_of_range);
    EXPECT_EQ(refused({7, wrong}, bags).position, 1U);
    EXPECT_THAT(refused({7, wrong}, bags).message, HasSubstr("give the lengths that were planned"));
  }
}

TEST(Placement, GivesTheFirstGpusATokenEachOfAShortSample)
{
  auto const refusing = ballast::lay_out("g8n2"_bags, ballast::cluster_of(16, 16).value()).value();
  auto const admitting = refusing.with_short_samples(ballast::short_samples::admitted);
  std::vector<tokens> const lengths{6, 24};
  auto const plan = ballast::partition(lengths, admitting, ballast::longest_processing_time{},
                                       ballast::quadratic_cost{1})
                        .value();
  placement where;
  ASSERT_TRUE(where.assign_chunks(lengths, plan, admitting));
  std::size_t const first = to_index(admitting[plan.owner[0]].first);
  ASSERT_EQ(where[sample_id{0}].size(), 6U);
  for (std::size_t gpu = 0; gpu < 6; ++gpu) {
    EXPECT_EQ(where[sample_id{0}][gpu],
              (piece{ballast::to_id<rank_id>(first + gpu), static_cast<tokens>(gpu), 1, 0}));
  }
  EXPECT_EQ(where.rows(ballast::to_id<rank_id>(first + 6)), 0);
  EXPECT_EQ(where[sample_id{1}].size(), 8U);

  placement none;
  auto const other_bags = none.assign_chunks(lengths, plan, refusing);
  ASSERT_FALSE(other_bags);
  EXPECT_EQ(other_bags.error().code, ballast::error_code::mismatch);
}

TEST(Placement, TakesShortSamplesOnlyWhereTheyWerePlanned)  // Errors
{
  // Bags of 2 and of 8: a sample of 6 tokens was planned for one of 2, and is short nowhere.
  auto const bags = ballast::lay_out("g8n1+g2n4"_bags, ballast::cluster_of(16, 16).value())
                        .value()
                        .with_short_samples(ballast::short_samples::admitted);
  auto const plan =
      ballast::partition(std::vector<tokens>{1, 900}, bags, ballast::longest_processing_time{},
                         ballast::quadratic_cost{1})
          .value();
  ASSERT_EQ(plan.owner[1], bag_id{0});
  placement where;
  EXPECT_TRUE(where.assign_chunks(std::vector<tokens>{1, 900}, plan, bags));
  auto const other_length = where.assign_chunks(std::vector<tokens>{1, 6}, plan, bags);
  ASSERT_FALSE(other_length);
  EXPECT_EQ(other_length.error().code, ballast::error_code::out_of_range);
  EXPECT_EQ(other_length.error().position, 1U);
}

TEST(Placement, DigestsDifferWhereAPieceDoes)
{
  std::array<tokens, 2> const lengths{4, 4};
  auto const whole = [&](rank_id first, rank_id second, std::size_t ranks) {
    placement where;
    where.assign_whole(lengths, std::array{first, second}, ranks);
    return where.digest();
  };
  placement chunks;
  chunks.assign_chunks(lengths, std::array{bag_id{0}, bag_id{0}}, one_and_three());
  auto const digest = whole(rank_id{0}, rank_id{0}, 4);
  EXPECT_EQ(digest, chunks.digest());  // a bag of one GPU is that GPU
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{1}, 4));
  EXPECT_NE(digest, whole(rank_id{1}, rank_id{0}, 4));
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{0}, 5));

  auto const part = [&](tokens first) {
    placement parts;
    parts.assign_parts(chunks, std::array{ballast::sample_part{sample_id{0}, first, 1}});
    return parts.digest();
  };
  EXPECT_NE(part(0), part(1));
}

TEST(Placement, AllocatesNothingInTheSteadyState)
{
  std::vector<tokens> const lengths(100, 12);
  std::vector<bag_id> const owner(100, bag_id{1});
  std::vector<rank_id> const source(100, rank_id{2});
  auto const bags = one_and_three();
  placement read;
  placement computed;
  read.assign_whole(lengths, source, 4);
  computed.assign_chunks(lengths, owner, bags);
  auto const before = ballast_test::allocations();
  read.assign_whole(lengths, source, 4);
  computed.assign_chunks(std::span(lengths).first(50), std::span(owner).first(50), bags);
  EXPECT_EQ(ballast_test::allocations(), before);

  device_groups const groups(node_sizes::equal(1, 4), 4);
  std::vector<group_id> const group_of(100, group_id{6});
  computed.assign_groups(lengths, group_of, groups);
  auto const between = ballast_test::allocations();
  computed.assign_groups(std::span(lengths).first(50), std::span(group_of).first(50), groups);
  EXPECT_EQ(ballast_test::allocations(), between);
}

TEST(Placement, IsEmptyWhereItWasMovedFrom)
{
  placement where;
  where.assign_whole(std::array<tokens, 1>{2}, std::array{rank_id{0}}, 1);
  placement const moved = std::move(where);
  EXPECT_EQ(moved.size(), 1U);
  EXPECT_EQ(where.size(), 0U);  // NOLINT(bugprone-use-after-move): that is the question
}

TEST(PlacementDeathTest, RefusesWhatIsNoPlacement)
{
  placement where;
  std::array<tokens, 1> const two{2};
  EXPECT_DEATH(where.assign_whole(two, std::array{rank_id{3}}, 3), "sample 0 lies on rank 3 of 3");
  EXPECT_DEATH(where.assign_whole(two, std::vector<rank_id>{}, 3),
               "lengths of 1 samples and owners of 0");
  EXPECT_DEATH(where.assign_whole(std::array<tokens, 1>{-5}, std::array{rank_id{0}}, 3),
               "sample 0 has a length of -5, which is not from 0 to ");
  placement parts;
  where.assign_whole(two, std::array{rank_id{0}}, 1);
  EXPECT_DEATH(parts.assign_parts(where, std::array{ballast::sample_part{sample_id{0}, 1, 2}}),
               "part 0 is 2 tokens from token 1 on of sample 0, which has 2");
  EXPECT_DEATH(parts.assign_parts(where, std::array{ballast::sample_part{sample_id{1}, 0, 0}}),
               "sample 1 of a placement of 1 samples");
  EXPECT_DEATH(where.assign_chunks(two, std::array{bag_id{1}}, one_and_three()),
               "sample 0 of 2 tokens cannot lie on the 3 GPUs of bag 1");
  device_groups const groups(node_sizes::equal(1, 4), 4);
  EXPECT_DEATH(where.assign_groups(two, std::array{group_id{6}}, groups),
               "sample 0 of 2 tokens cannot lie on the 4 GPUs of group 6");
}

}  // namespace
