// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/device_packs.cuh>

#include "../route/instances.hpp"  // defines: ballast_test::plan_of
#include "gpu_test.hpp"

#include <gtest/gtest.h>
#include <ballast/core.hpp>
#include <ballast/gpu/device_memory.hpp>
#include <ballast/route/head_array.hpp>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/route/ulysses.hpp>
#include <ballast/topology/cluster.hpp>
#include <ballast/topology/device_groups.hpp>

namespace {

using DevicePacksOnDevice = ballast_test::gpu_test;
using ballast::detail::head_direction;
using packed_bytes = std::vector<std::byte>;

// Two shared packs, of four GPUs and of two. NCCL takes one rank a GPU, so messages are compared, and not exchanged.
TEST_F(DevicePacksOnDevice, MakeTheMessagesOfTheHost)  // Ensures (1)
{
  ballast::device_groups const groups(ballast::node_sizes::equal(1, 4), 4);
  ballast::rank_id const rank{1};
  auto const plan = ballast_test::plan_of(groups, {40, 7, 30, 64},
                                          {*groups.group_of(rank, 4), *groups.group_of(rank, 2),
                                           *groups.group_of(rank, 2), *groups.group_of(rank, 4)});
  ballast::sharded_packs packs;
  packs.assign(plan, groups, rank, 8);
  ASSERT_EQ(packs.shared(), 2U);
  ballast::device_packs on_device(stream());
  ASSERT_TRUE(ballast_test::done(on_device.upload(packs)));
  for (std::size_t pack = 0; pack < 2; ++pack) {
    auto const& [id, group, gpu, row, split] = packs[pack];
    for (head_direction const direction : {head_direction::to_heads, head_direction::to_tokens}) {
      bool const there = direction == head_direction::to_heads;
      std::size_t size = 0;
      std::vector<float> q(split.heads_of_chunks(gpu, 8) * 4);
      if (!there) { q.resize(split.heads_of_sequences(gpu, 8) * 4); }
      for (std::size_t i = 0; i < q.size(); ++i) { q[i] = static_cast<float>(i); }
      std::vector<float> to(
          (there ? split.heads_of_sequences(gpu, 8) : split.heads_of_chunks(gpu, 8)) * 4);
      std::array const host{ballast::heads_of(q, to, 8, 4)};
      for (std::uint32_t peer = 0; peer < group.gpus; ++peer) {
        if (peer == gpu) { continue; }
        size += there ? split.message_bytes(gpu, peer, host) : split.message_bytes(peer, gpu, host);
      }
      packed_bytes messages(size);
      ballast::detail::pack_heads(split, gpu, direction, host, messages);
      auto const q_there = to_device(q);
      auto const to_there = to_device(to);
      auto const made = to_device(packed_bytes(size, std::byte{0xee}));
      std::array const device{ballast::heads_of(q_there.span(), to_there.span(), 8, 4)};
      EXPECT_TRUE(ballast_test::done(on_device.pack(pack, direction, device, made.span())));
      EXPECT_EQ(to_host(made), messages);
    }
  }
}

}  // namespace
