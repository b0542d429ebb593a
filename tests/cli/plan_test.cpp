// Runs the program `ballast` as a user does, and looks at what it prints, writes and returns.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/pipeline/local_search.hpp>
#include <ballast/pipeline/order_microbatches.hpp>
#include <ballast/pipeline/order_search.hpp>
#include <ballast/pipeline/schedule_policies.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using nlohmann::json;

using ballast_test::content_of;
using ballast_test::expect_refused;
using ballast_test::mixed;

class BallastPlan : public ballast_test::program_test {};

TEST_F(BallastPlan, PrintsEveryNumberAsJson)
{
  json const plan = json_of(std::string("plan ") + mixed + "--bags g8n4 --steps 5");
  EXPECT_EQ(plan.at("steps"), 5);
  EXPECT_EQ(plan.at("gpus"), 32);
  EXPECT_EQ(plan.at("samples"), 16 * 4 + 4 * 5 + 4 * 5 + 8);
  EXPECT_GT(plan.at("wir_before"), 10.0);
  EXPECT_LT(plan.at("wir_after"), 1.05);
  EXPECT_GT(plan.at("balance_ratio_before"), 2.0);
  EXPECT_LT(plan.at("balance_ratio_after"), 1.02);
  EXPECT_GE(plan.at("gap_max"), plan.at("gap_mean"));
  EXPECT_LT(plan.at("gap_max"), 0.02);
  EXPECT_GT(plan.at("moved_share"), 0.5);
  EXPECT_LE(plan.at("moved_share"), 1.0);
  EXPECT_GT(plan.at("plan_ms_median"), 0.0);
  EXPECT_TRUE(plan.at("digest").is_number_unsigned());
}

TEST_F(BallastPlan, TakesEveryPolicyWithItsParameters)
{
  for (std::string const policy :
       {"lpt", "kk", "refine", "refine:greedy_knapsack,work=1000", "exact:nodes=100",
        "capped:refine:lpt", "equal_count:multiple=2", "padded_batches",
        "attention_padded_batches:work=1000", "conv_transformer_batches",
        "quadratic_with_tolerance:tolerance=512", "greedy_knapsack:capacity=full", "round_robin",
        "least_movement:eps=0.01", "\"least_movement(exact(refine),eps=0.01)\""}) {
    EXPECT_GE(json_of("plan --codes g8b4i256f1s0 --steps 2 --policy " + policy).at("gap_mean"), 0.0)
        << policy;
  }
  expect_refused(run("plan --codes g8b1i256f1s0 --policy refine:lpt,wrok=5"), 2,
                 "--policy: at offset 11 of 'refine:lpt,wrok=5': 'wrok' is no parameter of refine");
  expect_refused(run("plan --codes g8b1i256f1s0 --policy refine:padded_batches"), 2,
                 "at offset 7 of");
  expect_refused(run("plan --codes g8b1i256f1s0 --policy exact:equal_count"), 2,
                 "exact would break what 'equal_count' keeps to; use that by itself");
}

constexpr char const* layers = "--cost transformer:d=3072,gamma=0.405,layers=57 ";

TEST_F(BallastPlan, ChoosesBags)
{
  std::string const page = path("page.html");
  json const plan =
      json_of(std::string("plan ") + mixed + layers + "--bags auto --steps 2 --report " + page);
  auto const& judged = plan.at("judged_bags");
  EXPECT_EQ(plan.at("bags"), judged.front().at("bags"));
  std::set<std::string> names;
  for (auto const& each : judged) {
    names.insert(each.at("bags"));
    EXPECT_GE(each.at("scored_ms"), judged.front().at("scored_ms"));
    EXPECT_GT(each.at("fitted_ms"), 0);
  }
  for (char const* const uniform : {"g1n32", "g2n16", "g4n8", "g8n4"}) {
    EXPECT_TRUE(names.contains(uniform)) << uniform;
  }
  EXPECT_THAT(content_of(page), testing::HasSubstr("<h2>Bags</h2>"));

  auto const table = run(
      std::string("plan --codes g13b4i256f1s0 --nodes 8,5 --bags g1n13 --bags auto --steps 1 ") +
      layers);
  EXPECT_EQ(table.exit_code, 0) << table.error;
  EXPECT_THAT(table.out, testing::HasSubstr("bags chosen before others"));

  // No bag has more GPUs than the model has heads.
  json const judged_for_two =
      json_of(std::string("plan ") + mixed +
              "--bags auto --steps 1 --cost transformer:d=3072,heads=2,layers=57")
          .at("judged_bags");
  for (auto const& each : judged_for_two) {
    std::string const bags = each.at("bags");
    EXPECT_TRUE(bags.starts_with("g2") || bags.starts_with("g1")) << bags;
  }
}

TEST_F(BallastPlan, LaysBagsOutAsItChoseThem)
{
  auto const chosen = json_of(
      "plan --codes g15b4i256f1s0,g1b1i2048f1s0 --nodes 4,4,8 "
      "--steps 1 --policy lpt "
      "--bags auto " +
      std::string(layers));
  auto const written = json_of(
      "plan --codes g15b4i256f1s0,g1b1i2048f1s0 --nodes 4,4,8 "
      "--steps 1 --policy lpt "
      "--largest-bags-first --bags " +
      chosen.at("bags").get<std::string>() + " " + layers);
  EXPECT_TRUE(chosen.at("bags").get<std::string>().starts_with("g8"));  // in the last node
  EXPECT_EQ(chosen.at("digest"), written.at("digest"));
}

