// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"

#include "copy_engine_processes.hpp"
#include "copy_engine_threads.hpp"  // defines: ballast_test::{cuda_streams, run_copy_engine_ranks}

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <ballast/cuda/reduce_scatter.cuh>
#include <ballast/gpu/overlapped_chunks.hpp>
#include <ballast/route/placement.hpp>

namespace {

using ballast_test::cuda_streams;
using communicator = ballast::copy_engine_communicator<>;
constexpr ballast::copy_engine_options with_time{.deadline = std::chrono::minutes(1)};

/// Numbers that floats add exactly, so that a plain sum is an oracle.
template <class T>
std::vector<T> drawn(std::size_t rank, std::size_t count, std::uint64_t seed)
{
  ballast::random_source random(seed + 7919 * rank);
  std::vector<T> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(static_cast<T>(static_cast<float>(random.between(-30, 30))));
  }
  return all;
}

template <class T>
void expect_plain_sums(std::size_t ranks, std::size_t piece, std::uint64_t seed)
{
  cuda_streams const streams(ranks);
  std::vector<float> sums(ranks * piece);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto const own = drawn<T>(rank, ranks * piece, seed);
    for (std::size_t i = 0; i < own.size(); ++i) { sums[i] += static_cast<float>(own[i]); }
  }
  ballast_test::run_copy_engine_ranks(streams.all(), with_time, [&](communicator& comm) {
    std::size_t const rank = to_index(comm.rank());
    auto values = drawn<T>(rank, ranks * piece, seed);
    std::vector<T> pieces(values.size());
    std::vector<T> sum(piece);
    ballast::workspace memory;
    EXPECT_TRUE(ballast::reduce_scatter(comm, std::span<T const>(values), std::span(pieces),
                                        std::span(sum), memory));
    EXPECT_TRUE(ballast::all_reduce(comm, std::span(values), std::span(pieces), memory));
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
    for (std::size_t i = 0; i < piece; ++i) {
      EXPECT_EQ(static_cast<float>(sum[i]), sums[rank * piece + i]);
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(static_cast<float>(values[i]), sums[i]);
    }
    EXPECT_TRUE(comm.barrier());
  });
}

TEST(ReduceScatter, IsAPlainSum)  // Ensures (1)
{
  for (int trial = 0; trial < ballast_test::trials_of(25); ++trial) {
    auto const seed = static_cast<std::uint64_t>(trial);
    expect_plain_sums<float>(1 + seed % 5, 13 * seed % 29, seed);
    expect_plain_sums<__nv_bfloat16>(1 + seed % 5, 1 + seed, seed);
    expect_plain_sums<std::int64_t>(1 + seed % 3, seed, seed);
  }
}

// A sum that depends on its order is that of the order of ranks, and bf16 is rounded once.
TEST(ReduceScatter, AddsInTheOrderOfRanks)
{
  cuda_streams const streams(3);
  ballast_test::run_copy_engine_ranks(streams.all(), with_time, [](communicator& comm) {
    std::vector<float> const large{1e8F, 1, -1e8F};
    std::vector<float> const half{256, 1, 1};  // a bf16 has no 257
    std::size_t const rank = to_index(comm.rank());
    std::vector<float> values(3, large[rank]);
    std::vector<__nv_bfloat16> narrow(3, __nv_bfloat16(half[rank]));
    std::vector<float> pieces(3);
    std::vector<__nv_bfloat16> narrow_pieces(3);
    ballast::workspace memory;
    EXPECT_TRUE(ballast::all_reduce(comm, std::span(values), std::span(pieces), memory));
    EXPECT_TRUE(ballast::all_reduce(comm, std::span(narrow), std::span(narrow_pieces), memory));
    EXPECT_EQ(cudaStreamSynchronize(comm.stream()), cudaSuccess);
    EXPECT_EQ(values[0], (1e8F + 1) - 1e8F);
    EXPECT_EQ(static_cast<float>(narrow[2]), 258);
    EXPECT_TRUE(comm.barrier());
  });
}

