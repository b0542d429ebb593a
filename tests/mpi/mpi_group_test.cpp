// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_group.hpp>

#include <gtest/gtest.h>
#include "mpi_world.hpp"  // defines: ballast_test::{world_rank, world_size}

#include <ballast/comm/collective_check.hpp>
#include <ballast/core/ids.hpp>
#include <ballast/core/result.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using ballast::collective;
using ballast::error_code;
using ballast::rank_id;
using ballast::result;
using ballast::detail::mpi_group;
using ballast_test::world_rank;
using ballast_test::world_size;

mpi_group::handle world(bool verify = true)
{
  auto made =
      mpi_group::over(MPI_COMM_WORLD, {.deadline = std::chrono::seconds(20), .verify = verify});
  if (!made) { throw std::runtime_error(made.error().message); }
  return *std::move(made);
}

TEST(MpiGroup, MovesOnlyWhatAllCallFor)  // Ensures (1)
{
  auto const group = world();
  int moves = 0;
  auto const move = [&] {
    ++moves;
    return result<void>{};
  };
  EXPECT_TRUE(group->run({collective::barrier, 0, {}}, {}, {}, move));
  EXPECT_EQ(moves, 1);
  if (group->size() < 2) { return; }
  std::uint64_t const bytes = group->rank() == 1 ? 8 : 4;
  auto const done = group->run({collective::broadcast, bytes, {}}, {}, {}, move);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::mismatch);
  EXPECT_EQ(moves, 1);
  EXPECT_TRUE(group->run({collective::broadcast, 4, {}}, {}, {}, move));
  EXPECT_EQ(moves, 2);
}

TEST(MpiGroup, ComparesWhatMustBeComparedEvenIfToldNotTo)
{
  auto const group = world(false);
  if (group->size() < 2) { return; }
  auto const nothing = [] { return result<void>{}; };
  collective const called = group->rank() == 1 ? collective::split : collective::barrier;
  auto const done = group->run({called, 0, {}}, {}, {}, nothing);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, error_code::mismatch);
  std::uint64_t const bytes = group->rank();
  EXPECT_TRUE(group->run({collective::broadcast, bytes, {}}, {}, {}, nothing));
}

TEST(MpiGroup, IsMadeOfRanksWithTheSameOptions)  // Ensures (5)
{
  if (world_size() < 2) { return; }
  ballast::mpi_communicator_options const usual{.deadline = std::chrono::seconds(20)};
  auto verify = usual;
  verify.verify = false;
  auto deadline = usual;
  deadline.deadline += std::chrono::milliseconds(1);
  auto largest = usual;
  largest.largest_message = 1;  // less than a word that ranks compare
  for (auto const& [name, other] :
       {std::pair("verify", verify), {"deadline", deadline}, {"largest_message", largest}}) {
    bool const differs = world_rank() == 1 || world_rank() == 3;
    auto const made = mpi_group::over(MPI_COMM_WORLD, differs ? other : usual);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, error_code::mismatch);
    EXPECT_EQ(made.error().ranks.front(), rank_id{1});
    EXPECT_NE(made.error().message.find(std::string("the option ") + name), std::string::npos)
        << made.error().message;
    EXPECT_TRUE(world());
  }
}

TEST(MpiGroup, GivesItsFirstFailureEverAfter)  // Ensures (2)
{
  auto const group = world();
  EXPECT_TRUE(group->state());
  auto const failing = [] {
    return result<void>(ballast::detail::mpi_failure("MPI_Isend", MPI_ERR_COUNT));
  };
  auto const first = group->run({collective::barrier, 0, {}}, {}, {}, failing);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().position, static_cast<std::size_t>(MPI_ERR_COUNT));

  bool moved = false;
  auto const second = group->run({collective::split, 0, {}}, {}, {}, [&] {
    moved = true;
    return result<void>{};
  });
  EXPECT_FALSE(moved);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error(), first.error());
  EXPECT_EQ(group->state().error(), first.error());
}

