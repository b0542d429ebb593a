// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>

#include "../support/test.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <future>
#include <system_error>

namespace ballast_test {

using socket_end = std::shared_ptr<int const>;

/// Ranks that are threads or processes of one machine, a stream socket between each two. Sizes are
/// not compared, a peer that is silent for as long as the sockets allow counts as lost, and each
/// exchange starts a thread.
class pipe_communicator {
 public:
  using bytes = std::span<std::byte>;
  using const_bytes = std::span<std::byte const>;
  using counts = std::span<std::size_t const>;

  /// A socket to each rank, by rank; none to itself.
  pipe_communicator(std::size_t rank, std::vector<socket_end> sockets)
      : rank_(rank), sockets_(std::move(sockets))
  {}

  ballast::rank_id rank() const { return ballast::to_id<ballast::rank_id>(rank_); }
  std::size_t size() const { return sockets_.size(); }
  ballast::result<void> wait() { return health_; }

  ballast::result<void> all_gather(const_bytes send, bytes receive)
  {
    auto const outgoing = [=](std::size_t) { return send; };
    auto const incoming = [=](std::size_t peer) {
      return receive.subspan(peer * send.size(), send.size());
    };
    return exchange("all_gather", outgoing, incoming);
  }

  ballast::result<void> all_to_all_v(const_bytes send, counts send_bytes, bytes receive,
                                     counts receive_bytes)
  {
    auto const part = [](auto all, counts sizes, std::size_t peer) {
      return all.subspan(std::reduce(&sizes[0], &sizes[peer]), sizes[peer]);
    };
    auto const outgoing = [=](std::size_t peer) { return part(send, send_bytes, peer); };
    auto const incoming = [=](std::size_t peer) { return part(receive, receive_bytes, peer); };
    return exchange("all_to_all_v", outgoing, incoming);
  }

  ballast::result<void> broadcast(bytes all, ballast::rank_id root)
  {
    bool const sends = root == rank();
    auto const outgoing = [=, this](std::size_t peer) {
      return sends && peer != rank_ ? all : bytes();
    };
    auto const incoming = [=](std::size_t peer) {
      return !sends && peer == to_index(root) ? all : bytes();
    };
    return exchange("broadcast", outgoing, incoming);
  }

  ballast::result<void> barrier()
  {
    std::byte const token{};
    std::vector<std::byte> tokens(size());
    return all_gather({&token, 1}, tokens);
  }

  /// The groups share the sockets: ranks that are in both call both in the same order.
  ballast::result<pipe_communicator> split(std::uint32_t colour)
  {
    std::vector<std::uint32_t> colours(size());
    auto const gathered = all_gather(std::as_bytes(std::span(&colour, 1)),
                                     std::as_writable_bytes(std::span(colours)));
    if (!gathered) { return tl::unexpected(gathered.error()); }
    pipe_communicator part(0, {});
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (peer == rank_) { part.rank_ = part.size(); }
      if (colours[peer] == colour) { part.sockets_.push_back(sockets_[peer]); }
    }
    return part;
  }

  bytes scratch(std::size_t count)
  {
    if (scratch_.size() * sizeof(line) < count) { scratch_.resize(count / sizeof(line) + 1); }
    return std::as_writable_bytes(std::span(scratch_)).first(count);
  }

 private:
  /// A thread sends while this one receives: no two ranks wait for each other to read first. Where
  /// a peer is lost the rest goes on: nobody is left in the middle of a message.
  template <class Outgoing, class Incoming>
  ballast::result<void> exchange(char const* operation, Outgoing outgoing, Incoming incoming)
  {
    if (!health_) { return health_; }
    auto const sender = std::async(std::launch::async, [&] {  // the future waits for it
      for (std::size_t peer = 0; peer < size(); ++peer) {
        const_bytes const message = outgoing(peer);
        if (peer == rank_ || message.empty()) { continue; }
        (void)::send(*sockets_[peer], message.data(), message.size(), MSG_NOSIGNAL);
      }
    });
    std::ranges::copy(outgoing(rank_), incoming(rank_).begin());
    std::vector<ballast::rank_id> lost;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      bytes const message = incoming(peer);
      if (peer == rank_ || message.empty()) { continue; }
      auto const got = ::recv(*sockets_[peer], message.data(), message.size(), MSG_WAITALL);
      if (!std::cmp_equal(got, message.size())) {
        lost.push_back(ballast::to_id<ballast::rank_id>(peer));
      }
    }
    if (!lost.empty()) { health_ = ballast::comm_failure::peer_lost(operation, std::move(lost)); }
    return health_;
  }

  struct alignas(64) line {
    std::byte bytes[64];
  };

  std::size_t rank_;
  std::vector<socket_end> sockets_;
  std::vector<line> scratch_;
  ballast::result<void> health_;  // once it is an error, every further call gives that
};

/// A connected group, in rank order.
inline std::vector<pipe_communicator> pipe_group(std::size_t ranks, std::chrono::seconds patience)
{
  auto const owned = [patience](int socket) {
    timeval const limit{.tv_sec = patience.count(), .tv_usec = 0};
    for (int const option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      ::setsockopt(socket, SOL_SOCKET, option, &limit, sizeof(limit));
    }
    return socket_end(new int(socket), [](int const* end) {
      ::close(*end);
      delete end;
    });
  };
  std::vector<std::vector<socket_end>> sockets(ranks, std::vector<socket_end>(ranks));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t peer = 0; peer < rank; ++peer) {
      int ends[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
      }
      sockets[rank][peer] = owned(ends[0]);
      sockets[peer][rank] = owned(ends[1]);
    }
  }
  std::vector<pipe_communicator> group;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    group.emplace_back(rank, std::move(sockets[rank]));
  }
  return group;
}

/// Runs body(communicator) in a process for each rank; returns with what status each has ended, 0 if
/// all that it expected was so.
template <class Body>
std::vector<int> run_pipe_processes(std::size_t ranks, std::chrono::seconds patience,
                                    Body const& body)
{
  auto comms = pipe_group(ranks, patience);
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() < 0) { throw std::system_error(errno, std::generic_category(), "fork"); }
    if (children.back() == 0) {
      pipe_communicator own = std::move(comms[rank]);
      comms.clear();  // or the others' ends would stay open here
      body(own);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
  }
  comms.clear();
  std::vector<int> statuses(ranks, -1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(::waitpid(children[rank], &statuses[rank], 0), children[rank]);
  }
  return statuses;
}

}  // namespace ballast_test
