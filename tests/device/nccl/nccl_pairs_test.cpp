// SPDX-License-Identifier: Apache-2.0
#include <nccl.h>
#include "../../support/test.hpp"
#include "../../support/toy_pipeline.hpp"  // defines: toy::{chain_job, stage, result_of_one_rank}

#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/nccl_communicator.hpp>
#include <ballast/gpu/nccl_pairs.hpp>
#include <ballast/pipeline/schedule.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <ballast/pipeline/stage_graph.hpp>
#include <ballast/runtime/pipeline_runner.hpp>
#include <ballast/runtime/pipeline_setup.hpp>
#include <ballast/topology/process_grid.hpp>

#include <cuda_runtime_api.h>

#include <mutex>

namespace {

using ballast::rank_id;
using device_memory = ballast::device_allocator<std::byte>;

/// Computes on the host what a stage is given on the device.
class stage_of_device_rows {
 public:
  stage_of_device_rows(toy::job const& job, rank_id rank, cudaStream_t stream)
      : inner_(job, rank), stream_(stream)
  {}

  double forward(ballast::forward_call call)
  {
    host_rows in = fetched(call.inputs);
    host_rows out = sized_as(call.outputs);
    auto const to = call.outputs;
    std::vector<std::span<std::byte const>> const in_views(in.begin(), in.end());
    std::vector<std::span<std::byte>> const out_views(out.begin(), out.end());
    call.inputs = in_views;
    call.outputs = out_views;
    double const loss = inner_.forward(call);
    store(out, to);
    return loss;
  }

  void backward(ballast::backward_call call)
  {
    host_rows in = fetched(call.inputs);
    host_rows of_out = fetched(call.output_gradients);
    host_rows of_in = sized_as(call.input_gradients);
    auto const to = call.input_gradients;
    std::vector<std::span<std::byte const>> const in_views(in.begin(), in.end());
    std::vector<std::span<std::byte const>> const out_views(of_out.begin(), of_out.end());
    std::vector<std::span<std::byte>> const made_views(of_in.begin(), of_in.end());
    call.inputs = in_views;
    call.output_gradients = out_views;
    call.input_gradients = made_views;
    inner_.backward(call);
    store(of_in, to);
  }

  [[nodiscard]] toy::gradients const& found() const { return inner_.found; }

 private:
  using host_rows = std::vector<std::vector<std::byte>>;

  template <class Byte>
  static host_rows sized_as(std::span<std::span<Byte> const> arrays)
  {
    host_rows rows;
    for (auto const each : arrays) { rows.emplace_back(each.size()); }
    return rows;
  }
  host_rows fetched(std::span<std::span<std::byte const> const> arrays) const
  {
    host_rows rows = sized_as(arrays);
    for (std::size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(cudaMemcpyAsync(rows[k].data(), arrays[k].data(), rows[k].size(),
                                cudaMemcpyDeviceToHost, stream_),
                cudaSuccess);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return rows;
  }
  void store(host_rows const& rows, std::span<std::span<std::byte> const> to) const
  {
    for (std::size_t k = 0; k < rows.size(); ++k) {
      EXPECT_EQ(cudaMemcpyAsync(to[k].data(), rows[k].data(), rows[k].size(),
                                cudaMemcpyHostToDevice, stream_),
                cudaSuccess);
    }
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);  // rows end with the call
  }

  toy::stage inner_;
  cudaStream_t stream_;
};

/// Four stages on as many GPUs as there are, up to four; on one GPU nothing is sent.
TEST(NcclPairsOnDevice, RunAPipelineInDeviceMemory)
{
  int devices = 0;
  cudaError_t const counted = cudaGetDeviceCount(&devices);
  if (counted != cudaSuccess || devices == 0) {
    GTEST_SKIP() << "no CUDA device: " << cudaGetErrorString(counted);
  }
  std::size_t const ranks = devices >= 4 ? 4 : devices >= 2 ? 2 : 1;
  toy::job job = toy::chain_job(4, 6, 1000);
  job.setup.grid = ballast::process_grid::make({{1, static_cast<std::uint32_t>(ranks), 1}}).value();
  job.setup.schedule =
      ballast::compiled_schedule::make(ballast::chain_of_stages(4, ranks), ballast::gpipe{}, 6)
          .value();
  toy::result_of_one_rank const alone(job);
  auto const pairs = job.setup.pairs();
  std::vector<ncclComm_t> comms(ranks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), static_cast<int>(ranks), nullptr), ncclSuccess);
  std::mutex mutex;
  toy::gradients found;
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ASSERT_EQ(cudaSetDevice(static_cast<int>(rank)), cudaSuccess);
      cudaStream_t streams[3] = {};  // of the communicator, to compute, to read
      for (cudaStream_t& each : streams) {
        ASSERT_EQ(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking), cudaSuccess);
      }
      {
        auto comm = ballast::nccl_communicator<>::over(comms[rank], streams[0],
                                                       {.deadline = std::chrono::minutes(1)});
        ASSERT_TRUE(comm) << comm.error().message;
        auto ways = ballast::nccl_pairs<>::make(*comm, pairs, streams[1], std::chrono::minutes(1));
        ASSERT_TRUE(ways) << ways.error().message;
        auto runner = ballast::pipeline_runner<device_memory>::make(
                          job.setup, ways->rank(), device_memory(streams[1], streams[2]))
                          .value();
        ballast::or_throw(runner.plan(job.plan));
        stage_of_device_rows stage(job, ways->rank(), streams[1]);
        for (int step = 0; step < 3; ++step) {
          auto const done = runner.run(*ways, job.order, stage);
          ASSERT_TRUE(done) << done.error().message;
          EXPECT_EQ(runner.loss(), alone.loss);
        }
        std::lock_guard const lock(mutex);
        found.insert(stage.found().begin(), stage.found().end());
      }
      for (cudaStream_t const each : streams) { EXPECT_EQ(cudaStreamDestroy(each), cudaSuccess); }
    });
  }
  for (std::thread& thread : threads) { thread.join(); }
  for (ncclComm_t const comm : comms) { EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess); }
  EXPECT_EQ(found, alone.found);
}

}  // namespace
