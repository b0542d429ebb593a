// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/profile_file.hpp>

#include "../support/test.hpp"

#include <ballast/cost/module_profile.hpp>

namespace {

using namespace ballast;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

profile_file complete()
{
  profile_file file;
  auto& llm = file.find_or_add("llm");
  llm.layers = 32;
  llm.flops = {.linear = 6'000'000'000, .quadratic = 500'000};
  auto& degree = llm.find_or_add({2});
  degree.linear = {{.size = 1024, .flop_per_second = 300}, {.size = 4096, .flop_per_second = 400}};
  degree.attention = {{.size = 2048, .flop_per_second = 100}};
  degree.state = {{.layers = 1, .bytes = 10}, {.layers = 2, .bytes = 20}};
  degree.activations = {{1, 1024, 5}, {1, 4096, 17}, {2, 1024, 10}, {2, 4096, 34}};
  return file;
}

TEST(ProfileFile, GivesTheCurvesThroughItsPoints)
{
  auto const modules = complete().profiles().value();
  ASSERT_EQ(modules.size(), 1U);
  EXPECT_EQ(modules[0].name, "llm");
  EXPECT_EQ(modules[0].layers, 32U);
  ASSERT_EQ(modules[0].degrees.size(), 1U);
  auto const& degree = modules[0].degrees[0];
  EXPECT_EQ(degree.tp, 2U);
  constexpr std::int64_t second = 1'000'000'000'000;
  EXPECT_EQ(degree.linear.picoseconds(300, 1024), second);
  EXPECT_EQ(degree.linear.picoseconds(350, 2560), second) << "halfway";
  EXPECT_EQ(degree.attention.picoseconds(100, 9), second);
  EXPECT_EQ(degree.memory.state(3), 30U);
  EXPECT_EQ(degree.memory.activations(2, 1024), 10U);
  EXPECT_EQ(degree.memory.activations(1, 2048), 9U);
}

TEST(ProfileFile, NeedsNoAttentionWhereThereIsNone)
{
  auto file = complete();
  file.modules[0].flops.quadratic = 0;
  file.modules[0].degrees[0].attention.clear();
  EXPECT_TRUE(file.profiles());
}

TEST(ProfileFile, SaysWhatIsNotMeasuredYet)
{
  using degree = profile_file::measured_degree;
  auto const expect_refused = [](auto const& spoil, char const* why) {
    profile_file file = complete();
    if constexpr (std::invocable<decltype(spoil), degree&>) {
      spoil(file.modules[0].degrees[0]);
    } else {
      spoil(file);
    }
    auto const modules = file.profiles();
    ASSERT_FALSE(modules) << why;
    EXPECT_THAT(modules.error().message, HasSubstr(why));
  };
  expect_refused([](profile_file& f) { f = {}; }, "no module");
  expect_refused([](profile_file& f) { f.modules[0].layers = 0; }, "module llm has no layers");
  expect_refused([](profile_file& f) { f.modules[0].degrees.clear(); }, "at no parallel degree");
  expect_refused([](degree& d) { d.linear.clear(); },
                 "module llm at tp 2: has no linear_flop_per_second");
  expect_refused([](degree& d) { d.attention.clear(); }, "but no attention_flop_per_second");
  expect_refused([](degree& d) { d.state.pop_back(); }, "has 1 state_bytes; give two");
  expect_refused([](degree& d) { d.activations.pop_back(); },
                 "has 3 activation_bytes; give four, of 1 and 2 layers");
  expect_refused([](degree& d) { d.activations[3].size = 5000; }, "each at the same two sizes");
  expect_refused(
      [](degree& d) {
        d.linear.clear();
        for (tokens size = 1; size <= 33; ++size) { d.linear.push_back({.size = size}); }
      },
      "at tp 2: linear_flop_per_second: a throughput axis has 33 positions; give 1 to 32");
}

TEST(ProfileFile, NamesTheModuleThatIsRefused)
{
  auto file = complete();
  file.find_or_add("encoder").layers = 3;
  auto const modules = file.profiles();
  ASSERT_FALSE(modules);
  EXPECT_EQ(modules.error().position, 1U);
}

TEST(ProfileFile, FindsModulesByName)
{
  auto file = complete();
  EXPECT_EQ(file.find("encoder"), nullptr);
  EXPECT_EQ(file.find("llm"), file.modules.data());
  EXPECT_EQ(&file.find_or_add("llm"), file.modules.data());
  file.find_or_add("encoder").layers = 1;
  ASSERT_EQ(file.modules.size(), 2U);
  EXPECT_EQ(file.modules[1].name, "encoder");
}

TEST(ProfileFile, KeepsDegreesAndPointsInOrder)
{
  ballast::profile_file::measured_module module;
  for (std::uint32_t const tp : {4U, 1U, 2U, 4U, 1U}) { module.find_or_add({tp}).tp = tp; }
  ASSERT_EQ(module.degrees.size(), 3U);
  EXPECT_EQ(module.degrees[0].tp, 1U);
  EXPECT_EQ(module.degrees[1].tp, 2U);
  EXPECT_EQ(module.degrees[2].tp, 4U);

  std::vector<profile_file::speed_point> speeds;
  EXPECT_TRUE(ballast::profile_file::add(speeds, profile_file::speed_point{.size = 20}));
  EXPECT_TRUE(ballast::profile_file::add(speeds, profile_file::speed_point{.size = 10}));
  EXPECT_FALSE(ballast::profile_file::add(
      speeds, profile_file::speed_point{.size = 20, .flop_per_second = 7}));
  EXPECT_THAT(speeds, ElementsAre(profile_file::speed_point{.size = 10},
                                  profile_file::speed_point{.size = 20}));

  std::vector<profile_file::memory_point> held;
  EXPECT_TRUE(ballast::profile_file::add(held, profile_file::memory_point{2, 10, 1}));
  EXPECT_TRUE(ballast::profile_file::add(held, profile_file::memory_point{1, 20, 1}));
  EXPECT_TRUE(ballast::profile_file::add(held, profile_file::memory_point{1, 10, 1}));
  EXPECT_FALSE(ballast::profile_file::add(held, profile_file::memory_point{1, 20, 5}));
  EXPECT_THAT(
      held, ElementsAre(profile_file::memory_point{1, 10, 1}, profile_file::memory_point{1, 20, 1},
                        profile_file::memory_point{2, 10, 1}));
}

// docs/profile.md shows it.
std::string const by_hand = R"(module,tp,quantity,layers,size,value
,,hardware,,,8 x H100
vision,,layers,,,27
vision,,linear_flop,,,1.9e12
vision,1,linear_flop_per_second,,8,210e12
vision,1,linear_flop_per_second,,64,395e12
vision,1,state_bytes,1,,250e6
vision,1,state_bytes,27,,6.6e9
vision,1,activation_bytes,1,8,90e6
vision,1,activation_bytes,1,64,720e6
vision,1,activation_bytes,27,8,2430e6
vision,1,activation_bytes,27,64,19440e6
)";

