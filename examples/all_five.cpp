// SPDX-License-Identifier: Apache-2.0
// All five systems in one training on eight ranks: DFLOP (arXiv 2603.25120, 3.3 and 3.4.1),
// KnapFormer (2508.06001, 3.2 to 3.4), OrchMLLM (2503.23830, 6), FlexRL (4.2, 4.3), DistTrain
// (SIGCOMM 2025, 5.3). Assumed: times of InternViT-6B and Llama-3 13B by formulas; a small model
// trains, one token in 512, one block a stage. Not shown: GPUs, tensor parallelism (bags and
// degrees instead), online correction, loaders. Videos: all_five [mpi] [NEXTQA.csv], or drawn.

#include "common/formula_profile.hpp"  // defines: dflop_models::profile_of
#include "common/listed.hpp"
#include "common/pipeline_training.hpp"  // defines: pipeline_model::{trained, difference, ...}
#include "common/split_gain.hpp"         // defines: split_backwards::search, cost_of
#include "common/staged_model.hpp"       // defines: staged_model::{microbatch, plan_of, rank_model}

#include <ballast/comm/gather_samples.hpp>
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/known_models.hpp>
#include <ballast/parallelism/choose_bags.hpp>
#include <ballast/parallelism/search_layouts.hpp>
#include <ballast/partition/greedy_knapsack.hpp>
#include <ballast/partition/refine.hpp>
#include <ballast/partition/round_robin.hpp>
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
#include <bit>
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
constexpr tokens scale = 512;
constexpr local_search search{insertion{}, 2000};  // for an order of the microbatches

/// Tokens that are computed of a video and of its text.
struct sample {
  tokens video = 0;
  tokens text = 0;
};

constexpr std::size_t of_step = ranks * samples_of_rank;
constexpr std::uint64_t nanoseconds = 1'000'000'000;
constexpr std::uint64_t call = 10'000;  // nanoseconds that an exchange takes beside its bytes
constexpr std::uint64_t passes = 3;     // forward, again for the backward, backward
constexpr std::uint64_t bf16_bytes = 2;

/// A model whose time is planned, and what of it a token of the small one stands for.
struct large_model {
  transformer_shape layers;

  /// Nanoseconds of a GPU for the tokens of a sample in so many layers.
  [[nodiscard]] quadratic_cost work(std::uint32_t count) const
  {
    transformer_shape some = layers;
    some.layers = count;
    some.vocabulary = 0;
    auto const flops = step_flops(forward_flops(some).value(), {.recompute = 1}).value();
    auto const time = [](std::uint64_t all, tokens times, double reached) {
      double const seconds = static_cast<double>(all) * static_cast<double>(times) / reached;
      return static_cast<std::uint64_t>(seconds * nanoseconds);
    };
    return {time(flops.linear, scale, dflop_models::reached),
            time(flops.quadratic, scale * scale, dflop_models::attention_reached)};
  }
  /// Bytes that a layer has of a token in one array.
  [[nodiscard]] std::uint64_t bytes() const { return layers.hidden * scale * bf16_bytes; }
};

large_model const encoder_model{known_shape("internvit-6b")};
large_model const llm_model{known_shape("llama3-13b")};

/// What is decided before the training, the same on every rank; as it is made, one rank alone.
struct job {
  std::vector<module_layout> units{{1, 1, 1}, {1, 1, 1}};
  std::uint32_t microbatches = 1;
  process_grid grid = process_grid({{1, 1, 1}});
  bag_layout bags = one_gpu_bags(1);
  bag_exchange_work exchanges{};
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
  template <partition_policy Policy = greedy_knapsack>
  [[nodiscard]] auto encoder(Policy policy = {}) const
  {
    phase own{bags, encoder_model.work(encoder_model.layers.layers), policy};
    own.ranks = ranks_of(0);
    return own;
  }
  [[nodiscard]] hybrid_phase llm() const
  {
    std::uint32_t const layers = llm_model.layers.layers / units[1].pp;
    auto const link = static_cast<std::uint64_t>(dflop_models::link);
    sharding_cost const cost{
        .work = llm_model.work(layers),
        .heads = shape.query_heads,
        .kv_heads = shape.kv_heads,
        .bytes_per_head = passes * layers * llm_model.bytes() / shape.query_heads,
        .within_node_bytes_per_second = link,
        .between_nodes_bytes_per_second = link,
        .units_per_second = nanoseconds,
        .latency = static_cast<cost_units>(2 * passes * layers * call),
        .whole_groups = true};
    return {.groups = groups, .cost = cost, .ranks = ranks_of(1)};
  }
};

