// SPDX-License-Identifier: Apache-2.0
#include <ballast/topology/bag_layout.hpp>

#include "../support/test.hpp"
#include "../support/trials.hpp"

#include <ballast/core.hpp>

namespace {

using namespace ballast;

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

TEST(BagLayout, AnswersBothWays)  // Ensures (1) (2)
{
  std::vector<bag> const bags{{rank_id{2}, 2}, {rank_id{0}, 1}, {rank_id{1}, 1}};
  bag_layout const layout(bags);
  EXPECT_EQ(layout.size(), 3U);
  EXPECT_EQ(layout.gpus(), 4U);
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(2, 1, 1));
  EXPECT_EQ(layout[bag_id{0}], (bag{rank_id{2}, 2}));
  EXPECT_EQ(layout.bag_of(rank_id{0}), bag_id{1});
  EXPECT_EQ(layout.bag_of(rank_id{1}), bag_id{2});
  EXPECT_EQ(layout.bag_of(rank_id{2}), bag_id{0});
  EXPECT_EQ(layout.bag_of(rank_id{3}), bag_id{0});
}

TEST(BagLayout, HasADigestThatEveryBagEnters)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 1}, {rank_id{2}, 2}};
  std::vector<bag> const swapped{{rank_id{1}, 1}, {rank_id{0}, 1}, {rank_id{2}, 2}};
  std::vector<bag> const other_sizes{{rank_id{0}, 1}, {rank_id{1}, 2}, {rank_id{3}, 1}};
  EXPECT_EQ(bag_layout(bags).digest(), bag_layout(bags).digest());
  EXPECT_NE(bag_layout(bags).digest(), bag_layout(swapped).digest());
  EXPECT_NE(bag_layout(bags).digest(), bag_layout(other_sizes).digest());
}

TEST(BagLayout, IsAsFastAsTheSlowestGpuOfABagTimesItsGpus)  // Ensures (3)
{
  std::vector<bag> const bags{{rank_id{2}, 2}, {rank_id{0}, 1}, {rank_id{1}, 1}};
  EXPECT_THAT(bag_layout(bags).speeds(), testing::ElementsAre(2, 1, 1));
  std::vector<std::uint32_t> const gpu_speeds{100, 70, 90, 60};
  bag_layout const layout(bags, gpu_speeds);
  EXPECT_THAT(layout.speeds(), testing::ElementsAre(120, 100, 70));
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(2, 1, 1));
}

TEST(BagLayout, TakesOtherSpeedsForTheSameBags)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 2}};
  std::vector<std::uint32_t> const gpu_speeds{3, 2, 5};
  bag_layout const alike(bags);
  EXPECT_EQ(alike.with_speeds(gpu_speeds), bag_layout(bags, gpu_speeds));
  EXPECT_NE(alike.with_speeds(gpu_speeds), alike);
  EXPECT_NE(alike.with_speeds(gpu_speeds).digest(), alike.digest());
  EXPECT_EQ(alike.with_speeds(gpu_speeds).with_speeds({}), alike);
  EXPECT_EQ(alike.with_speeds(std::vector<std::uint32_t>{1, 1, 1}).digest(), alike.digest());
}

TEST(BagLayout, AdmitsShortSamplesOnlyWhereItIsAsked)  // Ensures (4)
{
  std::vector<bag> const bags{{rank_id{0}, 8}, {rank_id{8}, 4}, {rank_id{12}, 4}};
  bag_layout const refusing(bags);
  EXPECT_FALSE(refusing.admits_short_samples());
  EXPECT_EQ(refusing.with_short_samples(short_samples::refused), refusing);
  bag_layout const admitting = refusing.with_short_samples(short_samples::admitted);
  EXPECT_TRUE(admitting.admits_short_samples());
  EXPECT_NE(admitting, refusing);
  EXPECT_NE(admitting.digest(), refusing.digest());
  EXPECT_EQ(admitting.with_short_samples(short_samples::refused), refusing);
  std::vector<std::uint32_t> const gpu_speeds(16, 2);
  EXPECT_TRUE(admitting.with_speeds(gpu_speeds).admits_short_samples());
}