TEST_F(BallastPlan, ChoosesBagsByMeasuredSteps)
{
  std::string const steps = "length_sum,square_sum,sequences,gpus,seconds\n";
  std::string const rows =
      "17120,293115563,1,1,4.62\n17120,293115563,1,2,2.92\n"
      "34031,326556824,14,4,2.62\n67882,652467004,28,8,2.52\n";
  json const plan = json_of(std::string("plan ") + mixed + "--bags auto --steps 1 --measured " +
                            file("steps.csv", steps + rows));
  EXPECT_NEAR(plan.at("fit").at("seconds_per_exchanged_token"), 77e-6, 1e-6);
  EXPECT_EQ(plan.at("fit").at("misfits"), json({3, 5}));  // lines
  std::map<std::string, double> step;
  for (auto const& each : plan.at("judged_bags")) { step[each.at("bags")] = each.at("scored_ms"); }
  EXPECT_NEAR(step.at("g1n32"), 4760, 60);
  EXPECT_LT(step.at("g8n4"), step.at("g2n16"));
  EXPECT_LT(step.at("g2n16"), step.at("g1n32"));

  expect_refused(run(std::string("plan ") + mixed + "--measured " +
                     file("wrong.csv", steps + "293115563,17120,1,1,4.62\n")),
                 1, "wrong.csv: line 2: step 0 has 293115563 tokens whose squared lengths");
  expect_refused(run(std::string("plan ") + mixed + "--measured " +
                     file("short.csv", steps + "17120,293115563,1,4.62\n")),
                 1, "short.csv: line 2: expected five fields");
  expect_refused(run(std::string("plan ") + mixed + "--measured " + file("none.csv", "a,b\n")), 1,
                 "expected the header length,seconds, or for steps length_sum,square_sum");
}

TEST_F(BallastPlan, SaysWhereItCannotChooseBags)
{
  expect_refused(run(std::string("plan ") + mixed + "--bags auto"), 2,
                 "--bags auto: samples are brought to their bag once for all layers; say how many");
  expect_refused(run(std::string("plan ") + mixed + "--bags auto --stages 2"), 2,
                 "--bags auto: bags are chosen for steps without pipelines");
  std::string const speeds = file("speeds", "1\n1\n1\n2\n");
  expect_refused(
      run(std::string("plan --codes g4b4i256f1s0 --bags auto ") + layers + "--speeds " + speeds), 2,
      "--bags auto: the GPUs of the cluster differ in speed");
}

TEST_F(BallastPlan, SaysWhichShareOfTheTokensMoves)
{
  auto const moved = [&](std::string const& policy) {
    return json_of("plan --codes g32b32i256f1s0 --steps 3 --policy " + policy)
        .at("moved_share")
        .get<double>();
  };
  EXPECT_GT(moved("greedy_knapsack"), 0.9);
  EXPECT_LT(moved("least_movement"), 0.03);
  EXPECT_EQ(moved("least_movement:eps=1"), 0);
  EXPECT_THAT(run("plan --codes g8b4i256f1s0 --steps 1").out, testing::HasSubstr("moved"));
}

TEST_F(BallastPlan, KeepsToWhatAGpuHolds)
{
  // The long sample costs most, and leaves no room for tokens beside it.
  auto const trace = file("t.csv", "a\n100\n50\n40\n30\n");
  auto const job = "plan --trace " + trace + " --length a --gpus 2 --batch 4 --steps 1 " +
                   "--cost transformer:d=1 ";
  json const plan = json_of(job + "--most-tokens-per-gpu 120");
  EXPECT_EQ(plan.at("most_tokens_per_gpu"), 120);
  EXPECT_GT(plan.at("balance_ratio_after"), 1.0);
  expect_refused(run(job + "--most-tokens-per-gpu 110"), 1, "found no bag with room");
  expect_refused(run(job + "--most-tokens-per-gpu 0"), 2, "--most-tokens-per-gpu");
  EXPECT_FALSE(json_of(job).contains("most_tokens_per_gpu"));
}

TEST_F(BallastPlan, KeepsSamplesOfOneValueTogether)
{
  auto const trace = file("t.csv", "a,prompt\n10,x\n10,x\n10,y\n10,x\n");
  auto const job = "plan --trace " + trace + " --length a --gpus 2 --batch 4 --cost tokens ";
  EXPECT_DOUBLE_EQ(json_of(job).at("balance_ratio_after"), 1.0);
  json const together = json_of(job + "--together prompt");
  EXPECT_DOUBLE_EQ(together.at("balance_ratio_after"), 1.5);
  EXPECT_EQ(together.at("together"), "prompt");
  auto const columns = "plan --length a --gpus 2 --batch 4 --cost tokens --trace " +
                       file("c.csv", "a,prompt,epoch\n10,x,1\n10,x,2\n10,y,1\n10,x,1\n") +
                       " --together ";
  EXPECT_DOUBLE_EQ(json_of(columns + "prompt").at("balance_ratio_after"), 1.5);
  EXPECT_DOUBLE_EQ(json_of(columns + "prompt,epoch").at("balance_ratio_after"), 1.0);
  expect_refused(run(columns + "prompt,"), 2, "has no column ''");
  expect_refused(run(job + "--together answer"), 2, "no column 'answer'; name one of a, prompt");
  expect_refused(run("plan --trace " + file("two.csv", "a,b,b\n1,0,1\n") +
                     " --length a --gpus 1 --together b"),
                 1, "two.csv has 2 columns 'b'; rename all but one of them");
  expect_refused(run(job + "--together prompt --policy padded_batches"), 2, "--together");
  expect_refused(run("plan --codes g8b1i256f1s0 --together a"), 2, "--together goes with --trace");
}

