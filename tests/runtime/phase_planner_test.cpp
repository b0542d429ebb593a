// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/phase_planner.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/orchestrated_steps.hpp"
#include "../support/test.hpp"
#include "../support/token_ranks.hpp"

#include <ballast/comm/gather_samples.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/topology.hpp>

namespace {

using ballast::bag_id;
using ballast::error_code;
using ballast::gathered_samples;
using ballast::longest_processing_time;
using ballast::multimodal_samples;
using ballast::orchestrated_step;
using ballast::phase;
using ballast::quadratic_cost;
using ballast::rank_id;
using ballast::sample_id;
using ballast::sample_part;
using ballast::tokens;
using subsequence = ballast::multimodal_samples::subsequence;
using testing::ElementsAre;
using testing::HasSubstr;

gathered_samples<subsequence> gather(ballast_test::read_step const& read)
{
  gathered_samples<subsequence> all;
  for (std::size_t rank = 0; rank < read.size(); ++rank) {
    auto const own = ballast_test::samples_of(read[rank]);
    for (subsequence const each : own.entries()) {
      all.samples.push_back(each);
      all.source.push_back(ballast::to_id<rank_id>(rank));
    }
  }
  return all;
}

struct PhasePlanner : testing::Test {
  orchestrated_step step;
  ballast::workspace memory;
};

constexpr quadratic_cost lines{.linear = 3, .quadratic = 1};

TEST_F(PhasePlanner, PlansEveryPhaseAsPartitionDoes)  // Ensures (2) (3)
{
  constexpr std::size_t ranks = 6;
  phase const vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 4};
  phase const audio{ballast::one_gpu_bags(ranks), lines, ballast::padded_batches{}, 2};
  phase const llm{ballast_test::mixed_bags(ranks), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, audio}, llm);
  ballast::random_source random(5);
  for (int trial = 0; trial < 100; ++trial) {
    auto const all = gather(ballast_test::draw_step(random, ranks, 2));
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{2}));
    std::size_t const before = ballast_test::allocations();
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{2}));
    EXPECT_EQ(ballast_test::allocations(), before);
    auto const planned = [](auto const& own, auto const& lengths) {
      return ballast::partition(lengths, own.bags, own.cost_of, {}, own.policy).value().digest();
    };
    EXPECT_EQ(step.modalities[0].planned.digest(), planned(vision, step.modalities[0].lengths));
    EXPECT_EQ(step.modalities[1].planned.digest(), planned(audio, step.modalities[1].lengths));
    EXPECT_EQ(step.planned.digest(), planned(llm, step.lengths));
  }
}

TEST_F(PhasePlanner, SortsByModalityAndLaysOutSequences)
{
  phase const vision{ballast::one_gpu_bags(3), lines, longest_processing_time{}, 4};
  phase const rest{ballast::one_gpu_bags(3), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision, rest}, rest);
  auto const all = gather({{{{2, 3}, {0, 9}, {2, 2}}, {}}, {}, {{{0, 0}, {1, 5}, {0, 4}}}});
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(planner(step, memory, all, 3, rank_id{0}));
    ASSERT_EQ(step.modalities.size(), 3U);
    EXPECT_THAT(step.lengths, ElementsAre(8, 0, 6));
    EXPECT_THAT(step.source, ElementsAre(rank_id{0}, rank_id{0}, rank_id{2}));
    EXPECT_THAT(step.modalities[0].lengths, ElementsAre(9, 0, 4));
    EXPECT_THAT(step.modalities[0].source, ElementsAre(rank_id{0}, rank_id{2}, rank_id{2}));
    EXPECT_THAT(step.modalities[0].parts,
                ElementsAre(sample_part{sample_id{0}, 3, 3}, sample_part{sample_id{2}, 0, 0},
                            sample_part{sample_id{2}, 5, 1}));
    EXPECT_THAT(step.modalities[1].parts, ElementsAre(sample_part{sample_id{2}, 0, 5}));
    EXPECT_THAT(step.modalities[2].lengths, ElementsAre(3, 2));
    EXPECT_THAT(step.modalities[2].parts,
                ElementsAre(sample_part{sample_id{0}, 0, 3}, sample_part{sample_id{0}, 6, 2}));
  }
  ASSERT_TRUE(planner(step, memory, {}, 3, rank_id{0}));
  EXPECT_TRUE(step.lengths.empty());
}

