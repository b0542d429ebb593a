// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/comm/mpi_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/interop/torch_communicator.hpp>

#include <cstdlib>
#include <variant>

namespace trainer {

/// Over MPI, or over LibTorch's own process groups: chosen when the program starts, so that the
/// trainer is compiled once.
class job_communicator {
 public:
  template <ballast::communicator C>
  explicit job_communicator(C comm) : any_(std::move(comm))
  {}

  [[nodiscard]] ballast::rank_id rank() const
  {
    return std::visit([](auto const& comm) { return comm.rank(); }, any_);
  }
  [[nodiscard]] std::size_t size() const
  {
    return std::visit([](auto const& comm) { return comm.size(); }, any_);
  }
  [[nodiscard]] ballast::result<void> all_gather(std::span<std::byte const> send,
                                                 std::span<std::byte> receive)
  {
    return std::visit([&](auto& comm) { return comm.all_gather(send, receive); }, any_);
  }
  [[nodiscard]] ballast::result<void> all_to_all_v(std::span<std::byte const> send,
                                                   std::span<std::size_t const> send_bytes,
                                                   std::span<std::byte> receive,
                                                   std::span<std::size_t const> receive_bytes,
                                                   std::uint64_t content = 0)
  {
    return std::visit(
        [&](auto& comm) {
          return comm.all_to_all_v(send, send_bytes, receive, receive_bytes, content);
        },
        any_);
  }
  [[nodiscard]] ballast::result<void> wait()
  {
    return std::visit([](auto& comm) { return comm.wait(); }, any_);
  }
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    return std::visit([&](auto& comm) { return comm.scratch(bytes); }, any_);
  }
  [[nodiscard]] ballast::result<job_communicator> split(std::uint32_t colour)
  {
    return std::visit(
        [&](auto& comm) {
          return comm.split(colour).map(
              [](auto part) { return job_communicator(std::move(part)); });
        },
        any_);
  }

 private:
  std::variant<ballast::mpi_communicator, ballast::torch_communicator> any_;
};

/// Whether torchrun, or somebody who sets what it sets, has started this process.
[[nodiscard]] inline bool started_by_torchrun()
{
  return std::getenv("RANK") != nullptr;
}

/// All processes of the job.
[[nodiscard]] inline ballast::result<job_communicator> join_job()
{
  auto const wrap = [](auto comm) { return job_communicator(std::move(comm)); };
  return started_by_torchrun() ? ballast::join_torch_job().map(wrap)
                               : ballast::mpi_communicator::over(MPI_COMM_WORLD).map(wrap);
}

}  // namespace trainer