std::string const header = "module,tp,quantity,layers,size,value\n";

TEST(ReadProfile, ReadsWhatIsWrittenByHand)
{
  auto const file = read_profile(by_hand).value();
  EXPECT_EQ(file.hardware, "8 x H100");
  EXPECT_EQ(file.data, "");
  ASSERT_EQ(file.modules.size(), 1U);
  auto const& vision = file.modules[0];
  EXPECT_EQ(vision.name, "vision");
  EXPECT_EQ(vision.layers, 27U);
  EXPECT_EQ(vision.flops, (ballast::flop_polynomial{1'900'000'000'000, 0}));
  ASSERT_EQ(vision.degrees.size(), 1U);
  EXPECT_THAT(vision.degrees[0].linear,
              ElementsAre(ballast::profile_file::speed_point{8, 210'000'000'000'000},
                          ballast::profile_file::speed_point{64, 395'000'000'000'000}));
  EXPECT_THAT(vision.degrees[0].state,
              ElementsAre(ballast::profile_file::memory_point{1, 0, 250'000'000},
                          ballast::profile_file::memory_point{27, 0, 6'600'000'000}));
  auto const modules = file.profiles().value();
  EXPECT_EQ(modules[0].boundary_bytes, 0U);
  auto const sending = read_profile(by_hand + "vision,,boundary_bytes,,,2e6\n").value();
  EXPECT_EQ(sending.profiles().value()[0].boundary_bytes, 2'000'000U);
  EXPECT_EQ(modules[0].weights_percent, 50U);
  EXPECT_EQ(modules[0].held_percent, 100U);
  std::string const split = by_hand + "vision,,weights_percent,,,40\nvision,,held_percent,,,25\n";
  auto const parts = read_profile(split).value();
  EXPECT_EQ(parts.profiles().value()[0].weights_percent, 40U);
  EXPECT_EQ(parts.profiles().value()[0].held_percent, 25U);
  EXPECT_EQ(read_profile(write_profile(parts)).value(), parts);
  for (char const* const name : {"weights_percent", "held_percent"}) {
    for (char const* const value : {"0", "101"}) {
      EXPECT_THAT(read_profile(by_hand + "vision,," + name + ",,," + value + "\n").error().message,
                  HasSubstr(name));
    }
  }
  EXPECT_EQ(modules[0].degrees[0].memory.activations(27, 64), 19'440'000'000U);
}

TEST(ReadProfile, TakesColumnsInAnyOrderAndLeavesOthersAlone)
{
  auto const file = read_profile(
                        "note,value,size,layers,quantity,tp,module,backward_ns,forward_ns,"
                        "upper_quartile,lower_quartile\n"
                        "mine,1e3,7,,attention_flop_per_second,2,llm,200.4,100,1.1e3,\n")
                        .value();
  auto const& degree = file.modules.at(0).degrees.at(0);
  EXPECT_EQ(degree.tp, 2U);
  EXPECT_THAT(degree.attention,
              ElementsAre(ballast::profile_file::speed_point{7, 1000, 0, 1100, 100, 200}));
}

TEST(ReadProfile, TakesGroupsOfSequenceAndExpertParallelism)
{
  auto const file = read_profile(
                        "module,ep,tp,sp,quantity,layers,size,value\n"
                        "llm,,,,layers,,,32\n"
                        "llm,,2,4,linear_flop_per_second,,16,5e12\n"
                        "llm,1,2,,linear_flop_per_second,,16,2e12\n"
                        "llm,8,2,,linear_flop_per_second,,16,3e12\n"
                        "llm,8,2,1,linear_flop_per_second,,32,4e12\n")
                        .value();
  auto const& degrees = file.modules.at(0).degrees;
  ASSERT_EQ(degrees.size(), 3U);
  EXPECT_EQ(degree_of(degrees[0]), (ballast::parallel_degree{2, 1, 1}));
  EXPECT_EQ(degree_of(degrees[1]), (ballast::parallel_degree{2, 1, 8}));
  EXPECT_EQ(degree_of(degrees[2]), (ballast::parallel_degree{2, 4, 1}));
  EXPECT_EQ(degrees[1].linear.size(), 2U);
}

TEST(ReadProfile, ReadsWhatIsNotComplete)
{
  EXPECT_EQ(read_profile(header).value(), ballast::profile_file());
  auto const file = read_profile(header + ",,schema,,,1\nllm,,layers,,,2\n").value();
  EXPECT_EQ(file.modules.at(0).layers, 2U);
  EXPECT_EQ(file.modules.at(0).boundary_bytes, 0U);
  EXPECT_FALSE(file.profiles());
}

void expect_refused(std::string const& csv, std::size_t line, std::string const& why)
{
  auto const file = read_profile(csv);
  ASSERT_FALSE(file) << csv;
  EXPECT_EQ(file.error().code, error_code::bad_row);
  EXPECT_EQ(file.error().position, line) << csv;
  EXPECT_THAT(file.error().message,
              AllOf(StartsWith("line " + std::to_string(line) + ": "), HasSubstr(why)));
}

TEST(ReadProfile, NamesTheFirstBadRow)
{
  for (std::string const empty : {"", "\r", "\n\n"}) {
    expect_refused(empty, 1, "there is no header; write module,tp,quantity,layers,size,value");
  }
  expect_refused("module,tp,layers,size,value\n", 1, "no column 'quantity'");
  expect_refused("module,tp,quantity,layers,size,value,tp\n", 1, "two columns 'tp'");
  expect_refused(header + "llm,,layers,,2\n", 2, "the number of fields is 5");
  expect_refused(header + "llm,,layer,,,2\n", 2, "holds 'layer'; write one of schema, hardware");
  expect_refused(header + "llm,,layers,,,\n", 2, "column 'value' of layers is empty");
  expect_refused(header + ",,layers,,,2\n", 2, "column 'module' of layers is empty");
  expect_refused(header + "llm,,layers,,7,2\n", 2, "but layers has none; leave it empty");
  expect_refused(header + "llm,,layers,,,2.5\n", 2, "holds '2.5', expected a whole number from 1");
  expect_refused(header + "llm,,layers,,,two\n", 2, "column 'value' of layers holds 'two'");
  expect_refused(header + "llm,,layers,,,2\n\nllm,,layers,,,2\n", 4, "is there already");
  expect_refused(header + ",,hardware,,,a\n,,hardware,,,b\n", 3, "hardware is there already");
  expect_refused(header + ",,schema,,,2\n", 2, "from 1 to 1");
  expect_refused(header + "llm,0,state_bytes,1,,2\n", 2, "column 'tp' of state_bytes holds '0'");
  expect_refused(header + "llm,1,linear_flop_per_second,,0,2\n", 2, "column 'size'");
  expect_refused(header + "llm,1,linear_flop_per_second,,1,2e18\n", 2, "to 1000000000000000000");
  expect_refused(header + "llm,1,linear_flop_per_second,,1,2\nllm,1,linear_flop_per_second,,1,3\n",
                 3, "linear_flop_per_second is there already");
  expect_refused(header + "llm,1,activation_bytes,1,5,2\nllm,1,activation_bytes,1,5,2\n", 3,
                 "activation_bytes is there already");
  std::string const with_groups = "module,tp,quantity,layers,size,value,sp,ep\n";
  expect_refused(with_groups + "llm,2,state_bytes,1,,2,0,\n", 2, "'sp' of state_bytes holds '0'");
  expect_refused(with_groups + "llm,2,state_bytes,1,,2,,x\n", 2, "'ep' of state_bytes holds 'x'");
  expect_refused(with_groups + "llm,,state_bytes,1,,2,2,2\n", 2, "'tp' of state_bytes is empty");
  expect_refused(with_groups + "llm,,layers,,,2,2,\n", 2, "but layers has none; leave it empty");
  expect_refused(with_groups + "llm,65536,state_bytes,1,,2,32768,\n", 2, "takes 2^31 GPUs or more");
  expect_refused(with_groups + "llm,2,state_bytes,1,,2,2,\nllm,2,state_bytes,1,,2,2,1\n", 3,
                 "is there already");
  expect_refused(header + "\"llm,,layers,,,2\n", 2, "never closed");
}

TEST(ReadProfile, NotesWhatLiesFarFromItsNeighbours)  // Ensures (3)
{
  EXPECT_THAT(read_profile(by_hand).value().notes, testing::IsEmpty());
  std::string const at_2 = "vision,2,linear_flop_per_second,,";
  auto const file = read_profile(by_hand + at_2 + "8,190\n" + at_2 + "64,380\n").value();
  EXPECT_THAT(file.notes,
              ElementsAre("line 13: linear_flop_per_second of 'vision' at tp 2 is 190, more than "
                          "100 times below the 210000000000000 of line 5; correct the one that "
                          "is wrong"));
  // Of two, each may be the wrong one; memory too, where GPUs and layers are more.
  EXPECT_THAT(read_profile(header + "a,1,attention_flop_per_second,,8,380\n" +
                           "a,1,attention_flop_per_second,,16,380e12\n")
                  .value()
                  .notes,
              ElementsAre(AllOf(StartsWith("line 2: "), HasSubstr("below the 380000000000000 of "
                                                                  "line 3"))));
  EXPECT_THAT(read_profile(by_hand + "vision,8,state_bytes,27,,6\n").value().notes,
              ElementsAre(StartsWith("line 13: state_bytes of 'vision' at tp 8 is 6, more")));
  // A hundred times is no fault where sizes, layers and GPUs are as many times more.
  for (std::string const row :
       {"vision,1,linear_flop_per_second,,1,2e12\n", "vision,64,state_bytes,1,,4e6\n",
        "vision,8,activation_bytes,1,1,2e6\n"}) {
    EXPECT_THAT(read_profile(by_hand + row).value().notes, testing::IsEmpty()) << row;
  }
  auto const shipped = load_profile(BALLAST_SOURCE_DIR "/examples/layout_profile.csv").value();
  EXPECT_THAT(shipped.notes, testing::IsEmpty());
}

TEST(ReadProfile, LoadsFiles)
{
  auto const path = std::filesystem::temp_directory_path() / "ballast_read_profile_test.csv";
  std::ofstream(path) << by_hand;
  EXPECT_EQ(load_profile(path.string()).value(), read_profile(by_hand).value());
  std::ofstream(path, std::ios::binary) << by_hand.substr(0, by_hand.size() - 1);
  EXPECT_EQ(load_profile(path.string()).error().code, error_code::bad_row);
  EXPECT_THAT(load_profile(path.string()).error().message, HasSubstr("has no end, as in a file"));
  std::ofstream(path) << "a\n";
  EXPECT_THAT(load_profile(path.string()).error().message,
              StartsWith(path.string() + ": line 1: there is no column 'module'"));
  std::filesystem::remove(path);
  EXPECT_EQ(load_profile(path.string()).error().code, error_code::unreadable);
}

TEST(WriteProfile, WritesOneRowPerMeasurement)
{
  profile_file file;
  file.hardware = "2 cores, one socket";
  auto& llm = file.find_or_add("llm");
  llm.model = "transformer:d=64";
  llm.layers = 2;
  llm.flops = {.linear = 7, .quadratic = 3};
  llm.boundary_bytes = 8192;
  auto& degree = llm.find_or_add({4});
  degree.linear = {{16, 1000, 900, 1100, 50, 100}};
  degree.attention = {{32, 500}};
  degree.state = {{1, 0, 0}};
  degree.activations = {{1, 16, 8}};
  EXPECT_EQ(write_profile(file),
            "module,tp,quantity,layers,size,value,lower_quartile,upper_quartile,forward_ns,"
            "backward_ns\n"
            ",,schema,,,1,,,,\n"
            ",,hardware,,,\"2 cores, one socket\",,,,\n"
            "llm,,model,,,transformer:d=64,,,,\n"
            "llm,,layers,,,2,,,,\n"
            "llm,,linear_flop,,,7,,,,\n"
            "llm,,quadratic_flop,,,3,,,,\n"
            "llm,,boundary_bytes,,,8192,,,,\n"
            "llm,4,linear_flop_per_second,,16,1000,900,1100,50,100\n"
            "llm,4,attention_flop_per_second,,32,500,,,,\n"
            "llm,4,state_bytes,1,,0,,,,\n"
            "llm,4,activation_bytes,1,16,8,,,,\n");
  EXPECT_EQ(read_profile(write_profile(file)).value(), file);

  // Groups of sequence and expert parallelism have columns of their own, where there are any.
  llm.find_or_add({4, 2, 8}).state = {{1, 0, 7}};
  auto const with_groups = write_profile(file);
  EXPECT_NE(with_groups.find("forward_ns,backward_ns,sp,ep\n"), std::string::npos);
  EXPECT_NE(with_groups.find("llm,4,state_bytes,1,,0,,,,,1,1\n"), std::string::npos);
  EXPECT_NE(with_groups.find("llm,4,state_bytes,1,,7,,,,,2,8\n"), std::string::npos);
  EXPECT_NE(with_groups.find(",,schema,,,1,,,,,,\n"), std::string::npos);
  EXPECT_EQ(read_profile(with_groups).value(), file);
}

RC_GTEST_PROP(WriteProfile, IsReadBack,
              (std::string const& hardware, std::string const& data, std::string const& model))
{
  profile_file file;
  file.hardware = hardware;
  file.data = data;
  auto const modules = *rc::gen::inRange(0, 4);
  for (int each = 0; each < modules; ++each) {
    auto& module = file.find_or_add("\"module\", " + std::to_string(each));
    module.model = model;
    module.layers = *rc::gen::inRange<std::uint32_t>(1, 100);
    module.flops.linear = *rc::gen::inRange<std::uint64_t>(1, std::uint64_t{1} << 63);
    module.flops.quadratic = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 63);
    module.boundary_bytes = *rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 53);
    auto const points = *rc::gen::inRange(0, 20);
    for (int point = 0; point < points; ++point) {
      auto const draw = [](std::uint32_t most) {
        return *rc::gen::inRange<std::uint32_t>(1, most + 1);
      };
      auto& degree = module.find_or_add({draw(4), draw(2), draw(2)});
      auto const size = *rc::gen::inRange<ballast::tokens>(1, 40);
      auto const value = *rc::gen::inRange<std::uint64_t>(1, 1'000'000'000'000'000'001);
      auto const ns = *rc::gen::inRange<std::uint64_t>(0, 3);
      (void)ballast::profile_file::add(point % 2 == 0 ? degree.linear : degree.attention,
                                       {size, value, ns, value, ns + 1, ns});
      (void)ballast::profile_file::add(degree.state, {static_cast<std::uint32_t>(size), 0, value});
      (void)ballast::profile_file::add(degree.activations, {1, size - 1, ns});
    }
  }
  auto const again = read_profile(write_profile(file));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == file);
}

}  // namespace
