// SPDX-License-Identifier: Apache-2.0
#include <ballast/cost/cost_spec.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void require(bool condition)
{
  if (!condition) { std::abort(); }
}

// Writes a transformer with every key spelled out, but for the number of layers where it was not.
std::string write(ballast::cost_spec const& spec)
{
  auto const& shape = spec.shape;
  std::array<char, 32> gamma{};
  auto* const end = std::to_chars(gamma.data(), gamma.data() + gamma.size(), spec.gamma).ptr;
  return "transformer:d=" + std::to_string(shape.hidden) +
         (spec.layers_written ? ",layers=" + std::to_string(shape.layers) : "") +
         ",heads=" + std::to_string(shape.heads) + ",kv_heads=" + std::to_string(shape.kv_heads) +
         ",head_dim=" + std::to_string(shape.head_dim) +
         ",ffn=" + std::to_string(shape.ffn_hidden) +
         ",gated=" + std::to_string(static_cast<int>(shape.gated_ffn)) +
         ",causal=" + std::to_string(static_cast<int>(shape.mask)) +
         ",vocab=" + std::to_string(shape.vocabulary) +
         ",recompute=" + std::to_string(spec.passes.recompute) +
         ",gamma=" + std::string(gamma.data(), end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size)
{
  // Random bytes rarely begin as a model does, so that one half of the inputs is given a beginning.
  std::string text(reinterpret_cast<char const*>(data), size);
  if (size > 0 && data[0] % 2 == 0) { text = "transformer:d=" + text.substr(1); }

  auto const spec = ballast::parse_cost_spec(text);
  if (!spec) {
    require(spec.error().position <= text.size());
    require(!spec.error().message.empty());
    return 0;
  }
  require(spec->cost(0) == 0);
  require(spec->cost(1000) <= spec->cost(1001));
  if (text != "tokens") { require(ballast::parse_cost_spec(write(*spec)) == *spec); }
  return 0;
}
