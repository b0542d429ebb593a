// SPDX-License-Identifier: Apache-2.0
// FlexRL: every sequence is split to a degree of its own, long ones over many GPUs, short ones over
// none, and a GPU works in several groups one after the other, exchanges under computation. The
// frames of all videos are encoded wherever a GPU has time. Eight ranks train an encoder and a
// language model of one block each; a single rank that computes all of it finds the same loss and
// the same gradients. Videos are drawn, or read: flexrl VIDEO.csv, with columns
// video_tokens_qwen2vl and text_tokens, of which one token in 64 is computed.

#include "common/phase_model.hpp"    // defines: block::{phase_model, pixels, parameters, values}
#include "common/sharded_block.hpp"  // defines: block::sharded_block

#include <ballast/comm.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/sharding.hpp>
#include <ballast/topology.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

namespace {

using namespace ballast;

constexpr block::shape shape{.query_heads = 8, .kv_heads = 2, .head_dim = 4};

// FLOP of the block on cores of 1 GFLOP/s that copy 4 GB/s: q, k, v and out, there and back, in
// float64.
constexpr sharding_cost cost{.work = "transformer:d=16,gamma=1"_cost,
                             .heads = shape.query_heads,
                             .kv_heads = shape.kv_heads,
                             .bytes_per_head = 2 * shape.head_dim * sizeof(double),
                             .within_node_bytes_per_second = 4'000'000'000,
                             .between_nodes_bytes_per_second = 4'000'000'000,
                             .units_per_second = 1'000'000'000};

// A question about a video: its frames, in patches of which four become a token, and its text.
struct question {
  std::vector<tokens> frames;
  tokens text = 0;

  [[nodiscard]] tokens length() const
  {
    return std::accumulate(frames.begin(), frames.end(), text,
                           [](tokens sum, tokens frame) { return sum + (frame + 3) / 4; });
  }
};

struct step_outcome {
  double loss = 0;
  block::values gradients;
  sharding_plan plan;
};

// [flexrl]
step_outcome train_step(thread_communicator& comm, device_groups const& groups,
                        std::span<question const> read,
                        std::vector<report::sharded_moment>& recorded)
{
  // The vision tower is a phase of the orchestrator: every frame goes where a GPU has time for it.
  auto const bags = one_gpu_bags(comm.size());
  orchestrator step(comm, std::tuple{phase{bags, cost.work, refine{}, 4}},
                    phase{bags, cost.work, round_robin{}}, {.most_entries = 8192});
  multimodal_samples samples;
  for (question const& each : read) {
    samples.start_sample();
    for (tokens const frame : each.frames) { samples.add(0, frame); }
    samples.add(1, each.text);
  }
  or_throw(step.submit(samples));
  or_throw(step.next());

  // Sequences lie where hybrid sharding wants them, with the frames' outputs and the texts inside.
  auto const& lengths = step.step().lengths;
  auto const& [frames, texts] = std::tie(step.step().modalities[0], step.step().modalities[1]);
  auto const plan = hybrid_sharding(lengths, groups, cost).value();
  auto const sequences = place(plan, groups).value();
  auto const frames_needed = place_parts(sequences, frames.parts);
  auto const texts_needed = place_parts(sequences, texts.parts);
  auto const to_model = plan_route(frames.as_encoded, frames_needed, comm.rank());
  auto const texts_to_model = plan_route(texts.as_read, texts_needed, comm.rank());
  sharded_packs packs;
  packs.assign(plan, groups, comm.rank(), shape.query_heads);

  auto alone = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()))).value();
  block::phase_model vision(1, 4, alone);
  auto const weights = block::random_parameters(shape, 2);
  block::sharded_block model(shape, weights, comm, packs, report::sharded_recorder{recorded});
  workspace memory;
  auto const pixels = block::pixels(frames.as_read, comm.rank(), shape.width);
  auto const words = block::pixels(texts.as_read, comm.rank(), shape.width);
  block::values pixels_there(step.rows_computed(0) * shape.width);
  block::values x(static_cast<std::size_t>(packs.rows()) * shape.width), y(x.size());
  or_throw(step.to_encoder(0, rows_of(pixels, pixels_there, shape.width)));
  auto encoded = vision.forward(step.lengths(0), pixels_there);
  or_throw(route(comm, to_model, memory, rows_of(encoded, x, shape.width)));
  or_throw(route(comm, texts_to_model, memory, rows_of(words, x, shape.width)));
  or_throw(model.forward(x, y));

  // The loss is |y|^2 / 2, so y is its gradient too.
  block::parameters of_model(shape);
  or_throw(model.backward(y, x, of_model));
  or_throw(reverse_route(comm, to_model, memory, rows_of(x, encoded, shape.width)));
  static_cast<void>(vision.backward(encoded));  // nobody wants the gradient of pixels
  auto gradients = of_model.flat();
  auto const of_vision = vision.gradients();
  gradients.insert(gradients.end(), of_vision.begin(), of_vision.end());
  return {std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2, gradients, plan};
}
// [flexrl]

