// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/cuda/exchange_heads.cuh>
#include <ballast/cuda/prepared_heads.cuh>
#include <ballast/runtime/device_carrier.cuh>
#include <ballast/runtime/step_balancer.hpp>

#include <cuda_runtime.h>

namespace ballast::inline v0 {

/// A step_balancer for arrays in device memory: the same plan, and the same calls, which join the
/// communicator's stream and return at once.
///
///     device_step_balancer balancer(comm, bags, cost, refine{}, {.query_heads = 32});
///
/// It has the plan in memory that kernels read, what is prepared for each shape of arrays, and the
/// temporary memory of the exchanges. All of it grows in the steps that need more than any before,
/// and nothing has to be sized by the caller. A trainer that captures its step in a CUDA graph sizes
/// a staged<route_plan> and a staged<ulysses_plan> itself.
///
/// Expects     what step_balancer expects. The stream's device is the current one, at construction,
///             in every call and at destruction, and reaches the arrays.
/// Ensures     (1) when the stream has done it, an exchange has made of `to` what step_balancer's
///                 makes of it
///             (2) plan() waits for the stream, since it gathers, and so does an exchange that
///                 needs more temporary memory than any before, each wait with the communicator's
///                 deadline; other exchanges wait for nothing but what the communicator waits for
///             (3) a step no larger than those before allocates nothing, from the second on
///             (4) memory is freed by the destructor alone, which waits for both communicators
///                 first. What was outgrown takes less than what is used
/// Errors      those of step_balancer; transport with CUDA's code and text, and std::bad_alloc for
///             memory of the device, on the rank where it happens: the others have their plan then,
///             and wait for this rank in the next exchange until their deadline.
template <class Cost, partition_policy Policy, splitting_communicator Communicator,
          class Sample = tokens>
  requires stream_communicator<Communicator> && integer_function<Cost, Sample const&>
class device_step_balancer : private step_balancer<Cost, Policy, Communicator, Sample> {
  using host = step_balancer<Cost, Policy, Communicator, Sample>;

 public:
  device_step_balancer(Communicator& group, bag_layout layout, Cost own_cost, Policy own_policy,
                       step_options<Sample> chosen = {})
      : host(group, std::move(layout), std::move(own_cost), std::move(own_policy), chosen)
  {
    BALLAST_EXPECTS(chosen.gpus_per_rank == 1, "options.gpus_per_rank is ", chosen.gpus_per_rank,
                    ", and a stream has one GPU; make a balancer for each");
  }
  device_step_balancer& operator=(device_step_balancer&&) = delete;
  /// Waits first, at most until the deadline: kernels, NCCL and peers' copies may still use the
  /// memory that ends here.
  ~device_step_balancer() { static_cast<void>(wait_for_exchanges()); }

  using host::as_computed;
  using host::as_read;
  using host::bag;
  using host::bag_comm;
  using host::bags;
  using host::comm;
  using host::gpu;
  using host::heads;
  using host::lengths;
  using host::loss_weight;
  using host::options;
  using host::planned;
  using host::rows_computed;
  using host::rows_read;
  using host::samples;
  using host::to_compute;

  /// Plans the step for which this rank has read these samples, and queues the plan's copy to the
  /// device. Collective.
  [[nodiscard]] result<void> plan(std::span<Sample const> read)
  {
    is_uploaded_ = false;
    if (auto made = host::plan(read); !made) { return made; }
    if (auto made = detail::make_once(side_); !made) { return made; }
    // No upload runs when these write pinned memory: to gather, host::plan has waited for the stream.
    if (auto done = route_.upload(to_compute(), comm().stream()); !done) { return done; }
    if (options().query_heads >= 1) {
      if (auto done = heads_.upload(heads(), bag_comm().stream()); !done) { return done; }
    }
    is_uploaded_ = true;
    return {};
  }

