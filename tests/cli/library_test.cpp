// SPDX-License-Identifier: Apache-2.0
// What the program says, against what the library says of the same problem.

#include "../support/pipeline_families.hpp"
#include "program.hpp"

#include <ballast/cost.hpp>
#include <ballast/parallelism.hpp>
#include <ballast/pipeline.hpp>

namespace against_library {

using ballast_test::content_of;
using ballast_test::expect_refused;
using nlohmann::json;
using testing::HasSubstr;

double seconds_of(ballast::time_units time)
{
  return static_cast<double>(time) * 1e-12;
}

/// Two modules on sixteen GPUs, as calls/search.calls has them.
class BallastLayouts : public ballast_test::program_test {
 protected:
  std::string const inputs_ = "--profile " BALLAST_SOURCE_DIR
                              "/tests/cli/two_modules.csv --data data.csv --gpus 16 --memory 80GB ";
  std::vector<ballast::module_profile> const modules_ =
      ballast::load_profile(BALLAST_SOURCE_DIR "/tests/cli/two_modules.csv")
          .value()
          .profiles()
          .value();
};

TEST_F(BallastLayouts, ArePricedAsTheLibraryPricesThem)
{
  file("data.csv", "vision,llm\n3,800\n");  // one row: drawing and shuffling it changes nothing
  json const best = json_of("search " + inputs_ + "--global-batch 64").at("layouts").at(0);
  std::array<ballast::tokens, 2> const sizes = {3, 800};
  ballast::layout_problem problem{.modules = modules_,
                                  .sizes = sizes,
                                  .global_batch = 64,
                                  .kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}}};
  std::vector<ballast::module_layout> degrees;
  for (json const& module : best.at("modules")) {
    degrees.push_back({module.at("tp"), module.at("pp"), module.at("dp")});
  }
  auto const priced = ballast::price_layout(problem, degrees, best.at("microbatches")).value();
  EXPECT_DOUBLE_EQ(best.at("step_seconds"), seconds_of(priced.step));
  EXPECT_EQ(best.at("memory_bytes"), priced.memory_bytes);
}

