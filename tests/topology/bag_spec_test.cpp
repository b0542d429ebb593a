#include <ballast/topology/bag_spec.hpp>  // first: proves it is self-contained

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace {

using ballast::bag_group;
using ballast::bag_spec;
using ballast::error_code;
using ballast::parse_bags;
using namespace ballast::literals;

TEST(BagSpec, KeepsGroupsInTheOrderWritten)
{
  auto const spec = parse_bags("g4n1+g1n2+g2n1").value();
  EXPECT_THAT(spec.groups(),
              testing::ElementsAre(bag_group{4, 1}, bag_group{1, 2}, bag_group{2, 1}));
  EXPECT_EQ(spec.gpus(), 8U);
  EXPECT_EQ(spec.bags(), 4U);
}

TEST(BagSpec, ReadsTheSameAtCompileTimeAndAtRunTime)
{
  // [bags]
  using namespace ballast::literals;  // for _bags; `using namespace ballast` has it too
  constexpr ballast::bag_spec written = "g1n2+g2n1+g4n1"_bags;  // checked by the compiler
  auto const read = ballast::parse_bags("g1n2+g2n1+g4n1");      // checked at run time
  // [bags]
  static_assert(written.gpus() == 8 && written.bags() == 4);
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, written);
}

TEST(BagSpec, IgnoresSpacesAroundGroups)
{
  EXPECT_EQ(parse_bags("  g1n2 + g2n1 "), parse_bags("g1n2+g2n1"));
}

TEST(BagSpec, IsBuiltFromNumbersToo)
{
  bag_spec spec;
  EXPECT_EQ(spec.add({1, 2}), bag_spec::fault::none);
  EXPECT_EQ(spec.add({2, 1}), bag_spec::fault::none);
  EXPECT_EQ(spec, "g1n2+g2n1"_bags);
  EXPECT_EQ(spec.add({0, 1}), bag_spec::fault::zero);
  EXPECT_EQ(spec.add({1, 0}), bag_spec::fault::zero);
  EXPECT_EQ(spec.add({1U << 31, 1U << 31}), bag_spec::fault::too_large);
  EXPECT_EQ(spec, "g1n2+g2n1"_bags);  // what was refused left no trace
  for (std::size_t more = 2; more < bag_spec::max_groups; ++more) {
    EXPECT_EQ(spec.add({1, 1}), bag_spec::fault::none);
  }
  EXPECT_EQ(spec.add({1, 1}), bag_spec::fault::too_many_groups);
}

RC_GTEST_PROP(BagSpec, ReadsBackWhatItIsWrittenAs, ())
{
  auto const count = *rc::gen::inRange<std::size_t>(1, bag_spec::max_groups + 1);
  std::string text;
  std::vector<bag_group> groups;
  for (std::size_t each = 0; each < count; ++each) {
    groups.push_back(
        {*rc::gen::inRange<std::uint32_t>(1, 1000), *rc::gen::inRange<std::uint32_t>(1, 1000)});
    text += (each == 0 ? "g" : "+g") + std::to_string(groups.back().gpus) + "n" +
            std::to_string(groups.back().bags);
  }
  auto const spec = parse_bags(text);
  RC_ASSERT(spec.has_value());
  RC_ASSERT(std::vector<bag_group>(spec->groups().begin(), spec->groups().end()) == groups);
}

struct bad_spec {
  char const* text;
  error_code code;
  std::size_t position;
  char const* hint;
};

TEST(BagSpec, SaysWhereAndWhyTextIsRefused)
{
  for (auto const& bad : std::vector<bad_spec>{
           {"", error_code::syntax, 0, "expected groups such as"},
           {"g1n2+", error_code::syntax, 5, "expected groups such as"},
           {"+g1n2", error_code::syntax, 0, "expected groups such as"},
           {"1n2", error_code::syntax, 0, "expected groups such as"},
           {"g1", error_code::syntax, 2, "expected groups such as"},
           {"gn2", error_code::syntax, 1, "expected groups such as"},
           {"g-1n2", error_code::syntax, 1, "expected groups such as"},
           {"g1n2,g2n1", error_code::syntax, 4, "expected groups such as"},
           {"g1n2 g2n1", error_code::syntax, 5, "expected groups such as"},
           {"g0n1", error_code::out_of_range, 0, "at least one GPU"},
           {"g1n2+g2n0", error_code::out_of_range, 5, "at least one bag"},
           {"g16777217n1", error_code::out_of_range, 0, "more than 16777216 GPUs"},
           {"g99999999999999999999999n1", error_code::out_of_range, 0, "more than 16777216"},
           {"g1n1+g4096n4096", error_code::out_of_range, 5, "more than 16777216 GPUs"}}) {
    SCOPED_TRACE(bad.text);
    auto const spec = parse_bags(bad.text);
    ASSERT_FALSE(spec);
    EXPECT_EQ(spec.error().code, bad.code);
    EXPECT_EQ(spec.error().position, bad.position);
    EXPECT_THAT(spec.error().message, testing::HasSubstr(bad.hint));
    EXPECT_THAT(spec.error().message,
                testing::StartsWith("at offset " + std::to_string(bad.position) + " of '" +
                                    std::string(bad.text) + "': "));
  }
}

TEST(BagSpec, RefusesMoreGroupsThanItHolds)
{
  std::string text = "g1n1";
  for (std::size_t more = 1; more < bag_spec::max_groups; ++more) { text += "+g1n1"; }
  EXPECT_TRUE(parse_bags(text));
  auto const spec = parse_bags(text + "+g1n1");
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().position, text.size() + 1);
}

}  // namespace