TEST_F(PhasePlanner, SaysWhichSampleIsImpossible)
{
  phase const each{ballast::one_gpu_bags(4), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{each, each}, each);
  auto const refusal = [&](subsequence last) {
    auto const all = gather(
        {{{{0, 1}}}, {}, {}, {{{2, ballast::longest_sample}, {last.modality, last.length}}}});
    return planner(step, memory, all, 4, rank_id{0}).error();
  };
  for (auto const& why : {refusal({0, -1}), refusal({0, ballast::longest_sample + 1}),
                          refusal({3, 5}), refusal({1, 1})}) {
    EXPECT_EQ(why.code, error_code::out_of_range);
    EXPECT_EQ(why.position, 1U);
    EXPECT_THAT(why.message, testing::StartsWith("sample 1, which rank 3 has read, has "));
  }
  EXPECT_EQ(refusal({3, 5}).message,
            "sample 1, which rank 3 has read, has a subsequence of modality 3, and the model "
            "has 2 encoders; number modalities as the encoders, and text after them");
}

TEST_F(PhasePlanner, PlansTheSameOnEveryRankAndRoutesThatFit)  // Ensures (1)
{
  constexpr std::size_t ranks = 5;
  phase const vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 3};
  phase const llm{ballast_test::mixed_bags(ranks), lines, longest_processing_time{}};
  ballast::phase_planner const planner(std::tuple{vision}, llm);
  ballast::random_source random(6);
  for (int trial = 0; trial < 50; ++trial) {
    auto const all = gather(ballast_test::draw_step(random, ranks, 1));
    std::vector<orchestrated_step> steps(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(planner(steps[rank], memory, all, ranks, ballast::to_id<rank_id>(rank)));
      EXPECT_EQ(steps[rank].digest(), steps[0].digest());
      for (std::size_t m = 0; m < 2; ++m) {
        auto const& own = steps[rank].modalities[m];
        EXPECT_EQ(own.as_encoded, steps[0].modalities[m].as_encoded);
        EXPECT_EQ(own.as_needed, steps[0].modalities[m].as_needed);
        for (std::size_t peer = 0; peer < rank; ++peer) {
          auto const& other = steps[peer].modalities[m];
          EXPECT_EQ(own.to_model.sent.rows()[peer], other.to_model.received.rows()[rank]);
          EXPECT_EQ(own.to_model.received.rows()[peer], other.to_model.sent.rows()[rank]);
        }
        EXPECT_EQ(own.to_model.rows_after, steps[rank].as_computed.rows(own.to_model.rank));
      }
    }
  }
}

TEST_F(PhasePlanner, KeepsToCapsAndHomes)
{
  phase vision{ballast::one_gpu_bags(2), lines, longest_processing_time{}};
  vision.limits.most_per_gpu = 10;
  phase llm{ballast::one_gpu_bags(2), lines, ballast::refine{}};
  llm.homes = true;
  llm.limits.then = ballast::fewest_moves;
  llm.limits.within_per_million = 5'000;
  ballast::phase_planner const planner(std::tuple{vision}, llm);
  ASSERT_TRUE(planner(step, memory, gather({{{{0, 6}}, {{0, 6}}}, {}}), 2, rank_id{0}));
  EXPECT_EQ(step.modalities[0].planned.samples[ballast::bag_id{0}].size(), 1U);
  EXPECT_EQ(step.planned.moved, (ballast::ratio{6, 12}));
  auto const refused = planner(step, memory, gather({{{{0, 6}, {0, 6}, {0, 6}}}, {}}), 2, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, error_code::infeasible);
  EXPECT_THAT(refused.error().message, testing::StartsWith("phase 0: "));
}

