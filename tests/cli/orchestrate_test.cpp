// SPDX-License-Identifier: Apache-2.0
// Runs `ballast orchestrate` as a user does, on a profile and data that are written by hand.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/orchestrate.hpp>
#include <ballast/parallelism/orchestrated_module_of.hpp>
#include <ballast/parallelism/simulate_orchestration.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// An encoder of 4 layers and an LLM of 8, at tp 1 and 4; the LLM's state is 64 GB at tp 1.
std::string profile_of_two()
{
  std::string csv =
      "module,tp,quantity,layers,size,value\n"
      "vision,,layers,,,4\nvision,,linear_flop,,,4e12\n"
      "llm,,layers,,,8\nllm,,linear_flop,,,48e9\n";
  auto const add = [&csv](std::string const& module, int tp, double speed, double layer,
                          double held) {
    std::string const start = module + "," + std::to_string(tp) + ",";
    auto const row = [&](std::string const& what, double value) {
      csv += start + what + "," + std::to_string(value) + "\n";
    };
    row("linear_flop_per_second,,1", speed);
    row("state_bytes,1,", layer);
    row("state_bytes,4,", 4 * layer);
    for (int const layers : {1, 4}) {
      row("activation_bytes," + std::to_string(layers) + ",0", 0);
      row("activation_bytes," + std::to_string(layers) + ",1000", layers * held);
    }
  };
  add("vision", 1, 400e12, 1e9, 2e9);
  add("vision", 4, 300e12, 0.25e9, 0.5e9);
  add("llm", 1, 400e12, 8e9, 1e9);
  add("llm", 4, 380e12, 2e9, 0.25e9);
  return csv;
}

class BallastOrchestrate : public ballast_test::program_test {
 protected:
  // Samples of one to nine tiles, 256 tokens each: five, and 1324, on average.
  std::string inputs(std::string const& memory = "80GB", std::string const& gpus = "16") const
  {
    std::string data = "vision,text,llm\n";
    for (int row = 0; row < 9; ++row) {
      data += std::to_string(1 + row) + "," + std::to_string(40 + row) + "," +
              std::to_string(256 * (1 + row) + 40 + row) + "\n";
    }
    return "--profile " + file("profile.csv", profile_of_two()) + " --data " +
           file("data.csv", data) + " --gpus " + gpus + " --memory " + memory +
           " --global-batch 48 ";
  }

  json orchestrated(std::string const& arguments) const
  {
    return json_of("orchestrate " + arguments);
  }
  json best(std::string const& arguments) const
  {
    return orchestrated(arguments).at("layouts").at(0);
  }
};

