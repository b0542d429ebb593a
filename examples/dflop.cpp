// SPDX-License-Identifier: Apache-2.0
// DFLOP (H. An et al., arXiv 2603.25120, 3.3, 3.4 and 4): a layout for each module, chosen from
// profiles and data, and a scheduler that plans every batch while the last one runs, so that all
// microbatches take about as long in the encoder as in the LLM. A small model trains on such a
// layout. Assumed: times by formulas, other traces than the paper's data. Not shown: GPUs, measured
// profiles, hours of training.

#include "common/baselines/orchestrations.hpp"  // defines: baselines::homogeneous
#include "common/dflop_models.hpp"
#include "common/dflop_training.hpp"  // defines: dflop_training::small_job
#include "common/listed.hpp"
#include "common/split_gain.hpp"  // defines: split_backwards::search, cost_of

#include <ballast/comm.hpp>
#ifdef DFLOP_WITH_MPI
#include "common/on_processes.hpp"  // defines: on_processes
#endif
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/report.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace ballast;
using namespace dflop_models;

constexpr std::size_t steps = 4;

struct training {
  model_layout layout;
  double step = 0;                     // seconds of a mean step
  double busy = 0;                     // seconds of all GPUs in it
  std::vector<pipeline_times> last{};  // of the pipelines of the last step
};

// The same layouts with each way of filling microbatches: as samples are read, dealt longest first,
// and by the scheduler.
struct ablation {
  training as_read, dealt, scheduled;
  double unscheduled = 0;  // a step of the scheduled layout with samples as they are read
};

