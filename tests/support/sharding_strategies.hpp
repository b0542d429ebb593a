// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/sharding/hybrid_sharding.hpp>
#include <ballast/sharding/sharding_cost.hpp>
#include <ballast/text/csv.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>
#include <ballast/workload/length_trace.hpp>

/// What trainers do with the sequences of a step of reinforcement learning, beside hybrid sharding.
namespace ballast_test {

/// The trace of a folder that FlexRL's data resembles, one row for each unit that stays: the first
/// question of a video, or all answers to a question.
inline std::vector<std::vector<ballast::tokens>> rollout_groups(std::string const& folder,
                                                                bool has_videos)
{
  auto const csv =
      ballast::read_file(folder + (has_videos ? "/nextqa_video.csv" : "/rl_groups.csv")).value();
  auto const lengths =
      ballast::read_length_trace(csv, has_videos ? "video_tokens_qwen2vl + text_tokens"
                                                 : "prompt_tokens + response_tokens")
          .value();
  ballast::csv_reader rows(csv);
  (void)rows.next();  // the names of the columns
  std::vector<std::vector<ballast::tokens>> groups;
  std::vector<std::string> names;
  for (ballast::tokens const length : lengths) {
    auto const row = rows.next().value();
    auto const name = has_videos ? std::string(row.fields[1])
                                 : std::string(row.fields[0]) + '/' + std::string(row.fields[1]);
    auto const found = std::ranges::find(names.rbegin(), names.rend(), name);
    if (found == names.rend()) {
      names.push_back(name);
      groups.push_back({length});
    } else if (!has_videos) {
      groups[static_cast<std::size_t>(names.rend() - found - 1)].push_back(length);
    }
  }
  return groups;
}

/// So many sequences of groups in random order.
inline std::vector<ballast::tokens> draw_rollouts(std::vector<std::vector<ballast::tokens>>& groups,
                                                  std::size_t count, ballast::random_source& random)
{
  random.shuffle(std::span(groups));
  std::vector<ballast::tokens> lengths;
  for (auto const& group : groups) {
    lengths.insert(lengths.end(), group.begin(), group.end());
    if (lengths.size() >= count) { break; }
  }
  lengths.resize(std::min(lengths.size(), count));
  return lengths;
}

/// Llama-3 8B, trained at 400 TFLOP/s, with the exchanges of its layers.
inline ballast::sharding_cost trained_llama(ballast::cluster const& machines)
{
  ballast::gamma_fit const fit{.seconds_per_flop = 1 / 400e12, .gamma = 1};
  auto const shape = ballast::find_known_model("llama3-8b").value().shape;
  return ballast::sharding_cost_of(shape, fit, machines).value();
}

/// One degree for all sequences that have as many tokens: the longest first, each to the group with
/// the fewest tokens; of degree 1 this is bucketing.
inline std::vector<ballast::group_id> one_degree(std::span<ballast::tokens const> lengths,
                                                 ballast::device_groups const& groups,
                                                 std::uint32_t degree)
{
  std::vector<std::size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return lengths[a] != lengths[b] ? lengths[a] > lengths[b] : a < b;
  });
  auto const candidates = groups.of_degree(degree);
  std::vector<ballast::tokens> held(candidates.size());
  std::vector<ballast::group_id> owner(lengths.size());
  for (std::size_t const each : order) {
    auto const least = static_cast<std::size_t>(std::ranges::min_element(held) - held.begin());
    held[least] += lengths[each];
    owner[each] = candidates[least];
  }
  return owner;
}

/// What a plan means on every GPU, from the costs of degrees.
struct strategy_outcome {
  double slowest = 0;    ///< load of the busiest GPU, in units of the cost
  double balance = 0;    ///< by the mean
  double attention = 0;  ///< of the busiest GPU by the mean
  double exchanged = 0;  ///< share of tokens that attention sends to other GPUs
  double split = 0;      ///< share of sequences on several GPUs
};

inline strategy_outcome outcome_of(std::span<ballast::tokens const> lengths,
                                   std::span<ballast::group_id const> owner,
                                   ballast::device_groups const& groups,
                                   ballast::sharding_cost const& cost)
{
  std::vector<double> loads(groups.gpus());
  std::vector<double> attention(groups.gpus());
  strategy_outcome out;
  double all = 0;
  for (std::size_t each = 0; each < lengths.size(); ++each) {
    auto const group = groups[owner[each]];
    auto const time = cost.at(shape_of(group, groups.nodes()))(lengths[each]);
    auto const length = static_cast<double>(lengths[each]);
    double const degree = group.gpus;
    for (std::size_t gpu = 0; gpu < group.gpus; ++gpu) {
      loads[to_index(group.first) + gpu] += static_cast<double>(time);
      attention[to_index(group.first) + gpu] += length * length * cost.heads_of_gpu(group.gpus);
    }
    all += length;
    out.exchanged += length * (degree - 1) / degree;
    out.split += group.gpus > 1 ? 1 : 0;
  }
  auto const ratio = [&](std::vector<double> const& of) {
    return std::ranges::max(of) * static_cast<double>(of.size()) /
           std::accumulate(of.begin(), of.end(), 0.0);
  };
  out.slowest = std::ranges::max(loads);
  out.balance = ratio(loads);
  out.attention = ratio(attention);
  out.exchanged /= all;
  out.split /= static_cast<double>(lengths.size());
  return out;
}

}  // namespace ballast_test
