#include <ballast/partition/packing/concepts.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace {

using ballast::bin_id;

// Satisfies packing_policy and nothing more: a bin for every sample.
struct one_to_a_bin {
  std::size_t operator()(ballast::packing_problem const& problem, std::span<bin_id> owner,
                         ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::to_id<bin_id>(sample);
    }
    return problem.weights.size();
  }
  friend bool operator==(one_to_a_bin, one_to_a_bin) = default;
};

struct says_nothing {
  void operator()(ballast::packing_problem const&, std::span<bin_id>, ballast::workspace&) const {}
  friend bool operator==(says_nothing, says_nothing) = default;
};

static_assert(ballast::packing_policy<one_to_a_bin>);
static_assert(!ballast::packing_policy<says_nothing>);

TEST(PackingPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(one_to_a_bin{}, one_to_a_bin{});
  EXPECT_EQ(says_nothing{}, says_nothing{});
  ballast_test::expect_valid_packings(one_to_a_bin{}, 3);
}

}  // namespace
