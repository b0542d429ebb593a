// SPDX-License-Identifier: Apache-2.0
#include <ballast/by_name/parse_policy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

}  // namespace

// Whatever policy a text names is a value; an error is inside the text and has a sentence.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const policy = ballast::parse_policy(text);
  if (!policy) {
    expect(policy.error().position <= size);
    expect(!policy.error().message.empty());
    return 0;
  }
  expect(*policy == *policy);
  expect(ballast::parse_policy(text) == policy);
  return 0;
}
