// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/sharded_packs.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "sharded_steps.hpp"  // defines: ballast_test::{sharded_case, random_sharded_step}

#include <ballast/route/placement.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace {

using ballast::group_id;
using ballast::rank_id;
using ballast::sharded_packs;
using ballast::to_id;
using ballast::tokens;
using ballast_test::sharded_case;

/// The packs of all ranks.
std::vector<sharded_packs> packs_of_all(sharded_case const& step)
{
  std::vector<sharded_packs> all;
  for (std::size_t rank = 0; rank < step.all.gpus(); ++rank) {
    all.push_back(step.packs_of(to_id<rank_id>(rank)));
  }
  return all;
}

TEST(ShardedPacks, AreOneForEachGroupWithTokens)  // Ensures (1)
{
  ballast::random_source random(41);
  for (int trial = 0; trial < 300; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_sharded_step(random, 1 + random.below(13));
    auto const all = packs_of_all(step);
    std::vector<std::size_t> seen(step.all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      auto const& packs = all[rank];
      EXPECT_EQ(packs.rank(), to_id<rank_id>(rank));
      EXPECT_EQ(packs.ranks(), all.size());
      for (std::size_t pack = 0; pack < packs.size(); ++pack) {
        sharded_packs::group_pack const& one = packs[pack];
        if (pack > 0) { EXPECT_LT(one.group.gpus, packs[pack - 1].group.gpus); }
        EXPECT_EQ(one.group, step.all[one.id]);
        EXPECT_EQ(to_index(one.group.first) + one.gpu, rank);
        EXPECT_EQ(one.is_shared(), one.group.gpus > 1);
        EXPECT_EQ(pack < packs.shared(), one.is_shared());
        EXPECT_EQ(one.plan, all[to_index(one.group.first)][pack].plan) << "also Ensures (3)";
        ++seen[to_index(one.id)];
      }
    }
    for (std::size_t group = 0; group < step.all.size(); ++group) {
      tokens held = 0;
      for (auto const sample : step.plan.samples[to_id<group_id>(group)]) {
        held += step.plan.lengths[to_index(sample)];
      }
      EXPECT_EQ(seen[group], held > 0 ? step.all[to_id<group_id>(group)].gpus : 0);
    }
  }
}

// Row by row: the plan's chunks lie where the placement has them.
TEST(ShardedPacks, LieAsThePlacementHasThem)  // Ensures (2)
{
  ballast::random_source random(42);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_sharded_step(random, 1 + random.below(13));
    for (sharded_packs const& packs : packs_of_all(step)) {
      ASSERT_EQ(packs.rows(), step.where.rows(packs.rank()));
      for (std::size_t pack = 0; pack < packs.size(); ++pack) {
        std::vector<tokens> rows;
        for (auto const sample : step.plan.samples[packs[pack].id]) {
          for (ballast::piece const& each : step.where[sample]) {
            if (each.rank == packs.rank()) { rows.insert(rows.end(), {each.row, each.count}); }
          }
        }
        std::vector<tokens> planned;
        packs[pack].plan.for_each_chunk(
            packs[pack].gpu, [&](ballast::ulysses_plan::bag_chunk const& chunk) {
              planned.insert(planned.end(), {packs[pack].row + chunk.own_row, chunk.count});
            });
        EXPECT_EQ(planned, rows);
      }
    }
  }
}

// Where each pack's part of an array begins, counted element by element.
TEST(ShardedPacks, DivideArrays)
{
  ballast::random_source random(43);
  for (int trial = 0; trial < 200; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    auto const step = ballast_test::random_sharded_step(random, 8);
    for (sharded_packs const& packs : packs_of_all(step)) {
      for (std::uint32_t const heads : {step.query_heads, step.kv_heads}) {
        std::size_t const dim = 3;
        std::vector<int> between(static_cast<std::size_t>(packs.rows()) * heads * dim);
        std::vector<int> whole(packs.heads_of_sequences(heads) * dim);
        std::iota(between.begin(), between.end(), 0);
        std::iota(whole.begin(), whole.end(), 1'000'000);
        int next = 0;
        int next_whole = 1'000'000;
        for (std::size_t pack = 0; pack < packs.size(); ++pack) {
          auto const& [id, group, gpu, row, plan] = packs[pack];
          auto const part =
              packs.between_attentions(pack, std::span<int const>(between), heads, dim);
          auto const for_attention =
              packs.for_attention(pack, std::span(between), std::span(whole), heads, dim);
          ASSERT_EQ(part.size(), static_cast<std::size_t>(packs[pack].rows()) * heads * dim);
          ASSERT_EQ(for_attention.size(), plan.heads_of_sequences(gpu, heads) * dim);
          if (!part.empty()) { EXPECT_EQ(part.front(), next); }
          if (!for_attention.empty()) {
            EXPECT_EQ(for_attention.front(), group.gpus > 1 ? next_whole : next);
          }
          next += static_cast<int>(part.size());
          if (group.gpus > 1) { next_whole += static_cast<int>(for_attention.size()); }
        }
        EXPECT_EQ(static_cast<std::size_t>(next), between.size());
        EXPECT_EQ(static_cast<std::size_t>(next_whole) - 1'000'000, whole.size());
      }
    }
  }
}

TEST(ShardedPacks, AllocateNothingInTheSteadyState)
{
  ballast::random_source random(44);
  auto const step = ballast_test::random_sharded_step(random, 8);
  sharded_packs packs;
  std::size_t before = 0;
  for (int round = 0; round < 3; ++round) {
    if (round == 1) { before = ballast_test::allocations(); }
    for (std::size_t rank = 0; rank < 8; ++rank) {
      packs.assign(step.plan, step.all, to_id<rank_id>(rank), step.query_heads,
                   step.whole_groups_of);
    }
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(ShardedPacksDeathTest, RejectWhatIsNotThere)
{
  ballast::device_groups const all(ballast::node_sizes::equal(1, 4), 4);
  ballast::sharding_plan plan;
  plan.samples.collect({}, all.size() - 1);
  sharded_packs packs;
  EXPECT_DEATH(packs.assign(plan, all, rank_id{0}, 8), "sequences of 6 groups");
  EXPECT_DEATH((void)packs[0], "pack 0 of 0");
}

}  // namespace
