// SPDX-License-Identifier: Apache-2.0
// DistTrain (Z. Zhang et al., SIGCOMM 2025, 4 to 6): an encoder and an LLM get GPUs and a
// parallelism of their own, brokers bring outputs to the LLM's replicas, over which the sequences
// of a step are spread, and every replica puts its microbatches in order. Assumed: times by
// formulas, and sequences of one length, so that an LLM of 8 billion takes equally long for each.
// Not shown: GPUs, data preprocessing, frozen modules, StepCCL.

#include "common/baselines/orchestrations.hpp"  // defines: baselines::monolithic
#include "common/pipeline_model.hpp"            // defines: pipeline_model::{step, rank_model, ...}
#include "common/split_gain.hpp"                // defines: split_backwards::planned, cost_of
#include "common/unit_training.hpp"  // defines: unit_training::{unit_job, is_one_rank, ...}

#include <ballast/comm.hpp>
#ifdef DISTTRAIN_WITH_MPI
#include "common/on_processes.hpp"  // defines: on_processes
#endif
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/route.hpp>
#include <ballast/runtime.hpp>
#include <ballast/text.hpp>
#include <ballast/text/read_file.hpp>
#include <ballast/topology.hpp>
#include <ballast/workload.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace ballast;
using namespace unit_training;

constexpr tokens sequence = 16'384;
constexpr std::uint32_t gpus = 104;
constexpr std::uint32_t batch = 512;  // sequences of a step
constexpr std::size_t steps = 8;

// A vision encoder of 0.6 billion parameters, an LLM of 8 billion.
constexpr char const* encoder = "transformer:d=1280,layers=32";
constexpr char const* llm =
    "transformer:d=4096,layers=32,heads=32,kv_heads=8,ffn=14336,gated=1,causal=1";

// Picoseconds at 200 TFLOP/s, both modules trained.
pass_costs price(char const* model)
{
  gamma_fit const gpu{.seconds_per_flop = 1 / 200e12, .gamma = 1};
  return price_passes(parse_cost_spec(model).value().forward, training_passes{},
                      [&](flop_polynomial flops) { return latency_cost(gpu, flops); })
      .value();
}

// The encoder sees tiles of 1024 patches, which become 256 tokens, each for itself.
constexpr tokens tile = 256;
tokens tiles_of(tokens visual)
{
  return (visual + tile - 1) / tile;
}

struct model_times {
  stage_time of_tile = price(encoder)(1024);
  stage_time sequence_in_llm = price(llm)(sequence);

  // On one GPU for each module.
  std::array<stage_time, 2> operator()(tokens visual) const
  {
    tokens const tiles = tiles_of(visual);
    return {stage_time{tiles * of_tile.forward, tiles * of_tile.backward}, sequence_in_llm};
  }
};

// A module on `tp` GPUs that share every product: as fast as so many, less 5 % for each doubling.
ratio efficiency(std::uint32_t tp)
{
  return {20, 20 + std::bit_width(tp) - 1};
}
time_units shared(time_units all, std::uint32_t tp)
{
  return all * efficiency(tp).denominator / (efficiency(tp).numerator * tp);
}

