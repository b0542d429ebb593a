// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_CUDA_DEVICE_SEQUENCE_ROWS_HPP
#define BALLAST_CUDA_DEVICE_SEQUENCE_ROWS_HPP

#include <ballast/core/contract.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/cuda/detail/row_repeats.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaMemcpyAsync

#include <cstddef>
#include <cstdint>
#include <span>

namespace ballast::inline v0 {

/// The copies of sequence_rows in memory that kernels read: repeat_rows() and sum_rows() of a device
/// read them. A rank has one and gives it every step's copies.
///
///     device_sequence_rows there(most, device.span(), pinned);  // of bytes(most) each
///     there.stage(beside.copies);                               // writes pinned memory
///     there.upload(stream);                                     // one copy; a graph can hold it
///
/// Shapes      device[bytes(most)], pinned[bytes(most)], both aligned to 8 bytes.
/// Expects     device memory and page-locked memory that outlive this object. stage() is called
///             when the last upload is done. One thread at a time.
/// Ensures     (1) an upload copies bytes(most) bytes, whatever the step; without a stage() it is of
///                 no sequences
///             (2) copies that are refused change nothing
///             (3) nothing is allocated
/// Errors      stage: out_of_range if there are more sequences than `most`. upload: CUDA's.
/// Complexity  stage O(sequences). bytes: 8 a sequence.
class device_sequence_rows {
 public:
  /// For as many sequences of one rank and step.
  [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t most)
  {
    return (std::size_t{most} + 2) * sizeof(tokens);
  }

  device_sequence_rows(std::uint32_t most, std::span<std::byte> device, std::span<std::byte> pinned)
      : most_(most), device_(in(device)), pinned_(in(pinned))
  {
    BALLAST_EXPECTS(device.size() >= bytes(most) && pinned.size() >= bytes(most), "there are ",
                    device.size(), " bytes of device memory and ", pinned.size(),
                    " of pinned memory for copies that take ", bytes(most));
    pinned_[0] = 0;
  }

  /// Writes how many copies each sequence has to pinned memory, for upload().
  [[nodiscard]] result<void> stage(std::span<tokens const> copies)
  {
    if (copies.size() > most_) {
      return fail(error_code::out_of_range, 0, "there are rows of ", copies.size(),
                  " sequences, and their table on the device is made for ", most_,
                  "; make it for the most of any step");
    }
    pinned_[0] = static_cast<tokens>(copies.size());
    pinned_[1] = 0;
    for (std::size_t row = 0; row < copies.size(); ++row) {
      pinned_[row + 2] = pinned_[row + 1] + copies[row];
    }
    return {};
  }

  [[nodiscard]] cudaError_t upload(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::device_sequence_rows::upload");
    return cudaMemcpyAsync(device_, pinned_, bytes(most_), cudaMemcpyHostToDevice, stream);
  }

  [[nodiscard]] std::uint32_t most() const noexcept { return most_; }

  /// What kernels read.
  [[nodiscard]] detail::repeat_table table() const { return {device_, device_ + 1}; }

 private:
  [[nodiscard]] static tokens* in(std::span<std::byte> memory)
  {
    auto const address = reinterpret_cast<std::uintptr_t>(memory.data());
    BALLAST_EXPECTS(address % alignof(tokens) == 0, "the memory does not begin at a multiple of ",
                    alignof(tokens), " bytes");
    // In arrays of bytes objects are created implicitly, so nothing must be constructed.
    return reinterpret_cast<tokens*>(memory.data());
  }

  std::uint32_t most_;
  tokens* device_;
  tokens* pinned_;
};

}  // namespace ballast::inline v0

#endif  // BALLAST_CUDA_DEVICE_SEQUENCE_ROWS_HPP