TEST(BagLayout, SaysWhichBagsTakeASample)
{
  std::vector<bag> const bags{{rank_id{0}, 8}, {rank_id{8}, 4}, {rank_id{12}, 4}};
  bag_layout const refusing(bags);
  bag_layout const admitting = refusing.with_short_samples(short_samples::admitted);
  EXPECT_EQ(refusing.smallest_bag(), 4U);
  EXPECT_EQ(bag_layout{}.smallest_bag(), 0U);
  for (ballast::tokens length = 0; length <= 9; ++length) {
    SCOPED_TRACE(length);
    EXPECT_EQ(refusing.is_short(length), length >= 1 && length <= 3);
    EXPECT_EQ(admitting.is_short(length), length >= 1 && length <= 3);
    EXPECT_EQ(refusing.takes(bag_id{0}, length), length == 0 || length >= 8);
    EXPECT_EQ(refusing.takes(bag_id{1}, length), length == 0 || length >= 4);
    EXPECT_EQ(admitting.takes(bag_id{0}, length), length == 0 || length >= 8) << "not a smallest";
    EXPECT_TRUE(admitting.takes(bag_id{1}, length));
    EXPECT_TRUE(admitting.takes(bag_id{2}, length));
  }
  EXPECT_FALSE(admitting.takes(bag_id{1}, -1));
}

TEST(BagLayoutDeathTest, RefusesSpeedsThatAreNone)
{
  std::vector<bag> const bags{{rank_id{0}, 1}, {rank_id{1}, 2}};
  bag_layout const layout(bags);
  using speeds = std::vector<std::uint32_t>;
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1}), "speeds of 2 GPUs for a layout of 3");
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1, 0}), "bag 1 has a speed of 0");
  EXPECT_DEATH((void)layout.with_speeds(speeds{1, 1U << 31, 1U << 31}),
               "has a speed of 4294967296, which is not from 1 to 4294967295");
}

TEST(BagLayout, MayBeEmpty)
{
  EXPECT_EQ(bag_layout{}.size(), 0U);
  EXPECT_EQ(one_gpu_bags(0), bag_layout{});
  EXPECT_EQ(one_gpu_bags(0).gpus(), 0U);
}

TEST(BagLayout, GivesEveryRankABagOfItsOwn)
{
  bag_layout const layout = one_gpu_bags(3);
  ASSERT_EQ(layout.size(), 3U);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(layout[bag_id{rank}], (bag{rank_id{rank}, 1}));
    EXPECT_EQ(layout.bag_of(rank_id{rank}), bag_id{rank});
  }
}

TEST(BagLayoutDeathTest, RefusesBagsThatAreNoPartitionOfTheRanks)
{
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{0}, 2}, {rank_id{1}, 1}}),
               "rank 1 is in bag 0 and in bag 1");
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{1}, 1}}),
               "bag 0 has 1 GPU from rank 1 on, and all bags have 1");
  EXPECT_DEATH(bag_layout(std::vector<bag>{{rank_id{0}, 0}}), "bag 0 has 0 GPUs");
  EXPECT_DEATH((void)one_gpu_bags(2)[bag_id{2}], "bag 2 of a layout of 2 bags");
  EXPECT_DEATH((void)one_gpu_bags(2).bag_of(rank_id{2}), "rank 2 of a layout of 2 GPUs");
}