TEST_F(BallastOrchestrate, SaysInJsonWhatAProgramNeeds)
{
  json const found = orchestrated(inputs());
  auto const keys_in = [](json const& object) {
    std::vector<std::string> keys;
    for (auto const& [key, ignored] : object.items()) { keys.push_back(key); }
    return keys;
  };
  EXPECT_THAT(keys_in(found), ElementsAre("evaluated", "feasible", "layouts", "milliseconds"));
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_GE(found.at("evaluated"), 10);
  EXPECT_EQ(found.at("layouts").at(0).at("policy"), "best");
  EXPECT_GE(found.at("layouts").size(), 3U);
  for (json const& layout : found.at("layouts")) {
    EXPECT_THAT(keys_in(layout), ElementsAre("gpus_used", "memory_bytes", "microbatches", "modules",
                                             "policy", "simulated_seconds", "step_seconds"));
    EXPECT_NEAR(layout.at("simulated_seconds"), layout.at("step_seconds"),
                0.2 * layout.at("step_seconds").get<double>());
    EXPECT_GE(layout.at("step_seconds"), found.at("layouts").at(0).at("step_seconds"));
    EXPECT_LE(layout.at("memory_bytes"), 80'000'000'000);
    std::uint64_t gpus = 0;
    for (json const& module : layout.at("modules")) {
      EXPECT_THAT(keys_in(module),
                  ElementsAre("dp", "ep", "gpus", "kind", "name", "pp", "sp", "tp"));
      gpus += module.at("gpus").get<std::uint64_t>();
    }
    EXPECT_EQ(layout.at("gpus_used"), gpus);
    EXPECT_LE(gpus, 16U);
  }
}

TEST_F(BallastOrchestrate, FindsWhatTheLibraryFinds)
{
  std::string const arguments = inputs();
  json const found = best(arguments + "--microbatch 2 --llm llm --frozen vision");
  auto const profiles =
      ballast::modules_of(ballast::load_profile(path("profile.csv")).value()).value();
  ballast::orchestration_problem problem;
  problem.modules = {ballast::orchestrated_module_of(profiles[0], 5).value(),
                     ballast::orchestrated_module_of(profiles[1], 1324).value()};
  problem.modules[0].is_trained = false;
  problem.llm = 1;
  problem.kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}};
  problem.global_batch = 48;
  problem.microbatch = 2;
  auto const expected = orchestrate(problem).value();
  EXPECT_DOUBLE_EQ(found.at("step_seconds"), static_cast<double>(expected.layout.step) * 1e-12);
  auto const simulated = ballast::simulate_orchestration(problem, expected.layout.modules).value();
  EXPECT_DOUBLE_EQ(found.at("simulated_seconds"), static_cast<double>(simulated) * 1e-12);
  EXPECT_EQ(found.at("gpus_used"), expected.layout.gpus());
  EXPECT_EQ(found.at("microbatches"), expected.layout.microbatches);
  EXPECT_EQ(found.at("modules").at(1).at("tp"), expected.layout.modules[1].tp);
}

TEST_F(BallastOrchestrate, TakesWhatIsSaidOfModules)
{
  std::string const arguments = inputs();
  double const step = best(arguments).at("step_seconds");
  auto const step_with = [&](std::string const& more) -> double {
    return best(arguments + more).at("step_seconds");
  };
  EXPECT_LT(step_with("--frozen vision --frozen llm"), step);
  EXPECT_LT(step_with("--frozen vision --frozen llm"),
            step_with("--frozen vision --frozen llm --trained-input llm"));
  EXPECT_GT(step_with("--between-nodes-bandwidth 25 --boundary-bytes llm=32MB"), step);
  EXPECT_GE(step_with("--own-gpus vision=1:40GB"), step_with("--own-gpus vision=4:40GB"));
  EXPECT_GT(step_with("--own-gpus vision=1:40GB:0.01"), step_with("--own-gpus vision=1:40GB"));
  EXPECT_GT(step_with("--size llm=2*llm"), step);
  EXPECT_NE(best(arguments + "--llm vision").at("microbatches"), json());
  // With the optimiser on every replica memory is what forces stages or tp on the LLM.
  EXPECT_GE(step_with("--state 2,2,0 --virtual-stages llm=2"), 0.0);
}

TEST_F(BallastOrchestrate, PrintsATableAndWritesAPage)
{
  auto const shown =
      run("orchestrate " + inputs() + "--own-gpus vision=4:40GB --report " + path("page.html"));
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("9 samples of mean sizes vision 5, llm 1324\n"));
  EXPECT_THAT(shown.out, HasSubstr("16 GPUs of 80 GB, 4 GPUs of 40 GB for vision on nodes of 8, "
                                   "global batch 48, microbatches of 1\n"));
  EXPECT_THAT(shown.out,
              HasSubstr("GPUs used  microbatches   predicted   simulated    memory\nbest  "));
  EXPECT_THAT(shown.out, HasSubstr("\nmonolithic "));
  EXPECT_THAT(shown.out, HasSubstr("page     " + path("page.html")));
  std::string const page = content_of(path("page.html"));
  EXPECT_THAT(page, HasSubstr("<h1>vision and llm on 20 GPUs</h1>"));
  EXPECT_THAT(page, HasSubstr("<h2>GPUs of kind 1</h2>"));
  expect_refused(run("orchestrate " + inputs() + "--report " + path("data.csv")), 2,
                 "--data and --report name the same file");
  expect_refused(run("orchestrate " + inputs() + "--report /nowhere/p.html"), 1, "/nowhere/p.html");
}