TEST_F(PhasePlanner, RefusesBagsThatItCannotUse)
{
  auto const one = ballast::one_gpu_bags(2);
  std::vector<ballast::bag> const pair{{rank_id{0}, 2}};
  ballast::bag_layout const two(pair);
  auto const plan = [&](ballast::bag_layout const& of_encoder, ballast::bag_layout const& of_llm,
                        std::uint32_t rate) {
    phase const encoder{of_encoder, lines, longest_processing_time{}, rate};
    phase const llm{of_llm, lines, longest_processing_time{}};
    return ballast::phase_planner(std::tuple{encoder}, llm)(step, memory, gather({{{{0, 8}}}, {}}),
                                                            2, {});
  };
  EXPECT_TRUE(plan(two, two, 1));
  EXPECT_TRUE(plan(one, two, 2));
  auto const straddles = plan(two, one, 2);
  ASSERT_FALSE(straddles);
  EXPECT_EQ(straddles.error().code, error_code::out_of_range);
  EXPECT_EQ(straddles.error().position, 0U);
  EXPECT_THAT(straddles.error().message, HasSubstr("phase 0 makes one token of 2"));
  auto const other_job = plan(one, ballast::one_gpu_bags(3), 1);
  ASSERT_FALSE(other_job);
  EXPECT_EQ(other_job.error().position, 1U);
  EXPECT_EQ(other_job.error().message,
            "the bags of phase 1 have 3 GPUs and the job has 2 ranks; lay the bags out over one "
            "GPU for each rank, or say which ranks they are");
}

// ---- Hybrid phases, passes, groups, nodes --------------------------------------------------------

ballast::hybrid_phase split_phase(std::size_t ranks, std::uint64_t linear = 3)
{
  ballast::sharding_cost cost{
      .work = {.linear = linear, .quadratic = 1}, .heads = 8, .kv_heads = 2, .latency = 40};
  return {ballast::device_groups(ballast::node_sizes::equal(1, ranks), 8), cost};
}

/// Samples of a text, and some of an image, in groups of several ranks or alone.
gathered_samples<subsequence> grouped_texts(ballast::random_source& random, std::size_t ranks)
{
  gathered_samples<subsequence> all;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::uint64_t left = random.below(4); left > 0; --left) {
      auto const group = static_cast<std::int64_t>(random.below(5)) - 1;
      all.samples.push_back({ballast::multimodal_samples::begins_sample, group});
      all.samples.push_back({1, random.between(1, random.below(5) == 0 ? 400 : 20)});
      if (random.below(2) == 0) { all.samples.push_back({0, random.between(0, 50)}); }
      if (random.below(3) == 0) { all.samples.push_back({1, random.between(0, 9)}); }
    }
    all.source.resize(all.samples.size(), ballast::to_id<rank_id>(rank));
  }
  return all;
}

TEST_F(PhasePlanner, PlansHybridPhasesAsHybridShardingDoes)  // Ensures (2) (3)
{
  constexpr std::size_t ranks = 4;
  auto const encoder = split_phase(ranks);
  auto const llm = split_phase(ranks, 50);
  ballast::phase_planner const planner(std::tuple{encoder}, llm);
  ballast::random_source random(8);
  for (int trial = 0; trial < 3; ++trial) {  // tenths of a second each: the searches are long
    auto const all = grouped_texts(random, ranks);
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{1}));
    auto const& images = step.modalities[0];
    auto const encoded = hybrid_sharding(images.lengths, encoder.groups, encoder.cost).value();
    auto const computed = hybrid_sharding(step.lengths, llm.groups, llm.cost).value();
    EXPECT_EQ(images.sharded.digest(), encoded.digest());
    EXPECT_EQ(step.sharded.digest(), computed.digest());
    EXPECT_EQ(step.as_computed, ballast::place(computed, llm.groups).value());
    EXPECT_EQ(images.as_encoded, ballast::place(encoded, encoder.groups).value());
    EXPECT_EQ(step.packs.rows(), step.as_computed.rows(rank_id{1}));
    EXPECT_TRUE(step.planned.owner.empty());
    std::size_t const before = ballast_test::allocations();
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{1}));
    EXPECT_EQ(ballast_test::allocations(), before);
  }
}

