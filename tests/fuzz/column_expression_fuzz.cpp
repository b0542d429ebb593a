// SPDX-License-Identifier: Apache-2.0
#include <ballast/text/column_expression.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

constexpr std::array<std::string_view, 4> header = {"a", "b1", "c d", "e"};
constexpr std::array<std::string_view, 4> row = {"3", "-1000", "9223372036854775807", "x"};

}  // namespace

// An error points into the text; a value does not change in parentheses or beside a neutral
// element.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string const text(reinterpret_cast<char const*>(data), size);
  auto const parsed = ballast::parse_column_expression(text, header);
  if (!parsed) {
    expect(parsed.error().position <= size);
    return 0;
  }
  auto const value = parsed->evaluate({1, row});
  for (std::string const& same : {text + "+0", "0+" + text, text + "*1", "1*" + text, " " + text}) {
    auto const again = ballast::parse_column_expression(same, header);
    expect(again.has_value());
    auto const same_value = again->evaluate({1, row});
    expect(same_value.has_value() == value.has_value());
    expect(!value || *same_value == *value);
  }
  // Parentheses may reach the limit of nesting, and nothing else may go wrong in them.
  auto const grouped = ballast::parse_column_expression("2*(" + text + ")", header);
  std::int64_t doubled = 0;
  if (!grouped) {
    expect(grouped.error().message.find("too many parentheses") != std::string::npos);
  } else if (value && !__builtin_mul_overflow(*value, 2, &doubled)) {
    expect(grouped->evaluate({1, row}).value() == doubled);
  } else {
    expect(!grouped->evaluate({1, row}));
  }
  return 0;
}