TEST_F(BallastOrchestrate, FindsTheKindOfEachModule)
{
  // Slow GPUs are enough for the encoder, and those of 500 MB too small.
  json const found = best(inputs("80GB", "12") + "--more-gpus 4:40GB:0.5 --more-gpus 64:500MB");
  std::vector<std::uint64_t> const used{found.at("modules").at(0).at("kind"),
                                        found.at("modules").at(1).at("kind")};
  EXPECT_LT(found.at("step_seconds"), best(inputs("80GB", "12")).at("step_seconds"));
  EXPECT_NE(used.at(0), used.at(1));
  auto const shown = run("orchestrate " + inputs() + "--more-gpus 4:40GB:0.5");
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("16 GPUs of 80 GB, 4 GPUs of 40 GB at speed 0.5 on nodes of 8"));
  EXPECT_THAT(shown.out, HasSubstr("tp   pp    dp   GPUs  kind"));
}

TEST_F(BallastOrchestrate, SaysWhyNothingFits)
{
  auto const text = run("orchestrate " + inputs("1GB") + "--report " + path("page.html"));
  expect_refused(text, 1, "no orchestration fits into memory: module llm needs ");
  EXPECT_EQ(content_of(path("page.html")), "");
  auto const result = run("orchestrate --format json " + inputs("80GB", "1"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("needs 1 more than the 1; use more GPUs or larger ones"));
  json const said = json::parse(result.out);
  EXPECT_EQ(said.at("feasible"), false);
  EXPECT_TRUE(said.at("layouts").empty());
}

TEST_F(BallastOrchestrate, RefusesWhatItCannotOrchestrate)
{
  auto const refused = [this](std::string const& more, std::string const& why) {
    expect_refused(run("orchestrate " + inputs() + more), 2, why);
  };
  expect_refused(run("orchestrate"), 2, "is required; see ballast orchestrate --help");
  expect_refused(run("orchestrate " + inputs("80XB")), 2, "'80XB' has the unit 'XB'");
  refused("--microbatch 5", "a batch of 48 samples is no whole number of microbatches of 5");
  refused("--llm text", "--llm: 'text' is no module of the profile; choose one of vision, llm");
  refused("--frozen text", "--frozen: 'text' is no module");
  refused("--trained-input text", "--trained-input: 'text' is no module");
  refused("--more-gpus vision=4:40GB", "--more-gpus: 'vision=4:40GB' is no number of GPUs");
  refused("--more-gpus 4:40GB:x", "--more-gpus: 'x' is no speed");
  refused("--own-gpus vision", "--own-gpus: 'vision' has no '='");
  refused("--own-gpus vision=4", "write 32:40GB");
  refused("--own-gpus vision=0:4GB", "is no number of GPUs");
  refused("--own-gpus vision=4:4XB", "--own-gpus: '4XB' has the unit 'XB'");
  refused("--own-gpus vision=4:4GB:fast", "'fast' is no speed from 0.001 to 1000");
  refused("--own-gpus vision=4:4GB --own-gpus vision=4:4GB",
          "--own-gpus is given twice for vision");
  refused("--virtual-stages llm=9", "'9' is no number of virtual stages from 1 to the 8 layers");
  refused("--boundary-bytes llm=many", "--boundary-bytes: 'many' is no size");
  refused("--boundary-bytes llm=1MB", "no time without --between-nodes-bandwidth");
  refused("--more-gpus 4:40GB --own-gpus vision=4:40GB --own-gpus llm=8:80GB",
          "--more-gpus: every module has GPUs of its own");
  refused("--size text=llm", "--size: 'text=llm' gives no module");
  for (std::string const state : {"2,2", "2,2,x", "0,0,0", "1,2,3,4", "''"}) {
    refused("--state " + state, "is no list of bytes for weight, gradient and optimiser");
  }
  std::string const given = inputs();
  (void)file("data.csv", "vision,words\n3,800\n");
  expect_refused(run("orchestrate " + given), 1, "there is no column 'llm'");
  std::filesystem::remove(path("profile.csv"));
  expect_refused(run("orchestrate " + given), 1, path("profile.csv") + ": ");
}

}  // namespace