// Oracle for Ensures (1) and (2), written from the definition.
bool may_lie(std::vector<std::size_t> const& node_of, std::size_t first, std::size_t gpus)
{
  if (first + gpus > node_of.size()) { return false; }
  auto const size_of = [&](std::size_t rank) {
    return static_cast<std::size_t>(std::count(node_of.begin(), node_of.end(), node_of[rank]));
  };
  std::size_t const last = first + gpus - 1;
  if (node_of[first] == node_of[last]) {
    std::size_t within = 0;  // ranks of the node before the first
    while (within < first && node_of[first - within - 1] == node_of[first]) { ++within; }
    return within % gpus == 0;
  }
  bool const starts_a_node = first == 0 || node_of[first - 1] != node_of[first];
  bool const ends_a_node = last + 1 == node_of.size() || node_of[last + 1] != node_of[last];
  for (std::size_t rank = first; rank <= last; ++rank) {
    if (size_of(rank) != size_of(first)) { return false; }
  }
  return starts_a_node && ends_a_node;
}

std::vector<std::size_t> node_of_ranks(cluster const& machines)
{
  std::vector<std::size_t> node_of;
  for (std::size_t rank = 0; rank < machines.gpus(); ++rank) {
    node_of.push_back(to_index(machines.node_of(to_id<rank_id>(rank))));
  }
  return node_of;
}

void expect_valid(bag_layout const& layout, cluster const& machines)
{
  std::vector<int> owners(machines.gpus(), 0);
  auto const node_of = node_of_ranks(machines);
  for (std::size_t index = 0; index < layout.size(); ++index) {
    bag const each = layout[to_id<bag_id>(index)];
    std::size_t const first = to_index(each.first);
    for (std::size_t rank = first; rank < first + each.gpus; ++rank) { ++owners.at(rank); }
    EXPECT_TRUE(may_lie(node_of, first, each.gpus)) << "bag " << index;
  }
  EXPECT_THAT(owners, testing::Each(1));
}

// Whether the bags can be laid at all: every place is tried for the first free rank.
bool has_places(std::vector<std::size_t> const& node_of, std::vector<std::uint32_t>& bags,
                std::size_t rank = 0)
{
  if (rank == node_of.size()) { return true; }
  for (auto& size : bags) {
    if (size == 0 || !may_lie(node_of, rank, size)) { continue; }
    std::uint32_t const tried = std::exchange(size, 0U);
    bool const laid = has_places(node_of, bags, rank + tried);
    size = tried;
    if (laid) { return true; }
  }
  return false;
}

TEST(LayOut, RepeatsReplicasInTheOrderWritten)  // Ensures (3)
{
  auto const layout = lay_out(*parse_bags("g1n2+g2n1+g4n1"), *cluster_of(16, 8)).value();
  expect_valid(layout, *cluster_of(16, 8));
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(1, 1, 2, 4, 1, 1, 2, 4));
  EXPECT_EQ(layout[bag_id{7}].first, rank_id{12});
}

TEST(LayOut, RefusesGpusThatAreNoWholeNumberOfReplicas)
{
  auto const layout = lay_out(*parse_bags("g2n3"), 8);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, error_code::infeasible);
  EXPECT_THAT(layout.error().message, testing::HasSubstr("take 6 GPUs, and the job's 8"));
}

TEST(LayOut, TakesANumberOfGpusForNodesOfEight)
{
  EXPECT_EQ(lay_out(*parse_bags("g8n2+g16n1"), 32),
            lay_out(*parse_bags("g8n2+g16n1"), *cluster_of(32, 8)));
  EXPECT_EQ(lay_out(*parse_bags("g4n1"), 4).value().size(), 1U);
  EXPECT_EQ(lay_out(*parse_bags("g4n3"), 12).error().message, cluster_of(12).error().message);
}

TEST(LayOut, NamesTheFirstBagThatIsMisplaced)
{
  // Misaligned: a bag of two at rank 1. Straddling: a bag of four at rank 6.
  auto const misaligned = lay_out(*parse_bags("g1n1+g2n1+g1n1"), *cluster_of(4, 4));
  ASSERT_FALSE(misaligned);
  EXPECT_EQ(misaligned.error().position, 1U);
  EXPECT_THAT(misaligned.error().message,
              testing::HasSubstr("bag 1 of 2 GPUs would start at rank 1"));
  auto const straddling = lay_out(*parse_bags("g2n3+g4n2+g2n1"), *cluster_of(16, 8));
  ASSERT_FALSE(straddling);
  EXPECT_EQ(straddling.error().position, 3U);
}

