#include <ballast/partition/detail/patterns/unfilled_samples.hpp>  // first: proves it is self-contained

#include "../../../support/samples_that_cost.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace {

TEST(UnfilledSamples, GetTheBagsAfterThoseThatAreKept)
{
  auto const samples = ballast_test::samples_that_cost({9, 7, 5, 3, 1});
  std::vector<std::uint32_t> owners{0, 4, 1, 2, 4};  // of four bags; 4 is none
  ballast::workspace memory;
  auto scratch = memory.open();
  ballast::detail::unfilled_samples rest(samples.size(), scratch);

  auto const listed = rest.list(samples, owners, 2);

  EXPECT_EQ((std::vector(listed.begin(), listed.end())),
            (std::vector{samples[1], samples[3], samples[4]}));
  rest.fill(std::array<std::uint32_t, 3>{0, 1, 1}, owners);
  EXPECT_EQ(owners, (std::vector<std::uint32_t>{0, 2, 1, 3, 3}));
}

}  // namespace
