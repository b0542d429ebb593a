// SPDX-License-Identifier: Apache-2.0
// From loaders to a pipeline (DistTrain 5.1, FlexRL 4.4): one rank plans steps from metadata, fills
// microbatches, orders them, and deals each frame and text to the GPUs that compute it; loaders
// decode videos and send every GPU its own bytes; an encoder on two GPUs and an LLM of two stages
// train on them. A loader is lost on the way, and the training goes on from a saved state with other
// numbers of trainers and loaders; it fails if one rank by itself finds other losses.
// loaders_to_pipeline: ranks are threads. mpirun --enable-recovery -np 8 loaders_to_pipeline mpi [N]:
// processes, of which a loader is killed at its N-th sample. Not shown: GPUs, storage, real decoding.

#include "common/video_stages.hpp"  // defines: video_stages::{rank_model, shape, row_bytes, ...}

#include <ballast/comm.hpp>
#ifdef LOADERS_TO_PIPELINE_WITH_MPI
#include <ballast/comm/mpi_communicator.hpp>

#include <mpi.h>
#include <unistd.h>
#endif
#include <ballast/core.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/pipeline.hpp>
#include <ballast/runtime.hpp>
#include <ballast/topology.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace ballast;
using video_stages::row_bytes;

constexpr std::size_t microbatches = 4;
constexpr std::size_t steps_before = 4;  // the state is saved; six steps follow
constexpr std::size_t never = ~std::size_t{0};
constexpr auto work = "transformer:d=16,gamma=1"_cost;
data_setup const setup_of_data{.samples = 40, .step_samples = 8, .modules = 2, .epochs = 2};
data_windows const windows{.steps = 2, .held_back = 1, .policy = even_rounds{}};
loader_options const options{.least = 2, .most = 4, .late_after = std::chrono::seconds(3)};

// Videos of frames of one size, and texts. What is drawn here, a decoder gives you.
struct videos {
  std::size_t last_call = never;      // in which ...
  std::function<void()> end = [] {};  // ... this loader is lost
  std::shared_ptr<std::atomic<std::size_t>> calls = std::make_shared<std::atomic<std::size_t>>(0);

  static std::size_t frames_of(std::uint64_t sample) { return 1 + sample * 7 % 6; }
  static tokens frame_of(std::uint64_t sample) { return static_cast<tokens>(3 + sample % 5); }
  static tokens text_of(std::uint64_t sample) { return static_cast<tokens>(2 + sample % 7); }

  // Metadata: how long the frames are together, and the text.
  [[nodiscard]] static std::vector<tokens> lengths(std::uint64_t sample)
  {
    return {static_cast<tokens>(frames_of(sample)) * frame_of(sample), text_of(sample)};
  }

  [[nodiscard]] result<loaded_sample> load(std::uint64_t sample) const
  {
    if ((*calls)++ == last_call) { end(); }
    loaded_sample made{lengths(sample), {}};
    random_source random(sample + 1);
    auto const add = [&](std::uint32_t module, tokens length) {
      std::vector<double> rows;
      for (std::size_t left = static_cast<std::size_t>(length) * video_stages::shape.width;
           left > 0; --left) {
        rows.push_back(static_cast<double>(random.between(-1000, 1000)) / 1000);
      }
      auto const bytes = std::as_bytes(std::span(rows));
      made.bytes.insert(made.bytes.end(), bytes.begin(), bytes.end());
      made.parts.push_back({module, length, bytes.size()});
    };
    for (std::size_t frame = 0; frame < frames_of(sample); ++frame) {
      add(video_stages::frames, frame_of(sample));
    }
    add(video_stages::text, text_of(sample));
    return made;
  }
};

// Who trains: GPUs of the encoder, then the two stages of the LLM; or one rank all of it.
struct job {
  std::size_t encoders = 0;

