// SPDX-License-Identifier: Apache-2.0
#include "../../examples/ballast/makespan_instances.hpp"

#include <ballast/core.hpp>

#include <cstdlib>

namespace {

void expect(bool holds)
{
  if (!holds) { std::abort(); }
}

}  // namespace

// Whatever instance a text holds, it is read back from what it is written as; an error names a line
// of the text.
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const instance = cli::read_makespan_instance(text);
  if (!instance) {
    auto const lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
    expect(instance.error().position >= 1 && instance.error().position <= lines);
    return 0;
  }
  std::string written = std::to_string(instance->machines);
  written += ' ' + std::to_string(instance->times.size());
  for (ballast::cost_units const time : instance->times) {
    expect(time >= 0);
    written += '\n' + std::to_string(time);
  }
  expect(cli::read_makespan_instance(written) == instance);
  return 0;
}
