// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_TESTS_CUDA_HOST_ROWS_HPP
#define BALLAST_TESTS_CUDA_HOST_ROWS_HPP

#include <ballast/core/quantities.hpp>
#include <ballast/cuda/detail/copy/row_copies.hpp>
#include <ballast/cuda/device_route.hpp>
#include <ballast/cuda/row_tables.hpp>
#include <ballast/cuda/strided_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

/// What <ballast/cuda/pack_rows.cuh> does on a stream, by the host, copy after copy: with the same
/// tables, lists and arithmetic.
namespace ballast_test {

/// The memory of a device_route, where the device is the host.
class route_memory {
 public:
  explicit route_memory(ballast::route_bound bound)
      : bytes_(ballast::device_route::bytes(bound)), device_(lines()), pinned_(lines())
  {}

  [[nodiscard]] std::span<std::byte> device() { return span_of(device_); }
  [[nodiscard]] std::span<std::byte> pinned() { return span_of(pinned_); }

  /// What upload() queues, at once.
  void upload() { device_ = pinned_; }

 private:
  struct alignas(16) line {
    std::byte bytes[16];
  };

  [[nodiscard]] std::vector<line> lines() const
  {
    std::vector<line> memory(bytes_ / sizeof(line) + 1);
    std::memset(memory.data(), 0xee, memory.size() * sizeof(line));
    return memory;
  }

  [[nodiscard]] std::span<std::byte> span_of(std::vector<line>& memory) const
  {
    return std::as_writable_bytes(std::span(memory)).first(bytes_);
  }

  std::size_t bytes_;
  std::vector<line> device_;
  std::vector<line> pinned_;
};

/// The places that the scan and the kernel before the copies find.
class found_pieces {
 public:
  found_pieces(ballast::device_ranges const& table, ballast::device_rows const& rows,
               std::byte* padded)
      : rows_before_(table.bound), origins_(std::size_t{table.ranks} * rows.count)
  {
    ballast::detail::rows_of_range const count{table};
    ballast::tokens sum = 0;
    for (std::uint32_t range = 0; range < table.bound; ++range) {
      rows_before_[range] = sum;
      sum += count(range);
    }
    ballast::detail::message_blocks const blocks{table, rows, origins_.data(), padded};
    ballast::detail::peer_sums before;
    for (std::uint32_t peer = 0; peer < table.ranks; ++peer) {
      blocks.write(peer, before);
      before = before + blocks.of(peer);
    }
    pieces_ = {table, rows, rows_before_.data(), origins_.data()};
  }
  found_pieces(found_pieces const&) = delete;
  found_pieces& operator=(found_pieces const&) = delete;

  [[nodiscard]] ballast::detail::message_pieces const& all() const { return pieces_; }

 private:
  std::vector<ballast::tokens> rows_before_;
  std::vector<std::size_t> origins_;
  ballast::detail::message_pieces pieces_{{}, ballast::device_rows({}), nullptr, nullptr};
};

template <ballast::contiguous_copy_list List>
void make_copies(List const& list, std::uint32_t count)
{
  for (std::uint32_t index = 0; index < count; ++index) {
    ballast::strided_copy const copy = list(index);
    if (copy.bytes() > 0) { std::memcpy(copy.to, copy.from, copy.bytes()); }
  }
}

inline void pack_by_lists(ballast::device_ranges const& table, ballast::device_rows const& rows,
                          std::byte* messages)
{
  found_pieces const pieces(table, rows, messages);
  make_copies(ballast::detail::pack_copies{pieces.all(), messages}, pieces.all().count());
}

inline void unpack_by_lists(ballast::device_ranges const& table, ballast::device_rows const& rows,
                            std::byte const* messages)
{
  found_pieces const pieces(table, rows, nullptr);
  make_copies(ballast::detail::unpack_copies{pieces.all(), messages}, pieces.all().count());
}

inline void keep_by_list(ballast::device_kept const& table, ballast::device_rows const& rows,
                         bool reverse)
{
  ballast::detail::keep_copies const copies{table, rows, reverse};
  make_copies(copies, copies.count());
}

}  // namespace ballast_test

#endif  // BALLAST_TESTS_CUDA_HOST_ROWS_HPP
