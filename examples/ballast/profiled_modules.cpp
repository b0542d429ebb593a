// SPDX-License-Identifier: Apache-2.0
#include "profiled_modules.hpp"

#include "output.hpp"

#include <ballast/core.hpp>
#include <ballast/cost/cost_spec.hpp>
#include <ballast/cost/flops.hpp>

#include <fmt/format.h>

#include <charconv>
#include <set>
#include <system_error>

namespace cli {
namespace {

using ballast::tokens;

template <class Number>
outcome<std::vector<Number>> read_list(std::string_view option, std::string_view text,
                                       std::uint64_t most)
{
  std::vector<Number> numbers;
  for (std::string_view rest = text;;) {
    std::string_view const one = rest.substr(0, rest.find(','));
    std::uint64_t value = 0;
    auto const [end, problem] = std::from_chars(one.data(), one.data() + one.size(), value);
    if (problem != std::errc{} || end != one.data() + one.size() || value < 1 || value > most) {
      return usage(fmt::format("{}: '{}' is no list of whole numbers from 1 to {}; write 1,2,4",
                               option, text, most));
    }
    numbers.push_back(static_cast<Number>(value));
    if (one.size() == rest.size()) { return numbers; }
    rest.remove_prefix(one.size() + 1);
  }
}

/// What the option says, or what suits the device.
std::string const& or_default(std::string const& option, std::string const& by_device)
{
  return option == "auto" ? by_device : option;
}

/// The transformer of an option, which the built-in kernels have to be able to compute.
outcome<profiled_module> read_module(std::string const& option, std::string const& spec,
                                     std::string const& name,
                                     std::vector<std::uint32_t> const& degrees,
                                     layer_device const& device)
{
  if (!spec.starts_with("transformer:")) {
    return usage(
        fmt::format("{}: '{}' is none of the transformers that the built-in kernels "
                    "compute; write transformer:d=1024,heads=16,causal=1, or auto",
                    option, spec));
  }
  auto const parsed = ballast::parse_cost_spec(spec);
  if (!parsed) { return usage(option, parsed.error()); }
  profiled_module module;
  module.shape = parsed->shape;
  if (module.shape.gated_ffn || module.shape.vocabulary != 0 || parsed->passes.recompute != 0 ||
      module.shape.mask != ballast::attention_mask::causal) {
    return usage(option +
                 ": the built-in kernels have a causal mask, and no gate, output head or "
                 "recomputation; write causal=1, and leave out gated, vocab and recompute");
  }
  for (std::uint32_t const tp : degrees) {
    if (module.shape.kv_heads % tp != 0 || module.shape.ffn_hidden % tp != 0) {
      return usage(
          fmt::format("{}: {} kv_heads and ffn {} are no multiples of --tp {}; choose "
                      "other degrees",
                      option, module.shape.kv_heads, module.shape.ffn_hidden, tp));
    }
    if (std::string const why = device.unfit(module.share(tp)); !why.empty()) {
      return usage(option + ": " + why);
    }
  }
  auto const flops = ballast::step_flops(parsed->forward, parsed->passes);
  if (!flops) { return usage(option, flops.error()); }
  module.grid = {
      .name = name, .model = spec, .layers = module.shape.layers, .flops = *flops, .degrees = {}};
  for (std::uint32_t const tp : degrees) { module.grid.degrees.push_back({tp}); }
  return module;
}

}  // namespace

outcome<std::vector<profiled_module>> read_modules(profile_options const& options,
                                                   layer_device const& device)
{
  constexpr std::uint64_t most_rows = 1 << 20;
  auto const degrees = read_list<std::uint32_t>("--tp", options.degrees, 1024);
  if (!degrees) { return tl::unexpected(degrees.error()); }
  profile_defaults const defaults = device.defaults();
  std::vector<profiled_module> modules;
  if (options.encoder.empty() && (options.items != "auto" || options.tokens_per_item > 0)) {
    return usage(fmt::format("{} is for an encoder, and --encoder '' is none; leave it out",
                             options.items != "auto" ? "--items" : "--tokens-per-item"));
  }
  if (!options.encoder.empty()) {
    std::size_t const tokens_per_item =
        options.tokens_per_item > 0 ? options.tokens_per_item : defaults.tokens_per_item;
    auto module = read_module("--encoder", or_default(options.encoder, defaults.encoder), "encoder",
                              *degrees, device);
    if (!module) { return tl::unexpected(module.error()); }
    auto const items = read_list<tokens>("--items", or_default(options.items, defaults.items),
                                         most_rows / tokens_per_item);
    if (!items) { return tl::unexpected(items.error()); }
    module->grid.sizes = *items;
    module->tokens_per_item = tokens_per_item;
    module->grid.model += " with " + count_of(tokens_per_item, "token") + " per item";
    // An item attends to itself alone, so all of its work is per item.
    auto const per_item = module->grid.flops.exact(static_cast<tokens>(tokens_per_item));
    module->grid.flops = {.linear = static_cast<std::uint64_t>(per_item)};
    modules.push_back(std::move(*module));
  }
  auto module =
      read_module("--llm", or_default(options.llm, defaults.llm), "llm", *degrees, device);
  if (!module) { return tl::unexpected(module.error()); }
  auto const lengths =
      read_list<tokens>("--lengths", or_default(options.lengths, defaults.lengths), most_rows);
  if (!lengths) { return tl::unexpected(lengths.error()); }
  module->grid.sizes = *lengths;
  modules.push_back(std::move(*module));
  for (profiled_module const& each : modules) {
    std::set<tokens> const different(each.grid.sizes.begin(), each.grid.sizes.end());
    if (different.size() < 2) {
      return usage(fmt::format("{}: the {} is measured at one size; give two at least",
                               &each == &modules.back() ? "--lengths" : "--items", each.grid.name));
    }
  }
  return modules;
}

}  // namespace cli
