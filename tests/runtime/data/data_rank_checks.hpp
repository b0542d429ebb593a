// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_trainer.hpp>
#include "faulty_source.hpp"

#include <chrono>

namespace ballast_test {

/// Gives each sample to the rank that has the shortest ones so far.
struct by_length {
  std::size_t ranks = 1;

  ballast::result<void> operator()(ballast::data_step const& step,
                                   std::span<ballast::rank_id> owner) const
  {
    std::vector<ballast::tokens> loads(ranks);
    for (std::size_t entry = 0; entry < owner.size(); ++entry) {
      auto const lightest = std::ranges::min_element(loads);
      owner[entry] =
          ballast::to_id<ballast::rank_id>(static_cast<std::size_t>(lightest - loads.begin()));
      *lightest += step.lengths_of(entry)[0];
    }
    return {};
  }
};

/// A communicator whose rank ends in the middle of what it says: instead of its n-th send, `end()`
/// is called, which does not return.
template <class Communicator, class End>
class mortal_communicator {
 public:
  mortal_communicator(Communicator& comm, std::size_t last, End end)
      : comm_(comm), last_(last), end_(std::move(end))
  {}

  [[nodiscard]] ballast::rank_id rank() const { return comm_.rank(); }
  [[nodiscard]] std::size_t size() const { return comm_.size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const { return comm_.deadline(); }
  [[nodiscard]] ballast::result<ballast::transfer_id> send(std::span<std::byte const> bytes,
                                                           ballast::rank_id peer)
  {
    if (sent++ == last_) { end_(); }
    return comm_.send(bytes, peer);
  }
  [[nodiscard]] ballast::result<ballast::transfer_id> receive(std::span<std::byte> bytes,
                                                              ballast::rank_id peer)
  {
    return comm_.receive(bytes, peer);
  }
  [[nodiscard]] ballast::result<void> start() { return comm_.start(); }
  [[nodiscard]] auto is_done(ballast::transfer_id transfer) { return comm_.is_done(transfer); }
  [[nodiscard]] auto wait_for(ballast::transfer_id transfer) { return comm_.wait_for(transfer); }
  [[nodiscard]] bool cancel(ballast::transfer_id transfer) { return comm_.cancel(transfer); }

  std::size_t sent = 0;

 private:
  Communicator& comm_;
  std::size_t last_;
  End end_;
};

/// What a trainer saw, or what another rank returned.
struct trained {
  std::vector<std::uint64_t> digests;
  std::vector<std::uint64_t> samples;
  std::vector<std::string> news;
  std::string state;
  std::string error;
};

template <class Communicator>
trained train_as(Communicator& comm, ballast::rank_id proxy, ballast::loader_options options,
                 std::size_t most_steps)
{
  ballast::data_trainer data(comm, proxy, options);
  trained own;
  while (own.digests.size() < most_steps) {
    auto const batch = data.next();
    if (!batch) { own.error = batch.error().message; }
    if (!batch || !*batch) { break; }
    ballast::data_step const& step = *(*batch)->step;
    own.digests.push_back(step.digest());
    for (auto const& each : (*batch)->own) {
      own.samples.push_back(step.samples[each.entry]);
      if (each.bytes != faulty_source::bytes_of(step.samples[each.entry])) {
        own.error = "wrong payload";
      }
    }
    own.news.insert(own.news.end(), step.news.begin(), step.news.end());
    own.state = step.save();
  }
  if (auto const done = data.finish(); !done) { own.error = done.error().message; }
  return own;
}

}  // namespace ballast_test