TEST_F(PhasePlanner, RefusesAHybridPhaseThatHasOtherGpus)
{
  auto llm = split_phase(2);
  auto const plan = [&](std::size_t ranks) {
    return ballast::phase_planner(std::tuple{}, llm)(step, memory, gather({{{{0, 8}}}}), ranks, {});
  };
  EXPECT_TRUE(plan(2));
  EXPECT_EQ(
      plan(3).error().message,
      "the groups of phase 0 have 2 GPUs and the job has 3 ranks; lay the groups out over one "
      "GPU for each rank, or say which ranks they are");
  llm.most_per_gpu = 2;
  EXPECT_EQ(plan(2).error().code, error_code::infeasible);
  EXPECT_THAT(plan(2).error().message, testing::StartsWith("phase 0: "));
}

TEST_F(PhasePlanner, PlansEveryPassAtItsOwnCost)  // Ensures (2) (3) (4)
{
  constexpr std::size_t ranks = 4;
  auto const bags = ballast::one_gpu_bags(ranks);
  phase const update{bags, quadratic_cost{.linear = 300, .quadratic = 3},
                     longest_processing_time{}};
  phase const reward{bags, quadratic_cost{.quadratic = 1}, longest_processing_time{}};
  auto const reference = split_phase(ranks);
  ballast::phase_planner const planner(
      std::tuple{}, update,
      std::tuple{ballast::shared_plan{}, reference, reward, ballast::shared_plan{1}});
  ballast::random_source random(9);
  std::vector<orchestrated_step> steps(ranks);
  int moved = 0;
  for (int trial = 0; trial < 3; ++trial) {
    auto all = grouped_texts(random, ranks);
    for (auto& each : all.samples) { each.modality = each.modality < 2 ? 0 : each.modality; }
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      ASSERT_TRUE(planner(steps[rank], memory, all, ranks, ballast::to_id<rank_id>(rank)));
      EXPECT_EQ(steps[rank].digest(), steps[0].digest());
    }
    step = steps[2];
    auto const planned = [&](auto const& own) {
      return ballast::partition(step.lengths, bags, own.cost_of, {}, own.policy).value().digest();
    };
    auto const split = hybrid_sharding(step.lengths, reference.groups, reference.cost).value();
    ASSERT_EQ(step.passes.size(), 4U);
    EXPECT_EQ(step.planned.digest(), planned(update));
    EXPECT_EQ(step.passes[1].sharded.digest(), split.digest());
    EXPECT_EQ(step.passes[2].planned.digest(), planned(reward));
    EXPECT_FALSE(step.passes[0].moves);  // the same plan, the same rows in the same order
    EXPECT_EQ(step.passes[0].as_computed, step.as_computed);
    EXPECT_EQ(step.passes[0].own_lengths, step.own_lengths);
    EXPECT_EQ(step.passes[3].as_computed, step.passes[1].as_computed);
    EXPECT_EQ(step.passes[3].packs.rows(), step.passes[1].packs.rows());
    for (ballast::orchestrated_step::pass_step const& pass : step.passes) {
      EXPECT_EQ(pass.moves, !(pass.as_computed == step.as_computed));
      moved += pass.moves ? 1 : 0;
      auto const sent = pass.from_model.sent.rows();
      ballast::tokens leaving = 0;  // counted token by token
      for (std::size_t sample = 0; sample < step.lengths.size(); ++sample) {
        auto const id = ballast::to_id<sample_id>(sample);
        auto const before = ballast_test::ranks_of_tokens(step.as_computed, id);
        auto const after = ballast_test::ranks_of_tokens(pass.as_computed, id);
        for (std::size_t token = 0; token < before.size(); ++token) {
          leaving += before[token] == 2 && after[token] != 2 ? 1 : 0;
        }
      }
      EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), ballast::tokens{0}), leaving);
    }
  }
  EXPECT_GE(moved, 6);
}