// Every rank reads as many of the questions. Ranks that are threads need no collective to add up.
step_outcome over_all_ranks(device_groups const& groups, std::vector<question> const& data,
                            std::vector<std::vector<report::sharded_moment>>& recorded)
{
  recorded.assign(groups.gpus(), {});
  auto const ranks = static_cast<std::uint32_t>(groups.gpus());
  auto const shares = run_ranks(ranks, [&](thread_communicator& comm) {
    auto const rank = static_cast<std::uint32_t>(to_index(comm.rank()));
    auto const [first, count] = chunk_of(static_cast<tokens>(data.size()), ranks, rank);
    auto const read =
        std::span(data).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    return train_step(comm, groups, read, recorded[rank]);
  });
  step_outcome all = shares.front();
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    all.loss += shares[rank].loss;
    std::ranges::transform(all.gradients, shares[rank].gradients, all.gradients.begin(),
                           std::plus{});
  }
  return all;
}

std::vector<question> questions(int argc, char** argv)
{
  random_source random(7);
  std::vector<tokens> videos, texts;
  if (argc > 1) {
    videos = load_length_trace(argv[1], "video_tokens_qwen2vl").value();
    texts = load_length_trace(argv[1], "text_tokens").value();
  } else {
    videos = draw_lengths(clamped_lengths{lognormal_lengths{6'000, 1.0}, 500, 60'000}, 48, random);
    texts = draw_lengths(lognormal_lengths{200, 1.0}, 48, random);
  }
  std::vector<question> drawn(std::min<std::size_t>(videos.size(), 48));
  for (std::size_t each = 0; each < drawn.size(); ++each) {
    drawn[each].text = 1 + texts[each] / 64;
    tokens const frame = 4 * random.between(4, 24);  // videos differ in the size of their frames
    for (tokens left = videos[each] / 16; left > 0; left -= frame) {
      drawn[each].frames.push_back(std::min(frame, left));
    }
  }
  return drawn;
}

// The work of the busiest GPU by the mean, where whole sequences go to the GPU with fewest tokens.
double bucketing(std::vector<question> const& data, std::size_t gpus)
{
  std::vector<tokens> lengths;
  for (question const& each : data) { lengths.push_back(each.length()); }
  auto const plan =
      partition(lengths, one_gpu_bags(gpus), longest_processing_time{}, [](tokens length) {
        return length;
      }).value();
  std::vector<cost_units> loads(gpus);
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    loads[to_index(plan.owner[each])] += cost.work(lengths[each]);
  }
  return report::measure_balance(loads, std::vector<std::uint32_t>(gpus, 1)).balance_ratio();
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    std::vector<std::vector<report::sharded_moment>> recorded;
    device_groups const groups(node_sizes::equal(2, 4), shape.query_heads);
    auto const data = questions(argc, argv);
    auto const one = over_all_ranks(device_groups(node_sizes::equal(1, 1), 1), data, recorded);
    auto const eight = over_all_ranks(groups, data, recorded);

    double largest = 0;
    double difference = 0;
    for (std::size_t at = 0; at < one.gradients.size(); ++at) {
      largest = std::max(largest, std::abs(one.gradients[at]));
      difference = std::max(difference, std::abs(one.gradients[at] - eight.gradients[at]));
    }
    std::vector<std::size_t> split(shape.query_heads + 1);
    for (group_id const owner : eight.plan.owner) { ++split[groups[owner].gpus]; }
    std::printf("sequences           %zu on one GPU, %zu on 2, %zu on 4, %zu on 8\n", split[1],
                split[2], split[4], split[8]);
    std::printf("busiest / mean GPU  %.2f in buckets, %.2f split, at most %.1f %% above the best\n",
                bucketing(data, groups.gpus()), eight.plan.balance_ratio(), 100 * eight.plan.gap());
    std::printf("loss                %.12g on one rank, %.12g on eight\n", one.loss, eight.loss);
    std::printf("gradients           differ by %.1e of the largest\n", difference / largest);
    std::printf("exchanges           %.0f %% of their time under computation\n",
                100 * report::overlap_of(recorded).share());
    bool const same =
        std::abs(one.loss - eight.loss) <= 1e-10 * one.loss && difference <= 1e-10 * largest;
    return same ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "flexrl: %s\n", problem.what()), 1;
  }
}
