// SPDX-License-Identifier: Apache-2.0
// Runs `ballast profile` as a user does, on grids that take milliseconds. No time is compared.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>
#include <ballast/cost/profile_file.hpp>
#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;

class BallastProfile : public ballast_test::program_test {
 protected:
  json profile(std::string const& arguments) const { return json_of("profile " + arguments); }

  // Two modules of next to no work; what is given comes in the place of what is there, or after it.
  std::string tiny(std::map<std::string, std::string> const& given = {}) const
  {
    std::map<std::string, std::string> options = {
        {"--output", path("p.csv")},
        {"--device", "cpu"},
        {"--llm", "transformer:d=8,layers=2,heads=2,causal=1"},
        {"--lengths", "4,8,16"},
        {"--encoder", "transformer:d=8,layers=1,heads=2,causal=1"},
        {"--items", "1,2"},
        {"--tokens-per-item", "4"},
        {"--runs", "1"},
        {"--warm-up", "0"},
        {"--hardware", "one-core"}};
    for (auto const& [name, value] : given) { options[name] = value; }
    if (options["--encoder"] == "''") {
      options.erase("--items");
      options.erase("--tokens-per-item");
    }
    std::string arguments;
    for (auto const& [name, value] : options) { arguments += name + " " + value + " "; }
    return arguments;
  }
};

TEST_F(BallastProfile, WritesAProfileThatASearchReads)
{
  json const said = profile(tiny());
  EXPECT_EQ(said.at("measured"), 2 * 2 + 2 * 2 * 3);
  EXPECT_EQ(said.at("known"), 0);
  EXPECT_EQ(said.at("left"), 0);
  EXPECT_EQ(said.at("hardware"), "one-core");
  EXPECT_EQ(said.at("device"), "cpu");
  EXPECT_EQ(said.at("too_large"), 0);
  EXPECT_TRUE(said.at("limits").empty());
  EXPECT_FALSE(said.contains("check"));

  auto const modules = ballast::modules_of(ballast::load_profile(path("p.csv")).value()).value();
  ASSERT_EQ(modules.size(), 2U);
  EXPECT_EQ(modules[0].name, "encoder");
  EXPECT_EQ(modules[0].flops.quadratic, 0U);
  EXPECT_EQ(modules[1].name, "llm");
  EXPECT_EQ(modules[1].layers, 2U);
  auto const spec = ballast::parse_cost_spec("transformer:d=8,layers=2,heads=2,causal=1").value();
  EXPECT_EQ(modules[1].flops, ballast::step_flops(spec.forward, spec.passes).value());
  ASSERT_EQ(modules[1].degrees.size(), 2U);

  // Layers hold what their arrays take: here 4 x 8 bytes of each of 8 + 4 x 64 + 8 + 2 x 256
  // weights.
  EXPECT_EQ(modules[1].degrees[0].memory.state(1), 32U * 784);
  EXPECT_EQ(modules[1].degrees[0].memory.state(2), 2 * 32U * 784);
  EXPECT_EQ(modules[1].degrees[0].memory.activations(2, 16),
            2 * 16 * 8U * (4 * 8 + 8 + 2 * 32 + 3 * 8));

  auto const& degree = said.at("modules").at(1).at("degrees").at(1);
  EXPECT_EQ(degree.at("tp"), 2);
  EXPECT_EQ(degree.at("attention").at(2).at("size"), 16);
  EXPECT_GT(degree.at("attention").at(2).at("backward_ns"), 0);
}

TEST_F(BallastProfile, GoesOnWithAPartialFile)
{
  EXPECT_EQ(profile(tiny({{"--budget", "1e-9"}})).at("left"), 16);
  auto const partial = ballast::load_profile(path("p.csv")).value();
  EXPECT_EQ(partial.hardware, "one-core");
  EXPECT_FALSE(ballast::modules_of(partial));
  json const rest = profile(tiny());
  EXPECT_EQ(rest.at("measured"), 16);
  std::string const whole = content_of(path("p.csv"));
  json const again = profile(tiny());
  EXPECT_EQ(again.at("measured"), 0);
  EXPECT_EQ(again.at("known"), 16);
  EXPECT_EQ(content_of(path("p.csv")), whole);
  EXPECT_EQ(profile(tiny({{"--lengths", "4,8,16,32"}})).at("measured"), 4);
  EXPECT_EQ(profile(tiny({{"--data", "coco"}})).at("measured"), 0);
  EXPECT_EQ(ballast::load_profile(path("p.csv")).value().data, "coco");
}

TEST_F(BallastProfile, RefusesTheFileOfSomethingElse)
{
  profile(tiny());
  std::string const before = content_of(path("p.csv"));
  expect_refused(run("profile " + tiny({{"--hardware", "two-cores"}})), 1,
                 "the hardware was 'one-core' and is 'two-cores'; write another file");
  expect_refused(run("profile " + tiny({{"--llm", "transformer:d=16,layers=2,heads=2,causal=1"}})),
                 1, "module llm was 'transformer:d=8,layers=2,heads=2,causal=1' and is");
  EXPECT_EQ(content_of(path("p.csv")), before);
  (void)file("p.csv", "a,b\n");
  expect_refused(run("profile " + tiny()), 1, "line 1: there is no column 'module'");
}

