// SPDX-License-Identifier: Apache-2.0
// Calls that nobody meant: each kind once, and what is said of it.

#include "../support/trials.hpp"
#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using ballast_test::content_of;
using ballast_test::expect_refused;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A call, its exit code, and a part of its sentence.
struct odd_call {
  std::string call;
  std::string says;
  int exit_code = 2;
};

class BallastOddCalls : public ballast_test::program_test {
 protected:
  void expect_all(std::vector<odd_call> const& calls) const
  {
    for (odd_call const& each : calls) {
      SCOPED_TRACE(each.call);
      // A sanitizer needs the memory.
      auto const* const limit = ballast_test::is_sanitized ? "" : "ulimit -v 4000000; ";
      expect_refused(run(each.call, limit), each.exit_code, each.says);
    }
  }

  std::string const inputs_ = std::string("--profile ") + BALLAST_SOURCE_DIR +
                              "/examples/layout_profile.csv --data " + BALLAST_SOURCE_DIR +
                              "/examples/layout_data.csv --global-batch 64 ";
  std::string trace(std::string const& content) const
  {
    return "plan --trace " + file("t.csv", content) + " ";
  }
};

TEST_F(BallastOddCalls, NamesWhatItDoesNotKnowAndWhatIsNear)
{
  std::string const choose =
      "choose one of plan, route, partition, pack, pipeline, profile, search, ";
  expect_all({
      {"", "there is no subcommand; " + choose},
      {"''", "there is no subcommand ''; " + choose},
      {"nope", "there is no subcommand 'nope'; " + choose},
      {"pla --trace x", "there is no subcommand 'pla', did you mean 'plan'? Else choose one of"},
      {"serach", "did you mean 'search'?"},
      {"--nope", "there is no subcommand '--nope'; " + choose},
      {"--gpus 8 plan", "options behind it"},
      {"help nope", "there is no subcommand 'nope'"},
      {"plan --gpu 8", "plan has no option '--gpu'; did you mean --gpus 8? See ballast plan"},
      {"plan --gpu=8", "plan has no option '--gpu'; did you mean --gpus 8?"},
      {"plan -gpus 8", "plan has no option '-gpus'; did you mean --gpus 8?"},
      {"plan --quux 8", "plan has no option '--quux'; see ballast plan --help"},
      {"plan --trace x --lenght a", "did you mean --length a?"},
      {"plan --trace= --length a", "--trace has no value; write --trace FILE"},
      {"plan extra --gpus 8", "plan does not take 'extra'"},
      {"plan --gpus 8 --gpus 16", "--gpus is given twice; give it once"},
      {"plan --gpus=8 --codes g8b1i256f1s0 --gpus 8", "--gpus is given twice"},
      {"search --memory 80GB --memory 40GB", "--memory is given twice"},
      {"plan --gpus", "--gpus has no value; write --gpus N"},
      {"plan --gpus=", "--gpus has no value; write --gpus N"},
      {"plan --gpus --codes g8b1i256f1s0", "--gpus has no value; write --gpus N"},
      {"plan --codes g8b1i256f1s0 --batch -5", "'-5' is no whole number"},
  });
  for (std::string const help : {"--help", "help"}) {
    auto const shown = run(help);
    EXPECT_EQ(shown.exit_code, 0) << help;
    EXPECT_THAT(shown.out, AllOf(HasSubstr("Subcommands"), HasSubstr("orchestrate"))) << help;
  }
  EXPECT_EQ(run("help plan").out, run("plan --help").out);
}

TEST_F(BallastOddCalls, ReadsNoDevices)
{
  std::string const times = file("ok.csv", "a\n1\n2\n");
  std::string const job = "plan --gpus 1 --batch 1 --length a --trace " + times;
  expect_all({
      {"plan --gpus 1 --length a --trace /dev/zero", "--trace: /dev/zero is a device"},
      {job + " --speeds /dev/zero", "--speeds: /dev/zero is a device"},
      {job + " --measured /dev/urandom", "--measured: /dev/urandom is a device"},
      {"pipeline --durations /dev/zero", "--durations: /dev/zero is a device"},
      {"report /dev/zero --output x", "the log: /dev/zero is a device"},
      {"search " + inputs_ + "--gpus 8 --memory 80GB --profile=", "--profile is given twice"},
      {"search --gpus 8 --memory 80GB --global-batch 8 --data x --profile /dev/zero",
       "--profile: /dev/zero is a device"},
      {"profile --output /dev/full", "--output: /dev/full is a device or a pipe"},
      {"profile --output /dev/zero", "--output: /dev/zero is a device or a pipe"},
      {job + " --report /dev/full", "cannot write '/dev/full'", 1},
      {"partition --instances /dev/zero", "instances: /dev/zero is a device; name a file"},
  });
}

