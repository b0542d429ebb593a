// SPDX-License-Identifier: Apache-2.0
#include <ballast/gpu/overlapped_chunks.hpp>

#include "../support/counted_allocations.hpp"
#include "../support/test.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, launch, ...}

#include <ballast/comm/communicator.hpp>

#include <atomic>
#include <latch>
#include <stdexcept>

namespace {

using ballast::overlapped_chunks;
using ballast::result;
using ballast_test::cuda_streams;
using ballast_test::launch;
using std::chrono::microseconds;

overlapped_chunks made(std::uint32_t depth)
{
  return overlapped_chunks::make(depth).value();
}

auto const enqueue_nothing = [](std::uint32_t, cudaStream_t) { return cudaSuccess; };

/// Both directions as one function of the stage that goes first and the one that goes second.
enum class direction { copy_then_compute, compute_then_copy };

class OverlappedChunks : public testing::TestWithParam<direction> {
 protected:
  template <class First, class Second>
  [[nodiscard]] result<void> run(overlapped_chunks const& schedule, std::uint32_t chunks,
                                 First first, Second second) const
  {
    return GetParam() == direction::copy_then_compute
               ? schedule.copy_then_compute(chunks, first, copies(), second, computation())
               : schedule.compute_then_copy(chunks, first, computation(), second, copies());
  }

  [[nodiscard]] cudaStream_t copies() const { return streams_[0]; }
  [[nodiscard]] cudaStream_t computation() const { return streams_[1]; }

 private:
  cuda_streams streams_{2};
};

void pause(ballast::random_source& random)
{
  std::this_thread::sleep_for(microseconds(random.below(150)));
}

// Values go through as many buffers as there are, slower on one side, now on the other.
TEST_P(OverlappedChunks, HandOverEachBufferWhenItIsFullAndWhenItIsEmpty)  // Ensures (2)
{
  for (std::uint32_t const depth : {1U, 2U, 3U, 20U}) {
    SCOPED_TRACE(depth);
    auto const schedule = made(depth);
    for (std::uint32_t const chunks : {0U, 1U, 2U, 3U, 12U}) {
      std::vector<std::uint32_t> buffers(depth);
      std::vector<std::uint32_t> found;
      std::vector<std::uint32_t> expected;
      ballast::random_source filling(depth);
      ballast::random_source emptying(chunks);
      EXPECT_TRUE(run(
          schedule, chunks,
          [&](std::uint32_t chunk, cudaStream_t stream) {
            return launch(stream, [&, chunk] {
              pause(filling);
              buffers[chunk % depth] = 100 + chunk;
            });
          },
          [&](std::uint32_t chunk, cudaStream_t stream) {
            return launch(stream, [&, chunk] {
              pause(emptying);
              found.push_back(buffers[chunk % depth]);
            });
          }));
      EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) { expected.push_back(100 + chunk); }
      EXPECT_EQ(found, expected);
    }
  }
}