TEST(LayOut, LaysTheLargestFirstAndKeepsTheirNumbers)
{
  auto const layout =
      lay_out(*parse_bags("g1n1+g2n1+g4n1+g1n1"), *cluster_of(16, 8), misplaced_bags::largest_first)
          .value();
  expect_valid(layout, *cluster_of(16, 8));
  EXPECT_THAT(layout.sizes(), testing::ElementsAre(1, 2, 4, 1, 1, 2, 4, 1));
}

TEST(LayOut, LeavesWhatFitsAloneWhenAskedForTheLargestFirst)  // Ensures (3)
{
  auto const spec = *parse_bags("g1n2+g2n1+g4n1");
  EXPECT_EQ(lay_out(spec, 16, misplaced_bags::largest_first), lay_out(spec, 16));
}

TEST(LayOut, SaysWhichBagFitsNowhere)
{
  // 5 + 3 fill a node, but 3 is not aligned behind 5 and a node has no other gap for it.
  auto const layout = lay_out(*parse_bags("g5n1+g3n1"), 8, misplaced_bags::largest_first);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().position, 1U);
  EXPECT_THAT(layout.error().message, testing::HasSubstr("bag 1 of 3 GPUs fits nowhere"));
  // More than a node, but not whole nodes.
  EXPECT_FALSE(lay_out(*parse_bags("g12n1+g4n1"), 16, misplaced_bags::largest_first));
}

TEST(LayOut, TakesNodesAndSpeedsFromTheCluster)  // Ensures (5)
{
  using namespace ballast::literals;
  // [nodes]
  auto machines = ballast::cluster_of({8, 8, 8, 8, 5}).value();  // 37 GPUs
  machines.gpu_speeds.assign(32, 100);                           // in percent of the fastest
  machines.gpu_speeds.resize(37, 60);
  auto const bags = ballast::lay_out("g8n2+g4n4+g1n5"_bags, machines);
  // [nodes]
  ASSERT_TRUE(bags) << bags.error().message;
  EXPECT_THAT(bags->speeds(),
              testing::ElementsAre(800, 800, 400, 400, 400, 400, 60, 60, 60, 60, 60));
}

TEST(LayOut, KeepsLargerNodesWholeWhereASmallerOneHasRoom)
{
  // Five GPUs at the first place would leave three of a node of eight, where no bag of four fits.
  auto const machines = cluster_of({8, 8, 8, 8, 5}).value();
  auto const layout =
      lay_out(*parse_bags("g4n8+g5n1"), machines, misplaced_bags::largest_first).value();
  auto const mixed =
      lay_out(*parse_bags("g4n1+g5n1+g4n7"), machines, misplaced_bags::largest_first).value();
  expect_valid(mixed, machines);
  EXPECT_EQ(mixed[bag_id{1}].first, rank_id{32});
}

TEST(LayOut, TakesTimeInProportionToTheGpus)
{
  // Half a million nodes of one GPU: every node may start a bag that spans half of them.
  constexpr std::uint32_t half = ballast_test::is_sanitized ? 1U << 14 : 1U << 18;
  std::vector<std::uint32_t> gpus_of_nodes(2 * half, 1);
  gpus_of_nodes.push_back(2);
  auto const machines = cluster_of(gpus_of_nodes).value();
  auto const spec =
      *parse_bags("g1n" + std::to_string(half + 1) + "+g" + std::to_string(half) + "n1+g1n1");
  EXPECT_EQ(lay_out(spec, machines).error().position, half + 1);  // would end inside the last node
  auto const layout = lay_out(spec, machines, misplaced_bags::largest_first).value();
  EXPECT_EQ(layout[bag_id{half + 1}], (bag{rank_id{0}, half}));
}

