// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "floors.hpp"
#include "source_tree.hpp"

#include <filesystem>

namespace {

using structure::problems;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Where a header's test may be: tests/core/ids_test.cpp for ballast/core/ids.hpp. Those of what
// needs MPI, NCCL or LibTorch, and what only a GPU can tell of kernels, have folders of their own.
std::vector<std::string> places_of_test(std::string const& header)
{
  auto const path = std::filesystem::path(header).lexically_relative("ballast");
  std::string const name = path.stem().generic_string() + "_test";
  auto const folder = path.has_parent_path() ? path.parent_path() : "structure";
  std::string const mirrored = (folder / name).generic_string();
  std::vector<std::string> places = {mirrored + ".cpp", mirrored + ".cu"};
  if (header.starts_with("ballast/comm/")) { places.push_back("mpi/" + name + ".cpp"); }
  if (header.starts_with("ballast/gpu/")) { places.push_back("nccl/" + name + ".cpp"); }
  if (header.starts_with("ballast/interop/")) { places.push_back("torch/" + name + ".cpp"); }
  if (header.ends_with(".cuh")) { places.push_back("device/" + name + ".cu"); }
  return places;
}

// Doors have a test each; internals are tested through them. Of an umbrella a test has to include
// it.
problems of_tests(std::vector<source_file> const& headers, std::vector<source_file> const& tests)
{
  std::set<std::string> paths;
  std::set<std::string> included;
  for (source_file const& test : tests) {
    paths.insert(test.path);
    for (auto const& [name, quoted] : structure::includes_of(test)) { included.insert(name); }
  }
  problems found;
  for (source_file const& header : headers) {
    if (structure::is_umbrella(header.path)) {
      if (!included.contains(header.path)) {
        found.push_back(header.path + ": is what no test includes");
      }
      continue;
    }
    if (structure::is_internal(header.path)) { continue; }
    auto const places = places_of_test(header.path);
    if (std::ranges::none_of(places, [&](auto const& place) { return paths.contains(place); })) {
      found.push_back(header.path + ": has no tests/" + places.front());
    }
  }
  return found;
}

// nvcc sees headers in company only (tests/headers): one that is for nvcc alone must come first in
// a test, so that it is known to stand alone.
problems of_device_tests(std::vector<source_file> const& headers,
                         std::vector<source_file> const& tests)
{
  std::set<std::string> first;
  for (source_file const& test : tests) {
    auto const includes = structure::includes_of(test);
    if (!includes.empty()) { first.insert(includes.front().name); }
  }
  problems found;
  for (source_file const& header : headers) {
    if (header.path.ends_with(".cuh") && !first.contains(header.path)) {
      found.push_back(header.path + ": is what no test includes first");
    }
  }
  return found;
}

TEST(Doors, HaveATestEach)
{
  EXPECT_THAT(of_tests(structure::public_headers(),
                       structure::read_tree(structure::root() / "tests", {".cpp", ".cu"})),
              IsEmpty());
}

TEST(Headers, ThatNeedNvccComeFirstInTheirTests)
{
  EXPECT_THAT(of_device_tests(structure::public_headers(),
                              structure::read_tree(structure::root() / "tests", {".cu"})),
              IsEmpty());
}

// From here on: the checks themselves, on headers without tests.

TEST(HeaderTests, AreMissedByName)
{
  std::vector<source_file> const headers = {{"ballast/core/a.hpp", ""},
                                            {"ballast/core/detail/d.hpp", ""},
                                            {"ballast/cuda/b/b.hpp", ""},
                                            {"ballast/version.hpp", ""}};
  EXPECT_THAT(of_tests(headers, {{"core/a_test.cpp", ""},
                                 {"cuda/b/b_test.cu", ""},
                                 {"structure/version_test.cpp", ""}}),
              IsEmpty());
  EXPECT_THAT(of_tests(headers, {{"core/b_test.cpp", ""}, {"cuda/b_test.cpp", ""}}),
              ElementsAre(HasSubstr("tests/core/a_test.cpp"), HasSubstr("tests/cuda/b/b_test.cpp"),
                          HasSubstr("tests/structure/version_test.cpp")));
}

TEST(HeaderTests, OfWhatRunsOnADeviceMayBeThere)
{
  std::vector<source_file> const headers = {{"ballast/cuda/a.cuh", ""}, {"ballast/cuda/b.hpp", ""}};
  EXPECT_THAT(of_tests(headers, {{"device/a_test.cu", ""}, {"device/b_test.cu", ""}}),
              ElementsAre(HasSubstr("tests/cuda/b_test.cpp")));
}

TEST(HeaderTests, OfWhatNeedsALibraryMayBeWithIt)
{
  std::vector<source_file> const headers = {{"ballast/comm/mpi_a.hpp", ""},
                                            {"ballast/gpu/b.hpp", ""},
                                            {"ballast/core/c.hpp", ""},
                                            {"ballast/interop/d.hpp", ""}};
  EXPECT_THAT(of_tests(headers, {{"mpi/mpi_a_test.cpp", ""},
                                 {"nccl/b_test.cpp", ""},
                                 {"mpi/c_test.cpp", ""},
                                 {"torch/d_test.cpp", ""}}),
              ElementsAre(HasSubstr("tests/core/c_test.cpp")));
}

TEST(HeaderTests, OfUmbrellasIncludeThem)
{
  std::vector<source_file> const headers = {{"ballast/core.hpp", ""}, {"ballast/cost.hpp", ""}};
  EXPECT_THAT(
      of_tests(headers, {{"a_test.cpp", "#include <ballast/core.hpp>\n"}, {"cost_test.cpp", ""}}),
      ElementsAre(HasSubstr("ballast/cost.hpp: is what no test includes")));
}

TEST(DeviceHeaderTests, BeginWithTheHeader)
{
  std::vector<source_file> const headers = {{"ballast/cuda/a.cuh", ""}, {"ballast/cuda/b.hpp", ""}};
  std::string const own = "#include <ballast/cuda/a.cuh>\n";
  EXPECT_THAT(of_device_tests(headers, {{"device/a_test.cu", own + "#include <vector>\n"}}),
              IsEmpty());
  EXPECT_THAT(of_device_tests(headers, {{"device/a_test.cu", "#include <vector>\n" + own}}),
              ElementsAre(HasSubstr("ballast/cuda/a.cuh")));
  EXPECT_THAT(of_device_tests(headers, {{"device/a_test.cu", ""}}), SizeIs(1));
}

}  // namespace