TEST_F(BallastOddCalls, TellsWhatIsWrongWithASize)
{
  std::string const search = "search " + inputs_ + "--gpus 8 --memory ";
  expect_all({
      {search + "80", "--memory: '80' is a GPU of 80 bytes; did you mean 80GB?"},
      {search + "80B", "did you mean 80GB?"},
      {search + "1e30GB", "'1e30GB' is too large: 2^63 bytes or more"},
      {search + "9223372036854775808", "is too large"},
      {search + "10EB", "'10EB' has the unit 'EB', and there are B, kB, MB"},
      {search + "80G", "has the unit 'G'"},
      {search + "'80 GB'",
       "has the unit ' GB', and there are B, kB, MB, GB, TB, KiB, MiB, GiB and "
       "TiB, without a space"},
      {search + "GB", "'GB' is no size"},
      {"search " + inputs_ + "--gpus 8 --memory=-80GB", "'-80GB' is no size"},
      {search + "1e-30GB", "is less than one byte"},
      {search + "1.2.3GB", "is no size"},
      {"orchestrate " + inputs_ + "--gpus 16 --memory 80GB --own-gpus vision=8:40",
       "--own-gpus: '40' is a GPU of 40 bytes; did you mean 40GB?"},
      {"orchestrate " + inputs_ + "--gpus 16 --memory 80GB --own-gpus vision=8:40GB:0.1234",
       "'0.1234' is no speed from 0.001 to 1000, of three decimals at most"},
  });
}

TEST_F(BallastOddCalls, NamesTheClosestLayoutThatTheGpusHold)
{
  std::string const job = "orchestrate " + inputs_ + "--gpus 16 --memory 80GB ";
  auto const result = run(job + "--own-gpus vision=8:1GB");
  EXPECT_EQ(result.exit_code, 1);
  std::size_t const at = result.error.find("where it comes closest (tp ");
  ASSERT_NE(at, std::string::npos) << result.error;
  unsigned tp = 0;
  unsigned pp = 0;
  unsigned dp = 0;
  ASSERT_EQ(std::sscanf(result.error.c_str() + at, "where it comes closest (tp %u pp %u dp %u)",
                        &tp, &pp, &dp),
            3)
      << result.error;
  EXPECT_LE(tp * pp * dp, 8U);
}

TEST_F(BallastOddCalls, SaysHowANameOutsideAsciiIsWritten)
{
  std::string const trace_file = file("names.csv",
                                      "gr\xc3\xb6\xc3\x9f"
                                      "e,a b,x-y,say \"\"hi\n1,2,3,4\n");
  std::string const plan = "plan --gpus 1 --batch 1 --trace " + trace_file + " --length ";
  std::string const told = "between backticks, as in `a-b`";
  expect_all({
      {plan + "gr\xc3\xb6\xc3\x9f"
              "e",
       told},
      {plan + "'a b'", told},
      {plan + "x-y", told},
      {plan + "'\xc3\xb6'", told},
      {plan + "'\"hi\"'", told},
      {plan + "nope", "there is no column 'nope'", 1},
  });
  for (std::string const name : {"`gr\xc3\xb6\xc3\x9f"
                                 "e`",
                                 "`a b`+`x-y`"}) {
    EXPECT_EQ(run(plan + "'" + name + "'").exit_code, 0) << name;
  }
}

TEST_F(BallastOddCalls, RefusesOptionsWithoutEffect)
{
  std::string const profile = "profile --device cpu --output " + path("p.csv") + " ";
  std::string const plan = "plan --codes g8b1i256f1s0 ";
  std::string const units = trace("a\n1\n2\n").substr(5);
  expect_all({
      {profile + "--encoder '' --items 4,5", "--items is for an encoder, and --encoder '' is none"},
      {profile + "--encoder '' --tokens-per-item 32", "--tokens-per-item is for an encoder"},
      {profile + "--seed 3", "--seed is for the lengths of --check"},
      {profile + "--llm '' --encoder ''", "--llm: '' is none of the transformers"},
      {profile + "--llm tokens", "--llm: 'tokens' is none of the transformers"},
      {plan + "--cost tokens --tflops 100", "--tflops: --cost tokens has no times"},
      {plan + "--largest-bags-first", "--largest-bags-first goes with --bags"},
      {"route " + units + "--length a --units 1:1 --tflops 100", "--tflops"},
      {"orchestrate " + inputs_ +
           "--gpus 8 --memory 80GB --boundary-bytes llm=1 --boundary-bytes "
           "llm=2",
       "--boundary-bytes is given twice for llm"},
  });
}

