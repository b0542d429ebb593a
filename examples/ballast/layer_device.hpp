// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../common/block_weights.hpp"
#include "layer_part.hpp"

#include <ballast/core.hpp>
#include <ballast/runtime/model_profiler.hpp>

#include <functional>
#include <memory>

namespace cli {

/// A layer that is ready to be computed, as often as its passes are called.
class device_layer {
 public:
  device_layer() = default;
  device_layer(device_layer const&) = delete;
  device_layer& operator=(device_layer const&) = delete;
  virtual ~device_layer() = default;

  [[nodiscard]] virtual ballast::result<void> forward() = 0;
  [[nodiscard]] virtual ballast::result<void> backward() = 0;
};

/// The same as the profiler wants it: a value.
struct prepared_layer {
  std::unique_ptr<device_layer> layer;

  [[nodiscard]] ballast::result<void> forward() const { return layer->forward(); }
  [[nodiscard]] ballast::result<void> backward() const { return layer->backward(); }
};

/// What is profiled on a device where the command line does not say it.
struct profile_defaults {
  std::string llm;
  std::string encoder;
  std::string lengths;
  std::string items;
  std::size_t tokens_per_item = 1;
};

/// What layers are computed on, by built-in kernels, and timed.
class layer_device {
 public:
  layer_device() = default;
  layer_device(layer_device const&) = delete;
  layer_device& operator=(layer_device const&) = delete;
  virtual ~layer_device() = default;

  /// "cpu" or "gpu".
  [[nodiscard]] virtual std::string name() const = 0;
  /// Its fingerprint.
  [[nodiscard]] virtual std::string hardware() const = 0;
  [[nodiscard]] virtual profile_defaults defaults() const = 0;
  /// Why the kernels cannot compute a layer and what to do, or nothing.
  [[nodiscard]] virtual std::string unfit(block::shape const& shape) const = 0;

  /// What a trainer's layer holds: its parameters, their gradients and what the optimiser keeps.
  [[nodiscard]] virtual std::size_t state_bytes(block::shape const& shape) const = 0;
  /// What a layer keeps of a row between its passes.
  [[nodiscard]] virtual std::size_t activation_bytes(block::shape const& shape) const = 0;

  /// A layer of so many sequences. Errors: out_of_memory, where it does not fit; those of the
  /// device.
  [[nodiscard]] virtual ballast::result<prepared_layer> prepare(block::shape const& shape,
                                                                std::size_t sequences,
                                                                std::size_t length,
                                                                layer_part part) = 0;
  /// The nanoseconds of the work that is queued by a call.
  [[nodiscard]] virtual ballast::result<std::int64_t> time(std::function<void()> const& work) = 0;

  /// The nanoseconds of both passes of a whole layer on one sample, the median of three runs.
  [[nodiscard]] virtual ballast::result<std::int64_t> time_layer(block::shape const& shape,
                                                                 std::size_t length) = 0;
};

/// The clock of a device for the profiler. A budget is of time as it passes.
class device_clock {
 public:
  explicit device_clock(layer_device& device) : device_(device) {}

  template <class Work>
  [[nodiscard]] ballast::result<std::int64_t> time(Work&& work)
  {
    return device_.time(std::ref(work));
  }
  [[nodiscard]] ballast::result<std::int64_t> now() const { return ballast::host_clock{}.now(); }

 private:
  layer_device& device_;
};

static_assert(ballast::profiler_clock<device_clock>);

}  // namespace cli
