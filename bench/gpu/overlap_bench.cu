// SPDX-License-Identifier: Apache-2.0
// An all-gather before a matrix product, and a reduce-scatter behind one, by logical ranks on one
// GPU: one after the other, and chunk by chunk so that one chunk is copied while another is
// multiplied.
#include "gpu_timing.cuh"  // defines: bench::{check, event, median_us, print_device, stream}

#include <ballast/core.hpp>
#include <ballast/cuda/copy_batch.cuh>
#include <ballast/cuda/reduce_scatter.cuh>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/copy_engine_communicator.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/gpu/overlapped_chunks.hpp>
#include <ballast/route/placement.hpp>

#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>

namespace {

using ballast::chunk_layout;
using ballast::device_array;
using communicator = ballast::copy_engine_communicator<>;

constexpr int rows = 1024;     // of a rank
constexpr int inner = 4096;    // numbers of a row: 16 kB
constexpr int columns = 1024;  // of a rank's weights

constexpr int tile = 64;
constexpr int slice = 16;

/// c[rows][columns] = a[rows][inner] * b[inner][columns]: a tile a block, 4 x 4 numbers a thread.
/// A number is the same sum in the same order whatever rows are beside it.
__global__ __launch_bounds__(256) void multiply(float* c, float const* a, float const* b, int count)
{
  __shared__ float left[tile][slice + 1];
  __shared__ float right[slice][tile];
  int const thread = static_cast<int>(threadIdx.x);
  int const row = static_cast<int>(blockIdx.y) * tile;
  int const column = static_cast<int>(blockIdx.x) * tile;
  int const down = thread / 16 * 4;
  int const across = thread % 16 * 4;
  float sum[4][4] = {};
  for (int begin = 0; begin < inner; begin += slice) {
    for (int each = 0; each < 4; ++each) {
      int const r = thread / 4;
      int const i = thread % 4 * 4 + each;
      left[r][i] = row + r < count ? a[std::size_t(row + r) * inner + begin + i] : 0.0F;
      right[thread / 16][across + each] =
          b[std::size_t(begin + thread / 16) * columns + column + across + each];
    }
    __syncthreads();
    for (int i = 0; i < slice; ++i) {
      for (int y = 0; y < 4; ++y) {
        for (int x = 0; x < 4; ++x) { sum[y][x] += left[down + y][i] * right[i][across + x]; }
      }
    }
    __syncthreads();
  }
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4 && row + down + y < count; ++x) {
      c[std::size_t(row + down + y) * columns + column + across + x] = sum[y][x];
    }
  }
}

__global__ void fill(float* to, std::size_t count, std::uint32_t seed)
{
  for (std::size_t at = blockIdx.x * blockDim.x + threadIdx.x; at < count;
       at += std::size_t{gridDim.x} * blockDim.x) {
    std::uint32_t const mixed = (static_cast<std::uint32_t>(at) + seed) * 2654435761U;
    to[at] = static_cast<float>(mixed >> 16U) / 65536.0F - 0.5F;
  }
}

template <class T>
T value_of(ballast::result<T> made)
{
  if (made) { return *std::move(made); }
  std::fprintf(stderr, "%s\n", made.error().message.c_str());
  std::exit(EXIT_FAILURE);
}

void check(ballast::result<void> const& done)
{
  if (done) { return; }
  std::fprintf(stderr, "%s\n", done.error().message.c_str());
  std::exit(EXIT_FAILURE);
}

struct variant {
  std::uint32_t chunks;
  bool beside_kernels;
  bool copies = true;
  bool multiplies = true;
};

/// What one thread has: two streams, its rows and weights, and room for all ranks' rows.
class rank_data {
 public:
  rank_data(std::uint32_t all, std::uint32_t seed)
      : ranks(all),
        own_(rows * inner),
        weights_(inner * columns),
        gathered_(ranks * rows * inner),
        product_(ranks * rows * columns),
        result_(ranks * rows * columns),
        sum_(rows * columns),
        schedule_(value_of(ballast::overlapped_chunks::make(most_chunks)))
  {
    fill<<<1024, 256, 0, compute_.get()>>>(own_.data(), own_.size(), seed);
    fill<<<1024, 256, 0, compute_.get()>>>(weights_.data(), weights_.size(), ~seed);
    bench::check(
        cudaMemsetAsync(gathered_.data(), 0, gathered_.size() * sizeof(float), compute_.get()));
    std::size_t bytes = 0;
    bench::check(remap(most_chunks, nullptr, bytes));
    temporary_ = device_array<std::byte>(bytes);
    bench::check(cudaStreamSynchronize(compute_.get()));
  }

  [[nodiscard]] cudaStream_t copies() const { return copy_.get(); }

