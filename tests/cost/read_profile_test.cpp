// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ballast/cost/parallel_degree.hpp>
#include <ballast/cost/read_profile.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace {

using ballast::error_code;
using ballast::load_profile;
using ballast::read_profile;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

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
  EXPECT_THAT(vision.degrees[0].linear, ElementsAre(ballast::speed_point{8, 210'000'000'000'000},
                                                    ballast::speed_point{64, 395'000'000'000'000}));
  EXPECT_THAT(vision.degrees[0].state, ElementsAre(ballast::memory_point{1, 0, 250'000'000},
                                                   ballast::memory_point{27, 0, 6'600'000'000}));
  auto const modules = ballast::modules_of(file).value();
  EXPECT_EQ(modules[0].boundary_bytes, 0U);
  auto const sending = read_profile(by_hand + "vision,,boundary_bytes,,,2e6\n").value();
  EXPECT_EQ(ballast::modules_of(sending).value()[0].boundary_bytes, 2'000'000U);
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
  EXPECT_THAT(degree.attention, ElementsAre(ballast::speed_point{7, 1000, 0, 1100, 100, 200}));
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
  EXPECT_FALSE(ballast::modules_of(file));
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

}  // namespace
