// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/placement.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "../support/token_ranks.hpp"
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
using ballast::chunk;
using ballast::chunk_of;
using ballast::device_groups;
using ballast::group_id;
using ballast::join_ranks_into;
using ballast::node_sizes;
using ballast::piece;
using ballast::placement;
using ballast::rank_id;
using ballast::sample_id;
using ballast::to_id;
using ballast::to_index;
using ballast::tokens;
using namespace ballast::literals;
using testing::ElementsAre;
using testing::HasSubstr;

bag_layout one_and_three()
{
  return bag_layout(std::array{bag{rank_id{0}, 1}, bag{rank_id{1}, 3}});
}

placement place_groups(device_groups const& groups, std::vector<tokens> const& lengths,
                       std::vector<group_id> const& owner)
{
  return ballast::place(ballast_test::plan_of(groups, lengths, owner), groups).value();
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
    ASSERT_EQ(parts.size(), all.size());
    for (std::size_t rank = 0; rank < bags.gpus(); ++rank) {  // those of the samples' arrays
      auto const id = ballast::to_id<rank_id>(rank);
      ASSERT_EQ(parts.rows(id), step.computed.rows(id));
    }
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
      ASSERT_EQ(where->size(), step.lengths.size());
      ASSERT_EQ(where->ranks(), bags.gpus());
      std::vector<tokens> next_row(bags.gpus(), 0);
      for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
        tokens next = 0;
        for (piece const& each : (*where)[ballast::to_id<sample_id>(sample)]) {
          if (where == &step.read) { ASSERT_EQ(each.rank, step.source[sample]); }
          ASSERT_EQ(each.first, next);
          ASSERT_GT(each.count, 0);
          ASSERT_EQ(each.row, next_row[ballast::to_index(each.rank)]);
          next += each.count;
          next_row[ballast::to_index(each.rank)] += each.count;
        }
        ASSERT_EQ(next, step.lengths[sample]);
        ASSERT_EQ(where->length(ballast::to_id<sample_id>(sample)), next);
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
  auto const plan = ballast::partition(lengths, bags, ballast::quadratic_cost{1}, {},
                                       ballast::longest_processing_time{})
                        .value();
  EXPECT_EQ(ballast::place(plan, bags).value(), ballast::place(lengths, plan.owner, bags));

  auto const others = ballast::lay_out("g1n4"_bags, 4).value();
  placement where = ballast::place(plan, bags).value();
  auto const refused = ballast::place(where, plan, others);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ballast::error_code::mismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("for other bags than these"));
  EXPECT_EQ(where, placement());
  EXPECT_FALSE(ballast::place(plan, others));

  device_groups const groups(node_sizes::equal(1, 4), 4);
  device_groups const pairs(node_sizes::equal(2, 2), 2);
  auto const of_groups = ballast_test::plan_of(groups, {7, 9}, {group_id{4}, group_id{0}});
  EXPECT_TRUE(ballast::place(where, of_groups, groups));
  auto const other_groups = ballast::place(where, of_groups, pairs);
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
  auto const plan = ballast::partition(lengths, admitting, ballast::quadratic_cost{1}, {},
                                       ballast::longest_processing_time{})
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
  ballast::place(read, lengths, source, 4);
  ballast::place(computed, std::span(lengths).first(50), std::span(owner).first(50), bags);
  EXPECT_EQ(ballast_test::allocations(), before);

  device_groups const groups(node_sizes::equal(1, 4), 4);
  auto const large = ballast_test::plan_of(groups, lengths, std::vector(100, group_id{6}));
  auto const small = ballast_test::plan_of(groups, {12, 12}, {group_id{6}, group_id{5}});
  ASSERT_TRUE(ballast::place(computed, large, groups));
  auto const between = ballast_test::allocations();
  ASSERT_TRUE(ballast::place(computed, small, groups));
  EXPECT_EQ(ballast_test::allocations(), between);
}

TEST(PlaceDeathTest, RefusesWhatIsNoPlacement)
{
  placement where;
  std::array<tokens, 1> const two{2};
  EXPECT_DEATH(ballast::place(where, two, std::array{rank_id{3}}, 3),
               "sample 0 lies on rank 3 of 3");
  EXPECT_DEATH(ballast::place(where, two, std::vector<rank_id>{}, 3),
               "lengths of 1 sample and owners of 0");
  EXPECT_DEATH(ballast::place(where, std::array<tokens, 1>{-5}, std::array{rank_id{0}}, 3),
               "sample 0 has a length of -5, which is not from 0 to ");
  placement parts;
  ballast::place(where, two, std::array{rank_id{0}}, 1);
  EXPECT_DEATH(
      ballast::place_parts(parts, where, std::array{ballast::sample_part{sample_id{0}, 1, 2}}),
      "part 0 is 2 tokens from token 1 on of sample 0, which has 2");
  EXPECT_DEATH(
      ballast::place_parts(parts, where, std::array{ballast::sample_part{sample_id{1}, 0, 0}}),
      "sample 1 of a placement of 1 sample");
  EXPECT_DEATH(ballast::place(where, two, std::array{bag_id{1}}, one_and_three()),
               "sample 0 of 2 tokens cannot lie on the 3 GPUs of bag 1");
  device_groups const groups(node_sizes::equal(1, 4), 4);
  EXPECT_DEATH((void)place_groups(groups, {2}, {group_id{6}}),
               "sample 0 of 2 tokens cannot lie on the 4 GPUs of group 6");
}