// As where memory for what it moves is lacking.
TEST(MpiGroup, IsBrokenByAnException)  // Ensures (3)
{
  auto const group = world();
  EXPECT_THROW((void)group->run({collective::barrier, 0, {}}, {}, {},
                                []() -> result<void> { throw std::bad_alloc(); }),
               std::bad_alloc);
  auto const state = group->state();
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, error_code::peer_lost);
  EXPECT_EQ(state.error().ranks, std::vector{ballast::to_id<rank_id>(group->rank())});

  bool moved = false;
  auto const next = group->run({collective::barrier, 0, {}}, {}, {}, [&] {
    moved = true;
    return result<void>{};
  });
  EXPECT_FALSE(moved);
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error(), state.error());
}

TEST(MpiGroup, PartsByAnyColourInRankOrder)
{
  auto const group = world();
  std::uint32_t const parity = group->rank() % 2;
  auto const part = group->part(0xffff'ffffU - parity).value();
  EXPECT_EQ(part->size(), (group->size() + 1 - parity) / 2);
  EXPECT_EQ(part->rank(), group->rank() / 2);
}

TEST(MpiGroup, SaysSoIfAllTagsAreInUse)
{
  if (world_size() != 1) { return; }  // it takes a minute on several processes
  auto const group = world();
  std::vector<mpi_group::handle> kept;
  for (int tag = 1; tag < 32768; ++tag) { kept.push_back(group->part(0).value()); }
  auto const part = group->part(0);
  ASSERT_FALSE(part);
  EXPECT_EQ(part.error().code, error_code::transport);
  EXPECT_EQ(part.error().position, static_cast<std::size_t>(MPI_ERR_TAG));
  EXPECT_NE(part.error().message.find("all tags are in use"), std::string::npos)
      << part.error().message;
  kept.pop_back();
  EXPECT_TRUE(group->part(0));
}

TEST(MpiGroup, KeepsScratchInPlaceUntilMoreIsAskedFor)
{
  auto const group = world();
  std::span<std::byte> const first = group->scratch(1000);
  EXPECT_EQ(group->scratch(10).data(), first.data());
  EXPECT_EQ(group->scratch(1024).data(), first.data());  // whole cache lines
  EXPECT_EQ(group->scratch(1'000'000).size(), 1'000'000U);
}

// MPI may still write there.
TEST(MpiGroup, KeepsScratchThatWasInUseWhenItFailed)
{
  auto const group = world();
  std::span<std::byte> const in_use = group->scratch(1000);
  std::ranges::fill(in_use, std::byte{1});
  EXPECT_FALSE(group->run({collective::barrier, 0, {}}, {}, {}, [] {
    return result<void>(ballast::detail::mpi_failure("MPI_Isend", MPI_ERR_COUNT));
  }));
  std::ranges::fill(group->scratch(100'000), std::byte{2});
  EXPECT_EQ(std::ranges::count(in_use, std::byte{1}), 1000);
}

// Ranks keep different numbers of parts, so their lowest free tags differ.
TEST(MpiGroup, GivesAPartATagThatIsFreeOnAllItsRanks)
{
  auto const group = world();
  std::vector<mpi_group::handle> kept;
  for (std::uint32_t round = 0; round < 6; ++round) {
    auto part = group->part(static_cast<std::uint32_t>(group->rank()));
    ASSERT_TRUE(part) << part.error().message;
    if (round < group->rank()) { kept.push_back(*std::move(part)); }
  }
  auto const nothing = [] { return result<void>{}; };
  auto const all = group->part(7);
  auto const half = group->part(group->rank() < group->size() / 2 ? 1 : 2);
  ASSERT_TRUE(all && half);
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE((*half)->run({collective::barrier, 0, {}}, {}, {}, nothing));
    EXPECT_TRUE((*all)->run({collective::barrier, 0, {}}, {}, {}, nothing));
    EXPECT_TRUE(group->run({collective::barrier, 0, {}}, {}, {}, nothing));
  }
}

}  // namespace