TEST_F(BallastPlan, ReadsATraceOnce)  // it may be a pipe
{
  auto const trace = file("t.csv", "a,prompt\n10,x\n10,x\n10,y\n10,x\n");
  auto const pipe = path("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::string const options =
      " --length a --together prompt --stages a:1 --gpus 2 --batch 4 --cost tokens";
  auto const piped = run("plan --trace " + pipe + options + " --format json",
                         "cat " + trace + " >" + pipe + " & timeout 20 ");
  ASSERT_EQ(piped.exit_code, 0) << piped.error;
  EXPECT_EQ(json::parse(piped.out).at("digest"),
            json_of("plan --trace " + trace + options).at("digest"));
}

TEST_F(BallastPlan, GivesTheSamePlanForTheSameSeedOnly)
{
  auto const digest = [&](char const* seed) {
    return json_of(std::string("plan ") + mixed + "--seed " + seed)
        .at("digest")
        .get<std::uint64_t>();
  };
  EXPECT_EQ(digest("1"), digest("1"));
  EXPECT_NE(digest("1"), digest("2"));
}

TEST_F(BallastPlan, ComparesLayoutsOnTheSameSteps)
{
  json const plans = json_of(std::string("plan ") + mixed + "--bags g1n32 --bags g8n4 --steps 3");
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].at("bags"), "g1n32");
  EXPECT_EQ(plans[0].at("wir_before"), plans[1].at("wir_before"));
  EXPECT_GT(plans[0].at("wir_after"), plans[1].at("wir_after"));
  auto const table = run(std::string("plan ") + mixed + "--bags g1n32 --bags g8n4 --steps 3");
  EXPECT_THAT(table.out,
              testing::AllOf(testing::HasSubstr("\ng1n32 "), testing::HasSubstr("\ng8n4 "),
                             testing::HasSubstr("max / min")));
}

TEST_F(BallastPlan, SaysNullForAnInfiniteRatio)
{
  auto const trace = file("t.csv", "a\n5\n6\n7\n");
  json const plan = json_of("plan --trace " + trace + " --length a --gpus 4 --batch 3");
  EXPECT_TRUE(plan.at("wir_before").is_null());
  EXPECT_DOUBLE_EQ(plan.at("gap_max"), 0.0);
}

TEST_F(BallastPlan, ReshufflesATraceThatIsUsedUp)
{
  // Steps of three samples out of a trace of three: every step has all of them.
  auto const trace = file("t.csv", "a,b\n5,1\n6,1\n7,1\n");
  json const plan =
      json_of("plan --trace " + trace +
              " --length a+b --gpus 1 --batch 3 --steps 50 --cost tokens " + "--policy lpt");
  EXPECT_EQ(plan.at("samples"), 3.0);
  EXPECT_EQ(plan.at("wir_before"), 1.0);
}

TEST_F(BallastPlan, FitsGammaToMeasuredTimes)
{
  // t = k (24 l d^2 + 0.3 * 4 l^2 d) with d = 1024 and k = 2e-15 s per FLOP.
  std::string rows = "length,seconds\n";
  for (double const length : {512.0, 2048.0, 8192.0, 32768.0}) {
    double const flops = 24 * length * 1024 * 1024 + 0.3 * 4 * length * length * 1024;
    rows += std::to_string(static_cast<int>(length)) + "," + std::to_string(2e-9 * flops) + "e-6\n";
  }
  auto const measured = file("m.csv", rows);
  EXPECT_NEAR(json_of("plan --codes g8b2i512f1s0 --cost transformer:d=1024 --measured " + measured +
                      " --report " + path("page.html"))
                  .at("fit")
                  .at("gamma"),
              0.3, 1e-4);
  EXPECT_THAT(content_of(path("page.html")), testing::HasSubstr("gamma 0.3000"));
}

TEST_F(BallastPlan, NamesTheMeasuredTimesThatItsFitMisses)
{
  // As above with 50 us of launch, and one time that is ten times too high.
  std::string rows = "length,seconds\n";
  for (double const length : {256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0}) {
    double const flops = 24 * length * 1024 * 1024 + 0.3 * 4 * length * length * 1024;
    double const microseconds = (2e-9 * flops + 50) * (length == 1024.0 ? 10 : 1);
    rows += std::to_string(static_cast<int>(length)) + "," + std::to_string(microseconds) + "e-6\n";
  }
  std::string const options = "plan --codes g8b2i512f1s0 --cost transformer:d=1024 --measured " +
                              file("m.csv", rows) + " --report " + path("page.html");
  json const fit = json_of(options).at("fit");
  EXPECT_NEAR(fit.at("gamma"), 0.3, 1e-4);
  EXPECT_NEAR(fit.at("seconds_per_call"), 50e-6, 1e-8);
  EXPECT_LT(fit.at("median_relative_error"), 1e-5);
  EXPECT_EQ(fit.at("misfits"), json({1024}));
  std::string const text = run(options).out;
  EXPECT_THAT(text, testing::HasSubstr("gamma 0.3000 and 50.0 us per call from 7 measurements"));
  EXPECT_THAT(text, testing::HasSubstr("more than 5 % off 1 of them, at 1024 tokens"));
  EXPECT_THAT(content_of(path("page.html")), testing::HasSubstr("off 1 of them, at 1024 tokens"));
}

