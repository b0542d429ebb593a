// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/prepared_route.cuh>
#include <ballast/cuda/route_rows.cuh>
#include <ballast/runtime/detail/uploaded.cuh>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

namespace detail {

[[nodiscard]] inline result<void> make_once(std::optional<side_stream>& side)
{
  if (side) { return {}; }
  auto made = side_stream::make();
  if (!made) { return tl::unexpected(std::move(made).error()); }
  side.emplace(*std::move(made));
  return {};
}

using uploaded_route = uploaded<prepared_route, route_plan, device_rows>;

}  // namespace detail

/// A row_carrier for arrays in device memory: rows are packed, sent and unpacked on the
/// communicator's stream, and the host sees none of them. With it an orchestrator moves inputs and
/// outputs of its modalities between GPUs.
///
///     device_carrier rows(nccl);                                  // once
///     orchestrator step(mpi, rows, std::tuple{vision, audio}, llm);
///
/// The orchestrator plans over a communicator of the host, in its thread; NCCL's and the copy
/// engines' serve one thread. A plan is copied to the device at its first call in a step; memory for
/// it, and the temporary memory of the exchanges, grow in the steps that need more than any before.
///
/// Expects     comm outlives it. The stream's device is the current one, at construction, in every
///             call and at destruction, and reaches the arrays.
/// Ensures     (1) when the stream has done it, `to` is what host_carrier makes it
///             (2) begin_step() waits for the stream, and so does a call that needs more memory than
///                 any before, each with the communicator's deadline; other calls wait for nothing
///                 but what the communicator's all_to_all_v waits for
///             (3) once two steps as large were carried, nothing is allocated
///             (4) memory is freed by the destructor alone, which waits for the stream first
/// Errors      those of ballast::route for device memory; std::bad_alloc.
template <stream_communicator C>
class device_carrier {
 public:
  explicit device_carrier(C& comm) : comm_(comm) {}
  device_carrier& operator=(device_carrier&&) = delete;
  ~device_carrier() { static_cast<void>(comm_.wait()); }

  [[nodiscard]] rank_id rank() const noexcept { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return comm_.size(); }

  /// No upload runs when the next plans are written to pinned memory.
  [[nodiscard]] result<void> begin_step()
  {
    used_ = 0;
    return wait();
  }

  /// Waits until the stream has done what was queued.
  [[nodiscard]] result<void> wait() { return comm_.wait(); }

  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(route_plan const& plan, Arrays const&... arrays)
  {
    return carry(
        plan,
        [&](prepared_route const& ready, std::span<std::byte> memory) {
          return ballast::route(comm_, ready, memory, arrays...);
        },
        arrays...);
  }
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(route_plan const& plan, Arrays const&... arrays)
  {
    return carry(
        plan,
        [&](prepared_route const& ready, std::span<std::byte> memory) {
          return ballast::reverse_route(comm_, ready, memory, arrays...);
        },
        arrays...);
  }

  [[nodiscard]] result<void> copy(row_array const& array)
  {
    return cuda_result("cudaMemcpyAsync",
                       cudaMemcpyAsync(array.to.data(), array.from.data(), array.from.size(),
                                       cudaMemcpyDeviceToDevice, comm_.stream()));
  }

 private:
  struct carried {
    route_plan const* plan = nullptr;
    detail::uploaded_route there;
  };

  template <class Route, class... Arrays>
  [[nodiscard]] result<void> carry(route_plan const& plan, Route const& route,
                                   Arrays const&... arrays)
  {
    if (auto made = detail::make_once(side_); !made) { return made; }
    auto const there = on_device(plan);
    if (!there) { return tl::unexpected(there.error()); }
    // CUDA may wait for the device before it allocates, without a deadline: first wait for the
    // exchanges that are queued, with theirs.
    auto const room = [this](detail::growing_device_bytes& memory,
                             std::size_t bytes) -> result<std::span<std::byte>> {
      if (!memory.has(bytes)) {
        if (auto done = comm_.wait(); !done) { return tl::unexpected(done.error()); }
      }
      return detail::device_bytes(memory, bytes).first(bytes);
    };
    std::array<row_array, sizeof...(Arrays)> const all{arrays...};
    auto const ready = (*there)->ready(device_rows(all), comm_.stream(), room, &*side_);
    if (!ready) { return tl::unexpected(ready.error()); }
    auto const memory = room(temporary_, route_bytes((*there)->there().bound(), arrays...));
    if (!memory) { return tl::unexpected(memory.error()); }
    return route(**ready, *memory);
  }

  /// The tables of a plan of this step.
  [[nodiscard]] result<detail::uploaded_route*> on_device(route_plan const& plan)
  {
    auto each = routes_.begin();
    for (std::size_t place = 0; place < used_; ++place, ++each) {
      if (each->plan == &plan) { return &each->there; }
    }
    if (each == routes_.end()) { each = routes_.emplace(each); }
    if (!each->there.has_room_for(plan)) {
      if (auto done = comm_.wait(); !done) { return tl::unexpected(done.error()); }
    }
    if (auto done = each->there.upload(plan, comm_.stream()); !done) {
      return tl::unexpected(done.error());
    }
    each->plan = &plan;
    ++used_;
    return &each->there;
  }

  C& comm_;
  std::optional<side_stream> side_;
  std::list<carried> routes_;  ///< in the order of a step's first calls
  std::size_t used_ = 0;       ///< of them, in this step
  detail::growing_device_bytes temporary_;
};

}  // namespace ballast::inline v0
