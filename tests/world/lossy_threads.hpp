// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/thread_communicator.hpp>
#include "seeded_communicator.hpp"  // defines: seeded_world::{fault, loss, rank_is_lost}

#include <memory>

namespace seeded_world {

/// A thread_communicator whose rank may be lost: at its at-th call. One that is lost in silence stays
/// in the group, and says nothing.
class lossy_threads {
 public:
  using bytes = std::span<std::byte>;
  using const_bytes = std::span<std::byte const>;
  using counts = std::span<std::size_t const>;

  /// What the groups of a rank have in common.
  struct fate {
    fault goes_wrong = {};
    std::size_t rank = 0;
    std::size_t calls = 0;
    bool is_lost = false;
    std::vector<std::shared_ptr<ballast::thread_communicator>> all = {};
  };

  lossy_threads(ballast::thread_communicator own, std::shared_ptr<fate> of) : fate_(std::move(of))
  {
    ballast_test::spared_allocations const spared;
    comm_ = std::make_shared<ballast::thread_communicator>(std::move(own));
    fate_->all.push_back(comm_);
  }

  [[nodiscard]] ballast::rank_id rank() const { return comm_->rank(); }
  [[nodiscard]] std::size_t size() const { return comm_->size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const { return comm_->deadline(); }
  [[nodiscard]] std::size_t under_way() const { return under_way_.size(); }

  [[nodiscard]] ballast::result<void> all_gather(const_bytes send, bytes receive)
  {
    count();
    return comm_->all_gather(send, receive);
  }
  [[nodiscard]] ballast::result<void> all_to_all_v(const_bytes send, counts send_bytes,
                                                   bytes receive, counts receive_bytes,
                                                   std::uint64_t content = 0)
  {
    count();
    return comm_->all_to_all_v(send, send_bytes, receive, receive_bytes, content);
  }
  [[nodiscard]] ballast::result<void> broadcast(bytes all, ballast::rank_id root)
  {
    count();
    return comm_->broadcast(all, root);
  }
  [[nodiscard]] ballast::result<void> barrier()
  {
    count();
    return comm_->barrier();
  }
  [[nodiscard]] ballast::result<lossy_threads> split(std::uint32_t colour)
  {
    count();
    auto part = comm_->split(colour);
    if (!part) { return tl::unexpected(part.error()); }
    return lossy_threads(*std::move(part), fate_);
  }
  [[nodiscard]] ballast::result<ballast::transfer_id> send(const_bytes from, ballast::rank_id peer)
  {
    count();
    return noted(comm_->send(from, peer));
  }
  [[nodiscard]] ballast::result<ballast::transfer_id> receive(bytes into, ballast::rank_id peer)
  {
    count();
    return noted(comm_->receive(into, peer));
  }
  [[nodiscard]] ballast::result<void> start() { return comm_->start(); }
  [[nodiscard]] ballast::result<bool> is_done(ballast::transfer_id id)
  {
    if (fate_->is_lost) { throw rank_is_lost{}; }
    return comm_->is_done(id);
  }
  [[nodiscard]] ballast::result<void> wait_for(ballast::transfer_id id)
  {
    count();
    auto done = comm_->wait_for(id);
    // With another error than these it stays under way.
    if (done || done.error().code == ballast::error_code::mismatch) { std::erase(under_way_, id); }
    return done;
  }
  [[nodiscard]] bool cancel(ballast::transfer_id id)
  {
    if (std::erase(under_way_, id) > 0) { (void)comm_->cancel(id); }
    return true;
  }
  [[nodiscard]] ballast::result<void> wait()
  {
    if (fate_->is_lost) { throw rank_is_lost{}; }
    return comm_->wait();
  }
  [[nodiscard]] bytes scratch(std::size_t size) { return comm_->scratch(size); }

 private:
  [[nodiscard]] ballast::result<ballast::transfer_id> noted(
      ballast::result<ballast::transfer_id> begun)
  {
    ballast_test::spared_allocations const spared;
    if (begun) { under_way_.push_back(*begun); }
    return begun;
  }

  void count()
  {
    fault const& own = fate_->goes_wrong;
    if (fate_->is_lost) { throw rank_is_lost{}; }
    if (++fate_->calls != own.at || own.rank != fate_->rank) { return; }
    if (own.what == loss::late) { std::this_thread::sleep_for(own.sleeps); }
    fate_->is_lost = own.what == loss::closes || own.what == loss::silent;
    if (!fate_->is_lost) { return; }
    // The last one first: of what a lost rank has sent, what is missing is at the end.
    for (; !under_way_.empty(); under_way_.pop_back()) { (void)comm_->cancel(under_way_.back()); }
    throw rank_is_lost{};
  }

  std::shared_ptr<fate> fate_;
  std::shared_ptr<ballast::thread_communicator> comm_;
  std::vector<ballast::transfer_id> under_way_;
};

static_assert(ballast::splitting_communicator<lossy_threads>);
static_assert(ballast::point_to_point<lossy_threads>);

}  // namespace seeded_world