/// What the layers of the encoder send in a bag, and videos on their way to it and back.
bag_traffic exchanged()
{
  return {.layers = encoder_model.layers.layers,
          .head_bytes_per_token_and_layer = passes * 4 * encoder_model.bytes(),
          .all_to_alls_per_layer = 2 * passes,
          .routed_bytes_per_token = 4 * encoder_model.bytes(),
          .routes = 4,
          .units_per_second = nanoseconds};
}

/// What each microbatch takes on each stage, whose GPUs wait for the slowest of them.
pipeline_times times_of(job const& planned, std::span<staged_model::microbatch const> data)
{
  return {data.size(), planned.units[1].pp + 1, [&](std::size_t number, std::size_t stage) {
            auto const& step = data[number].step;
            time_units most = stage == 0 ? 0 : step.sharded.makespan;
            auto const& encoder = step.modalities[0].planned;
            for (std::size_t bag = 0; stage == 0 && bag < planned.bags.size(); ++bag) {
              auto const id = to_id<bag_id>(bag);
              tokens all = 0;
              for (sample_id const each : encoder.samples[id]) { all += encoder.lengths[each]; }
              time_units const gpus = planned.bags[id].gpus;
              auto const size = static_cast<std::size_t>(std::bit_width(planned.bags[id].gpus) - 1);
              auto const sent = planned.exchanges.work(size, all, encoder.samples[id].size());
              most =
                  std::max(most, (encoder.loads[bag] + sent) / gpus + planned.exchanges.once[size]);
            }
            return stage_time{most / 3, most - most / 3};
          }};
}

/// What a sample takes encoder and LLM, if all GPUs of a stage share it.
struct sample_time {
  std::array<quadratic_cost, 2> work;
  std::array<cost_units, 2> gpus;

  std::array<stage_time, 2> operator()(std::span<tokens const, 2> sizes) const
  {
    auto const of = [](cost_units all) { return stage_time{all / 3, all - all / 3}; };
    return {of(work[0](sizes[0]) / gpus[0]), of(work[1](sizes[1]) / gpus[1])};
  }
};

/// The samples of each microbatch, so that the whole step is short.
class fill_microbatches {
 public:
  explicit fill_microbatches(job const& planned)
      : microbatches_(planned.microbatches), scheduler_(make(planned))
  {}

  std::vector<std::vector<sample_id>> operator()(std::span<sample const> batch)
  {
    std::vector<tokens> sizes;
    for (auto const& [video, text] : batch) { sizes.insert(sizes.end(), {video, video + text}); }
    or_throw(scheduler_(step_, sizes, 1, 0, {}));
    std::vector<std::vector<sample_id>> all;
    for (std::size_t each = 0; each < microbatches_; ++each) {
      auto const members = step_.microbatch(1, 0, each);
      all.emplace_back(members.begin(), members.end());
    }
    return all;
  }

 private:
  using scheduler = microbatch_scheduler<2, sample_time, local_search<>, refine<>>;

  static scheduler make(job const& planned)
  {
    std::uint32_t const stages = planned.units[1].pp;
    auto const graph = joined_stages({.encoders = {{1}}, .llm = {stages}, .generators = {}});
    scheduler_setup setup{
        compiled_schedule(graph.value(), one_forward_one_backward{}, planned.microbatches),
        {{1, {1}}, {1, std::vector(stages, 1U)}}};
    setup.simulated_tasks = 200'000;
    sample_time const times{
        {encoder_model.work(encoder_model.layers.layers), llm_model.work(llm_model.layers.layers)},
        {planned.gpus_of_stage(0), planned.gpus_of_stage(1)}};
    return scheduler::make(std::move(setup), times, {insertion{100}, 500}).value();
  }

  std::size_t microbatches_;
  scheduler scheduler_;
  scheduled_step<2> step_;
};

/// Batches as an encoder sees them: what its microbatches have.
std::vector<sample_batch> batches_of(job const& planned, std::span<sample const> data)
{
  std::vector<sample_batch> all;
  fill_microbatches fill(planned);
  for (std::size_t first = 0; first < data.size(); first += of_step) {
    auto const batch = data.subspan(first, of_step);
    for (auto const& microbatch : fill(batch)) {
      sample_batch& made = all.emplace_back();
      for (sample_id const each : microbatch) {
        made.lengths.push_back(batch[to_index(each)].video);
        made.source.push_back(rank_id{0});
      }
    }
  }
  return all;
}

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

