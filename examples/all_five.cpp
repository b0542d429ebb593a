// SPDX-License-Identifier: Apache-2.0
// All five systems in one training on eight ranks: DFLOP (arXiv 2603.25120, 3.3 and 3.4.1),
// KnapFormer (2508.06001, 3.2 to 3.4), OrchMLLM (2503.23830, 6), FlexRL (4.2 and 4.3), DistTrain
// (SIGCOMM 2025, 5.3). Assumed: times by formulas, a small model that takes one token in 512, one
// block a stage. Not shown: GPUs, tensor parallelism (bags and degrees stand in its place), DFLOP's
// online correction, data loaders. Videos are drawn or read: all_five [mpi] [NEXTQA_VIDEO.csv].

#include "common/formula_profile.hpp"  // defines: dflop_models::profile_of
#include "common/listed.hpp"
#include "common/pipeline_training.hpp"  // defines: pipeline_model::{trained, difference, ...}
#include "common/staged_model.hpp"       // defines: staged_model::{microbatch, plan_of, rank_model}

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_policies.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/microbatch_scheduler.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/workload/length_trace.hpp>
#include <ballast/workload/synthetic_lengths.hpp>
#ifdef ALL_FIVE_WITH_MPI
#include "common/on_processes.hpp"
#endif

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace ballast;
using staged_model::shape;

constexpr std::uint32_t ranks = 8;
constexpr std::size_t steps = 2;
constexpr std::size_t samples_of_rank = 6;
constexpr std::size_t microbatches = 8;
constexpr tokens scale = 512;
constexpr local_search search{insertion{}, 2000};  // for an order of the microbatches

/// Tokens that are computed of a video and of its text.
struct sample {
  tokens video = 0;
  tokens text = 0;
};

// FLOP of a block, forward and backward, on cores of 1 GFLOP/s that copy 4 GB/s, in nanoseconds.
constexpr auto work = [] {
  auto cost = "transformer:d=16,gamma=1"_cost;
  cost.linear *= 3;
  cost.quadratic *= 3;
  return cost;
}();
constexpr sharding_cost split_work{.work = work,
                                   .heads = shape.query_heads,
                                   .kv_heads = shape.kv_heads,
                                   .bytes_per_head = 2 * shape.head_dim * sizeof(double),
                                   .within_node_bytes_per_second = 4'000'000'000,
                                   .between_nodes_bytes_per_second = 4'000'000'000,
                                   .units_per_second = 1'000'000'000,
                                   .latency = 10'000,
                                   .whole_groups = true};

/// What is decided before the training, the same on every rank; as it is made, one rank alone.
struct job {
  std::vector<module_layout> units{{1, 1, 1}, {1, 2, 1}};
  process_grid grid = process_grid({{1, 1, 1}});
  bag_layout bags = one_gpu_bags(1);
  device_groups groups{node_sizes::equal(1, 1), 1};

  [[nodiscard]] std::uint32_t gpus_of_stage(std::size_t module) const
  {
    return units[module].group() * units[module].dp;
  }
  [[nodiscard]] pipeline_setup setup() const
  {
    std::vector<pipeline_stage> stages;
    std::vector<stage_link> links;
    for (std::uint32_t stage = 0; stage <= units[1].pp; ++stage) {
      stages.push_back({.rank = pipeline_rank{grid.size() == 1 ? 0 : stage}});
      if (stage > 0) { links.push_back({stage_id{stage - 1}, stage_id{stage}}); }
    }
    stage_graph const graph(stages, links);
    auto const schedule =
        grid.size() == 1 ? compiled_schedule::make(graph, gpipe{}, microbatches)
                         : compiled_schedule::make(graph, one_forward_one_backward{}, microbatches);
    return {grid, schedule.value(), std::vector(links.size(), shape.width * sizeof(double))};
  }
  /// The ranks of the encoder, or of the first stage of the LLM; none: all ranks.
  [[nodiscard]] std::vector<rank_id> ranks_of(std::uint32_t module) const
  {
    return grid.size() == 1 ? std::vector<rank_id>() : grid.data_ranks(module);
  }
  /// The bag of a rank of the encoder.
  [[nodiscard]] std::uint32_t bag_of(grid_place const& place) const
  {
    bool const encodes = grid.size() == 1 || place.module == 0;
    return encodes ? static_cast<std::uint32_t>(to_index(bags.bag_of(rank_id{place.data}))) : 0;
  }
  /// OrchMLLM: each phase has GPUs, cost and policy of its own.
  [[nodiscard]] auto encoder() const
  {
    phase own{bags, work, greedy_knapsack{}};
    own.ranks = ranks_of(0);
    return own;
  }
  [[nodiscard]] hybrid_phase llm() const
  {
    return {.groups = groups, .cost = split_work, .ranks = ranks_of(1)};
  }
};

