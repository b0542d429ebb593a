// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/profile_file.hpp>

#include <algorithm>
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

// Whatever measurements a text holds, they are read back from what they are written as, and make
// curves or say why not; an error names a line of the text.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const read = ballast::read_profile(text);
  if (!read) {
    auto const lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
    expect(read.error().position >= 1 && read.error().position <= lines);
    return 0;
  }
  expect(ballast::read_profile(ballast::write_profile(*read)) == *read);
  auto const modules = read->profiles();
  expect(modules ? modules->size() == read->modules.size()
                 : modules.error().position <= read->modules.size());
  return 0;
}