// [dflop]
constexpr local_search ordering{insertion{500}, 1'000};  // of the microbatches

// 3.3, the optimizer: the layout with the shortest simulated step, each module its own; with limits,
// that of a baseline. Samples are as they are read, dealt longest first, or as the scheduler has them.
enum class filled { as_read, longest_first, scheduled };
model_layout search(layout_problem const& problem, std::span<tokens const> batches,
                    layout_limits const& limits, filled how)
{
  layout_search_options asked{.limits = limits};
  if (how == filled::as_read) { asked.dealing = sample_dealing::as_drawn; }
  if (how == filled::scheduled) {
    asked.step = scheduled_steps<2>(problem, ordering);
    asked.most_steps = 32;  // four times as many as by default: nobody waits for a step here
  }
  return search_layouts(problem, batches, asked).value().layouts.front().layout;
}

// 3.4, the scheduler: trains on real batches; each is planned while the one before it runs.
training train(layout_problem const& problem, model_layout const& layout,
               std::span<tokens const> batches)
{
  online_scheduler next(schedule_layout<2>(problem, layout, ordering).value());
  std::size_t const of_batch = batches.size() / steps;
  or_throw(next.submit(batches.first(of_batch)));
  training all{layout};
  for (std::size_t step = 0; step < steps; ++step) {
    auto const* const plan = next.take().value();
    or_throw(next.submit(batches.subspan((step + 1) % steps * of_batch, of_batch)));
    auto const sizes = batches.subspan(step * of_batch, of_batch);
    auto const ran = simulate_step(problem, layout, *plan, sizes).value();
    all.step += static_cast<double>(ran.makespan) * 1e-12 / steps;
    all.busy += static_cast<double>(ran.busy) * 1e-12 / steps;
    all.last = plan->times;
  }
  return all;
}

// 5.3.2: the best of layouts for each way of filling microbatches, chosen on some batches and
// reported on others.
ablation best_of(layout_problem const& problem, layout_limits const& limits,
                 std::span<tokens const> chosen_on, std::span<tokens const> reported_on)
{
  auto const simulate = [&](model_layout const& layout, sample_dealing dealing) {
    auto const step = simulate_layout(problem, layout, reported_on, dealing).value();
    return static_cast<double>(step) * 1e-12;
  };
  auto const chosen = [&](filled how) { return search(problem, chosen_on, limits, how); };
  model_layout const slow = chosen(filled::as_read);
  model_layout const dealt = chosen(filled::longest_first);
  model_layout const best = chosen(filled::scheduled);
  return {{slow, simulate(slow, sample_dealing::as_drawn)},
          {dealt, simulate(dealt, sample_dealing::longest_first)},
          train(problem, best, reported_on),
          simulate(best, sample_dealing::as_drawn)};
}
// [dflop]

// How fast the stages of a layout compute while they do not wait, in TFLOP/s of a GPU, on a batch
// that takes its pipelines so long: DFLOP's Figure 14.
report::stage_rates rates_of(layout_problem const& problem, model_layout const& layout,
                             std::span<pipeline_times const> pipelines,
                             std::span<tokens const> sizes)
{
  std::vector<double> work, busy;
  std::size_t first = 0;  // of a module's stages in a pipeline
  for (std::size_t module = 0; module < layout.modules.size(); ++module) {
    module_layout const& unit = layout.modules[module];
    double all = 0;
    for (std::size_t at = module; at < sizes.size(); at += layout.modules.size()) {
      all += static_cast<double>(problem.modules[module].flops.exact(sizes[at])) * 1e-12;
    }
    auto const layers = layout_pipeline(problem, layout).stage_costs(module);
    auto const of_all = std::accumulate(layers.begin(), layers.end(), 0.0);
    std::size_t const replicas = unit.dp / pipelines.size();
    for (std::size_t stage = 0; stage < unit.pp; ++stage) {
      work.push_back(all * layers[stage] / of_all / (unit.group() * unit.dp));
      busy.push_back(0);
      for (pipeline_times const& times : pipelines) {
        for (std::size_t row = 0; row < times.rows.size(); row += times.stages) {
          for (std::size_t replica = 0; replica < replicas; ++replica) {
            auto const [forward, backward] = times.rows[row + first + replica * unit.pp + stage];
            busy.back() += static_cast<double>(forward + backward) * 1e-12 / unit.dp;
          }
        }
      }
    }
    first += replicas * unit.pp;
  }
  double const step = *std::max_element(busy.begin(), busy.end());
  std::vector<double> idle;
  for (double const each : busy) { idle.push_back(step - each); }
  return report::measure_stages(work, idle, step);
}

struct comparison {
  ablation homogeneous;  // one tp and one dp for all modules
  ablation searched;     // each module its own
  // Of stages: one tp and dp as read, the same scheduled, each its own and scheduled.
  std::array<report::stage_rates, 3> rates{};
};

/// A model on GPUs of 80 GB, batches on which layouts are chosen, and others.
struct job {
  std::vector<tokens> chosen_on, reported_on, sizes;
  layout_problem problem;

  job(dflop_model const& model, std::uint32_t gpus, std::uint32_t of_step)
      : chosen_on(draw_mix(model.kinds, 12, 2)), reported_on(draw_mix(model.kinds, 12, 3))
  {
    chosen_on.resize(steps * of_step * 2);
    reported_on.resize(steps * of_step * 2);
    sizes = chosen_on;
    sizes.insert(sizes.end(), {0, 0});
    for (std::size_t at = 0; at < reported_on.size(); ++at) {  // memory must hold the largest
      tokens& largest = sizes[chosen_on.size() + at % 2];
      largest = std::max(largest, reported_on[at]);
    }
    problem.modules = model.modules;
    problem.sizes = sizes;
    problem.global_batch = of_step;
    problem.kinds[0].gpus = gpus;
    problem.kinds[0].memory_bytes = 80'000'000'000;
  }
};

// How many times as fast the best layout is as the best with one tp and dp, both with the scheduler.
double gain_of_layout(dflop_model const& model, std::uint32_t gpus, std::uint32_t of_step)
{
  job const made(model, gpus, of_step);
  auto const step = [&](layout_limits const& limits) {
    auto const best = search(made.problem, made.chosen_on, limits, filled::scheduled);
    return train(made.problem, best, made.reported_on).step;
  };
  return step(baselines::homogeneous()) / step({});
}

// Where a layout for each module gains more than 1.05 once both are scheduled: on 32 GPUs, by the
// samples of a step and, in per cent, those of them that have images.
void show_gains(dflop_model const* audio, std::array<std::vector<raw_input>, 3> const& raw,
                bool some)
{
  std::string where;
  for (std::size_t const share : {10U, 50U, 90U}) {
    if ((audio != nullptr || some) && share > 10) { break; }
    std::vector<double> gains;
    for (std::uint32_t const of_step : {32U, 64U, 128U, 256U, 512U}) {
      dflop_model const model =
          audio != nullptr ? *audio : three_models(with_images(raw, share))[0];
      gains.push_back(gain_of_layout(model, 32, of_step));
      std::string const at = audio != nullptr ? "" : std::to_string(share) + " % ";
      if (gains.back() > 1.05) {
        where += (where.empty() ? "" : ", ") + at + "x " + std::to_string(of_step);
      }
    }
    std::string const of = audio != nullptr ? "Qwen2-Audio" : std::to_string(share) + " % images";
    std::printf("on the page: %s %s\n", of.c_str(), ::listed(gains).c_str());
  }
  std::printf("more than 1.05 times: %s\n", where.empty() ? "nowhere" : where.c_str());
}

// Not in the paper: what split backwards gain, each side with its best layout and samples dealt longest
// first, chosen on some batches and reported on others.
void show_split(std::vector<std::pair<dflop_model, std::uint32_t>> const& shown)
{
  std::vector<double> gains, whole_gb, split_gb;
  for (auto const& [model, gpus] : shown) {
    job const made(model, gpus, batch);
    auto const of = [&](model_layout const& layout) {
      return split_backwards::cost_of(made.problem, layout, made.reported_on);
    };
    auto const whole = of(search(made.problem, made.chosen_on, {}, filled::longest_first));
    auto const split = of(split_backwards::search(made.problem, made.chosen_on));
    gains.push_back(whole.step / split.step);
    whole_gb.push_back(whole.gigabytes);
    split_gb.push_back(split.gigabytes);
  }
  std::printf("on the page: split backwards %s times, with %s GB instead of %s\n",
              ::listed(gains).c_str(), ::listed(split_gb, 0).c_str(),
              ::listed(whole_gb, 0).c_str());
}

comparison compare(dflop_model const& model, std::uint32_t gpus)
{
  job const made(model, gpus, batch);
  layout_problem const& problem = made.problem;
  comparison all{best_of(problem, baselines::homogeneous(), made.chosen_on, made.reported_on),
                 best_of(problem, {}, made.chosen_on, made.reported_on)};
  auto const last = std::span(made.reported_on).last(std::size_t{2} * batch);
  auto const& slow = all.homogeneous.as_read.layout;
  layout_pipeline const pipeline(problem, slow);
  std::vector<pipeline_times> as_read;
  for (std::uint32_t group = 0; group < pipeline.groups(); ++group) {
    as_read.push_back(pipeline.times(last, group));
  }
  training const& even = all.homogeneous.scheduled;
  training const& best = all.searched.scheduled;
  all.rates = {rates_of(problem, slow, as_read, last),
               rates_of(problem, even.layout, even.last, last),
               rates_of(problem, best.layout, best.last, last)};
  return all;
}

// [dflop_steps]
// 3.4.2 to 4: one rank's part of a training. Each step is planned while the one before it runs, from
// costs that measured times have corrected, and runs on the modules' own ranks. 3.2.3: from the same
// times, whether another layout would pay.
template <class C>
pipeline_model::trained train_modules(C& comm, dflop_training::small_job const& small,
                                      std::array<unit_training::measured_steps, 2>& beside,
                                      std::optional<layout_change>& change)
{
  constexpr time_units minute = 60'000'000'000'000;
  layout_review review(small.problem, small.layout, {.steps_left = 1'000'000, .restart = minute});
  local_search const order{insertion{100}, 200};
  online_scheduler next(schedule_layout<2>(small.problem, small.layout, order).value());
  adaptive_correction correction(small.module_of_rank(), {.interval = 4});
  auto const setup = small.setup(unit_strategy::one_rank);
  auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
  auto tensor = comm.split(setup.grid.colour(comm.rank(), grid_axis::tensor)).value();
  auto replicas = comm.split(setup.grid.colour(comm.rank(), grid_axis::data)).value();
  pipeline_model::rank_model model(setup, small.stages(), comm.rank(), tensor);
  pipeline_model::trained all;
  pipeline_plan samples;
  or_throw(next.submit(small.sizes_of(0)));
  for (std::size_t number = 0; number < dflop_training::steps; ++number) {
    auto const* const plan = next.take().value();
    next.correct(correction.factors());
    or_throw(next.submit(small.sizes_of(number + 1)));

    auto const step = small.step_of(number);
    samples.fill(setup, *plan, small.rows_of(setup, step));
    or_throw(runner.plan(samples));
    auto const times = small.times_of(*plan, number);  // slower than planned
    model.begin(step, samples, small.taken(times, setup.grid.place(comm.rank())));
    or_throw(runner.run(comm, small.in_order(), model));

    auto const ran = measured_timeline(comm, setup.schedule, runner.measured()).value();
    auto calls = measured_microbatches(comm, setup.grid, setup.schedule, runner.measured()).value();
    for (time_units& each : calls) { each *= 1'000; }  // plans are in picoseconds
    if (!correction.tracking()) { calls.clear(); }
    or_throw(correction.finish_step(*plan, 1'000 * ran.makespan, calls));
    auto const [planned, took] = small.module_times(*plan, times);
    auto const told = review.finish_step(planned, took, small.sizes_of(number)).value();
    if (told) { change = told; }
    beside[plan->corrected ? 1 : 0].note(plan->makespan, small.simulate(times),
                                         1'000 * ran.makespan);
    pipeline_model::finish_step(all, comm, replicas, setup.grid, runner.loss(), model);
  }
  return all;
}
// [dflop_steps]

// Trains on a layout; whether that is what one rank by itself finds.
template <class C>
bool train_on_layout(C& comm, dflop_training::small_job const& small)
{
  bool const prints = to_index(comm.rank()) == 0;
  if (prints) { std::printf("%s\n", text_of_units(small).c_str()); }
  std::array<unit_training::measured_steps, 2> beside;
  std::optional<layout_change> change;
  bool const same = is_one_rank(comm, small, dflop_training::steps,
                                [&](C& own) { return train_modules(own, small, beside, change); });
  if (prints) {
    beside[0].print("as profiled");
    beside[1].print("with costs corrected");
    if (change) {
      std::printf("  a layout of %s, %s would take %.2f times as long and pays after %llu steps\n",
                  text_of(change->layout.modules[0]).c_str(),
                  text_of(change->layout.modules[1]).c_str(),
                  static_cast<double>(change->after) / static_cast<double>(change->before),
                  static_cast<unsigned long long>(change->pays_after()));
    }
  }
  return same;
}

// A smaller and a larger encoder on GPUs of little memory, of which each gets a layout of its own,
// and trains on it; and the smaller on larger GPUs, measured without tensor ranks.
template <class C>
bool train_three(C& comm)
{
  dflop_training::small_job const light(known_shape("siglip-so400m"), 729, 6'000'000'000);
  dflop_training::small_job const heavy(known_shape("internvit-6b"), 1024, 6'000'000'000);
  dflop_training::small_job const roomy(known_shape("siglip-so400m"), 729, 40'000'000'000, 1);
  bool same = are_told_apart(light, heavy, roomy);
  for (auto const* const each : {&light, &heavy, &roomy}) {
    same = train_on_layout(comm, *each) && same;
  }
  return same;
}

double idle(training const& of, double step, std::uint32_t gpus)
{
  return 1 - of.busy / (gpus * step);
}

// What an ablation comes to, as docs/notes/five_systems.md has it: how many times as fast.
struct gains {
  double searched = 0;          // as read
  double scheduled = 0;         // one tp and one dp
  double both = 0;              // the whole of DFLOP
  double less_idle = 0;         // per cent
  double share_of_encoder = 0;  // per cent
  // TFLOP/s of a GPU: the mean of the stages and how far they are apart, in the base and in DFLOP.
  double base_rate = 0, base_spread = 0, rate = 0, spread = 0;
};

// Prints the ablation of a model.
gains show(dflop_model const& model, std::uint32_t gpus)
{
  auto const [homogeneous, searched, rates] = compare(model, gpus);
  double const base = homogeneous.as_read.step;
  double const share = 100 * share_of_encoder(model);
  std::printf("%s on %u GPUs, %.0f %% of the FLOP in the encoder\n", model.name.c_str(), gpus,
              share);
  for (auto const& [what, of] :
       {std::pair{"one tp, one dp", &homogeneous}, {"each its own", &searched}}) {
    for (auto const& [how, each] : {std::pair{"as read", &of->as_read},
                                    {"longest first", &of->dealt},
                                    {"scheduled", &of->scheduled}}) {
      std::printf("  %-16s%-16s%24s%8.2f s%8.2f x\n", what, how, text_of(each->layout).c_str(),
                  each->step, base / each->step);
    }
  }
  for (auto const& [what, of] : {std::pair{"one tp, one dp, as read", &rates[0]},
                                 {"the same, scheduled", &rates[1]},
                                 {"each its own, scheduled", &rates[2]}}) {
    std::printf("  stages of %-24s compute %.0f TFLOP/s a GPU, with a spread of %.0f\n", what,
                of->mean, of->spread);
  }
  double const before = idle(searched.scheduled, searched.unscheduled, gpus);
  double const after = idle(searched.scheduled, searched.scheduled.step, gpus);
  double const less_idle =
      100 * (1 - after * searched.scheduled.step / (before * searched.unscheduled));
  std::printf(
      "  GPUs of the last are idle %.1f %% of the time, with samples as read %.1f %%: %.1f %% less "
      "idle time\n",
      100 * after, 100 * before, less_idle);
  return {base / searched.as_read.step,
          base / homogeneous.scheduled.step,
          base / searched.scheduled.step,
          less_idle,
          share,
          rates[0].mean,
          rates[0].spread,
          rates[2].mean,
          rates[2].spread};
}

// One gain of every ablation.
std::string listed(std::vector<gains> const& all, double gains::* member, int digits = 2)
{
  std::vector<double> values;
  for (gains const& each : all) { values.push_back(each.*member); }
  return ::listed(values, digits);
}

}  // namespace

// Steps in simulation on 64 GPUs, of the best layout with one tp and dp for all modules and of the
// best of all, with samples as they are read, dealt longest first and scheduled, beside the paper's
// 1.2 to 3.6 times; and how much less GPUs are idle, beside the 82 to 84 % of its Figure 13: dflop
// ONE.csv SEVERAL.csv VIDEO.csv, the first with columns width, height and caption_tokens_sum, the
// second with text_tokens and image_dims, the third with text_tokens, answer_tokens and
// frame_count; `data` behind them has each kind of data by itself, `nodes` 8 to 128 GPUs. dflop
// AUDIO.csv, with audio_tokens_25hz and text_tokens, has Qwen2-Audio; `gains` behind either prints
// where a layout for each module pays; `some_nodes` and `some_gains` are what takes least of them.
// Without files, eight ranks train a small model, its steps planned while others run, by measured
// times (over MPI: mpirun -np 8 dflop mpi); losses and gradients are those of one rank by itself.
int main(int argc, char** argv)
{
#ifdef DFLOP_WITH_MPI
  if (argc == 2 && std::string_view(argv[1]) == "mpi") {  // a process for each of eight ranks
    bool same = false;
    on_processes("dflop", unit_training::ranks,
                 [&](mpi_communicator& comm) { same = train_three(comm); });
    return same ? 0 : 1;
  }
#endif
  try {
    if (argc == 1) {
      auto const same = run_ranks(unit_training::ranks,
                                  [](thread_communicator& comm) { return train_three(comm); });
      if (std::ranges::find(same, false) != same.end()) {
        throw std::runtime_error("gradients are not one rank's, or two profiles get one layout");
      }
      return 0;
    }
    std::string_view what = argc == 5 || argc == 3 ? argv[argc - 1] : argc == 4 ? "models" : "";
    bool const some = what.starts_with("some_");
    if (some) { what.remove_prefix(5); }
    bool const audio = argc <= 3;
    bool const is_known =
        what == "gains" ||
        (audio ? what.empty() : what == "models" || what == "data" || what == "nodes");
    if (!is_known) {
      return std::fputs(
                 "dflop: give AUDIO.csv [gains], or ONE.csv SEVERAL.csv VIDEO.csv "
                 "[data|nodes|gains]\n",
                 stderr),
             2;
    }
    if (what == "gains" && audio) {
      dflop_model const model = audio_model(argv[1]);
      return show_gains(&model, {}, some), 0;
    }
    if (what == "gains") {
      return show_gains(nullptr, load_three_kinds(argv[1], argv[2], argv[3]), some), 0;
    }
    std::printf("tp.pp.dp of encoder and LLM x microbatches; seconds of a step of %u samples\n\n",
                batch);
    std::vector<std::pair<dflop_model, std::uint32_t>> shown;
    if (audio) {
      shown.emplace_back(audio_model(argv[1]), 32);
    } else {
      auto const models = three_models(load_three_kinds(argv[1], argv[2], argv[3]));
      auto const& [name, modules, kinds] = models[0];
      if (what == "data") {
        shown.emplace_back(
            dflop_model{name + ", one image", modules, {kinds[0], kinds[0], kinds[0]}}, 32);
        shown.emplace_back(dflop_model{name + ", images", modules, {kinds[1], kinds[1], kinds[1]}},
                           32);
        shown.emplace_back(dflop_model{name + ", video", modules, {kinds[2], kinds[2], kinds[2]}},
                           32);
        shown.emplace_back(models[0], 32);
      } else if (what == "nodes") {
        for (std::uint32_t const gpus : {8U, 16U, 32U, 64U, 128U}) {
          if (some && gpus > 32) { break; }
          shown.emplace_back(models[0], gpus);
        }
      } else {
        for (dflop_model const& each : models) { shown.emplace_back(each, 64); }
      }
    }
    std::vector<gains> found;
    for (auto const& [model, gpus] : shown) { found.push_back(show(model, gpus)); }
    std::string const both = listed(found, &gains::both);
    std::string const scheduled = listed(found, &gains::scheduled);
    std::printf("\nin the paper: 1.2 to 3.6 x (audio 2 to 4 x), and 82 to 84 %% less idle time\n");
    if (audio) {  // Figure 9
      std::printf("on the page: %s times; the other layout with the scheduler %s\n", both.c_str(),
                  scheduled.c_str());
    } else if (what == "data") {  // Figure 11
      std::printf("on the page: %s times (one image, several, video, all)\n", both.c_str());
    } else if (what == "nodes" && some) {
      std::printf("on the page: %s,\n", both.c_str());
    } else if (what == "nodes") {  // Figure 12
      std::printf("on the page: %s times on 1, 2, 4, 8, 16 nodes\n", both.c_str());
    } else {  // Figures 7, 10, 8, 13 and 14
      std::printf("on the page: %s times the best layout with one `tp` and `dp`\n", both.c_str());
      std::printf("on the page: optimizer %s times, both %s; **scheduler alone %s**\n",
                  listed(found, &gains::searched).c_str(), both.c_str(), scheduled.c_str());
      std::printf("on the page: the encoder has %s %% of the FLOP\n",
                  listed(found, &gains::share_of_encoder, 0).c_str());
      std::printf("on the page: With searched layouts %s %%\n",
                  listed(found, &gains::less_idle, 1).c_str());
      std::printf("on the page: %s TFLOP/s instead of %s, with a spread of %s instead of %s\n",
                  listed(found, &gains::rate, 0).c_str(),
                  listed(found, &gains::base_rate, 0).c_str(),
                  listed(found, &gains::spread, 0).c_str(),
                  listed(found, &gains::base_spread, 0).c_str());  // Figure 14
      show_split(shown);
    }
    return std::ranges::min(found, {}, &gains::both).both > 1 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "dflop: %s\n", problem.what()), 1;
  }
}
