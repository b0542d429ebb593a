// SPDX-License-Identifier: Apache-2.0
// FlexRL (its section 4 without 4.4): reinforcement learning in phases that are all planned from
// the lengths of the rollouts. Each sequence of update, reference and value model is split to a
// degree of its own, long ones over many GPUs, short ones over none, and a GPU works in several
// groups one after the other. Eight ranks train small models. Assumed: costs by formulas, one token
// in 16 or 128 computed. Not shown: GPUs, generation of rollouts, data loaders.

#include "common/gradient_sum.hpp"      // defines: block::sum_over_ranks
#include "common/rl_models.hpp"         // defines: rl_models::all_models
#include "common/rollouts.hpp"          // defines: rollouts::{read, draw, rollout}
#include "common/sharded_steps.hpp"     // defines: sharded_steps::{weights_of, trained}
#include "common/sharded_timeline.hpp"  // defines: timelines::{sharded_moment, overlap_of}

#include <ballast/comm.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/sharding.hpp>
#include <ballast/topology.hpp>
#ifdef FLEXRL_WITH_MPI
#include "common/on_processes.hpp"
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace {

using namespace ballast;
using rl_models::width;
using rollouts::rollout;

constexpr std::size_t ranks = 8;
constexpr std::size_t steps = 2;
enum pass : std::size_t { old_policy, reference, reward, value };

// FLOP of a block on cores of 1 GFLOP/s that copy 4 GB/s: forward alone (1), or backward too (3).
constexpr sharding_cost cost_of(block::shape const& shape, std::uint64_t passes)
{
  auto work = "transformer:d=16,gamma=1"_cost;
  work.linear *= passes;
  work.quadratic *= passes;
  return {.work = work,
          .heads = shape.query_heads,
          .kv_heads = shape.kv_heads,
          .bytes_per_head = (passes > 1 ? 2 : 1) * shape.head_dim * sizeof(double),
          .within_node_bytes_per_second = 4'000'000'000,
          .between_nodes_bytes_per_second = 4'000'000'000,
          .units_per_second = 1'000'000'000,
          .whole_groups = true};
}
constexpr sharding_cost trained = cost_of(rl_models::policy_shape, 3);
constexpr sharding_cost forward_only = cost_of(rl_models::policy_shape, 1);
constexpr sharding_cost value_trained = cost_of(rl_models::value_shape, 3);

// What a training finds: the same on every rank but for what the rank itself sends and records.
struct outcome {
  block::values losses;     // of policy and value model, step by step
  block::values gradients;  // step by step
  // Ratios that were not 1, bytes of attention, of rows; exchanges of rows, and those that a rank
  // waited for.
  block::values sums{0, 0, 0, 0, 0};
  std::vector<sharding_plan> plans;                  // of the update
  std::vector<std::vector<std::int64_t>> questions;  // of the samples of these
  double vision = 1;                                 // busiest by mean rank, the worst step's
  std::vector<timelines::sharded_moment> moments;
};

// The largest by the mean.
double ratio_of(std::vector<double> const& of_gpus)
{
  double const sum = std::reduce(of_gpus.begin(), of_gpus.end());
  return sum > 0 ? std::ranges::max(of_gpus) * static_cast<double>(of_gpus.size()) / sum : 1;
}

// Bytes that a rank sends for attention of some packs, forward.
double bytes_of(sharded_packs const& packs, block::shape const& shape)
{
  head_shape const queries{shape.query_heads, shape.head_dim * sizeof(double)};
  head_shape const keys{shape.kv_heads, queries.head_bytes};
  std::uint64_t sent = 0;
  for (std::size_t pack = 0; pack < packs.shared(); ++pack) {
    ulysses_plan const& plan = packs[pack].plan;
    std::uint32_t const gpu = packs[pack].gpu;
    sent += plan.to_heads_volume(gpu, std::array{queries, keys, keys}).bytes_sent +
            plan.to_heads_volume(gpu, std::array{queries}).bytes_received;  // of the output, back
  }
  return static_cast<double>(sent);
}

// Notes how even a step is, and what this rank sends in it.
void account(outcome& all, orchestrated_step const& step)
{
  all.plans.push_back(step.sharded);
  all.questions.push_back(step.groups);
  auto const& loads = step.modalities[0].planned.loads;
  all.vision = std::max(all.vision, ratio_of({loads.begin(), loads.end()}));
  all.sums[1] += 3 * bytes_of(step.packs, rl_models::policy_shape) +  // old, and there and back
                 bytes_of(step.passes[reference].packs, rl_models::policy_shape) +
                 2 * bytes_of(step.passes[value].packs, rl_models::value_shape);
  tokens moved = 0;
  auto const add = [&moved](route_plan const& plan) {
    auto const sent = plan.sent.rows();
    moved += std::reduce(sent.begin(), sent.end());
  };
  for (auto const& each : step.modalities) { add(each.to_encoder), add(each.to_model); }
  for (auto const& each : step.passes) { add(each.from_model); }
  all.sums[2] += static_cast<double>(moved) * width * sizeof(double);
}

// Frames are encoded while texts travel; both form the sequences, where the update is. Returns these,
// and what was encoded.
template <class C, class Step>
std::array<block::values, 2> sequences_of(C& comm, Step& step, ahead_carrier<C>& rows,
                                          rl_models::all_models<C>& models)
{
  auto const pixels = block::pixels(step.step().modalities[0].as_read, comm.rank(), width);
  auto const words = block::pixels(step.step().modalities[1].as_read, comm.rank(), width);
  block::values pixels_there(step.rows_computed(0) * width), x(step.rows_in_model() * width);
  or_throw(step.to_encoder(0, rows_of(pixels, pixels_there, width)));
  or_throw(step.to_model(1, rows_of(words, x, width)));
  or_throw(rows.wait(1));  // frames have come, texts may still travel
  auto encoded = models.vision.forward(step.lengths(0), pixels_there);
  or_throw(step.to_model(0, rows_of(encoded, x, width)));
  or_throw(rows.wait());
  return {std::move(x), std::move(encoded)};
}

// [flexrl]
// One rank's part of a training of some steps; read(step) says what it has read.
template <point_to_point C, class Read>
outcome train(C& comm, device_groups const& groups, Read const& read)
{
  auto const bags = one_gpu_bags(comm.size());
  phase judging{bags, forward_only.work, refine{}};
  judging.together = true;  // the answers to a question are compared on one GPU ...
  hybrid_phase const update{.groups = groups, .cost = trained, .together = true};  // ... and split
  ahead_carrier rows(comm);  // rows of the next phase travel while the present one computes
  orchestrator step(comm, rows,
                    std::tuple{phase{bags, forward_only.work, refine{}, 4}},  // vision tower
                    update,  // of the policy, all answers alike; then the passes
                    std::tuple{shared_plan{}, hybrid_phase{groups, forward_only}, judging,
                               hybrid_phase{groups, value_trained}});
  auto alone = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()))).value();
  rl_models::all_models models(comm, alone);
  outcome all;
  or_throw(step.submit(read(0)));
  for (std::size_t number = 0; number < steps; ++number) {
    or_throw(step.next());
    or_throw(step.submit(read(number + 1)));  // gathered and planned while this step runs
    auto const& now = step.step();
    account(all, now);

    auto [x, encoded] = sequences_of(comm, step, rows, models);
    // Forward only: rows go where a pass computes them, and what it says of them comes back.
    std::array<block::values, 4> there;
    for (pass const which : {reference, reward, value}) {
      there[which].resize(step.rows_in_pass(which) * width);
      or_throw(step.to_pass(which, rows_of(x, there[which], width)));
    }
    auto const old_logs = models.logs(models.policy, now.passes[old_policy].packs, x);
    or_throw(rows.wait(2));
    auto const far_there =
        models.logs(models.reference, now.passes[reference].packs, there[reference]);
    block::values far_logs(step.rows_in_model()), judged(2 * step.rows_in_model());
    or_throw(step.from_pass(reference, rows_of(far_there, far_logs)));
    or_throw(rows.wait(2));
    auto const judged_there = models.rewards(now, reward, there[reward]);
    or_throw(step.from_pass(reward, rows_of(judged_there, judged, 2)));
    or_throw(rows.wait());

    // The updates, forward and backward; the gradient of the outputs goes back to the encoder.
    block::values judged_value(2 * step.rows_in_pass(value));
    or_throw(step.to_pass(value, rows_of(judged, judged_value, 2)));
    double const loss = models.update_policy(now.packs, x, old_logs, far_logs, judged);
    or_throw(step.reverse_to_model(0, rows_of(x, encoded, width)));
    or_throw(rows.wait(1));
    double const value_loss =
        models.update_value(now.passes[value].packs, there[value], judged_value);
    or_throw(rows.wait());
    static_cast<void>(models.vision.backward(encoded));  // nobody wants the gradient of pixels
    for (double const each : {loss, value_loss}) { all.losses.push_back(each); }
    for (double const each : models.learn()) { all.gradients.push_back(each); }
  }
  or_throw(rows.begin_step());  // what was sent has gone
  all.moments = models.moments;
  all.sums[0] = models.changed_ratios;
  all.sums[3] = static_cast<double>(rows.begun());
  all.sums[4] = static_cast<double>(rows.late());
  return all;
}
// [flexrl]