TEST_F(BallastPlan, WritesAPageThatNeedsNothingElse)
{
  auto const result = run(std::string("plan ") + mixed + "--bags g4n8 --report " +
                          path("page.html") + " --picture " + path("loads.svg"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::string const page = content_of(path("page.html"));
  EXPECT_THAT(page, testing::AllOf(testing::HasSubstr("<svg"), testing::HasSubstr("Work per GPU"),
                                   testing::HasSubstr("Sample lengths"),
                                   testing::HasSubstr("prefers-color-scheme: dark")));
  EXPECT_THAT(page,
              testing::Not(testing::AnyOf(testing::HasSubstr("src="), testing::HasSubstr("<link"),
                                          testing::HasSubstr("@import"))));
  EXPECT_THAT(content_of(path("loads.svg")), testing::HasSubstr("<svg"));
}

TEST_F(BallastPlan, ShowsTheBytesThatItMovesWhereItKnowsThem)
{
  auto const page_of = [&](std::string const& options) {
    auto const result = run("plan --codes g8b2i512f1s0 --report " + path("page.html") + options);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return content_of(path("page.html"));
  };
  EXPECT_THAT(page_of(""), testing::AllOf(testing::HasSubstr("Bytes moved"),
                                          testing::HasSubstr("an array of 6.14\u00A0kB per token"),
                                          testing::HasSubstr("6144 bytes per token: bf16 "
                                                             "activations of width 3072"),
                                          testing::HasSubstr("the forward pass of 1 layer at 400"),
                                          testing::HasSubstr("Bytes moved says"),
                                          testing::HasSubstr("450 GB/s within a node")));
  EXPECT_THAT(page_of(" --cost tokens"), testing::Not(testing::HasSubstr("Bytes moved")));
  EXPECT_THAT(page_of(" --cost tokens --bytes-per-token 512 --within-node-bandwidth 64"),
              testing::AllOf(testing::HasSubstr("an array of 512\u00A0B per token"),
                             testing::HasSubstr("64 GB/s within a node")));
}

TEST_F(BallastPlan, ComparesTheExchangeWithAllGatherAsRouteDoes)
{
  // One GPU per node, two samples of ten tokens each: an all-gather sends 20 tokens of 1000 bytes.
  auto const job = "--trace " + file("t.csv", "a\n10\n10\n10\n10\n") +
                   " --length a --gpus 2 --batch 4 --gpus-per-node 1 --bytes-per-token 1000 " +
                   "--between-nodes-bandwidth 0.0001 --latency-us 0 --policy round_robin ";
  auto const route = json_of("route " + job);
  EXPECT_EQ(route.at("all_gather").at("bytes_mean"), 20'000);
  EXPECT_DOUBLE_EQ(route.at("all_gather").at("ms_mean"), 200);
  ASSERT_EQ(run("plan --report " + path("page.html") + " " + job).exit_code, 0);
  EXPECT_THAT(content_of(path("page.html")),
              testing::AllOf(testing::HasSubstr("without a plan: 20\u00A0kB."),
                             testing::HasSubstr("without a plan: 200\u00A0ms."),
                             testing::HasSubstr("about 50\u00A0% with 2 GPUs.")));
}

TEST_F(BallastPlan, SaysThatNothingMovesOnOneGpu)
{
  ASSERT_EQ(run("plan --codes g1b4i256f1s0 --report " + path("page.html")).exit_code, 0);
  EXPECT_THAT(content_of(path("page.html")),
              testing::AllOf(testing::HasSubstr("Nothing moves"),
                             testing::Not(testing::HasSubstr("\u00A0mB"))));
}

TEST_F(BallastPlan, NamesNoSpeedWhereItKnowsNoTimes)
{
  ASSERT_EQ(run("plan --codes g1b4i256f1s0 --cost tokens --report " + path("page.html")).exit_code,
            0);
  EXPECT_THAT(content_of(path("page.html")), testing::Not(testing::HasSubstr("TFLOP/s")));
}

TEST_F(BallastPlan, WritesAllOfItsFilesOrNone)
{
  auto const files = " --picture " + path("a.svg") + " --report " + path("page.html");
  expect_refused(run("plan --codes g8b1i256f1s0 --timeline /no/such/folder/t.json" + files), 1,
                 "/no/such/folder/t.json");
  expect_refused(run("plan --trace " + file("w.csv", "a\n2147483647\n") +
                     " --length a --gpus 2 --tflops 0.001 --timeline " + path("t.json") + files),
                 1, "raise --tflops");
  EXPECT_THAT(names(), testing::ElementsAre("w.csv"));
}

TEST_F(BallastPlan, WritesATimelineWithOneTrackPerGpuWhoseEventsNest)
{
  auto const result = run(std::string("plan ") + mixed + "--bags g4n8 --steps 3 --timeline " +
                          path("timeline.json"));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  json const events = json::parse(content_of(path("timeline.json"))).at("traceEvents");
  std::map<int, std::vector<std::pair<double, double>>> tracks;
  std::size_t named = 0;
  for (json const& event : events) {
    if (event.at("ph") == "M") { named += event.at("name") == "thread_name" ? 1 : 0; }
    if (event.at("ph") != "X") { continue; }
    double const start = event.at("ts");
    tracks[event.at("tid")].emplace_back(start, start + event.at("dur").get<double>());
  }
  EXPECT_EQ(named, 32U);
  ASSERT_EQ(tracks.size(), 32U);
  for (auto const& [track, intervals] : tracks) {
    for (auto const& [a, b] : intervals) {
      for (auto const& [c, d] : intervals) {
        bool const apart = b <= c + 1e-9 || d <= a + 1e-9;
        bool const inside = (a <= c + 1e-9 && d <= b + 1e-9) || (c <= a + 1e-9 && b <= d + 1e-9);
        ASSERT_TRUE(apart || inside) << "track " << track;
      }
    }
  }
}

TEST_F(BallastPlan, PlansRealTraces)
{
  char const* const data = std::getenv("BALLAST_DATA");
  if (data == nullptr) { GTEST_SKIP() << "BALLAST_DATA does not name a folder of length traces"; }
  json const plan = json_of(std::string("plan --trace ") + data + "/nextqa_video.csv --length " +
                            "text_tokens+video_tokens_qwen2vl --bags g4n8");
  EXPECT_GT(plan.at("wir_before"), 2.0);
  EXPECT_LT(plan.at("wir_after"), 1.1);
}

TEST_F(BallastPlan, DrawsTracesWhoseLengthsHardlyDiffer)
{
  for (std::string const rows : {"1000\n1000\n", "0\n1\n", "1\n2\n3\n", "2147483647\n"}) {
    auto const result = run("plan --trace " + file("t.csv", "a\n" + rows) +
                            " --length a --gpus 2 --report " + path("page.html"));
    EXPECT_EQ(result.exit_code, 0) << rows << result.error;
  }
}

TEST_F(BallastPlan, SaysWhenItsOutputIsLost)
{
  auto const result = run("plan --codes g8b1i256f1s0 --format json >/dev/full");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, testing::HasSubstr("standard output"));
}

TEST_F(BallastPlan, OrdersTheSamplesOfEveryBagForAPipeline)
{
  // Tokens are times: samples take 6 and 1 on the two modules or the other way round, backward
  // twice that, and half of it where two GPUs share them.
  auto const trace = file("t.csv", "a,b\n6,1\n1,6\n6,1\n1,6\n");
  auto const job = "plan --trace " + trace +
                   " --length a+b --gpus 2 --bags g2n1 --batch 4 --steps 3 --cost tokens";
  json const plan = json_of(job + " --stages a:1,b:1 --order exact");
  ballast::pipeline_times times(4, 2);
  for (std::size_t row = 0; row < times.rows.size(); ++row) {
    times.rows[row] =
        row % 4 == 0 || row % 4 == 3 ? ballast::stage_time{6, 12} : ballast::stage_time{1, 2};
  }
  auto const stages = ballast::chain_of_stages(2, 2);
  auto const schedule =
      ballast::compiled_schedule::make(stages, ballast::one_forward_one_backward{}, 4).value();
  auto const best =
      ballast::order_microbatches(schedule, times, ballast::exact_order<ballast::local_search<>>{})
          .value();
  auto const seconds = [](ballast::time_units time) { return static_cast<double>(time) * 0.5e-6; };
  EXPECT_EQ(plan.at("pipeline_stages"), 2);
  EXPECT_EQ(plan.at("pipeline_ranks"), 2);
  EXPECT_EQ(plan.at("pipeline_schedule"), "1f1b");
  EXPECT_EQ(plan.at("pipeline_order"), "exact");
  EXPECT_NEAR(plan.at("pipeline_makespan"), seconds(best.makespan), 1e-12);
  EXPECT_NEAR(plan.at("pipeline_lower_bound"), seconds(best.lower_bound), 1e-12);
  EXPECT_GE(plan.at("pipeline_makespan_given"), plan.at("pipeline_makespan"));
  double const busy = 3 * 28;  // both ranks together
  EXPECT_NEAR(plan.at("pipeline_idle_share"), 1 - busy / (2 * static_cast<double>(best.makespan)),
              1e-12);
  EXPECT_GE(plan.at("pipeline_idle_share_given"), plan.at("pipeline_idle_share"));
  EXPECT_GT(plan.at("pipeline_millis"), 0.0);

  json const without = json_of(job);
  EXPECT_FALSE(without.contains("pipeline_makespan"));
  EXPECT_EQ(without.at("digest"), plan.at("digest"));
}

TEST_F(BallastPlan, SharesTheWorkOfAModuleOverItsStages)
{
  // One sample on its own: forward and backward follow each other, however many stages there are.
  auto const trace = file("t.csv", "text tokens,b\n600,0\n");
  auto const plan = [&](std::string const& options) {
    return json_of("plan --trace " + trace +
                   " --length '`text tokens`+b' --gpus 1 --batch 1 --cost tokens "
                   "--steps 1 --stages " +
                   options);
  };
  for (std::string const options :
       {"1", "8", "8 --schedule gpipe", "8 --schedule interleaved:v=4", "'`text tokens`:4,b:4'"}) {
    EXPECT_NEAR(plan(options).at("pipeline_makespan"), 1800e-6, 1e-12) << options;
  }
  EXPECT_EQ(plan("8 --schedule interleaved:v=4").at("pipeline_ranks"), 2);
  EXPECT_NEAR(plan("8").at("pipeline_idle_share"), 7.0 / 8, 1e-12);
  // A module without work still has its stages.
  EXPECT_NEAR(plan("'`text tokens`:4,b:4'").at("pipeline_idle_share"), 7.0 / 8, 1e-12);
}

TEST_F(BallastPlan, PrintsATableOfPipelinesForEveryLayout)
{
  auto const result = run("plan --trace " + file("t.csv", "a\n5\n6\n7\n8\n") +
                          " --length a --gpus 4 --bags g1n4 --bags g4n1 --batch 4 --steps 2 "
                          "--cost tokens --stages 2 --order insertion");
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.out,
              testing::AllOf(testing::HasSubstr("pipelines of 2 stages on 2 ranks, schedule 1f1b, "
                                                "order insertion\n"),
                             testing::ContainsRegex("g1n4 +24.0 us +24.0 us +24.0 us"),
                             testing::ContainsRegex("g4n1 +[0-9.]+ us +[0-9.]+ us")));
}

TEST_F(BallastPlan, RefusesPipelinesThatItCannotMake)
{
  auto const job = "plan --trace " + file("t.csv", "a\n1\n") + " --length a --gpus 1 --batch 1 ";
  for (std::string const stages : {"a", "0", "8,", "a:0", "a:2,b", ":2x", "65537", "-1"}) {
    expect_refused(run(job + "--stages " + stages), 2, "does not end in a number of stages");
  }
  expect_refused(run(job + "--stages ''"), 2, "--stages: the text is empty");
  expect_refused(run(job + "--stages a:60000,a:60000"), 2, "at most 65536 stages");
  expect_refused(run(job + "--stages a+:2"), 2, "at offset 2 of 'a+'");
  expect_refused(run(job + "--stages b:2"), 1, "there is no column 'b'");
  expect_refused(run(job + "--stages 5 --schedule interleaved:v=2"), 2,
                 "the 5 of --stages 5 are no multiple");
  expect_refused(run(job + "--stages 5 --schedule zigzag"), 2, "no schedule 'zigzag'");
  expect_refused(run(job + "--stages 5 --order magic"), 2, "no order policy 'magic'");
  expect_refused(run(job + "--order given"), 2, "--order requires --stages");
  expect_refused(run(job + "--schedule gpipe"), 2, "--schedule requires --stages");
  expect_refused(run(job + "--stages 5 --policy padded_batches"), 2, "choose another --policy");
  expect_refused(run("plan --codes g8b1i256f1s0 --stages 5"), 2, "--stages goes with --trace");
  auto const vast = file("v.csv", "a,b\n1,2147483647\n");
  for (auto const& [shape, why] :
       {std::pair{"d=1", "costs more than 62 bits hold (row 1 of the trace)"},
        std::pair{"d=3072", "bag 0: microbatch 0 takes"}}) {
    expect_refused(run("plan --trace " + vast + " --length a --gpus 1 --batch 1 --stages b:1 " +
                       "--cost transformer:" + shape),
                   1, why);
  }
}

TEST_F(BallastPlan, AnswersTwoWhenTheCommandLineIsWrong)
{
  expect_refused(run(""), 2, "subcommand");
  expect_refused(run("plan"), 2, "--trace FILE");
  expect_refused(run("plan --codes g8b1i256f1s0 --nonsense"), 2, "--nonsense");
  expect_refused(run("plan --codes g8b1i256f1s0 --gpus eight"), 2, "--gpus");
  expect_refused(run("plan --codes g8b1i256f1s0 --gpus 12"), 2, "12");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g1n0"), 2, "--bags");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g3n2 --gpus 8"), 2, "replicas");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g1n1+g2n1+g1n1 --gpus 8"), 2,
                 "lay the largest first");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g5n1+g3n1 --gpus 8"), 2,
                 "nor do they fit with the largest first");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g8n1 g4n2"), 2, "g4n2");
  expect_refused(run("plan --codes g8b1 --gpus 8"), 2, "--codes");
  expect_refused(run("plan --codes g8b1i256f1s0 --cost transformer"), 2, "--cost");
  expect_refused(run("plan --codes g8b1i256f1s0 --policy magic"), 2, "no policy 'magic'");
  expect_refused(run("plan --codes g8b1i256f1s0 --format yaml"), 2, "--format");
  expect_refused(run("plan --codes g8b1i256f1s0 --batch 5"), 2, "--batch");
  expect_refused(run("plan --codes g8b1i256f1s0 --trace x --length y"), 2, "either");
  expect_refused(run("plan --codes g8b1i256f1s0 --tflops nan"), 2, "'nan' is no number");
  expect_refused(run("plan --codes g8b1i256f1s0 --seed -1"), 2, "'-1' is no whole number");
  expect_refused(run("plan --codes g8b1i256f1s0 --steps 1e3"), 2, "'1e3' is no whole number");
  expect_refused(run("plan --codes g8b1i256f1s0 --report x --timeline x"), 2, "the same file");
  for (std::string const option :
       {"--trace", "--measured", "--picture", "--report", "--timeline"}) {
    expect_refused(run("plan --codes g8b1i256f1s0 " + option + " ''"), 2,
                   option + ": the path is empty");
  }
  for (std::string const option : {"--bytes-per-token", "--within-node-bandwidth",
                                   "--between-nodes-bandwidth", "--latency-us"}) {
    expect_refused(run("plan --codes g8b1i256f1s0 " + option + " 5"), 2, option + ": plan shows");
  }
  expect_refused(
      run("plan --codes g8b1i256f1s0 --cost tokens --latency-us 5 --report " + path("page.html")),
      2, "give --bytes-per-token");
  expect_refused(run("plan --codes g8b1i256f1s0 --measured m --tflops 5"), 2, "one of the two");
  expect_refused(run("plan --trace " + file("t.csv", "a\n1\n") + " --length a --gpus 1 --report " +
                     path("t.csv")),
                 2, "the same file");
  EXPECT_EQ(content_of(path("t.csv")), "a\n1\n");
  expect_refused(run("plan --trace x"), 2, "--length");
  expect_refused(run("plan --trace x --length a"), 2, "--gpus");
  expect_refused(run("plan --trace " + file("t.csv", "a\n1\n") + " --length 'a+' --gpus 8"), 2,
                 "--length");
  expect_refused(run("plan --trace " + file("t.csv", "1\n1\n") + " --length 1 --gpus 8"), 2,
                 "names no column");
}

