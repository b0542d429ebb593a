// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>

#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace ballast_test {

/// When messages between the ranks of a job arrive: so long after they were sent, whatever sender
/// and receiver do meanwhile.
class delayed_links {
 public:
  using clock = std::chrono::steady_clock;

  explicit delayed_links(clock::duration latency) : latency_(latency) {}

  [[nodiscard]] clock::duration latency() const { return latency_; }

  void send(std::size_t from, std::size_t to)
  {
    std::lock_guard const lock(mutex_);
    arrivals_[{from, to}].push_back(clock::now() + latency_);
  }
  /// Of the n-th message; none where it was not sent yet.
  [[nodiscard]] std::optional<clock::time_point> arrival(std::size_t from, std::size_t to,
                                                         std::size_t number)
  {
    std::lock_guard const lock(mutex_);
    auto const& all = arrivals_[{from, to}];
    return number < all.size() ? std::optional(all[number]) : std::nullopt;
  }

 private:
  clock::duration latency_;
  std::mutex mutex_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<clock::time_point>> arrivals_;
};

/// Ranks that are threads, over links with a latency: a receive ends no sooner than its message
/// arrives, and a collective operation that latency after all ranks have called it. What is split
/// off, as for plans, has no latency.
class delayed_communicator {
 public:
  delayed_communicator(ballast::thread_communicator comm, delayed_links* links)
      : comm_(std::move(comm)), links_(links), received_(comm_.size())
  {}

  [[nodiscard]] ballast::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const { return comm_.size(); }
  ballast::result<void> all_gather(std::span<std::byte const> send, std::span<std::byte> receive)
  {
    return later(comm_.all_gather(send, receive));
  }
  ballast::result<void> all_to_all_v(std::span<std::byte const> send,
                                     std::span<std::size_t const> send_bytes,
                                     std::span<std::byte> receive,
                                     std::span<std::size_t const> receive_bytes)
  {
    return later(comm_.all_to_all_v(send, send_bytes, receive, receive_bytes));
  }
  ballast::result<void> wait() { return comm_.wait(); }
  std::span<std::byte> scratch(std::size_t bytes) { return comm_.scratch(bytes); }
  ballast::result<delayed_communicator> split(std::uint32_t colour)
  {
    auto part = comm_.split(colour);
    if (!part) { return tl::unexpected(part.error()); }
    return delayed_communicator(*std::move(part), nullptr);
  }

  ballast::result<ballast::transfer_id> send(std::span<std::byte const> bytes, ballast::rank_id to)
  {
    if (links_ != nullptr) { links_->send(to_index(rank()), to_index(to)); }
    return comm_.send(bytes, to);
  }
  ballast::result<ballast::transfer_id> receive(std::span<std::byte> bytes, ballast::rank_id from)
  {
    auto begun = comm_.receive(bytes, from);
    if (begun) { receives_[to_index(*begun)] = {from, received_[to_index(from)]++}; }
    return begun;
  }
  ballast::result<void> start() { return comm_.start(); }
  ballast::result<bool> is_done(ballast::transfer_id transfer)
  {
    auto const done = comm_.is_done(transfer);
    if (!done || !*done) { return done; }
    auto const arrived = arrival(transfer);
    return !arrived || *arrived <= delayed_links::clock::now();
  }
  ballast::result<void> wait_for(ballast::transfer_id transfer)
  {
    auto const done = comm_.wait_for(transfer);
    if (done) {
      if (auto const arrived = arrival(transfer)) { std::this_thread::sleep_until(*arrived); }
    }
    receives_.erase(to_index(transfer));
    return done;
  }
  bool cancel(ballast::transfer_id transfer)
  {
    receives_.erase(to_index(transfer));
    return comm_.cancel(transfer);
  }

 private:
  struct place {
    ballast::rank_id from{};
    std::size_t number = 0;
  };

  ballast::result<void> later(ballast::result<void> done) const
  {
    if (done && links_ != nullptr) { std::this_thread::sleep_for(links_->latency()); }
    return done;
  }

  /// Of a receive whose bytes are there.
  [[nodiscard]] std::optional<delayed_links::clock::time_point> arrival(
      ballast::transfer_id transfer)
  {
    auto const found = receives_.find(to_index(transfer));
    if (found == receives_.end() || links_ == nullptr) { return std::nullopt; }
    auto const [from, number] = found->second;
    return links_->arrival(to_index(from), to_index(rank()), number);
  }

  ballast::thread_communicator comm_;
  delayed_links* links_;
  std::vector<std::size_t> received_;                // from each rank
  std::unordered_map<std::size_t, place> receives_;  // under way
};
static_assert(ballast::splitting_communicator<delayed_communicator> &&
              ballast::point_to_point<delayed_communicator>);

/// run_ranks() over such links.
template <class F>
void run_delayed_ranks(std::size_t ranks, delayed_links::clock::duration latency, F const& f)
{
  delayed_links links(latency);
  auto group = ballast::thread_communicator::make(ranks, ballast::default_deadline);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&f, &links, comm = std::move(group[rank])]() mutable {
      delayed_communicator delayed(std::move(comm), &links);
      f(delayed);
    });
  }
  for (std::thread& each : threads) { each.join(); }
}

}  // namespace ballast_test