/// What a block of the encoder sends in a bag, and videos on their way to it and back.
constexpr bag_traffic exchanged{
    .layers = 1,
    .head_bytes_per_token_and_layer =
        4 * (shape.query_heads + shape.kv_heads) * shape.head_dim * sizeof(double),
    .all_to_alls_per_layer = 4,
    .routed_bytes_per_token = 4 * shape.width * sizeof(double),
    .routes = 4,
    .units_per_second = 1e9};

/// What each microbatch takes on each stage, whose GPUs wait for the slowest of them.
pipeline_times times_of(job const& planned, std::span<staged_model::microbatch const> data)
{
  return {data.size(), planned.units[1].pp + 1, [&](std::size_t number, std::size_t stage) {
            auto const& step = data[number].step;
            time_units most = stage == 0 ? 0 : step.sharded.makespan;
            for (std::size_t bag = 0; stage == 0 && bag < planned.bags.size(); ++bag) {
              time_units const gpus = planned.bags[to_id<bag_id>(bag)].gpus;
              most = std::max(most, step.modalities[0].planned.loads[bag] / gpus);
            }
            return stage_time{most / 3, most - most / 3};
          }};
}

/// Batches as an encoder sees them: what its microbatches have.
std::vector<sample_batch> batches_of(std::span<sample const> data)
{
  std::vector<sample_batch> all(data.size() / samples_of_rank);
  for (std::size_t each = 0; each < all.size() * samples_of_rank; ++each) {
    all[each / samples_of_rank].lengths.push_back(data[each].video);
    all[each / samples_of_rank].source.push_back(rank_id{0});
  }
  return all;
}

/// What a sample takes encoder and LLM, if all GPUs of a stage share it.
struct sample_time {
  std::array<cost_units, 2> gpus;
  cost_units stages;  // of the LLM, a block each

  std::array<stage_time, 2> operator()(std::span<tokens const, 2> sizes) const
  {
    auto const of = [](cost_units all) { return stage_time{all / 3, all - all / 3}; };
    return {of(work(sizes[0]) / gpus[0]), of(stages * work(sizes[1]) / gpus[1])};
  }
};

/// The samples of each microbatch, so that the whole step is short.
class fill_microbatches {
 public:
  explicit fill_microbatches(job const& planned)
      : scheduler_(make(planned.gpus_of_stage(0), planned.gpus_of_stage(1), planned.units[1].pp))
  {}

  std::vector<std::vector<sample_id>> operator()(std::span<sample const> batch)
  {
    std::vector<tokens> sizes;
    for (auto const& [video, text] : batch) { sizes.insert(sizes.end(), {video, video + text}); }
    or_throw(scheduler_(step_, sizes, 1, 0, {}));
    std::vector<std::vector<sample_id>> all;
    for (std::size_t each = 0; each < microbatches; ++each) {
      auto const members = step_.microbatch(1, 0, each);
      all.emplace_back(members.begin(), members.end());
    }
    return all;
  }

 private:
  using scheduler = microbatch_scheduler<2, sample_time, local_search<>, refine<>>;