// What a rank reads: as many answers as every other.
auto reader(rollouts::source const& data, std::size_t gpus, rank_id rank)
{
  return [&data, gpus, rank](std::size_t step) {
    auto const& all = data.steps[step % steps];
    auto const [first, count] =
        chunk_of(static_cast<tokens>(all.size()), static_cast<std::uint32_t>(gpus),
                 static_cast<std::uint32_t>(to_index(rank)));
    multimodal_samples samples;
    for (rollout const& each :
         std::span(all).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count))) {
      samples.start_sample(each.question);
      for (tokens const frame : each.frames) { samples.add(0, frame); }
      samples.add(1, each.text);
    }
    return samples;
  };
}

// The same on one rank, or on eight with what all of them send and record.
struct training {
  outcome all;
  std::vector<std::vector<timelines::sharded_moment>> recorded;
};

template <communicator C>
training train_and_collect(C& comm, rollouts::source const& data)
{
  device_groups const groups(comm.size() == 1 ? node_sizes::equal(1, 1) : node_sizes::equal(2, 4),
                             comm.size() == 1 ? 1 : trained.heads);
  training made{train(comm, groups, reader(data, comm.size(), comm.rank())), {}};
  made.all.losses = block::sum_over_ranks(comm, made.all.losses);
  made.all.sums = block::sum_over_ranks(comm, made.all.sums);
  std::vector<std::size_t> counts(comm.size());
  std::size_t const own = made.all.moments.size();
  or_throw(comm.all_gather(std::as_bytes(std::span(&own, 1)),
                           std::as_writable_bytes(std::span(counts))));
  or_throw(comm.wait());
  std::size_t const most = std::ranges::max(counts);
  std::vector<timelines::sharded_moment> padded = made.all.moments, gathered(most * comm.size());
  padded.resize(most);
  or_throw(comm.all_gather(std::as_bytes(std::span(padded)),
                           std::as_writable_bytes(std::span(gathered))));
  or_throw(comm.wait());
  for (std::size_t rank = 0; rank < comm.size(); ++rank) {
    auto const from = gathered.begin() + static_cast<std::ptrdiff_t>(rank * most);
    made.recorded.emplace_back(from, from + static_cast<std::ptrdiff_t>(counts[rank]));
  }
  return made;
}

