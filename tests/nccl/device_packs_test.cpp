// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "../route/sharded_steps.hpp"  // defines: ballast_test::{random_sharded_step, on_host, ...}
#include "../support/queued_work.hpp"
#include "../support/time_limits.hpp"
#include "nccl_ranks.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_pairs.hpp>
#include <ballast/route/sharded_exchange.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/runtime/device_packs.cuh>

namespace {

using ballast::nccl_pairs;
using ballast_test::nccl_ranks;
using ballast_test::sharded_case;

/// Arrays of a GPU, and attention that is queued.
class on_stream {
 public:
  explicit on_stream(ballast::device_packs& packs) : packs_(packs) {}
  [[nodiscard]] ballast::device_packs& packs(ballast::sharded_packs const& own) const
  {
    or_throw(packs_.upload(own));
    return packs_;
  }
  template <class Work>
  void run(Work work) const
  {
    EXPECT_EQ(ballast_test::launch(packs_.stream(), work), cudaSuccess);
  }
  void finish() const { EXPECT_EQ(cudaStreamSynchronize(packs_.stream()), cudaSuccess); }

 private:
  ballast::device_packs& packs_;
};

template <class C>
void expect_steps(C& comm, std::vector<sharded_case> const& steps, cudaStream_t computes)
{
  // [device_packs]
  ballast::device_packs on_device(computes);  // once, and so are these
  ballast::device_allocator<std::byte> const memory(computes, computes);
  ballast::sharded_exchange<ballast::device_allocator<std::byte>> exchange(1, memory);
  // [device_packs]
  decltype(exchange) other(2, memory);
  on_stream const place(on_device);
  for (std::size_t trial = 0; trial < steps.size(); ++trial) {
    SCOPED_TRACE(testing::Message() << "step " << trial << ", rank " << to_index(comm.rank()));
    auto const done =
        ballast_test::expect_unsharded_step(comm, steps[trial], trial % 2 == 0 ? exchange : other,
                                            ballast::sharded_packs::ignore_events{}, place);
    ASSERT_TRUE(done) << done.error().message;
  }
}

// Messages travel on streams of their own, beside attention.
TEST(DevicePacks, EqualTheUnshardedStepBitForBitOverPairs)  // Ensures (1)
{
  constexpr std::size_t gpus = 4;
  auto const steps = ballast_test::random_sharded_steps(ballast_test::trials_of(250), gpus,
                                                        821);  // a plan a GPU each
  std::vector<ballast::rank_pair> pairs;
  for (std::uint32_t from = 0; from < gpus; ++from) {
    for (std::uint32_t to = 0; to < gpus; ++to) {
      if (from != to) { pairs.push_back({ballast::rank_id{from}, ballast::rank_id{to}}); }
    }
  }
  nccl_ranks ranks(gpus);
  ranks.run({.deadline = ballast_test::time_bound}, [&](ballast::nccl_communicator<>& comm) {
    cudaStream_t computes = nullptr;
    ASSERT_EQ(cudaStreamCreate(&computes), cudaSuccess);
    {
      auto made = nccl_pairs<>::make(comm, pairs, computes, ballast_test::time_bound);
      ASSERT_TRUE(made) << made.error().message;
      expect_steps(*made, steps, computes);
      EXPECT_EQ(cudaStreamSynchronize(computes), cudaSuccess);
    }
    EXPECT_EQ(cudaStreamDestroy(computes), cudaSuccess);
  });
  EXPECT_EQ(ballast_test::live_device_arrays(), 0U);
  EXPECT_EQ(ballast_test::live_pinned_arrays(), 0U);
}

TEST(DevicePacks, EqualTheUnshardedStepBitForBitOnOneStream)
{
  auto const steps = ballast_test::random_sharded_steps(20, 8, 822);
  nccl_ranks ranks(8);
  ranks.run({.deadline = ballast_test::time_bound},
            [&](ballast::nccl_communicator<>& comm) { expect_steps(comm, steps, comm.stream()); });
}

}  // namespace
