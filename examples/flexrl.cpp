// SPDX-License-Identifier: Apache-2.0
// FlexRL: every sequence is split to a degree of its own, long ones over many GPUs, short ones over
// none, and a GPU works in several groups one after the other, exchanges under computation. The
// frames of all videos are encoded wherever a GPU has time. Eight ranks train an encoder and a
// language model of one block each; a single rank that computes all of it finds the same loss and the
// same gradients. Videos are drawn, or read: flexrl VIDEO.csv, with columns video_tokens_qwen2vl and
// text_tokens, of which one token in 64 is computed.

#include "common/sharded_block.hpp"      // defines: block::sharded_block
#include "common/transformer_block.hpp"  // defines: block::{transformer_block, pixels, ...}

#include <ballast/comm.hpp>
#include <ballast/core/value_or_throw.hpp>
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/report.hpp>
#include <ballast/route.hpp>
#include <ballast/topology.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ballast;

constexpr block::shape shape{.query_heads = 8, .kv_heads = 2, .head_dim = 4};

// FLOP of the block on cores of 1 GFLOP/s that copy 4 GB/s: q, k, v and out, there and back, in float64.
constexpr sharding_cost cost{.work = "transformer:d=16,gamma=1"_cost,
                             .heads = shape.query_heads,
                             .kv_heads = shape.kv_heads,
                             .bytes_per_head = 2 * shape.head_dim * sizeof(double),
                             .within_node_bytes_per_second = 4'000'000'000,
                             .between_nodes_bytes_per_second = 4'000'000'000,
                             .units_per_second = 1'000'000'000};

// Questions about videos: a sequence is the frames of a video, then text.
struct video_batch {
  std::vector<tokens> frames;
  std::vector<tokens> texts;
  std::vector<tokens> sequences;
  std::vector<sample_part> frame_parts;
  std::vector<sample_part> text_parts;
  std::vector<rank_id> frame_reader;
  std::vector<rank_id> reader;

  void add(tokens video, tokens frame, tokens text, std::size_t ranks)
  {
    auto const sample = to_id<sample_id>(sequences.size());
    auto const read_by = to_id<rank_id>(sequences.size() % ranks);
    for (tokens first = 0; first < video; first += frame) {
      frames.push_back(std::min(frame, video - first));
      frame_parts.push_back({sample, first, frames.back()});
      frame_reader.push_back(read_by);
    }
    text_parts.push_back({sample, video, text});
    texts.push_back(text);
    reader.push_back(read_by);
    sequences.push_back(video + text);
  }
};

struct step_outcome {
  double loss = 0;
  block::values gradients;
  sharding_plan plan;
};

// [flexrl]
step_outcome train_step(thread_communicator& comm, device_groups const& groups,
                        video_batch const& data, std::vector<report::sharded_moment>& recorded)
{
  rank_id const rank = comm.rank();
  auto const encoders = one_gpu_bags(comm.size());
  auto const frames = value_or_throw(partition(data.frames, encoders, refine{}, cost.work));
  auto const plan = value_or_throw(hybrid_sharding(data.sequences, groups, cost));

  placement frames_read, frames_encoded, frames_needed, texts_read, texts_needed, sequences;
  frames_read.assign_whole(data.frames, data.frame_reader, comm.size());
  texts_read.assign_whole(data.texts, data.reader, comm.size());
  value_or_throw(frames_encoded.assign_chunks(data.frames, frames, encoders));
  value_or_throw(sequences.assign_groups(data.sequences, plan, groups));
  frames_needed.assign_parts(sequences, data.frame_parts);
  texts_needed.assign_parts(sequences, data.text_parts);
  auto const to_encoder = plan_route(frames_read, frames_encoded, rank);
  auto const to_model = plan_route(frames_encoded, frames_needed, rank);
  auto const texts_to_model = plan_route(texts_read, texts_needed, rank);
  ulysses_plan own_frames;
  own_frames.assign(data.frames, frames.samples[encoders.bag_of(rank)], 1, shape.query_heads);
  sharded_packs packs;
  packs.assign(data.sequences, plan.samples, groups, rank, shape.query_heads);

  auto const rows = [&](placement const& of) {
    return block::values(static_cast<std::size_t>(of.rows(rank)) * shape.width);
  };
  auto const pixels = block::pixels(frames_read, rank, shape.width);
  auto const texts = block::pixels(texts_read, rank, shape.width);
  auto encoded = rows(frames_encoded), there = encoded, x = rows(sequences), y = x;
  auto alone = value_or_throw(comm.split(static_cast<std::uint32_t>(to_index(rank))));
  auto const weights = block::random_parameters(shape, /*seed=*/1);
  block::transformer_block vision(shape, weights, alone);
  block::sharded_block model(shape, weights, comm, packs, report::sharded_recorder{recorded});
  workspace memory;
  value_or_throw(route(comm, to_encoder, memory, rows_of(pixels, there, shape.width)));
  value_or_throw(vision.forward(own_frames, there, encoded));
  value_or_throw(route(comm, to_model, memory, rows_of(encoded, x, shape.width)));
  value_or_throw(route(comm, texts_to_model, memory, rows_of(texts, x, shape.width)));
  value_or_throw(model.forward(x, y));

  double const loss = std::inner_product(y.begin(), y.end(), y.begin(), 0.0) / 2;
  block::parameters of_vision(shape), of_model(shape);
  value_or_throw(model.backward(y, x, of_model));
  value_or_throw(reverse_route(comm, to_model, memory, rows_of(x, encoded, shape.width)));
  value_or_throw(vision.backward(encoded, there, of_vision));
  auto gradients = of_vision.flat();
  auto const others = of_model.flat();
  gradients.insert(gradients.end(), others.begin(), others.end());
  return {loss, gradients, plan};
}
// [flexrl]

// Ranks that are threads need no collective to add up.
step_outcome over_all_ranks(device_groups const& groups, video_batch const& data,
                            std::vector<std::vector<report::sharded_moment>>& recorded)
{
  recorded.assign(groups.gpus(), {});
  auto const shares = run_ranks(groups.gpus(), [&](thread_communicator& comm) {
    return train_step(comm, groups, data, recorded[to_index(comm.rank())]);
  });
  step_outcome all = shares.front();
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    all.loss += shares[rank].loss;
    std::ranges::transform(all.gradients, shares[rank].gradients, all.gradients.begin(),
                           std::plus{});
  }
  return all;
}

