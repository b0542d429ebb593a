// SPDX-License-Identifier: Apache-2.0
#include "umbrellas.hpp"
#include "source_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using structure::source_file;
using structure::wrong_umbrellas;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Umbrellas, IncludeTheDoorsOfTheirFloors)
{
  EXPECT_THAT(wrong_umbrellas(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on umbrellas that are wrong.

structure::problems of_umbrellas(std::string const& core, std::string const& comm,
                                 std::string const& main)
{
  return wrong_umbrellas({{"ballast/ballast.hpp", main},
                          {"ballast/comm.hpp", comm},
                          {"ballast/comm/m.hpp", "#include <ballast/comm/n.hpp>\n"},
                          {"ballast/comm/n.hpp", "#include <mpi.h>\n"},
                          {"ballast/comm/t.hpp", "#include <boost/any.hpp>\n"},
                          {"ballast/core.hpp", core},
                          {"ballast/core/a.hpp", "#include <vector>\n"},
                          {"ballast/core/detail/d.hpp", ""},
                          {"ballast/core/sub/e.hpp", "#include <tl/expected.hpp>\n"},
                          {"ballast/cuda/k.cuh", ""},
                          {"ballast/interop/r.hpp", ""},
                          {"ballast/version.hpp", ""}});
}

std::string const core = "#include <ballast/core/a.hpp>\n#include <ballast/core/sub/e.hpp>\n";
std::string const comm = "#include <ballast/comm/t.hpp>\n";

TEST(Umbrella, ReportsWhatItLacksAndWhatItMustNotHave)
{
  auto const check = [](std::string const& main) { return of_umbrellas(core, comm, main); };
  EXPECT_THAT(check(core + "#include <ballast/version.hpp>\n"), IsEmpty());
  EXPECT_THAT(check(""), IsEmpty());  // of the main path, not of all doors
  EXPECT_THAT(check("#include <ballast/core/gone.hpp>\n"), ElementsAre(HasSubstr("unknown")));
  for (std::string const name : {"comm/n.hpp", "comm/m.hpp", "comm/t.hpp", "cuda/k.cuh"}) {
    EXPECT_THAT(check("#include <ballast/" + name + ">\n"),
                ElementsAre(HasSubstr(name + ", which needs more than std")));
  }
}

TEST(Umbrella, OfAFloorHasItsDoorsAndNoOthers)
{
  EXPECT_THAT(of_umbrellas("#include <ballast/core/a.hpp>\n", comm, ""),
              ElementsAre("ballast/core.hpp: lacks ballast/core/sub/e.hpp"));
  EXPECT_THAT(of_umbrellas(core, "", ""), ElementsAre(HasSubstr("lacks ballast/comm/t.hpp")));
  for (std::string const name : {"core/a.hpp", "comm/m.hpp", "version.hpp"}) {
    EXPECT_THAT(of_umbrellas(core, comm + "#include <ballast/" + name + ">\n", ""),
                ElementsAre(HasSubstr(name + ", which is no door of its floor")));
  }
}

TEST(Umbrella, IsThereWhereItsFloorHasDoorsThatAllCanInclude)
{
  EXPECT_THAT(
      wrong_umbrellas({{"ballast/core/a.hpp", ""}, {"ballast/comm/n.hpp", "#include <mpi.h>\n"}}),
      ElementsAre("ballast/core.hpp: is not there"));
  EXPECT_THAT(wrong_umbrellas({{"ballast/gpu.hpp", ""}, {"ballast/gpu/a.hpp", ""}}),
              ElementsAre("ballast/gpu.hpp: is of a floor without an umbrella"));
}

}  // namespace
