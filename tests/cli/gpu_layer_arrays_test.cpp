// SPDX-License-Identifier: Apache-2.0
#include "../../examples/ballast/gpu/gpu_layer_arrays.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

namespace {

using cli::gpu_array;
using cli::gpu_layer_arrays;
using cli::layer_part;

// A layer of Llama 3 8B without its gate.
constexpr block::shape large{
    .width = 4096, .query_heads = 32, .kv_heads = 8, .head_dim = 128, .hidden = 14'336};
constexpr block::shape small{
    .width = 64, .query_heads = 4, .kv_heads = 2, .head_dim = 16, .hidden = 128};

/// Arrays with the bytes of each of their numbers.
std::vector<std::pair<gpu_array, std::size_t>> arrays_of(gpu_layer_arrays const& a)
{
  std::vector<std::pair<gpu_array, std::size_t>> all;
  for (auto const& each : {a.x,        a.normed,    a.h,       a.hidden_normed,
                           a.y,        a.dnormed,   a.dh,      a.dx,
                           a.up,       a.activated, a.dup,     a.q,
                           a.k,        a.v,         a.o,       a.dq,
                           a.dk,       a.dv,        a.do_,     a.q_heads,
                           a.k_heads,  a.v_heads,   a.o_heads, a.dq_heads,
                           a.dk_heads, a.dv_heads,  a.scores,  a.dscores}) {
    all.emplace_back(each, 2);
  }
  for (auto const& each : {a.scale, a.hidden_scale}) { all.emplace_back(each, 4); }
  for (std::size_t const bytes : {2U, 4U}) {
    auto const& p = bytes == 2 ? a.weights : a.gradients;
    for (auto const& each :
         {p.norm, p.query, p.key, p.value, p.output, p.hidden_norm, p.up, p.down}) {
      all.emplace_back(each, bytes);
    }
  }
  return all;
}

TEST(GpuLayerArrays, LieSideBySide)
{
  for (layer_part const part : {layer_part::weights, layer_part::attention, layer_part::both}) {
    gpu_layer_arrays const arrays(small, 3, 13, part);
    auto all = arrays_of(arrays);
    std::erase_if(all, [](auto const& each) { return each.first.count == 0; });
    std::ranges::sort(all, {}, [](auto const& each) { return each.first.first_byte; });
    std::size_t end = 0;
    for (auto const& [array, bytes] : all) {
      EXPECT_EQ(array.first_byte % 256, 0U);
      EXPECT_GE(array.first_byte, end);
      end = array.first_byte + array.count * bytes;
    }
    EXPECT_GE(arrays.bytes, end);
    EXPECT_LT(arrays.bytes, end + 256);
  }
}

TEST(GpuLayerArrays, HaveWhatTheirPartNeeds)
{
  gpu_layer_arrays const weights(small, 1, 16, layer_part::weights);
  gpu_layer_arrays const attention(small, 1, 16, layer_part::attention);
  gpu_layer_arrays const both(small, 1, 16, layer_part::both);
  EXPECT_EQ(weights.scores.count, 0U);
  EXPECT_EQ(attention.weights.query.count, 0U);
  EXPECT_EQ(attention.x.count, 0U);
  EXPECT_EQ(both.weights.query.count, 64U * 64);
  EXPECT_EQ(both.gradients.up.count, 64U * 128);
  EXPECT_EQ(both.k_heads.count, 16U * 32);
  EXPECT_LT(both.bytes, weights.bytes + attention.bytes);
}

TEST(GpuLayerArrays, PadSequencesToEightRows)
{
  for (auto const& [length, padded] : {std::pair{1, 8}, {8, 8}, {9, 16}, {4096, 4096}}) {
    gpu_layer_arrays const arrays(small, 2, static_cast<std::size_t>(length), layer_part::both);
    EXPECT_EQ(arrays.padded, static_cast<std::size_t>(padded));
    EXPECT_EQ(arrays.rows, 2 * arrays.padded);
  }
}

// However long a sequence is, its scores take no more than those of one head or the limit.
TEST(GpuLayerArrays, LimitTheScores)
{
  gpu_layer_arrays const few(large, 1, 1024, layer_part::attention);
  EXPECT_EQ(few.groups_at_once, 8U) << "a query head of each group";
  EXPECT_EQ(few.scores.count, 8U * 1024 * 1024);
  gpu_layer_arrays const longer(large, 1, 8192, layer_part::attention);
  EXPECT_EQ(longer.groups_at_once, 8U);
  EXPECT_LE(2 * longer.scores.count, gpu_layer_arrays::most_score_bytes);
  gpu_layer_arrays const longest(large, 1, 65'536, layer_part::attention);
  EXPECT_EQ(longest.groups_at_once, 1U);
  gpu_layer_arrays const limited(small, 3, 16, layer_part::attention, 5 * 512);
  EXPECT_EQ(limited.groups_at_once, 5U);
  gpu_layer_arrays const items(large, 64, 256, layer_part::both);
  EXPECT_EQ(items.groups_at_once, 64U * 8);
}

TEST(GpuLayerArrays, CountWhatATrainerHolds)
{
  std::size_t count = 0;
  block::parameters parameters(small);
  for (auto const* each : parameters.all()) { count += each->size(); }
  EXPECT_EQ(gpu_layer_arrays::parameters_of(small), count);
  EXPECT_EQ(gpu_layer_arrays::state_bytes(small), (2 + 4 + 4 + 4 + 4) * count);
  gpu_layer_arrays const a(small, 1, 16, layer_part::both);
  std::size_t kept = 4 * (a.scale.count + a.hidden_scale.count);
  for (auto const& each : {a.x, a.normed, a.h, a.hidden_normed, a.q_heads, a.k_heads, a.v_heads,
                           a.o, a.up, a.activated}) {
    kept += 2 * each.count;
  }
  EXPECT_EQ(16 * gpu_layer_arrays::activation_bytes(small), kept);
}

TEST(GpuLayerArrays, SayWhatKernelsCannotCompute)
{
  EXPECT_EQ(cli::unfit_for_gpu(large), "");
  block::shape odd = large;
  odd.width = 4100;
  EXPECT_EQ(cli::unfit_for_gpu(odd), "d is no multiple of 8");
  odd = large;
  odd.head_dim = 20;
  EXPECT_EQ(cli::unfit_for_gpu(odd), "the head size is no multiple of 8");
  odd = large;
  odd.hidden = 100;
  EXPECT_EQ(cli::unfit_for_gpu(odd), "a GPU's share of ffn is no multiple of 8");
}

}  // namespace
