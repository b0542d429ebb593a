// SPDX-License-Identifier: Apache-2.0
#include <ballast/workload/sample_batch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

using codes = std::vector<ballast::data_code>;

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

std::string write(codes const& all)
{
  std::string text;
  for (ballast::data_code const& code : all) {
    text += (text.empty() ? "g" : ",g") + std::to_string(code.gpus) + "b" +
            std::to_string(code.samples) + "i" + std::to_string(code.pixels) + "f" +
            std::to_string(code.frames) + "s" + std::to_string(code.smoothness);
  }
  return text;
}

// An error points into the text; codes are read back from what they are written as.
void check(std::string_view text)
{
  auto const parsed = ballast::parse_data_codes(text);
  if (!parsed) {
    expect(parsed.error().position <= text.size());
  } else {
    expect(ballast::parse_data_codes(write(*parsed)) == parsed);
  }
}

}  // namespace

// The bytes are tried as text, as the numbers of codes, and as damage to the text of these codes.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  check({reinterpret_cast<char const*>(data), size});

  codes all(size / sizeof(ballast::data_code));
  if (all.empty()) { return 0; }
  std::memcpy(all.data(), data, all.size() * sizeof(ballast::data_code));
  for (ballast::data_code& code : all) { code.gpus = std::max(code.gpus, 1U); }
  std::string text = write(all);
  expect(ballast::parse_data_codes(text) == all);

  text[data[0] % text.size()] = static_cast<char>(data[size - 1]);
  check(text);
  return 0;
}