TEST_F(BallastPlan, NamesTheOptionThatGaveTheSize)
{
  expect_refused(run("plan --codes g4b1i256f1s0 --bags g4n2"), 2,
                 "--bags g4n2: a replica takes 8 GPUs, and the 4 of --codes are no");
  expect_refused(run("plan --trace x --length a --bags g4n2 --bags g3n2"), 2,
                 "--bags g3n2: a replica takes 6 GPUs, and the 8 of --bags g4n2 are no");
  expect_refused(run("plan --codes g8b1i256f1s0 --bags g3n2 --gpus 8"), 2,
                 "the 8 of --gpus are no");
  expect_refused(run("plan --codes g12b1i256f1s0"), 2, "ballast: --codes: 12 GPUs do not fill");
  expect_refused(run("plan --trace x --length a --bags g1n12"), 2, "(--nodes, --gpus-per-node)");
  expect_refused(run("plan --trace x --length a --gpus 12"), 2, "ballast: --gpus: 12 GPUs");
  auto const misplaced = run("plan --codes g8b1i256f1s0 --bags g1n1+g2n1+g1n1");
  expect_refused(misplaced, 2, "--bags g1n1+g2n1+g1n1 without --largest-bags-first: bag 1");
}

TEST_F(BallastPlan, PlansOnNodesOfDifferentSizes)
{
  std::string const job =
      std::string("plan ") + "--codes g16b4i256f1s0,g16b5i512f1s0,g5b1i2048f1s0 ";
  json const plan = json_of(job + "--nodes 8,8,8,8,5 --bags g8n2+g4n4+g1n5");
  EXPECT_EQ(plan.at("gpus"), 37);
  EXPECT_EQ(plan.at("nodes"), (json{8, 8, 8, 8, 5}));
  EXPECT_FALSE(plan.contains("gpus_per_node"));
  EXPECT_FALSE(plan.contains("speeds"));
  auto const largest_first =
      run(job + "--nodes 8,8,8,8,5 --bags g1n5+g4n4+g8n2 --largest-bags-first");
  EXPECT_EQ(largest_first.exit_code, 0) << largest_first.error;
  // Without bags, nodes matter to what is moved only.
  json const alone = json_of(job + "--nodes 36,1");
  EXPECT_EQ(alone.at("digest"), json_of(job + "--gpus 37 --gpus-per-node 37").at("digest"));
  // Equal nodes may be listed too.
  json const listed = json_of(std::string("plan ") + mixed + "--nodes 8,8,8,8 --bags g8n4");
  json const equal = json_of(std::string("plan ") + mixed + "--bags g8n4");
  EXPECT_EQ(listed.at("digest"), equal.at("digest"));
  EXPECT_EQ(equal.at("gpus_per_node"), 8);
}

