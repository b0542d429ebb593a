// SPDX-License-Identifier: Apache-2.0
// Runs `ballast search` as a user does, on a profile and data that are written by hand.

#include "program.hpp"  // defines: ballast_test::program_test, ...

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/profile_file.hpp>
#include <ballast/parallelism/layout_problem.hpp>
#include <ballast/parallelism/price_layout.hpp>
#include <nlohmann/json.hpp>

#include <array>
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

constexpr char const* two_modules =
    "module,tp,quantity,layers,size,value\n"
    "vision,,layers,,,4\n"
    "vision,,linear_flop,,,4e12\n"
    "vision,1,linear_flop_per_second,,1,100e12\n"
    "vision,1,linear_flop_per_second,,16,400e12\n"
    "vision,1,state_bytes,1,,1e9\n"
    "vision,1,state_bytes,4,,4e9\n"
    "vision,1,activation_bytes,1,0,0\n"
    "vision,1,activation_bytes,1,16,160e6\n"
    "vision,1,activation_bytes,4,0,0\n"
    "vision,1,activation_bytes,4,16,640e6\n"
    "llm,,layers,,,8\n"
    "llm,,linear_flop,,,48e9\n"
    "llm,,quadratic_flop,,,1e6\n"
    "llm,1,linear_flop_per_second,,256,400e12\n"
    "llm,1,attention_flop_per_second,,256,200e12\n"
    "llm,1,state_bytes,1,,16e9\n"
    "llm,1,state_bytes,8,,128e9\n"
    "llm,1,activation_bytes,1,0,0\n"
    "llm,1,activation_bytes,1,1000,100e6\n"
    "llm,1,activation_bytes,8,0,0\n"
    "llm,1,activation_bytes,8,1000,800e6\n"
    "llm,4,linear_flop_per_second,,256,350e12\n"
    "llm,4,attention_flop_per_second,,256,200e12\n"
    "llm,4,state_bytes,1,,4e9\n"
    "llm,4,state_bytes,8,,32e9\n"
    "llm,4,activation_bytes,1,0,0\n"
    "llm,4,activation_bytes,1,1000,25e6\n"
    "llm,4,activation_bytes,8,0,0\n"
    "llm,4,activation_bytes,8,1000,200e6\n";

/// The same, with the columns of sp and ep, and the LLM also on groups of tp 2 and sp 2: twice as
/// fast as tp 4.
std::string with_groups()
{
  std::string csv(two_modules);
  std::string const ends = ",,\n";
  for (std::size_t end = csv.find('\n'); end != std::string::npos;
       end = csv.find('\n', end + ends.size())) {
    csv.replace(end, 1, ends);
  }
  csv.replace(csv.find(ends), 2, ",sp,ep");
  for (char const* const row :
       {"linear_flop_per_second,,256,700e12", "attention_flop_per_second,,256,400e12",
        "state_bytes,1,,4e9", "state_bytes,8,,32e9", "activation_bytes,1,0,0",
        "activation_bytes,1,1000,25e6", "activation_bytes,8,0,0",
        "activation_bytes,8,1000,200e6"}) {
    csv += std::string("llm,2,") + row + ",2,\n";
  }
  return csv;
}

class BallastSearch : public ballast_test::program_test {
 protected:
  // Samples of one to nine tiles, 256 tokens each, and their text.
  std::string files(std::string const& memory = "80GB", std::string const& gpus = "16") const
  {
    std::string data = "vision,text,llm\n";
    for (int row = 0; row < 60; ++row) {
      int const tiles = 1 + row * row % 9;
      data += std::to_string(tiles) + "," + std::to_string(10 + row) + "," +
              std::to_string(256 * tiles + 10 + row) + "\n";
    }
    return "--profile " + file("profile.csv", two_modules) + " --data " + file("data.csv", data) +
           " --gpus " + gpus + " --memory " + memory + " --global-batch 64 ";
  }