/// Parts of the composition that may be left out.
struct choices {
  bool microbatches = true;  ///< filled by the scheduler, or by samples as they are read
  bool bags = true;          ///< chosen, or one GPU each
  bool knapsack = true;      ///< videos to bags by it, or in turn
  bool degrees = true;       ///< each sequence its own, or whole sequences
  bool order = true;         ///< searched, or as they are numbered
};

/// How long a step takes, in nanoseconds, as it is planned and simulated.
time_units simulate(job now, std::span<sample const> samples, choices const& with)
{
  if (!with.bags) { now.bags = one_gpu_bags(now.bags.gpus()); }
  if (!with.degrees) { now.groups = device_groups(now.groups.nodes(), 1); }
  gathered_samples<sample> batch{.ranks = ranks};
  std::vector<std::vector<sample_id>> filled(now.microbatches);
  for (std::size_t each = 0; each < of_step; ++each) {
    batch.samples.push_back(samples[each]);
    batch.source.push_back(to_id<rank_id>(each / samples_of_rank));
    filled[each % now.microbatches].push_back(to_id<sample_id>(each));
  }
  if (with.microbatches) { filled = fill_microbatches(now)(batch.samples); }
  workspace memory;
  std::vector<staged_model::microbatch> all(now.microbatches);
  auto const plan_by = [&](auto const& policy) {
    phase_planner const plan(std::tuple{now.encoder(policy)}, now.llm());
    for (std::size_t next = 0; next < all.size(); ++next) {
      gathered_samples<multimodal_samples::subsequence> read{.ranks = ranks};
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const id = to_id<rank_id>(rank);
        auto const own = own_part(batch, filled[next], id);
        read.samples.insert(read.samples.end(), own.entries().begin(), own.entries().end());
        read.source.resize(read.samples.size(), id);
      }
      or_throw(plan(all[next].step, memory, read, ranks, rank_id{0}));
    }
  };
  if (with.knapsack) {
    plan_by(greedy_knapsack{});
  } else {
    plan_by(round_robin{});
  }
  auto const schedule = now.setup().schedule;
  auto const times = times_of(now, all);
  return with.order ? order_microbatches(schedule, times, search).value().makespan
                    : order_microbatches(schedule, times, given_order{}).value().makespan;
}

/// Refuses layouts with other stages than the small model has.
result<void> stages_of_small_model(model_layout const& layout)
{
  if (layout.modules[1].pp < staged_model::stages) { return {}; }
  return tl::unexpected(
      error{error_code::infeasible, 1, "the small model has three stages of an LLM"});
}

// [all_five]
// KnapFormer: the encoder's GPUs are in bags, chosen from data for the balancer that will run.
// FlexRL: those of a stage of the LLM are in groups of every degree.
job job_of(model_layout const& layout, std::span<sample const> data)
{
  job made;
  made.units = layout.modules;
  made.microbatches = layout.microbatches;
  std::uint32_t const encoders = made.gpus_of_stage(0);
  std::uint32_t const of_stage = made.gpus_of_stage(1);
  made.grid = process_grid({{encoders, 1, 1}, {of_stage, made.units[1].pp, 1}});
  auto const machines = cluster_of(encoders).value();
  made.exchanges = price_bag_exchanges(exchanged(), machines).value();
  bag_search const no_copies{.largest_bag = shape.kv_heads, .short_ones = short_samples::admitted};
  auto const chosen = choose_bags(batches_of(made, data), machines, made.exchanges,
                                  made.encoder().cost_of, no_copies, greedy_knapsack{});
  made.bags = chosen.value().bags;
  made.groups = device_groups(node_sizes::equal(1, of_stage), shape.query_heads);
  return made;
}

// DFLOP: the search gives encoder and LLM their GPUs, stages and microbatches, by the step that
// will run: with bags, degrees and order of each layout.
job plan_job(layout_problem const& problem, std::span<sample const> data)
{
  auto const step = [&](model_layout const& layout, std::span<tokens const> sizes) {
    auto const batch = static_cast<std::size_t>(sizes.data() - problem.sizes.data()) / 2;
    return stages_of_small_model(layout).and_then([&] {
      return result<time_units>(1000 * simulate(job_of(layout, data), data.subspan(batch), {}));
    });
  };
  auto const found = search_layouts(
      problem, problem.sizes, {.limits = {.has_one_stage = true}, .step = step, .most_steps = 32});
  return job_of(found.value().layouts.at(0).layout, data);
}