TEST_F(BallastPlan, WeighsTheStepAsItWasReadByTheSpeedsOfGpus)
{
  // Each GPU reads one sample of six tokens, and the second is half as fast.
  auto const trace = file("t.csv", "a\n6\n6\n");
  std::string const job =
      "plan --trace " + trace + " --length a --gpus 2 --batch 2 --steps 1 --cost tokens ";
  json const plan = json_of(job + "--speeds " + file("s.txt", "100\n50\n"));
  EXPECT_DOUBLE_EQ(plan.at("wir_before"), 2.0);
  EXPECT_DOUBLE_EQ(plan.at("balance_ratio_before"), 6.0 / (12.0 / 3));
  EXPECT_DOUBLE_EQ(plan.at("idle_share_before"), 1 - 4.0 / 6);
  // Both samples on the fast GPU take as long.
  EXPECT_DOUBLE_EQ(plan.at("balance_ratio_after"), 1.5);
  EXPECT_EQ(plan.at("speeds"), path("s.txt"));
  // The unit of speeds does not matter, and equal speeds are none.
  json const other_unit = json_of(job + "--speeds " + file("u.csv", "2\r\n\r\n1\r\n"));
  EXPECT_EQ(other_unit.at("digest"), plan.at("digest"));
  EXPECT_EQ(other_unit.at("wir_before"), plan.at("wir_before"));
  json const alike = json::parse(run(job + "--format json --speeds " + file("v.txt", "7\n7")).out);
  json const without = json_of(job);
  EXPECT_EQ(alike.at("digest"), without.at("digest"));
  EXPECT_NE(alike.at("digest"), plan.at("digest"));
  EXPECT_DOUBLE_EQ(without.at("wir_before"), 1.0);
}

