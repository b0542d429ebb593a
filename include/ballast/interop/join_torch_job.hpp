// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_INTEROP_JOIN_TORCH_JOB_HPP
#define BALLAST_INTEROP_JOIN_TORCH_JOB_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/result.hpp>
#include <ballast/interop/torch_communicator.hpp>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

namespace ballast::inline v0 {

namespace detail {

[[nodiscard]] inline result<std::string> torch_variable(char const* name)
{
  if (char const* const text = std::getenv(name); text != nullptr) { return std::string(text); }
  return fail(error_code::unknown_name, 0, "the environment has no ", name,
              "; start the processes with torchrun, or give each RANK, WORLD_SIZE, MASTER_ADDR and "
              "MASTER_PORT");
}

[[nodiscard]] inline result<std::size_t> torch_number(char const* name, std::size_t least,
                                                      std::size_t most)
{
  return torch_variable(name).and_then([&](std::string const& text) -> result<std::size_t> {
    std::size_t value = 0;
    char const* const end = text.data() + text.size();
    auto const [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem == std::errc() && stop == end && value >= least && value <= most) { return value; }
    return fail(error_code::out_of_range, 0, name, " is \"", text, "\"; give a number from ", least,
                " to ", most);
  });
}

/// What `make` makes of c10d, which throws exceptions of many types.
template <class Make>
[[nodiscard]] auto made_of_torch(std::chrono::milliseconds deadline, Make make)
    -> result<decltype(make())>
try {
  return make();
} catch (std::bad_alloc const&) {
  throw;
} catch (std::exception const& why) {  // the lines below the first are a backtrace
  std::string_view const text = why.what();
  if (text.find("imeout") != std::string_view::npos || text.find("timed out") != text.npos) {
    return comm_failure::timed_out("join_torch_job", deadline, {});
  }
  return fail(error_code::transport, 0,
              "join_torch_job: c10d says: ", text.substr(0, text.find('\n')));
}

}  // namespace detail

/// Makes a process group of gloo, of `ranks` processes that meet in a store, and a communicator
/// over it. Collective.
///
/// Expects     rank < ranks, another one in each process. USE_C10D_GLOO is defined.
/// Errors      timed_out: not all came within the deadline. transport, with c10d's text.
[[nodiscard]] inline result<torch_communicator> join_torch_job(
    c10::intrusive_ptr<c10d::Store> const& store, std::size_t rank, std::size_t ranks,
    std::chrono::milliseconds deadline = default_deadline)
{
  BALLAST_EXPECTS(rank < ranks, "rank ", rank, " of ", ranks);
  detail::expect_deadline(deadline);
  deadline = std::min(deadline, detail::longest_deadline);
  return detail::made_of_torch(deadline, [&] {
    auto options = c10d::ProcessGroupGloo::Options::create(deadline);
    char const* const network = std::getenv("GLOO_SOCKET_IFNAME");
    options->devices.push_back(network != nullptr
                                   ? c10d::ProcessGroupGloo::createDeviceForInterface(network)
                                   : c10d::ProcessGroupGloo::createDefaultDevice());
    return torch_communicator::over(
        c10::make_intrusive<c10d::ProcessGroupGloo>(store, static_cast<int>(rank),
                                                    static_cast<int>(ranks), options),
        deadline);
  });
}

/// The same of the processes that torchrun started, or you with the environment that it gives:
/// RANK, WORLD_SIZE, and MASTER_ADDR and MASTER_PORT, where rank 0 has the store.
///
/// Errors      also unknown_name and out_of_range: a variable is missing or wrong.
[[nodiscard]] inline result<torch_communicator> join_torch_job(
    std::chrono::milliseconds deadline = default_deadline)
{
  detail::expect_deadline(deadline);
  deadline = std::min(deadline, detail::longest_deadline);
  auto const ranks = detail::torch_number("WORLD_SIZE", 1, std::numeric_limits<int>::max());
  if (!ranks) { return tl::unexpected(ranks.error()); }
  auto const rank = detail::torch_number("RANK", 0, *ranks - 1);
  if (!rank) { return tl::unexpected(rank.error()); }
  auto const host = detail::torch_variable("MASTER_ADDR");
  if (!host) { return tl::unexpected(host.error()); }
  auto const port =
      detail::torch_number("MASTER_PORT", 0, std::numeric_limits<std::uint16_t>::max());
  if (!port) { return tl::unexpected(port.error()); }
  char const* const has_agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  char const* const attempt = std::getenv("TORCHELASTIC_RESTART_COUNT");
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(*port);
  options.isServer = *rank == 0 && (has_agent == nullptr || std::string_view(has_agent) != "True");
  options.waitWorkers = false;                                          // the group waits for all
  options.timeout = std::chrono::ceil<std::chrono::seconds>(deadline);  // 0.9 s would be none
  auto const store = detail::made_of_torch(deadline, [&] {
    return c10::make_intrusive<c10d::PrefixStore>(
        std::string("ballast/") + (attempt == nullptr ? "0" : attempt),
        c10::make_intrusive<c10d::TCPStore>(*host, options));
  });
  if (!store) { return tl::unexpected(store.error()); }
  return join_torch_job(*store, *rank, *ranks, deadline);
}

}  // namespace ballast::inline v0

#endif  // BALLAST_INTEROP_JOIN_TORCH_JOB_HPP
