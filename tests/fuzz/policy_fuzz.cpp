// SPDX-License-Identifier: Apache-2.0

#include "../../examples/common/by_name/parse_order_policy.hpp"
#include "../../examples/common/by_name/parse_policy.hpp"
#include "../../examples/common/by_name/parse_schedule.hpp"

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

// An error is inside the text, and its sentence says where.
void check(ballast::error const& error, std::string_view text)
{
  expect(error.position <= text.size());
  expect(error.message.starts_with("at offset " + std::to_string(error.position) + " of "));
}

}  // namespace

// Whatever policy, schedule or order a text names is a value.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  if (auto const schedule = by_name::parse_schedule(text); !schedule) {
    check(schedule.error(), text);
  }
  if (auto const order = by_name::parse_order_policy(text); !order) { check(order.error(), text); }
  auto const policy = by_name::parse_policy(text);
  if (!policy) {
    check(policy.error(), text);
    return 0;
  }
  expect(*policy == *policy);
  expect(by_name::parse_policy(text) == policy);
  return 0;
}
