// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../cuda/staged_on_host.hpp"
#include "../route/bag_arrays.hpp"
#include "../support/queued_work.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/exchange_heads.cuh>
#include <ballast/gpu/streams.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <deque>
#include <latch>

namespace {

using ballast::head_array;
using ballast::heads_of;
using ballast::prepared_heads;
using ballast::to_index;
using ballast::ulysses_plan;
using ballast::detail::head_direction;
using ballast_test::bag_case;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using ballast_test::whole_array;

using communicator = ballast::nccl_communicator<>;
using numbers = std::vector<double>;

/// What a GPU keeps from step to step to exchange heads, with a side stream for what stays on it.
class exchanger {
 public:
  explicit exchanger(bag_case const& bag)
      : plan_(bag.plan()),
        tables_({static_cast<std::uint32_t>(bag.lengths.size()) + 2, bag.gpus, bag.query_heads,
                 bag.kv_heads}),
        heads_(*tables_)
  {}

  ballast::result<void> operator()(communicator& comm, head_direction direction,
                                   std::vector<head_array> const& arrays)
  {
    if (ready_.empty()) {
      EXPECT_TRUE(heads_.stage(plan_));
      EXPECT_EQ(heads_.upload(comm.stream()), cudaSuccess);
    }
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    ballast::device_heads const heads(arrays);
    std::size_t bytes = 0;
    EXPECT_EQ(prepared_heads::device_bytes(heads_, gpu, heads, bytes), cudaSuccess);
    auto& memory = memories_.emplace_back(bytes);
    auto const& ready = ready_.emplace_back(heads_, gpu, heads, memory, &side_);
    EXPECT_EQ(ready.prepare(comm.stream()), cudaSuccess);
    std::size_t messages = ballast::detail::temporary_storage::alignment;
    for (head_array const& each : arrays) {
      messages += comm.size() * (each.from.size() + each.to.size() + 2 * 16);
    }
    return ballast::detail::exchange_on_device(comm, ready, direction, arrays,
                                               memories_.emplace_back(messages));
  }

 private:
  ulysses_plan plan_;
  ballast_test::staged_on_host<ulysses_plan> tables_;
  ballast::staged<ulysses_plan>& heads_;
  ballast::side_stream side_ = ballast::side_stream::make().value();
  std::deque<std::vector<std::byte>> memories_;
  std::deque<prepared_heads> ready_;
};

// A bag of four with key-value heads that two and three GPUs have, all of which get the sums.
TEST(NcclUlysses, WaitsForNothingOnTheStream)
{
  bag_case const bag{4, {9, 0, 30, 4}, 6};
  auto const numbered = [](std::size_t index) { return index; };
  whole_array<double> const q(bag, bag.query_heads, 2, numbered);
  whole_array<double> const k(bag, 2, 3, numbered);
  whole_array<double> const sums(bag, 2, 3, [&](std::size_t index) {
    return k.elements[index] * bag.copies(static_cast<std::uint32_t>(index / 3 % 2), 2);
  });
  nccl_ranks ranks(4);
  ranks.run({.deadline = time_bound}, [&](communicator& comm) {
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    exchanger exchange(bag);
    std::latch released(1);
    EXPECT_EQ(ballast_test::launch(comm.stream(), [&] { released.wait(); }), cudaSuccess);
    auto const q_own = q.tokens_of(gpu);
    auto const k_own = k.tokens_of(gpu);
    numbers q_whole(q.heads_of(gpu).size(), -1);
    numbers k_whole(k.heads_of(gpu).size(), -1);
    numbers q_back(q_own.size(), -1);
    numbers k_back(k_own.size(), -1);
    EXPECT_TRUE(exchange(
        comm, head_direction::to_heads,
        {heads_of(q_own, q_whole, q.heads, q.dim), heads_of(k_own, k_whole, k.heads, k.dim)}));
    EXPECT_TRUE(exchange(
        comm, head_direction::to_tokens,
        {heads_of(q_whole, q_back, q.heads, q.dim), heads_of(k_whole, k_back, k.heads, k.dim)}));
    EXPECT_EQ(q_whole, numbers(q_whole.size(), -1));
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaErrorNotReady);
    released.count_down();
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(q_whole, q.heads_of(gpu));
    EXPECT_EQ(k_whole, k.heads_of(gpu));
    EXPECT_EQ(q_back, q_own);
    EXPECT_EQ(k_back, sums.tokens_of(gpu));
  });
}

}  // namespace