TEST(ReduceScatter, TellsAllRanksOfElementsOfTwoTypes)  // Errors: mismatch
{
  cuda_streams const streams(2);
  ballast_test::run_copy_engine_ranks(streams.all(), with_time, [](communicator& comm) {
    auto const code_of = [&comm](auto values) {  // 16 bytes
      auto pieces = values;
      ballast::workspace memory;
      auto const done = ballast::all_reduce(comm, std::span(values), std::span(pieces), memory);
      return done ? ballast::error_code::syntax : done.error().code;
    };
    bool const is_first = comm.rank() == ballast::rank_id{0};
    EXPECT_EQ(is_first ? code_of(std::vector<float>(4)) : code_of(std::vector<double>(2)),
              ballast::error_code::mismatch);
    EXPECT_EQ(is_first ? code_of(std::vector<__half>(8)) : code_of(std::vector<__nv_bfloat16>(8)),
              ballast::error_code::mismatch);
    EXPECT_EQ(is_first ? code_of(std::vector<float>(4)) : code_of(std::vector<std::int32_t>(4)),
              ballast::error_code::mismatch);
    EXPECT_TRUE(comm.barrier());
  });
}

// A product of one chunk runs while the chunk before is exchanged and added.
TEST(ReduceScatter, HidesUnderTheProductsOfTheNextChunk)
{
  ballast_test::delay_copies(std::chrono::microseconds(100));
  auto const multiply_and_scatter = [](auto& comm) {
    std::uint32_t const chunks = 5;
    std::size_t const rows = 23;
    std::size_t const ranks = comm.size();
    cuda_streams const computes(1);
    std::size_t const self = to_index(comm.rank());
    auto const schedule = ballast::overlapped_chunks::make(chunks).value();
    std::vector<std::int64_t> partial(ranks * rows), pieces(partial), sum(rows, -1);
    ballast::workspace memory;
    auto const product = [&](std::uint32_t chunk, cudaStream_t stream) {
      auto const cut = ballast::chunk_of(rows, chunks, chunk);  // of every rank's rows
      auto const [first, count] = std::pair(std::size_t(cut.first), std::size_t(cut.count));
      return ballast_test::launch(stream, [&, first, count] {  // a trainer's matrix product
        for (std::size_t at = 0; at < ranks * count; ++at) {
          auto const [rank, row] = std::pair(at / count, first + at % count);
          partial[ranks * first + at] = static_cast<std::int64_t>((self + 1) * (100 * rank + row));
        }
      });
    };
    auto const scatter = [&](std::uint32_t chunk, cudaStream_t) {
      auto const cut = ballast::chunk_of(rows, chunks, chunk);  // of every rank's rows
      auto const [first, count] = std::pair(std::size_t(cut.first), std::size_t(cut.count));
      return ballast::reduce_scatter(
          comm, std::span<std::int64_t const>(partial).subspan(ranks * first, ranks * count),
          std::span(pieces).subspan(ranks * first, ranks * count),
          std::span(sum).subspan(first, count), memory);
    };
    auto const done =
        schedule.compute_then_copy(chunks, product, computes[0], scatter, comm.stream());
    EXPECT_TRUE(done);
    EXPECT_EQ(cudaStreamSynchronize(computes[0]), cudaSuccess);
    for (std::size_t row = 0; row < rows; ++row) {
      EXPECT_EQ(sum[row], static_cast<std::int64_t>(10 * (100 * self + row)));
    }
    EXPECT_TRUE(comm.barrier());
  };
  {
    cuda_streams const copy_streams(4);
    ballast_test::run_copy_engine_ranks(copy_streams.all(), with_time, multiply_and_scatter);
  }
  ballast_test::run_copy_engine_processes(4, with_time, multiply_and_scatter);
  ballast_test::delay_copies(std::chrono::microseconds(0));
}

}  // namespace
