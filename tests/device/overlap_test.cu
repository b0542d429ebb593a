// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/overlapped_chunks.hpp>

#include "gpu_test.hpp"  // defines: ballast_test::{gpu_test, graph_of, temporary_for}
#include "ranks_on_one_gpu.hpp"

#include <ballast/cuda/copy_batch.cuh>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/route/placement.hpp>

namespace {

using ballast::chunk_layout;
using ballast::chunk_of;
using ballast::device_array;
using ballast::overlapped_chunks;
using numbers = std::vector<std::uint32_t>;

/// Slow enough for a copy that does not wait for it to be seen.
__global__ void triple(std::uint32_t* to, std::uint32_t const* from, std::size_t count)
{
  long long const begin = clock64();
  while (clock64() - begin < 100'000) {}
  for (std::size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count;
       at += std::size_t{gridDim.x} * blockDim.x) {
    to[at] = 3 * from[at];
  }
}

numbers counted(std::size_t count, std::uint32_t first)
{
  numbers values(count);
  for (std::uint32_t& each : values) { each = first++; }
  return values;
}

numbers tripled(numbers values)
{
  for (std::uint32_t& each : values) { each *= 3; }
  return values;
}

class OverlapOnGpu : public ballast_test::gpu_test {
 protected:
  void SetUp() override
  {
    gpu_test::SetUp();
    if (IsSkipped()) { return; }
    ASSERT_EQ(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~OverlapOnGpu() override
  {
    if (copies_ != nullptr) { EXPECT_EQ(cudaStreamDestroy(copies_), cudaSuccess); }
  }

  [[nodiscard]] cudaStream_t copies() const { return copies_; }

  static constexpr std::uint32_t chunks = 9;
  static constexpr std::size_t size = 3 * 65536;  // of a chunk
  static constexpr std::size_t bytes = size * sizeof(std::uint32_t);

 private:
  cudaStream_t copies_ = nullptr;
};

TEST_F(OverlapOnGpu, HandsChunksOverInBothDirectionsInAGraphToo)
{
  auto const schedule = overlapped_chunks::make(2).value();
  auto const from = to_device(counted(chunks * size, 0));
  device_array<std::uint32_t> const buffers(2 * size);
  device_array<std::uint32_t> const to(chunks * size);
  for (bool const copies_go_first : {true, false}) {
    auto const ends_of = [&](std::uint32_t chunk, bool is_first) {
      std::uint32_t* const buffer = buffers.data() + chunk % 2 * size;
      return is_first ? std::pair(buffer, from.data() + chunk * size)
                      : std::pair(to.data() + chunk * size, buffer);
    };
    auto const copy = [&](std::uint32_t chunk, cudaStream_t copy_stream) {
      auto const [there, here] = ends_of(chunk, copies_go_first);
      return cudaMemcpyAsync(there, here, bytes, cudaMemcpyDeviceToDevice, copy_stream);
    };
    auto const compute = [&](std::uint32_t chunk, cudaStream_t compute_stream) {
      auto const [there, here] = ends_of(chunk, !copies_go_first);
      triple<<<32, 256, 0, compute_stream>>>(there, here, size);
      return cudaGetLastError();
    };
    auto const queue = [&](cudaStream_t stream) {
      auto const done = copies_go_first
                            ? schedule.copy_then_compute(chunks, copy, copies(), compute, stream)
                            : schedule.compute_then_copy(chunks, compute, stream, copy, copies());
      return done ? cudaSuccess : cudaErrorUnknown;
    };
    write(from, counted(chunks * size, 0));
    EXPECT_EQ(queue(stream()), cudaSuccess);
    EXPECT_EQ(to_host(to), tripled(counted(chunks * size, 0)));
    auto const graph = ballast_test::graph_of(stream(), queue);
    for (std::uint32_t const first : {1000U, 7U}) {
      write(from, counted(chunks * size, first));
      EXPECT_EQ(graph.replay(stream()), cudaSuccess);
      EXPECT_EQ(to_host(to), tripled(counted(chunks * size, first)));
    }
  }
}

// A chunked all-gather of four ranks on one GPU, each chunk computed on while the next comes, and
// the result laid out as one all-gather would have left it.
TEST_F(OverlapOnGpu, GathersComputesAndRemaps)
{
  constexpr std::uint32_t ranks = 4;
  constexpr std::int64_t rows = 1003;
  constexpr std::uint32_t width = 512;  // numbers
  chunk_layout const layout{
      .rows = rows, .ranks = ranks, .chunks = chunks, .row_bytes = width * sizeof(std::uint32_t)};
  numbers const all = counted(ranks * rows * width, 17);
  ballast_test::run_ranks_on_one_gpu(ranks, [&](ballast::copy_engine_communicator<>& mine) {
    cudaStream_t compute = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), cudaSuccess);
    std::size_t const self = to_index(mine.rank());
    device_array<std::uint32_t> const own(rows * width);
    device_array<std::uint32_t> const gathered(ranks * rows * width);
    device_array<std::uint32_t> const computed(ranks * rows * width);
    device_array<std::uint32_t> const result(ranks * rows * width);
    EXPECT_EQ(cudaMemcpyAsync(own.data(), all.data() + self * rows * width,
                              own.size() * sizeof(std::uint32_t), cudaMemcpyHostToDevice, compute),
              cudaSuccess);
    // Every chunk has a place of its own: by chunk, as the layout says.
    auto const place = [&](std::uint32_t index) {
      auto const cut = chunk_of(rows, chunks, index);
      return std::pair(static_cast<std::size_t>(cut.first) * width,
                       static_cast<std::size_t>(cut.count) * width);
    };
    auto const schedule = overlapped_chunks::make(chunks).value();
    EXPECT_TRUE(schedule.copy_then_compute(
        chunks,
        [&](std::uint32_t index, cudaStream_t) {
          auto const [first, count] = place(index);
          return mine.all_gather(
              std::as_bytes(own.span().subspan(first, count)),
              std::as_writable_bytes(gathered.span().subspan(ranks * first, ranks * count)));
        },
        mine.stream(),
        [&](std::uint32_t index, cudaStream_t stream) {
          auto const [first, count] = place(index);
          triple<<<32, 256, 0, stream>>>(computed.data() + ranks * first,
                                         gathered.data() + ranks * first, ranks * count);
          return cudaGetLastError();
        },
        compute));
    ballast::chunks_to_ranks const remap{layout, reinterpret_cast<std::byte*>(computed.data()),
                                         reinterpret_cast<std::byte*>(result.data())};
    auto const queue = [&](void* temporary, std::size_t& temporary_bytes) {
      return ballast::copy_batch(temporary, temporary_bytes, remap, layout.copies(), compute);
    };
    auto const temporary = ballast_test::temporary_for(queue);
    std::size_t temporary_bytes = temporary.size();
    EXPECT_EQ(queue(temporary.data(), temporary_bytes), cudaSuccess);
    numbers found(result.size());
    EXPECT_EQ(cudaMemcpyAsync(found.data(), result.data(), found.size() * sizeof found[0],
                              cudaMemcpyDeviceToHost, compute),
              cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
    EXPECT_EQ(found, tripled(all));
    EXPECT_TRUE(mine.barrier());  // others may still read what is this rank's
    EXPECT_EQ(cudaStreamDestroy(compute), cudaSuccess);
  });
}

}  // namespace