TEST_F(PhasePlanner, RefusesAPassThatSharesALaterPlan)
{
  phase const llm{ballast::one_gpu_bags(1), lines, longest_processing_time{}};
  auto const plan = [&](std::size_t whose) {
    ballast::phase_planner const planner(std::tuple{llm}, llm,
                                         std::tuple{llm, ballast::shared_plan{whose}});
    return planner(step, memory, gather({{{{1, 8}}}}), 1, {});
  };
  EXPECT_TRUE(plan(0));
  EXPECT_EQ(plan(1).error().position, 3U);
  EXPECT_EQ(plan(1).error().message,
            "phase 3 shares the plan of pass 1, which is not before it; list it after that pass");
}

TEST_F(PhasePlanner, KeepsGroupsTogetherWhereAPhaseIsToldTo)
{
  constexpr std::size_t ranks = 3;
  phase plain{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}};
  phase grouped = plain;
  grouped.together = true;
  auto split = split_phase(ranks);
  split.together = true;
  ballast::phase_planner const planner(std::tuple{grouped}, plain, std::tuple{grouped, split});
  ballast::random_source random(10);
  int apart = 0;
  for (int trial = 0; trial < 30; ++trial) {
    auto const all = grouped_texts(random, ranks);
    ASSERT_TRUE(planner(step, memory, all, ranks, rank_id{0}));
    for (std::size_t a = 0; a < step.groups.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (step.groups[a] != step.groups[b]) { continue; }
        EXPECT_GE(step.groups[a], 0);
        auto const of = [&](auto const& plan, std::size_t each) { return plan.owner.at(each); };
        EXPECT_EQ(of(step.passes[0].planned, a), of(step.passes[0].planned, b));
        EXPECT_EQ(of(step.passes[1].sharded, a), of(step.passes[1].sharded, b));
        apart += of(step.planned, a) == of(step.planned, b) ? 0 : 1;
      }
    }
    auto const& images = step.modalities[0];
    for (std::size_t a = 0; a < images.parts.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        auto const group = [&](std::size_t each) {
          return step.groups[ballast::to_index(images.parts[each].sample)];
        };
        if (group(a) == group(b)) {
          EXPECT_EQ(images.planned.owner.at(a), images.planned.owner.at(b));
        }
      }
    }
  }
  EXPECT_GT(apart, 10);
}

TEST_F(PhasePlanner, PlacesByNodeOnTheWayToEveryPhase)  // Ensures (2) (3)
{
  constexpr std::size_t ranks = 6;
  auto const machines = ballast::cluster_of(ranks, 2).value();
  phase vision{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}, 2};
  phase update{ballast::one_gpu_bags(ranks), lines, longest_processing_time{}};
  phase reward{ballast::one_gpu_bags(ranks), quadratic_cost{.linear = 1},
               longest_processing_time{}};
  ballast::phase_planner const without(std::tuple{vision}, update, std::tuple{reward});
  vision.by_node = update.by_node = reward.by_node = machines;
  ballast::phase_planner const with(std::tuple{vision}, update, std::tuple{reward});
  ballast::random_source random(11);
  orchestrated_step near;
  orchestrated_step far;
  ballast::workspace other_memory;
  /// The most tokens that a rank sends to other nodes, of several kinds of tokens, one by one.
  using from_to = std::pair<ballast::placement const*, ballast::placement const*>;
  auto const most = [&](std::vector<from_to> const& kinds) {
    std::vector<tokens> sent(ranks);
    for (auto const& [from, to] : kinds) {
      for (std::size_t item = 0; item < from->size(); ++item) {
        auto const before = ballast_test::ranks_of_tokens(*from, ballast::to_id<sample_id>(item));
        auto const after = ballast_test::ranks_of_tokens(*to, ballast::to_id<sample_id>(item));
        for (std::size_t token = 0; token < before.size(); ++token) {
          sent[before[token]] += before[token] / 2 == after[token] / 2 ? 0 : 1;
        }
      }
    }
    return std::ranges::max(sent);
  };
  tokens saved_to_encoder = 0, saved_to_model = 0, saved_to_pass = 0;
  for (int trial = 0; trial < (ballast_test::is_sanitized ? 5 : 20); ++trial) {
    auto const all = grouped_texts(random, ranks);
    ASSERT_TRUE(without(far, other_memory, all, ranks, rank_id{0}));
    ASSERT_TRUE(with(near, memory, all, ranks, rank_id{0}));
    std::size_t const before = ballast_test::allocations();
    ASSERT_TRUE(with(near, memory, all, ranks, rank_id{0}));
    EXPECT_EQ(ballast_test::allocations(), before);
    EXPECT_EQ(near.planned.makespan, far.planned.makespan);
    EXPECT_EQ(near.modalities[0].planned.makespan, far.modalities[0].planned.makespan);
    EXPECT_EQ(near.passes[0].planned.makespan, far.passes[0].planned.makespan);

    auto const& [images, texts] = std::tie(near.modalities[0], near.modalities[1]);
    tokens const to_encoder = most({{&images.as_read, &images.as_computed}});
    tokens const to_model =
        most({{&images.as_encoded, &images.as_needed}, {&texts.as_encoded, &texts.as_needed}});
    tokens const to_pass = most({{&near.as_computed, &near.passes[0].as_computed}});
    EXPECT_EQ(images.by_node.largest, to_encoder);
    EXPECT_EQ(near.by_node.largest, to_model);
    EXPECT_EQ(near.passes[0].by_node.largest, to_pass);
    EXPECT_EQ(images.by_node.largest_before,
              most({{&far.modalities[0].as_read, &far.modalities[0].as_computed}}));
    saved_to_encoder += images.by_node.largest_before - to_encoder;
    saved_to_model += near.by_node.largest_before - to_model;
    saved_to_pass += near.passes[0].by_node.largest_before - to_pass;
  }
  EXPECT_GT(saved_to_encoder, 0);
  EXPECT_GT(saved_to_model, 0);
  EXPECT_GT(saved_to_pass, 0);
  update.by_node = ballast::cluster_of(4).value();
  EXPECT_THAT(
      ballast::phase_planner(std::tuple{}, update)(near, memory, {}, ranks, {}).error().message,
      HasSubstr("the machines of phase 0 have 4 GPUs"));
}

