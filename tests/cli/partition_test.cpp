// Runs `ballast partition` as a user does, on files, folders and archives of instances.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;

class BallastPartition : public ballast_test::program_test {
 protected:
  json partition(std::string const& arguments) const
  {
    auto const result = run("partition --format json --instances " + arguments);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_EQ(result.error, "");
    return json::parse(result.out);
  }

  // Longest processing time gives 11 where 9 is best: 5 + 4, 5 + 4 and 3 + 3 + 3.
  std::string five_four_three(std::string const& name) const
  {
    return file(name, "3\n7\n5\n5\n4\n4\n3\n3\n3\n");
  }
};

TEST_F(BallastPartition, SaysHowGoodEveryPlanIs)
{
  auto const path = five_four_three("a.txt");
  auto const found = partition(path + " --policy lpt");
  EXPECT_EQ(found.at("policy"), "lpt");
  ASSERT_EQ(found.at("instances").size(), 1U);
  json const& only = found.at("instances")[0];
  EXPECT_EQ(only.at("file"), path);
  EXPECT_EQ(only.at("n"), 7);
  EXPECT_EQ(only.at("m"), 3);
  EXPECT_EQ(only.at("makespan"), 11);
  EXPECT_EQ(only.at("lower_bound"), 9);
  EXPECT_EQ(only.at("proven"), false);
  EXPECT_GT(only.at("micros"), 0.0);
  EXPECT_EQ(found.at("files"), 1);
  EXPECT_EQ(found.at("proven"), 0);
  EXPECT_EQ(found.at("proven_share"), 0.0);
  EXPECT_NEAR(found.at("gap_max"), 11.0 / 9 - 1, 1e-12);
  EXPECT_EQ(found.at("micros_mean"), only.at("micros"));
}

TEST_F(BallastPartition, TakesThePolicyThatItIsGiven)
{
  auto const found = partition(five_four_three("a.txt") + " --policy exact:nodes=1000");
  EXPECT_EQ(found.at("instances")[0].at("makespan"), 9);
  EXPECT_EQ(found.at("proven"), 1);
  EXPECT_EQ(found.at("proven_share"), 1.0);
  EXPECT_EQ(found.at("gap_mean"), 0.0);
}

TEST_F(BallastPartition, PrintsATable)
{
  auto const result = run("partition --policy longest_processing_time --instances " +
                          five_four_three("a.txt") + " " + file("b.txt", "2 2 5 5"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out,
              testing::MatchesRegex("file +n +m +makespan +lower_bound +proven +micros\n"
                                    "[^ ]*a.txt +7 +3 +11 +9 +no +[0-9.]+\n"
                                    "[^ ]*b.txt +2 +2 +5 +5 +yes +[0-9.]+\n"
                                    "\npolicy longest_processing_time\n"
                                    "2 instances, 1 proven optimal \\(50.0 %\\).*\n"));
}

TEST_F(BallastPartition, RefinesWithoutAPolicy)
{
  auto const found = partition(five_four_three("a.txt"));
  EXPECT_EQ(found.at("policy"), "refine");
  EXPECT_EQ(found.at("proven_share"), 1.0);
}

TEST_F(BallastPartition, ReadsFoldersAndArchivesInTheOrderOfNames)
{
  std::filesystem::create_directories(path("set/deep"));
  file("set/b.txt", "1 1 7");
  file("set/a.txt", "1 1 8");
  file("set/deep/c.txt", "1 1 9");
  file("set/LICENSE", "MIT");
  auto const makespans = [&](std::string const& what) {
    auto const found = partition(what);
    EXPECT_EQ(found.at("passed_over").size(), 1U);
    std::string all;
    for (json const& each : found.at("instances")) { all += each.at("makespan").dump() + " "; }
    return all;
  };
  EXPECT_EQ(makespans(path("set")), "8 7 9 ");
  for (std::string const archive : {"set.tar", "set.tar.gz"}) {
    std::string const pack = "tar -C '" + path("") + "' -caf '" + path(archive) + "' set";
    ASSERT_EQ(std::system(pack.c_str()), 0);
    EXPECT_EQ(makespans(path(archive)), "8 7 9 ");
  }
  std::filesystem::rename(path("set.tar.gz"), path("set/deep/again.tgz"));
  EXPECT_EQ(partition(path("set")).at("files"), 6);
}

TEST_F(BallastPartition, AnswersOneWhenTheDataAreWrong)
{
  expect_refused(run("partition --instances /no/such/file"), 1, "/no/such/file");
  expect_refused(run("partition --instances " + file("a.txt", "2\n2\n5\nfive\n")), 1,
                 "a.txt: line 4: 'five'");
  expect_refused(run("partition --instances " + file("b.txt", "two machines")), 1,
                 "b.txt: line 1: 'two'");
  expect_refused(run("partition --instances " + file("c.txt", "2 3 1 1")), 1, "time 3 of 3");
  std::filesystem::create_directories(path("empty"));
  expect_refused(run("partition --instances " + path("empty")), 1, "no file in it is an instance");
  file("cut.txt", std::string(100'000, '1'));
  std::string const cut =
      "tar -C '" + path("") + "' -cf - cut.txt | head -c 2000 > '" + path("cut.tar") + "'";
  ASSERT_EQ(std::system(cut.c_str()), 0);
  expect_refused(run("partition --instances " + path("cut.tar")), 1, "cut.tar: ");
}

TEST_F(BallastPartition, AnswersTwoWhenTheCommandLineIsWrong)
{
  expect_refused(run("partition"), 2, "--instances");
  expect_refused(run("partition --instances a --policy magic"), 2, "no policy 'magic'");
  expect_refused(run("partition --instances a --gpus 8"), 2, "see ballast partition --help");
}

TEST_F(BallastPartition, ProvesMostOfThePublishedInstances)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA does not name a folder of instances"; }
  auto const found = partition(std::string(data) + "/pcmax --policy exact:refine:lpt");
  EXPECT_EQ(found.at("files"), 390);
  EXPECT_GE(found.at("proven_share"), 0.85);
  EXPECT_LT(found.at("gap_max"), 0.01);
}

}  // namespace