training train_on_threads(rollouts::source const& data, std::size_t gpus)
{
  return run_ranks(gpus, [&](thread_communicator& comm) { return train_and_collect(comm, data); })
      .front();
}

// Work and attention of the busiest GPU by the mean, the worst step's: of the plans, or of whole
// sequences on the GPU with fewest tokens (bucketing).
struct evenness {
  double work = 1, attention = 1;

  void add(std::span<tokens const> lengths, auto const& group_of)
  {
    std::vector<double> loads(ranks), of_attention(ranks);
    for (std::size_t each = 0; each < lengths.size(); ++each) {
      auto const [first, gpus] = group_of(each);
      group_shape const shape{gpus, std::min(gpus, 4U), std::min(gpus, 4U)};
      auto const length = static_cast<double>(lengths[each]);
      for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        loads[to_index(first) + gpu] += static_cast<double>(trained.at(shape)(lengths[each]));
        of_attention[to_index(first) + gpu] += length * length * trained.heads_of_gpu(gpus);
      }
    }
    work = std::max(work, ratio_of(loads));
    attention = std::max(attention, ratio_of(of_attention));
  }
};

// How much longer a forward pass, and old, reference and update of a policy of 7 billion take, on
// GPUs of 400 TFLOP/s that are as even as the plans, where each layer is gathered once for all packs
// of a pass. Lengths are those of the rollouts again.
std::array<double, 2> with_gathers(std::vector<sharding_plan> const& plans, tokens shortened,
                                   double busiest)
{
  transformer_shape const shape = known_shape("qwen2.5-7b");
  gamma_fit const gpu{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  auto const cost = latency_cost(gpu, forward_flops(shape).value()).value();
  double all = 0;
  for (sharding_plan const& plan : plans) {
    for (tokens const each : plan.lengths) { all += static_cast<double>(cost(shortened * each)); }
  }
  double const forward = all * busiest / static_cast<double>(ranks * plans.size());
  auto weights = sharded_steps::weights_of(shape, ranks);
  double const update = sharded_steps::trained(weights, 3 * forward, 1);
  weights.has_backward = false;
  auto const alone =
      static_cast<double>(weights.microbatch(static_cast<time_units>(forward), time_units{0}));
  return {alone / forward, (2 * alone + update) / (5 * forward)};
}

// Prints what eight ranks found, and returns whether it is what one rank finds, and as even.
bool compare(training const& eight, training const& one, rollouts::source const& data)
{
  device_groups const groups(node_sizes::equal(2, 4), trained.heads);
  evenness split, buckets;
  std::array<std::size_t, ranks + 1> of_degree{};
  double gap = 0;
  std::size_t questions = 0, apart = 0;  // of these, answers on other GPUs than the first one
  for (std::size_t step = 0; step < eight.all.plans.size(); ++step) {
    std::map<std::int64_t, group_id> first;
    for (std::size_t each = 0; each < eight.all.questions[step].size(); ++each) {
      group_id const owner = eight.all.plans[step].owner.at(each);
      auto const known = first.emplace(eight.all.questions[step][each], owner).first;
      apart += known->second == owner ? 0U : 1U;
    }
    questions += first.size();
  }
  for (sharding_plan const& plan : eight.all.plans) {
    split.add(plan.lengths, [&](std::size_t each) { return groups[plan.owner.at(each)]; });
    auto const whole = partition(plan.lengths, one_gpu_bags(ranks), quadratic_cost{1}, {},
                                 longest_processing_time{});
    buckets.add(plan.lengths, [owner = whole.value().owner](std::size_t each) {
      return device_group{to_id<rank_id>(to_index(owner.at(each))), 1};
    });
    for (group_id const owner : plan.owner) { ++of_degree[groups[owner].gpus]; }
    gap = std::max(gap, plan.gap());
  }
  double largest = 0, difference = 0, losses = 0;
  for (std::size_t at = 0; at < one.all.gradients.size(); ++at) {
    largest = std::max(largest, std::abs(one.all.gradients[at]));
    difference = std::max(difference, std::abs(one.all.gradients[at] - eight.all.gradients[at]));
  }
  for (std::size_t at = 0; at < one.all.losses.size(); ++at) {
    losses = std::max(
        losses, std::abs(one.all.losses[at] - eight.all.losses[at]) / std::abs(one.all.losses[at]));
  }
  auto const& [changed, attention_bytes, row_bytes] =
      std::tie(eight.all.sums[0], eight.all.sums[1], eight.all.sums[2]);
  std::printf("sequences           %zu on one GPU, %zu on 2, %zu on 4, %zu on 8\n", of_degree[1],
              of_degree[2], of_degree[4], of_degree[8]);
  std::printf("questions           %zu, with %zu answers on other GPUs than the first\n", questions,
              apart);
  std::printf(
      "busiest / mean GPU  work %.2f in buckets, %.2f split, at most %.1f %% above the best\n",
      buckets.work, split.work, 100 * gap);
  std::printf("                    attention %.2f in buckets, %.2f split; vision %.2f\n",
              buckets.attention, split.attention, eight.all.vision);
  std::printf("exchanged           %.2f MB for attention, %.2f MB of rows between phases, a step\n",
              attention_bytes / steps * 1e-6, row_bytes / steps * 1e-6);
  auto const overlap = timelines::overlap_of(eight.recorded);
  std::printf("exchanges           %.0f %% of attention's time under computation\n",
              100 * overlap.share());
  std::printf("                    %.0f %% of packs and %.0f %% of rows had come when wanted\n",
              100 * overlap.share_in_time(), 100 * (1 - eight.all.sums[4] / eight.all.sums[3]));
  auto const [pass, update] = with_gathers(eight.all.plans, data.has_videos ? 128 : 16, split.work);
  std::printf(
      "weights sharded     a forward pass of 7B takes %.2f times its computing, a step %.2f\n",
      pass, update);
  std::printf("ratios              %.0f tokens not exactly 1 before the update\n", changed);
  std::printf("losses              policy %.12g, then %.12g; differ from one rank by %.1e\n",
              eight.all.losses[0], eight.all.losses[2], losses);
  std::printf("gradients           differ by %.1e of the largest\n", difference / largest);
  bool const is_split = of_degree[2] + of_degree[4] + of_degree[8] > 0;
  if (data.has_videos && !is_split) { std::puts("no sequence is split"); }
  return (is_split || !data.has_videos) && apart == 0 && split.work <= buckets.work &&
         changed == 0 && losses <= 1e-10 && difference <= 1e-10 * largest;
}

}  // namespace