TEST_F(PhasePlanner, PhasesMayHaveRanksOfTheirOwn)  // Ensures (2)
{
  constexpr std::size_t ranks = 6;
  phase vision{ballast::one_gpu_bags(2), lines, longest_processing_time{}, 3};
  vision.ranks = {rank_id{1}, rank_id{4}};
  auto llm = split_phase(3);
  llm.ranks = {rank_id{0}, rank_id{3}, rank_id{4}};
  ballast::phase_planner const planner(std::tuple{vision}, llm);
  ballast::random_source random(8);
  auto const expect_renamed = [&](ballast::placement const& where, ballast::placement const& own,
                                  std::vector<rank_id> const& of_gpu) {
    ASSERT_EQ(where.pieces().size(), own.pieces().size());
    for (std::size_t at = 0; at < own.pieces().size(); ++at) {
      ballast::piece expected = own.pieces()[at];
      expected.rank = of_gpu[to_index(expected.rank)];
      EXPECT_EQ(where.pieces()[at], expected);
    }
    std::vector<tokens> rows(ranks), expected(ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      rows[rank] = where.rows(ballast::to_id<rank_id>(rank));
    }
    for (std::size_t gpu = 0; gpu < of_gpu.size(); ++gpu) {
      expected[to_index(of_gpu[gpu])] = own.rows(ballast::to_id<rank_id>(gpu));
    }
    EXPECT_EQ(rows, expected);
  };
  for (int trial = 0; trial < 20; ++trial) {
    auto const all = grouped_texts(random, ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const id = ballast::to_id<rank_id>(rank);
      ASSERT_TRUE(planner(step, memory, all, ranks, id));
      auto const& images = step.modalities[0];
      expect_renamed(images.as_computed, ballast::place(images.planned, vision.bags).value(),
                     vision.ranks);
      expect_renamed(step.as_computed, ballast::place(step.sharded, llm.groups).value(), llm.ranks);
      EXPECT_EQ(step.packs.rows(), step.as_computed.rows(id));
      EXPECT_EQ(images.as_encoded.rows(rank_id{0}) + images.as_encoded.rows(rank_id{3}), 0);
      EXPECT_EQ(std::reduce(images.own_lengths.begin(), images.own_lengths.end()),
                images.as_computed.rows(id));
    }
  }
  auto const refusal = [&](auto const& encoder) {
    auto const done =
        ballast::phase_planner(std::tuple{encoder}, llm)(step, memory, {}, ranks, rank_id{0});
    return done.error().message;
  };
  vision.homes = true;
  EXPECT_THAT(refusal(vision), HasSubstr("phase 0 has ranks of its own and is to stay near"));
  vision.ranks = {rank_id{1}, rank_id{6}};
  EXPECT_EQ(refusal(vision),
            "the bags of phase 0 have 2 GPUs on 2 ranks up to 6 of 6; give each GPU a rank of the "
            "job, in increasing order");
}

