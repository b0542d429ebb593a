// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/detail/row_copies.hpp>
#include <ballast/gpu/streams.hpp>

#include <cuda_runtime_api.h>  // cudaMemcpyAsync

namespace ballast::inline v0 {

/// The largest plan of any step: ranks, and the most ranges of rows that a rank sends, receives or
/// keeps.
struct route_bound {
  std::uint32_t ranks = 1;
  std::uint32_t ranges = 0;
};

/// A route_plan in memory that kernels read. A rank has one and gives it every step's plan.
///
///     device_route there(bound, device.span(), pinned);  // of device_route::bytes(bound) each
///     there.stage(plan);                                 // writes pinned memory
///     there.upload(stream);                              // one copy; a graph can hold it
///
/// Work that is queued after the upload reads the plan that was staged when the upload ran. So a
/// graph that was captured with one plan can be replayed with another plan after the next stage().
///
/// Shapes      device[bytes(bound)], pinned[bytes(bound)], both aligned to 16 bytes.
/// Expects     bound.ranks >= 1, and less than 2^28 ranges; device memory and page-locked memory
///             that outlive this object. stage() is called when the last upload is done: wait for
///             the stream, or for an event after the upload. One thread at a time.
/// Ensures     (1) an upload copies bytes(bound) bytes, whatever the plan
///             (2) a plan that is refused changes nothing
///             (3) the steady state allocates nothing
/// Errors      stage: out_of_range if the plan exceeds the bound. upload: CUDA's.
/// Complexity  stage O(ranks + ranges) of the plan. bytes: 16 a rank, 56 a range.
class device_route {
 public:
  [[nodiscard]] static constexpr std::size_t bytes(route_bound bound)
  {
    return layout(bound).bytes;
  }

  device_route(route_bound bound, std::span<std::byte> device, std::span<std::byte> pinned)
      : bound_(bound), device_(device.data()), pinned_(pinned.data())
  {
    BALLAST_EXPECTS(bound.ranks >= 1, "the bound is that of a route over no ranks");
    // Copies, one for each range that comes or stays and each array, are numbered in 32 bits.
    constexpr auto most = std::numeric_limits<std::uint32_t>::max() / (2 * device_rows::most);
    BALLAST_EXPECTS(bound.ranges <= most, "the bound is that of a route of ", bound.ranges,
                    " ranges, and the most is ", most);
    BALLAST_EXPECTS(device.size() >= bytes(bound), "there are ", device.size(),
                    " bytes of device memory for a route that takes ", bytes(bound));
    BALLAST_EXPECTS(pinned.size() >= bytes(bound), "there are ", pinned.size(),
                    " bytes of pinned memory for a route that takes ", bytes(bound));
    BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(device_) % alignof(peer_rows) == 0,
                    "the device memory does not begin at a multiple of ", alignof(peer_rows),
                    " bytes");
    BALLAST_EXPECTS(reinterpret_cast<std::uintptr_t>(pinned_) % alignof(peer_rows) == 0,
                    "the pinned memory does not begin at a multiple of ", alignof(peer_rows),
                    " bytes");
    *in<counts>(pinned_, 0) = {};  // so that an upload without a plan is of one that moves nothing
    auto* const rows = in<tokens>(pinned_, layout(bound).sent_rows);
    std::fill(rows, rows + 2 * std::size_t{bound.ranks}, tokens{0});
  }

  /// Writes a plan to pinned memory, for upload().
  [[nodiscard]] result<void> stage(route_plan const& plan)
  {
    std::size_t const sent = ranges_of(plan.sent);
    std::size_t const received = ranges_of(plan.received);
    std::size_t const kept = plan.kept.size();
    struct need {
      char const* what;
      std::size_t count;
      std::size_t most;
    };
    for (need const each : {need{"ranks", plan.ranks(), bound_.ranks},
                            need{"ranges of rows to send", sent, bound_.ranges},
                            need{"ranges of rows to receive", received, bound_.ranges},
                            need{"ranges of rows to keep", kept, bound_.ranges}}) {
      if (each.count > each.most) { return above(each.what, each.count, each.most); }
    }
    layout const at(bound_);
    *in<counts>(pinned_, 0) = {static_cast<std::uint32_t>(sent),
                               static_cast<std::uint32_t>(received),
                               static_cast<std::uint32_t>(kept)};
    write(plan.sent, at.sent, at.sent_rows);
    write(plan.received, at.received, at.received_rows);
    std::copy(plan.kept.begin(), plan.kept.end(), in<kept_rows>(pinned_, at.kept));
    rank_ = plan.rank;
    ranks_ = plan.ranks();
    rows_before_ = plan.rows_before;
    rows_after_ = plan.rows_after;
    word_ = plan.word;
    return {};
  }