  json search(std::string const& arguments) const { return json_of("search " + arguments); }
};

std::vector<std::string> keys_of(json const& object)
{
  std::vector<std::string> keys;
  for (auto const& [key, ignored] : object.items()) { keys.push_back(key); }
  return keys;
}

TEST_F(BallastSearch, NotesASpeedThatIsFarFromItsNeighbours)
{
  std::string const arguments = files();
  std::string csv = two_modules;
  csv.replace(csv.find("350e12"), 6, "350");
  (void)file("profile.csv", csv);
  auto const result = run("search " + arguments);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.error,
            "ballast: " + path("profile.csv") +
                ": line 23: linear_flop_per_second of 'llm' at tp 4 is 350, more than "
                "100 times below the 400000000000000 of line 15; correct the one that "
                "is wrong\n");
}

TEST_F(BallastSearch, TakesGroupsOfSequenceAndExpertParallelism)
{
  std::string const arguments = files();
  json const before = search(arguments).at("layouts").at(0);
  (void)file("profile.csv", with_groups());
  json const best = search(arguments).at("layouts").at(0);
  EXPECT_LT(best.at("simulated_seconds"), before.at("simulated_seconds"));
  json const llm = best.at("modules").at(1);
  EXPECT_EQ(llm.at("tp"), 2);
  EXPECT_EQ(llm.at("sp"), 2);
  EXPECT_EQ(llm.at("gpus"), 4 * llm.at("pp").get<int>() * llm.at("dp").get<int>());
  std::string const page = path("layout.html");
  auto const shown = run("search " + arguments + "--report " + page);
  EXPECT_THAT(shown.out, HasSubstr("  2 sp 2"));
  EXPECT_THAT(content_of(page), HasSubstr("llm tp 2 sp 2 pp"));
  auto const units = run("orchestrate " + arguments + "--report " + page);
  EXPECT_EQ(units.exit_code, 0) << units.error;
  EXPECT_THAT(units.out, HasSubstr("  2 sp 2"));
  EXPECT_THAT(content_of(page), HasSubstr("llm tp 2 sp 2 pp"));
}

