#include "../../examples/common/by_name/parse_policy.hpp"  // first: proves it is self-contained
#include "../support/test.hpp"

#include "../../examples/common/baselines/karmarkar_karp.hpp"
#include "../../examples/common/baselines/quadratic_with_tolerance.hpp"
#include "../support/parse_checks.hpp"

namespace {

using ballast::error_code;
using ballast::longest_processing_time;
using ballast_test::expect_parsed;
using ballast_test::expect_refused;
using by_name::any_policy;
using by_name::parse_policy;

TEST(ParsePolicy, KnowsEveryPolicyByItsName)
{
  expect_parsed(parse_policy, "longest_processing_time", any_policy{longest_processing_time{}});
  expect_parsed(parse_policy, "lpt", any_policy{longest_processing_time{}});
  expect_parsed(parse_policy, "karmarkar_karp", any_policy{baselines::karmarkar_karp{}});
  expect_parsed(parse_policy, "kk", any_policy{baselines::karmarkar_karp{}});
  expect_parsed(parse_policy, "round_robin", any_policy{ballast::round_robin{}});
  expect_parsed(parse_policy, "greedy_knapsack", any_policy{ballast::greedy_knapsack{}});
  expect_parsed(parse_policy, "greedy_knapsack:capacity=full",
                any_policy{ballast::greedy_knapsack{ballast::knapsack_capacity::full}});
  expect_parsed(parse_policy, "greedy_knapsack:capacity=remaining",
                any_policy{ballast::greedy_knapsack{}});
  expect_parsed(parse_policy, "equal_count", any_policy{ballast::equal_count{}});
  expect_parsed(parse_policy, "equal_count:multiple=4,work=7",
                any_policy{ballast::equal_count{4, 7}});
  expect_parsed(parse_policy, "padded_batches:orders=100",
                any_policy{ballast::padded_batches{100}});
  expect_parsed(parse_policy, "attention_padded_batches:work=9",
                any_policy{ballast::attention_padded_batches{9}});
  expect_parsed(parse_policy, "conv_transformer_batches",
                any_policy{ballast::conv_transformer_batches{}});
  expect_parsed(parse_policy, "quadratic_with_tolerance:tolerance=9",
                any_policy{baselines::quadratic_with_tolerance{9}});
}

TEST(ParsePolicy, NestsPolicies)
{
  any_policy const lpt{longest_processing_time{}};
  expect_parsed(parse_policy, "refine", any_policy{ballast::refine<any_policy>{lpt}});
  expect_parsed(parse_policy, "refine:lpt", any_policy{ballast::refine<any_policy>{lpt}});
  expect_parsed(parse_policy, "refine:round_robin,work=100",
                any_policy{ballast::refine<any_policy>{any_policy{ballast::round_robin{}}, 100}});
  expect_parsed(
      parse_policy, "exact:nodes=100",
      any_policy{ballast::exact<any_policy>{any_policy{ballast::refine<any_policy>{lpt}}, 100}});
  ballast::refine<any_policy> const refined{lpt};
  expect_parsed(parse_policy, "capped:refine:lpt",
                any_policy{ballast::capped<any_policy>{any_policy{refined}}});
  expect_parsed(parse_policy, "least_movement:eps=0.01",
                any_policy{ballast::least_movement<any_policy>{any_policy{refined}, 10'000}});
  expect_parsed(parse_policy, "least_movement:(refine:lpt),eps=0.0005,work=9",
                any_policy{ballast::least_movement<any_policy>{any_policy{refined}, 500, 9}});
  expect_parsed(parse_policy, "capped:equal_count",
                any_policy{ballast::capped<any_policy>{any_policy{ballast::equal_count{}}}});
}

TEST(ParsePolicy, ReadsSharesAsTheyAreWritten)
{
  auto const tolerance = [](std::string_view text) {
    auto const policy = parse_policy(std::string("least_movement:lpt,eps=").append(text));
    return policy && *policy == any_policy(ballast::least_movement<any_policy>{
                                    any_policy{}, static_cast<std::uint32_t>(
                                                      1e6 * std::stod(std::string(text)) + 0.5)});
  };
  for (char const* const good : {"0", "1", "0.5", "0.005", "0.000001", "12.25", "4294.967295"}) {
    EXPECT_TRUE(tolerance(good)) << good;
  }
  for (char const* const bad :
       {"4294.967296", "0.0000001", ".5", "1.", "-1", "+1", "1e-3", "0.00.5", "x", "1x", "."}) {
    EXPECT_FALSE(parse_policy(std::string("least_movement:eps=").append(bad))) << bad;
  }
}

TEST(ParsePolicy, SaysWhatIsWrongAndWhere)
{
  expect_refused(parse_policy, "magic", error_code::unknown_name, 0, "there is no policy 'magic'");
  expect_refused(parse_policy, "refine:magic", error_code::unknown_name, 7,
                 "longest_processing_time (lpt)");
  expect_refused(parse_policy, "", error_code::syntax, 0, "expected a name, as in exact");
  expect_refused(parse_policy, "lpt:work=1", error_code::unknown_name, 4,
                 "'work' is no parameter of lpt, which takes nothing");
  expect_refused(parse_policy, "refine:lpt,wrok=1", error_code::unknown_name, 11,
                 "'wrok' is no parameter of refine, which takes POLICY,work=N");
  expect_refused(parse_policy, "refine:work=1,work=2", error_code::syntax, 14,
                 "'work' is given twice");
  expect_refused(parse_policy, "refine:work=many", error_code::out_of_range, 7,
                 "work is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_refused(parse_policy, "refine:work=-1", error_code::out_of_range, 7, "work is '-1'");
  expect_refused(parse_policy, "equal_count:multiple=0", error_code::out_of_range, 12,
                 "from 1 to 4294967295");
  expect_refused(parse_policy, "least_movement:eps=lots", error_code::out_of_range, 15,
                 "such as 0.005");
  expect_refused(parse_policy, "greedy_knapsack:capacity=half", error_code::out_of_range, 16,
                 "give remaining or full");
  expect_refused(parse_policy, "equal_count:lpt", error_code::unknown_name, 12,
                 "'lpt' has no place in");
  expect_refused(parse_policy, "refine:lpt,round_robin", error_code::syntax, 11,
                 "works with one policy");
}

TEST(ParsePolicy, RefusesToChangeWhatAPolicyKeepsTo)
{
  auto const expect_refused_by = [](std::string const& outer, std::string const& inner) {
    expect_refused(parse_policy, outer + ":" + inner, error_code::out_of_range, outer.size() + 1,
                   "keeps to; use that by itself");
  };
  for (char const* const outer : {"refine", "exact", "least_movement"}) {
    for (char const* const inner : {"padded_batches", "equal_count", "capped:equal_count"}) {
      expect_refused_by(outer, inner);
    }
  }
  expect_refused_by("exact", "least_movement");
  expect_refused_by("refine", "capped:least_movement");
  expect_refused(parse_policy, "refine:least_movement", error_code::out_of_range, 7,
                 "refine would break what 'least_movement' keeps to; use that by itself, or around "
                 "refine");
  EXPECT_TRUE(parse_policy("least_movement:capped:least_movement:exact:refine"));
}

TEST(ParsePolicy, ListsNamesThatItKnows)
{
  std::string const names = by_name::policy_names();
  for (auto const& each : by_name::named_policies) {
    EXPECT_THAT(names, testing::HasSubstr(std::string(each.name)));
    EXPECT_TRUE(parse_policy(each.name)) << each.name;
    if (!each.short_name.empty()) {
      EXPECT_EQ(parse_policy(each.short_name), parse_policy(each.name)) << each.name;
    }
  }
  EXPECT_THAT(names, testing::HasSubstr("refine:POLICY,work=N"));
}

}  // namespace
