#include "../common/workloads.hpp"  // defines: bench::median_seconds

#include <benchmark/benchmark.h>
#include <ballast/route/ulysses.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using ballast::head_array;
using ballast::heads_of;
using ballast::tokens;
using ballast::ulysses_plan;

using elements = std::vector<float>;

// Queries, keys and values of one layer on GPU 0 of a bag: 32 query heads of 128 elements, and as
// many key-value heads as the row says. The bag has eight sequences.
struct layer {
  static constexpr std::uint32_t query_heads = 32;
  static constexpr std::size_t dim = 128;

  ulysses_plan plan;
  std::array<elements, 3> own;
  std::array<elements, 3> whole;
  std::array<head_array, 3> to_heads;
  std::array<head_array, 3> to_tokens;
  std::vector<std::byte> own_messages;    // the GPU's tokens with the peers' heads
  std::vector<std::byte> whole_messages;  // the peers' tokens with the GPU's heads

  layer(std::uint32_t gpus, std::uint32_t key_value_heads, tokens tokens_per_gpu)
  {
    std::vector<tokens> lengths(8, tokens_per_gpu * gpus / 8);
    lengths.front() += 3;  // chunks that are not all alike
    plan.assign(lengths, gpus, query_heads);
    std::array const heads{query_heads, key_value_heads, key_value_heads};
    for (std::size_t array = 0; array < heads.size(); ++array) {
      own[array].assign(plan.heads_of_chunks(0, heads[array]) * dim, 1);
      whole[array].assign(plan.heads_of_sequences(0, heads[array]) * dim, 1);
      to_heads[array] = heads_of(own[array], whole[array], heads[array], dim);
      to_tokens[array] = heads_of(whole[array], own[array], heads[array], dim);
    }
    std::size_t own_bytes = 0;
    std::size_t whole_bytes = 0;
    for (std::uint32_t peer = 1; peer < gpus; ++peer) {
      own_bytes += plan.message_bytes(0, peer, to_heads);
      whole_bytes += plan.message_bytes(peer, 0, to_heads);
    }
    own_messages.resize(own_bytes);
    whole_messages.resize(whole_bytes);
  }

  [[nodiscard]] std::size_t staying_bytes() const { return plan.message_bytes(0, 0, to_heads); }
};

// Baseline: one memcpy of as many bytes, in the same run and between arrays that are as large.
template <class Work>
void beside_memcpy(benchmark::State& state, std::size_t bytes, Work const& work)
{
  for (auto _ : state) {
    work();
    benchmark::ClobberMemory();
  }
  std::vector<std::byte> const from(bytes, std::byte{1});
  std::vector<std::byte> to(bytes);
  double const copy_seconds = bench::median_seconds(31, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::DoNotOptimize(to.data());
    benchmark::ClobberMemory();
  });
  state.counters["of_memcpy"] = copy_seconds / bench::median_seconds(31, work);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

layer layer_of(benchmark::State const& state)
{
  return {static_cast<std::uint32_t>(state.range(0)), static_cast<std::uint32_t>(state.range(1)),
          state.range(2)};
}

void pack_to_heads(benchmark::State& state)
{
  layer of = layer_of(state);
  beside_memcpy(state, of.own_messages.size(),
                [&] { of.plan.pack_to_heads(0, of.to_heads, of.own_messages); });
}

void unpack_to_heads(benchmark::State& state)
{
  layer of = layer_of(state);
  beside_memcpy(state, of.whole_messages.size() + of.staying_bytes(),
                [&] { of.plan.unpack_to_heads(0, of.to_heads, of.whole_messages); });
}

void pack_to_tokens(benchmark::State& state)
{
  layer of = layer_of(state);
  beside_memcpy(state, of.whole_messages.size(),
                [&] { of.plan.pack_to_tokens(0, of.to_tokens, of.whole_messages); });
}

// Eight GPUs with four key-value heads also sum two gradients of every key and value.
void unpack_to_tokens(benchmark::State& state)
{
  layer of = layer_of(state);
  beside_memcpy(state, of.own_messages.size() + of.staying_bytes(),
                [&] { of.plan.unpack_to_tokens(0, of.to_tokens, of.own_messages); });
}

void head_grid(benchmark::internal::Benchmark* rows)
{
  rows->ArgNames({"gpus", "kv_heads", "tokens_per_gpu"})
      ->ArgsProduct({{2, 8}, {8, 4}, {256, 4096}})
      ->Unit(benchmark::kMicrosecond);
}

BENCHMARK(pack_to_heads)->Apply(head_grid);
BENCHMARK(unpack_to_heads)->Apply(head_grid);
BENCHMARK(pack_to_tokens)->Apply(head_grid);
BENCHMARK(unpack_to_tokens)->Apply(head_grid);

void plan_bag(benchmark::State& state)
{
  auto const lengths = bench::lognormal_lengths(static_cast<std::size_t>(state.range(0)), 1.0, 42);
  ulysses_plan plan;
  for (auto _ : state) {
    plan.assign(lengths, static_cast<std::uint32_t>(state.range(1)), layer::query_heads);
    benchmark::DoNotOptimize(plan.rows());
  }
}

BENCHMARK(plan_bag)
    ->ArgNames({"sequences", "gpus"})
    ->ArgsProduct({{32, 1024}, {8}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
