// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/temporary_storage.hpp>
#include <ballast/cuda/device_heads.hpp>
#include <ballast/cuda/tables.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>
#include <cuda/std/functional>

namespace ballast::inline v0 {

/// A bag's GPUs and query heads, which are the same in every step, and the most sequences of any
/// step.
struct ulysses_bound {
  std::uint32_t sequences = 1;
  std::uint32_t gpus = 1;
  std::uint32_t query_heads = 1;
  std::uint32_t kv_heads = 0;  ///< as of head_split

  [[nodiscard]] head_split split() const noexcept { return {query_heads, gpus, kv_heads}; }
};

namespace detail {

struct line_of_item {
  std::uint32_t line;
  BALLAST_HOST_DEVICE std::uint32_t operator()(std::uint32_t index) const { return index / line; }
};

struct item_of_tables {
  ulysses_tables tables;
  BALLAST_HOST_DEVICE tokens operator()(std::uint32_t index) const { return tables.item(index); }
};

}  // namespace detail

/// A ulysses_plan in memory that kernels read. A GPU has one and gives it every step's plan.
///
///     device_ulysses heads(bound, device.span(), pinned);
///     heads.stage(plan);      // writes pinned memory
///     heads.upload(stream);   // copies the lengths; the device sums the rows of all GPUs
///
/// Work that is queued after the upload reads the plan that was staged when the upload ran. So a
/// graph that was captured with one plan can be replayed with another plan after the next stage().
///
/// Shapes      device[device_bytes(bound)], of any alignment; pinned[pinned_bytes(bound)], aligned
///             to 8 bytes.
/// Expects     bound.sequences, gpus and query_heads >= 1, and less than 2^28 (GPUs + 1) x
///             (sequences + 1); device memory and page-locked memory that outlive this object.
///             Plans with the GPUs and query heads of the bound. stage() is called when the last
///             upload is done: wait for the stream, or for an event after the upload. One thread at
///             a time.
/// Ensures     (1) an upload does the same copy and the same sums, whatever the plan
///             (2) a plan that is refused changes nothing; before the first, it has no tokens
///             (3) the steady state allocates nothing
/// Errors      stage: out_of_range if the plan has more sequences than the bound, or 2^31 rows.
///             device_bytes and upload: CUDA's.
/// Complexity  stage O(sequences), upload one copy of 12 bytes a sequence, and one scan of a number
///             for each GPU and sequence.
class device_ulysses {
 public:
  [[nodiscard]] static constexpr std::size_t pinned_bytes(ulysses_bound bound)
  {
    return (std::size_t{bound.sequences} + 1) * (sizeof(tokens) + sizeof(std::int32_t));
  }

  [[nodiscard]] static cudaError_t device_bytes(ulysses_bound bound, std::size_t& bytes)
  {
    check(bound);
    parts at(nullptr, bound);
    std::size_t scan_bytes = 0;
    auto const error = sum_rows(nullptr, scan_bytes, at, cudaStream_t{});
    (void)at.storage.take<std::byte>(scan_bytes);
    bytes = at.storage.bytes();
    return error;
  }

  device_ulysses(ulysses_bound bound, std::span<std::byte> device, std::span<std::byte> pinned)
      : bound_(bound), device_(device), pinned_(reinterpret_cast<tokens*>(pinned.data()))
  {
    check(bound);
    BALLAST_EXPECTS(pinned.size() >= pinned_bytes(bound), "there are ", pinned.size(),
                    " bytes of pinned memory for a bag that takes ", pinned_bytes(bound));
    BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(pinned_) % alignof(tokens) == 0,
                    "the pinned memory does not begin at a multiple of ", alignof(tokens),
                    " bytes");
    // Allocates the plan's memory for all steps; also the plan of an upload before the first
    // stage().
    plan_.assign(std::vector<tokens>(bound.sequences), bound.gpus, bound.query_heads,
                 bound.kv_heads);
    write_lengths();
  }

  /// Writes a plan to pinned memory, for upload().
  [[nodiscard]] result<void> stage(ulysses_plan const& plan)
  {
    BALLAST_EXPECTS(
        plan.split() == bound_.split(), "the plan is for ", detail::counted(plan.gpus(), "GPU"),
        ", ", detail::counted(plan.query_heads(), "query head"), " and whole groups of ",
        detail::counted(plan.split().kv_heads, "key-value head"), ", and the memory for ",
        bound_.gpus, ", ", bound_.query_heads, " and ", bound_.kv_heads);
    if (plan.lengths().size() > bound_.sequences) {
      return fail(error_code::out_of_range, bound_.sequences, "the bag has ",
                  detail::counted(plan.lengths().size(), "sequence"),
                  ", and what holds its plan on the device is made for ", bound_.sequences,
                  "; make it for the most of any step");
    }
    if (plan.rows() > std::numeric_limits<std::int32_t>::max()) {
      return fail(error_code::out_of_range, 0, "the bag has ", plan.rows(),
                  " rows, and cu_seqlens counts them in 32 bits; give it fewer sequences");
    }
    plan_ = plan;
    write_lengths();
    return {};
  }

