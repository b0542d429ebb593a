// SPDX-License-Identifier: Apache-2.0
#include <ballast/report/step_memory.hpp>

#include "../support/orchestrated_steps.hpp"
#include "../support/test.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/partition/concepts.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/partition/padded_batches.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using namespace ballast;
using ballast::report::held_memory;
using ballast::report::phase_bytes;

/// Counts the bytes of arrays that are alive, by the phase that they belong to.
struct meter {
  std::array<std::uint64_t, 4> now{};
  held_memory most{0, 0, std::vector<std::uint64_t>(4)};
  std::uint64_t all = 0;

  void add(std::size_t phase, std::uint64_t bytes)
  {
    now.at(phase) += bytes;
    all += bytes;
    most.of_phase[phase] = std::max(most.of_phase[phase], now.at(phase));
    if (all > most.peak) { most.peak = all, most.phase = phase; }
  }
};

template <class T>
struct counting {
  using value_type = T;
  meter* bytes;
  std::size_t phase;

  T* allocate(std::size_t count)
  {
    bytes->add(phase, count * sizeof(T));
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* at, std::size_t count)
  {
    bytes->now.at(phase) -= count * sizeof(T);
    bytes->all -= count * sizeof(T);
    std::allocator<T>().deallocate(at, count);
  }
  friend bool operator==(counting const&, counting const&) = default;
};

using array = std::vector<std::byte, counting<std::byte>>;

std::span<std::byte const> read_only(array const& bytes)
{
  return bytes;
}

constexpr ballast::quadratic_cost piece_cost{.linear = 3, .quadratic = 1};

// Vision, padded audio, text and the language model.
constexpr std::array<phase_bytes, 4> bytes_of{{{8, 40, 24, 16, ballast::batching::packed},
                                               {4, 30, 50, 16, ballast::batching::padded},
                                               {.input = 16},
                                               {16, 100, 60, 16, ballast::batching::packed}}};

/// One step of a training whose phases do nothing but hold their arrays and exchange rows.
template <class Job>
held_memory hold(Job& job)
{
  meter bytes;
  auto const make = [&bytes](std::size_t phase, std::size_t rows, std::uint64_t of_row) {
    return array(rows * of_row, counting<std::byte>{&bytes, phase});
  };
  auto const rows_kept = [&job](std::size_t encoder) -> std::size_t {
    if (encoder == 0) { return job.rows_computed(0); }
    std::size_t count = 0, longest = 0;
    for (ballast::tokens const length : job.lengths(1)) {
      count += length > 0 ? 1 : 0;
      longest = std::max(longest, static_cast<std::size_t>(length));
    }
    return count * longest;
  };
  constexpr std::size_t text = 2, llm = 3;
  array sequences = make(llm, job.rows_in_model(), 16);
  std::vector<array> kept;
  for (std::size_t const each : {0U, 1U}) {
    std::uint64_t const width = bytes_of[each].input;
    array x_there = make(each, job.rows_computed(each), width);
    {
      array const x = make(each, job.rows_read(each), width);
      or_throw(job.to_encoder(each, ballast::rows_of(read_only(x), std::span(x_there), width)));
    }
    kept.push_back(make(each, rows_kept(each), bytes_of[each].kept));
    array const working = make(each, rows_kept(each), bytes_of[each].working);
    array const y = make(each, job.rows_encoded(each), 16);
    or_throw(job.to_model(each, ballast::rows_of(read_only(y), std::span(sequences), 16)));
  }
  {
    array const words = make(text, job.rows_read(text), 16);
    or_throw(job.to_model(text, ballast::rows_of(read_only(words), std::span(sequences), 16)));
  }
  array gradient = make(llm, 0, 1);
  {
    array const kept_there = make(llm, job.rows_in_model(), bytes_of[llm].kept);
    array const working = make(llm, job.rows_in_model(), bytes_of[llm].working);
    array const y = make(llm, job.rows_in_model(), 16);
    gradient = make(llm, job.rows_in_model(), 16);
    sequences = make(llm, 0, 1);
  }
  for (std::size_t const each : {1U, 0U}) {
    std::uint64_t const width = bytes_of[each].input;
    array dx_there = make(each, 0, 1);
    {
      array dy = make(each, job.rows_encoded(each), 16);
      or_throw(
          job.reverse_to_model(each, ballast::rows_of(read_only(gradient), std::span(dy), 16)));
      array const working = make(each, rows_kept(each), bytes_of[each].working);
      dx_there = make(each, job.rows_computed(each), width);
      kept.pop_back();
    }
    array dx = make(each, job.rows_read(each), width);
    or_throw(
        job.reverse_to_encoder(each, ballast::rows_of(read_only(dx_there), std::span(dx), width)));
  }
  return bytes.most;
}

TEST(StepMemory, IsWhatATrainingHolds)  // Ensures (1)
{
  constexpr std::size_t ranks = 4;
  ballast::run_ranks(ranks, [=](ballast::thread_communicator& comm) {
    ballast::phase const vision{ballast::one_gpu_bags(ranks), piece_cost,
                                ballast::longest_processing_time{}, 4};
    ballast::phase const audio{ballast::one_gpu_bags(ranks), piece_cost, ballast::padded_batches{},
                               2};
    ballast::phase const llm{ballast_test::mixed_bags(ranks), piece_cost,
                             ballast::longest_processing_time{}};
    ballast::orchestrator job(comm, std::tuple{vision, audio}, llm);
    ballast::random_source random(3);
    for (int number = 0; number < 30; ++number) {
      auto const read = ballast_test::draw_step(random, ranks, 2);
      or_throw(job.submit(ballast_test::samples_of(read[to_index(comm.rank())])));
      or_throw(job.next());
      auto const measured = hold(job);
      auto const planned = ballast::report::step_memory(job.step(), bytes_of);
      ASSERT_EQ(planned.size(), ranks);
      auto const& own = planned[to_index(comm.rank())];
      EXPECT_EQ(own.peak, measured.peak);
      EXPECT_EQ(own.of_phase, measured.of_phase);
    }
  });
}

TEST(StepMemoryDeathTest, WantsTheBytesOfEveryPhase)
{
  ballast::orchestrated_step step;
  step.modalities.resize(2);
  EXPECT_DEATH(static_cast<void>(ballast::report::step_memory(step, bytes_of)),
               "bytes of 4 phases were given for a step of 3");
}

}  // namespace
