// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/thread_communicator.hpp>
#include <ballast/cost/module_profile.hpp>
#include <ballast/cost/profile_file.hpp>
#include <ballast/runtime.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include "../support/test.hpp"
#include "fake_clock.hpp"

namespace {

using ballast::error_code;
using ballast::model_profiler;
using ballast::profile_file;
using ballast_test::fake_clock;
using testing::ElementsAre;
using testing::HasSubstr;
using memory_point = profile_file::memory_point;
using profiled = model_profiler::summary;
using progress = model_profiler::progress;

// Work whose passes take as long as they are said to, run by run, then again from the first.
struct fake_work {
  fake_clock& clock;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  std::size_t next = 0;

  void forward() { clock.advance(runs[next % runs.size()].first); }
  void backward() { clock.advance(runs[next++ % runs.size()].second); }
};

model_profiler llm()
{
  return {.name = "llm",
          .model = "transformer:d=64",
          .layers = 4,
          .timed_layers = 2,
          .flops = {.linear = 1000, .quadratic = 10},
          .degrees = {{1}, {2}},
          .sizes = {10, 20, 40}};
}

// What the passes of a point take: the FLOP of a GPU at 1 FLOP per nanosecond, a quarter of it
// forward.
fake_work at_one_gigaflop(fake_clock& clock, model_profiler::point const& point)
{
  std::int64_t const flop =
      point.is_attention ? 10 * point.size * point.size / 2 : 1000 * point.size / 2;
  std::int64_t const share = flop / point.tp;
  return {clock, {{share / 4, share - share / 4}}};
}

// Profiles what prepare() makes of each point.
template <class Prepare, class Clock>
auto run_prepared(Prepare const& prepare, profile_file& file, Clock& clock,
                  model_profiler const& grid = llm(), std::vector<progress>* reports = nullptr)
{
  return grid.profile(file, prepare, clock, [&](progress const& each) {
    if (reports != nullptr) { reports->push_back(each); }
  });
}

ballast::result<profiled> run(profile_file& file, fake_clock& clock, model_profiler const& grid,
                              std::vector<progress>* reports = nullptr)
{
  return run_prepared(
      [&](model_profiler::point const& point) { return at_one_gigaflop(clock, point); }, file,
      clock, grid, reports);
}

TEST(ModelProfiler, TurnsTimesIntoFlopPerSecond)
{
  profile_file file;
  fake_clock clock;
  EXPECT_EQ(run(file, clock, llm()).value(), (profiled{12, 0, 0}));
  auto const& module = file.modules.at(0);
  EXPECT_EQ(module.name, "llm");
  EXPECT_EQ(module.model, "transformer:d=64");
  EXPECT_EQ(module.layers, 4U);
  EXPECT_EQ(module.flops, llm().flops);
  ASSERT_EQ(module.degrees.size(), 2U);
  constexpr std::uint64_t giga = 1'000'000'000;
  EXPECT_THAT(module.degrees[0].linear,
              ElementsAre(ballast::profile_file::speed_point{10, giga, giga, giga, 1250, 3750},
                          ballast::profile_file::speed_point{20, giga, giga, giga, 2500, 7500},
                          ballast::profile_file::speed_point{40, giga, giga, giga, 5000, 15'000}));
  EXPECT_THAT(module.degrees[1].attention,
              ElementsAre(ballast::profile_file::speed_point{10, giga, giga, giga, 62, 188},
                          ballast::profile_file::speed_point{20, giga, giga, giga, 250, 750},
                          ballast::profile_file::speed_point{40, giga, giga, giga, 1000, 3000}));
}

TEST(ModelProfiler, TakesMedianAndQuartilesOfBothPassesTogether)
{
  model_profiler grid = llm();
  grid.flops = {.linear = 2000};
  grid.sizes = {1};
  grid.degrees = {{1}};
  profile_file file;
  fake_clock clock;
  // 2 runs to warm up; then sums of 100, 200, 250, 400, 1000.
  auto const prepare = [&](model_profiler::point const&) {
    return fake_work{clock,
                     {{9, 9}, {9, 9}, {50, 200}, {900, 100}, {50, 50}, {100, 100}, {200, 200}}};
  };
  grid.runs = 5;
  ASSERT_TRUE(run_prepared(prepare, file, clock, grid));
  auto const& point = file.modules[0].degrees[0].linear.at(0);
  EXPECT_EQ(point.flop_per_second, 4'000'000'000U);  // 1000 FLOP in 250 ns
  EXPECT_EQ(point.lower_quartile, 2'500'000'000U);
  EXPECT_EQ(point.upper_quartile, 5'000'000'000U);
  EXPECT_EQ(point.forward_ns, 100U);
  EXPECT_EQ(point.backward_ns, 100U);
}

TEST(ModelProfiler, GoesFromCoarseToFineAndReportsWhatIsLeft)
{
  model_profiler grid = llm();
  grid.flops.quadratic = 0;
  grid.degrees = {{1}};
  profile_file file;
  fake_clock clock;
  std::vector<progress> reports;
  grid.warm_up = 0;
  grid.runs = 2;
  EXPECT_EQ(run(file, clock, grid, &reports).value(), (profiled{3, 0, 0}));
  EXPECT_TRUE(file.modules[0].degrees[0].attention.empty());
  ASSERT_EQ(reports.size(), 3U);
  EXPECT_EQ(reports[0].point, (model_profiler::point{1, 10, 1, 1, 2}));
  EXPECT_EQ(reports[1].point, (model_profiler::point{1, 40, 1, 1, 2}));
  EXPECT_EQ(reports[2].point, (model_profiler::point{1, 20, 1, 1, 2}));
  EXPECT_EQ(reports[0].left_ns, 0);
  EXPECT_EQ(reports[1].done, 1U);
  EXPECT_EQ(reports[1].left, 2U);
  EXPECT_EQ(reports[1].used_ns, 2 * 5000);
  EXPECT_EQ(reports[1].left_ns, 2 * (20'000 + 10'000)) << "in proportion to the FLOP";
  EXPECT_EQ(reports[2].left_ns, 2 * 10'000);
}

TEST(ModelProfiler, SpansTheGridAtAnyTime)  // Ensures (1)
{
  auto const order = [](std::size_t count) {
    model_profiler grid = llm();
    grid.flops.quadratic = 0;
    grid.degrees = {{1}};
    grid.sizes.clear();
    for (std::size_t size = 1; size <= count; ++size) {
      grid.sizes.push_back(static_cast<ballast::tokens>(size));
    }
    profile_file file;
    fake_clock clock;
    std::vector<progress> reports;
    EXPECT_TRUE(run(file, clock, grid, &reports));
    std::vector<ballast::tokens> sizes;
    for (auto const& each : reports) { sizes.push_back(each.point.size); }
    return sizes;
  };
  EXPECT_THAT(order(1), ElementsAre(1));
  EXPECT_THAT(order(2), ElementsAre(1, 2));
  EXPECT_THAT(order(9), ElementsAre(1, 9, 5, 3, 7, 2, 4, 6, 8));
}

TEST(ModelProfiler, StopsWhenTheBudgetIsUsedUpAndGoesOnWhereItStopped)
{
  profile_file whole;
  fake_clock clock;
  ASSERT_TRUE(run(whole, clock, llm()));

  profile_file file;
  auto grid = llm();
  grid.warm_up = 0;
  grid.runs = 1;
  grid.budget_ns = 6000;
  std::size_t measured = 0;
  for (std::size_t calls = 0; calls < 100; ++calls) {
    std::int64_t const before = clock.now().value();
    auto const summary = run(file, clock, grid).value();
    EXPECT_EQ(summary.known, measured);
    EXPECT_EQ(summary.known + summary.measured + summary.left, 12U);
    EXPECT_LT(clock.now().value() - before, 6000 + 20'000) << "a point that was begun is finished";
    measured += summary.measured;
    if (summary.left == 0) { break; }
    EXPECT_GE(summary.measured, 1U);
  }
  EXPECT_EQ(file, whole);
  EXPECT_EQ(run(file, clock, llm()).value(), (profiled{0, 12, 0}));
  profile_file nothing;
  grid.budget_ns = 0;
  EXPECT_EQ(run(nothing, clock, grid).value(), (profiled{0, 0, 12}));
}

TEST(ModelProfiler, AddsSizesAndDegreesToWhatIsThere)
{
  profile_file file;
  fake_clock clock;
  model_profiler grid = llm();
  ASSERT_TRUE(run(file, clock, grid));
  grid.sizes = {40, 80, 80};
  grid.degrees = {{2}, {4}};
  EXPECT_EQ(run(file, clock, grid).value(), (profiled{6, 2, 0}));
  EXPECT_EQ(file.modules[0].degrees[1].linear.size(), 4U);
  EXPECT_EQ(file.modules[0].degrees[2].linear.size(), 2U);
}

TEST(ModelProfiler, MeasuresGroupsOfSequenceAndExpertParallelism)
{
  profile_file file;
  fake_clock clock;
  model_profiler grid = llm();
  grid.degrees = {{2, 2, 1}, {2, 1, 4}};
  ASSERT_TRUE(run(file, clock, grid));
  auto const& degrees = file.modules[0].degrees;
  ASSERT_EQ(degrees.size(), 2U);
  EXPECT_EQ(degree_of(degrees[0]), (ballast::parallel_degree{2, 1, 4}));
  EXPECT_EQ(degree_of(degrees[1]), (ballast::parallel_degree{2, 2, 1}));
  // The clock divides by tp alone, so each GPU of a group of 8 does a quarter as much.
  EXPECT_EQ(degrees[0].linear[0].flop_per_second, 250'000'000U);
  EXPECT_EQ(degrees[1].linear[0].flop_per_second, 500'000'000U);
}

TEST(ModelProfiler, DescribesAModuleOfWhichMemoryAloneIsKnown)
{
  profile_file file;
  fake_clock clock;
  file.find_or_add("llm").find_or_add({1}).state = {{1, 0, 5}};
  ASSERT_TRUE(run(file, clock, llm()));
  EXPECT_EQ(file.modules.at(0).model, "transformer:d=64");
  EXPECT_EQ(file.modules[0].degrees[0].state.size(), 1U);
}

TEST(ModelProfiler, RefusesTheFileOfAnotherModel)
{
  profile_file file;
  fake_clock clock;
  ASSERT_TRUE(run(file, clock, llm()));
  profile_file const before = file;
  model_profiler other = llm();
  other.model = "transformer:d=128";
  auto const refused = run(file, clock, other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, error_code::mismatch);
  EXPECT_THAT(refused.error().message, HasSubstr("module llm of another model"));
  EXPECT_EQ(file, before);
}

TEST(ModelProfiler, RefusesGridsOfNothing)
{
  profile_file file;
  fake_clock clock;
  auto const said = [&](auto change) {
    model_profiler grid = llm();
    change(grid);
    auto const refused = run(file, clock, grid);
    return refused ? "" : refused.error().message;
  };
  EXPECT_THAT(said([](auto& grid) { grid.name.clear(); }), HasSubstr("has no name"));
  EXPECT_THAT(said([](auto& grid) { grid.timed_layers = 0; }), HasSubstr("no timed layers"));
  EXPECT_THAT(said([](auto& grid) { grid.sizes.clear(); }), HasSubstr("at no size"));
  EXPECT_THAT(said([](auto& grid) { grid.sizes[1] = 0; }), HasSubstr("at size 0; give sizes"));
  EXPECT_THAT(said([](auto& grid) { grid.degrees[1] = {0}; }), HasSubstr("degree of 0"));
  EXPECT_TRUE(file.modules.empty());
}

TEST(ModelProfiler, SaysWhatTookNoTime)
{
  profile_file file;
  fake_clock clock;
  auto const refused = run_prepared(
      [&](model_profiler::point const&) { return fake_work{clock, {{0, 0}}}; }, file, clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "module llm at tp 1 and size 10 took no time by the clock; time more layers or larger "
            "sizes");
}

// Work that fails when it has run twice; the point before stays in the file.
struct failing_work {
  fake_clock& clock;
  bool fails;
  int calls = 0;

  ballast::result<void> forward()
  {
    clock.advance(5);
    if (fails && ++calls == 2) { return ballast::fail(error_code::transport, 2, "out of memory"); }
    return {};
  }
  ballast::result<void> backward() const { return {}; }
};

TEST(ModelProfiler, ReturnsTheErrorsOfTheWork)
{
  profile_file file;
  fake_clock clock;
  auto const refused = run_prepared(
      [&](model_profiler::point const& point) { return failing_work{clock, point.size == 40}; },
      file, clock);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "out of memory");
  EXPECT_EQ(file.modules[0].degrees[0].linear.size(), 1U);

  auto const unprepared = run_prepared(
      [&](model_profiler::point const&) -> ballast::result<failing_work> {
        return ballast::fail(error_code::transport, 2, "no room for the input");
      },
      file, clock);
  ASSERT_FALSE(unprepared);
  EXPECT_EQ(unprepared.error().message, "no room for the input");
}

TEST(ModelProfiler, PassesOverWhatDoesNotFitTheMemory)  // Ensures (4)
{
  profile_file file;
  fake_clock clock;
  std::vector<model_profiler::point> tried;
  auto const prepare = [&](model_profiler::point const& point) -> ballast::result<fake_work> {
    tried.push_back(point);
    if (point.is_attention && point.size * 2 > 30 * point.tp) {
      return ballast::fail(error_code::out_of_memory, 0, "no room for the scores");
    }
    return at_one_gigaflop(clock, point);
  };
  auto const summary = run_prepared(prepare, file, clock).value();
  model_profiler::point const first{1, 40, 1, 1, 2, true};
  model_profiler::point const second{2, 40, 1, 1, 2, true};
  model_profiler::point const third{1, 20, 1, 1, 2, true};
  EXPECT_EQ(summary, (profiled{9,
                               0,
                               0,
                               3,
                               {{first, "no room for the scores"},
                                {second, "no room for the scores"},
                                {third, "no room for the scores"}}}));
  auto const& degrees = file.modules[0].degrees;
  EXPECT_EQ(degrees[0].linear.size(), 3U);
  EXPECT_EQ(degrees[0].attention.size(), 1U);
  EXPECT_EQ(degrees[1].attention.size(), 2U);

  // What does not fit is no larger than what did not, so that is not tried.
  tried.clear();
  auto grid = llm();
  grid.sizes = {10, 20, 30, 40};
  auto const more = run_prepared(prepare, file, clock, grid).value();
  EXPECT_EQ(more.too_large, 4U);
  EXPECT_EQ(more.measured, 3U);
  EXPECT_LT(tried.size(), 7U);
}

TEST(ModelProfiler, TimesCallablesByTheHostClock)
{
  // [profile]
  // Say these are the passes of one of two layers; yours run kernels.
  struct layer {
    std::vector<double> x;
    double sum = 0;
    void forward()
    {
      for (double const each : x) { sum += each * each; }
    }
    void backward()
    {
      for (double& each : x) { each += 2 * sum; }
    }
  };
  ballast::profile_file file;  // or load_profile, to go on with one
  file.hardware = "one core";
  ballast::model_profiler const llm{.name = "llm",
                                    .layers = 2,
                                    .flops = {.linear = 8000},
                                    .sizes = {1024, 4096, 16'384},
                                    .runs = 3};
  ballast::host_clock clock;
  auto const done = llm.profile(
      file,
      [](ballast::model_profiler::point const& point) {
        return layer{std::vector<double>(static_cast<std::size_t>(10 * point.size / point.tp))};
      },
      clock, [](auto const& /*progress*/) { /* show it, save the file */ });
  std::string const csv = ballast::write_profile(file);
  // [profile]
  EXPECT_EQ(done.value().measured, 3U);
  EXPECT_THAT(csv, HasSubstr("llm,1,linear_flop_per_second,,16384,"));
}

TEST(ModelProfiler, TellsRanksThatProfileTogetherOfOtherPointsOrSettings)  // Errors: mismatch
{
  for (int const odd : {0, 1, 2}) {
    ballast::run_ranks(2, [&](ballast::thread_communicator& comm) {
      bool const is_odd = comm.rank() == ballast::rank_id{1};
      fake_clock own;
      ballast::agreed_clock clock(comm, own);
      profile_file file;
      model_profiler grid = llm();
      grid.runs = 1;
      if (is_odd && odd == 0) { grid.sizes[1] = 30; }
      if (is_odd && odd == 1) { grid.budget_ns = 1'000'000; }
      if (is_odd && odd == 2) { ASSERT_TRUE(run(file, own, grid)); }  // it knows all points
      auto const done = run_prepared(
          [&](model_profiler::point const& point) { return at_one_gigaflop(own, point); }, file,
          clock, grid);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, error_code::mismatch);
      EXPECT_THAT(done.error().message, HasSubstr("what is timed, or one has no time (rank 1 "));
    });
  }
}

TEST(ModelProfilerDeathTest, RefusesANegativeBudget)  // Expects
{
  profile_file file;
  fake_clock clock;
  auto grid = llm();
  grid.budget_ns = -1;
  EXPECT_DEATH((void)run(file, clock, grid), "the budget is -1 ns; give 0 or more");
}

static_assert(ballast::profiler_clock<ballast::host_clock>);
static_assert(ballast::profiler_clock<ballast_test::fake_clock>);
static_assert(!ballast::profiler_clock<std::chrono::steady_clock>);

TEST(HostClock, TimesACall)
{
  ballast::host_clock const clock;
  int calls = 0;
  auto const before = clock.now().value();
  auto const time = clock.time([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  EXPECT_GE(time.value(), 2'000'000);
  EXPECT_GE(clock.now().value() - before, time.value());
}

model_profiler of_degrees(std::vector<ballast::parallel_degree> degrees)
{
  return {.name = "llm", .degrees = std::move(degrees)};
}

TEST(MemoryProfiler, MeasuresTwoNumbersOfLayersAtTwoSizes)
{
  profile_file file;
  std::vector<model_profiler::point> probes;
  auto const measure = [&](model_profiler::point const& probe) {
    probes.push_back(probe);
    auto const size = static_cast<std::uint64_t>(probe.size);
    return model_profiler::held_bytes{100 * probe.layers / probe.tp + size / 10,
                                      probe.layers * size / probe.tp};
  };
  std::vector<ballast::parallel_degree> const degrees = {{1}, {2}};
  ASSERT_TRUE(of_degrees(degrees).profile_memory(file, {2, 4}, {10, 20}, measure));
  EXPECT_EQ(probes.size(), 8U);
  EXPECT_EQ(probes[1], (model_profiler::point{1, 20, 1, 1, 2}));
  auto const& second = file.modules.at(0).degrees.at(1);
  EXPECT_THAT(second.state, ElementsAre(profile_file::memory_point{2, 0, 102},
                                        profile_file::memory_point{4, 0, 202}))
      << "the larger of two";
  EXPECT_THAT(
      second.activations,
      ElementsAre(profile_file::memory_point{2, 10, 10}, profile_file::memory_point{2, 20, 20},
                  profile_file::memory_point{4, 10, 20}, profile_file::memory_point{4, 20, 40}));

  // Once more, with a group that is new.
  std::vector<ballast::parallel_degree> const more = {{2}, {2, 2, 4}};
  ASSERT_TRUE(of_degrees(more).profile_memory(file, {2, 4}, {10, 20}, measure));
  EXPECT_EQ(probes.size(), 12U);
  EXPECT_EQ(probes.back(), (model_profiler::point{2, 20, 2, 4, 4}));
  ASSERT_EQ(file.modules[0].degrees.size(), 3U);
  EXPECT_EQ(degree_of(file.modules[0].degrees[2]), more[1]);
}

TEST(MemoryProfiler, RefusesWhatIsNoPairOfLines)
{
  profile_file file;
  std::vector<ballast::parallel_degree> const degrees{{}};
  auto const nothing = [](model_profiler::point const&) { return model_profiler::held_bytes(); };
  EXPECT_THAT(of_degrees(degrees).profile_memory(file, {2, 2}, {1, 2}, nothing).error().message,
              HasSubstr("measure two numbers of layers"));
  EXPECT_THAT(of_degrees(degrees).profile_memory(file, {1, 2}, {2, 1}, nothing).error().message,
              HasSubstr("measure two sizes"));
}

TEST(MemoryProfiler, AddsNothingOfADegreeThatFails)
{
  profile_file file;
  std::vector<ballast::parallel_degree> const degrees{{}};
  auto const fails =
      [](model_profiler::point const& probe) -> ballast::result<model_profiler::held_bytes> {
    if (probe.layers == 4) {
      return ballast::fail(ballast::error_code::transport, 2, "out of memory");
    }
    return model_profiler::held_bytes{1, 1};
  };
  auto const refused = of_degrees(degrees).profile_memory(file, {2, 4}, {10, 20}, fails);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "out of memory");
  EXPECT_TRUE(file.modules[0].degrees[0].state.empty());
}

using strings = std::vector<std::string>;

profile_file known()
{
  profile_file file;
  file.hardware = "8 x H100";
  file.data = "coco";
  for (std::string const name : {"vision", "llm"}) {
    auto& module = file.find_or_add(name);
    module.model = name + "-1";
    module.layers = 4;
    module.flops = {.linear = 10};
  }
  return file;
}

struct change {
  std::string what;
  std::function<void(profile_file&)> apply;
  ballast::reprofile_plan plan;
};

TEST(Reprofile, SaysWhatAndWhy)
{
  std::vector<change> const changes = {
      {"nothing", [](profile_file&) {}, {}},
      {"measurements",
       [](profile_file& now) { now.modules[0].find_or_add({2}).linear = {{8, 5}}; },
       {}},
      {"the data",
       [](profile_file& now) { now.data = "nextqa"; },
       {false, true, {}, {"the data were 'coco' and are 'nextqa'"}}},
      {"a model",
       [](profile_file& now) { now.modules[1].model = "llm-2"; },
       {true, true, {"llm"}, {"module llm was 'llm-1' and is 'llm-2'"}}},
      {"its layers",
       [](profile_file& now) { now.modules[1].layers = 5; },
       {true, true, {"llm"}, {"module llm has another number of layers or FLOP"}}},
      {"its FLOP",
       [](profile_file& now) { now.modules[0].flops.quadratic = 5; },
       {true, true, {"vision"}, {"module vision has another number of layers or FLOP"}}},
      {"a module more",
       [](profile_file& now) { now.find_or_add("audio").layers = 1; },
       {true, true, {"audio"}, {"module audio is new"}}},
      {"a module less", [](profile_file& now) { now.modules.pop_back(); }, {}},
      {"the hardware",
       [](profile_file& now) { now.hardware = "8 x H200"; },
       {true, false, {"vision", "llm"}, {"the hardware was '8 x H100' and is '8 x H200'"}}},
      {"hardware, a model and data",
       [](profile_file& now) {
         now.hardware = "";
         now.modules[0].model = "vision-2";
         now.data = "docs";
       },
       {true,
        true,
        {"vision", "llm"},
        {"the hardware was '8 x H100' and is ''", "module vision was 'vision-1' and is 'vision-2'",
         "the data were 'coco' and are 'docs'"}}},
  };
  for (auto const& [what, apply, plan] : changes) {
    profile_file now = known();
    apply(now);
    EXPECT_EQ(ballast::reprofile(known(), now), plan)
        << what << ": " << testing::PrintToString(ballast::reprofile(known(), now).reasons);
  }
}

}  // namespace