TEST(LayOut, SpansWholeNodesOfOneSizeOnly)
{
  EXPECT_TRUE(lay_out(*parse_bags("g8n1+g1n3"), cluster_of({4, 4, 3}).value()));
  EXPECT_TRUE(lay_out(*parse_bags("g1n3+g8n1"), cluster_of({3, 4, 4}).value()));
  EXPECT_TRUE(lay_out(*parse_bags("g3n1"), cluster_of({1, 1, 1}).value()));
  for (auto const& machines :
       {cluster_of({4, 3, 4}).value(), cluster_of({5, 3, 3}).value(), cluster_of({8, 3}).value(),
        cluster_of({3, 8}).value(), cluster_of({4, 3, 1, 3}).value()}) {
    auto const whole = lay_out(*parse_bags("g11n1"), machines, misplaced_bags::largest_first);
    ASSERT_FALSE(whole);
    EXPECT_THAT(whole.error().message,
                testing::AllOf(testing::HasSubstr("bag 0 of 11 GPUs fits nowhere in nodes of"),
                               testing::HasSubstr("whole nodes of one size")));
  }
  EXPECT_THAT(lay_out(*parse_bags("g11n1"), cluster_of({8, 3}).value()).error().message,
              testing::HasSubstr("must be whole nodes of one size"));
}

TEST(LayOut, SaysWhatIsWrongWithThePlaceOfABag)
{
  auto const why = [](char const* bags, cluster const& machines) {
    return lay_out(*parse_bags(bags), machines).error().message;
  };
  EXPECT_THAT(why("g3n1+g4n2", cluster_of({8, 3}).value()),
              testing::HasSubstr(
                  "bag 1 of 4 GPUs would start at rank 3: GPU 3 of node 0 is no multiple of 4;"));
  EXPECT_THAT(why("g4n1+g2n2", cluster_of({5, 3}).value()),
              testing::HasSubstr(
                  "bag 1 of 2 GPUs would start at rank 4: node 0 has only 1 GPU from there on;"));
  EXPECT_THAT(why("g8n2", cluster_of({8, 7, 1}).value()),
              testing::HasSubstr("rank 8: node 1 has 7 GPUs, and a bag larger than its node"));
}

TEST(LayOut, AdvisesOrdersThatHelp)
{
  auto const advice = [](char const* bags, std::uint32_t gpus) {
    std::string const why = lay_out(*parse_bags(bags), cluster_of({gpus}).value()).error().message;
    return why.substr(why.find("; ") + 2);
  };
  EXPECT_EQ(advice("g5n1+g3n1", 8),
            "nor do they fit with the largest first, so use sizes that divide a node");
  EXPECT_EQ(advice("g1n1+g2n1+g1n1", 8),
            "write larger bags first, lay the largest first, or use sizes that divide a node");
  EXPECT_EQ(advice("g2n1+g1n1", 6),  // twice: the second bag of 2 would start at 3
            "lay the largest first, or use sizes that divide a node");
}

TEST(LayOut, GivesBagsTheSpeedsOfTheirGpus)  // Ensures (5)
{
  auto machines = cluster_of({2, 1}).value();
  machines.gpu_speeds = {100, 70, 50};
  auto const layout = lay_out(*parse_bags("g2n1+g1n1"), machines).value();
  EXPECT_THAT(layout.speeds(), testing::ElementsAre(140, 50));
  EXPECT_THAT(lay_out(*parse_bags("g1n1+g2n1"), machines, misplaced_bags::largest_first)->speeds(),
              testing::ElementsAre(50, 140));
}