TEST_F(BallastSearch, SaysInJsonWhatAProgramNeeds)
{
  json const found = search(files() + "--print 7");
  EXPECT_THAT(keys_of(found),
              ElementsAre("any_dealing_seconds", "evaluated", "feasible", "layouts",
                          "lower_bound_seconds", "milliseconds", "proven", "simulated"));
  EXPECT_EQ(found.at("feasible"), true);
  EXPECT_EQ(found.at("proven"), true);
  EXPECT_GE(found.at("simulated"), 7);
  EXPECT_GE(found.at("evaluated"), found.at("simulated"));
  EXPECT_EQ(found.at("lower_bound_seconds"), found.at("layouts").at(0).at("simulated_seconds"));
  EXPECT_LE(found.at("any_dealing_seconds"), found.at("lower_bound_seconds"));
  ASSERT_EQ(found.at("layouts").size(), 7U);
  double before = 0;
  for (json const& layout : found.at("layouts")) {
    EXPECT_THAT(keys_of(layout),
                ElementsAre("memory_bytes", "microbatches", "modules", "simulated_seconds",
                            "step_seconds", "virtual_stages"));
    EXPECT_EQ(layout.at("virtual_stages"), 1);
    EXPECT_GE(layout.at("simulated_seconds"), before) << "the shortest simulated step is first";
    before = layout.at("simulated_seconds");
    EXPECT_LE(layout.at("memory_bytes"), 80'000'000'000);
    std::uint64_t gpus = 0;
    for (json const& module : layout.at("modules")) {
      EXPECT_THAT(keys_of(module), ElementsAre("dp", "ep", "gpus", "name", "pp", "sp", "tp"));
      EXPECT_EQ(module.at("sp"), 1);
      EXPECT_EQ(module.at("ep"), 1);
      std::uint64_t const own = module.at("gpus");
      EXPECT_EQ(own, module.at("tp").get<std::uint64_t>() * module.at("pp").get<std::uint64_t>() *
                         module.at("dp").get<std::uint64_t>());
      gpus += own;
    }
    EXPECT_EQ(gpus, 16U);
    EXPECT_EQ(layout.at("modules").at(0).at("name"), "vision");
    EXPECT_EQ(layout.at("modules").at(1).at("name"), "llm");
  }
}

TEST_F(BallastSearch, PricesWhatTheLibraryPrices)
{
  // One row: drawing and shuffling it changes nothing.
  std::string const arguments = files() + "--print 1 ";
  (void)file("data.csv", "vision,llm\n3,800\n");
  json const best = search(arguments).at("layouts").at(0);
  auto const modules =
      ballast::modules_of(ballast::load_profile(path("profile.csv")).value()).value();
  std::array<ballast::tokens, 2> const sizes = {3, 800};
  ballast::layout_problem problem{.modules = modules,
                                  .sizes = sizes,
                                  .global_batch = 64,
                                  .gpus = 16,
                                  .memory_bytes = 80'000'000'000};
  std::vector<ballast::module_layout> degrees;
  for (json const& module : best.at("modules")) {
    degrees.push_back({module.at("tp"), module.at("pp"), module.at("dp")});
  }
  auto const priced = ballast::price_layout(problem, degrees, best.at("microbatches")).value();
  EXPECT_DOUBLE_EQ(best.at("step_seconds"), static_cast<double>(priced.step) * 1e-12);
  EXPECT_EQ(best.at("memory_bytes"), priced.memory_bytes);
}

TEST_F(BallastSearch, RepeatsItselfAndTakesSizesFromExpressions)
{
  auto const layouts = [this](std::string const& arguments) {
    return search(arguments).at("layouts");
  };
  std::string const given = files();
  json const once = layouts(given);
  EXPECT_EQ(layouts(given), once);
  EXPECT_EQ(layouts(given + "--size 'llm=text+256*vision'"), once);
  EXPECT_NE(layouts(given + "--size 'llm=text'"), once);
  EXPECT_NE(layouts(given + "--estimate mean-step --draws 20 --seed 3"), once);
  EXPECT_NE(layouts(given + "--batches 1"), once) << "other batches are simulated";
  EXPECT_EQ(layouts(files("80e9") + "--memory-quantile 1.0"), once);
}

TEST_F(BallastSearch, PrintsATable)
{
  auto const shown = run("search " + files() + "--print 2 --batches 1");
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("60 of 60 samples priced by mean-sample, seed 1\n"));
  EXPECT_THAT(shown.out, HasSubstr("16 GPUs of 80 GB on nodes of 8, global batch 64\n"));
  EXPECT_THAT(shown.out, HasSubstr("microbatches   predicted   simulated    memory\n1   "));
  EXPECT_THAT(shown.out, HasSubstr(" simulated on 1 batch: no other is better than the 2 shown; "));
  EXPECT_EQ(shown.out.find("\n3   "), std::string::npos);
}

TEST_F(BallastSearch, SaysWhatTransfersAndAllReduceTake)
{
  double const at_once =
      search(files() + "--batches 1").at("layouts").at(0).at("simulated_seconds");
  std::string const sending = files() + "--print 2 --batches 1 --between-nodes-bandwidth 10";
  (void)file("profile.csv", std::string(two_modules) + "vision,,boundary_bytes,,,2e6\n");
  json const best = search(sending).at("layouts").at(0);
  double const spent = best.at("sending_seconds");
  EXPECT_GT(spent, 0);
  EXPECT_LT(spent, best.at("simulated_seconds"));
  EXPECT_GE(best.at("simulated_seconds"), at_once);
  EXPECT_THAT(run("search " + sending).out,
              HasSubstr("transfers between modules and all-reduce are "));
}

TEST_F(BallastSearch, PutsEncodersSideBySide)
{
  std::string const given = files() + "--size audio=vision --print 1 ";
  std::string profile = two_modules;
  std::size_t const first = profile.find("vision");
  std::size_t const llm = profile.find("llm,,layers");
  std::string audio = profile.substr(first, llm - first);  // a second encoder like the first
  for (std::size_t at = 0; (at = audio.find("vision", at)) != std::string::npos;) {
    audio.replace(at, 6, "audio");
  }
  (void)file("profile.csv", profile.insert(llm, audio));
  EXPECT_LT(search(given + "--side-by-side").at("layouts").at(0).at("simulated_seconds"),
            search(given).at("layouts").at(0).at("simulated_seconds"));
  EXPECT_THAT(run("search " + given + "--side-by-side").out,
              HasSubstr("global batch 64, all modules feed llm\n"));
}

TEST_F(BallastSearch, TriesVirtualStages)
{
  json const plain = search(files());
  json const found = search(files() + "--virtual-stages 2,4");
  EXPECT_EQ(found.at("proven"), true);
  EXPECT_LE(found.at("lower_bound_seconds"), plain.at("lower_bound_seconds"));
  EXPECT_THAT(run("search " + files() + "--virtual-stages 2").out,
              HasSubstr("GPUs  virtual  microbatches   predicted"));
  for (std::string const list : {"1", "2,2", "4,2", "2,", "many", "4294967295,0"}) {
    expect_refused(run("search " + files() + "--virtual-stages " + list), 2,
                   "is no list of increasing numbers from 2 on; write 2,4");
  }
  expect_refused(run("search " + files() + "--virtual-stages ''"), 2, "the list is empty");
  expect_refused(run("search " + files() + "--virtual-stages 2,1000"), 2,
                 "--virtual-stages: 1000 are more than the ");
}

TEST_F(BallastSearch, PrintsAllWhereThereAreFewer)
{
  json const few = search(files("80GB", "4") + "--print 100000").at("layouts");
  EXPECT_GE(few.size(), 2U);
  EXPECT_LT(few.size(), 100U);
  json const one = search(files("80GB", "4") + "--print 1").at("layouts");
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one.at(0), few.at(0)) << "what is printed does not change what is best";
}