video_batch batch_of(int argc, char** argv, std::size_t ranks)
{
  random_source random(7);
  std::vector<tokens> videos, texts;
  if (argc > 1) {
    videos = value_or_throw(load_length_trace(argv[1], "video_tokens_qwen2vl"));
    texts = value_or_throw(load_length_trace(argv[1], "text_tokens"));
  } else {
    videos = draw_lengths(clamped_lengths{lognormal_lengths{6'000, 1.0}, 500, 60'000}, 48, random);
    texts = draw_lengths(lognormal_lengths{200, 1.0}, 48, random);
  }
  video_batch batch;
  for (std::size_t sample = 0; sample < std::min<std::size_t>(videos.size(), 48); ++sample) {
    batch.add(videos[sample] / 64, random.between(8, 32), 1 + texts[sample] / 64, ranks);
  }
  return batch;
}

// The work of the busiest GPU by the mean, where whole sequences go to the GPU with fewest tokens.
double bucketing(video_batch const& data, std::size_t gpus)
{
  auto const plan =
      value_or_throw(partition(data.sequences, one_gpu_bags(gpus), longest_processing_time{},
                               [](tokens length) { return length; }));
  std::vector<cost_units> loads(gpus);
  for (std::size_t sample = 0; sample < data.sequences.size(); ++sample) {
    loads[to_index(plan.owner[sample])] += cost.work(data.sequences[sample]);
  }
  return report::measure_balance(loads, std::vector<std::uint32_t>(gpus, 1)).balance_ratio();
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    std::vector<std::vector<report::sharded_moment>> recorded;
    device_groups const groups(node_sizes::equal(2, 4), shape.query_heads);
    auto const data = batch_of(argc, argv, groups.gpus());
    auto unread = data;
    std::ranges::fill(unread.reader, rank_id{0});
    std::ranges::fill(unread.frame_reader, rank_id{0});
    auto const one = over_all_ranks(device_groups(node_sizes::equal(1, 1), 1), unread, recorded);
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