  static scheduler make(cost_units encoders, cost_units of_stage, std::uint32_t stages)
  {
    auto const graph = joined_stages({.encoders = {{1}}, .llm = {stages}, .generators = {}});
    scheduler_setup setup{
        compiled_schedule(graph.value(), one_forward_one_backward{}, microbatches),
        {{1, {1}}, {1, std::vector(stages, 1U)}}};
    setup.simulated_tasks = 200'000;
    return scheduler::make(std::move(setup), {{encoders, of_stage}, stages}, {insertion{100}, 500})
        .value();
  }

  scheduler scheduler_;
  scheduled_step<2> step_;
};

/// What a rank has read of a microbatch.
multimodal_samples own_part(gathered_samples<sample> const& batch,
                            std::span<sample_id const> microbatch, rank_id rank)
{
  multimodal_samples own;
  for (sample_id const each : microbatch) {
    if (batch.source[each] != rank) { continue; }
    auto const [video, text] = batch.samples[each];
    own.start_sample();
    own.add(0, video);
    own.add(1, text);
  }
  return own;
}

// [all_five]
// DFLOP: the search gives encoder and LLM their GPUs and stages. KnapFormer: the encoder's GPUs are
// in bags, chosen from data. FlexRL: those of a stage of the LLM are in groups of every degree.
job plan_job(layout_problem const& problem, std::span<sample const> data)
{
  job made;
  made.units = search_layouts(problem, problem.sizes).value().layouts.at(0).layout.modules;
  std::uint32_t const encoders = made.gpus_of_stage(0);
  std::uint32_t const of_stage = made.gpus_of_stage(1);
  made.grid = process_grid({{encoders, 1, 1}, {of_stage, made.units[1].pp, 1}});
  auto const machines = cluster_of(encoders).value();
  auto const exchanges = price_bag_exchanges(exchanged, machines).value();
  bag_search const up_to_four{.largest_bag = 4, .short_ones = short_samples::admitted};
  made.bags = choose_bags(batches_of(data), machines, exchanges, work, up_to_four).value().bags;
  made.groups = device_groups(node_sizes::equal(1, of_stage), split_work.heads);
  return made;
}

// One rank's part of a training; read(step) says which samples it has read of a step.
template <point_to_point C, class Read>
pipeline_model::trained train(C& comm, job const& planned, Read const& read)
{
  auto const setup = planned.setup();
  auto const place = setup.grid.place(comm.rank());
  auto stage = comm.split(setup.grid.colour(comm.rank(), grid_axis::data)).value();
  auto bag = stage.split(planned.bag_of(place)).value();
  orchestrator step(comm, std::tuple{planned.encoder()}, planned.llm());
  auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
  staged_model::rank_model<C> model(comm, planned.bags, planned.groups, place.data, stage, bag);
  fill_microbatches fill(planned);
  pipeline_model::trained all;
  for (std::size_t number = 0; number < steps; ++number) {
    // DFLOP: samples in microbatches with which encoder and LLM wait little for each other.
    auto const batch = gather_samples(comm, read(number)).value();
    auto const filled = fill(batch.samples);
    auto const own = [&](std::size_t next) { return own_part(batch, filled[next], comm.rank()); };
    // OrchMLLM: each microbatch is a step; while its inputs go to their phases, the next is planned.
    std::vector<staged_model::microbatch> data(microbatches);
    or_throw(step.submit(own(0)));
    for (std::size_t next = 0; next < microbatches; ++next) {
      auto& now = data[next];
      or_throw(step.next());
      if (next + 1 < microbatches) { or_throw(step.submit(own(next + 1))); }
      now.step = step.step();
      auto const pixels = block::pixels(now.step.modalities[0].as_read, comm.rank(), shape.width);
      auto const words = block::pixels(now.step.modalities[1].as_read, comm.rank(), shape.width);
      now.videos.resize(step.rows_computed(0) * shape.width);
      now.sequences.resize(step.rows_in_model() * shape.width);
      or_throw(step.to_encoder(0, rows_of(pixels, now.videos, shape.width)));
      or_throw(step.to_model(1, rows_of(words, now.sequences, shape.width)));
      now.find_moved();
    }
    // DistTrain: the microbatches in the best order that a search finds; the runner carries it out.
    auto const order = order_microbatches(setup.schedule, times_of(planned, data), search);
    or_throw(runner.plan(staged_model::plan_of(setup, data)));
    model.begin(data);
    or_throw(runner.run(comm, order.value().order, model));
    pipeline_model::finish_step(all, comm, stage, setup.grid, runner.loss(), model);
  }
  return all;
}
// [all_five]