TEST_F(BallastSearch, TakesAModuleWithABacktickInItsName)
{
  std::string const given = files() + "--print 1 --batches 1";
  json const plain = search(given).at("layouts");
  for (char const* const name : {"profile.csv", "data.csv"}) {
    std::string text = content_of(path(name));
    for (std::size_t at = 0; (at = text.find("vision", at)) != std::string::npos;) {
      text.replace(at, 6, "vi`s");
    }
    (void)file(name, text);
  }
  json const found = search(given).at("layouts");
  EXPECT_EQ(found.at(0).at("modules").at(0).at("name"), "vi`s");
  EXPECT_EQ(found.at(0).at("simulated_seconds"), plain.at(0).at("simulated_seconds"));
}

TEST_F(BallastSearch, WritesAPage)
{
  auto const shown = run("search " + files() + "--report " + path("page.html"));
  EXPECT_EQ(shown.exit_code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("page     " + path("page.html")));
  std::string const page = content_of(path("page.html"));
  EXPECT_THAT(page, HasSubstr("<h1>vision and llm on 16 GPUs</h1>"));
  EXPECT_THAT(page, HasSubstr("<dd>64, simulated 4 times</dd>"));
  std::string const table = shown.out.substr(shown.out.rfind(" looked at in "));
  EXPECT_THAT(page, HasSubstr(table.substr(table.find(": no other"), 40))) << "one thing in both";
  expect_refused(run("search " + files() + "--report " + path("data.csv")), 2,
                 "--data and --report name the same file");
  expect_refused(run("search " + files() + "--report /nowhere/p.html"), 1, "/nowhere/p.html");
}

