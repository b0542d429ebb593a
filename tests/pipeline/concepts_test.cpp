// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/concepts.hpp>  // first: proves it is self-contained

#include "../support/order_checks.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::order_policy;
using ballast::order_problem;
using ballast::time_units;
using ballast::workspace;

// Archetypes: no more than the concept asks for.
struct quiet_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const {}
  friend bool operator==(quiet_order, quiet_order) = default;
};
struct proving_order {
  time_units proven = 0;
  time_units operator()(order_problem const&, std::span<microbatch_id>, workspace&) const
  {
    return proven;
  }
  friend bool operator==(proving_order, proving_order) = default;
};
static_assert(order_policy<quiet_order> && quiet_order{} == quiet_order{});
static_assert(order_policy<proving_order> && proving_order{} == proving_order{});

struct without_equality {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) const {}
};
struct changing_order {
  void operator()(order_problem const&, std::span<microbatch_id>, workspace&) {}
  friend bool operator==(changing_order, changing_order) = default;
};
struct answering_yes {
  bool operator()(order_problem const&, std::span<microbatch_id>, workspace&) const { return true; }
  friend bool operator==(answering_yes, answering_yes) = default;
};
static_assert(!order_policy<without_equality>);
static_assert(!order_policy<changing_order> && changing_order{} == changing_order{});
static_assert(!order_policy<answering_yes> && answering_yes{} == answering_yes{});
static_assert(!order_policy<int>);

TEST(Arrange, AnswersWhatThePolicyProvesOrZero)
{
  auto const schedule = ballast_test::chain_schedule(2, 1);
  ballast::pipeline_times const times(1, 2);
  std::vector<microbatch_id> order{microbatch_id{0}};
  workspace memory;
  EXPECT_EQ(arrange(quiet_order{}, {schedule, times}, order, memory), 0);
  EXPECT_EQ(arrange(proving_order{7}, {schedule, times}, order, memory), 7);
}

}  // namespace
