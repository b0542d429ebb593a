// SPDX-License-Identifier: Apache-2.0
#include "gpu_timing.cuh"

#include <ballast/core.hpp>
#include <ballast/cuda/prepared_route.cuh>
#include <ballast/cuda/staged.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/route_plan.hpp>
#include <ballast/route/row_array.hpp>

#include <cstdio>
#include <cstdlib>

namespace {

using ballast::device_array;
using ballast::device_rows;
using ballast::rank_id;
using ballast::route_bound;
using ballast::route_plan;
using ballast::row_array;
using ballast::tokens;

constexpr std::uint32_t peers = 8;

/// Every other chunk of a rank's rows leaves, to a random peer, and as many come where they were. Each
/// is also copied to the chunk behind it, as rows that stay are.
route_plan chunks_for_peers(std::uint32_t chunks, tokens rows_per_chunk)
{
  ballast::random_source random(42);
  route_plan plan;
  plan.sent.start(peers);
  plan.received.start(peers);
  plan.rows_before = plan.rows_after = 2 * chunks * rows_per_chunk;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    ballast::route_table::range const rows{2 * chunk * rows_per_chunk, rows_per_chunk};
    auto const peer = ballast::to_id<rank_id>(random.below(peers));
    plan.sent.add(peer, rows);
    plan.received.add(peer, rows);
    plan.kept.push_back({rows.first, rows.first + rows_per_chunk, rows_per_chunk});
  }
  plan.sent.finish();
  plan.received.finish();
  return plan;
}

/// What packing and unpacking of one plan need, on the device.
class packed_step {
 public:
  packed_step(bench::stream const& stream, std::uint32_t chunks, tokens rows_per_chunk,
              std::vector<std::size_t> const& widths)
      : stream_(stream.get()),
        plan_(chunks_for_peers(chunks, rows_per_chunk)),
        tables_(ballast::staged<route_plan>::bytes({peers, chunks})),
        pinned_(ballast::staged<route_plan>::bytes({peers, chunks})),
        there_({peers, chunks}, tables_.span(), pinned_),
        rows_({})
  {
    std::vector<row_array> arrays;
    for (std::size_t const width : widths) {
      auto const bytes = static_cast<std::size_t>(plan_.rows_before) * width;
      arrays_.emplace_back(bytes);
      bench::check(cudaMemsetAsync(arrays_.back().data(), 1, bytes, stream_));
      arrays.push_back({arrays_.back().span(), arrays_.back().span(), width});
      moved_ += static_cast<std::size_t>(rows_per_chunk) * chunks * width;
    }
    rows_ = device_rows(arrays);
    std::vector<std::size_t> sizes(peers);
    ballast::message_bytes(plan_.sent.rows(), arrays, sizes);
    messages_ = device_array<std::byte>(std::reduce(sizes.begin(), sizes.end()));
    if (auto const staged = there_.stage(plan_); !staged) {
      std::fprintf(stderr, "%s\n", staged.error().message.c_str());
      std::exit(EXIT_FAILURE);
    }
    bench::check(there_.upload(stream_));
    std::size_t bytes = 0;
    bench::check(ballast::prepared_route::device_bytes(there_, rows_, bytes));
    memory_ = device_array<std::byte>(bytes);
    prepare();
    bench::check(cudaStreamSynchronize(stream_));
  }

  void prepare() const { bench::check(ready().prepare(stream_)); }
  void pack() const { bench::check(ready().pack(true, rows_, messages_.data(), stream_)); }
  void unpack(ballast::unpack_part part) const
  {
    bench::check(ready().unpack(true, rows_, messages_.data(), stream_, part));
  }

  [[nodiscard]] std::size_t moved() const { return moved_; }

 private:
  [[nodiscard]] ballast::prepared_route ready() const { return {there_, rows_, memory_.span()}; }

  cudaStream_t stream_;
  route_plan plan_;
  device_array<std::byte> tables_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  mutable ballast::staged<route_plan> there_;
  std::vector<device_array<std::byte>> arrays_;
  device_rows rows_;
  device_array<std::byte> messages_;
  device_array<std::byte> memory_;
  std::size_t moved_ = 0;
};

void time_chunks(bench::stream const& stream, char const* name, std::uint32_t chunks,
                 std::size_t chunk_bytes, std::vector<std::size_t> const& widths)
{
  auto const rows = static_cast<tokens>(chunk_bytes / widths.front());
  packed_step const step(stream, chunks, rows, widths);
  device_array<std::byte> const from(step.moved());
  device_array<std::byte> const to(step.moved());
  bench::check(cudaMemsetAsync(from.data(), 1, from.size(), stream.get()));
  auto const [pack_us, unpack_us, keep_us, memcpy_us] = bench::medians_us(
      stream.get(), [&] { step.pack(); }, [&] { step.unpack(ballast::unpack_part::messages); },
      [&] { step.unpack(ballast::unpack_part::kept); },
      [&] {
        bench::check(cudaMemcpyAsync(to.data(), from.data(), from.size(), cudaMemcpyDeviceToDevice,
                                     stream.get()));
      });
  bench::row((std::string("pack ") + name).c_str(), step.moved(), pack_us, memcpy_us);
  bench::row((std::string("unpack ") + name).c_str(), step.moved(), unpack_us, memcpy_us);
  bench::row((std::string("keep ") + name).c_str(), step.moved(), keep_us, memcpy_us);
}

/// Sixteen bytes a chunk: what is timed is the launches, and what prepare() finds once a step.
void time_overhead(bench::stream const& stream)
{
  packed_step const step(stream, 4096, 1, {16});
  step.pack();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replayed = nullptr;
  bench::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  step.pack();
  bench::check(cudaStreamEndCapture(stream.get(), &graph));
  bench::check(cudaGraphInstantiate(&replayed, graph, 0));
  auto const replay = [&] { bench::check(cudaGraphLaunch(replayed, stream.get())); };
  auto const pack = [&] { step.pack(); };

  auto const prepare = [&] { step.prepare(); };

  auto const [prepare_us, pack_us, graph_us] =
      bench::medians_us(stream.get(), prepare, pack, replay);
  std::printf("\nPack of 4096 chunks of 16 bytes, launch overhead:\n\n");
  std::printf("| queued as | host, us | GPU, us |\n|---|---|---|\n");
  std::printf("| prepare, once a step | %.1f | %.1f |\n", bench::host_us(stream.get(), prepare),
              prepare_us);
  std::printf("| a kernel | %.1f | %.1f |\n", bench::host_us(stream.get(), pack), pack_us);
  std::printf("| a graph | %.1f | %.1f |\n", bench::host_us(stream.get(), replay), graph_us);
  bench::check(cudaGraphExecDestroy(replayed));
  bench::check(cudaGraphDestroy(graph));
}

}  // namespace

int main()
{
  bench::print_device();
  std::printf("\nPack, unpack and keep, %u peers:\n\n", peers);
  bench::stream const stream;
  bench::header();
  time_chunks(stream, "4096 chunks of 4 kB", 4096, 4096, {4096});
  time_chunks(stream, "65536 chunks of 4 kB", 65'536, 4096, {4096});
  time_chunks(stream, "4096 chunks of 64 kB", 4096, 65'536, {4096});
  time_chunks(stream, "512 chunks of 1 MB", 512, 1'048'576, {4096});
  time_chunks(stream, "4096 chunks of 64 kB, rows of 6146 bytes", 4096, 65'536, {6146});
  time_chunks(stream, "4096 chunks of 64 kB and 4 B, 8 B, 2 B a row", 4096, 65'536,
              {4096, 4, 8, 2});
  time_overhead(stream);
  return 0;
}
