// SPDX-License-Identifier: Apache-2.0
#include "libraries.hpp"
#include "../support/test.hpp"
#include "source_tree.hpp"

namespace {

using structure::source_file;
using structure::stray_libraries;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Libraries, OfDevicesStayInTheirRooms)
{
  EXPECT_THAT(stray_libraries(structure::public_headers()), IsEmpty());
}

// From here on: the checks themselves, on trees that are wrong.

TEST(StrayLibraries, AreReportedWhereTheyMayNotBe)
{
  for (std::string const library :
       {"cuda_runtime.h", "cuda_runtime_api.h", "cuda_fp16.h", "nccl.h", "nvtx3/nvToolsExt.h",
        "mpi.h", "cub/cub.cuh", "cuda/std/span"}) {
    std::string const text = "#include <" + library + ">  // for a\n";
    for (std::string const path : {"comm/a.hpp", "route/a.hpp", "runtime/a.hpp", "interop/a.hpp"}) {
      EXPECT_THAT(stray_libraries({{"ballast/" + path, text}}),
                  ElementsAre(HasSubstr("includes <" + library + ">")));
    }
    for (std::string const path : {"gpu/detail/a.hpp", "cuda/a.cuh", "runtime/a.cuh",
                                   "comm/mpi_communicator.hpp", "comm/detail/mpi_a.hpp"}) {
      EXPECT_THAT(stray_libraries({{"ballast/" + path, text}}), IsEmpty());
    }
  }
}

TEST(StrayLibraries, AreNeitherStdNorWhatInteropAdaptsTo)
{
  EXPECT_THAT(stray_libraries({{"ballast/core/a.hpp", "#include <vector>\n"},
                               {"ballast/interop/a.hpp", "#include <thrust/host_vector.h>\n"}}),
              IsEmpty());
}

}  // namespace