TEST_F(BallastSearch, SaysWhyNothingFits)
{
  auto const text = run("search " + files("3GB") + "--report " + path("page.html"));
  expect_refused(text, 1, "no layout fits into memory: the closest (");
  EXPECT_THAT(text.error, HasSubstr("for module llm; use more GPUs or larger ones"));
  EXPECT_EQ(content_of(path("page.html")), "");
  auto const result = run("search --format json " + files("3GB"));
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("no layout fits into memory"));
  json const said = json::parse(result.out);
  EXPECT_EQ(said.at("feasible"), false);
  EXPECT_TRUE(said.at("layouts").empty());
  EXPECT_EQ(said.at("evaluated"), 0);
  expect_refused(run("search " + files("80GB", "1")), 1, "uses exactly 1 GPU");
}

TEST_F(BallastSearch, RefusesWhatItCannotSearch)
{
  expect_refused(run("search"), 2, "is required; see ballast search --help");
  expect_refused(run("search " + files("80GB", "0")), 2, "--gpus");
  expect_refused(run("search " + files() + "--print 0"), 2, "--print");
  expect_refused(run("search " + files() + "--top 5"), 2,
                 "all layouts are searched; --print K prints the best K");
  expect_refused(run("search " + files() + "--budget 0"), 2, "--budget");
  expect_refused(run("search " + files("80GB", "16777216")), 2,
                 "16777216 GPUs are more than 1048576; search fewer");
  expect_refused(run("search " + files() + "--estimate best"), 2, "--estimate");
  for (std::string const size : {"0", "80XB", "GB", "-1", "1e30", "0.2B"}) {
    expect_refused(run("search " + files(size)), 2, "--memory: '" + size + "' ");
  }
  for (std::string const share : {"0", "1.5", "most"}) {
    expect_refused(run("search " + files() + "--memory-quantile " + share), 2,
                   "--memory-quantile: '" + share + "' is no share");
  }
  expect_refused(run("search " + files() + "--batches 5000000"), 2, "--batches");
  std::string const fewer = "--batches 10000 --global-batch 16777216";
  std::string given = files();
  given.erase(given.find("--global-batch"));
  expect_refused(run("search " + given + fewer), 2,
                 "10000 batches of 16777216 samples are more than 2097152 samples");
  expect_refused(run("search " + files() + "--size llm"), 2, "'llm' gives no module");
  expect_refused(run("search " + files() + "--size audio=text"), 2, "for one of vision, llm");
  expect_refused(run("search " + files() + "--size llm="), 2, "has no expression");
  expect_refused(run("search " + files() + "--size llm=text --size llm=text"), 2, "has two sizes");
  expect_refused(run("search " + files() + "--size llm=text+"), 2, "--size: ");
  expect_refused(run("search " + files() + "--size llm=words"), 1, "there is no column 'words'");
}

TEST_F(BallastSearch, RefusesFilesThatLackSomething)
{
  std::string const arguments = files();
  (void)file("data.csv", "vision,tokens\n3,800\n");
  expect_refused(run("search " + arguments), 1,
                 "there is no column 'llm'; there are 'vision', 'tokens'; add it, or give --size");
  (void)file("data.csv", "vision,llm\n3,-800\n");
  expect_refused(run("search " + arguments), 1, path("data.csv") + ": line 2: ");
  (void)file("profile.csv", "module,tp,quantity,layers,size,value\nllm,,layers,,,8\n");
  expect_refused(run("search " + arguments), 1, path("profile.csv") + ": module llm ");
  (void)file("profile.csv", "a,b\n");
  expect_refused(run("search " + arguments), 1, "there is no column 'module'");
  std::filesystem::remove(path("profile.csv"));
  expect_refused(run("search " + arguments), 1, path("profile.csv") + ": ");
}

}  // namespace
