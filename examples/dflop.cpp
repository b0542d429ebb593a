// SPDX-License-Identifier: Apache-2.0
// DFLOP (H. An et al., arXiv 2603.25120), whole: a layout for each module, chosen from profiles and
// data, and a scheduler that plans every batch while the last one runs, so that all microbatches
// take about as long in the encoder as in the LLM. Steps in simulation on 64 GPUs, of the best
// layout with one tp and dp for all modules, of the best of all, and of the best with the
// scheduler, beside the paper's 1.2 to 3.6 times; and how much less GPUs are idle with the
// scheduler, beside the 82 to 84 % of its Figure 13: dflop ONE.csv SEVERAL.csv VIDEO.csv, the first
// with columns width, height and caption_tokens_sum, the second with text_tokens and image_dims,
// the third with text_tokens, answer_tokens and frame_count. And a small model that trains on such
// a layout, its steps planned while others run, by measured times (dflop without files, or over
// MPI: mpirun -np 8 dflop mpi); losses and gradients are those of one rank by itself.

#include "common/dflop_models.hpp"
#include "common/dflop_training.hpp"     // defines: dflop_training::{small_problem, taken, ...}
#include "common/pipeline_training.hpp"  // defines: pipeline_model::{trained, difference, ...}

#include <ballast/comm.hpp>
#ifdef DFLOP_WITH_MPI
#include <ballast/comm/mpi_communicator.hpp>
#endif
#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <span>
#include <stdexcept>
#include <string_view>