TEST_F(BallastProfile, ChecksItsPredictions)
{
  json const said = profile(tiny({{"--check", "5"}, {"--seed", "3"}}));
  auto const& check = said.at("check");
  EXPECT_EQ(check.at("lengths"), 5);
  EXPECT_LE(check.at("lower_quartile"), check.at("median"));
  EXPECT_LE(check.at("upper_quartile"), check.at("largest"));
  auto const shown = run("profile " + tiny({{"--check", "1"}}));
  EXPECT_THAT(shown.out, HasSubstr("1 length predicted that the profile does not have"));
}

TEST_F(BallastProfile, PrintsATable)
{
  auto const shown = run("profile " + tiny());
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("16 points measured in "));
  EXPECT_THAT(shown.out, HasSubstr("encoder        1          1 to 2"));
  EXPECT_THAT(run("profile " + tiny({{"--lengths", "4,9"}, {"--budget", "1e-9"}})).out,
              HasSubstr("run the same command again"));
}

TEST_F(BallastProfile, CanDoWithoutAnEncoder)
{
  EXPECT_EQ(profile(tiny({{"--encoder", "''"}, {"--tp", "1"}})).at("modules").size(), 1U);
}

// One sentence says what to do, whether the program lacks CUDA or the machine lacks a GPU.
TEST_F(BallastProfile, MeasuresOnAGpuWhereThereIsOne)
{
  std::string const gpu = tiny({{"--device", "gpu"}, {"--encoder", "''"}});
  auto const result = run("profile " + gpu);
  if (result.error.find("--device gpu: ") != std::string::npos) {
    bool const lacks_cuda = result.error.find("without CUDA; build it with") != std::string::npos;
    expect_refused(result, 2, lacks_cuda ? "BALLAST_ENABLE_CUDA=ON" : "CUDA finds no GPU (");
    EXPECT_THAT(result.error, HasSubstr("or give --device cpu"));
    // auto is one core then, with what suits it.
    json const said = profile(tiny({{"--device", "auto"},
                                    {"--encoder", "auto"},
                                    {"--items", "auto"},
                                    {"--tokens-per-item", "1"},
                                    {"--budget", "1e-9"}}));
    EXPECT_EQ(said.at("device"), "cpu");
    EXPECT_EQ(said.at("modules").at(0).at("model"),
              "transformer:d=48,layers=4,heads=4,causal=1 with 1 token per item");
    return;
  }
  expect_refused(result, 2, "the head size is no multiple of 8");
  json const said = profile(tiny({{"--device", "gpu"},
                                  {"--llm", "transformer:d=64,layers=2,heads=2,causal=1"},
                                  {"--encoder", "transformer:d=64,layers=1,heads=2,causal=1"},
                                  {"--check", "2"}}));
  EXPECT_EQ(said.at("device"), "gpu");
  EXPECT_EQ(said.at("measured"), 2 * 2 + 2 * 2 * 3);
  EXPECT_EQ(said.at("check").at("lengths"), 2);
}

TEST_F(BallastProfile, RefusesWhatItCannotMeasure)
{
  expect_refused(run("profile " + tiny({{"--device", "tpu"}})), 2,
                 "--device: there is no 'tpu'; choose one of cpu, gpu, auto");
  expect_refused(run("profile"), 2, "--output");
  expect_refused(run("profile " + tiny({{"--lengths", "4,x"}})), 2,
                 "--lengths: '4,x' is no list of whole numbers from 1 to 1048576");
  expect_refused(run("profile " + tiny({{"--lengths", "4"}})), 2,
                 "--lengths: the llm is measured at one size");
  expect_refused(run("profile " + tiny({{"--items", "4"}})), 2,
                 "--items: the encoder is measured at one size");
  expect_refused(run("profile " + tiny({{"--tp", "0"}})), 2, "--tp");
  expect_refused(run("profile " + tiny({{"--tp", "3"}})), 2, "no multiples of --tp 3");
  expect_refused(run("profile " + tiny({{"--llm", "tokens"}})), 2,
                 "'tokens' is none of the transformers that the built-in kernels compute");
  expect_refused(run("profile " + tiny({{"--llm", "transformer:d=8"}})), 2, "write causal=1");
  expect_refused(run("profile " + tiny({{"--llm", "transformer:d=8,wide=1"}})), 2, "--llm");
  expect_refused(run("profile " + tiny({{"--lengths", "4,5"}, {"--check", "1"}})), 2, "leave gaps");
  expect_refused(run("profile " + tiny({{"--tp", "2"}, {"--check", "1"}})), 2, "give --tp 1");
  expect_refused(run("profile " + tiny({{"--output", "/nowhere/p.csv"}})), 1, "/nowhere/p.csv");
}

}  // namespace
