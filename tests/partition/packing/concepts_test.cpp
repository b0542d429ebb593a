#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

namespace {

using namespace ballast;
using namespace ballast_test;

// Satisfies packing_policy and nothing more: a bin for every sample.
struct one_to_a_bin {
  std::size_t operator()(packing_problem const& problem, std::span<bag_id> owner, workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = to_id<bag_id>(sample);
    }
    return problem.weights.size();
  }
  friend bool operator==(one_to_a_bin, one_to_a_bin) = default;
};

struct says_nothing {
  void operator()(packing_problem const&, std::span<bag_id>, workspace&) const {}
  friend bool operator==(says_nothing, says_nothing) = default;
};

static_assert(packing_policy<one_to_a_bin>);
static_assert(!packing_policy<says_nothing>);

// Says that no packing has fewer bins, which is true of heavy samples only.
struct proves_one_to_a_bin {
  packed_bins operator()(packing_problem const& problem, std::span<bag_id> owner,
                         workspace& memory) const
  {
    std::size_t const bins = one_to_a_bin{}(problem, owner, memory);
    return {bins, bins};
  }
};

static_assert(packing_policy<proves_one_to_a_bin>);

TEST(PackingPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(one_to_a_bin{}, one_to_a_bin{});
  EXPECT_EQ(says_nothing{}, says_nothing{});
  expect_valid_packings(one_to_a_bin{}, 3);
}

TEST(PackingPolicy, MayProveABound)
{
  std::vector<std::int64_t> const weights{7, 7};
  auto const plan = pack_to_capacity(weights, 14, proves_one_to_a_bin{}).value();
  EXPECT_EQ(plan.lower_bound, 2U);

  workspace memory;
  std::vector<priced_sample> const order{{7, sample_id{0}}, {7, sample_id{1}}};
  std::vector<bag_id> owner(2);
  packing_problem const problem{weights, order, 14};
  EXPECT_EQ(run_policy(one_to_a_bin{}, problem, std::span(owner), memory), (packed_bins{2, 0}));
  EXPECT_EQ(run_policy(proves_one_to_a_bin{}, problem, std::span(owner), memory),
            (packed_bins{2, 2}));
}

}  // namespace
