#include <ballast/by_name/parse_policy.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace {

using ballast::any_policy;
using ballast::error_code;
using ballast::longest_processing_time;
using ballast::parse_policy;

template <class Policy>
void expect_parsed(std::string_view text, Policy const& policy)
{
  auto const parsed = parse_policy(text);
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, any_policy(policy)) << text;
}

TEST(ParsePolicy, KnowsEveryPolicyByItsName)
{
  expect_parsed("longest_processing_time", longest_processing_time{});
  expect_parsed("lpt", longest_processing_time{});
  expect_parsed("karmarkar_karp", ballast::karmarkar_karp{});
  expect_parsed("kk", ballast::karmarkar_karp{});
  expect_parsed("multifit:iterations=5", ballast::multifit{5});
  expect_parsed("round_robin", ballast::round_robin{});
  expect_parsed("greedy_knapsack", ballast::greedy_knapsack{});
  expect_parsed("greedy_knapsack:capacity=full",
                ballast::greedy_knapsack{ballast::knapsack_capacity::full});
  expect_parsed("greedy_knapsack:capacity=remaining", ballast::greedy_knapsack{});
  expect_parsed("equal_count", ballast::equal_count{});
  expect_parsed("equal_count:multiple=4,work=7", ballast::equal_count{4, 7});
  expect_parsed("padded_batches:orders=100", ballast::padded_batches{100});
  expect_parsed("conv_transformer_batches", ballast::conv_transformer_batches{});
  expect_parsed("quadratic_with_tolerance:tolerance=9", ballast::quadratic_with_tolerance{9});
}

TEST(ParsePolicy, NestsPolicies)
{
  any_policy const lpt{longest_processing_time{}};
  expect_parsed("refine", ballast::refine<any_policy>{lpt});
  expect_parsed("refine:lpt", ballast::refine<any_policy>{lpt});
  expect_parsed("refine:round_robin,work=100",
                ballast::refine<any_policy>{any_policy{ballast::round_robin{}}, 100});
  expect_parsed("exact:nodes=100", ballast::exact<any_policy>{lpt, 100});
  ballast::refine<any_policy> const refined{lpt};
  expect_parsed("capped:refine:lpt", ballast::capped<any_policy>{any_policy{refined}});
  expect_parsed("least_movement:eps=0.01",
                ballast::least_movement<any_policy>{any_policy{refined}, 10'000});
  expect_parsed("least_movement:(refine:lpt),eps=0.0005,work=9",
                ballast::least_movement<any_policy>{any_policy{refined}, 500, 9});
  expect_parsed("capped:equal_count",
                ballast::capped<any_policy>{any_policy{ballast::equal_count{}}});
}

TEST(ParsePolicy, ChoosesTheBestOfAnyNumberOfPolicies)
{
  any_policy const lpt{longest_processing_time{}};
  any_policy const kk{ballast::karmarkar_karp{}};
  any_policy const multifit{ballast::multifit{}};
  using best_of = ballast::best_of<any_policy, any_policy>;
  expect_parsed("best_of:kk,lpt", best_of(kk, lpt));
  expect_parsed("best_of:kk,multifit,lpt", best_of(kk, any_policy(best_of(multifit, lpt))));
  EXPECT_EQ(parse_policy("best_of:kk"), parse_policy("kk"));
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

void expect_refused(std::string_view text, error_code code, std::size_t position, char const* why)
{
  auto const policy = parse_policy(text);
  ASSERT_FALSE(policy) << text;
  EXPECT_EQ(policy.error().code, code) << policy.error().message;
  EXPECT_EQ(policy.error().position, position) << policy.error().message;
  EXPECT_THAT(policy.error().message, testing::HasSubstr(why));
  EXPECT_EQ(policy.error().message.find('\n'), std::string::npos);
}

TEST(ParsePolicy, SaysWhatIsWrongAndWhere)
{
  expect_refused("magic", error_code::unknown_name, 0, "there is no policy 'magic'");
  expect_refused("refine:magic", error_code::unknown_name, 7, "longest_processing_time (lpt)");
  expect_refused("", error_code::syntax, 0, "expected the name");
  expect_refused("lpt:work=1", error_code::unknown_name, 4,
                 "'work' is no parameter of lpt, which takes nothing");
  expect_refused("refine:lpt,wrok=1", error_code::unknown_name, 11,
                 "'wrok' is no parameter of refine, which takes POLICY,work=N");
  expect_refused("refine:work=1,work=2", error_code::syntax, 14, "'work' is given twice");
  expect_refused("refine:work=many", error_code::out_of_range, 7,
                 "work is 'many'; give a whole number from 0 to 18446744073709551615");
  expect_refused("refine:work=-1", error_code::out_of_range, 7, "work is '-1'");
  expect_refused("equal_count:multiple=0", error_code::out_of_range, 12, "from 1 to 4294967295");
  expect_refused("least_movement:eps=lots", error_code::out_of_range, 15, "such as 0.005");
  expect_refused("greedy_knapsack:capacity=half", error_code::out_of_range, 16,
                 "give remaining or full");
  expect_refused("equal_count:lpt", error_code::unknown_name, 12, "'lpt' has no place in");
  expect_refused("best_of", error_code::syntax, 0, "as in best_of:kk,lpt");
  expect_refused("refine:lpt,round_robin", error_code::syntax, 11, "works with one policy");
}

TEST(ParsePolicy, RefusesToChangeWhatAPolicyKeepsTo)
{
  for (std::string const outer : {"refine", "exact", "least_movement", "best_of"}) {
    for (std::string const inner : {"equal_count", "padded_batches", "capped:equal_count"}) {
      expect_refused(outer + ":" + inner, error_code::out_of_range, outer.size() + 1,
                     "keeps to; use that by itself");
    }
  }
}

TEST(ParsePolicy, ListsNamesThatItKnows)
{
  std::string const names = ballast::policy_names();
  for (auto const& each : ballast::detail::named_policies) {
    EXPECT_THAT(names, testing::HasSubstr(std::string(each.name)));
    std::string const usual = each.name == "best_of" ? "best_of:kk,lpt" : std::string(each.name);
    EXPECT_TRUE(parse_policy(usual)) << usual;
    if (!each.short_name.empty()) {
      EXPECT_EQ(parse_policy(each.short_name), parse_policy(each.name)) << each.name;
    }
  }
  EXPECT_THAT(names, testing::HasSubstr("refine:POLICY,work=N"));
}

}  // namespace
