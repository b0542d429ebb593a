// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/route_rows.cuh>

#include "../route/instances.hpp"
#include "../route/random_rows.hpp"
#include "../route/step_arrays.hpp"
#include "gpu_test.hpp"
#include "ranks_on_one_gpu.hpp"
#include "staged_on_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/placement.hpp>
#include <ballast/route/route_plan.hpp>

namespace {

using ballast::rank_id;
using ballast::row_array;
using ballast::rows_of;
using ballast::to_index;
using ballast_test::byte_array;
using ballast_test::device_bytes;
using ballast_test::done;
using ballast_test::random_step;
using ballast_test::step_arrays;

using device_tables = ballast_test::staged_on_device<ballast::route_plan>;
using prepared_tables = ballast_test::prepared_on_device<ballast::prepared_route>;
using communicator = ballast::copy_engine_communicator<>;

class RouteOnDevice : public ballast_test::gpu_test {
 protected:
  static constexpr ballast::route_bound bound{.ranks = 8, .ranges = 200};
  static constexpr std::size_t arrays = 3;

  /// An array of the step before and after, and back again.
  struct device_steps {
    device_bytes before;
    device_bytes after;
    device_bytes back;
  };

  [[nodiscard]] std::array<device_steps, arrays> on_device(step_arrays const& all,
                                                           std::size_t rank) const
  {
    auto const array = [&](std::size_t index) {
      return device_steps{to_device(all.before(rank)[index]), to_device(all.unwritten(rank)[index]),
                          to_device(all.unwritten_before(rank)[index])};
    };
    return {array(0), array(1), array(2)};
  }