// A single rank that computes all of it finds the same losses and gradients. Lengths are drawn or
// read: `flexrl FILE.csv`, with columns video_id, video_tokens_qwen2vl and text_tokens, of which one
// token in 128 is computed, or prompt_tokens and response_tokens, one in 16, behind two columns that
// are equal for the answers to one question. `mpirun -np 8 flexrl mpi [FILE.csv]` does the same over
// MPI.
int main(int argc, char** argv)
{
  try {
    std::vector<std::string> const arguments(argv + 1, argv + argc);
    bool const over_mpi = !arguments.empty() && arguments[0] == "mpi";
    std::size_t const files = arguments.size() - (over_mpi ? 1 : 0);
    auto const data = files > 0 ? rollouts::read(arguments.back(), steps, 3 * ranks)
                                : rollouts::draw(steps, 3 * ranks);
#ifdef FLEXRL_WITH_MPI
    if (over_mpi) {
      bool same = true;
      on_processes("flexrl", ranks, [&](mpi_communicator& comm) {
        auto const own = train_and_collect(comm, data);
        if (comm.rank() == rank_id{0}) { same = compare(own, train_on_threads(data, 1), data); }
      });
      return same ? 0 : 1;
    }
#endif
    return compare(train_on_threads(data, ranks), train_on_threads(data, 1), data) ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "flexrl: %s\n", problem.what()), 1;
  }
}
