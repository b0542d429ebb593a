// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <ballast/cost/read_profile.hpp>
#include <ballast/cost/write_profile.hpp>

#include <cstdint>
#include <string>

namespace {

using ballast::profile_file;
using ballast::read_profile;
using ballast::write_profile;

TEST(WriteProfile, WritesOneRowPerMeasurement)
{
  profile_file file;
  file.hardware = "2 cores, one socket";
  auto& llm = ballast::find_or_add_module(file, "llm");
  llm.model = "transformer:d=64";
  llm.layers = 2;
  llm.flops = {.linear = 7, .quadratic = 3};
  llm.boundary_bytes = 8192;
  auto& degree = ballast::find_or_add_degree(llm, {4});
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
  ballast::find_or_add_degree(llm, {4, 2, 8}).state = {{1, 0, 7}};
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
    auto& module = ballast::find_or_add_module(file, "\"module\", " + std::to_string(each));
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
      auto& degree = ballast::find_or_add_degree(module, {draw(4), draw(2), draw(2)});
      auto const size = *rc::gen::inRange<ballast::tokens>(1, 40);
      auto const value = *rc::gen::inRange<std::uint64_t>(1, 1'000'000'000'000'000'001);
      auto const ns = *rc::gen::inRange<std::uint64_t>(0, 3);
      (void)ballast::add_point(point % 2 == 0 ? degree.linear : degree.attention,
                               {size, value, ns, value, ns + 1, ns});
      (void)ballast::add_point(degree.state, {static_cast<std::uint32_t>(size), 0, value});
      (void)ballast::add_point(degree.activations, {1, size - 1, ns});
    }
  }
  auto const again = read_profile(write_profile(file));
  RC_ASSERT(again.has_value());
  RC_ASSERT(*again == file);
}

}  // namespace