  static row_array forward(device_steps const& array, std::size_t width)
  {
    return {array.before.span(), array.after.span(), width};
  }
  static row_array backward(device_steps const& array, std::size_t width)
  {
    return {array.after.span(), array.back.span(), width};
  }
};

TEST_F(RouteOnDevice, BringsEveryRowAndBack)
{
  ballast::random_source random(20240607);
  for (std::size_t count = 1; count <= 8; ++count) {
    SCOPED_TRACE(count);
    auto const bags = ballast_test::random_bags(count, random);
    std::vector<random_step> steps;
    std::vector<step_arrays> data;
    for (int step = 0; step < 4; ++step) {
      steps.emplace_back(random.below(60), bags, random);
      data.emplace_back(steps.back().read, steps.back().computed,
                        std::vector<std::size_t>{3072, 4, 5}, random);
    }
    ballast_test::run_ranks_on_one_gpu(count, [&](communicator& comm) {
      std::size_t const rank = to_index(comm.rank());
      device_tables tables(bound);
      for (std::size_t step = 0; step < steps.size(); ++step) {
        auto const plan = ballast::plan_route(steps[step].read, steps[step].computed, comm.rank());
        auto const [x, tags, odd] = on_device(data[step], rank);
        std::array const there{forward(x, 3072), forward(tags, 4), forward(odd, 5)};
        device_bytes const temporary(ballast::route_bytes(bound, there[0], there[1], there[2]));
        ASSERT_TRUE(tables->stage(plan));
        ASSERT_EQ(tables->upload(comm.stream()), cudaSuccess);
        prepared_tables const ready(*tables, ballast::device_rows(there));
        ASSERT_EQ(ready->prepare(comm.stream()), cudaSuccess);
        EXPECT_TRUE(
            done(ballast::route(comm, *ready, temporary.span(), there[0], there[1], there[2])));
        EXPECT_TRUE(done(ballast::reverse_route(comm, *ready, temporary.span(), backward(x, 3072),
                                                backward(tags, 4), backward(odd, 5))));
        EXPECT_TRUE(done(comm.wait()));
        auto const expect_array = [&](device_steps const& array, std::size_t index) {
          EXPECT_EQ(to_host(array.after), data[step].after(rank)[index]);
          EXPECT_EQ(to_host(array.back), data[step].before(rank)[index]);
        };
        expect_array(x, 0);
        expect_array(tags, 1);
        expect_array(odd, 2);
      }
    });
  }
}

TEST_F(RouteOnDevice, IsPlannedFromTwoPlacements)
{
  std::vector<ballast::tokens> const lengths{7, 3};
  ballast::bag_layout const bags(std::array{ballast::bag{rank_id{0}, 2}});
  auto const read = ballast::place(lengths, std::array{rank_id{0}, rank_id{1}}, 2);
  auto const computed =
      ballast::place(lengths, std::array{ballast::bag_id{0}, ballast::bag_id{0}}, bags);
  ballast_test::run_ranks_on_one_gpu(2, [&](communicator& comm) {
    auto const plan = ballast::plan_route(read, computed, comm.rank());
    auto const before = static_cast<std::size_t>(plan.rows_before);
    auto const after = static_cast<std::size_t>(plan.rows_after);
    auto const x = to_device(std::vector<float>(before * 64, 1));
    auto const position = to_device(std::vector<std::int32_t>(before, 2));
    // [staged_route]
    ballast::route_bound const most{.ranks = 2, .ranges = 64};  // of any step
    std::size_t const bytes = ballast::staged<ballast::route_plan>::bytes(most);
    ballast::device_array<std::byte> const tables(bytes);
    std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned(bytes);
    ballast::staged<ballast::route_plan> there(most, tables.span(), pinned);

    ballast::device_array<float> const x_there(after * 64);
    ballast::device_array<std::int32_t> const position_there(after);
    auto const activations = rows_of(x.span(), x_there.span(), 64);
    auto const positions = rows_of(position.span(), position_there.span());
    ballast::device_rows const rows(std::array{activations, positions});
    std::size_t places = 0;  // bytes of what is prepared for arrays of these widths
    cudaError_t const asked = ballast::prepared_route::device_bytes(there, rows, places);
    ballast::device_array<std::byte> const memory(places);
    ballast::prepared_route const ready(there, rows, memory.span());
    ballast::device_array<std::byte> const temporary(  // for messages
        ballast::route_bytes(most, activations, positions));

    auto const staged = there.stage(plan);  // every step
    cudaError_t const uploaded = there.upload(comm.stream());
    cudaError_t const prepared = ready.prepare(comm.stream());
    auto const moved =  // every layer
        ballast::route(comm, ready, temporary.span(), activations, positions);
    // [staged_route]
    EXPECT_TRUE(staged && moved);
    EXPECT_EQ(asked, cudaSuccess);
    EXPECT_EQ(uploaded, cudaSuccess);
    EXPECT_EQ(prepared, cudaSuccess);
    EXPECT_TRUE(done(comm.wait()));
    EXPECT_EQ(to_host(x_there), std::vector<float>(after * 64, 1));
    EXPECT_EQ(to_host(position_there), std::vector<std::int32_t>(after, 2));
  });
}

TEST_F(RouteOnDevice, OfRanksWithNothingAndOfNoArraysIsAnExchangeToo)
{
  std::array<ballast::tokens, 1> const lengths{6};
  auto const read = ballast::place(lengths, std::array{rank_id{2}}, 3);
  auto const computed = ballast::place(lengths, std::array{rank_id{0}}, 3);
  ballast_test::run_ranks_on_one_gpu(3, [&](communicator& comm) {
    device_tables tables({.ranks = 3, .ranges = 1});
    auto const plan = ballast::plan_route(read, computed, comm.rank());
    ASSERT_TRUE(tables->stage(plan));
    ASSERT_EQ(tables->upload(comm.stream()), cudaSuccess);
    auto const x = to_device(byte_array(static_cast<std::size_t>(plan.rows_before), std::byte{5}));
    auto const y =
        to_device(byte_array(static_cast<std::size_t>(plan.rows_after), std::byte{0xee}));
    row_array const array{x.span(), y.span(), 1};
    device_bytes const temporary(ballast::route_bytes(tables->bound(), array));
    prepared_tables const none(*tables, ballast::device_rows({}));
    prepared_tables const one(*tables, ballast::device_rows(std::array{array}));
    ASSERT_EQ(none->prepare(comm.stream()), cudaSuccess);
    ASSERT_EQ(one->prepare(comm.stream()), cudaSuccess);
    EXPECT_TRUE(done(ballast::route(comm, *none, temporary.span())));
    EXPECT_TRUE(done(ballast::route(comm, *one, temporary.span(), array)));
    EXPECT_TRUE(done(comm.wait()));
    EXPECT_EQ(to_host(y), byte_array(comm.rank() == rank_id{0} ? 6 : 0, std::byte{5}));
  });
}

TEST_F(RouteOnDevice, RefusesArraysAndStorageThatAreNotItsOwn)
{
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto const where = ballast::place(std::array<ballast::tokens, 1>{2}, std::array{rank_id{0}}, 1);
  auto comms = communicator::make(std::array{stream()});
  ASSERT_TRUE(comms);
  communicator& comm = comms->front();
  device_tables tables({.ranks = 1, .ranges = 1});
  ASSERT_TRUE(tables->stage(ballast::plan_route(where, where, rank_id{0})));
  device_bytes const two(2);
  device_bytes const three(3);
  device_bytes const temporary(4096);
  prepared_tables const ready(*tables, ballast::device_rows(std::array{row_array{{}, {}, 1}}));
  ASSERT_EQ(ready->prepare(comm.stream()), cudaSuccess);
  auto const route_to = [&](std::span<std::byte> from, std::span<std::byte> to,
                            std::span<std::byte> storage) {
    (void)ballast::route(comm, *ready, storage, row_array{from, to, 1});
  };
  EXPECT_DEATH(route_to(three.span(), two.span(), temporary.span()), "before");
  EXPECT_DEATH(route_to(two.span(), three.span(), temporary.span()), "after");
  EXPECT_DEATH(route_to(two.span(), two.span(), temporary.span()), "overlaps");
  EXPECT_DEATH(route_to(two.span(), three.span().first(2), {}), "temporary");
}

}  // namespace
