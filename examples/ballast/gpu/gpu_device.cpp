// SPDX-License-Identifier: Apache-2.0
#include "gpu_device.hpp"

#include "cublas.hpp"
#include "cuda_memory.hpp"
#include "gpu_kernels.hpp"
#include "gpu_layer.hpp"
#include "gpu_layer_arrays.hpp"

#include <ballast/core.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <functional>
#include <memory>

namespace cli {
namespace {

using ballast::result;

struct destroy_stream {
  void operator()(cudaStream_t stream) const noexcept { (void)cudaStreamDestroy(stream); }
};
using owned_stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, destroy_stream>;

/// Longer than the host takes to queue a pass, of up to some hundred kernels.
constexpr std::chrono::milliseconds queueing_time{1};

class layer_on_gpu final : public device_layer {
 public:
  explicit layer_on_gpu(gpu_layer layer) : layer_(std::move(layer)) {}

  result<void> forward() override { return layer_.forward(); }
  result<void> backward() override { return layer_.backward(); }

 private:
  gpu_layer layer_;
};

class gpu_device final : public layer_device {
 public:
  gpu_device(std::string hardware, owned_stream stream, cublas products, ballast::event_clock clock)
      : hardware_(std::move(hardware)),
        stream_(std::move(stream)),
        products_(std::move(products)),
        clock_(std::move(clock))
  {}

  std::string name() const override { return "gpu"; }
  std::string hardware() const override { return hardware_; }

  /// A layer of Llama 3 8B but for the gate, and one of ViT-L.
  profile_defaults defaults() const override
  {
    return {.llm = "transformer:d=4096,layers=32,heads=32,kv_heads=8,ffn=14336,causal=1",
            .encoder = "transformer:d=1024,layers=24,heads=16,causal=1",
            .lengths =
                "128,256,384,512,640,768,896,1024,1280,1536,1792,2048,2304,2560,3072,3584,"
                "4096,4608,5120,5632,6144,6656,7168,8192",
            .items = "1,2,4,8,16,32,64",
            .tokens_per_item = 256};
  }

  std::string unfit(block::shape const& shape) const override
  {
    constexpr std::size_t most_width = std::size_t{1} << 15;
    constexpr std::size_t most_hidden = std::size_t{1} << 17;
    if (shape.width > most_width || shape.hidden > most_hidden) {
      return "the built-in kernels take a transformer of d at most " + std::to_string(most_width) +
             " and ffn at most " + std::to_string(most_hidden);
    }
    std::string_view const why = unfit_for_gpu(shape);
    return why.empty() ? ""
                       : "the built-in kernels read 8 numbers at once on a GPU, but " +
                             std::string(why) + "; choose another, or give --device cpu";
  }

  std::size_t state_bytes(block::shape const& shape) const override
  {
    return gpu_layer_arrays::state_bytes(shape);
  }
  std::size_t activation_bytes(block::shape const& shape) const override
  {
    return gpu_layer_arrays::activation_bytes(shape);
  }

  result<prepared_layer> prepare(block::shape const& shape, std::size_t sequences,
                                 std::size_t length, layer_part part) override
  {
    auto made = gpu_layer::make(products_, stream_.get(), shape, sequences, length, part);
    if (!made) { return tl::unexpected(made.error()); }
    return prepared_layer{std::make_unique<layer_on_gpu>(std::move(*made))};
  }

  result<std::int64_t> time(std::function<void()> const& work) override
  {
    if (auto busy = cuda_done("a kernel", keep_busy(stream_.get(), queueing_time)); !busy) {
      return tl::unexpected(busy.error());
    }
    return clock_.time(work);
  }

  result<std::int64_t> time_layer(block::shape const& shape, std::size_t length) override
  {
    auto layer = prepare(shape, 1, length, layer_part::both);
    if (!layer) { return tl::unexpected(layer.error()); }
    std::array<std::int64_t, 5> times{};
    for (std::int64_t& each : times) {
      result<void> done;
      auto const taken = time([&] {
        done = layer->forward();
        if (done) { done = layer->backward(); }
      });
      if (!done) { return tl::unexpected(done.error()); }
      if (!taken) { return taken; }
      each = *taken;
    }
    std::sort(times.begin() + 2, times.end());  // the first two warm up
    return times[3];
  }

 private:
  std::string hardware_;
  owned_stream stream_;
  cublas products_;
  ballast::event_clock clock_;
};

}  // namespace

std::string why_no_gpu()
{
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found == cudaSuccess && devices > 0) { return ""; }
  (void)cudaGetLastError();
  return std::string("CUDA finds no GPU (") +
         (found == cudaSuccess ? "none is visible" : cudaGetErrorString(found)) +
         "); run it where there is one";
}

result<std::unique_ptr<layer_device>> make_gpu_device()
{
  if (auto set = cuda_done("cudaSetDevice", cudaSetDevice(0)); !set) {
    return tl::unexpected(set.error());
  }
  cudaDeviceProp about{};
  if (auto asked = cuda_done("cudaGetDeviceProperties", cudaGetDeviceProperties(&about, 0));
      !asked) {
    return tl::unexpected(asked.error());
  }
  auto const functions = cublas_functions::load();
  if (!functions) { return tl::unexpected(functions.error()); }
  cudaStream_t made = nullptr;
  auto const created = cuda_done("cudaStreamCreateWithFlags",
                                 cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  if (!created) { return tl::unexpected(created.error()); }
  owned_stream stream(made);
  auto products = cublas::make(*functions, stream.get());
  if (!products) { return tl::unexpected(products.error()); }
  auto clock = ballast::event_clock::make(stream.get());
  if (!clock) { return tl::unexpected(clock.error()); }
  std::string hardware = std::string(about.name) + ", cuBLAS " + products->version();
  return std::make_unique<gpu_device>(std::move(hardware), std::move(stream), std::move(*products),
                                      std::move(*clock));
}

}  // namespace cli
