// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/tables.hpp>

#include "../support/test.hpp"

namespace {

using ballast::contiguous_copy_list;
using ballast::copy_list;
using ballast::strided_copy;

static_assert(std::is_trivially_copyable_v<strided_copy>);

struct no_copies {
  strided_copy operator()(std::uint32_t) const { return {}; }
};

struct contiguous_copies : no_copies {
  static constexpr bool contiguous = true;
};

struct strided_copies : no_copies {
  static constexpr bool contiguous = false;
};

static_assert(copy_list<no_copies> && !contiguous_copy_list<no_copies>);
static_assert(contiguous_copy_list<contiguous_copies>);
static_assert(copy_list<strided_copies> && !contiguous_copy_list<strided_copies>);
static_assert(!copy_list<std::function<strided_copy(std::uint32_t)>>);  // not trivially copyable
static_assert(!copy_list<std::byte* (*)(std::uint32_t)>);

TEST(StridedCopy, KnowsItsBytesAndWhetherTheyAreContiguous)
{
  std::array<std::byte, 1> memory{};
  auto* const at = memory.data();
  EXPECT_EQ(strided_copy{}.bytes(), 0U);
  EXPECT_TRUE(strided_copy{}.is_contiguous());
  EXPECT_EQ(strided_copy::contiguous(at, at, 77).bytes(), 77U);
  EXPECT_TRUE(strided_copy::contiguous(at, at, 77).is_contiguous());
  EXPECT_TRUE((strided_copy{at, at, 500, 600, 8, 1}.is_contiguous()));
  EXPECT_TRUE((strided_copy{at, at, 8, 8, 8, 9}.is_contiguous()));
  EXPECT_FALSE((strided_copy{at, at, 8, 16, 8, 9}.is_contiguous()));
  EXPECT_FALSE((strided_copy{at, at, 16, 8, 8, 9}.is_contiguous()));
  EXPECT_EQ((strided_copy{at, at, 16, 8, 8, std::size_t{1} << 30}.bytes()), std::size_t{1} << 33);
}

}  // namespace
