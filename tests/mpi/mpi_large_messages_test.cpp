// SPDX-License-Identifier: Apache-2.0
// Arrays above 2^32 bytes, in address space without memory. A stand-in shrinks what MPI moves: of
// each part as many bytes as it has mebibytes, from where it begins to where it belongs, so that a
// size or an offset that was cut to 32 bits shows, as does a part that MPI's int cannot hold.

#include <ballast/comm/mpi_communicator.hpp>

#include "../support/test.hpp"
#include "mpi_world.hpp"

#include <sys/mman.h>

#include <mpi.h>

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// What MPI was given while it shrinks: bytes sent and received, in parts.
struct shrinking_mpi {
  bool shrinks = false;
  std::size_t parts = 0;
  std::uint64_t bytes = 0;

  // How many of so many bytes are moved.
  int moved(int count, MPI_Datatype type)
  {
    if (!shrinks || type != MPI_BYTE || count < static_cast<int>(mebibyte)) { return count; }
    EXPECT_EQ(static_cast<std::size_t>(count) % mebibyte, 0U);
    ++parts;
    bytes += static_cast<std::uint64_t>(count);
    return count / static_cast<int>(mebibyte);
  }
} shrinking;

}  // namespace

extern "C" int MPI_Isend(void const* from, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request* request)
{
  return PMPI_Isend(from, shrinking.moved(count, type), type, peer, tag, comm, request);
}

extern "C" int MPI_Irecv(void* to, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                         MPI_Request* request)
{
  return PMPI_Irecv(to, shrinking.moved(count, type), type, peer, tag, comm, request);
}

extern "C" int MPI_Imrecv(void* to, int count, MPI_Datatype type, MPI_Message* message,
                          MPI_Request* request)
{
  return PMPI_Imrecv(to, shrinking.moved(count, type), type, message, request);
}

extern "C" int MPI_Get_count(MPI_Status const* status, MPI_Datatype type, int* count)
{
  int const code = PMPI_Get_count(status, type, count);
  if (shrinking.shrinks && type == MPI_BYTE) { *count *= static_cast<int>(mebibyte); }
  return code;
}

namespace {

using ballast::rank_id;
using ballast_test::over_world;

// An array that takes memory only where it is touched.
class sparse_array {
 public:
  explicit sparse_array(std::size_t bytes) : bytes_(bytes)
  {
    at_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
               -1, 0);
  }
  sparse_array(sparse_array const&) = delete;
  sparse_array& operator=(sparse_array const&) = delete;
  ~sparse_array() { munmap(at_, bytes_); }

  [[nodiscard]] bool is_there() const { return at_ != MAP_FAILED; }
  [[nodiscard]] std::span<std::byte> bytes() const
  {
    return {static_cast<std::byte*>(at_), bytes_};
  }

 private:
  void* at_;
  std::size_t bytes_;
};

constexpr std::size_t array_of_4_gib = (std::size_t{1} << 32) + 5 * mebibyte;
constexpr std::size_t part_of_2_gib = (std::size_t{1} << 31) - mebibyte;  // three parts

void mark_parts(std::span<std::byte> array)
{
  for (std::size_t part = 0; part < 3; ++part) {
    array[part * part_of_2_gib] = std::byte(part + 1);
  }
}

void expect_marks(std::span<std::byte const> array)
{
  for (std::size_t part = 0; part < 3; ++part) {
    EXPECT_EQ(array[part * part_of_2_gib], std::byte(part + 1)) << part;
  }
}

// Runs it while MPI shrinks; returns the bytes of all parts that this process gave to MPI.
template <class F>
std::uint64_t moved_by(F const& f)
{
  shrinking = {.shrinks = true};
  f();
  ballast_test::world_barrier();  // nobody's messages meet an MPI that shrinks no longer
  shrinking.shrinks = false;
  return shrinking.bytes;
}

TEST(MpiLargeMessages, AreMovedWhole)
{
  for (bool const verify : {true, false}) {
    SCOPED_TRACE(verify);
    auto comm = over_world(
        {.deadline = std::chrono::seconds(20), .verify = verify, .largest_message = part_of_2_gib});
    if (comm.size() < 2) { return; }
    sparse_array const memory(array_of_4_gib);
    ASSERT_TRUE(memory.is_there());
    std::size_t const rank = to_index(comm.rank());
    std::size_t const own = rank == 0 ? 1 : 0;  // of what rank 0 sends to 1 and 1 to 0, the other
    std::vector<std::size_t> counts(comm.size(), 0);
    if (rank < 2) { counts[own] = array_of_4_gib; }

    // Each of two ranks sends all of its array, and gets that of the other into a second one.
    sparse_array const second(array_of_4_gib);
    ASSERT_TRUE(second.is_there());
    if (rank < 2) { mark_parts(memory.bytes()); }
    auto const exchanged = moved_by([&] {
      auto const none = memory.bytes().first(0);
      EXPECT_TRUE(comm.all_to_all_v(rank < 2 ? memory.bytes() : none, counts,
                                    rank < 2 ? second.bytes() : none, counts));
    });
    EXPECT_EQ(exchanged, rank < 2 ? 2 * std::uint64_t{array_of_4_gib} : 0);
    if (rank < 2) { expect_marks(second.bytes()); }

    sparse_array const all(array_of_4_gib);
    ASSERT_TRUE(all.is_there());
    if (rank == 0) { mark_parts(all.bytes()); }
    (void)moved_by([&] { EXPECT_TRUE(comm.broadcast(all.bytes(), rank_id{0})); });
    expect_marks(all.bytes());
    EXPECT_EQ(shrinking.parts % 3, 0U);
    EXPECT_GE(shrinking.parts, 3U);
  }
}

TEST(MpiLargeMessages, AreTransferredWhole)
{
  auto comm = over_world({.deadline = std::chrono::seconds(20), .largest_message = part_of_2_gib});
  std::size_t const rank = to_index(comm.rank());
  if (comm.size() < 2) { return; }
  sparse_array const memory(array_of_4_gib);
  ASSERT_TRUE(memory.is_there());
  if (rank == 0) { mark_parts(memory.bytes()); }
  auto const moved = moved_by([&] {
    if (rank > 1) { return; }
    auto const begun = rank == 0 ? comm.send(memory.bytes(), rank_id{1})
                                 : comm.receive(memory.bytes(), rank_id{0});
    ASSERT_TRUE(begun);
    EXPECT_TRUE(comm.wait_for(*begun));
  });
  if (rank > 1) { return; }
  EXPECT_EQ(moved, array_of_4_gib);
  EXPECT_EQ(shrinking.parts, 3U);
  expect_marks(memory.bytes());
}

}  // namespace
