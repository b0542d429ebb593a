// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/gpu/streams.hpp>

#include <nccl.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
#error "ballast/gpu/nccl_window.hpp needs NCCL 2.28, which has the zero-CTA policy"
#endif

namespace ballast::inline v0 {

/// Device memory in a symmetric window of an NCCL communicator. NCCL's collectives between arrays
/// in such windows need no multiprocessor where the communicator has the zero-CTA policy: GPUs that
/// reach each other's memory then copy by their copy engines.
///
///     auto config = nccl_window::zero_cta().value();
///     ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
///     auto send = nccl_window::make(comm, bytes);
///
/// Making it is collective, and all ranks give the same `bytes`. The communicator is borrowed, as by
/// nccl_communicator, which may use it at the same time: the window ends before `comm` is destroyed,
/// and when no call uses its memory. If `comm` has been aborted and so is null, the memory alone is
/// freed.
///
/// Expects     bytes > 0; the device of comm is the thread's current one; the variable `comm` does
///             not move.
/// Errors      transport with NCCL's code and text; timed_out where a communicator that is not
///             blocking has not registered the memory by the deadline: abort it. The memory is then
///             kept until the process ends.
class nccl_window {
 public:
  /// Returns `config` with the zero-CTA policy, for the owner of a communicator to make it with.
  /// transport, with the version as position, where the NCCL that was loaded is older than 2.28.
  [[nodiscard]] static result<ncclConfig_t> zero_cta(ncclConfig_t config = NCCL_CONFIG_INITIALIZER)
  {
    int version = 0;
    if (auto const code = ncclGetVersion(&version); code != ncclSuccess) {
      return comm_failure::transport("ncclGetVersion", code, ncclGetErrorString(code));
    }
    if (version < NCCL_VERSION(2, 28, 0)) {
      return fail(error_code::transport, static_cast<std::size_t>(version), "NCCL ",
                  version / 10'000, ".", version / 100 % 100,
                  " has no zero-CTA policy; load NCCL 2.28 or a newer one, or use "
                  "process_copy_engine_communicator");
    }
    config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    return config;
  }

  [[nodiscard]] static result<nccl_window> make(
      ncclComm_t& comm, std::size_t bytes, std::chrono::milliseconds deadline = default_deadline)
  {
    BALLAST_EXPECTS(bytes > 0, "a window has at least a byte");
    detail::expect_deadline(deadline);
    void* memory = nullptr;
    if (auto const code = ncclMemAlloc(&memory, bytes); code != ncclSuccess) {
      return comm_failure::transport("ncclMemAlloc", code, ncclGetErrorString(code));
    }
    auto made = std::make_unique<registration>(comm, static_cast<std::byte*>(memory), bytes);
    ncclResult_t state =
        ncclCommWindowRegister(comm, memory, bytes, &made->window, NCCL_WIN_COLL_SYMMETRIC);
    bool const in_time = detail::poll(deadline, [&] {
      return state != ncclInProgress ||
             (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state != ncclInProgress);
    });
    if (!in_time) {
      static auto& kept = *new std::vector<std::unique_ptr<registration>>();
      kept.push_back(std::move(made));  // NCCL may still write into it
      return comm_failure::timed_out("ncclCommWindowRegister", deadline, {});
    }
    if (state != ncclSuccess) {
      return comm_failure::transport("ncclCommWindowRegister", state, ncclGetErrorString(state));
    }
    return nccl_window(std::move(made));
  }

  /// The host must not read it. Empty if it was moved from.
  [[nodiscard]] std::span<std::byte> span() const noexcept
  {
    return made_ ? std::span(made_->memory, made_->bytes) : std::span<std::byte>();
  }

  /// Whether NCCL has made a window: if GPUs do not reach each other, its collectives take the memory
  /// as any other.
  [[nodiscard]] bool is_symmetric() const noexcept { return made_ && made_->window != nullptr; }

 private:
  struct registration {
    registration(ncclComm_t& borrowed, std::byte* allocated, std::size_t count) noexcept
        : comm(borrowed), memory(allocated), bytes(count)
    {}
    registration& operator=(registration&&) = delete;
    ~registration()
    {
      if (comm != nullptr && window != nullptr) { (void)ncclCommWindowDeregister(comm, window); }
      (void)ncclMemFree(memory);
    }

    ncclComm_t& comm;
    std::byte* memory;
    std::size_t bytes;
    ncclWindow_t window = nullptr;
  };

  explicit nccl_window(std::unique_ptr<registration> made) noexcept : made_(std::move(made)) {}

  std::unique_ptr<registration> made_;
};

}  // namespace ballast::inline v0
