// SPDX-License-Identifier: Apache-2.0
#include "cpu_device.hpp"

#include "../common/transformer_block.hpp"
#include "core_clock.hpp"
#include "cpu_layer.hpp"

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/route/ulysses.hpp>

#include <fmt/format.h>

#include <fstream>
#include <functional>
#include <memory>
#include <thread>

namespace cli {
namespace {

class layer_on_core final : public device_layer {
 public:
  layer_on_core(block::shape const& shape, std::size_t sequences, std::size_t length,
                layer_part part)
      : layer_(shape, sequences, length, part)
  {}

  ballast::result<void> forward() override
  {
    layer_.forward();
    return {};
  }
  ballast::result<void> backward() override
  {
    layer_.backward();
    return {};
  }

 private:
  cpu_layer layer_;
};

/// The median of three runs of the whole block in examples/common on one sample.
ballast::result<std::int64_t> time_block(block::shape const& shape, std::size_t length,
                                         ballast::thread_communicator& comm)
{
  block::parameters const weights = block::random_parameters(shape, 1);
  ballast::ulysses_plan heads;
  std::array<ballast::tokens, 1> const lengths = {static_cast<ballast::tokens>(length)};
  heads.assign(lengths, 1, shape.query_heads);
  block::transformer_block layer(shape, weights, comm);
  block::parameters gradients(shape);
  ballast::random_source random(length);
  block::values x(length * shape.width), y(x.size()), dx(x.size());
  for (double& value : x) { value = static_cast<double>(random.between(-1000, 1000)) / 1000; }
  std::array<std::int64_t, 4> times{};
  for (std::int64_t& time : times) {
    ballast::result<void> done;
    auto const taken = core_clock{}.time([&] {
      done = layer.forward(heads, x, y);
      if (done) { done = layer.backward(y, dx, gradients); }
    });
    if (!done) { return tl::unexpected(done.error()); }
    if (!taken) { return taken; }
    time = *taken;
  }
  std::sort(times.begin() + 1, times.end());  // the first one warms up
  return times[2];
}

class cpu_device final : public layer_device {
 public:
  std::string name() const override { return "cpu"; }

  /// "16 threads, AMD EPYC 9004", as far as the system says so.
  std::string hardware() const override
  {
    std::string const threads = fmt::format("{} threads", std::thread::hardware_concurrency());
    std::ifstream cpus("/proc/cpuinfo");
    for (std::string line; std::getline(cpus, line);) {
      std::size_t const colon = line.find(": ");
      if (line.starts_with("model name") && colon != line.npos) {
        return threads + ", " + line.substr(colon + 2);
      }
    }
    return threads;
  }

  profile_defaults defaults() const override
  {
    return {.llm = "transformer:d=64,layers=8,heads=4,causal=1",
            .encoder = "transformer:d=48,layers=4,heads=4,causal=1",
            .lengths = "16,32,48,64,96,128,192,256,384,512",
            .items = "1,2,4,8,16",
            .tokens_per_item = 32};
  }

  std::string unfit(block::shape const& shape) const override
  {
    return shape.width > 1024 || shape.hidden > 8192
               ? "the built-in kernels compute on one core; give a transformer of d at most 1024 "
                 "and ffn at most 8192"
               : "";
  }

  std::size_t state_bytes(block::shape const& shape) const override
  {
    return cpu_layer::state_bytes(shape);
  }
  std::size_t activation_bytes(block::shape const& shape) const override
  {
    return cpu_layer::activation_bytes(shape);
  }

  ballast::result<prepared_layer> prepare(block::shape const& shape, std::size_t sequences,
                                          std::size_t length, layer_part part) override
  {
    return prepared_layer{std::make_unique<layer_on_core>(shape, sequences, length, part)};
  }

  ballast::result<std::int64_t> time(std::function<void()> const& work) override
  {
    return core_clock{}.time(work);
  }

  ballast::result<std::int64_t> time_layer(block::shape const& shape, std::size_t length) override
  {
    ballast::result<std::int64_t> time = 0;
    ballast::run_ranks(
        1, [&](ballast::thread_communicator& comm) { time = time_block(shape, length, comm); });
    return time;
  }
};

}  // namespace

std::unique_ptr<layer_device> make_cpu_device()
{
  return std::make_unique<cpu_device>();
}

}  // namespace cli
