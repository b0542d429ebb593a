// SPDX-License-Identifier: Apache-2.0
#include "../support/test.hpp"
#include "source_tree.hpp"

namespace {

using structure::problems;
using structure::source_file;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A test includes each door and each umbrella; internals are tested through doors.
problems untested(std::vector<source_file> const& headers, std::vector<source_file> const& tests)
{
  std::set<std::string> included;
  for (source_file const& test : tests) {
    for (auto const& [name, quoted] : structure::includes_of(test)) { included.insert(name); }
  }
  for (source_file const& header : headers) {
    if (header.path != "ballast/core.hpp") { continue; }  // which is the tests' prelude too
    for (auto const& [name, quoted] : structure::includes_of(header)) { included.insert(name); }
  }
  problems found;
  for (source_file const& header : headers) {
    if (!structure::is_internal(header.path) && !included.contains(header.path)) {
      found.push_back(header.path + ": is what no test includes");
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

TEST(Doors, AreIncludedByTests)
{
  EXPECT_THAT(untested(structure::public_headers(),
                       structure::read_tree(structure::root() / "tests", {".cpp", ".hpp", ".cu"})),
              IsEmpty());
}

TEST(Headers, ThatNeedNvccComeFirstInTheirTests)
{
  EXPECT_THAT(of_device_tests(structure::public_headers(),
                              structure::read_tree(structure::root() / "tests", {".cu"})),
              IsEmpty());
}

// From here on: the checks themselves, on headers without tests.

TEST(HeaderTests, IncludeDoorsAndUmbrellas)
{
  std::vector<source_file> const headers = {
      {"ballast/cost.hpp", ""}, {"ballast/cost/a.hpp", ""}, {"ballast/cost/detail/b.hpp", ""}};
  EXPECT_THAT(untested(headers, {{"a_test.cpp",
                                  "#include <ballast/cost.hpp>\n#include <ballast/cost/a.hpp>\n"}}),
              IsEmpty());
  EXPECT_THAT(untested(headers, {{"cost_test.cpp", "#include <ballast/cost/a.hpp>\n"}}),
              ElementsAre("ballast/cost.hpp: is what no test includes"));
  EXPECT_THAT(untested(headers, {}), SizeIs(2));
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
