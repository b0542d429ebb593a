// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/communicator.hpp>

#include "../support/test.hpp"

namespace {

using namespace ballast;
using byte_span = std::span<std::byte>;
using const_byte_span = std::span<std::byte const>;
using size_span = std::span<std::size_t const>;

// The least that is a communicator: it is not moved, copied, compared, or made by default.
struct archetype {
  explicit archetype(int) {}
  archetype(archetype&&) = delete;
  rank_id rank() const { return {}; }
  std::size_t size() const { return 1; }
  result<void> all_gather(const_byte_span, byte_span) { return {}; }
  result<void> all_to_all_v(const_byte_span, size_span, byte_span, size_span) { return {}; }
  result<void> wait() { return {}; }
  byte_span scratch(std::size_t) { return {}; }
};
static_assert(communicator<archetype>);
static_assert(!std::movable<archetype> && !std::equality_comparable<archetype> &&
              !std::default_initializable<archetype>);

// Each of these departs from it in one place, which hides the right one beneath.
struct complete : archetype {};
static_assert(communicator<complete>);

struct counts_ranks_in_int : archetype {
  int size() const;
};
static_assert(!communicator<counts_ranks_in_int>);

struct rank_changes_it : archetype {
  rank_id rank();
};
static_assert(!communicator<rank_changes_it>);

struct sends_from_writable_memory_only : archetype {
  result<void> all_gather(byte_span, byte_span);
};
static_assert(!communicator<sends_from_writable_memory_only>);

struct counts_in_int : archetype {
  result<void> all_to_all_v(const_byte_span, std::span<int const>, byte_span, std::span<int const>);
};
static_assert(!communicator<counts_in_int>);

struct cannot_wait : archetype {
  void wait() = delete;
};
static_assert(!communicator<cannot_wait>);

struct scratch_is_owned : archetype {
  std::vector<std::byte> scratch(std::size_t);
};
static_assert(!communicator<scratch_is_owned>);

static_assert(!communicator<int> && !communicator<complete const>);

// A function that takes any communicator compiles with it.
template <communicator C>
bool runs_with(C& comm)
{
  return comm.rank() == rank_id{0} && comm.size() == 1 && comm.all_gather({}, {}) &&
         comm.all_to_all_v({}, {}, {}, {}) && comm.wait() && comm.scratch(0).empty();
}

TEST(Communicator, NeedsNoMoreThanTheArchetypeHas)
{
  archetype comm(0);
  EXPECT_TRUE(runs_with(comm));
}

TEST(RankPair, IsOrderedByTheSenderFirst)
{
  rank_pair const forth{rank_id{1}, rank_id{2}};
  rank_pair const back{rank_id{2}, rank_id{1}};
  EXPECT_LT(forth, back);
  EXPECT_LT((rank_pair{rank_id{1}, rank_id{0}}), forth);
  EXPECT_EQ(forth, (rank_pair{rank_id{1}, rank_id{2}}));
}

}  // namespace
