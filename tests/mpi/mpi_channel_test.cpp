// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/detail/mpi/mpi_channel.hpp>

#include <gtest/gtest.h>
#include "../support/counted_allocations.hpp"

#include <mpi.h>

#include <cstddef>

namespace {

using ballast::detail::mpi_channel;

TEST(MpiChannel, KnowsWhetherMpiIsRunning)
{
  EXPECT_TRUE(ballast::detail::mpi_is_running());
}

TEST(MpiChannel, ReservesTheLowestFreeTag)  // Ensures (1) (2)
{
  mpi_channel channel;
  std::size_t const before = ballast_test::allocations();
  int const first = channel.reserve(0);
  int const second = channel.reserve(0);
  int const fifth = channel.reserve(4);
  int const sixth = channel.reserve(4);
  channel.release(1);
  int const again = channel.reserve(0);
  channel.release(mpi_channel::none);
  EXPECT_EQ(ballast_test::allocations(), before);
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(fifth, 4);
  EXPECT_EQ(sixth, 5);
  EXPECT_EQ(again, 1);
}

TEST(MpiChannel, HasAsManyTagsAsMpiGuarantees)
{
  mpi_channel channel;
  for (int tag = 0; tag < 32768; ++tag) { ASSERT_EQ(channel.reserve(tag), tag); }
  EXPECT_EQ(channel.reserve(0), mpi_channel::none);
  channel.release(300);
  EXPECT_EQ(channel.reserve(301), mpi_channel::none);
  EXPECT_EQ(channel.reserve(0), 300);
}

// MPI tells of a communicator's end whoever has attached a number to it.
TEST(MpiChannel, FreesItsCommunicators)
{
  int freed = 0;
  int key = MPI_KEYVAL_INVALID;
  auto* const count = +[](MPI_Comm, int, void* counter, void*) -> int {
    ++*static_cast<int*>(counter);
    return MPI_SUCCESS;
  };
  ASSERT_EQ(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count, &key, nullptr), MPI_SUCCESS);
  auto const duplicate = [&](MPI_Comm& made) {
    ASSERT_EQ(MPI_Comm_dup(MPI_COMM_SELF, &made), MPI_SUCCESS);
    ASSERT_EQ(MPI_Comm_set_attr(made, key, &freed), MPI_SUCCESS);
  };
  {
    mpi_channel channel;
    duplicate(channel.data);
  }
  EXPECT_EQ(freed, 1);
  {
    mpi_channel channel;
    duplicate(channel.data);
    duplicate(channel.control);
    duplicate(channel.pairs);
  }
  EXPECT_EQ(freed, 4);
  MPI_Comm_free_keyval(&key);
}

}  // namespace
