// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/head_copies.hpp>

#include "../../../route/bag_arrays.hpp"
#include "../../../support/test.hpp"
#include "../../head_copies_on_host.hpp"

namespace {

using ballast::heads_of;
using ballast::detail::head_sums;
using ballast_test::bag_case;
using ballast_test::placed_blocks;
using ballast_test::tables_on_host;

// Numbers of all magnitudes, subnormal ones among them: sums of them depend on their order.
template <class T>
std::vector<T> any_numbers(ballast::random_source& random, std::size_t count)
{
  constexpr int least = sizeof(T) == 2 && std::is_same_v<T, __half> ? -24 : -60;
  std::vector<T> numbers;
  for (std::size_t index = 0; index < count; ++index) {
    double const mantissa = static_cast<double>(random.between(-4095, 4095)) / 4096;
    double number = std::ldexp(mantissa, static_cast<int>(random.between(least, 10)));
    if (random.below(8) == 0 && !std::is_same_v<T, __half>) { number = std::ldexp(mantissa, -127); }
    numbers.push_back(static_cast<T>(static_cast<float>(number)));
  }
  return numbers;
}

template <class T>
void check_sums(ballast::random_source& random, bag_case const& bag, std::size_t dim)
{
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  std::uint32_t const heads = ballast_test::random_heads(random, bag);
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    auto const from = any_numbers<T>(random, plan.heads_of_sequences(gpu, heads) * dim);
    std::vector<T> expected(plan.heads_of_chunks(gpu, heads) * dim);
    std::vector<T> to(expected.size());
    std::array const arrays{heads_of(from, to, heads, dim)};
    std::array const on_host{heads_of(from, expected, heads, dim)};
    placed_blocks const placed(*tables, gpu, head_sums::side, arrays);
    // Of any bag's messages all that matters is that they are elements.
    auto const messages = any_numbers<T>(random, placed.messages / sizeof(T));
    auto const bytes = std::as_bytes(std::span(messages));
    ballast::unpack_to_tokens(plan, gpu, on_host, bytes);

    auto const rows = ballast_test::bag_rows_of(*tables, gpu);
    head_sums const sums{{placed.copies(), bytes.data()}, rows.data()};
    for (std::uint32_t index = 0; index < placed.all.count(); ++index) {
      if (!sums.begins_at(index)) { continue; }
      RC_ASSERT(sums.is_wide(index) == (dim * sizeof(T) % 16 == 0));
    }
    ballast_test::run_on_host(sums, sums.count());
    RC_ASSERT(std::ranges::equal(std::as_bytes(std::span(to)), std::as_bytes(std::span(expected))));
  }
}

template <class T>
void check_narrow_and_wide()
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  check_sums<T>(random, bag, 1 + random.below(7));
  check_sums<T>(random, bag, 16 / sizeof(T) * (1 + random.below(2)));
}

RC_GTEST_PROP(HeadSums, OfFp16AreTheHosts, ())
{
  check_narrow_and_wide<__half>();
}

RC_GTEST_PROP(HeadSums, OfBf16AreTheHosts, ())
{
  check_narrow_and_wide<__nv_bfloat16>();
}

RC_GTEST_PROP(HeadSums, OfFp32AreTheHosts, ())
{
  check_narrow_and_wide<float>();
}

RC_GTEST_PROP(HeadSums, OfFp64AreTheHosts, ())
{
  check_narrow_and_wide<double>();
}

// A 16-bit sum that is rounded to a float first has the bits of one that is rounded once, as the
// GPU's is: the float has more than twice as many digits, and two.
TEST(HeadSums, OfSixteenBitsAreRoundedOnce)
{
  ballast::random_source random(20240607);
  auto const once = [](double exact, int digits, int least) {
    int exponent = 0;
    (void)std::frexp(exact, &exponent);
    int const last = std::max(exponent - digits, least);
    return std::ldexp(std::nearbyint(std::ldexp(exact, -last)), last);
  };
  for (int trial = 0; trial < 200'000; ++trial) {
    auto const bits = [&] { return static_cast<std::uint16_t>(random.below(0x7800)); };
    __half const a(__half_raw{bits()});
    __half const b(__half_raw{static_cast<std::uint16_t>(bits() | random.below(2) << 15)});
    double const exact = static_cast<double>(static_cast<float>(a)) + static_cast<float>(b);
    ASSERT_EQ(static_cast<float>(ballast::detail::rounded_sum(a, b)),
              static_cast<float>(once(exact, 11, -24)));
  }
  for (int trial = 0; trial < 200'000; ++trial) {
    // Exponents close to each other: a double holds the sum.
    auto const bits = [&] { return static_cast<std::uint16_t>(random.below(0x0c00)); };
    __nv_bfloat16 const a(__nv_bfloat16_raw{bits()});
    __nv_bfloat16 const b(
        __nv_bfloat16_raw{static_cast<std::uint16_t>(bits() | random.below(2) << 15)});
    double const exact = static_cast<double>(static_cast<float>(a)) + static_cast<float>(b);
    ASSERT_EQ(static_cast<float>(ballast::detail::rounded_sum(a, b)),
              static_cast<float>(once(exact, 8, -133)));
  }
}

}  // namespace