// [all_five]

// What split backwards gain, each side with its best layout and samples dealt longest first.
void show_split(layout_problem const& problem, bool traces)
{
  layout_limits const limits{.has_one_stage = true};
  auto const best = search_layouts(problem, problem.sizes, {.limits = limits}).value();
  auto const of = [&](model_layout const& layout) {
    return split_backwards::cost_of(problem, layout, problem.sizes);
  };
  auto const whole = of(best.layouts.front().layout);
  auto const split = of(split_backwards::search(problem, problem.sizes, limits));
  std::printf("%s backwards %.2f times as fast, with %.0f GB instead of %.0f\n",
              traces ? "on the page: split" : "split", whole.step / split.step, split.gigabytes,
              whole.gigabytes);
}

// [all_five_steps]
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
    // OrchMLLM: each microbatch is a step; while its inputs go to phases, the next is planned.
    std::vector<staged_model::microbatch> data(planned.microbatches);
    or_throw(step.submit(own(0)));
    for (std::size_t next = 0; next < data.size(); ++next) {
      auto& now = data[next];
      or_throw(step.next());
      if (next + 1 < data.size()) { or_throw(step.submit(own(next + 1))); }
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
// [all_five_steps]

/// How long the steps of a training take in the mean, in nanoseconds.
double simulate_steps(job const& planned, std::span<sample const> data, choices const& with)
{
  double sum = 0;
  for (std::size_t number = 0; number < steps; ++number) {
    auto const batch = data.subspan(number * of_step, of_step);
    sum += static_cast<double>(simulate(planned, batch, with)) / steps;
  }
  return sum;
}

/// Prints what is decided before the training, and how much longer a step takes without its parts;
/// of traces as docs/notes/five_systems.md has it. Returns whether it is longer without all of them.
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
  std::printf("encoder %s, in bags %s; LLM %s; %u microbatches\n",
              text_of(planned.units[0]).c_str(), bags.c_str(), text_of(planned.units[1]).c_str(),
              planned.microbatches);
  double const whole = simulate_steps(planned, data, {});
  std::vector<double> longer;
  for (choices const& without :
       {choices{.microbatches = false}, choices{.order = false},
        choices{.microbatches = false, .order = false}, choices{.bags = false},
        choices{.knapsack = false}, choices{.degrees = false},
        choices{false, false, false, false, false}}) {
    longer.push_back(simulate_steps(planned, data, without) / whole);
  }
  std::printf(
      "%swithout filling, order, both, bags, balancer, degrees, all five %s times as long\n",
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
  std::vector<sample> all(steps * of_step);
  for (sample& each : all) {
    tokens const video = videos(random) / scale;
    each = {video, 1 + static_cast<tokens>(random.below(4))};
  }
  return all;
}

/// InternViT-6B and Llama-3 13B on eight GPUs of 80 GB, in their own lengths.
struct large_problem {
  std::array<module_profile, 2> modules{
      dflop_models::profile_of("vision", encoder_model.layers, 0, true),
      dflop_models::profile_of("llm", llm_model.layers, 0, true)};
  std::vector<tokens> sizes;
  layout_problem problem;

  explicit large_problem(std::span<sample const> data)
  {
    for (auto const& [video, text] : data) {
      sizes.insert(sizes.end(), {scale * video, scale * (video + text)});
    }
    problem.modules = modules;
    problem.sizes = sizes;
    problem.global_batch = of_step;
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
  one.microbatches = planned.microbatches;
  return pipeline_model::difference(comm, planned.grid, [&](auto& own, bool alone) {
    return train(own, alone ? one : planned, [&](std::size_t step) {
      std::size_t const of_rank = alone ? of_step : samples_of_rank;
      std::size_t const first = step * of_step + to_index(own.rank()) * of_rank;
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
    all.resize(std::min(all.size(), steps * of_step));
    auto const planned = plan_job(large_problem(all).problem, all);
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
      show_split(large_problem(all).problem, traces);
      auto const of_ranks = run_ranks(
          ranks, [&](thread_communicator& comm) { return difference(comm, planned, all); });
      apart = std::ranges::max(of_ranks);
    }
    return apart < 1e-11 ? 0 : 1;  // of the largest
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "all_five: %s\n", problem.what()), 1;
  }
}
