// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/concepts.hpp>

#include <gtest/gtest.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace {

using ballast::communicator;
using ballast::rank_id;
using ballast::result;
using byte_span = std::span<std::byte>;
using const_byte_span = std::span<std::byte const>;
using size_span = std::span<std::size_t const>;

// The least that is a communicator: it moves; it is not copied, compared, or made by default.
struct archetype {
  explicit archetype(int) {}
  archetype(archetype&&) = default;
  archetype& operator=(archetype&&) = default;
  rank_id rank() const { return {}; }
  std::size_t size() const { return 1; }
  result<void> all_gather(const_byte_span, byte_span) { return {}; }
  result<void> all_to_all_v(const_byte_span, size_span, byte_span, size_span) { return {}; }
  result<void> broadcast(byte_span, rank_id) { return {}; }
  result<void> barrier() { return {}; }
  result<archetype> split(std::uint32_t) { return archetype(0); }
  result<void> wait() { return {}; }
  byte_span scratch(std::size_t) { return {}; }
};
static_assert(communicator<archetype>);
static_assert(!std::copyable<archetype> && !std::equality_comparable<archetype> &&
              !std::default_initializable<archetype>);

// Each of these departs from it in one place, which hides the right one beneath.
template <class Self>
struct all_but : archetype {
  all_but(all_but&&) = default;
  all_but& operator=(all_but&&) = default;
  result<Self> split(std::uint32_t);
};

struct complete : all_but<complete> {};
static_assert(communicator<complete>);

struct immovable : all_but<immovable> {
  immovable(immovable&&) = delete;
};
static_assert(!communicator<immovable>);

struct counts_ranks_in_int : all_but<counts_ranks_in_int> {
  int size() const;
};
static_assert(!communicator<counts_ranks_in_int>);

struct rank_changes_it : all_but<rank_changes_it> {
  rank_id rank();
};
static_assert(!communicator<rank_changes_it>);

struct sends_from_writable_memory_only : all_but<sends_from_writable_memory_only> {
  result<void> all_gather(byte_span, byte_span);
};
static_assert(!communicator<sends_from_writable_memory_only>);

struct counts_in_int : all_but<counts_in_int> {
  result<void> all_to_all_v(const_byte_span, std::span<int const>, byte_span, std::span<int const>);
};
static_assert(!communicator<counts_in_int>);

struct root_is_a_number : all_but<root_is_a_number> {
  result<void> broadcast(byte_span, int);
};
static_assert(!communicator<root_is_a_number>);

struct barrier_cannot_fail : all_but<barrier_cannot_fail> {
  void barrier();
};
static_assert(!communicator<barrier_cannot_fail>);

struct splits_into_others : all_but<splits_into_others> {
  result<archetype> split(std::uint32_t);
};
static_assert(!communicator<splits_into_others>);

struct cannot_wait : all_but<cannot_wait> {
  void wait() = delete;
};
static_assert(!communicator<cannot_wait>);

struct scratch_is_owned : all_but<scratch_is_owned> {
  std::vector<std::byte> scratch(std::size_t);
};
static_assert(!communicator<scratch_is_owned>);

static_assert(!communicator<int> && !communicator<complete&> && !communicator<complete const>);

// A function that takes any communicator compiles with it.
template <communicator C>
bool runs_with(C& comm)
{
  auto part = comm.split(0);
  return comm.all_gather({}, {}) && comm.all_to_all_v({}, {}, {}, {}) &&
         comm.broadcast({}, comm.rank()) && comm.barrier() && comm.wait() &&
         comm.scratch(0).empty() && part && part->size() == comm.size();
}

TEST(Communicator, NeedsNoMoreThanTheArchetypeHas)
{
  archetype comm(0);
  EXPECT_TRUE(runs_with(comm));
}

}  // namespace