  /// Queues a variant behind `begin`; `end` is then behind it.
  void queue(variant const& what, communicator& comm, cudaEvent_t begin) const
  {
    bench::check(cudaStreamWaitEvent(compute_.get(), begin, 0));
    check(schedule_.copy_then_compute(
        what.chunks,
        [&](std::uint32_t chunk, cudaStream_t) {
          if (!what.copies) { return ballast::result<void>(); }
          auto const [first, count] = place(what, chunk);
          return comm.all_gather(std::as_bytes(own_.span().subspan(first * inner, count * inner)),
                                 std::as_writable_bytes(gathered_.span().subspan(
                                     ranks * first * inner, ranks * count * inner)));
        },
        copy_.get(),
        [&](std::uint32_t chunk, cudaStream_t stream) {
          return what.multiplies ? product_of(what, chunk, stream) : cudaSuccess;
        },
        compute_.get()));
    if (what.chunks > 1 && what.multiplies) {
      std::size_t bytes = temporary_.size();
      bench::check(remap(what.chunks, temporary_.data(), bytes));
    }
    bench::check(cudaEventRecord(end_.get(), compute_.get()));
  }

  /// The same of the products of gathered rows, whose partial sums are reduced and scattered.
  void queue_scatter(variant const& what, communicator& comm, cudaEvent_t begin)
  {
    bench::check(cudaStreamWaitEvent(compute_.get(), begin, 0));
    check(schedule_.compute_then_copy(
        what.chunks,
        [&](std::uint32_t chunk, cudaStream_t stream) {
          return what.multiplies ? product_of(what, chunk, stream) : cudaSuccess;
        },
        compute_.get(),
        [&](std::uint32_t chunk, cudaStream_t) {
          if (!what.copies) { return ballast::result<void>(); }
          auto const [first, count] = place(what, chunk);
          std::size_t const begin_of = ranks * first * columns;
          std::size_t const size = ranks * count * columns;
          return ballast::reduce_scatter(
              comm, std::span<float const>(product_.span()).subspan(begin_of, size),
              result_.span().subspan(begin_of, size),
              sum_.span().subspan(first * columns, count * columns), memory_);
        },
        copy_.get()));
    bench::check(cudaEventRecord(end_.get(), compute_.get()));
  }

  [[nodiscard]] cudaEvent_t end() const { return end_.get(); }

  [[nodiscard]] std::vector<float> sum() const
  {
    std::vector<float> found(sum_.size());
    bench::check(cudaMemcpy(found.data(), sum_.data(), found.size() * sizeof(float),
                            cudaMemcpyDeviceToHost));
    return found;
  }

  /// The product by rank, as one all-gather and one product leave it.
  [[nodiscard]] std::vector<float> product(variant const& what) const
  {
    auto const& from = what.chunks > 1 ? result_ : product_;
    std::vector<float> found(from.size());
    bench::check(cudaMemcpy(found.data(), from.data(), found.size() * sizeof(float),
                            cudaMemcpyDeviceToHost));
    return found;
  }

  static constexpr std::uint32_t most_chunks = 16;

 private:
  [[nodiscard]] static std::pair<std::size_t, std::size_t> place(variant const& what,
                                                                 std::uint32_t chunk)
  {
    auto const cut = ballast::chunk_of(rows, what.chunks, chunk);
    return {static_cast<std::size_t>(cut.first), static_cast<std::size_t>(cut.count)};
  }

  [[nodiscard]] cudaError_t product_of(variant const& what, std::uint32_t chunk,
                                       cudaStream_t stream) const
  {
    auto const [first, count] = place(what, chunk);
    auto const all = static_cast<unsigned>(ranks * count);
    multiply<<<dim3(columns / tile, (all + tile - 1) / tile), 256, 0, stream>>>(
        product_.data() + ranks * first * columns, gathered_.data() + ranks * first * inner,
        weights_.data(), static_cast<int>(all));
    return cudaGetLastError();
  }

  [[nodiscard]] cudaError_t remap(std::uint32_t chunks, void* temporary, std::size_t& bytes) const
  {
    chunk_layout const layout{
        .rows = rows, .ranks = ranks, .chunks = chunks, .row_bytes = columns * sizeof(float)};
    return ballast::copy_batch(
        temporary, bytes,
        ballast::chunks_to_ranks{layout, reinterpret_cast<std::byte const*>(product_.data()),
                                 reinterpret_cast<std::byte*>(result_.data())},
        layout.copies(), compute_.get());
  }

  std::uint32_t ranks;
  bench::stream copy_;
  bench::stream compute_;
  bench::event end_;
  device_array<float> own_;
  device_array<float> weights_;
  device_array<float> gathered_;
  device_array<float> product_;
  device_array<float> result_;
  device_array<float> sum_;
  device_array<std::byte> temporary_;
  ballast::overlapped_chunks schedule_;
  ballast::workspace memory_;
};

/// A thread for each rank; all run the same work when it is given to them.
class crew {
 public:
  explicit crew(std::uint32_t ranks) : begin_(ranks + 1), end_(ranks + 1)
  {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      threads_.emplace_back([this, rank] {
        for (;;) {
          begin_.arrive_and_wait();
          if (!body_) { return; }
          body_(rank);
          end_.arrive_and_wait();
        }
      });
    }
  }
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;
  ~crew()
  {
    body_ = nullptr;
    begin_.arrive_and_wait();
  }

  void run(std::function<void(std::uint32_t)> body)
  {
    body_ = std::move(body);
    begin_.arrive_and_wait();
    end_.arrive_and_wait();
  }

 private:
  std::barrier<> begin_;
  std::barrier<> end_;
  std::function<void(std::uint32_t)> body_;
  std::vector<std::jthread> threads_;
};