TEST_F(BallastPlan, GivesFasterGpusMoreSamples)
{
  auto const trace = file("t.csv", "a\n6\n6\n6\n6\n6\n6\n6\n6\n6\n6\n6\n6\n");
  std::string const job = "plan --trace " + trace +
                          " --length a --nodes 2,1 --batch 12 --steps 1 --cost tokens --speeds " +
                          file("s.txt", "2\n2\n1\n");
  json const plan = json_of(job + " --bags g2n1+g1n1");
  EXPECT_DOUBLE_EQ(plan.at("wir_before"), 2.0);
  // Ten samples at speed 4 take 15, and two at speed 1 take 12.
  EXPECT_DOUBLE_EQ(plan.at("wir_after"), 15.0 / 12);

  auto const table = run(job + " --picture " + path("p.svg") + " --report " + path("page.html") +
                         " --bytes-per-token 2");
  ASSERT_EQ(table.exit_code, 0) << table.error;
  EXPECT_THAT(table.out, testing::HasSubstr("nodes of 2,1, speeds of " + path("s.txt")));
  // Four samples of 6 us at full speed are 24 us; the mean of all three GPUs is 72 / 2.5 us.
  EXPECT_THAT(content_of(path("p.svg")),
              testing::HasSubstr("the busiest has 1.67 times the mean, then 1.042 times the mean"));
  std::string const page = content_of(path("page.html"));
  EXPECT_THAT(page, testing::HasSubstr("3 in nodes of 2,1, speeds of "));
  EXPECT_THAT(page, testing::HasSubstr("GPU 2: 48"));
}

TEST_F(BallastPlan, TakesTheSpeedOfABagForItsPipeline)
{
  auto const trace = file("t.csv", "a\n6\n6\n");
  std::string const job = "plan --trace " + trace +
                          " --length a --gpus 2 --bags g2n1 --batch 2 --steps 1 --cost tokens "
                          "--stages 2 ";
  json const even = json_of(job);
  json const uneven = json_of(job + "--speeds " + file("s.txt", "4\n1\n"));
  EXPECT_DOUBLE_EQ(uneven.at("pipeline_makespan"), 4 * even.at("pipeline_makespan").get<double>());
  EXPECT_DOUBLE_EQ(uneven.at("pipeline_idle_share"), even.at("pipeline_idle_share"));
}

