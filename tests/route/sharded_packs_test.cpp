// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/sharded_packs.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "sharded_steps.hpp"  // defines: ballast_test::{sharded_case, random_sharded_step}

#include <ballast/route/placement.hpp>
#include <ballast/sharding/plan_slots.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace {

using ballast::group_id;
using ballast::rank_id;
using ballast::sharded_packs;
using ballast::to_id;
using ballast::tokens;

/// The packs of all ranks.
std::vector<sharded_packs> packs_of_all(ballast_test::sharded_case const& step)
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
TEST(ShardedPacks, OfASlotAreTheRanksOfOneGroup)  // so are placements of it
{
  for (std::uint64_t trial = 0; trial < 60; ++trial) {
    SCOPED_TRACE(testing::Message() << "trial " << trial);
    ballast::random_source random(trial);
    std::vector<tokens> lengths(1 + random.below(30));
    for (tokens& each : lengths) { each = static_cast<tokens>(random.below(100)); }
    auto const nodes = ballast::node_sizes::equal(1 + random.below(3), 4);
    ballast::sharding_cost const cost{.work = {50, 1, 0}, .heads = 8};
    auto const plan = ballast::plan_slots(lengths, nodes, cost,
                                          {.most_per_gpu = 60 + static_cast<tokens>(trial % 5)})
                          .value();
    std::vector<rank_id> source;
    for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
      source.push_back(to_id<rank_id>(random.below(nodes.gpus())));
    }
    auto const as_read = ballast::place(lengths, source, nodes.gpus());
    ballast::placement from;
    ballast::placement to;
    sharded_packs packs;
    std::vector<tokens> seen(lengths.size());
    for (std::size_t slot = 0; slot < plan.slots; ++slot) {
      place(to, plan, slot);
      place(from, plan, slot, as_read);
      for (std::size_t sample = 0; sample < lengths.size(); ++sample) {
        ballast::sample_id const id(sample);
        auto const& group = plan.groups[to_index(plan.owner[id])];
        ASSERT_EQ(to.length(id), group.slot == slot ? lengths[sample] : 0);
        ASSERT_EQ(from.length(id), to.length(id));
        seen[sample] += to.length(id);
        for (ballast::piece const& each : to[id]) {
          auto const gpu = to_index(each.rank) - to_index(group.ranks.first);
          ASSERT_LT(gpu, group.ranks.gpus);
          ASSERT_EQ(each.first, ballast::chunk_of(lengths[sample], group.ranks.gpus,
                                                  static_cast<std::uint32_t>(gpu))
                                    .first);
        }
        for (ballast::piece const& each : from[id]) { ASSERT_EQ(each, as_read[id].front()); }
      }
      for (std::size_t rank = 0; rank < nodes.gpus(); ++rank) {
        auto const id = to_id<rank_id>(rank);
        packs.assign(plan, slot, id, 8);
        ASSERT_EQ(packs.rows(), to.rows(id));
        ASSERT_EQ(packs.ranks(), nodes.gpus());
        ASSERT_LE(packs.size(), 1U);
        ASSERT_EQ(from.rows(id), as_read.rows(id));
        if (packs.size() == 0) { continue; }
        ASSERT_EQ(packs[0].id, plan.group_of(id, slot));
        ASSERT_EQ(to_index(packs[0].group.first) + packs[0].gpu, rank);
        auto const cu_seqlens = plan.cu_seqlens[packs[0].id];
        auto const own = packs[0].plan.lengths();
        ASSERT_EQ(own.size() + 1, cu_seqlens.size());
        for (std::size_t at = 0; at < own.size(); ++at) {
          ASSERT_EQ(own[at], cu_seqlens[at + 1] - cu_seqlens[at]);
        }
      }
    }
    ASSERT_EQ(seen, lengths);
  }
}

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