/// Parts of the composition that may be left out.
struct choices {
  bool microbatches = true;  ///< filled by the scheduler, or by samples as they are read
  bool bags = true;          ///< chosen, or one GPU each
  bool degrees = true;       ///< each sequence its own, or whole sequences
  bool order = true;         ///< searched, or as they are numbered
};

/// How long the steps of a training take, in milliseconds, as they are planned and simulated.
double simulate_steps(job const& planned, std::span<sample const> data, choices const& with)
{
  job now = planned;
  if (!with.bags) { now.bags = one_gpu_bags(now.bags.gpus()); }
  if (!with.degrees) { now.groups = device_groups(now.groups.nodes(), 1); }
  phase_planner const plan(std::tuple{now.encoder()}, now.llm());
  auto const schedule = now.setup().schedule;
  std::size_t const of_step = ranks * samples_of_rank;
  double sum = 0;
  workspace memory;
  fill_microbatches fill(now);
  for (std::size_t number = 0; number < steps; ++number) {
    gathered_samples<sample> batch{.ranks = ranks};
    for (std::size_t each = 0; each < of_step; ++each) {
      batch.samples.push_back(data[number * of_step + each]);
      batch.source.push_back(to_id<rank_id>(each / samples_of_rank));
    }
    auto const filled = fill(batch.samples);
    std::vector<staged_model::microbatch> all(microbatches);
    for (std::size_t next = 0; next < microbatches; ++next) {
      std::vector<sample_id> as_read;
      for (std::size_t each = next; each < of_step; each += microbatches) {
        as_read.push_back(to_id<sample_id>(each));
      }
      gathered_samples<multimodal_samples::subsequence> read{.ranks = ranks};
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const id = to_id<rank_id>(rank);
        auto const own = own_part(batch, with.microbatches ? filled[next] : as_read, id);
        read.samples.insert(read.samples.end(), own.entries().begin(), own.entries().end());
        read.source.resize(read.samples.size(), id);
      }
      or_throw(plan(all[next].step, memory, read, ranks, rank_id{0}));
    }
    auto const times = times_of(now, all);
    auto const found = order_microbatches(schedule, times, search).value();
    auto const numbered = order_microbatches(schedule, times, given_order{}).value();
    sum += static_cast<double>(with.order ? found.makespan : numbered.makespan) * 1e-6;
  }
  return sum / steps;
}

/// Prints what is decided before the training, and how much longer a step takes without its parts;
/// of traces as docs/five_systems.md has it. Returns whether it is longer without all of them.
bool show(job const& planned, std::span<sample const> data, bool traces)
{
  std::map<std::uint32_t, std::size_t> of_size;
  for (std::size_t bag = 0; bag < planned.bags.size(); ++bag) {
    ++of_size[planned.bags[to_id<bag_id>(bag)].gpus];
  }
  std::string bags;
  for (auto const& [gpus, count] : of_size) {
    bags += (bags.empty() ? "g" : "+g") + std::to_string(gpus) + "n" + std::to_string(count);
  }
  std::printf("encoder %s, in bags %s; LLM %s\n", text_of(planned.units[0]).c_str(), bags.c_str(),
              text_of(planned.units[1]).c_str());
  double const whole = simulate_steps(planned, data, {});
  std::vector<double> longer;
  for (choices const& without :
       {choices{.microbatches = false}, choices{.bags = false}, choices{.degrees = false},
        choices{.order = false}, choices{false, false, false, false}}) {
    longer.push_back(simulate_steps(planned, data, without) / whole);
  }
  std::printf("%swithout filled microbatches, bags, degrees, order, all four %s times as long\n",
              traces ? "on the page: " : "", listed(longer).c_str());
  return longer.back() > 1;
}

