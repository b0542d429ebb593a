// Runs `ballast route` as a user does, and checks its figures against ones worked out here.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <string>

namespace {

using ballast_test::expect_refused;
using ballast_test::mixed;
using nlohmann::json;
using testing::HasSubstr;

class BallastRoute : public ballast_test::program_test {
 protected:
  json route(std::string const& arguments) const { return json_of("route " + arguments); }

  // Two GPUs read two samples of ten tokens each: however they are shuffled, steps are the same.
  std::string four_equal_samples() const
  {
    return "--trace " + file("t.csv", "a\n10\n10\n10\n10\n") + " --length a --gpus 2 --batch 4 ";
  }
};

TEST_F(BallastRoute, MovesWhatRoundRobinMustMove)
{
  // Samples 0 and 1 are read by GPU 0, 2 and 3 by GPU 1; GPU 0 computes 0 and 2. So 1 and 2 move.
  auto const found = route(four_equal_samples() +
                           "--policy round_robin --cost transformer:d=8 --bytes-per-token 3 "
                           "--within-node-bandwidth 0.001 --latency-us 50 --tflops 0.001");
  auto const& figures = found.at("route");
  EXPECT_EQ(figures.at("kept_share"), 0.5);
  EXPECT_EQ(figures.at("bytes_mean"), 10 * 3);
  EXPECT_EQ(figures.at("bytes_max"), 10 * 3);
  EXPECT_EQ(figures.at("messages_mean"), 1);
  EXPECT_EQ(figures.at("messages_max"), 1);
  EXPECT_EQ(figures.at("within_node_bytes"), 2 * 10 * 3);
  EXPECT_EQ(figures.at("between_nodes_bytes"), 0);
  EXPECT_EQ(figures.at("memory_bytes_max"), 2 * 10 * 3);
  // 30 bytes at a megabyte per second.
  EXPECT_DOUBLE_EQ(figures.at("ms_mean"), 0.050 + 0.030);
  EXPECT_DOUBLE_EQ(figures.at("ms_max"), 0.050 + 0.030);

  // Two samples per GPU of 24 l d^2 + 4 l^2 d FLOP, at a gigaflop per second.
  double const flops = 2 * (24 * 10 * 8 * 8 + 4 * 10 * 10 * 8);
  EXPECT_NEAR(found.at("compute_ms_mean"), flops / 1e9 * 1e3, 1e-9);

  // Each gathers the 20 tokens of the other, and holds both and its own part once more.
  auto const& gathered = found.at("all_gather");
  EXPECT_EQ(gathered.at("kept_share"), 0);
  EXPECT_EQ(gathered.at("bytes_mean"), 20 * 3);
  EXPECT_EQ(gathered.at("within_node_bytes"), 2 * 20 * 3);
  EXPECT_EQ(gathered.at("memory_bytes_max"), 3 * 20 * 3);
  EXPECT_DOUBLE_EQ(gathered.at("ms_mean"), 0.050 + 0.060);
}

TEST_F(BallastRoute, TellsLinksBetweenNodesFromThoseWithin)
{
  auto const found = route(four_equal_samples() +
                           "--policy round_robin --bytes-per-token 3 --gpus-per-node 1 "
                           "--between-nodes-bandwidth 0.0001 --latency-us 0");
  EXPECT_EQ(found.at("route").at("within_node_bytes"), 0);
  EXPECT_EQ(found.at("route").at("between_nodes_bytes"), 60);
  EXPECT_DOUBLE_EQ(found.at("route").at("ms_mean"), 0.300);
  EXPECT_DOUBLE_EQ(found.at("all_gather").at("ms_mean"), 0.600);
}

TEST_F(BallastRoute, TellsLinksApartOnNodesOfDifferentSizes)
{
  // GPU 0 is alone: what it sends and receives crosses nodes, and only that.
  std::string const job = "--trace " + file("three.csv", "a\n5\n7\n9\n4\n8\n6\n2\n3\n1\n") +
                          " --length a --batch 9 --bytes-per-token 3 --policy round_robin ";
  json const apart = route(job + "--nodes 1,2");
  json const together = route(job + "--gpus 3");
  auto const bytes = [](json const& found, char const* link) {
    return found.at("route").at(link).get<double>();
  };
  EXPECT_EQ(apart.at("nodes"), (json{1, 2}));
  EXPECT_EQ(apart.at("digest"), together.at("digest"));
  EXPECT_EQ(bytes(together, "between_nodes_bytes"), 0);
  EXPECT_GT(bytes(apart, "between_nodes_bytes"), 0);
  EXPECT_GT(bytes(apart, "within_node_bytes"), 0);
  EXPECT_NEAR(bytes(apart, "between_nodes_bytes") + bytes(apart, "within_node_bytes"),
              bytes(together, "within_node_bytes"), 1e-9);
}

TEST_F(BallastRoute, PlacesEqualBagsByNode)
{
  // LPT gives GPU 0 the longer of the two samples of a step, whoever has read it.
  std::string const job = "--trace " + file("two.csv", "a\n1\n9\n") +
                          " --length a --batch 2 --gpus 2 --gpus-per-node 1 --bytes-per-token 3 "
                          "--policy longest_processing_time ";
  json const as_filled = route(job);
  json const by_node = route(job + "--place-by-node");
  EXPECT_GT(as_filled.at("route").at("between_nodes_bytes"), 0);
  EXPECT_EQ(by_node.at("route_before"), as_filled.at("route"));
  EXPECT_EQ(by_node.at("route").at("between_nodes_bytes"), 0);
  EXPECT_NE(by_node.at("digest"), as_filled.at("digest"));
  EXPECT_THAT(run("route " + job + "--place-by-node").out, HasSubstr("\n  by node "));

  expect_refused(run("plan " + job + "--place-by-node"), 2, "--place-by-node");
  std::string const page = path("page.html");
  ASSERT_EQ(run("plan " + job + "--place-by-node --report " + page).exit_code, 0);
  EXPECT_THAT(ballast_test::content_of(page), HasSubstr("had equal bags kept their places"));
}

TEST_F(BallastRoute, ComputesAtTheSpeedOfTheFastestGpuAtMost)
{
  json const even = route(four_equal_samples());
  json const uneven = route(four_equal_samples() + "--speeds " + file("s.txt", "30\n10\n"));
  // Two samples each at one speed; at speeds 3 and 1, three and one take as long as three and
  // three.
  EXPECT_NEAR(uneven.at("compute_ms_mean").get<double>(),
              even.at("compute_ms_mean").get<double>() * 3 / 2, 1e-9);
}

TEST_F(BallastRoute, SendsEachBagItsChunks)
{
  // Both GPUs share all four samples: half of each stays, half goes to the neighbour.
  auto const found = route(four_equal_samples() + "--bags g2n1");
  EXPECT_EQ(found.at("route").at("kept_share"), 0.5);
  EXPECT_EQ(found.at("route").at("bytes_mean"), 2 * 5 * found.at("bytes_per_token").get<int>());
  EXPECT_EQ(found.at("bytes_per_token"), 2 * 3072);  // bf16 of the default model
}

TEST_F(BallastRoute, SendsNothingToGpusWithoutAChunk)
{
  // The first GPU has read the only sample of three tokens, and two others get one each.
  std::string const job =
      "--trace " + file("s.csv", "a\n3\n") + " --length a --batch 1 --gpus 8 --bags g8n1 ";
  expect_refused(run("route " + job), 1, "--short-samples admit");
  auto const found = route(job + "--short-samples admit");
  EXPECT_EQ(found.at("short_samples"), 10) << "one of every step";
  int const bytes_per_token = found.at("bytes_per_token").get<int>();
  EXPECT_EQ(found.at("route").at("bytes_max"), 2 * bytes_per_token);
  EXPECT_EQ(found.at("route").at("messages_max"), 2);
  EXPECT_THAT(run("route " + job + "--short-samples admit").out,
              HasSubstr("g8n1: 10 of 10 samples with fewer tokens than their bag has GPUs"));
}

TEST_F(BallastRoute, MovesNothingOnOneGpu)
{
  auto const found = route("--codes g1b4i256f1s0");
  EXPECT_EQ(found.at("route").at("kept_share"), 1);
  EXPECT_EQ(found.at("route").at("bytes_max"), 0);
  EXPECT_EQ(found.at("route").at("ms_max"), 0);
  EXPECT_EQ(found.at("all_gather").at("ms_max"), 0);
}

TEST_F(BallastRoute, HasMeansThatAreNotAboveTheMost)
{
  // Ten equal steps, of times whose sum rounds up.
  for (char const* const latency : {"5", "13", "27", "36"}) {
    auto const found =
        route(four_equal_samples() + "--within-node-bandwidth 0.7 --latency-us " + latency);
    for (auto const* const name : {"route", "all_gather"}) {
      auto const& figures = found.at(name);
      EXPECT_LE(figures.at("ms_mean").get<double>(), figures.at("ms_max").get<double>());
      EXPECT_LE(figures.at("bytes_mean").get<double>(), figures.at("bytes_max").get<double>());
    }
  }
}

TEST_F(BallastRoute, WritesWholeBytesAsIntegers)
{
  auto const figures = route(four_equal_samples() + "--bytes-per-token 3").at("route");
  for (auto const* const name : {"bytes_mean", "bytes_max", "within_node_bytes",
                                 "between_nodes_bytes", "memory_bytes_max"}) {
    EXPECT_TRUE(figures.at(name).is_number_integer()) << name;
  }
  EXPECT_TRUE(figures.at("ms_mean").is_number_float());
}

TEST_F(BallastRoute, WritesLongTimesInSeconds)
{
  auto const shown = run("route " + four_equal_samples() +
                         "--policy round_robin --bytes-per-token 1000 --latency-us 0 "
                         "--within-node-bandwidth 0.000005");
  EXPECT_THAT(shown.out, HasSubstr(" 2.00 s"));  // 10 tokens
  EXPECT_THAT(shown.out, HasSubstr(" 4.00 s"));  // all-gather: 20
  EXPECT_THAT(shown.out, testing::Not(HasSubstr("000.00 ms")));
}

TEST_F(BallastRoute, AddsUp)
{
  auto const found = route(std::string(mixed) + "--bags g4n8 --steps 5");
  auto const& figures = found.at("route");
  EXPECT_NEAR(figures.at("bytes_mean").get<double>() * 32,
              figures.at("within_node_bytes").get<double>() +
                  figures.at("between_nodes_bytes").get<double>(),
              1);
  EXPECT_GT(figures.at("within_node_bytes"), 0);
  EXPECT_GT(figures.at("between_nodes_bytes"), 0);
  EXPECT_GE(figures.at("bytes_max"), figures.at("bytes_mean"));
  EXPECT_GE(figures.at("ms_max"), figures.at("ms_mean"));
  EXPECT_LE(figures.at("messages_max"), 31);
  EXPECT_LT(figures.at("bytes_max"), found.at("all_gather").at("bytes_mean"));
  EXPECT_LT(figures.at("memory_bytes_max"), found.at("all_gather").at("memory_bytes_max"));
}

TEST_F(BallastRoute, RoutesThePlansOfBallastPlan)
{
  auto const options = std::string(mixed) + "--bags g8n4 --seed 3";
  auto const plan = json_of("plan " + options);
  EXPECT_EQ(route(options).at("digest"), plan.at("digest"));
}

TEST_F(BallastRoute, IsTheSameOnEveryRun)
{
  auto const options = std::string(mixed) + "--steps 3";
  EXPECT_EQ(route(options), route(options));
}

TEST_F(BallastRoute, ComparesLayoutsBesideOneBaseline)
{
  auto const options = std::string(mixed) + "--bags g1n32 --bags g8n4 --steps 2";
  auto const found = route(options);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].at("bags"), "g1n32");
  EXPECT_NE(found[0].at("route"), found[1].at("route"));
  EXPECT_EQ(found[0].at("all_gather"), found[1].at("all_gather"));

  auto const table = run("route " + options);
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.out, testing::AllOf(HasSubstr("\ng1n32 "), HasSubstr("\ng8n4 "),
                                        HasSubstr("\nall-gather "), HasSubstr("part of"),
                                        HasSubstr("the forward pass of 1 layer at 400 TFLOP/s"),
                                        HasSubstr("four\nexchanges")));
}