  [[nodiscard]] std::size_t trainers() const { return encoders == 0 ? 1 : encoders + 2; }
  [[nodiscard]] rank_id proxy() const { return to_id<rank_id>(trainers()); }
  [[nodiscard]] pipeline_setup setup() const
  {
    if (encoders == 0) {
      std::vector<pipeline_stage> const stages(3);
      stage_graph const graph(stages, {{stage_id{0}, stage_id{1}}, {stage_id{1}, stage_id{2}}});
      return {process_grid({{1, 1, 1}}),
              compiled_schedule(graph, gpipe{}, microbatches),
              {row_bytes, row_bytes}};
    }
    return {process_grid({{static_cast<std::uint32_t>(encoders), 1, 1}, {1, 2, 1}}),
            compiled_schedule(chain_of_stages(3, 3), one_forward_one_backward{}, microbatches),
            {row_bytes, row_bytes}};
  }
};

// The producers' part of a step, from lengths alone: which samples a microbatch has, in which order
// microbatches run, and which GPU encodes which frame. A text goes to the first stage of the LLM,
// which reads it, and to the last one, whose loss it is in.
struct plan_step {
  job planned;
  pipeline_setup setup = planned.setup();

  struct frame {
    std::size_t entry = 0;
    data_part part;
    std::uint64_t first = 0;  // byte
  };

  result<void> operator()(data_step const& step, std::vector<data_share>& shares) const
  {
    std::size_t const encoders = std::max<std::size_t>(planned.encoders, 1);
    std::vector<tokens> lengths;
    for (std::size_t entry = 0; entry < step.samples.size(); ++entry) {
      lengths.push_back(total_length{}(step.lengths_of(entry)));
    }
    auto const filled = partition(lengths, one_gpu_bags(microbatches), work).value();
    auto const cost_of = [](frame const& one) {
      return one.part.module == video_stages::frames ? work(one.part.length) : 0;
    };
    std::array<std::vector<frame>, microbatches> frames;  // and texts, which nobody encodes
    std::array<partition_plan, microbatches> encoded;
    for (std::size_t each = 0; each < microbatches; ++each) {
      for (sample_id const sample : filled.samples[to_id<bag_id>(each)]) {
        std::uint64_t first = 0;
        for (data_part const& part : step.parts_of(to_index(sample))) {
          frames[each].push_back({to_index(sample), part, first});
          first += part.bytes;
        }
      }
      encoded[each] = partition(frames[each], one_gpu_bags(encoders), cost_of, no_length{}).value();
    }
    pipeline_times const times(microbatches, 3, [&](std::size_t each, std::size_t stage) {
      auto const& loads = stage == 0 ? encoded[each].loads : filled.loads;
      time_units const most = stage == 0 ? std::ranges::max(loads) : loads[each];
      return stage_time{most, 2 * most};
    });
    auto const order = order_microbatches(setup.schedule, times, local_search{insertion{}, 500});
    for (std::size_t position = 0; position < microbatches; ++position) {
      std::size_t const now = to_index(order.value().order[position]);
      for (std::size_t each = 0; each < frames[now].size(); ++each) {
        auto const& [entry, part, first] = frames[now][each];
        bool const is_frame = part.module == video_stages::frames;
        auto const give = [&](std::size_t rank) {
          shares.push_back({entry, to_id<rank_id>(rank), first, part.bytes, position});
        };
        give(is_frame ? to_index(encoded[now].owner[each]) : planned.trainers() - 1);
        if (!is_frame && planned.encoders > 0) { give(planned.encoders); }
      }
    }
    return {};
  }
};

