// SPDX-License-Identifier: Apache-2.0
// Copies of the tree with one fault each: the rule that it breaks reports it, and no other does.
#include "floors.hpp"
#include "libraries.hpp"
#include "own_includes.hpp"
#include "rooms.hpp"
#include "sample_code.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using structure::in;
using structure::problems;
using structure::source_file;
using testing::ElementsAre;

using source_files = std::vector<source_file>;
using rule = problems (*)(source_files const&);

constexpr auto rules = std::to_array<rule>(
    {structure::misplaced_headers, structure::leaked_internals, structure::crowded_folders,
     structure::stray_libraries, structure::upward_includes_of_all, structure::unclean_includes});

// What each rule finds.
std::array<problems, rules.size()> check(source_files const& files)
{
  std::array<problems, rules.size()> found;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    found[i] = rules[i](files);
    std::ranges::sort(found[i]);
  }
  return found;
}

source_files const& sound()
{
  static source_files const files = structure::whole_tree();
  return files;
}

// "rule 3: ..." for all that the rules find in the copy and not in the tree itself.
problems new_faults(source_files const& copy)
{
  static auto const before = check(sound());
  auto const after = check(copy);
  problems found;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    problems only;
    std::ranges::set_difference(after[i], before[i], std::back_inserter(only));
    for (std::string const& each : only) {
      found.push_back("rule " + std::to_string(i + 1) + ": " + each);
    }
  }
  return found;
}

source_files with(std::string const& path, std::string const& before, std::string const& after = "")
{
  source_files copy = sound();
  auto const file = std::ranges::find(copy, path, &source_file::path);
  if (file == copy.end()) { throw std::runtime_error("no file " + path); }
  file->text = before + file->text + after;
  return copy;
}

source_files without(std::string const& path, std::string const& text)
{
  source_files copy = sound();
  auto const file = std::ranges::find(copy, path, &source_file::path);
  if (file == copy.end()) { throw std::runtime_error("no file " + path); }
  file->text.erase(file->text.find(text), text.size());
  return copy;
}

std::string const ids = "ballast/core/ids.hpp";
std::string const sorting = "ballast/core/detail/radix_sort.hpp";

TEST(BrokenCopies, OfRule1HaveADoorAmongInternalsOrTheReverse)
{
  EXPECT_THAT(new_faults(with(sorting, "", in("", "using stray = int;"))),
              ElementsAre("rule 1: " + sorting +
                          ": lies under detail/ and declares the public name stray"));
  source_files copy = sound();
  copy.push_back({"ballast/core/stray.hpp", in("::detail", "using stray = int;")});
  EXPECT_THAT(new_faults(copy),
              ElementsAre("rule 1: ballast/core/stray.hpp: has no public name and does not lie "
                          "under detail/"));
}

TEST(BrokenCopies, OfRule2NameAnInternalOutsideOfTheLibrary)
{
  std::string const include = "#include <" + sorting + ">\n";
  EXPECT_THAT(new_faults(with("examples/first_plan.cpp", include)),
              ElementsAre("rule 2: examples/first_plan.cpp: names the internal header "
                          "detail/radix_sort.hpp"));
  EXPECT_THAT(new_faults(with("README.md", "", "\nSee `detail::radix_sort`.\n")),
              ElementsAre("rule 2: README.md: names the internal detail::radix_sort"));
  EXPECT_THAT(
      new_faults(with("ballast/core.hpp", include)),
      ElementsAre("rule 2: ballast/core.hpp: includes " + sorting + ", which is an internal"));
}

TEST(BrokenCopies, OfRule3HaveACrowdedFolder)
{
  source_files copy = sound();
  auto const crowd = std::ranges::count_if(
      copy, [](source_file const& file) { return file.path.starts_with("ballast/core/detail/"); });
  for (auto i = crowd; i < 31; ++i) {
    std::string const name = "stray_" + std::to_string(i);
    copy.push_back({"ballast/core/detail/" + name + ".hpp",
                    in("::detail", "inline constexpr int " + name + " = 0;")});
  }
  EXPECT_THAT(new_faults(copy),
              ElementsAre("rule 3: ballast/core/detail: holds 31 headers, more than 30"));
}

TEST(BrokenCopies, OfRule4NeedADeviceLibraryElsewhere)
{
  for (std::string const library : {"cuda_runtime.h", "nccl.h", "nvtx3/nvToolsExt.h", "mpi.h"}) {
    EXPECT_THAT(new_faults(with(ids, "#include <" + library + ">\n")),
                ElementsAre("rule 4: " + ids + ": includes <" + library +
                            ">, which this folder may not need"));
  }
}

TEST(BrokenCopies, OfRule5IncludeALowerFloor)
{
  EXPECT_THAT(new_faults(with(ids, "#include <ballast/cost/flops.hpp>\n",
                              in("", "using stray = flop_polynomial;"))),
              ElementsAre("rule 5: " + ids +
                          ": includes <ballast/cost/flops.hpp>, which is on a lower floor"));
  EXPECT_THAT(new_faults(with(ids, "#include <ballast/ballast.hpp>\n")),
              ElementsAre("rule 5: " + ids +
                          ": includes <ballast/ballast.hpp>, an umbrella on a lower floor"));
}

TEST(BrokenCopies, OfRule6LackAnIncludeOrHaveOneTooMany)
{
  EXPECT_THAT(new_faults(without(ids, "#include <ballast/core/config.hpp>\n")),
              ElementsAre("rule 6: " + ids +
                          ": uses BALLAST_HOST_DEVICE without <ballast/core/config.hpp>"));
  EXPECT_THAT(
      new_faults(without("ballast/topology/bag_layout.hpp", "#include <ballast/core/ids.hpp>\n")),
      testing::Contains(testing::HasSubstr("without <ballast/core/ids.hpp>")));
  EXPECT_THAT(new_faults(with(ids, "#include <ballast/core/digest.hpp>\n")),
              ElementsAre("rule 6: " + ids +
                          ": includes <ballast/core/digest.hpp> and uses nothing of it"));
}

}  // namespace
