// SPDX-License-Identifier: Apache-2.0
#include <ballast/runtime/model_profiler.hpp>

#include "../support/test.hpp"

namespace {

using ballast::find_or_add_module;
using ballast::profile_file;
using ballast::reprofile;
using ballast::reprofile_plan;

using strings = std::vector<std::string>;

profile_file known()
{
  profile_file file;
  file.hardware = "8 x H100";
  file.data = "coco";
  for (std::string const name : {"vision", "llm"}) {
    auto& module = find_or_add_module(file, name);
    module.model = name + "-1";
    module.layers = 4;
    module.flops = {.linear = 10};
  }
  return file;
}

struct change {
  std::string what;
  std::function<void(profile_file&)> apply;
  reprofile_plan plan;
};

TEST(Reprofile, SaysWhatAndWhy)
{
  std::vector<change> const changes = {
      {"nothing", [](profile_file&) {}, {}},
      {"measurements",
       [](profile_file& now) {
         ballast::find_or_add_degree(now.modules[0], {2}).linear = {{8, 5}};
       },
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
       [](profile_file& now) { find_or_add_module(now, "audio").layers = 1; },
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
    EXPECT_EQ(reprofile(known(), now), plan)
        << what << ": " << testing::PrintToString(reprofile(known(), now).reasons);
  }
}

}  // namespace