namespace {

using namespace ballast;
using namespace dflop_models;

constexpr std::size_t steps = 4;
constexpr std::size_t tried = 6;  // layouts that are scheduled

// [dflop]
struct training {
  model_layout layout;
  double step = 0;  // seconds of a mean step
  double busy = 0;  // seconds of all GPUs in it
};

// Trains on real batches; each is planned while the one before it runs.
training train(layout_problem const& problem, model_layout const& layout,
               std::span<tokens const> batches)
{
  local_search const order{insertion{500}, 1'000};
  online_scheduler next(schedule_layout<2>(problem, layout, order).value());
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
  }
  return all;
}

struct comparison {
  simulated_layout homogeneous;  // one tp and one dp for all modules, batches as they are read
  simulated_layout searched;     // each module its own, samples dealt longest first
  simulated_layout unscheduled;  // the layout that is best with the scheduler, as read
  training scheduled;
};
comparison compare(dflop_model const& model)
{
  auto const real = draw_mix(model.kinds, 12, 2);
  auto const batches = std::span(real).first(steps * batch * model.modules.size());
  layout_problem problem;
  problem.modules = model.modules;
  problem.sizes = batches;  // memory must hold the largest of them
  problem.global_batch = batch;
  problem.gpus = gpus;
  problem.memory_bytes = 80'000'000'000;
  auto const found = search_layouts(problem, batches, {.best = tried}).value();
  constexpr auto as_read = sample_dealing::as_drawn;
  comparison best{
      rank_by_simulation(problem, homogeneous_layouts(problem), batches, as_read).value().at(0),
      found.layouts.at(0),
      {},
      {}};
  for (auto const& [layout, simulated] : found.layouts) {
    training const now = train(problem, layout, batches);
    if (best.scheduled.step > 0 && now.step >= best.scheduled.step) { continue; }
    best.scheduled = now;
    best.unscheduled = {layout, simulate_layout(problem, layout, batches, as_read).value()};
  }
  return best;
}
// [dflop]

// [dflop_steps]
// One rank's part of a training: each step is planned while the one before it runs, from costs that
// measured times have corrected.
template <class C>
pipeline_model::trained train_modules(C& comm, dflop_training::small_problem const& small,
                                      pipeline_setup const& setup, dflop_training::planned& beside)
{
  local_search const order{insertion{100}, 200};
  online_scheduler next(schedule_layout<2>(small.problem, small.layout, order).value());
  adaptive_correction correction(small.module_of_rank(), {.interval = 4});
  auto runner = pipeline_runner<>::make(setup, comm.rank()).value();
  auto tensor = comm.split(setup.grid.colour(comm.rank(), grid_axis::tensor)).value();
  auto replicas = comm.split(setup.grid.colour(comm.rank(), grid_axis::data)).value();
  pipeline_model::rank_model model(setup.grid, comm.rank(), tensor);
  pipeline_model::trained all;
  pipeline_plan samples;
  or_throw(next.submit(small.sizes_of(0)));
  for (std::size_t number = 0; number < dflop_training::steps; ++number) {
    auto const* const plan = next.take().value();
    next.correct(correction.factors());
    or_throw(next.submit(small.sizes_of(number + 1)));

    auto const step = small.step_of(number);
    samples.fill(setup, *plan, [&](auto sample, auto link) { return step.rows(sample, link); });
    or_throw(runner.plan(samples));
    auto const sleeps = small.taken(*plan, number, setup.grid.place(comm.rank()));
    model.begin(step, samples, &sleeps);
    or_throw(runner.run(comm, small.in_order(), model));

    auto const ran = measured_timeline(comm, setup.schedule, runner.measured()).value();
    auto calls = measured_microbatches(comm, setup.grid, setup.schedule, runner.measured()).value();
    for (time_units& each : calls) { each *= 1'000; }  // plans are in picoseconds
    if (!correction.tracking()) { calls.clear(); }
    or_throw(correction.finish_step(*plan, 1'000 * ran.makespan, calls));
    beside.note(*plan, 1'000 * ran.makespan);
    pipeline_model::finish_step(all, comm, replicas, setup.grid, runner.loss(), model);
  }
  return all;
}
// [dflop_steps]

// Trains on eight ranks; how far that is from one rank by itself.
template <class C>
double difference(C& comm)
{
  dflop_training::small_problem const small;
  dflop_training::planned beside;
  double const apart = pipeline_model::difference(comm, small.grid(), [&](auto& ranks, bool alone) {
    return alone ? small.train_alone(ranks) : train_modules(ranks, small, small.setup(), beside);
  });
  if (to_index(comm.rank()) == 0) { beside.print(); }
  return apart;
}

double seconds(simulated_layout const& each)
{
  return static_cast<double>(each.simulated) * 1e-12;
}

double idle(training const& of, double step)
{
  return 1 - of.busy / (gpus * step);
}

}  // namespace

int main(int argc, char** argv)
{
#ifdef DFLOP_WITH_MPI
  if (argc == 2 && std::string_view(argv[1]) == "mpi") {  // a process for each of eight ranks
    MPI_Init(&argc, &argv);
    double apart = 1;
    {
      auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
      apart = difference(comm);
    }
    MPI_Finalize();
    return apart < 1e-11 ? 0 : 1;
  }
#endif
  try {
    auto const apart = run_ranks(8, [](thread_communicator& comm) { return difference(comm); });
    if (!(std::ranges::max(apart) < 1e-11)) {
      throw std::runtime_error("the ranks' gradients are not one rank's");
    }
    if (argc == 1) { return 0; }
    if (argc != 4) { return std::fputs("dflop: give ONE.csv SEVERAL.csv VIDEO.csv\n", stderr), 2; }
    std::printf("tp.pp.dp of encoder and LLM x microbatches; seconds of a step of %u samples\n\n",
                batch);
    double least = 1e9;
    for (dflop_model const& model : three_models(load_three_kinds(argv[1], argv[2], argv[3]))) {
      auto const [homogeneous, searched, unscheduled, scheduled] = compare(model);
      double const base = seconds(homogeneous);
      std::printf("%s\n", model.name);
      auto const row = [base](char const* what, model_layout const& layout, double step) {
        std::printf("  %-24s%24s%8.2f s%8.2f x\n", what, text_of(layout).c_str(), step,
                    base / step);
      };
      row("one tp, one dp", homogeneous.layout, base);
      row("searched", searched.layout, seconds(searched));
      row("searched, scheduled", scheduled.layout, scheduled.step);
      double const before = idle(scheduled, seconds(unscheduled));
      double const after = idle(scheduled, scheduled.step);
      std::printf(
          "  GPUs of this layout are idle %.1f %% of the time, without the scheduler %.1f %%: "
          "%.1f %% less idle time\n",
          100 * after, 100 * before,
          100 * (1 - after * scheduled.step / (before * seconds(unscheduled))));
      least = std::min(least, base / scheduled.step);
    }
    std::printf("\nin the paper: 1.2 to 3.6 x, and 82 to 84 %% less idle time\n");
    return least > 1.2 ? 0 : 1;
  } catch (std::exception const& problem) {
    return std::fprintf(stderr, "dflop: %s\n", problem.what()), 1;
  }
}