  [[nodiscard]] cudaError_t upload(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::device_ulysses::upload");
    parts at(device_.data(), bound_);
    std::size_t scan_bytes = 0;
    if (auto const error = sum_rows(nullptr, scan_bytes, at, stream); error != cudaSuccess) {
      return error;
    }
    auto* const scan = at.storage.take<std::byte>(scan_bytes);
    if (device_.size() < at.storage.bytes()) { return cudaErrorInvalidValue; }
    if (auto const error = cudaMemcpyAsync(at.lengths, pinned_, pinned_bytes(bound_),
                                           cudaMemcpyHostToDevice, stream);
        error != cudaSuccess) {
      return error;
    }
    return sum_rows(scan, scan_bytes, at, stream);
  }

  [[nodiscard]] ulysses_bound bound() const noexcept { return bound_; }

  /// The tables that kernels read.
  [[nodiscard]] ulysses_tables tables() const { return parts(device_.data(), bound_).tables; }

  /// Where each sequence begins in the rows of the bag, and where the last ends, on the device: for
  /// attention kernels that take sequences of any lengths. Sequences beyond the plan's have no
  /// tokens, so a captured kernel can take all of the bound.
  ///
  /// Shapes      cu_seqlens()[bound().sequences + 1].
  [[nodiscard]] std::int32_t const* cu_seqlens() const
  {
    return parts(device_.data(), bound_).cu_seqlens;
  }

  /// The plan that was staged last.
  [[nodiscard]] ulysses_plan const& plan() const noexcept { return plan_; }

  /// Host memory for the sizes of messages.
  [[nodiscard]] workspace& memory() noexcept { return memory_; }

 private:
  /// The arrays in the device's memory.
  struct parts {
    parts(std::byte* device, ulysses_bound bound)
        : storage(device), tables{nullptr, nullptr, bound.sequences, bound.split()}
    {
      lengths = reinterpret_cast<tokens*>(storage.take<std::byte>(pinned_bytes(bound)));
      tables.lengths = lengths;
      // Behind the lengths, as in pinned memory: one copy brings both.
      cu_seqlens = reinterpret_cast<std::int32_t*>(lengths + tables.line());
      tables.first_rows = first_rows = storage.take<tokens>(tables.items());
    }

    detail::temporary_storage storage;
    ulysses_tables tables;
    tokens* lengths = nullptr;
    tokens* first_rows = nullptr;
    std::int32_t* cu_seqlens = nullptr;
  };

  static void check(ulysses_bound bound)
  {
    BALLAST_EXPECTS(bound.sequences >= 1 && bound.gpus >= 1 && bound.query_heads >= 1,
                    "the bound is that of a bag of ", detail::counted(bound.gpus, "GPU"), " with ",
                    detail::counted(bound.sequences, "sequence"), " and ",
                    detail::counted(bound.query_heads, "query head"),
                    ", and the least of each is 1");
    // Copies, one for each GPU, sequence and array, are numbered in 32 bits.
    BALLAST_EXPECTS((std::uint64_t{bound.gpus} + 1) * (std::uint64_t{bound.sequences} + 1) <
                        std::numeric_limits<std::uint32_t>::max() / (2 * device_heads::most),
                    "the bound is that of a bag of ", detail::counted(bound.gpus, "GPU"), " with ",
                    detail::counted(bound.sequences, "sequence"),
                    ", whose copies are too many to be numbered in 32 bits");
  }

  [[nodiscard]] static cudaError_t sum_rows(void* scan, std::size_t& scan_bytes, parts const& at,
                                            cudaStream_t stream)
  {
    thrust::counting_iterator<std::uint32_t> const index(0);
    thrust::transform_iterator const lines(index, detail::line_of_item{at.tables.line()});
    thrust::transform_iterator const items(index, detail::item_of_tables{at.tables});
    return cub::DeviceScan::ExclusiveSumByKey(scan, scan_bytes, lines, items, at.first_rows,
                                              at.tables.items(), cuda::std::equal_to<>{}, stream);
  }

  void write_lengths()
  {
    auto* const end = std::copy(plan_.lengths().begin(), plan_.lengths().end(), pinned_);
    auto* const behind = pinned_ + bound_.sequences + 1;
    std::fill(end, behind, tokens{0});
    plan_.write_cu_seqlens(
        {reinterpret_cast<std::int32_t*>(behind), std::size_t{bound_.sequences} + 1});
  }

  ulysses_bound bound_;
  std::span<std::byte> device_;
  tokens* pinned_;
  ulysses_plan plan_;
  workspace memory_;
};

}  // namespace ballast::inline v0