TEST_F(BallastRoute, SaysNothingOfTimesThatItDoesNotKnow)
{
  auto const options = four_equal_samples() + "--cost tokens --bytes-per-token 16";
  EXPECT_TRUE(route(options).at("compute_ms_mean").is_null());
  EXPECT_THAT(run("route " + options).out, testing::Not(HasSubstr("omputing is that of")));
}

TEST_F(BallastRoute, TakesMeasuredTimes)
{
  auto const measured = file("m.csv", "length,seconds\n512,0.001\n2048,0.005\n8192,0.04\n");
  auto const found = route("--codes g8b2i512f1s0 --measured " + measured);
  EXPECT_GT(found.at("compute_ms_mean"), 0);
  EXPECT_TRUE(found.contains("fit"));
}

TEST_F(BallastRoute, RoutesRealTraces)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA does not name a folder of length traces"; }
  auto const found = route(std::string("--trace ") + data + "/nextqa_video.csv --length " +
                           "text_tokens+video_tokens_qwen2vl --bags g4n8");
  EXPECT_GT(found.at("route").at("kept_share"), 0.0);
  EXPECT_LT(found.at("route").at("kept_share"), 0.2);
  EXPECT_LT(found.at("route").at("ms_max"), found.at("all_gather").at("ms_mean"));
}

