// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../cuda/rows_on_host.hpp"
#include "../cuda/staged_on_host.hpp"
#include "../route/instances.hpp"
#include "../support/orchestrated_steps.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/quadratic_cost.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/partition/longest_processing_time.hpp>
#include <ballast/route/route.hpp>
#include <ballast/route/row_array.hpp>
#include <ballast/runtime/device_carrier.cuh>
#include <ballast/runtime/orchestrated_step.hpp>
#include <ballast/runtime/orchestrator.hpp>
#include <ballast/topology/bag_layout.hpp>

namespace {

using ballast::device_carrier;
using ballast::or_throw;
using ballast::orchestrator;
using ballast::quadratic_cost;
using ballast::thread_communicator;
using packed = ballast::phase<quadratic_cost, ballast::longest_processing_time>;

/// Plans over threads, with a stream for each rank's rows.
template <class Body>
void run_with_streams(std::size_t count, Body body)
{
  ballast_test::nccl_ranks ranks(count);
  ballast::run_ranks(count, [&](thread_communicator& plans) {
    std::size_t const rank = to_index(plans.rank());
    auto comm = ballast::nccl_communicator<>::over(ranks.comm(rank), ranks.stream(rank),
                                                   {.deadline = ballast_test::time_bound});
    ASSERT_TRUE(comm) << comm.error().message;
    body(plans, *comm);
  });
}

// Three encoders' routes to them, and to the model with those of text, and back: seven plans a
// step and rank. The oracle is the one of host arrays.
TEST(DeviceCarrier, PutsRowsOfAnOrchestratorWhereANaiveRearrangementDoes)  // Ensures (1)
{
  int const steps = ballast_test::trials_of(50);  // 1,050 plans
  run_with_streams(3, [&](thread_communicator& plans, ballast::nccl_communicator<>& comm) {
    auto const one = ballast::one_gpu_bags(3);
    auto const mixed = ballast_test::mixed_bags(3);
    quadratic_cost const cost{.linear = 8, .quadratic = 1};
    device_carrier rows(comm);
    EXPECT_EQ(
        ballast_test::wrong_arrays(
            plans,
            std::tuple{packed{one, cost, {}, 3}, packed{one, cost, {}, 4}, packed{mixed, cost, {}}},
            packed{mixed, cost, {}}, 20250101, steps, rows),
        0U);
  });
}

// A row for each sequence: repeated, carried there and back, and summed, all on the stream. The oracle
// is the host's functions over threads.
TEST(DeviceCarrier, BringsRowsOfSequencesAndTheSumsOfTheirGradients)
{
  int const steps = ballast_test::trials_of(250);  // 1,000 plans
  constexpr std::size_t count = 4;
  constexpr std::uint32_t most = 30;
  constexpr std::size_t width = 3;
  run_with_streams(count, [&](thread_communicator& plans, ballast::nccl_communicator<>& comm) {
    ballast::random_source random(20250302);  // the same steps on every rank
    device_carrier carrier(comm);
    ballast_test::staged_on_host<ballast::sequence_rows> there(most);
    for (int number = 0; number < steps; ++number) {
      auto const bags = ballast_test::random_bags(count, random);
      std::size_t const sequences = random.below(most);
      ballast_test::random_step const step(sequences, bags, random);
      auto const beside = ballast::plan_sequence_rows(step.source, step.owner, bags, comm.rank());
      auto const floats = [](auto rows) { return std::vector<float>(width * std::size_t(rows)); };
      auto rows = floats(beside.copies.size()), sums = rows, expected_sums = rows;
      auto sent = floats(beside.route.rows_before), expected_sent = sent;
      auto found = floats(beside.route.rows_after), expected = found;
      for (std::size_t at = 0; at < rows.size(); ++at) {
        rows[at] = 0.1F * static_cast<float>(at + 100 * to_index(comm.rank()));
      }

      or_throw(carrier.begin_step());
      or_throw(there->stage(beside));
      EXPECT_EQ(there->upload(comm.stream()), cudaSuccess);
      auto const queue = [&](auto const& kernel) {
        EXPECT_EQ(
            ballast_test::launch(comm.stream(), [=] { ballast_test::run_rows_on_host(kernel); }),
            cudaSuccess);
      };
      queue(
          ballast::detail::repeated_rows<float>{there->tables(), rows.data(), sent.data(), width});
      or_throw(carrier.route(beside.route, ballast::rows_of(sent, found, width)));
      or_throw(carrier.reverse_route(beside.route, ballast::rows_of(found, sent, width)));
      queue(ballast::detail::summed_rows<float>{there->tables(), sent.data(), sums.data(), width});
      or_throw(carrier.wait());

      ballast::workspace memory;
      ballast::repeat_rows<float>(beside.copies, rows, expected_sent);
      or_throw(ballast::route(plans, beside.route, memory,
                              ballast::rows_of(expected_sent, expected, width)));
      or_throw(ballast::reverse_route(plans, beside.route, memory,
                                      ballast::rows_of(expected, expected_sent, width)));
      ballast::sum_rows<float>(beside.copies, expected_sent, expected_sums);
      EXPECT_EQ(found, expected);
      EXPECT_EQ(sums, expected_sums);
    }
  });
}

TEST(DeviceCarrier, AllocatesNothingOnceTwoStepsWereAsLarge)  // Ensures (3) (4)
{
  constexpr std::size_t width = 7;
  run_with_streams(4, [](thread_communicator& plans, ballast::nccl_communicator<>& comm) {
    packed const phase{ballast::one_gpu_bags(4), {.linear = 1}, {}};
    packed const other{ballast::one_gpu_bags(4), {.quadratic = 1}, {}};
    // [device_carrier]
    ballast::device_carrier rows(comm);  // comm joins a stream; plans is of the host
    orchestrator step(plans, rows, std::tuple{phase}, phase,
                      std::tuple{other, ballast::shared_plan{}});
    // [device_carrier]
    ballast::multimodal_samples read;
    for (ballast::tokens sample = 1; sample < 6; ++sample) {
      read.start_sample();
      read.add(0, 11 * sample);
      read.add(1, 5 + static_cast<ballast::tokens>(to_index(plans.rank())));
    }
    or_throw(step.submit(read));
    std::vector<std::byte> pixels(2000), encoded(pixels), sequences(pixels), in_pass(pixels);
    std::size_t arrays = 0;
    for (int number = 0; number < 5; ++number) {
      or_throw(step.next());
      or_throw(plans.barrier());
      if (number == 2) { arrays = ballast_test::live_device_arrays(); }
      or_throw(plans.barrier());
      or_throw(step.submit(read));
      auto const bytes = [](std::vector<std::byte>& of, std::size_t count) {
        return std::span(of).first(count * width);
      };
      auto const there = bytes(encoded, step.rows_computed(0));
      auto const model = bytes(sequences, step.rows_in_model());
      auto const pass = bytes(in_pass, step.rows_in_pass(0));
      or_throw(
          step.to_encoder(0, ballast::rows_of(bytes(pixels, step.rows_read(0)), there, width)));
      or_throw(step.to_model(0, ballast::rows_of(there, model, width)));
      or_throw(step.to_pass(0, ballast::rows_of(model, pass, width)));
      or_throw(step.from_pass(0, ballast::rows_of(pass, model, width)));
      auto const shared = bytes(pixels, step.rows_in_pass(1));
      or_throw(step.to_pass(1, ballast::rows_of(model, shared, width)));
      or_throw(rows.wait());
      EXPECT_TRUE(std::ranges::equal(shared, model));
      or_throw(plans.barrier());
      if (number >= 2) { EXPECT_EQ(ballast_test::live_device_arrays(), arrays); }
      or_throw(plans.barrier());
    }
  });
  EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
}

}  // namespace