TEST_F(BallastOddCalls, RefusesEmptyTextsAndNamesChoices)
{
  std::string const plan = trace("a\n1\n2\n") + "--gpus 1 --batch 1 --length a ";
  expect_all({
      {plan + "--together ''", "--together: the name is empty; name a column"},
      {plan + "--microbatches 1 --kind ''", "--kind: the name is empty; name a column"},
      {"partition --instances ''", "--instances: the path is empty; name a file"},
      {"orchestrate " + inputs_ + "--gpus 8 --memory 80GB --llm ''", "--llm: the name is empty"},
      {plan + "--microbatches 1 --meet never",
       "--meet: there is no 'never'; choose one of step, microbatch"},
      {plan + "--format XML", "--format: there is no 'XML'; choose one of table, json"},
      {plan + "--no-shuffle=maybe", "--no-shuffle takes no value; leave out '=maybe'"},
  });
}

TEST_F(BallastOddCalls, RefusesOptionsWithoutEffectAndStepsWithoutWork)
{
  std::string const plan = trace("a\n9\n7\n") + "--length a --gpus 1 --batch 2 ";
  std::string const nothing = "plan --trace " + file("nothing.csv", "a\n0\n0\n") + " ";
  expect_all({
      {"plan --codes g2b1i256f1s0 -- x", "plan takes options by name alone, so that '--' has no"},
      {"plan --codes g2b1i256f1s0 --bags auto --bags auto", "--bags auto is given twice"},
      {plan + "--microbatches 1 --policy refine:lpt",
       "--microbatches and --policy do not go together: grids are planned by refine_grid"},
      {plan + "--microbatches 1000000",
       "--microbatches: 1000000 are more than the 2 samples of step 1; give at most that many"},
      {"search --side-by-side " + inputs_ + "--gpus 8 --memory 80GB", "--side-by-side: "},
      {"plan --codes g2b0i256f1s0,g1b0i16f1s0", "--codes: there are no samples"},
      {"plan --codes g8b99999999i256f1s0",
       "--codes: 799999992 samples a step are more than 16777216; lower b, the number of samples "},
      {"plan --codes g8b1i256f1s0 --gpus 16777216",
       "--gpus: 16777216 GPUs are more than 1048576; plan fewer"},
      {nothing + "--length a --gpus 1 --batch 2", "all samples have 0 tokens, so that there is", 1},
      {"pipeline --durations x --order ''", "expected a name, as in search:evaluations=5000"},
  });
}

TEST_F(BallastOddCalls, KeepsWhatIsSmall)
{
  std::string const plan = std::string("pipeline --durations ") + BALLAST_SOURCE_DIR +
                           "/examples/pipeline_times.csv --transfer ";
  expect_all({{plan + "1e-30", "--transfer: '1e-30' is not 0, and less than half of 1e-9"},
              {plan + "1e-12", "is not 0"}});
  EXPECT_EQ(run(plan + "1e-9").exit_code, 0);
  EXPECT_EQ(run(plan + "0e-30").exit_code, 0);
}

TEST_F(BallastOddCalls, TellsFilesThatMayHaveBeenCut)
{
  std::string const whole =
      content_of(std::string(BALLAST_SOURCE_DIR) + "/examples/layout_profile.csv");
  std::string const profile = file("cut.csv", whole.substr(0, whole.size() - 2));
  expect_all({{"search --profile " + profile + " --data " + BALLAST_SOURCE_DIR +
                   "/examples/layout_data.csv --global-batch 64 --gpus 8 --memory 80GB",
               "has no end, as in a file that was cut", 1},
              {"profile --device cpu --output " + profile, "has no end", 1}});
  for (std::string const end : {"", "\n"}) {
    auto const told = run(trace("a\n100\n7" + end) + "--length a --gpus 1 --batch 2");
    EXPECT_EQ(told.exit_code, 0) << told.error;
    EXPECT_THAT(told.error, end.empty() ? HasSubstr("--trace: the last line of " + path("t.csv") +
                                                    " has no end, as in a file that was cut")
                                        : testing::Matcher<std::string>(""));
  }
}

TEST_F(BallastOddCalls, TakesNoRowTwiceInAStepWithoutSayingSo)
{
  std::string const plan = trace("a\n100\n1\n1\n") + "--length a --gpus 2 ";
  expect_all({{plan + "--batch 4", "--batch: 4 samples a step are more than the 3 rows"}});
  auto const told = run(plan);
  EXPECT_EQ(told.exit_code, 0);
  EXPECT_THAT(told.error, HasSubstr("16 samples a step are more than the 3 rows of " +
                                    path("t.csv") + ", which are a step then; give --batch"));
  EXPECT_EQ(run(plan + "--batch 3").error, "");
}

}  // namespace
