// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../cuda/staged_on_host.hpp"
#include "../route/bag_arrays.hpp"
#include "../support/queued_work.hpp"
#include "../support/time_limits.hpp"
#include "../support/trials.hpp"
#include "mover.hpp"
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
using ballast::result;
using ballast::to_index;
using ballast::tokens;
using ballast::ulysses_plan;
using ballast::detail::head_direction;
using ballast_test::bag_case;
using ballast_test::mover;
using ballast_test::nccl_ranks;
using ballast_test::time_bound;
using ballast_test::whole_array;

using communicator = ballast::nccl_communicator<>;
using numbers = std::vector<double>;

/// What a GPU keeps from step to step to exchange heads by either mover.
class exchanger {
 public:
  explicit exchanger(bag_case const& bag)
      : plan_(bag.plan()),
        tables_({static_cast<std::uint32_t>(bag.lengths.size()) + 2, bag.gpus, bag.query_heads,
                 bag.kv_heads}),
        heads_(*tables_)
  {}

  result<void> operator()(communicator& comm, mover by, head_direction direction,
                          std::vector<head_array> const& arrays)
  {
    if (by == mover::of_host) {
      return ballast::detail::exchange_heads(comm, plan_, direction, arrays, memory_);
    }
    if (ready_.empty()) {
      EXPECT_TRUE(heads_.stage(plan_));
      EXPECT_EQ(heads_.upload(comm.stream()), cudaSuccess);
    }
    bool const beside = by == mover::queued_beside;
    if (beside && !side_) { side_.emplace(ballast::side_stream::make().value()); }
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    ballast::device_heads const heads(arrays);
    std::size_t bytes = 0;
    EXPECT_EQ(prepared_heads::device_bytes(heads_, gpu, heads, bytes), cudaSuccess);
    auto& memory = memories_.emplace_back(bytes);
    auto const& ready = ready_.emplace_back(heads_, gpu, heads, memory, beside ? &*side_ : nullptr);
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
  ballast::workspace memory_;
  std::optional<ballast::side_stream> side_;
  std::deque<std::vector<std::byte>> memories_;
  std::deque<prepared_heads> ready_;
};

/// Queries in eight bytes and keys in two, that are exact where they are added up.
struct layer {
  whole_array<double> q;
  whole_array<__half> k;

  layer(ballast::random_source& random, bag_case const& bag)
      : q(bag, bag.query_heads, 1 + random.below(3), [](std::size_t index) { return index; }),
        k(bag, ballast_test::random_heads(random, bag), 8 * random.below(2) + 1 + random.below(8),
          [](std::size_t index) { return static_cast<float>(index % 100); })
  {}

  /// What to_tokens makes of k: each head as often as there are copies.
  [[nodiscard]] whole_array<__half> sums() const
  {
    return {*k.bag, k.heads, k.dim, [this](std::size_t index) {
              auto const head = static_cast<std::uint32_t>(index / k.dim % k.heads);
              return static_cast<float>(k.elements[index]) *
                     static_cast<float>(k.bag->copies(head, k.heads));
            }};
  }
};

std::vector<float> values(std::vector<__half> const& halves)
{
  return {halves.begin(), halves.end()};
}

/// Exchanges there and back on one GPU, and compares with the definition.
void expect_exchanged(communicator& comm, exchanger& exchange, mover by, layer const& all)
{
  auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
  auto const q_own = all.q.tokens_of(gpu);
  auto const k_own = all.k.tokens_of(gpu);
  numbers q_whole(all.q.heads_of(gpu).size(), -1);
  std::vector<__half> k_whole(all.k.heads_of(gpu).size());
  numbers q_back(q_own.size(), -1);
  std::vector<__half> k_back(k_own.size());
  EXPECT_TRUE(exchange(comm, by, head_direction::to_heads,
                       {heads_of(q_own, q_whole, all.q.heads, all.q.dim),
                        heads_of(k_own, k_whole, all.k.heads, all.k.dim)}));
  EXPECT_TRUE(exchange(comm, by, head_direction::to_tokens,
                       {heads_of(q_whole, q_back, all.q.heads, all.q.dim),
                        heads_of(k_whole, k_back, all.k.heads, all.k.dim)}));
  EXPECT_TRUE(comm.wait());
  EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
  EXPECT_EQ(q_whole, all.q.heads_of(gpu));
  EXPECT_EQ(values(k_whole), values(all.k.heads_of(gpu)));
  EXPECT_EQ(q_back, q_own);
  EXPECT_EQ(values(k_back), values(all.sums().tokens_of(gpu)));
}

// Two hundred random bags of one to eight GPUs of every kind.
TEST(NcclUlysses, TakesHeadsThereAndBackWhereAllKindsOfGpusMeet)
{
  ballast::random_source random(3);
  for (int round = 0; round < ballast_test::trials_of(200); ++round) {
    bag_case const bag = ballast_test::random_bag(random, 8);
    layer const all(random, bag);
    SCOPED_TRACE(testing::Message() << "round " << round << ", " << bag.gpus << " GPUs");
    nccl_ranks ranks(bag.gpus);
    ranks.make_non_blocking(random.below(3));
    ranks.run({.deadline = time_bound, .verify = round % 2 == 0}, [&](communicator& comm) {
      std::size_t const kind = to_index(comm.rank()) + static_cast<std::size_t>(round);
      exchanger exchange(bag);
      expect_exchanged(comm, exchange, ballast_test::all_movers[kind % 3], all);
    });
    if (testing::Test::HasFailure()) { return; }
  }
}

/// A bag of four with key-value heads that two and three GPUs have.
struct NcclUlyssesOfFour : testing::Test {
  ballast::random_source random{4};
  bag_case const bag{4, {9, 0, 30, 4}, 6};
  layer const all{random, bag};
  nccl_ranks ranks{4};
};

TEST_F(NcclUlyssesOfFour, WaitsForNothingOnTheStream)
{
  ranks.run({.deadline = time_bound}, [&](communicator& comm) {
    auto const gpu = static_cast<std::uint32_t>(to_index(comm.rank()));
    exchanger exchange(bag);
    std::latch released(1);
    EXPECT_EQ(ballast_test::launch(comm.stream(), [&] { released.wait(); }), cudaSuccess);
    auto const own = all.q.tokens_of(gpu);
    numbers whole(all.q.heads_of(gpu).size(), -1);
    numbers back(own.size(), -1);
    EXPECT_TRUE(exchange(comm, mover::queued_beside, head_direction::to_heads,
                         {heads_of(own, whole, all.q.heads, all.q.dim)}));
    EXPECT_TRUE(exchange(comm, mover::queued_beside, head_direction::to_tokens,
                         {heads_of(whole, back, all.q.heads, all.q.dim)}));
    EXPECT_EQ(whole, numbers(whole.size(), -1));
    EXPECT_EQ(cudaStreamQuery(comm.stream()), cudaErrorNotReady);
    released.count_down();
    EXPECT_TRUE(comm.wait());
    EXPECT_EQ(whole, all.q.heads_of(gpu));
    EXPECT_EQ(back, own);
  });
}

}  // namespace
