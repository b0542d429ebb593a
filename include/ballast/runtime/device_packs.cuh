// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/route/sharded_packs.hpp>
#include <ballast/runtime/detail/uploaded.cuh>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

namespace detail {

/// Memory of a device in the order of a stream, which waits for nothing.
class stream_memory {
 public:
  stream_memory(std::size_t bytes, cudaStream_t stream)
      : bytes_(bytes),
        memory_(device_allocator<std::byte>(stream, stream).allocate(bytes), {stream})
  {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {memory_.get(), bytes_}; }

 private:
  struct release {
    cudaStream_t stream;
    void operator()(std::byte* memory) const noexcept { (void)cudaFreeAsync(memory, stream); }
  };

  std::size_t bytes_;
  std::unique_ptr<std::byte, release> memory_;
};

}  // namespace detail

/// The packs of a rank as sharded_exchange takes them where arrays lie in device memory: heads are
/// packed and unpacked by kernels on a stream, and the host sees none of them.
///
///     device_packs on_device(computes);                          // once
///     sharded_exchange exchange(1, device_allocator<std::byte>(computes, computes));
///     or_throw(on_device.upload(packs));                         // every plan
///     or_throw(exchange.forward(pairs, on_device, to_heads, to_tokens, [&](std::size_t pack) {
///       ...                                                      // queues attention on computes
///     }));
///
/// The communicator's transfers wait for what is on the stream when they begin: `computes` of
/// nccl_pairs, so that messages travel while attention runs, or the stream of an nccl_communicator,
/// where each waits for the one before. The host waits for messages, never for a kernel; so queue
/// attention without waiting for it.
///
/// Expects     the stream outlives it, its device is the current one, and reaches the arrays; no two
///             ranks of the exchange give arrays of the host and of a device. packs stay as they are
///             until the next upload(), which comes after an exchange of what was uploaded before
///             has returned, or when the stream is empty. At most device_heads::most arrays, of few shapes.
/// Ensures     (1) when the stream has done it, arrays are what sharded_exchange makes of those of
///                 the host, byte for byte; sums as those of prepared_heads
///             (2) no call waits for the device, but upload() where packs have more sequences than
///                 ever before
///             (3) memory is allocated only where packs are larger than ever before, or of other
///                 degrees, and freed by the destructor
/// Errors      CUDA's, as transport; std::bad_alloc.
/// Complexity  upload: that of staged<ulysses_plan> for each shared pack. The rest: that of prepared_heads.
class device_packs {
 public:
  static constexpr bool reads_messages = false;

  explicit device_packs(cudaStream_t stream) : stream_(stream) {}

  /// Queues the copy of a step's plans to the device.
  [[nodiscard]] result<void> upload(sharded_packs const& packs)
  {
    packs_ = nullptr;
    while (heads_.size() < packs.shared()) { heads_.emplace_back(); }
    for (std::size_t pack = 0; pack < packs.shared(); ++pack) {
      if (auto done = at(pack).upload(packs[pack].plan, stream_); !done) { return done; }
    }
    packs_ = &packs;
    return {};
  }

  [[nodiscard]] cudaStream_t stream() const noexcept { return stream_; }

  // What sharded_exchange calls.

  [[nodiscard]] sharded_packs const& packs() const
  {
    BALLAST_EXPECTS(packs_ != nullptr, "there are no packs: upload() was not called, or it failed");
    return *packs_;
  }

  [[nodiscard]] result<void> pack(std::size_t pack, detail::head_direction direction,
                                  std::span<head_array const> arrays, std::span<std::byte> outgoing)
  {
    device_heads const heads(arrays);
    auto const found = ready(pack, heads);
    if (!found) { return tl::unexpected(found.error()); }
    return cuda_result("packing on the device",
                       (*found)->pack(direction == detail::head_direction::to_heads, heads,
                                      outgoing.data(), stream_));
  }

  [[nodiscard]] result<void> unpack(std::size_t pack, detail::head_direction direction,
                                    std::span<head_array const> arrays,
                                    std::span<std::byte const> incoming)
  {
    device_heads const heads(arrays);
    auto const found = ready(pack, heads);
    if (!found) { return tl::unexpected(found.error()); }
    return cuda_result("unpacking on the device",
                       (*found)->unpack(direction == detail::head_direction::to_heads, heads,
                                        incoming.data(), stream_));
  }

 private:
  using uploaded_heads =
      detail::uploaded<prepared_heads, ulysses_plan, device_heads, detail::stream_memory>;

  [[nodiscard]] uploaded_heads& at(std::size_t pack)
  {
    return *std::next(heads_.begin(), static_cast<std::ptrdiff_t>(pack));
  }

  [[nodiscard]] result<prepared_heads const*> ready(std::size_t pack, device_heads const& arrays)
  {
    auto const room = [this](detail::growing_memory<detail::stream_memory>& memory,
                             std::size_t bytes) -> result<std::span<std::byte>> {
      return memory
          .at_least(bytes,
                    [this](std::size_t size) { return detail::stream_memory(size, stream_); })
          .span();
    };
    return at(pack).ready(arrays, stream_, room, nullptr, packs()[pack].gpu);
  }

  cudaStream_t stream_;
  sharded_packs const* packs_ = nullptr;
  std::list<uploaded_heads> heads_;  ///< of the shared packs
};

}  // namespace ballast::inline v0