TEST_F(BallastPlan, RefusesNodesAndSpeedsThatAreNone)
{
  std::string const job = "plan --codes g8b1i256f1s0 ";
  expect_refused(run(job + "--nodes 8,0"), 2, "--nodes: '0' is no number of GPUs");
  expect_refused(run(job + "--nodes 5,,3"), 2, "--nodes: '' is no number of GPUs");
  expect_refused(run(job + "--nodes 5,3,"), 2, "--nodes: '' is no number of GPUs");
  expect_refused(run(job + "--nodes 5x3"), 2, "--nodes: '5x3' is no number of GPUs");
  expect_refused(run(job + "--nodes ''"), 2, "list the GPUs of every node");
  expect_refused(run(job + "--nodes 16777216,1"), 2, "16777217 GPUs are more than 1048576");
  expect_refused(run(job + "--nodes 5,3 --gpus 8"), 2, "leave out --gpus");
  expect_refused(run(job + "--nodes 5,3 --gpus-per-node 8"), 2, "leave out --gpus-per-node");
  expect_refused(run(job + "--nodes 5,4"), 2, "9");
  expect_refused(run(job + "--nodes 5,3 --bags g4n1"), 2, "node 0 has only 1 GPU from there on");
  expect_refused(run(job + "--nodes 5,3 --bags g3n1"), 2, "the 8 of --nodes 5,3 are no");
  expect_refused(run(job + "--nodes 5,3 --bags g8n1"), 2, "must be whole nodes of one size");
  expect_refused(run("plan --codes g12b1i256f1s0"), 2, "list the nodes one by one");

  expect_refused(run(job + "--speeds /no/such/file"), 1, "/no/such/file");
  expect_refused(run(job + "--speeds ''"), 2, "--speeds: the path is empty");
  expect_refused(run(job + "--speeds " + file("few.txt", "1\n2\n")), 1,
                 "few.txt: the file has 2 speeds, and the job has 8 GPUs");
  expect_refused(run(job + "--speeds " + file("zero.txt", "1\n2\n0\n")), 1,
                 "zero.txt: line 3: expected the speed of one GPU");
  expect_refused(run(job + "--speeds " + file("word.txt", "speed\n1\n")), 1, "word.txt: line 1: ");
  expect_refused(run(job + "--speeds " + file("row.txt", "1\n\n1,2\n")), 1, "row.txt: line 3: ");
  expect_refused(run(job + "--speeds " + file("part.txt", "1.5\n")), 1, "part.txt: line 1: ");
  expect_refused(run(job + "--speeds " + file("none.txt", "")), 1, "the file has 0 speeds");
  expect_refused(run(job + "--speeds " + file("same.txt", "1\n") + " --report " + path("same.txt")),
                 2, "the same file");
}

TEST_F(BallastPlan, AdmitsShortSamplesAndCountsThem)
{
  std::string const job = "plan --trace " + file("s.csv", "a\n6\n90\n80\n7\n") +
                          " --length a --batch 4 --steps 3 --gpus 16 ";
  expect_refused(run(job + "--bags g8n2 --short-samples refuse"), 1, "--short-samples admit");
  json const plans = json_of(job + "--bags g8n2 --bags g4n4 --short-samples admit");
  EXPECT_EQ(plans[0].at("short_samples"), 6) << "two of every step";
  EXPECT_EQ(plans[1].at("short_samples"), 0);
  auto const table = run(job + "--bags g8n2 --bags g4n4 --short-samples admit");
  EXPECT_THAT(table.out, testing::HasSubstr(
                             "g8n2: 6 of 12 samples with fewer tokens than their bag has GPUs\n"));
  EXPECT_THAT(table.out, testing::HasSubstr("g4n4: 0 of 12 samples"));
  auto const page = run(job + "--bags g8n2 --short-samples admit --report " + path("s.html"));
  ASSERT_EQ(page.exit_code, 0) << page.error;
  EXPECT_THAT(ballast_test::content_of(path("s.html")), testing::HasSubstr("6 of 12 samples"));

  // Nothing is said of them where they are not admitted.
  auto const refusing = run(job + "--bags g4n4");
  ASSERT_EQ(refusing.exit_code, 0) << refusing.error;
  EXPECT_THAT(refusing.out, testing::Not(testing::HasSubstr("fewer tokens")));
  EXPECT_FALSE(json_of(job + "--bags g4n4").contains("short_samples"));
  expect_refused(run(job + "--bags g8n2 --short-samples maybe"), 2, "--short-samples");
}

TEST_F(BallastPlan, AnswersOneWhenTheDataAreWrong)
{
  expect_refused(run("plan --trace /no/such/file.csv --length a --gpus 8"), 1, "/no/such/file.csv");
  expect_refused(run("plan --trace " + file("t.csv", "a\n1\n2\nx\n") + " --length a --gpus 8"), 1,
                 "line 4");
  expect_refused(run("plan --trace " + file("u.csv", "a\n1\n") + " --length b --gpus 8"), 1, "'b'");
  expect_refused(run("plan --trace " + file("v.csv", "a\n3\n") + " --length a --bags g4n2"), 1,
                 "sample 0 of 3 tokens");
  expect_refused(run("plan --trace " + file("v.csv", "a\n3\n") + " --length a --bags g4n2"), 1,
                 "(row 1 of the trace)");
  expect_refused(run("plan --trace " + file("v.csv", "a\n3\n") + " --length a --bags g4n2"), 1,
                 "admit it by --short-samples admit");
  expect_refused(run("plan --trace " + file("w.csv", "a\n2147483647\n") +
                     " --length a --gpus 2 --tflops 0.001 --timeline " + path("t.json")),
                 1, "raise --tflops");
  expect_refused(run("plan --codes g8b1i256f1s0 --report /no/such/folder/page.html"), 1,
                 "/no/such/folder/page.html");
  expect_refused(
      run("plan --codes g8b1i256f1s0 --measured " + file("m.csv", "length,seconds\n5,0.1\nx,1\n")),
      1, "line 3");
  expect_refused(run("plan --codes g8b1i256f1s0 --measured " +
                     file("n.csv", "length,seconds\n5,0.1\n\n6,-1\n")),
                 1, "n.csv: line 4: measurement 1");
  expect_refused(run("plan --codes g8b1i256f1s0 --measured " +
                     file("o.csv", "length,seconds\n5,0.1\n5,0.1\n")),
                 1, "o.csv: two unknowns");
}

TEST_F(BallastPlan, ExplainsItself)
{
  auto const help = run("plan --help");
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, testing::AllOf(testing::HasSubstr("--trace"), testing::HasSubstr("--bags"),
                                       testing::HasSubstr("greedy_knapsack"),
                                       testing::Not(testing::HasSubstr("SPEC ..."))));
  EXPECT_EQ(run("--version").out, BALLAST_PROJECT_VERSION "\n");
  for (std::string const asked : {"--version", "--help", "plan --help"}) {
    auto const lost = run(asked + " >/dev/full");
    EXPECT_EQ(lost.exit_code, 1) << asked;
    EXPECT_THAT(lost.error, testing::HasSubstr("standard output")) << asked;
  }
}

}  // namespace
