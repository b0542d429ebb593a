#include <ballast/partition/packing/packing_plan.hpp>  // first: proves it is self-contained

#include "../../support/packing_oracles.hpp"
#include "../../support/test.hpp"

namespace {

using ballast::bag_id;

// Satisfies packing_policy and nothing more: a bin for every sample.
struct one_to_a_bin {
  std::size_t operator()(ballast::packing_problem const& problem, std::span<bag_id> owner,
                         ballast::workspace&) const
  {
    for (std::size_t sample = 0; sample < owner.size(); ++sample) {
      owner[sample] = ballast::to_id<bag_id>(sample);
    }
    return problem.weights.size();
  }
  friend bool operator==(one_to_a_bin, one_to_a_bin) = default;
};

struct says_nothing {
  void operator()(ballast::packing_problem const&, std::span<bag_id>, ballast::workspace&) const {}
  friend bool operator==(says_nothing, says_nothing) = default;
};

static_assert(ballast::packing_policy<one_to_a_bin>);
static_assert(!ballast::packing_policy<says_nothing>);

// Says that no packing has fewer bins, which is true of heavy samples only.
struct proves_one_to_a_bin {
  ballast::packed_bins operator()(ballast::packing_problem const& problem, std::span<bag_id> owner,
                                  ballast::workspace& memory) const
  {
    std::size_t const bins = one_to_a_bin{}(problem, owner, memory);
    return {bins, bins};
  }
};

static_assert(ballast::packing_policy<proves_one_to_a_bin>);

TEST(PackingPolicy, IsAllThatTheFrontDoorAsksFor)
{
  EXPECT_EQ(one_to_a_bin{}, one_to_a_bin{});
  EXPECT_EQ(says_nothing{}, says_nothing{});
  ballast_test::expect_valid_packings(one_to_a_bin{}, 3);
}

TEST(PackingPolicy, MayProveABound)
{
  std::vector<std::int64_t> const weights{7, 7};
  auto const plan = ballast::pack_to_capacity(weights, 14, proves_one_to_a_bin{}).value();
  EXPECT_EQ(plan.lower_bound, 2U);

  ballast::workspace memory;
  std::vector<ballast::priced_sample> const order{{7, ballast::sample_id{0}},
                                                  {7, ballast::sample_id{1}}};
  std::vector<bag_id> owner(2);
  ballast::packing_problem const problem{weights, order, 14};
  EXPECT_EQ(ballast::run_policy(one_to_a_bin{}, problem, std::span(owner), memory),
            (ballast::packed_bins{2, 0}));
  EXPECT_EQ(ballast::run_policy(proves_one_to_a_bin{}, problem, std::span(owner), memory),
            (ballast::packed_bins{2, 2}));
}

}  // namespace
