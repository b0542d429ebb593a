// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cost/interpolated_throughput.hpp>
#include <ballast/cost/module_profile.hpp>

namespace ballast_test {

/// What a random model is drawn for.
struct random_model {
  std::vector<ballast::module_profile> modules;
  std::vector<ballast::tokens> sizes;  // [samples][modules]
};

/// Throughput that saturates as a microbatch grows, with noise, so that it does not always rise.
inline ballast::interpolated_throughput random_throughput(ballast::random_source& random,
                                                          double peak, double half_size)
{
  std::vector<ballast::tokens> sizes;
  std::vector<double> per_second;
  ballast::tokens size = 1;
  for (int point = 0; point < 7; ++point) {
    double const s = static_cast<double>(size);
    double const noise = 1 - 0.01 * static_cast<double>(random.below(12));
    sizes.push_back(size);
    per_second.push_back(peak * noise * s / (s + half_size));
    size *= 2 + static_cast<ballast::tokens>(random.below(5));
  }
  return *ballast::interpolated_throughput::make(sizes, per_second);
}

/// A module of 1 to 24 layers or, as those of today, of 24 to 80, measured at tp 1, 2, 4, 8 or a
/// part of these. Its state takes a good part of `memory_bytes` where it has few stages.
inline ballast::module_profile random_module(ballast::random_source& random, std::string name,
                                             bool is_llm, bool is_large, std::uint64_t memory_bytes)
{
  ballast::module_profile module;
  module.name = std::move(name);
  auto const draw = [&random](std::uint64_t least, std::uint64_t most) {
    return least + random.below(most - least + 1);
  };
  module.layers = static_cast<std::uint32_t>(is_large ? draw(24, 80) : draw(1, 12));
  module.flops.linear = is_llm ? draw(40, 400) * 1'000'000'000 : draw(200, 2000) * 1'000'000'000;
  module.flops.quadratic = is_llm ? draw(1, 40) * 100'000 : 0;
  std::uint64_t const of_layer =
      memory_bytes / module.layers * (is_llm ? draw(2, 40) : draw(1, 8)) / 16;
  std::uint64_t const of_item = memory_bytes / draw(20, 200) / (is_llm ? 2000 : 8) / module.layers;
  for (std::uint32_t const tp : std::array<std::uint32_t, 4>{1, 2, 4, 8}) {
    if (random.below(5) == 0 && tp != 1) { continue; }
    double const loss = 1 - 0.02 * tp * static_cast<double>(random.below(3));
    ballast::profiled_degree degree;
    degree.tp = tp;
    degree.linear = random_throughput(random, 4e14 * loss, (is_llm ? 400.0 : 2.0) * tp);
    degree.attention = random_throughput(random, 2e14 * loss, is_llm ? 900 : 1);
    degree.memory.layers = {2, 4};
    degree.memory.state_bytes = {(2 * of_layer + of_layer) / tp, (4 * of_layer + of_layer) / tp};
    degree.memory.sizes = {0, 1000};
    degree.memory.activation_bytes = {
        {{100, 100 + 2000 * of_item / tp}, {200, 200 + 4000 * of_item / tp}}};
    module.degrees.push_back(degree);
  }
  return module;
}

/// Encoders, then an LLM, and samples with up to 12 items of each encoder, of which some have none.
inline random_model draw_model(ballast::random_source& random, std::size_t modules,
                               std::size_t samples, bool is_large, std::uint64_t memory_bytes)
{
  random_model model;
  for (std::size_t module = 0; module < modules; ++module) {
    bool const is_llm = module + 1 == modules;
    model.modules.push_back(
        random_module(random, is_llm ? "llm" : "encoder", is_llm, is_large, memory_bytes));
  }
  for (std::size_t sample = 0; sample < samples; ++sample) {
    ballast::tokens text = random.between(20, 3000);
    for (std::size_t module = 0; module + 1 < modules; ++module) {
      ballast::tokens const items = random.below(4) == 0 ? 0 : random.between(1, 12);
      model.sizes.push_back(items);
      text += 256 * items;
    }
    model.sizes.push_back(text);
  }
  return model;
}

/// Has modules measured on groups of sp and ep GPUs too, as many as with tp alone: faster or
/// slower, and with other memory.
inline void add_groups(ballast::random_source& random,
                       std::vector<ballast::module_profile>& modules)
{
  for (ballast::module_profile& module : modules) {
    auto const measured = module.degrees;
    for (ballast::profiled_degree degree : measured) {
      if (degree.tp == 1 || random.below(3) == 0) { continue; }
      double const gain = 0.7 + 0.05 * static_cast<double>(random.below(13));
      degree.linear = random_throughput(random, 4e14 * gain, 3.0 * degree.tp);
      (random.below(2) == 0 ? degree.sp : degree.ep) = 2;
      degree.tp /= 2;
      for (std::uint64_t& bytes : degree.memory.state_bytes) {
        bytes = bytes * 2 / (1 + degree.ep);
      }
      for (auto& row : degree.memory.activation_bytes) {
        for (std::uint64_t& bytes : row) { bytes = bytes * 2 / 3; }
      }
      module.degrees.push_back(degree);
    }
    std::sort(module.degrees.begin(), module.degrees.end(), [](auto const& a, auto const& b) {
      return ballast::degree_of(a) < ballast::degree_of(b);
    });
  }
}

/// Which later module each but the last feeds: the next one, the last one, or any.
inline std::vector<std::size_t> random_feeds(ballast::random_source& random, std::size_t modules)
{
  std::vector<std::size_t> feeds;
  std::uint64_t const kind = random.below(3);
  for (std::size_t module = 0; module + 1 < modules; ++module) {
    std::size_t const behind = modules - 1 - module;
    feeds.push_back(module + 1 + (kind == 0 ? 0 : kind == 1 ? behind - 1 : random.below(behind)));
  }
  return feeds;
}

}  // namespace ballast_test