// Both modules, and what they take of each sequence; 16 bytes a parameter, of which replicas share
// 12.
class model_job {
 public:
  model_job(std::span<tokens const> sequences, model_times const& times_of)
  {
    tokens all = 0;
    for (tokens const visual : sequences) {
      sizes_.insert(sizes_.end(), {tiles_of(visual), 1});
      all += tiles_of(visual);
    }
    tokens const mean = all / static_cast<tokens>(sequences.size());
    modules_ = {module_of("vision", times_of.of_tile, 630'000'000, mean, 10'000'000'000),
                module_of("llm", times_of.sequence_in_llm, 8'000'000'000, 1, 40'000'000'000)};
  }

  [[nodiscard]] layout_problem problem() const
  {
    return {.modules = modules_,
            .sizes = sizes_,
            .global_batch = batch,
            .kinds = {{.gpus = gpus, .memory_bytes = 80'000'000'000}},
            .may_leave_gpus = true,
            .state = {.is_optimizer_shared = true}};
  }

 private:
  // A FLOP takes a picosecond on a GPU. Activations are those of a size.
  static module_profile module_of(char const* name, stage_time time, std::uint64_t parameters,
                                  tokens size, std::uint64_t activations)
  {
    module_profile module{.name = name, .layers = 32, .flops = {}, .degrees = {}};
    module.flops.linear = static_cast<std::uint64_t>(time.forward + time.backward);
    for (std::uint32_t const tp : {1U, 2U, 4U, 8U}) {
      profiled_degree degree;
      degree.tp = tp;
      degree.linear = degree.linear.scaled(efficiency(tp));
      degree.memory = {.layers = {16, 32},
                       .state_bytes = {8 * parameters / tp, 16 * parameters / tp},
                       .sizes = {0, size},
                       .activation_bytes = {{{0, activations / 2 / tp}, {0, activations / tp}}}};
      module.degrees.push_back(degree);
    }
    return module;
  }

  std::vector<module_profile> modules_;
  std::vector<tokens> sizes_;
};

struct gpu_time {
  double busy = 0;
  double paid = 0;
  double least_paid = 0;  // for these sequences in these replicas, whatever their order
};

// The layers of each stage.
std::vector<std::uint32_t> layers_of(module_layout const& unit)
{
  std::vector<std::uint32_t> layers;
  for (std::uint32_t stage = 0; stage < unit.pp; ++stage) {
    layers.push_back(static_cast<std::uint32_t>(chunk_of(32, unit.pp, stage).count));
  }
  return layers;
}

// How long each microbatch takes on each stage, for each replica of the LLM: one sequence in each,
// replica after replica. The encoder's replicas share the tiles of a sequence, or serve several.
std::vector<pipeline_times> replica_times(std::array<module_layout, 2> const& units,
                                          std::span<tokens const> step,
                                          std::span<sample_id const> by_replica,
                                          model_times const& times_of)
{
  auto const& [vision, language] = units;
  auto const on_units = [&](tokens visual) {
    auto [encoding, rest] = times_of(visual);
    for (time_units* const time : {&encoding.forward, &encoding.backward}) {
      *time = shared(*time, vision.tp) * language.dp / vision.dp;
    }
    for (time_units* const time : {&rest.forward, &rest.backward}) {
      *time = shared(*time, language.tp);
    }
    return std::array{encoding, rest};
  };
  std::vector<std::vector<std::uint32_t>> const layers = {layers_of(vision), layers_of(language)};
  std::vector<pipeline_times> all;
  std::size_t const of_replica = by_replica.size() / language.dp;
  for (auto left = by_replica; !left.empty(); left = left.subspan(of_replica)) {
    std::vector<std::array<sample_id, 1>> microbatches;
    for (sample_id const id : left.first(of_replica)) { microbatches.push_back({id}); }
    all.push_back(
        split_over_stages(sum_over_samples(microbatches, step, on_units).value(), layers));
  }
  return all;
}

// All replicas wait for the slowest.
template <order_policy Policy>
void train(gpu_time& spent, std::array<module_layout, 2> const& units,
           compiled_schedule const& schedule, std::span<tokens const> step,
           std::span<sample_id const> by_replica, model_times const& times_of, Policy const& policy)
{
  auto const& [vision, language] = units;
  time_units slowest = 0;
  time_units bound = 0;
  double busy = 0;
  for (auto const& times : replica_times(units, step, by_replica, times_of)) {
    auto const plan = order_microbatches(schedule, times, policy).value();
    slowest = std::max(slowest, plan.makespan);
    bound = std::max(bound, plan.lower_bound);
    for (std::size_t row = 0; row < times.rows.size(); ++row) {
      auto const [forward, backward] = times.rows[row];
      double const gpus_of_stage = row % times.stages < vision.pp
                                       ? static_cast<double>(vision.tp * vision.dp) / language.dp
                                       : language.tp;
      busy += static_cast<double>(forward + backward) * gpus_of_stage;
    }
  }
  auto const all = static_cast<double>(vision.gpus() + language.gpus());
  spent.busy += busy;
  spent.paid += static_cast<double>(slowest) * all;
  spent.least_paid += static_cast<double>(bound) * all;
}

compiled_schedule schedule_of(std::span<module_layout const> units, std::size_t microbatches)
{
  auto const stages =
      joined_stages({.encoders = {{units[0].pp}}, .llm = {units[1].pp}, .generators = {}}).value();
  return compiled_schedule(stages, one_forward_one_backward{}, microbatches);
}

// Sequences spread over the replicas of an LLM.
reordered_batch spread_over(std::span<tokens const> step, std::uint32_t replicas,
                            model_times const& times_of)
{
  auto const size_of = [&](tokens visual) { return times_of(visual)[0].forward; };
  return intra_reorder(step, one_gpu_bags(replicas), size_of, {.samples = counts::equal()}).value();
}

// What a step of a whole batch takes on units, as it is simulated.
double step_on_units(std::span<module_layout const> units, std::vector<tokens> sequences)
{
  model_times const times_of;
  std::array const given{units[0], units[1]};
  auto const schedule = schedule_of(units, batch / given[1].dp);
  gpu_time spent;
  random_source random(6);
  for (std::size_t number = 0; number < steps; ++number) {
    random.shuffle(std::span(sequences));
    auto const step = std::span(sequences).first(batch);
    auto const spread = spread_over(step, given[1].dp, times_of);
    train(spent, given, schedule, step, spread.order(), times_of, interval_filling{});
  }
  return spent.paid / static_cast<double>(given[0].gpus() + given[1].gpus());
}

// Ranks that only sleep, for a part of what is modelled; tp ranks are one.
struct sleeping_units {
  std::vector<pipeline_times> const& times;              // of each replica of the LLM
  std::vector<std::vector<microbatch_id>> const& order;  // likewise
  std::size_t replica;
  time_units faster;  // than modelled

  void forward(forward_call const& call) const { sleep(time(call).forward); }
  void backward(backward_call const& call) const { sleep(time(call).backward); }

 private:
  template <class Call>
  [[nodiscard]] stage_time time(Call const& call) const
  {
    return times[replica][order[replica][call.microbatch]][call.stage];
  }
  void sleep(time_units picoseconds) const
  {
    std::this_thread::sleep_for(std::chrono::nanoseconds(picoseconds / (1'000 * faster)));
  }
};

// Milliseconds of a step of these sequences on units, simulated and measured: each replica has an
// order of its own.
std::array<double, 2> run_units(std::span<module_layout const> given, std::span<tokens const> step,
                                time_units faster)
{
  std::array const units{given[0], given[1]};
  auto const& [vision, language] = units;
  std::uint32_t const parts = vision.dp / language.dp;  // of a sequence, one for each encoder
  if (parts * language.dp != vision.dp) { throw std::runtime_error("encoders serve several LLMs"); }
  model_times const times_of;
  auto const schedule = schedule_of(units, step.size() / language.dp);
  auto const times =
      replica_times(units, step, spread_over(step, language.dp, times_of).order(), times_of);
  time_units simulated = 0;
  std::vector<std::vector<microbatch_id>> orders;
  for (pipeline_times const& each : times) {
    auto plan = order_microbatches(schedule, each, interval_filling{}).value();
    simulated = std::max(simulated, plan.makespan);
    orders.push_back(std::move(plan.order));
  }
  process_grid const grid({{vision.dp, vision.pp, 1}, {language.dp, language.pp, 1}});
  pipeline_setup const setup{grid, schedule, std::vector(schedule.stages().links().size(), 16UL),
                             unit_strategy::brokers};
  std::vector<microbatch_id> position;  // of each part of a sequence
  std::vector<microbatch_id> in_order;
  for (std::uint32_t at = 0; at < schedule.microbatches(); ++at) {
    in_order.push_back(microbatch_id{at});
    position.insert(position.end(), vision.dp, microbatch_id{at});
  }
  pipeline_plan plan;
  plan.fill(
      setup, position, [](auto, auto) { return 1; },
      [&, vision_dp = vision.dp](std::size_t part, std::size_t module) {
        std::size_t const encoding = part % vision_dp;
        return module == 0 ? encoding : encoding / parts;
      });
  auto const measured = run_ranks(grid.ranks(), [&](thread_communicator& comm) {
    auto const place = grid.place(comm.rank());
    auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
    or_throw(runner.plan(plan));
    std::size_t const replica = place.module == 0 ? place.data / parts : place.data;
    or_throw(runner.run(comm, in_order, sleeping_units{times, orders, replica, faster}));
    return measured_timeline(comm, schedule, runner.measured()).value().makespan;
  });
  return {static_cast<double>(simulated / faster) / 1e9,
          static_cast<double>(measured.front()) / 1e6};
}

// Orchestrated units beside one parallelism for all, simulated and measured: the medians of steps.
void measure_units(model_layout const& found, model_layout const& one_for_all,
                   std::vector<tokens> sequences, std::size_t count, std::size_t tried,
                   time_units faster)
{
  std::array<std::array<std::vector<double>, 2>, 2> taken;  // by layout, simulated and measured
  random_source random(11);
  for (std::size_t step = 0; step < tried; ++step) {
    random.shuffle(std::span(sequences));
    auto const drawn = std::span(sequences).first(count);
    for (std::size_t layout = 0; layout < 2; ++layout) {
      auto const both = run_units((layout == 0 ? found : one_for_all).modules, drawn, faster);
      for (std::size_t each = 0; each < 2; ++each) { taken[layout][each].push_back(both[each]); }
    }
  }
  std::printf("Steps of %zu sequences, %d times as fast as modelled: simulated, measured\n", count,
              static_cast<int>(faster));
  auto const median = [&](std::size_t layout, std::size_t each) {
    std::ranges::sort(taken[layout][each]);
    return taken[layout][each][tried / 2];
  };
  for (std::size_t layout = 0; layout < 2; ++layout) {
    std::printf("%24s%10.1f ms%10.1f ms\n",
                layout == 0 ? "orchestrated" : "one parallelism for all", median(layout, 0),
                median(layout, 1));
  }
  std::printf("%24s%10.2f x %10.2f x\n", "faster", median(1, 0) / median(0, 0),
              median(1, 1) / median(0, 1));
}

// [disttrain]
// 4 and 5: units of their own, and sequences in random order, reordered over the replicas, and with
// the microbatches of a replica in order too: by interval filling, and by search.
std::array<gpu_time, 4> compare(layout_problem const& problem, std::vector<tokens> sequences,
                                std::size_t microbatches)
{
  auto const found = orchestrate(problem).value().layout.modules;  // 4.2 and 4.3
  std::array const units{found[0], found[1]};
  model_times const times_of;
  auto const schedule = schedule_of(units, microbatches);
  std::vector<sample_id> as_read(units[1].dp * microbatches);
  for (std::size_t i = 0; i < as_read.size(); ++i) { as_read[i] = to_id<sample_id>(i); }
  std::array<gpu_time, 4> spent;
  random_source random(1);
  for (std::size_t number = 0; number < steps; ++number) {
    random.shuffle(std::span(sequences));
    auto const step = std::span(sequences).first(as_read.size());
    auto const spread = spread_over(step, units[1].dp, times_of);  // 5.2
    train(spent[0], units, schedule, step, as_read, times_of, given_order{});
    train(spent[1], units, schedule, step, spread.order(), times_of, given_order{});
    train(spent[2], units, schedule, step, spread.order(), times_of, interval_filling{});  // 5.3
    train(spent[3], units, schedule, step, spread.order(), times_of,
          local_search{insertion{}, 10'000});
  }
  return spent;
}

// [disttrain]

// [disttrain_steps]
// 5: samples are spread over the LLM's replicas by their images, and each group of replicas has its
// microbatches in an order of its own.
template <order_policy Policy>
planned_step plan_step(unit_job const& job, pipeline_setup const& setup, std::size_t number,
                       Policy const& policy)
{
  auto const step = job.step_of(number);
  std::uint32_t const replicas = setup.grid[1].data;
  placement_limits const alike{.samples = counts::equal()};
  auto const spread =
      intra_reorder(step.images, one_gpu_bags(replicas), std::identity{}, alike).value();  // 5.2
  std::size_t const of_replica = step.images.size() / replicas;
  std::vector<microbatch_id> microbatch(step.images.size());
  std::vector<std::size_t> place(microbatch.size());  // in the new order
  for (std::size_t at = 0; at < place.size(); ++at) {
    std::size_t const sample = to_index(spread.order()[at]);
    place[sample] = at;
    microbatch[sample] =
        to_id<microbatch_id>(at % of_replica * job.layout.microbatches / of_replica);
  }
  planned_step planned;
  planned.samples.fill(setup, microbatch, job.rows_of(setup, step),
                       [&](std::size_t sample, std::size_t module) {
                         std::size_t const replica = place[sample] / of_replica;  // of the LLM
                         if (module == 1) { return replica; }
                         std::size_t const of_group = job.layout.modules[module].dp / job.groups();
                         return replica / (replicas / job.groups()) * of_group +
                                (place[sample] + replica) % of_group;
                       });
  planned.times = job.times_of(planned.samples, number);
  job.put_in_order(planned, policy);  // 5.3
  return planned;
}

// 4 and 6: one rank's part of a training, on the units that orchestration has found, with brokers
// between them. Tensor ranks share the heads and the hidden units of their stage.
template <class C, order_policy Policy>
pipeline_model::trained train_units(C& comm, unit_job const& job, Policy const& policy,
                                    measured_steps& beside)
{
  auto const setup = job.setup(unit_strategy::brokers);
  auto tensor = comm.split(setup.grid.colour(comm.rank(), grid_axis::tensor)).value();
  auto replicas = comm.split(setup.grid.colour(comm.rank(), grid_axis::data)).value();
  auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
  pipeline_model::rank_model model(setup, job.stages(), comm.rank(), tensor);
  pipeline_model::trained all;
  for (std::size_t number = 0; number < job.steps(); ++number) {
    auto const step = job.step_of(number);
    auto const planned = plan_step(job, setup, number, policy);
    or_throw(runner.plan(planned.samples));
    model.begin(step, planned.samples, job.taken(planned.times, setup.grid.place(comm.rank())));
    or_throw(runner.run(comm, job.in_order(), model));
    auto const ran = measured_timeline(comm, setup.schedule, runner.measured()).value();
    beside.note(planned.makespan, job.simulate(planned.times), 1'000 * ran.makespan);
    pipeline_model::finish_step(all, comm, replicas, setup.grid, runner.loss(), model);
  }
  return all;
}
// [disttrain_steps]

// A step whose tasks and order are planned together.
struct split_step {
  pipeline_times times;
  schedule_plan plan;
  compiled_schedule schedule;
};

// On units without replicas, by the times of whole backwards. Half of a backward is the gradients of
// weights; on the first stage, before which nothing is trained, all of it is.
split_step plan_split(pipeline_setup const& setup, pipeline_times times)
{
  stage_graph const& whole = setup.schedule.stages();
  std::vector<pipeline_stage> stages;
  for (std::size_t stage = 0; stage < times.stages; ++stage) {
    stages.push_back(whole[to_id<stage_id>(stage)]);
    stages.back().weights = stage > 0;
  }
  stage_graph const split(stages, {whole.links().begin(), whole.links().end()});
  // Every rank may keep as many microbatches as the fullest one does by 1F1B.
  pipeline_memory memory{std::vector(times.rows.size(), held_bytes{1, 1}), {}};
  memory.most.assign(split.ranks(), std::min(split.ranks(), times.microbatches()));
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    times.weights.push_back(row % times.stages > 0 ? times.rows[row].backward / 2 : 0);
    times.rows[row].backward -= times.weights[row];
  }
  auto plan = plan_schedule(split, times, memory).value();
  compiled_schedule const schedule(split, plan.schedule);
  return {std::move(times), std::move(plan), schedule};
}

// One rank's part of a training in which every step has a schedule of its own.
template <class C>
pipeline_model::trained train_split(C& comm, unit_job const& job, measured_steps& beside)
{
  auto setup = job.setup(unit_strategy::brokers);
  auto const whole = setup.schedule;
  auto const rank = to_index(comm.rank());
  auto alone = comm.split(static_cast<std::uint32_t>(rank))
                   .value();  // there are no tensor ranks and replicas
  pipeline_model::split_model<decltype(alone)> model(setup, job.stages(), comm.rank(), alone);
  pipeline_model::trained all;
  for (std::size_t number = 0; number < job.steps(); ++number) {
    auto const step = job.step_of(number);
    setup.schedule = whole;
    auto const planned = plan_step(job, setup, number, given_order{});
    auto const [times, plan, schedule] = plan_split(setup, planned.times.front());
    setup.schedule = schedule;
    auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
    or_throw(runner.plan(planned.samples));
    std::vector<stage_time> taken;  // in nanoseconds
    std::vector<time_units> weights;
    for (std::size_t row = rank; row < times.rows.size(); row += times.stages) {
      taken.push_back({times.rows[row].forward / 1'000, times.rows[row].backward / 1'000});
      weights.push_back(times.weights[row] / 1'000);
    }
    model.begin(step, planned.samples, std::move(taken));
    model.sleep_for_weights(std::move(weights));
    or_throw(runner.run(comm, plan.order, model));
    auto const ran = measured_timeline(comm, schedule, runner.measured()).value();
    beside.note(plan.makespan, simulate(schedule, times, plan.order).makespan,
                1'000 * ran.makespan);
    pipeline_model::finish_step(all, comm, alone, setup.grid, runner.loss(), model);
  }
  return all;
}

// An encoder, four layers of Llama-3 8B and a generator on eight GPUs.
struct small_job : unit_job {
  small_job(transformer_shape const& of_encoder, tokens patches, std::uint64_t memory,
            std::uint32_t most_tp = 4)
      : unit_job({first_layers("encoder", of_encoder, 4, patches, most_tp),
                  first_layers("llm", known_shape("llama3-8b"), 4, 0, most_tp),
                  first_layers("generator", known_shape("siglip-so400m"), 2, 729, most_tp)},
                 16, 4, memory)
  {
    problem.may_leave_gpus = true;
    layout = orchestrate(problem, {}, {.llm = 1}).value().layout;
  }
};

// Trains a job on its units; whether that is what one rank finds. train(comm, steps measured)
// returns what was trained.
template <class C, class Train>
bool train_on_units(C& comm, unit_job const& job, char const* name, Train const& train)
{
  measured_steps beside;
  bool const same = is_one_rank(comm, job, job.steps(), [&](C& own) { return train(own, beside); });
  if (to_index(comm.rank()) == 0) { beside.print(name); }
  return same;
}

// The same with an order of microbatches.
template <class C, order_policy Policy>
bool train_in_order(C& comm, unit_job const& job, char const* name, Policy const& policy)
{
  return train_on_units(comm, job, name, [&](C& own, measured_steps& beside) {
    return train_units(own, job, policy, beside);
  });
}

// A smaller and a larger encoder on GPUs of little memory, of which each gets units of its own, and
// trains on them; the smaller on larger GPUs, measured without tensor ranks; and on units of eight
// stages, where backwards in two parts are planned too.
template <class C>
bool train_jobs(C& comm)
{
  small_job const light(known_shape("siglip-so400m"), 729, 10'000'000'000);
  small_job const heavy(known_shape("internvit-6b"), 1024, 10'000'000'000);
  small_job const roomy(known_shape("siglip-so400m"), 729, 40'000'000'000, 1);
  small_job deep(known_shape("siglip-so400m"), 729, 40'000'000'000, 1);
  for (std::uint32_t module = 0; auto& own : deep.layout.modules) {
    own.dp = 1;
    own.pp = module++ == 1 ? 4 : 2;
  }
  deep.layout.microbatches = 8;
  bool same = are_told_apart(light, heavy, roomy);
  std::array<small_job const*, 4> const jobs{&light, &heavy, &roomy, &deep};
  for (auto const* const job : jobs) {
    if (to_index(comm.rank()) == 0) { std::printf("%s\n", text_of_units(*job).c_str()); }
    same = train_in_order(comm, *job, "as read", given_order{}) && same;
    same = train_in_order(comm, *job, "interval filling", interval_filling{}) && same;
    same = train_in_order(comm, *job, "search", local_search{insertion{}, 10'000}) && same;
  }
  auto const split = [&](C& own, measured_steps& beside) { return train_split(own, deep, beside); };
  return train_on_units(comm, deep, "split backwards, planned", split) && same;
}

struct document {
  tokens text = 0;
  tokens visual = 0;
};

std::vector<document> read(std::string const& path, std::string_view visual)
{
  auto const texts = read_file(path, read_length_trace, "text_tokens").value();
  auto const visuals = read_file(path, read_length_trace, visual).value();
  std::vector<document> all;
  for (std::size_t i = 0; i < texts.size(); ++i) { all.push_back({texts[i], visuals[i]}); }
  random_source random(2);  // a trace keeps the order of its source, so that neighbours are alike
  random.shuffle(std::span(all));
  return all;
}

std::vector<document> draw(std::size_t count, tokens text, tokens visual, std::uint64_t seed)
{
  random_source random(seed);
  clamped_lengths const texts{lognormal_lengths{.median = text, .sigma = 1.0}, 1, sequence};
  clamped_lengths const visuals{lognormal_lengths{.median = visual, .sigma = 1.0}, 1, sequence};
  std::vector<document> all(count);
  for (document& each : all) { each = {texts(random), visuals(random)}; }
  return all;
}

// Documents one after the other, each in the sequence that is open or else in a new one, cut where
// it is longer than a sequence. Returns the visual tokens of each sequence.
std::vector<tokens> pack(std::span<document const> documents)
{
  std::vector<tokens> sequences;
  tokens room = 0;
  for (auto const& [text, visual] : documents) {
    tokens const seen = std::min(visual, sequence);
    tokens const length = seen + std::min(text, sequence - seen);
    if (length > room) {
      sequences.push_back(0);
      room = sequence;
    }
    room -= length;
    sequences.back() += seen;
  }
  return sequences;
}

}  // namespace

// A small model trains on such units, with the losses and gradients of one rank by itself, and
// steps in three orders are measured beside simulated ones (`mpirun -np 8 disttrain mpi` trains it
// over MPI). Lengths are drawn, or read: disttrain DOCS.csv VIDEO.csv, the first with columns
// text_tokens and visual_tokens_qwen2vl, the second with text_tokens and video_tokens_qwen2vl.
// `disttrain units DOCS.csv VIDEO.csv` measures whole steps of the units alone, for a minute.
int main(int argc, char** argv)
{
#ifdef DISTTRAIN_WITH_MPI
  if (argc == 2 && std::string_view(argv[1]) == "mpi") {  // a process for each of eight ranks
    bool is_same = false;
    on_processes("disttrain", ranks, [&](mpi_communicator& comm) { is_same = train_jobs(comm); });
    return is_same ? 0 : 1;
  }
#endif
  bool const only_units = argc == 4 && std::string_view(argv[1]) == "units";
  try {
    if (!only_units) {
      auto const same =
          run_ranks(ranks, [](thread_communicator& comm) { return train_jobs(comm); });
      if (std::ranges::find(same, false) != same.end()) {
        throw std::runtime_error(
            "gradients are not one rank's, or two profiles get the same units");
      }
    }
    bool const real = argc >= 3;
    auto documents =
        real ? read(argv[argc - 2], "visual_tokens_qwen2vl") : draw(9'000, 900, 200, 3);
    auto videos = real ? read(argv[argc - 1], "video_tokens_qwen2vl") : draw(1'500, 30, 8'000, 4);
    // One to six documents, which gives an encoder stage about as much to do as a stage of the LLM.
    videos.resize(std::min(videos.size(), documents.size() / 6));
    documents.insert(documents.end(), videos.begin(), videos.end());
    random_source random(5);
    random.shuffle(std::span(documents));
    auto const sequences = pack(documents);
    model_job const job(sequences, model_times{});
    layout_problem const problem = job.problem();
    auto const found = orchestrate(problem).value().layout;
    auto const one_for_all =
        orchestrate(problem, {}, {.limits = baselines::monolithic()}).value().layout;
    for (std::size_t unit = 0; unit < found.modules.size(); ++unit) {
      auto const& own = found.modules[unit];
      std::printf("%s: %u GPUs, tp %u, pp %u, dp %u\n", problem.modules[unit].name.c_str(),
                  static_cast<unsigned>(own.gpus()), own.tp, own.pp, own.dp);
    }
    std::printf(
        "%.2f times as fast as one parallelism for all, which uses %u GPUs; simulated %.2f\n",
        static_cast<double>(one_for_all.step) / static_cast<double>(found.step),
        static_cast<unsigned>(one_for_all.gpus()),
        step_on_units(one_for_all.modules, sequences) / step_on_units(found.modules, sequences));
    if (only_units) { return measure_units(found, one_for_all, sequences, batch, 3, 4), 0; }
    measure_units(found, one_for_all, sequences, batch / 4, 1, 20);
    constexpr std::array<std::size_t, 4> microbatches = {8, 16, 32, 64};
    if (sequences.size() < found.modules[1].dp * microbatches.back()) {
      throw std::runtime_error("the traces have too few rows");
    }

    auto const step = std::span(problem.sizes).first(std::size_t{2} * batch);
    auto const whole = split_backwards::cost_of(problem, found, step);
    auto const split = split_backwards::cost_of(problem, split_backwards::planned(found), step);
    std::printf("%s backwards %.2f times as fast on the units, with %.0f GB instead of %.0f\n",
                real ? "on the page: split" : "split", whole.step / split.step, split.gigabytes,
                whole.gigabytes);
    std::printf("Idle GPU time, of all, %zu sequences%s\n", sequences.size(),
                real ? "" : "; lengths are drawn, not real");
    std::printf("%12s%12s%12s%12s%12s%12s%10s\n", "microbatches", "random", "intra", "+ interval",
                "+ search", "bound", "faster");
    std::string idle;
    double least = 1e9;
    double most = 0;
    for (std::size_t const count : microbatches) {
      auto const spent = compare(problem, sequences, count);
      std::printf("%12zu", count);
      for (auto const& [busy, paid, least_paid] : spent) {
        std::printf("%10.1f %%", 100 * (1 - busy / paid));
      }
      double const bound = 1 - spent[3].busy / spent[3].least_paid;
      double const faster = spent[0].paid / spent[3].paid;
      std::printf("%10.1f %%%8.2f x\n", 100 * bound, faster);
      least = std::min(least, faster);
      most = std::max(most, faster);
      std::array<char, 64> one{};
      std::snprintf(one.data(), one.size(), "%s%.1f to %.1f", idle.empty() ? "" : ", ",
                    100 * (1 - spent[0].busy / spent[0].paid),
                    100 * (1 - spent[2].busy / spent[2].paid));
      idle += one.data();
    }
    if (real) {  // what docs/notes/five_systems.md says, word for word
      std::printf("on the page: idle time %s %% with 8, 16, 32, 64 microbatches\n", idle.c_str());
      std::printf("on the page: intra and search %.2f to %.2f times\n", least, most);
    }
    return least > 1 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "disttrain: %s\n", problem.what()), 1;
  }
}
