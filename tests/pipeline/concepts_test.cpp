// SPDX-License-Identifier: Apache-2.0
#include <ballast/pipeline/concepts.hpp>  // first: proves it is self-contained

#include "../support/compiled_schedules.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

namespace {

using ballast::microbatch_id;
using ballast::order_policy;
using ballast::order_problem;
using ballast::time_units;
using ballast::workspace;
using ballast::detail::run_order_policy;

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
struct returning_bool {
  bool operator()(order_problem const&, std::span<microbatch_id>, workspace&) const { return true; }
  friend bool operator==(returning_bool, returning_bool) = default;
};
static_assert(order_policy<without_equality>);
static_assert(!order_policy<changing_order> && changing_order{} == changing_order{});
static_assert(!order_policy<returning_bool> && returning_bool{} == returning_bool{});
static_assert(!order_policy<int>);

TEST(RunOrderPolicy, ReturnsWhatThePolicyProvesOrZero)
{
  auto const schedule = ballast_test::chain_schedule(2, 1);
  ballast::pipeline_times const times(1, 2);
  std::vector<microbatch_id> order{microbatch_id{0}};
  workspace memory;
  EXPECT_EQ(run_order_policy(quiet_order{}, {schedule, times}, order, memory), 0);
  EXPECT_EQ(run_order_policy(proving_order{7}, {schedule, times}, order, memory), 7);
}

}  // namespace
