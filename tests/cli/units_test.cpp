// SPDX-License-Identifier: Apache-2.0
// Runs `ballast route --units` as a user does, and checks its figures against ones worked out here.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace {

using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;

class BallastRouteUnits : public ballast_test::program_test {
 protected:
  // Equal samples of ten tokens: however they are shuffled, steps are the same.
  std::string units(std::string const& sizes, int batch) const
  {
    return "route --trace " + file("t.csv", "a\n10\n10\n10\n10\n10\n10\n10\n10\n") +
           " --length a --bytes-per-token 3 --batch " + std::to_string(batch) + " --units " +
           sizes + " ";
  }
};

// Four senders on the first node, two receivers on the second; two samples of each sender.
TEST_F(BallastRouteUnits, ShowsTheThreeStrategiesSideBySide)
{
  json const found = json_of(units("4:2", 8) +
                             "--nodes 4,2 --latency-us 1000 --within-node-bandwidth 0.00002 "
                             "--between-nodes-bandwidth 0.00001");
  EXPECT_EQ(found.at("units"), "4:2");
  EXPECT_EQ(found.at("gpus"), 6);
  EXPECT_EQ(found.at("nodes"), (json{4, 2}));
  EXPECT_EQ(found.at("samples"), 8);
  json const& direct = found.at("direct");
  EXPECT_EQ(direct.at("brokers"), 0);
  EXPECT_EQ(direct.at("messages_mean"), 4);
  EXPECT_EQ(direct.at("messages_of_gpu_max"), 2);
  EXPECT_EQ(direct.at("bytes_mean"), 240);
  EXPECT_EQ(direct.at("bytes_of_gpu_max"), 120);
  EXPECT_EQ(direct.at("between_nodes_bytes"), 240);
  EXPECT_NEAR(direct.at("ms_mean").get<double>(), 1 + 12, 1e-9);
  json const& one = found.at("one_rank");
  EXPECT_EQ(one.at("brokers"), 1);
  EXPECT_EQ(one.at("messages_mean"), 5);
  EXPECT_EQ(one.at("bytes_mean"), 360);
  EXPECT_EQ(one.at("within_node_bytes"), 120);
  EXPECT_EQ(one.at("memory_bytes_max"), 600);
  EXPECT_NEAR(one.at("ms_max").get<double>(), 1 + 24 + 1 + 6, 1e-9);
  json const& brokers = found.at("brokers");
  EXPECT_EQ(brokers.at("brokers"), 2);
  EXPECT_EQ(brokers.at("bytes_mean"), 240);
}

// The LLM's first stage is at GPUs 2 to 5 and 10 to 13 of a job of 2 + 2 x 2 x 4 GPUs.
TEST_F(BallastRouteUnits, KnowsWhereTheDataParallelGpusOfAModuleAre)
{
  json const found = json_of(units("2x1x1:2x2x4", 4));
  EXPECT_EQ(found.at("gpus"), 18);
  EXPECT_EQ(found.at("nodes"), (json{8, 8, 2}));
  EXPECT_EQ(found.at("sizes").at(1), (json{{"data", 2}, {"pipeline", 2}, {"tensor", 4}}));
  EXPECT_EQ(found.at("direct").at("within_node_bytes"), 60) << "from GPU 0 to GPU 2";
  EXPECT_EQ(found.at("direct").at("between_nodes_bytes"), 60) << "from GPU 1 to GPU 10";
}

TEST_F(BallastRouteUnits, PrintsATable)
{
  auto const result = run(units("3:2", 6));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out,
              HasSubstr("from a unit of 3 data-parallel GPUs to one of 2, 5 GPUs in all"));
  for (char const* const row : {"\ndirect  ", "\nthrough one rank  ", "\nthrough brokers  "}) {
    EXPECT_THAT(result.out, HasSubstr(row));
  }
}

TEST_F(BallastRouteUnits, RefusesWhatIsNoPairOfUnits)
{
  for (char const* const text :
       {"12", "12:", ":3", "0:3", "a:b", "3:2:1", "3x2:4", "3x2x1:4x", "99999999:1", "2:2x1x0"}) {
    expect_refused(run(units(text, 4)), 2, "does not say how two units are parallel");
  }
  expect_refused(run(units("''", 4)), 2, "the text is empty");
  expect_refused(run(units("2:2", 4) + "--gpus 5"), 2, "takes 4 GPUs, and --gpus says 5");
  expect_refused(run(units("2:2", 4) + "--nodes 2,1"), 2, "takes 4 GPUs, and --nodes 2,1 has 3");
  expect_refused(run(units("2:2", 4) + "--bags g1n4"), 2,
                 "--bags and --units do not go together; leave one of them out");
  expect_refused(run("route --units 2:2"), 2, "--units goes with --trace and --length");
}

}  // namespace