TEST(Placement, DigestsDifferWhereAPieceDoes)
{
  std::array<tokens, 2> const lengths{4, 4};
  auto const whole = [&](rank_id first, rank_id second, std::size_t ranks) {
    auto const where = ballast::place(lengths, std::array{first, second}, ranks);
    return where.digest();
  };
  auto const chunks =
      ballast::place(lengths, std::array{bag_id{0}, bag_id{0}},
                     ballast::bag_layout(std::array{bag{rank_id{0}, 1}, bag{rank_id{1}, 3}}));
  auto const digest = whole(rank_id{0}, rank_id{0}, 4);
  EXPECT_EQ(digest, chunks.digest());  // a bag of one GPU is that GPU
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{1}, 4));
  EXPECT_NE(digest, whole(rank_id{1}, rank_id{0}, 4));
  EXPECT_NE(digest, whole(rank_id{0}, rank_id{0}, 5));

  auto const part = [&](tokens first) {
    auto const parts =
        ballast::place_parts(chunks, std::array{ballast::sample_part{sample_id{0}, first, 1}});
    return parts.digest();
  };
  EXPECT_NE(part(0), part(1));
}

TEST(Placement, IsEmptyWhereItWasMovedFrom)
{
  auto where = ballast::place(std::array<tokens, 1>{2}, std::array{rank_id{0}}, 1);
  placement const moved = std::move(where);
  EXPECT_EQ(moved.size(), 1U);
  EXPECT_EQ(where.size(), 0U);  // NOLINT(bugprone-use-after-move): that is the question
}

static_assert(chunk_of(10, 4, 0) == chunk{0, 3});
static_assert(chunk_of(10, 4, 1) == chunk{3, 3});
static_assert(chunk_of(10, 4, 2) == chunk{6, 2});
static_assert(chunk_of(10, 4, 3) == chunk{8, 2});
static_assert(chunk_of(2, 4, 1) == chunk{1, 1});
static_assert(chunk_of(2, 4, 2) == chunk{2, 0});

RC_GTEST_PROP(ChunkOf, CoversTheWholeInOrderWithCountsThatDifferByOne,
              ())  // Ensures (1) (2) (3)
{
  auto const length = *rc::gen::inRange<std::int64_t>(0, 5000);
  auto const parts = *rc::gen::inRange<std::uint32_t>(1, 130);
  std::int64_t next = 0;
  for (std::uint32_t index = 0; index < parts; ++index) {
    chunk const part = chunk_of(length, parts, index);
    RC_ASSERT(part.first == next);
    RC_ASSERT(part.count == length / parts || part.count == length / parts + 1);
    RC_ASSERT(part.count > 0 || length < parts);
    next += part.count;
  }
  RC_ASSERT(next == length);
}

TEST(ChunkOf, CountsInSixtyFourBits)
{
  constexpr std::int64_t length = std::numeric_limits<std::int64_t>::max();
  chunk const last = chunk_of(length, 3, 2);
  EXPECT_EQ(last.first + last.count, length);
}

TEST(ChunkOfDeathTest, RefusesAnIndexThatIsNone)
{
  EXPECT_DEATH((void)chunk_of(10, 4, 4), "chunk 4 of 4");
  EXPECT_DEATH((void)chunk_of(10, 0, 0), "chunk 0 of 0");
  EXPECT_DEATH((void)chunk_of(-1, 4, 0), "there are -1 items");
}