  /// As step_balancer::route, on the communicator's stream.
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> route(Arrays const&... arrays)
  {
    return move_rows(
        [&](auto const&... ready) { return ballast::route(comm(), ready..., arrays...); },
        arrays...);
  }
  template <std::same_as<row_array>... Arrays>
  [[nodiscard]] result<void> reverse_route(Arrays const&... arrays)
  {
    return move_rows(
        [&](auto const&... ready) { return ballast::reverse_route(comm(), ready..., arrays...); },
        arrays...);
  }
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_heads(Arrays const&... arrays)
  {
    return move_heads(
        [&](auto const&... ready) { return ballast::to_heads(bag_comm(), ready..., arrays...); },
        arrays...);
  }
  template <std::same_as<head_array>... Arrays>
  [[nodiscard]] result<void> to_tokens(Arrays const&... arrays)
  {
    return move_heads(
        [&](auto const&... ready) { return ballast::to_tokens(bag_comm(), ready..., arrays...); },
        arrays...);
  }

  /// Where each sequence begins in the rows of this rank's bag, as to_heads() leaves them, and where
  /// the last ends, in device memory: for attention kernels that take sequences of any lengths. They
  /// are heads()'s, and there for work that is queued on the bag's stream after plan().
  [[nodiscard]] std::span<std::int32_t const> cu_seqlens() const
  {
    expect_heads();
    return {heads_.there().tables().cu_seqlens, lengths().size() + 1};
  }

 private:
  [[nodiscard]] auto in_room()
  {
    return [this](auto& memory, std::size_t bytes) { return room(memory, bytes); };
  }

  /// Calls move(what is prepared for these arrays, temporary memory).
  template <class Move, class... Arrays>
  [[nodiscard]] result<void> move_rows(Move const& move, Arrays const&... arrays)
  {
    expect_upload();
    std::array<row_array, sizeof...(Arrays)> const all{arrays...};
    auto const ready = route_.ready(device_rows(all), comm().stream(), in_room(), &*side_);
    if (!ready) { return tl::unexpected(ready.error()); }
    auto const memory = room(temporary_, route_bytes(route_.there().bound(), arrays...));
    if (!memory) { return tl::unexpected(memory.error()); }
    return move(**ready, *memory);
  }
  template <class Move, class... Arrays>
  [[nodiscard]] result<void> move_heads(Move const& move, Arrays const&... arrays)
  {
    expect_heads();
    std::array<head_array, sizeof...(Arrays)> const all{arrays...};
    auto const ready =
        heads_.ready(device_heads(all), bag_comm().stream(), in_room(), &*side_, gpu());
    if (!ready) { return tl::unexpected(ready.error()); }
    auto const memory = room(temporary_, exchange_bytes(heads_.there(), gpu(), arrays...));
    if (!memory) { return tl::unexpected(memory.error()); }
    return move(**ready, *memory);
  }

  /// Memory for exchanges, which follow each other on one stream.
  [[nodiscard]] result<std::span<std::byte>> room(detail::growing_device_bytes& memory,
                                                  std::size_t bytes)
  {
    if (!memory.has(bytes)) {
      // CUDA may wait for the device before it allocates, without a deadline: first wait for the
      // exchanges that are queued, with theirs.
      if (auto done = wait_for_exchanges(); !done) { return tl::unexpected(done.error()); }
    }
    return detail::device_bytes(memory, bytes).first(bytes);
  }

  [[nodiscard]] result<void> wait_for_exchanges()
  {
    auto done = comm().wait();
    if (Communicator* const of_bag = this->made_bag_comm(); of_bag != nullptr) {
      auto also = of_bag->wait();
      if (done) { return also; }
    }
    return done;
  }

  void expect_upload() const
  {
    BALLAST_EXPECTS(is_uploaded_, "there is no plan: plan() was not called, or it failed");
  }
  void expect_heads() const
  {
    expect_upload();
    BALLAST_EXPECTS(options().query_heads >= 1,
                    "options.query_heads is 0; give the query heads of the model");
  }

  bool is_uploaded_ = false;
  std::optional<side_stream> side_;
  detail::uploaded_route route_;
  detail::uploaded<prepared_heads, ulysses_plan, device_heads> heads_;
  detail::growing_device_bytes temporary_;
};

}  // namespace ballast::inline v0
