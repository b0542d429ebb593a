// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/checked_group.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <signal.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <charconv>
#include <csignal>
#include <memory>
#include <new>
#include <system_error>

namespace ballast::inline v0 {

namespace detail {

/// What all parts of a group of torch_communicator share on a rank.
struct torch_job {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::chrono::milliseconds deadline;
  int next_tag;
};

/// The messages of a rank of a LibTorch job, in rounds (see checked_group): sends and receives of a
/// process group. Every one is waited for, so that it is known who came.
///
/// Errors      peer_lost and timed_out.
class torch_pairs {
 public:
  static constexpr bool calls_roll = false;  // gloo closes the connections of who has given up
  static constexpr bool keeps_memory = false;

  torch_pairs(std::shared_ptr<torch_job> of_group, std::vector<int> members, std::size_t rank,
              int tag)
      : job_(std::move(of_group)), members_(std::move(members)), rank_(rank), tag_(tag)
  {}

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
  [[nodiscard]] std::vector<int> const& members() const noexcept { return members_; }
  [[nodiscard]] std::shared_ptr<torch_job> const& job() const noexcept { return job_; }

  [[nodiscard]] static result<void> enter(char const* /*operation*/) { return {}; }
  [[nodiscard]] static std::size_t messages(std::size_t bytes) { return bytes > 0 ? 1 : 0; }

  void expect(std::size_t messages)
  {
    under_way_.reserve(messages);
    end_ = clock::now() + job_->deadline;
  }

  void receive(std::size_t peer, std::span<std::byte const> bytes)
  {
    begin(peer, bytes, [&](std::vector<at::Tensor>& message) {
      return job_->group->recv(message, members_[peer], tag_);
    });
  }

  void send(std::size_t peer, std::span<std::byte const> bytes)
  {
    begin(peer, bytes, [&](std::vector<at::Tensor>& message) {
      return job_->group->send(message, members_[peer], tag_);
    });
  }

  [[nodiscard]] result<void> wait(std::string_view operation)
  {
    for (auto const& [peer, work] : under_way_) {
      attempt(peer, [&] {
        auto const left = std::chrono::ceil<std::chrono::milliseconds>(end_ - clock::now());
        work->wait(std::max(left, std::chrono::milliseconds(1)));  // 0 would be without end
      });
    }
    under_way_.clear();
    std::ranges::sort(lost_);
    std::ranges::sort(late_);
    if (!lost_.empty()) { return comm_failure::peer_lost(operation, std::move(lost_)); }
    if (!late_.empty()) {
      return comm_failure::timed_out(operation, job_->deadline, std::move(late_));
    }
    return {};
  }

 private:
  using clock = wait_clock;

  template <class Transfer>
  void begin(std::size_t peer, std::span<std::byte const> bytes, Transfer transfer)
  {
    if (bytes.empty()) { return; }
    attempt(peer, [&] {
      std::vector<at::Tensor> message = {
          at::from_blob(const_cast<std::byte*>(bytes.data()),  // a tensor has no const
                        {static_cast<std::int64_t>(bytes.size())}, at::kByte)};
      under_way_.emplace_back(peer, transfer(message));
    });
  }

  template <class Act>
  void attempt(std::size_t peer, Act act)
  {
    try {
      act();
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::exception const&) {  // gloo and c10d have no type for each
      auto& ranks = clock::now() < end_ ? lost_ : late_;
      auto const id = to_id<rank_id>(peer);
      if (std::ranges::count(ranks, id) == 0) { ranks.push_back(id); }
    }
  }

