// SPDX-License-Identifier: Apache-2.0
#include "gpu_timing.cuh"

#include <ballast/core.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/cuda/staged.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/ulysses.hpp>

#include <cuda_bf16.h>

#include <cstdio>
#include <cstdlib>

namespace {

using ballast::device_array;
using ballast::device_heads;
using ballast::head_array;
using ballast::heads_of;
using ballast::tokens;
using ballast::ulysses_bound;
using ballast::ulysses_plan;

using staged = ballast::staged<ulysses_plan>;

constexpr std::uint32_t gpus = 8;
constexpr std::uint32_t query_heads = 32;
constexpr std::size_t dim = 128;
constexpr std::uint32_t sequences = 16;

/// Sequences that are 1, 2, 3, ... times as long as the first, and together have as many tokens.
std::vector<tokens> uneven_lengths(tokens all)
{
  std::vector<tokens> lengths;
  tokens left = all;
  for (std::uint32_t sequence = 1; sequence < sequences; ++sequence) {
    lengths.push_back(all * sequence / (sequences * (sequences + 1) / 2));
    left -= lengths.back();
  }
  lengths.push_back(left);
  return lengths;
}

/// Queries, keys and values of one layer on GPU 0 of a bag of eight, before and after attention,
/// and the messages between it and the other seven.
class layer {
 public:
  layer(bench::stream const& stream, std::uint32_t key_value_heads, tokens all_tokens)
      : stream_(stream.get()),
        tables_(staged::bytes(bound)),
        pinned_(staged::bytes(bound)),
        bag_(bound, tables_.span(), pinned_)
  {
    plan_.assign(uneven_lengths(all_tokens), gpus, query_heads);
    if (auto const done = bag_.stage(plan_); !done) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      std::exit(EXIT_FAILURE);
    }
    upload();
    for (std::uint32_t const heads : {query_heads, key_value_heads, key_value_heads}) {
      auto const own = filled(plan_.heads_of_chunks(0, heads) * dim);
      auto const whole = filled(plan_.heads_of_sequences(0, heads) * dim);
      to_heads_.push_back(heads_of(own, whole, heads, dim));
      to_tokens_.push_back(heads_of(whole, own, heads, dim));
    }
    for (std::uint32_t peer = 1; peer < gpus; ++peer) {
      own_bytes_ += plan_.message_bytes(0, peer, to_heads_);
      whole_bytes_ += plan_.message_bytes(peer, 0, to_heads_);
    }
    staying_bytes_ = plan_.message_bytes(0, 0, to_heads_);
    messages_ = device_array<std::byte>(std::max(own_bytes_, whole_bytes_));
    bench::check(cudaMemsetAsync(messages_.data(), 0, messages_.size(), stream_));
    std::size_t bytes = 0;
    bench::check(ballast::prepared_heads::device_bytes(bag_, 0, device_heads(to_heads_), bytes));
    memory_ = device_array<std::byte>(bytes);
    ready_.emplace(bag_, 0, device_heads(to_heads_), memory_.span());
    prepare();
    bench::check(cudaStreamSynchronize(stream_));
  }

  using movement = cudaError_t (layer::*)() const;

  [[nodiscard]] cudaError_t pack_to_heads() const
  {
    return ready_->pack(true, device_heads(to_heads_), messages_.data(), stream_);
  }
  [[nodiscard]] cudaError_t unpack_to_heads() const
  {
    return ready_->unpack(true, device_heads(to_heads_), messages_.data(), stream_);
  }
  [[nodiscard]] cudaError_t pack_to_tokens() const
  {
    return ready_->pack(false, device_heads(to_tokens_), messages_.data(), stream_);
  }
  [[nodiscard]] cudaError_t unpack_to_tokens() const
  {
    return ready_->unpack(false, device_heads(to_tokens_), messages_.data(), stream_);
  }

  void make(movement move) const { bench::check((this->*move)()); }
  void prepare() const { bench::check(ready_->prepare(stream_)); }

  void upload() const { bench::check(bag_.upload(stream_)); }

  [[nodiscard]] std::size_t own_bytes() const { return own_bytes_; }
  [[nodiscard]] std::size_t whole_bytes() const { return whole_bytes_; }
  [[nodiscard]] std::size_t staying_bytes() const { return staying_bytes_; }

 private:
  static constexpr ulysses_bound bound{sequences, gpus, query_heads};

  [[nodiscard]] std::span<__nv_bfloat16> filled(std::size_t count)
  {
    auto const array = arrays_.emplace_back(count).span();
    bench::check(cudaMemsetAsync(array.data(), 0, array.size_bytes(), stream_));
    return array;
  }

  cudaStream_t stream_;
  device_array<std::byte> tables_;
  std::vector<std::byte, ballast::pinned_allocator<std::byte>> pinned_;
  staged bag_;
  ulysses_plan plan_;
  std::vector<device_array<__nv_bfloat16>> arrays_;
  std::vector<head_array> to_heads_;
  std::vector<head_array> to_tokens_;
  std::size_t own_bytes_ = 0;    // messages of the GPU's tokens with the others' heads
  std::size_t whole_bytes_ = 0;  // of their tokens with the GPU's heads
  std::size_t staying_bytes_ = 0;
  device_array<std::byte> messages_;
  device_array<std::byte> memory_;
  std::optional<ballast::prepared_heads> ready_;
};

void time_layer(bench::stream const& stream, std::uint32_t key_value_heads, tokens all_tokens)
{
  layer const of(stream, key_value_heads, all_tokens);
  struct measured {
    char const* name;
    layer::movement move;
    std::size_t bytes;
  };
  for (measured const each :
       {measured{"pack_to_heads", &layer::pack_to_heads, of.own_bytes()},
        measured{"unpack_to_heads", &layer::unpack_to_heads, of.whole_bytes() + of.staying_bytes()},
        measured{"pack_to_tokens", &layer::pack_to_tokens, of.whole_bytes()},
        measured{"unpack_to_tokens", &layer::unpack_to_tokens,
                 of.own_bytes() + of.staying_bytes()}}) {
    device_array<std::byte> const from(each.bytes);
    device_array<std::byte> const to(each.bytes);
    bench::check(cudaMemsetAsync(from.data(), 1, each.bytes, stream.get()));
    auto const us = bench::medians_us(
        stream.get(), [&] { of.make(each.move); },
        [&] {
          bench::check(cudaMemcpyAsync(to.data(), from.data(), each.bytes, cudaMemcpyDeviceToDevice,
                                       stream.get()));
        });
    std::string const name = std::string(each.name) + ", " + std::to_string(key_value_heads) +
                             " kv heads, " + std::to_string(all_tokens) + " tokens";
    bench::row(name.c_str(), each.bytes, us[0], us[1]);
  }
}

}  // namespace

int main()
{
  bench::print_device();
  bench::stream const stream;
  std::printf(
      "q, k and v in bf16, 32 query heads of 128 elements, %u sequences, GPU 0 of a bag of "
      "%u\n",
      sequences, gpus);
  bench::header();
  for (tokens const all : {tokens{4096}, tokens{65536}}) {
    // With four key-value heads two GPUs have a copy of each, whose gradients are summed.
    for (std::uint32_t const key_value_heads : {8U, 4U}) {
      time_layer(stream, key_value_heads, all);
    }
  }
  layer const of(stream, 8, 65536);
  std::printf("\nUpload of a plan: %.1f us\n",
              bench::median_us(stream.get(), [&] { of.upload(); }));
  std::printf("Prepare, once a step: %.1f us\n",
              bench::median_us(stream.get(), [&] { of.prepare(); }));
}
