// SPDX-License-Identifier: Apache-2.0
#include <ballast/route/head_array.hpp>

#include "../support/test.hpp"

#include <cstring>

namespace {

using ballast::heads_of;
using testing::ElementsAre;

template <class T>
concept can_travel_as_heads =
    requires(std::span<T const> from, std::span<T> to) { ballast::heads_of(from, to, 1, 1); };
static_assert(can_travel_as_heads<float>);
static_assert(!can_travel_as_heads<std::string>);  // bytes of a string are not the string

// As trainers have them: 16 bits, and a sum that is rounded back by an explicit conversion.
struct brain_float {
  std::uint16_t bits = 0;

  brain_float() = default;
  explicit brain_float(float value)
  {
    std::uint32_t word = 0;
    std::memcpy(&word, &value, sizeof(word));
    bits = static_cast<std::uint16_t>(word >> 16);
  }
  [[nodiscard]] float value() const
  {
    std::uint32_t const word = std::uint32_t{bits} << 16;
    float result = 0;
    std::memcpy(&result, &word, sizeof(result));
    return result;
  }
  friend float operator+(brain_float a, brain_float b) { return a.value() + b.value(); }
};

TEST(HeadArray, CountsBytesPerHead)
{
  std::vector<std::uint16_t> const from(24);
  std::vector<std::uint16_t> to(12);
  auto const array = heads_of(from, to, 4, 3);
  EXPECT_EQ(array.shape.heads, 4U);
  EXPECT_EQ(array.shape.head_bytes, 6U);
  EXPECT_EQ(array.from.size(), 48U);
  EXPECT_EQ(array.to.size(), 24U);
  EXPECT_EQ(static_cast<void const*>(array.to.data()), to.data());
}

TEST(HeadArray, AddsElementsOfAnyAlignment)
{
  std::vector<double> sums{1, 2, 3};
  std::array const values{10.0, 20.0};
  std::array<std::byte, 1 + sizeof(values)> message{};
  std::memcpy(&message[1], values.data(), sizeof(values));
  auto const array = heads_of(std::span<double const>(), sums, 1, 1);
  array.add(array.to.data(), &message[1], sizeof(values));
  EXPECT_THAT(sums, ElementsAre(11, 22, 3));
}

TEST(HeadArray, AddsInTheTypeOfTheElements)
{
  std::vector<brain_float> halves{brain_float(256)};
  std::vector<brain_float> const one{brain_float(1)};
  auto const coarse = heads_of(one, halves, 1, 1);
  coarse.add(coarse.to.data(), coarse.from.data(), sizeof(brain_float));
  EXPECT_EQ(halves[0].value(), 256.0F);  // eight bits of mantissa
}

TEST(HeadArray, OfElementsWithoutSumCanOnlyBeMoved)
{
  struct label {
    std::array<char, 3> letters;
  };
  std::vector<label> labels(1);
  EXPECT_EQ(heads_of(std::span<label const>(), labels, 1, 1).add, nullptr);
  std::vector<std::byte> bytes(1);
  EXPECT_EQ(heads_of(std::span<std::byte const>(), bytes, 1, 1).add, nullptr);
  std::vector<std::uint16_t> bits(1);  // of unknown meaning
  EXPECT_EQ(heads_of(std::span<std::uint16_t const>(), bits, 1, 1).add, nullptr);
}

TEST(HeadArrayDeathTest, HasAtLeastOneElementAHead)
{
  std::vector<float> data(3);
  EXPECT_DEATH((void)heads_of(data, data, 3, 0), "heads of 0 elements");
}

}  // namespace