// A trainer: what it has fetched of a step is computed by its stage of the pipeline.
template <point_to_point C>
void train(C& all, C& trainers, job const& planned, std::size_t steps,
           video_stages::rank_model<C>& model, auto& seen)
{
  auto const setup = planned.setup();
  auto runner = pipeline_runner<>::make(setup, trainers.rank()).value();
  std::array<microbatch_id, microbatches> order;  // the plan has numbered them by their positions
  for (std::uint32_t each = 0; each < microbatches; ++each) { order[each] = microbatch_id{each}; }
  data_trainer data(all, planned.proxy(), options);
  for (; steps > 0; --steps) {
    auto const batch = data.next().value();
    if (!batch) { break; }
    or_throw(runner.plan(model.begin(*batch, setup, trainers.rank())));
    or_throw(runner.run(trainers, order, model));
    model.descend(trainers, 1e-2);
    seen.add(*batch, trainers.rank(), runner.loss());
  }
  or_throw(data.finish());
}

// What a trainer has seen of some steps.
struct outcome {
  std::vector<double> losses;
  std::vector<std::uint64_t> digests;
  std::array<std::size_t, 40> times{};  // of each sample
  std::uint64_t fetched = 0;            // bytes
  std::uint64_t dealt = 0;              // by the plan
  std::uint64_t all_dealt = 0;          // to all ranks together
  std::uint64_t through_one = 0;        // if whole samples went to one rank, and on from there
  std::string state;
  std::string news;

  void add(data_batch const& batch, rank_id rank, double loss)
  {
    data_step const& step = *batch.step;
    losses.push_back(loss);
    digests.push_back(step.digest());
    for (std::uint64_t const sample : step.samples) { ++times[sample]; }
    for (auto const& own : batch.own) { fetched += own.bytes.size(); }
    for (data_share const& share : step.shares) {
      dealt += share.rank == rank ? share.count : 0;
      all_dealt += share.count;
      through_one += share.count;
    }
    for (data_part const& part : step.parts) { through_one += part.bytes; }
    state = step.save();
    for (std::string const& each : step.news) { news += each + "\n"; }
  }
};

// Ranks that load or train together, and those of them that train.
template <class C>
struct group {
  job planned;
  C all;
  C trainers;

  group(job of, C whole)
      : planned(of),
        all(std::move(whole)),
        trainers(all.split(all.rank() < planned.proxy() ? 0 : 1).value())
  {}

  /// What this rank does. A loader may be lost.
  void run(videos const& source, std::size_t steps, video_stages::rank_model<C>& model,
           outcome& seen)
  {
    if (all.rank() < planned.proxy()) { return train(all, trainers, planned, steps, model, seen); }
    if (all.rank() > planned.proxy()) {
      return void(serve_as_loader(all, planned.proxy(), source));
    }
    or_throw(serve_as_proxy(all, planned.trainers(), plan_step{planned}, setup_of_data, windows,
                            options, seen.state, videos::lengths));
  }
};

// One rank does all of it, with one loader.
outcome train_alone()
{
  return run_ranks(3, [](thread_communicator& comm) {
    auto alone = comm.split(static_cast<std::uint32_t>(to_index(comm.rank()))).value();
    group<thread_communicator> ranks({}, comm.split(0).value());
    video_stages::rank_model<thread_communicator> model(alone);
    outcome seen;
    ranks.run({}, never, model, seen);
    return seen;
  })[0];
}

// Prints what rank 0 has seen, and returns whether it is what one rank by itself finds.
bool compare(outcome const& seen, std::span<std::uint64_t const> fetched, bool as_dealt)
{
  outcome const alone = train_alone();
  double apart = 0;
  for (std::size_t step = 0; step < std::min(seen.losses.size(), alone.losses.size()); ++step) {
    apart = std::max(apart, std::abs(seen.losses[step] - alone.losses[step]) / alone.losses[step]);
  }
  bool const once = std::ranges::count(seen.times, setup_of_data.epochs) ==
                    static_cast<std::ptrdiff_t>(setup_of_data.samples);
  std::printf("%sfetched by the GPUs before the state was saved:", seen.news.c_str());
  for (std::uint64_t const bytes : fetched) {
    std::printf(" %.1f", static_cast<double>(bytes) * 1e-3);
  }
  std::printf(" KB, %s\n", as_dealt ? "the frames and texts that they compute" : "NOT their own");
  std::printf("%.1f KB fetched in all; through one GPU %.1f KB\n",
              static_cast<double>(seen.all_dealt) * 1e-3,
              static_cast<double>(seen.through_one) * 1e-3);
  std::printf("%s; %zu steps, losses %.3f to %.3f, as one rank's to %.0e\n",
              once ? "every sample once an epoch" : "NOT every sample once an epoch",
              seen.losses.size(), seen.losses.front(), seen.losses.back(), apart);
  return once && as_dealt && seen.digests == alone.digests && apart < 1e-11;
}