TEST_F(BallastLayouts, AreOrchestratedAsTheLibraryDoes)
{
  file("data.csv", "vision,llm\n4,1300\n6,1348\n");
  json const found = json_of("orchestrate " + inputs_ +
                             "--global-batch 48 --microbatch 2 --llm llm --frozen vision")
                         .at("layouts")
                         .at(0);
  std::array<ballast::tokens, 4> const sizes = {4, 1300, 6, 1348};
  std::vector<ballast::module_role> const roles{{.is_trained = false}, {}};
  ballast::layout_problem const problem{.modules = modules_,
                                        .sizes = sizes,
                                        .global_batch = 48,
                                        .kinds = {{.gpus = 16, .memory_bytes = 80'000'000'000}},
                                        .roles = roles,
                                        .state = {.is_optimizer_shared = true}};
  auto const expected = orchestrate(problem, {}, {.llm = 1, .microbatch = 2}).value();
  EXPECT_DOUBLE_EQ(found.at("step_seconds"), seconds_of(expected.layout.step));
  EXPECT_DOUBLE_EQ(found.at("simulated_seconds"), seconds_of(expected.simulated));
  EXPECT_EQ(found.at("gpus_used"), expected.layout.gpus());
  EXPECT_EQ(found.at("microbatches"), expected.layout.microbatches);
  EXPECT_EQ(found.at("modules").at(1).at("tp"), expected.layout.modules[1].tp);
}

TEST_F(BallastLayouts, AddUpToTheirGpusAndAreInThePlanFile)
{
  file("data.csv", "vision,llm\n1,300\n5,1324\n9,2400\n");
  for (std::string const command : {"search", "orchestrate"}) {
    std::string const call = command + " " + inputs_ + "--global-batch 48 ";
    json const found = json_of(call + "--plan layouts.csv").at("layouts");
    auto const rows = ballast_test::rows_of(content("layouts.csv"));
    ASSERT_EQ(rows.size(), 2 * found.size());
    std::size_t row = 0;
    for (json const& layout : found) {
      std::uint64_t gpus = 0;
      for (json const& module : layout.at("modules")) {
        auto const& line = rows.at(row++);
        EXPECT_EQ(line.at("module"), module.at("name").get<std::string>());
        std::uint64_t group = 1;
        for (char const* const name : {"tp", "sp", "ep", "pp", "dp"}) {
          group *= module.at(name).get<std::uint64_t>();
        }
        for (char const* const name : {"tp", "pp", "dp", "gpus", "kind"}) {
          EXPECT_EQ(std::stoul(line.at(name)), module.at(name)) << name;
        }
        EXPECT_EQ(module.at("gpus"), group);
        EXPECT_EQ(std::stod(line.at("simulated_seconds")), layout.at("simulated_seconds"));
        gpus += group;
      }
      if (command == "search") {
        EXPECT_EQ(gpus, 16U);
        continue;
      }
      EXPECT_EQ(layout.at("gpus_used"), gpus);
      EXPECT_LE(gpus, 16U);
      double const step = layout.at("step_seconds");
      EXPECT_NEAR(layout.at("simulated_seconds"), step, 0.5 * step);
    }
    auto const printed = run(call + "--plan -");
    EXPECT_EQ(ballast_test::rows_of(printed.out).size(), rows.size());
    EXPECT_THAT(printed.error, HasSubstr("predicted"));
  }
}

class BallastProfile : public ballast_test::program_test {
 protected:
  /// A call on two modules of next to no work, with what is given in the place of what is there.
  static std::string tiny(std::map<std::string, std::string> options = {})
  {
    options.merge(std::map<std::string, std::string>{
        {"--output", "p.csv"},
        {"--device", "cpu"},
        {"--llm", "transformer:d=8,layers=2,heads=2,causal=1"},
        {"--lengths", "4,8,16"},
        {"--encoder", "transformer:d=8,layers=1,heads=2,causal=1"},
        {"--runs", "1"},
        {"--warm-up", "0"},
        {"--hardware", "one-core"}});
    if (options.at("--encoder") != "''") {
      options.merge(
          std::map<std::string, std::string>{{"--items", "1,2"}, {"--tokens-per-item", "4"}});
    }
    std::string call = "profile";
    for (auto const& [name, value] : options) { call += " " + name + " " + value; }
    return call;
  }
};

TEST_F(BallastProfile, WritesAProfileThatASearchReads)
{
  EXPECT_EQ(json_of(tiny({{"--budget", "1e-9"}, {"--data", "coco"}})).at("left"), 16);
  auto const partial = ballast::load_profile(path("p.csv")).value();
  EXPECT_EQ(partial.hardware, "one-core");
  EXPECT_EQ(partial.data, "coco");
  EXPECT_FALSE(partial.profiles());
  std::filesystem::remove(path("p.csv"));

  json const said = json_of(tiny());
  EXPECT_EQ(said.at("measured"), 2 * 2 + 2 * 2 * 3);
  EXPECT_EQ(said.at("known"), 0);
  EXPECT_EQ(said.at("left"), 0);
  EXPECT_EQ(said.at("hardware"), "one-core");
  EXPECT_EQ(said.at("device"), "cpu");
  EXPECT_EQ(said.at("too_large"), 0);
  EXPECT_TRUE(said.at("limits").empty());
  EXPECT_FALSE(said.contains("check"));

  auto const modules = ballast::load_profile(path("p.csv")).value().profiles().value();
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
  auto const& memory = modules[1].degrees[0].memory;
  EXPECT_EQ(memory.state(1), 32U * 784);
  EXPECT_EQ(memory.state(2), 2 * 32U * 784);
  EXPECT_EQ(memory.activations(2, 16), 2 * 16 * 8U * (4 * 8 + 8 + 2 * 32 + 3 * 8));

  auto const& degree = said.at("modules").at(1).at("degrees").at(1);
  EXPECT_EQ(degree.at("tp"), 2);
  EXPECT_EQ(degree.at("attention").at(2).at("size"), 16);
  EXPECT_GT(degree.at("attention").at(2).at("backward_ns"), 0);
}

// One sentence says what to do, whether the program lacks CUDA or the machine lacks a GPU.
TEST_F(BallastProfile, MeasuresOnAGpuWhereThereIsOne)
{
  auto const result = run(tiny({{"--device", "gpu"}, {"--encoder", "''"}}));
  if (result.error.find("--device gpu: ") != std::string::npos) {
    bool const lacks_cuda = result.error.find("without CUDA; build it with") != std::string::npos;
    expect_refused(result, 2, lacks_cuda ? "BALLAST_ENABLE_CUDA=ON" : "CUDA finds no GPU (");
    EXPECT_THAT(result.error, HasSubstr("or give --device cpu"));
    // auto is one core then, with what suits it.
    json const said = json_of(tiny({{"--device", "auto"},
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
  json const said = json_of(tiny({{"--device", "gpu"},
                                  {"--llm", "transformer:d=64,layers=2,heads=2,causal=1"},
                                  {"--encoder", "transformer:d=64,layers=1,heads=2,causal=1"},
                                  {"--check", "2"}}));
  EXPECT_EQ(said.at("device"), "gpu");
  EXPECT_EQ(said.at("measured"), 2 * 2 + 2 * 2 * 3);
  EXPECT_EQ(said.at("check").at("lengths"), 2);
}

class BallastOrders : public ballast_test::program_test {
 protected:
  template <class Schedule, class Policy>
  void expect_as_library(std::string const& options, ballast::pipeline_times const& times,
                         ballast::stage_graph const& stages, Schedule const& schedule,
                         Policy const& policy) const
  {
    SCOPED_TRACE(options);
    auto const compiled =
        ballast::compiled_schedule::make(stages, schedule, times.microbatches()).value();
    auto const plan = ballast::order_microbatches(compiled, times, policy).value();
    std::string csv = "microbatch,stage,forward,backward\n";
    for (std::size_t row = 0; row < times.rows.size(); ++row) {
      for (auto const number :
           {static_cast<ballast::time_units>(row / times.stages),
            static_cast<ballast::time_units>(row % times.stages), times.rows[row].forward}) {
        csv += std::to_string(number) + ",";
      }
      csv += std::to_string(times.rows[row].backward) + "\n";
    }
    file("times.csv", csv);
    json const said = json_of("pipeline --durations times.csv" + options);
    std::vector<ballast::microbatch_id> numbered(plan.order.size());
    std::vector<std::size_t> order(plan.order.size());
    for (std::size_t at = 0; at < plan.order.size(); ++at) {
      order[at] = to_index(plan.order[at]);
      numbered[at] = ballast::to_id<ballast::microbatch_id>(at);
    }
    EXPECT_EQ(said.at("stages"), times.stages);
    EXPECT_EQ(said.at("ranks"), stages.ranks());
    EXPECT_EQ(said.at("microbatches"), times.microbatches());
    EXPECT_EQ(said.at("makespan"), plan.makespan);
    EXPECT_EQ(said.at("makespan_given"), plan.makespan_given);
    EXPECT_EQ(said.at("lower_bound"), plan.lower_bound);
    EXPECT_DOUBLE_EQ(said.at("gap"), plan.gap());
    EXPECT_EQ(said.at("proven"), plan.proven_optimal());
    EXPECT_EQ(said.at("digest"), plan.digest());
    EXPECT_EQ(said.at("order"), json(order));
    EXPECT_DOUBLE_EQ(said.at("idle_share"),
                     ballast::simulate(compiled, times, plan.order).idle_share());
    EXPECT_DOUBLE_EQ(said.at("idle_share_given"),
                     ballast::simulate(compiled, times, numbered).idle_share());
    EXPECT_GT(said.at("millis"), 0.0);
  }
};

TEST_F(BallastOrders, AreThoseOfTheLibrary)
{
  using namespace ballast;
  for (auto const family :
       {ballast_test::time_family::encoder_and_llm, ballast_test::time_family::proportional}) {
    auto const times = ballast_test::times_of(family, 8, 4, 20240607);
    auto const chain = chain_of_stages(4, 4);
    one_forward_one_backward const one;
    local_search const few{insertion{}, 64, 7};
    expect_as_library(" --order given", times, chain, one, given_order{});
    expect_as_library(" --order ascending --schedule 1f1b", times, chain, one, ascending_order{});
    expect_as_library(" --order interval", times, chain, one, interval_filling{});
    expect_as_library(" --order insertion --schedule gpipe", times, chain, gpipe{}, insertion{});
    expect_as_library(" --order exact", times, chain, one, exact_order<local_search<>>{});
    expect_as_library("", times, chain, one, local_search{});
    expect_as_library(" --order search --evaluations 64 --seed 7", times, chain, one, few);
    expect_as_library(" --order search:evaluations=64,seed=7", times, chain, one, few);
    expect_as_library(" --order insertion --schedule interleaved:v=2 --transfer 250", times,
                      chain_of_stages(4, 2, 250), interleaved_one_forward_one_backward{},
                      insertion{});
  }
}

TEST_F(BallastOrders, AreThoseOfTheSamplesOfEveryBag)
{
  // Tokens are times: samples take 6 and 1 on the two modules or the other way round, backward
  // twice that, and half of it where two GPUs share them.
  file("t.csv", "a,b\n6,1\n1,6\n6,1\n1,6\n");
  std::string const job =
      "plan --trace t.csv --length a+b --gpus 2 --bags g2n1 --batch 4 --steps 3 --cost tokens";
  json const plan = json_of(job + " --stages a:1,b:1 --order exact");
  ballast::pipeline_times times(4, 2);
  times.rows = {{6, 12}, {1, 2}, {1, 2}, {6, 12}, {6, 12}, {1, 2}, {1, 2}, {6, 12}};
  auto const schedule = ballast::compiled_schedule::make(ballast::chain_of_stages(2, 2),
                                                         ballast::one_forward_one_backward{}, 4)
                            .value();
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

}  // namespace against_library