TEST_P(OverlappedChunks, AreBetweenWhatTheCallersStreamDoesBeforeAndAfter)  // Ensures (1)
{
  auto const schedule = made(2);
  int value = 0;
  int seen = 0;
  int after = 0;
  EXPECT_EQ(launch(computation(),
                   [&] {
                     std::this_thread::sleep_for(std::chrono::milliseconds(10));
                     value = 1;
                   }),
            cudaSuccess);
  bool const copies_go_first = GetParam() == direction::copy_then_compute;
  auto const copy = [&](std::uint32_t, cudaStream_t stream) {
    return launch(stream, [&] {
      int const read = value;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      seen = read;
    });
  };
  EXPECT_TRUE(copies_go_first ? run(schedule, 1, copy, enqueue_nothing)
                              : run(schedule, 1, enqueue_nothing, copy));
  EXPECT_EQ(launch(computation(), [&] { after = 10 * seen; }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
  EXPECT_EQ(after, 10);
}

// Each side waits in its kernel for the other side's neighbouring chunk: that ends only if the two
// do run at the same time.
TEST_P(OverlappedChunks, RunWhileTheirNeighboursRun)
{
  constexpr std::uint32_t chunks = 6;
  auto const schedule = made(2);
  std::vector<std::unique_ptr<std::latch>> met;
  for (std::uint32_t chunk = 0; chunk <= chunks; ++chunk) {
    met.push_back(std::make_unique<std::latch>(chunk == 0 || chunk == chunks ? 1 : 2));
  }
  EXPECT_TRUE(run(
      schedule, chunks,
      [&](std::uint32_t chunk, cudaStream_t stream) {
        return launch(stream, [&, chunk] { met[chunk]->arrive_and_wait(); });
      },
      [&](std::uint32_t chunk, cudaStream_t stream) {
        return launch(stream, [&, chunk] { met[chunk + 1]->arrive_and_wait(); });
      }));
  EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
}

// With a depth of all chunks no work waits for a buffer.
TEST_P(OverlappedChunks, RunAheadAsFarAsThereAreBuffers)
{
  constexpr std::uint32_t chunks = 5;
  for (std::uint32_t const depth : {1U, 2U, 4U, 5U, 9U}) {
    std::latch go(1);
    std::latch filled(std::min(depth, chunks));
    std::atomic<std::uint32_t> started = 0;
    EXPECT_TRUE(run(
        made(depth), chunks,
        [&](std::uint32_t, cudaStream_t stream) {
          return launch(stream, [&] {
            if (++started <= depth) { filled.count_down(); }
          });
        },
        [&](std::uint32_t, cudaStream_t stream) { return launch(stream, [&] { go.wait(); }); }));
    filled.wait();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(started, std::min(depth, chunks));
    go.count_down();
    EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
    EXPECT_EQ(started, chunks);
  }
}

TEST_P(OverlappedChunks, CreateNothingAndAllocateNothing)  // Ensures (3)
{
  auto const schedule = made(2);
  EXPECT_EQ(ballast_test::live_events(), 3U);
  EXPECT_TRUE(run(schedule, 4, enqueue_nothing, enqueue_nothing));
  std::size_t const before = ballast_test::allocations();
  EXPECT_TRUE(run(schedule, 9, enqueue_nothing, enqueue_nothing));
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(ballast_test::live_events(), 3U);
}

TEST_P(OverlappedChunks, StopAtTheFirstErrorAndJoinAllTheSame)
{
  auto const schedule = made(2);
  for (bool const first_fails : {true, false}) {
    std::vector<std::uint32_t> called;
    bool late = false;
    auto const slow = [&](std::uint32_t, cudaStream_t stream) {
      return launch(stream, [&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        late = true;
      });
    };
    auto const failing = [&](std::uint32_t chunk, cudaStream_t) {
      called.push_back(chunk);
      return chunk == 2 ? cudaErrorLaunchFailure : cudaSuccess;
    };
    auto const done =
        first_fails ? run(schedule, 5, failing, slow) : run(schedule, 5, slow, failing);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ballast::error_code::transport);
    EXPECT_EQ(done.error().position, static_cast<std::size_t>(cudaErrorLaunchFailure));
    bool const copy_fails = first_fails == (GetParam() == direction::copy_then_compute);
    EXPECT_EQ(done.error().message,
              std::string(copy_fails ? "copy of a chunk" : "computation on a chunk") +
                  " failed with code 719: unspecified launch failure");
    EXPECT_EQ(called, (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
    EXPECT_TRUE(late);
    EXPECT_EQ(cudaStreamQuery(copies()), cudaSuccess) << "the caller's stream has waited for it";
  }
}

TEST_P(OverlappedChunks, JoinAllWhereACallableThrows)
{
  std::atomic<int> done = 0;
  auto const count = [&](std::uint32_t, cudaStream_t stream) {
    return launch(stream, [&, stream] {
      if (stream == copies()) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }
      ++done;
    });
  };
  auto const throwing = [&](std::uint32_t chunk, cudaStream_t stream) {
    cudaError_t const queued = count(chunk, stream);
    if (chunk == 1) { throw std::runtime_error("out of ink"); }
    return queued;
  };
  EXPECT_THROW((void)run(made(2), 5, throwing, count), std::runtime_error);
  EXPECT_EQ(cudaStreamSynchronize(computation()), cudaSuccess);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(cudaStreamSynchronize(copies()), cudaSuccess);
}

TEST_P(OverlappedChunks, GiveBackWhatACommunicatorSays)
{
  auto const wrong = ballast::comm_failure::peer_lost("all_gather", {ballast::rank_id{1}});
  auto const lose = [&](std::uint32_t chunk, cudaStream_t) {
    return chunk == 1 ? result<void>(wrong) : result<void>();
  };
  auto const done = run(made(2), 3, enqueue_nothing, lose);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error(), wrong.value());
}

TEST_P(OverlappedChunks, ReportEveryCallOfCuda)
{
  auto const schedule = made(1);
  // Three chunks: a fork, two waits for a buffer, three handovers, three ends, a join.
  for (auto const& [call, times] :
       {std::pair<char const*, std::size_t>{"cudaEventRecord", 8}, {"cudaStreamWaitEvent", 7}}) {
    for (std::size_t before = 0; before <= times; ++before) {
      ballast_test::fail_cuda_call(call, before, cudaErrorLaunchFailure);
      auto const done = run(schedule, 3, enqueue_nothing, enqueue_nothing);
      EXPECT_EQ(done.has_value(), before == times) << call << " " << before;
      if (!done) {
        EXPECT_EQ(done.error().message,
                  std::string(call) + " failed with code 719: unspecified launch failure");
      }
    }
    ballast_test::fail_cuda_call(call, 0, cudaSuccess);
  }
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

std::string name_of_direction(testing::TestParamInfo<direction> const& info)
{
  return info.param == direction::copy_then_compute ? "CopyThenCompute" : "ComputeThenCopy";
}

INSTANTIATE_TEST_SUITE_P(Directions, OverlappedChunks,
                         testing::Values(direction::copy_then_compute,
                                         direction::compute_then_copy),
                         name_of_direction);

// Ranks that gather a chunk while they compute on the one before, with two buffers.
TEST(OverlappedChunksOfRanks, ComputeOnWhatTheyGather)
{
  constexpr std::size_t ranks = 4;
  constexpr std::uint32_t chunks = 7;
  constexpr std::size_t piece = 300;
  ballast_test::delay_copies(microseconds(200));
  cuda_streams const copy_streams(ranks);
  cuda_streams const compute_streams(ranks);
  ballast_test::run_copy_engine_ranks(
      copy_streams.all(), {.deadline = std::chrono::minutes(1)},
      [&](ballast::copy_engine_communicator<>& comm) {
        std::size_t const self = to_index(comm.rank());
        auto const schedule = made(2);
        std::vector<std::byte> own(chunks * piece);
        std::vector<std::vector<std::byte>> gathered(2, std::vector<std::byte>(ranks * piece));
        std::vector<std::size_t> sums(chunks);
        auto const value = [](std::size_t rank, std::size_t chunk) { return 20 * rank + chunk; };
        cudaStream_t const compute_stream = compute_streams[self];
        EXPECT_EQ(launch(compute_stream,
                         [&] {
                           std::this_thread::sleep_for(microseconds(500 * self));
                           for (std::size_t at = 0; at < own.size(); ++at) {
                             own[at] = static_cast<std::byte>(value(self, at / piece));
                           }
                         }),
                  cudaSuccess);
        auto const add_up = [&](std::uint32_t chunk, cudaStream_t stream) {
          return launch(stream, [&, chunk] {
            for (std::byte const each : gathered[chunk % 2]) {
              sums[chunk] += std::to_integer<std::size_t>(each);
            }
          });
        };
        // [overlapped_chunks]
        auto const gather = [&](std::uint32_t chunk, cudaStream_t) {
          return comm.all_gather(std::span(own).subspan(chunk * piece, piece), gathered[chunk % 2]);
        };
        auto const done =
            schedule.copy_then_compute(chunks, gather, comm.stream(), add_up, compute_stream);
        // [overlapped_chunks]
        EXPECT_TRUE(done);
        EXPECT_EQ(cudaStreamSynchronize(compute_stream), cudaSuccess);
        for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
          std::size_t sum = 0;
          for (std::size_t rank = 0; rank < ranks; ++rank) { sum += piece * value(rank, chunk); }
          EXPECT_EQ(sums[chunk], sum);
        }
        EXPECT_TRUE(comm.barrier());  // others may still read what is this rank's
      });
  ballast_test::delay_copies(microseconds(0));
}

// The remap under the gradients of the weights: each waits for the other in its kernel.
TEST(OverlappedChunksBeside, RunBothBetweenWhatTheCallersStreamDoes)
{
  cuda_streams const streams(2);
  auto const schedule = made(1);
  std::latch met(2);
  int before = 0;
  int after = 0;
  EXPECT_EQ(launch(streams[1],
                   [&] {
                     std::this_thread::sleep_for(std::chrono::milliseconds(5));
                     before = 1;
                   }),
            cudaSuccess);
  int remapped = 0;
  int gradient = 0;
  EXPECT_TRUE(schedule.beside(
      [&](std::uint32_t, cudaStream_t stream) {
        return launch(stream, [&] {
          remapped = before;
          met.arrive_and_wait();
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          remapped *= 10;
        });
      },
      streams[0],
      [&](std::uint32_t, cudaStream_t stream) {
        return launch(stream, [&] {
          gradient = before;
          met.arrive_and_wait();
        });
      },
      streams[1]));
  EXPECT_EQ(launch(streams[1], [&] { after = remapped + gradient; }), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(streams[1]), cudaSuccess);
  EXPECT_EQ(after, 11);
}

TEST(OverlappedChunksOfRanks, ReportWhatCudaRefusesAtTheStart)
{
  ballast_test::fail_cuda_call("cudaEventCreateWithFlags", 2, cudaErrorMemoryAllocation);
  auto const schedule = overlapped_chunks::make(2);
  ASSERT_FALSE(schedule);
  EXPECT_EQ(schedule.error().code, ballast::error_code::transport);
  EXPECT_EQ(ballast_test::live_events(), 0U);
}

TEST(OverlappedChunksDeathTest, RefuseToRunWithoutABuffer)
{
  EXPECT_DEATH((void)overlapped_chunks::make(0), "a depth of 0");
}

}  // namespace