std::vector<sample> read_videos(std::string const& file)
{
  auto const videos = read_file(file, read_length_trace, "video_tokens_qwen2vl").value();
  auto const texts = read_file(file, read_length_trace, "text_tokens").value();
  std::vector<sample> all;
  for (std::size_t row = 0; row < videos.size(); ++row) {
    all.push_back({(videos[row] + scale - 1) / scale, (texts[row] + scale - 1) / scale});
  }
  random_source(2).shuffle(std::span(all));
  return all;
}

std::vector<sample> draw_videos()
{
  random_source random(7);
  clamped_lengths const videos{lognormal_lengths{.median = 10'000, .sigma = 0.7}, 1'000, 67'000};
  std::vector<sample> all(steps * ranks * samples_of_rank);
  for (sample& each : all) {
    tokens const video = videos(random) / scale;
    each = {video, 1 + static_cast<tokens>(random.below(4))};
  }
  return all;
}

/// InternViT-6B and Llama-3 13B on eight GPUs of 80 GB, in their own lengths.
struct large_problem {
  std::array<module_profile, 2> modules{
      dflop_models::profile_of("vision", known_shape("internvit-6b"), 0, true),
      dflop_models::profile_of("llm", known_shape("llama3-13b"), 0, true)};
  std::vector<tokens> sizes;
  layout_problem problem;

  explicit large_problem(std::span<sample const> data)
  {
    for (auto const& [video, text] : data) {
      sizes.insert(sizes.end(), {scale * video, scale * (video + text)});
    }
    problem.modules = modules;
    problem.sizes = sizes;
    problem.global_batch = ranks * samples_of_rank;
    problem.kinds[0].gpus = ranks;
    problem.kinds[0].memory_bytes = 80'000'000'000;
  }
};

/// Trains on eight ranks; how far that is from one rank by itself.
template <class C>
double difference(C& comm, job const& planned, std::span<sample const> data)
{
  job one;
  one.units = planned.units;
  return pipeline_model::difference(comm, planned.grid, [&](auto& own, bool alone) {
    return train(own, alone ? one : planned, [&](std::size_t step) {
      std::size_t const of_rank = alone ? ranks * samples_of_rank : samples_of_rank;
      std::size_t const first = step * ranks * samples_of_rank + to_index(own.rank()) * of_rank;
      return data.subspan(first, of_rank);
    });
  });
}

}  // namespace

int main(int argc, char** argv)
{
  try {
    std::vector<std::string> const arguments(argv + 1, argv + argc);
    bool const over_mpi = !arguments.empty() && arguments[0] == "mpi";
    bool const traces = arguments.size() > (over_mpi ? 1 : 0);
    auto all = traces ? read_videos(arguments.back()) : draw_videos();
    all.resize(std::min(all.size(), steps * ranks * samples_of_rank));
    auto const planned = plan_job(large_problem(all).problem, all);
    if (planned.units[0].pp != 1 || planned.units[1].pp >= staged_model::stages) {
      throw std::runtime_error("the small model has one stage of an encoder and three of an LLM");
    }
    double apart = 1;
    if (over_mpi) {
#ifdef ALL_FIVE_WITH_MPI
      on_processes("all_five", ranks,
                   [&](mpi_communicator& comm) { apart = difference(comm, planned, all); });
#else
      throw std::runtime_error("this build has no MPI; leave `mpi` out, and ranks are threads");
#endif
    } else {
      if (!show(planned, all, traces)) { return 1; }
      auto const of_ranks = run_ranks(
          ranks, [&](thread_communicator& comm) { return difference(comm, planned, all); });
      apart = std::ranges::max(of_ranks);
    }
    return apart < 1e-11 ? 0 : 1;  // of the largest
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "all_five: %s\n", problem.what()), 1;
  }
}
