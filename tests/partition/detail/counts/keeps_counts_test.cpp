#include <ballast/partition/detail/counts/keeps_counts.hpp>  // first: proves it is self-contained

#include <gtest/gtest.h>
#include <ballast/partition/capped.hpp>
#include <ballast/partition/equal_count.hpp>
#include <ballast/partition/longest_processing_time.hpp>

namespace {

static_assert(ballast::detail::keeps_counts(ballast::equal_count{}));
static_assert(ballast::detail::keeps_counts(ballast::capped{ballast::equal_count{}}));
static_assert(!ballast::detail::keeps_counts(ballast::longest_processing_time{}));

struct keeps_some {
  bool some;
  [[nodiscard]] bool keeps_counts() const { return some; }
};

TEST(KeepsCounts, AsksThePolicy)
{
  EXPECT_TRUE(ballast::detail::keeps_counts(keeps_some{true}));
  EXPECT_FALSE(ballast::detail::keeps_counts(keeps_some{false}));
}

}  // namespace