// Ranks 0 to 3 train, 4 is the proxy, 5 and 6 load, until 6 is lost at some sample. Then 0 to 2
// train, 3 is the proxy, and 4, 5 and 7 load.
template <class C>
bool train_and_go_on(
    C& comm, std::size_t last_call, std::function<void()> end,
    std::function<void()> const& meet = [] {})
{
  std::size_t const rank = to_index(comm.rank());
  auto alone = comm.split(static_cast<std::uint32_t>(rank)).value();
  group<C> before({2}, comm.split(rank == 7 ? 1 : 0).value());
  group<C> after({1}, comm.split(rank == 6 ? 1 : 0).value());
  video_stages::rank_model<C> model(alone);
  outcome seen;
  videos source;
  if (rank == 6) { source = {last_call, std::move(end)}; }
  if (rank != 7) { before.run(source, steps_before, model, seen); }
  std::vector<std::uint64_t> fetched(4);
  std::vector<std::uint64_t> right(4);
  if (rank < 4) {
    std::uint64_t const own = seen.fetched == seen.dealt ? 1 : 0;
    auto const gather = [&](std::uint64_t const& from, std::vector<std::uint64_t>& to) {
      or_throw(before.trainers.all_gather(std::as_bytes(std::span(&from, 1)),
                                          std::as_writable_bytes(std::span(to))));
      or_throw(before.trainers.wait());
    };
    gather(seen.fetched, fetched);
    gather(own, right);
  }
  if (rank != 6) { after.run({}, never, model, seen); }
  meet();  // a rank that leaves breaks the groups of the others
  return rank > 0 || compare(seen, fetched, std::ranges::count(right, 1U) == 4);
}

#ifdef LOADERS_TO_PIPELINE_WITH_MPI
bool over_mpi(std::size_t last_call)
{
  auto comm = mpi_communicator::over(MPI_COMM_WORLD).value();
  if (comm.size() != 8) { throw std::runtime_error("run it on 8 processes"); }
  bool const right = train_and_go_on(comm, last_call, [] { std::raise(SIGKILL); });
  std::fflush(stdout);
  if (last_call != never) { _exit(right ? 0 : 1); }  // MPI_Finalize would wait for the dead
  return right;
}
#endif

}  // namespace

int main(int argc, [[maybe_unused]] char** argv)
try {
#ifdef LOADERS_TO_PIPELINE_WITH_MPI
  if (argc >= 2 && std::string_view(argv[1]) == "mpi") {
    std::size_t const last_call = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : never;
    MPI_Init(&argc, &argv);
    bool const right = over_mpi(last_call);
    MPI_Finalize();
    return right ? 0 : 1;
  }
#endif
  if (argc != 1) {
    std::fputs("usage: loaders_to_pipeline, or mpirun loaders_to_pipeline mpi [N]\n", stderr);
    return 2;
  }
  auto const right = run_ranks(8, [](thread_communicator& comm) {
    return train_and_go_on(
        comm, 7, [] { throw std::runtime_error("killed"); },
        [&comm] {
          std::array<std::byte, 8> others{};
          or_throw(comm.all_gather(std::array<std::byte, 1>{}, others));
          or_throw(comm.wait());
        });
  });
  return right[0] ? 0 : 1;
} catch (std::exception const& problem) {
  return std::fprintf(stderr, "loaders_to_pipeline: %s\n", problem.what()), 1;
}