TEST(LayOut, RefusesSpeedsThatAreNoneOrTooFewOrTooFast)
{
  auto machines = cluster_of(4, 4).value();
  auto const refusal = [&](std::vector<std::uint32_t> speeds) {
    machines.gpu_speeds = std::move(speeds);
    return lay_out(*parse_bags("g2n2"), machines).error();
  };
  EXPECT_THAT(refusal({1, 1, 1}).message, testing::HasSubstr("4 GPUs has 3 speeds"));
  EXPECT_THAT(refusal({1, 1, 1, 1, 1}).message, testing::HasSubstr("4 GPUs has 5 speeds"));
  auto const zero = refusal({1, 1, 1, 0});
  EXPECT_EQ(zero.code, error_code::out_of_range);
  EXPECT_EQ(zero.position, 3U);
  EXPECT_THAT(zero.message, testing::HasSubstr("GPU 3 has the speed 0"));
  auto const fast = refusal({1, 1, 1U << 31, 1U << 31});
  EXPECT_EQ(fast.position, 2U);
  EXPECT_THAT(fast.message, testing::HasSubstr("coarser unit"));
}

RC_GTEST_PROP(LayOut, FindsPlacesOfPowersOfTwoOnAnyNodesIfThereAreAny, ())  // Ensures (4)
{
  auto const gpus_of_nodes = *rc::gen::nonEmpty(rc::gen::resize(
      5, rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 6))));
  auto const machines = cluster_of(gpus_of_nodes).value();
  std::vector<std::uint32_t> sizes;
  ballast::bag_spec spec;
  for (std::size_t left = machines.gpus(); left > 0;) {
    std::uint32_t size = *rc::gen::element<std::uint32_t>(1, 2, 4, 8);
    while (size > left) { size /= 2; }
    RC_PRE(spec.add({size, 1}) == ballast::bag_spec::fault::none);
    sizes.push_back(size);
    left -= size;
  }
  auto const node_of = node_of_ranks(machines);
  auto const layout = lay_out(spec, machines, misplaced_bags::largest_first);
  RC_ASSERT(layout.has_value() == has_places(node_of, sizes));
  if (layout) { expect_valid(*layout, machines); }
  RC_ASSERT(!testing::Test::HasFailure());
}

TEST(LayOut, PutsABagIntoTheNodeThatHoldsItWhereTheLargestComeFirst)  // Ensures (5)
{
  auto const machines = cluster_of({4, 4, 8}).value();
  auto const spec = parse_bags("g8n1+g4n2").value();
  EXPECT_EQ((*lay_out(spec, machines))[bag_id{0}], (bag{rank_id{0}, 8}));
  EXPECT_EQ((*lay_out(spec, machines, misplaced_bags::largest_first))[bag_id{0}],
            (bag{rank_id{8}, 8}));
  auto const two = parse_bags("g8n2").value();  // one has to span nodes
  EXPECT_EQ((*lay_out(two, machines, misplaced_bags::largest_first))[bag_id{1}],
            (bag{rank_id{0}, 8}));
}

RC_GTEST_PROP(LayOut, PutsBagsOfAnySizesWhereTheyMayLie, ())  // Ensures (1) (2)
{
  auto const gpus_of_nodes = *rc::gen::nonEmpty(rc::gen::resize(
      6, rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 9))));
  auto const machines = cluster_of(gpus_of_nodes).value();
  ballast::bag_spec spec;
  bool fits_as_written = true;
  bool spans = false;  // though one node could hold the bag
  auto const node_of = node_of_ranks(machines);
  for (std::size_t rank = 0; rank < machines.gpus();) {
    auto const size = static_cast<std::uint32_t>(
        *rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(machines.gpus() - rank, 9) + 1));
    fits_as_written = fits_as_written && may_lie(node_of, rank, size);
    spans = spans ||
            (node_of[rank] != node_of[rank + size - 1] && size <= std::ranges::max(gpus_of_nodes));
    RC_PRE(spec.add({size, 1}) == ballast::bag_spec::fault::none);
    rank += size;
  }
  auto const written = lay_out(spec, machines);
  RC_ASSERT(written.has_value() == fits_as_written);
  auto const layout = lay_out(spec, machines, misplaced_bags::largest_first);
  if (written && spans) { RC_ASSERT(layout.has_value()); }
  if (written && !spans) { RC_ASSERT(layout.value() == written.value()); }
  if (layout) { expect_valid(*layout, machines); }
  RC_ASSERT(!testing::Test::HasFailure());
}

}  // namespace