TEST(PhasePlannerDeathTest, RefusesRatesThatMakeNothing)
{
  auto const of_rate = [](std::uint32_t rate) {
    return phase{ballast::one_gpu_bags(1), lines, longest_processing_time{}, rate};
  };
  EXPECT_DEATH(ballast::phase_planner(std::tuple{of_rate(0)}, of_rate(1)), "a rate of 0");
  EXPECT_DEATH(ballast::phase_planner(std::tuple{of_rate(1)}, of_rate(2)),
               "the language model has a rate of 2");
}

orchestrated_step small_step()
{
  orchestrated_step step;
  step.lengths = {5};
  step.planned.owner = {bag_id{0}};
  step.modalities.resize(2);
  step.modalities[0].lengths = {8};
  step.modalities[0].parts = {{sample_id{0}, 1, 4}};
  step.modalities[0].planned.owner = {bag_id{1}};
  return step;
}

TEST(OrchestratedStep, HasADigestThatDiffersWhereRanksWouldMoveOtherRows)
{
  std::uint64_t const same = small_step().digest();
  EXPECT_EQ(small_step().digest(), same);
  auto const differs = [same](auto const& change) {
    orchestrated_step step = small_step();
    change(step);
    return step.digest() != same;
  };
  EXPECT_TRUE(differs([](auto& step) { step.planned.owner[0] = bag_id{1}; }));
  EXPECT_TRUE(differs([](auto& step) { step.lengths[0] = 6; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].planned.owner[0] = bag_id{0}; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].lengths[0] = 7; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].parts[0].first = 0; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities[0].parts[0].count = 3; }));
  EXPECT_TRUE(differs([](auto& step) { step.modalities.resize(3); }));
}

constexpr std::uint32_t begins = multimodal_samples::begins_sample;

TEST(MultimodalSamples, ListSubsequencesInTheirOrderSampleBySample)
{
  multimodal_samples read;
  EXPECT_THAT(read.entries(), testing::IsEmpty());
  read.start_sample();
  read.add(1, 30);
  read.add(0, 0);
  read.start_sample();
  read.start_sample(4);
  read.add(2, 7);
  EXPECT_EQ(read.size(), 3U);
  EXPECT_THAT(read.entries(),
              ElementsAre(subsequence{begins, multimodal_samples::alone}, subsequence{1, 30},
                          subsequence{0, 0}, subsequence{begins, multimodal_samples::alone},
                          subsequence{begins, 4}, subsequence{2, 7}));
}

TEST(MultimodalSamples, KeepTheirMemory)  // Ensures
{
  multimodal_samples read;
  std::size_t before = 0;
  for (int step = 0; step < 3; ++step) {
    if (step == 1) { before = ballast_test::allocations(); }
    read.clear();
    EXPECT_EQ(read.size(), 0U);
    for (int sample = 0; sample < 9; ++sample) {
      read.start_sample();
      read.add(0, sample);
    }
  }
  EXPECT_EQ(ballast_test::allocations(), before);
}

TEST(MultimodalSamplesDeathTest, RefuseASubsequenceOfNoSample)
{
  multimodal_samples read;
  EXPECT_DEATH(read.add(0, 1), "before a sample was started");
  read.start_sample();
  EXPECT_DEATH(read.add(begins, 1), "is reserved");
  EXPECT_DEATH(read.start_sample(-2), "a sample is of group -2");
}

}  // namespace