  [[nodiscard]] cudaError_t upload(cudaStream_t stream) const
  {
    nvtx_range const range("ballast::device_route::upload");
    return cudaMemcpyAsync(device_, pinned_, bytes(bound_), cudaMemcpyHostToDevice, stream);
  }

  [[nodiscard]] route_bound bound() const noexcept { return bound_; }

  /// The tables that kernels read.
  [[nodiscard]] device_ranges sent() const
  {
    layout const at(bound_);
    return {in<peer_rows>(device_, at.sent), &in<counts>(device_, 0)->sent,
            in<tokens>(device_, at.sent_rows), bound_.ranges, bound_.ranks};
  }
  [[nodiscard]] device_ranges received() const
  {
    layout const at(bound_);
    return {in<peer_rows>(device_, at.received), &in<counts>(device_, 0)->received,
            in<tokens>(device_, at.received_rows), bound_.ranges, bound_.ranks};
  }
  [[nodiscard]] device_kept kept() const
  {
    return {in<kept_rows>(device_, layout(bound_).kept), &in<counts>(device_, 0)->kept,
            bound_.ranges};
  }

  /// What the host needs of the plan that was staged last; valid until the next stage().
  [[nodiscard]] row_traffic traffic() const
  {
    layout const at(bound_);
    return {rank_,
            rows_before_,
            rows_after_,
            {in<tokens>(pinned_, at.sent_rows), ranks_},
            {in<tokens>(pinned_, at.received_rows), ranks_},
            word_};
  }

  /// Host memory for the sizes of messages.
  [[nodiscard]] workspace& memory() noexcept { return memory_; }

 private:
  struct counts {
    std::uint32_t sent;
    std::uint32_t received;
    std::uint32_t kept;
    std::uint32_t padding = 0;  // to the alignment of what follows
  };

  /// Offsets in both memories; what has the widest loads comes first.
  struct layout {
    constexpr explicit layout(route_bound bound)
        : sent(sizeof(counts)),
          received(sent + bound.ranges * sizeof(peer_rows)),
          kept(received + bound.ranges * sizeof(peer_rows)),
          sent_rows(kept + bound.ranges * sizeof(kept_rows)),
          received_rows(sent_rows + bound.ranks * sizeof(tokens)),
          bytes(received_rows + bound.ranks * sizeof(tokens))
    {}

    std::size_t sent;
    std::size_t received;
    std::size_t kept;
    std::size_t sent_rows;
    std::size_t received_rows;
    std::size_t bytes;
  };

  template <class T>
  [[nodiscard]] static T* in(std::byte* memory, std::size_t offset)
  {
    // In arrays of bytes objects are created implicitly, so nothing must be constructed.
    return reinterpret_cast<T*>(memory + offset);
  }

  [[nodiscard]] static std::size_t ranges_of(route_table const& table)
  {
    std::size_t ranges = 0;
    for (std::size_t peer = 0; peer < table.rows().size(); ++peer) {
      ranges += table[to_id<rank_id>(peer)].size();
    }
    return ranges;
  }

  void write(route_table const& table, std::size_t ranges, std::size_t rows)
  {
    auto* next = in<peer_rows>(pinned_, ranges);
    for (std::uint32_t peer = 0; peer < table.rows().size(); ++peer) {
      for (row_range const range : table[to_id<rank_id>(peer)]) {
        BALLAST_EXPECTS(range.count >= 0 && range.count <= longest_sample,
                        "the route has a range of ", range.count, " rows for rank ", peer,
                        ", which is not from 0 to ", longest_sample);
        *next++ = {range.first, static_cast<std::uint32_t>(range.count), peer};
      }
    }
    auto* const end =
        std::copy(table.rows().begin(), table.rows().end(), in<tokens>(pinned_, rows));
    std::fill(end, in<tokens>(pinned_, rows) + bound_.ranks, tokens{0});
  }

  [[nodiscard]] static tl::unexpected<error> above(char const* what, std::size_t count,
                                                   std::size_t most)
  {
    return fail(error_code::out_of_range, 0, "the plan has ", count, " ", what,
                ", and the device route is made for ", most,
                "; make it for the most that any step has");
  }

  route_bound bound_;
  std::byte* device_;
  std::byte* pinned_;
  rank_id rank_{};
  std::size_t ranks_ = 0;
  tokens rows_before_ = 0;
  tokens rows_after_ = 0;
  std::uint64_t word_ = 0;
  workspace memory_;
};

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
