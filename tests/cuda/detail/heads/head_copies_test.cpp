// SPDX-License-Identifier: Apache-2.0
#include <ballast/cuda/detail/row_copies.hpp>

#include "../../../route/bag_arrays.hpp"
#include "../../../support/test.hpp"
#include "../../head_copies_on_host.hpp"

#include <ballast/cuda/tables.hpp>

namespace {

using ballast::head_array;
using ballast::head_shape;
using ballast::heads_of;
using ballast::detail::head_sums;
using ballast_test::bag_case;
using ballast_test::placed_blocks;
using ballast_test::random_arrays;
using ballast_test::tables_on_host;
using packed_for_heads = ballast::detail::packed_for_heads;
using packed_for_tokens = ballast::detail::packed_for_tokens;
using unpacked_to_heads = ballast::detail::unpacked_to_heads;
using unpacked_to_tokens = ballast::detail::unpacked_to_tokens;

static_assert(ballast::copy_list<packed_for_heads> && ballast::copy_list<unpacked_to_heads>);
static_assert(ballast::copy_list<packed_for_tokens> && ballast::copy_list<unpacked_to_tokens>);
static_assert(ballast::detail::contiguous_copy_list<packed_for_tokens>);

// To the last byte: padding is zero. That they are unpacked, and added up, is seen over NCCL.
template <class List>
void expect_packed_as_by_the_host(ballast::ulysses_plan const& plan, tables_on_host const& tables,
                                  std::uint32_t gpu, std::span<head_array const> arrays)
{
  placed_blocks const placed(*tables, gpu, List::side, arrays);
  std::vector<std::byte> messages(placed.messages, std::byte{0xee});
  ballast_test::pack_by_list<List>(*tables, gpu, arrays, messages.data());
  std::vector<std::byte> expected(messages.size());
  constexpr bool to_heads = std::is_same_v<List, packed_for_heads>;
  if (to_heads) {
    plan.pack_to_heads(gpu, arrays, expected);
  } else {
    plan.pack_to_tokens(gpu, arrays, expected);
  }
  RC_ASSERT(messages == expected);
}

RC_GTEST_PROP(UlyssesLists, PackAsTheHostDoes, ())
{
  ballast::random_source random(*rc::gen::arbitrary<std::uint64_t>());
  bag_case const bag = ballast_test::random_bag(random, 8);
  auto const plan = bag.plan();
  tables_on_host const tables(bag);
  std::array const shapes{head_shape{bag.query_heads, 1 + random.below(40)},
                          head_shape{ballast_test::random_heads(random, bag), 1 + random.below(9)},
                          head_shape{1, 16}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const chunks(random, plan, gpu, true, shapes);
    expect_packed_as_by_the_host<packed_for_heads>(plan, tables, gpu, chunks.arrays);
    random_arrays const sequences(random, plan, gpu, false, shapes);
    expect_packed_as_by_the_host<packed_for_tokens>(plan, tables, gpu, sequences.arrays);
  }
}

// Both heads are on several GPUs, so no copy writes them: threads that add them up run beside.
TEST(UlyssesLists, LeaveSharedHeadsToTheSums)
{
  bag_case const bag{4, {4, 9}, 6};  // heads of two: shares {0}, {0, 1}, {1}, {1}
  tables_on_host const tables(bag);
  ballast::random_source random(20240607);
  std::array const shapes{head_shape{2, 5}};
  for (std::uint32_t gpu = 0; gpu < bag.gpus; ++gpu) {
    random_arrays const held(random, bag.plan(), gpu, false, shapes);
    placed_blocks const placed(*tables, gpu, unpacked_to_tokens::side, held.arrays);
    std::vector<std::byte> const messages(placed.messages);
    unpacked_to_tokens const list{placed.copies(), messages.data()};
    for (std::uint32_t at = 0; at < list.count(); ++at) { EXPECT_EQ(list(at).bytes(), 0U); }
  }
}

// Nothing of it is read or written: only where copies would be is looked at.
TEST(UlyssesLists, FindBytesBeyondFourGigabytes)
{
  bag_case const bag{2, {1'000'001, 999'999}, 4};
  tables_on_host const tables(bag, 0);
  std::vector<std::byte> base(1);
  constexpr std::size_t head = 4096;
  std::vector<ballast::detail::device_head_block> blocks;
  ballast::detail::head_blocks const all{*tables, 0, 1, packed_for_tokens::side};
  for (std::uint32_t peer = 0; peer < 2; ++peer) {
    blocks.push_back({tables->split.block_of(tables->rows(peer), 0, {4, head})});
  }
  std::array const arrays{head_array{{base.data(), 0}, {base.data(), 0}, {4, head}}};
  packed_for_tokens const list{{all, blocks.data(), ballast::device_heads(arrays)}, base.data()};
  // The second GPU's part of the second sequence, with two of four heads.
  ballast::strided_copy const last = list(list.count() - 1);
  auto const at = [&](auto const* place) {
    return reinterpret_cast<std::uintptr_t>(place) - reinterpret_cast<std::uintptr_t>(base.data());
  };
  EXPECT_EQ(at(last.from), (1'000'001 + std::size_t{500'000}) * 2 * head);
  EXPECT_EQ(at(last.to), std::size_t{500'000} * 2 * head);
  EXPECT_EQ(last.bytes(), std::size_t{499'999} * 2 * head);
  EXPECT_GT(last.bytes(), std::size_t{1} << 31);
}

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
    plan.unpack_to_tokens(gpu, on_host, bytes);

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

/// Sums of numbers whose bits are below `most`, which have `digits` and are multiples of 2^least.
template <class T, class Raw>
void expect_rounded_once(std::uint64_t most, int digits, int least)
{
  ballast::random_source random(20240607);
  for (int trial = 0; trial < 200'000; ++trial) {
    auto const bits = [&] { return static_cast<std::uint16_t>(random.below(most)); };
    T const a(Raw{bits()});
    T const b(Raw{static_cast<std::uint16_t>(bits() | random.below(2) << 15)});
    double const exact = static_cast<double>(static_cast<float>(a)) + static_cast<float>(b);
    int exponent = 0;
    (void)std::frexp(exact, &exponent);
    int const last = std::max(exponent - digits, least);
    ASSERT_EQ(static_cast<float>(ballast::detail::rounded_sum(a, b)),
              static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(exact, -last)), last)));
  }
}

// A 16-bit sum that is rounded to a float first has the bits of one that is rounded once, as the
// GPU's is: the float has more than twice as many digits, and two.
TEST(HeadSums, OfSixteenBitsAreRoundedOnce)
{
  expect_rounded_once<__half, __half_raw>(0x7800, 11, -24);
  // Exponents close to each other: a double holds the sum.
  expect_rounded_once<__nv_bfloat16, __nv_bfloat16_raw>(0x0c00, 8, -133);
}

}  // namespace