TEST(PlaceWholes, PutsEveryTokenWhereItsPartHasIt)  // Ensures (1)
{
  std::vector<ballast::bag> const some{{ballast::rank_id{0}, 1}, {ballast::rank_id{1}, 2}};
  ballast::bag_layout const bags(some);
  ballast::random_source random(3);
  ballast::workspace memory;
  ballast::placement wholes;
  for (int trial = 0; trial < 50; ++trial) {
    std::size_t const samples = random.below(6);
    std::array<std::vector<ballast::sample_part>, 2> parts;
    std::array<std::vector<tokens>, 2> lengths;
    std::array<std::vector<bag_id>, 2> owner;
    for (std::size_t sample = 0; sample < samples; ++sample) {
      tokens first = 0;
      for (std::uint64_t left = random.below(5); left > 0; --left) {
        std::size_t const kind = random.below(2);
        lengths[kind].push_back(random.below(3) == 0 ? 0 : random.between(2, 5));
        owner[kind].push_back(to_id<bag_id>(random.below(2)));
        parts[kind].push_back({to_id<sample_id>(sample), first, lengths[kind].back()});
        first += lengths[kind].back();
      }
    }
    std::array const where{ballast::place(lengths[0], owner[0], bags),
                           ballast::place(lengths[1], owner[1], bags)};
    std::array const kinds{placement::parts_of_kind{where[0], parts[0]},
                           placement::parts_of_kind{where[1], parts[1]}};
    place(wholes, memory, samples, kinds);
    std::size_t const before = ballast_test::allocations();
    place(wholes, memory, samples, kinds);
    EXPECT_EQ(ballast_test::allocations(), before);

    ASSERT_EQ(wholes.size(), samples);
    std::array<tokens, 3> rows{};
    for (std::size_t sample = 0; sample < samples; ++sample) {
      std::vector<std::size_t> expected;
      for (std::size_t kind = 0; kind < 2; ++kind) {
        for (std::size_t each = 0; each < parts[kind].size(); ++each) {
          auto const& part = parts[kind][each];
          if (to_index(part.sample) != sample) { continue; }
          auto const own = ballast_test::ranks_of_tokens(where[kind], to_id<sample_id>(each));
          auto const end = static_cast<std::size_t>(part.first + part.count);
          expected.resize(std::max(expected.size(), end));
          std::ranges::copy(own, expected.begin() + part.first);
        }
      }
      EXPECT_EQ(ballast_test::ranks_of_tokens(wholes, to_id<sample_id>(sample)), expected);
      for (std::size_t const rank : expected) { ++rows.at(rank); }
    }
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(wholes.rows(to_id<ballast::rank_id>(rank)), rows.at(rank));
    }
  }
}

TEST(PlaceWholesDeathTest, RefusesSamplesOfNoParts)
{
  ballast::workspace memory;
  ballast::placement wholes;
  EXPECT_DEATH(place(wholes, memory, 1, {}), "samples of no parts");
}

TEST(JoinRanks, KeepsEveryTokenAndEveryRow)
{
  ballast::random_source random(17);
  placement joined;
  for (int trial = 0; trial < 50; ++trial) {
    auto const each = static_cast<std::size_t>(random.between(1, 4));
    std::size_t const ranks = each * static_cast<std::size_t>(random.between(1, 3));
    std::vector<tokens> lengths(static_cast<std::size_t>(random.between(0, 12)));
    std::vector<rank_id> owner;
    for (tokens& length : lengths) {
      length = random.between(0, 5);
      owner.push_back(to_id<rank_id>(random.below(ranks)));
    }
    auto const apart = ballast::place(lengths, owner, ranks);
    join_ranks_into(joined, apart, each);
    ASSERT_EQ(joined.size(), lengths.size());
    ASSERT_EQ(joined.ranks(), ranks / each);
    for (std::size_t process = 0; process < joined.ranks(); ++process) {
      tokens rows = 0;
      for (std::size_t rank = process * each; rank < (process + 1) * each; ++rank) {
        rows += apart.rows(to_id<rank_id>(rank));
      }
      EXPECT_EQ(joined.rows(to_id<rank_id>(process)), rows);
    }
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      auto const id = to_id<sample_id>(sample);
      ASSERT_EQ(joined[id].size(), apart[id].size());
      for (std::size_t at = 0; at < apart[id].size(); ++at) {
        piece expected = apart[id][at];
        std::size_t const process = to_index(expected.rank) / each;
        for (std::size_t before = process * each; before < to_index(expected.rank); ++before) {
          expected.row += apart.rows(to_id<rank_id>(before));
        }
        expected.rank = to_id<rank_id>(process);
        EXPECT_EQ(joined[id][at], expected);
      }
    }
    if (each == 1) { EXPECT_EQ(joined, apart); }
  }
}

TEST(JoinRanksDeathTest, RefusesRanksThatAreNoWholeProcesses)
{
  auto where = ballast::place(std::vector<tokens>{2}, std::vector<rank_id>{rank_id{1}}, 3);
  placement joined;
  EXPECT_DEATH(join_ranks_into(joined, where, 2), "over 3 ranks cannot be one over processes of 2");
  EXPECT_DEATH(join_ranks_into(joined, where, 0), "of 0");
  EXPECT_DEATH(join_ranks_into(where, where, 1), "in place");
}

}  // namespace