TEST_F(BallastRoute, AnswersTwoWhenTheCommandLineIsWrong)
{
  expect_refused(run("route"), 2, "--trace FILE");
  expect_refused(run("route --codes g8b1i256f1s0 --nonsense"), 2, "see ballast route --help");
  expect_refused(run("route --codes g8b1i256f1s0 --report x"), 2, "--report");
  expect_refused(run("route --codes g8b1i256f1s0 --bags g3n2 --gpus 8"), 2, "replicas");
  expect_refused(run("route --codes g8b1i256f1s0 --cost tokens"), 2, "--bytes-per-token");
  expect_refused(run("route --codes g8b1i256f1s0 --bytes-per-token 0"), 2, "'0' is no whole");
  expect_refused(run("route --codes g8b1i256f1s0 --within-node-bandwidth 0"), 2,
                 "'0' is no number");
  expect_refused(run("route --codes g8b1i256f1s0 --between-nodes-bandwidth inf"), 2, "'inf'");
  expect_refused(run("route --codes g8b1i256f1s0 --latency-us -1"), 2, "'-1' is no number");
}

TEST_F(BallastRoute, AnswersOneWhenTheDataAreWrong)
{
  expect_refused(run("route --trace /no/such/file.csv --length a --gpus 8"), 1,
                 "/no/such/file.csv");
  expect_refused(run("route --trace " + file("t.csv", "a\n3\n") + " --length a --bags g4n2"), 1,
                 "(row 1 of the trace)");
  auto const lost = run("route --codes g8b1i256f1s0 --format json >/dev/full");
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_THAT(lost.error, HasSubstr("standard output"));
}

TEST_F(BallastRoute, ExplainsItself)
{
  auto const help = run("route --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, testing::AllOf(HasSubstr("--bytes-per-token"), HasSubstr("--latency-us"),
                                       HasSubstr("--bags")));
}

}  // namespace