  std::shared_ptr<torch_job> job_;
  std::vector<int> members_;  // their ranks in the process group
  std::size_t rank_;
  int tag_;
  clock::time_point end_;  // of the round
  std::vector<std::pair<std::size_t, c10::intrusive_ptr<c10d::Work>>> under_way_;
  std::vector<rank_id> lost_;
  std::vector<rank_id> late_;
};

}  // namespace detail

/// One process of a LibTorch job as a communicator: a c10d::ProcessGroup, which is what
/// torch.distributed is made of. `join_torch_job` makes one.
///
/// Every message is a send and a receive of the process group, with a tag for each group of ranks,
/// so a split makes no process group. All calls wait.
///
/// Expects     what `communicator` expects; arrays lie in host memory, so the group is gloo's. One
///             thread at a time uses the group and its parts, and nothing else sends with tags from
///             `first_tag` on. The deadline is above zero. g++ only, as LibTorch's headers.
/// Ensures     (1) and (2) of `communicator`; c10d allocates in every call
///             (2) a call ends within two deadlines: one for the comparison, one for the bytes
/// Errors      mismatch: operations, sizes, roots, contents and counts are compared in every call.
///             timed_out: `ranks` did not come within the deadline. gloo then closes this rank's
///             connections, so a rank that comes later names those that gave up.
///             peer_lost: `ranks` ended, or gave up; or this rank itself, where an earlier call
///             ended with std::bad_alloc.
/// Complexity  messages of each rank: P - 1 of 40 bytes for the comparison, and one to each peer
///             with bytes.
class torch_communicator : public checked_group<detail::torch_pairs> {
 public:
  using milliseconds = std::chrono::milliseconds;
  using process_group = c10::intrusive_ptr<c10d::ProcessGroup>;

  /// Above the tags that trainers count from 0.
  static constexpr int first_tag = 1 << 30;

  /// The ranks of a group that the trainer has already. One of these for each group; split it.
  ///
  /// Ensures     SIGPIPE is ignored in this process, unless it has a handler, as Python does: gloo
  ///             writes to connections of ranks that have ended.
  [[nodiscard]] static torch_communicator over(process_group group,
                                               milliseconds deadline = default_deadline)
  {
    detail::expect_deadline(deadline);
    struct sigaction at_pipe = {};
    if (::sigaction(SIGPIPE, nullptr, &at_pipe) == 0 && at_pipe.sa_handler == SIG_DFL) {
      std::signal(SIGPIPE, SIG_IGN);
    }
    std::vector<int> members(static_cast<std::size_t>(group->getSize()));
    std::iota(members.begin(), members.end(), 0);
    auto const rank = static_cast<std::size_t>(group->getRank());
    deadline = std::min(deadline, detail::longest_deadline);
    auto job = std::make_shared<detail::torch_job>(
        detail::torch_job{std::move(group), deadline, first_tag + 1});
    return {std::move(job), std::move(members), rank, first_tag};
  }

  [[nodiscard]] result<torch_communicator> split(std::uint32_t colour)
  {
    struct choice {
      std::uint32_t colour;
      int next_tag;
    };
    detail::torch_job& job = *pairs().job();
    choice const own{colour, job.next_tag};
    std::vector<choice> all(size());
    auto const gathered = run({collective::split}, {}, {}, [&] {
      auto const part = [&](std::size_t peer) { return std::span(all).subspan(peer, 1); };
      return exchange(
          "split", [&](std::size_t) { return std::as_bytes(std::span(&own, 1)); },
          [&](std::size_t peer) { return std::as_writable_bytes(part(peer)); });
    });
    if (!gathered) { return tl::unexpected(gathered.error()); }
    // A tag that none of these ranks has used. Groups that share no rank may share it.
    int tag = first_tag;
    std::vector<int> members;
    std::size_t place = 0;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      tag = std::max(tag, all[peer].next_tag);
      if (peer == pairs().rank()) { place = members.size(); }
      if (all[peer].colour == colour) { members.push_back(pairs().members()[peer]); }
    }
    job.next_tag = tag + 1;
    return torch_communicator(pairs().job(), std::move(members), place, tag);
  }

 private:
  torch_communicator(std::shared_ptr<detail::torch_job> job, std::vector<int> members,
                     std::size_t rank, int tag)
      : checked_group(members.size(), true, std::move(job), members, rank, tag)
  {
    open();
  }
};

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