/// The ranks of a job on this GPU, and the time of what all of them queue.
class job {
 public:
  explicit job(std::uint32_t count) : ranks(count), threads_(count)
  {
    std::vector<cudaStream_t> streams;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      data_.push_back(std::make_unique<rank_data>(ranks, rank));
      streams.push_back(data_.back()->copies());
    }
    engines_ = value_of(communicator::make(streams, {.beside_kernels = true}));
    kernels_ = value_of(communicator::make(streams, {.beside_kernels = false}));
  }

  void queue(variant const& what, bool scatters)
  {
    bench::check(cudaEventRecord(begin_.get(), main_.get()));
    threads_.run([&](std::uint32_t rank) {
      communicator& comm = (what.beside_kernels ? engines_ : kernels_)[rank];
      scatters ? data_[rank]->queue_scatter(what, comm, begin_.get())
               : data_[rank]->queue(what, comm, begin_.get());
    });
    for (auto const& each : data_) {
      bench::check(cudaStreamWaitEvent(main_.get(), each->end(), 0));
    }
  }

  [[nodiscard]] double time(variant const& what, bool scatters)
  {
    return bench::median_us(main_.get(), [&] { queue(what, scatters); });
  }

  /// What all ranks have in the end: products, or sums of the rows that were gathered in as many
  /// chunks.
  [[nodiscard]] std::vector<std::vector<float>> found(variant const& what, bool scatters)
  {
    queue(what, false);
    if (scatters) { queue(what, true); }
    bench::check(cudaStreamSynchronize(main_.get()));
    std::vector<std::vector<float>> all;
    for (auto const& each : data_) { all.push_back(scatters ? each->sum() : each->product(what)); }
    return all;
  }

  std::uint32_t ranks;

 private:
  std::vector<std::unique_ptr<rank_data>> data_;
  std::vector<communicator> engines_;
  std::vector<communicator> kernels_;
  crew threads_;
  bench::stream main_;
  bench::event begin_;
};

/// Prints a table; returns whether all chunks give the bits of one.
bool print(job& all, bool scatters)
{
  if (scatters) {
    std::printf("\nproduct %u x %d x %d of each of %u ranks, reduce-scatter of its %.0f MB\n",
                all.ranks * rows, inner, columns, all.ranks,
                1e-6 * all.ranks * rows * columns * sizeof(float));
  } else {
    std::printf("all-gather of %u x %.0f MB to each of %u ranks, product %u x %d x %d of each\n",
                all.ranks, 1e-6 * rows * inner * sizeof(float), all.ranks, all.ranks * rows, inner,
                columns);
  }
  std::printf("| %-14s | %6s | %12s | %12s | %12s | %8s | %6s | %-5s |\n", "copies by", "chunks",
              scatters ? "scatter" : "gather", "product", "both", "hidden", "gain", "equal");
  std::printf("|------|------|------|------|------|------|------|------|\n");
  auto const reference = all.found({.chunks = 1, .beside_kernels = false}, scatters);
  bool all_equal = true;
  for (bool const beside : {true, false}) {
    double at_once = 0;
    for (std::uint32_t chunks = 1; chunks <= rank_data::most_chunks; chunks *= 2) {
      variant const both{.chunks = chunks, .beside_kernels = beside};
      auto const found = all.found(both, scatters);
      bool equal = true;
      for (std::uint32_t rank = 0; rank < all.ranks; ++rank) {
        equal = equal && std::memcmp(found[rank].data(), reference[rank].data(),
                                     found[rank].size() * sizeof(float)) == 0;
      }
      all_equal = all_equal && equal;
      double const copies =
          all.time({.chunks = chunks, .beside_kernels = beside, .multiplies = false}, scatters);
      double const product =
          all.time({.chunks = chunks, .beside_kernels = beside, .copies = false}, scatters);
      double const together = all.time(both, scatters);
      if (chunks == 1) { at_once = together; }
      std::printf("| %-14s | %6u | %9.1f us | %9.1f us | %9.1f us | %6.1f %% | %6.2f | %-5s |\n",
                  beside ? "copy engines" : "CUDA's choice", chunks, copies, product, together,
                  100 * (copies + product - together) / copies, at_once / together,
                  equal ? "yes" : "NO");
    }
  }
  return all_equal;
}

int run()
{
  bench::print_device();
  bool all_equal = true;
  for (std::uint32_t const ranks : {4U, 8U}) {  // tensor-parallel sizes of Figure 22
    job all(ranks);
    if (ranks == 4) { all_equal = print(all, false); }
    all_equal = print(all, true) && all_equal;
  }
  return all_equal ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main()
{
  return run();
}
