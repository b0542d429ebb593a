// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/gather_samples.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/gpu/nccl_communicator.hpp>

#include <cuda_runtime_api.h>  // cudaStream_t
#include <nccl.h>

namespace ballast::inline v0 {

namespace detail {

/// The way from one rank to another: an NCCL communicator of the two, on a stream of its own.
struct nccl_way {
  explicit nccl_way(cudaStream_t own) : stream(own) {}
  nccl_way& operator=(nccl_way&&) = delete;
  ~nccl_way()
  {
    queue.reset();  // waits for what is left
    if (comm != nullptr) { (void)ncclCommDestroy(comm); }
    (void)cudaStreamDestroy(stream);
  }

  ncclComm_t comm = nullptr;
  cudaStream_t stream;
  std::unique_ptr<nccl_queue> queue;
  nccl_transfers transfers;
};

}  // namespace detail

/// A `communicator` and `point_to_point` over NCCL, in which no transfer waits for one of another
/// pair of ranks, nor for one in the other direction: what a pipeline needs.
///
///     auto pairs = nccl_pairs<>::make(comm, setup.pairs(), computes).value();
///     or_throw(runner.run(pairs, order, stage));
///
/// Each pair has an NCCL communicator and a stream of its own. All connect in make(), since the
/// first message of a pair waits for its receiver. Collective operations are those of `comm`.
///
/// Transfers wait for what is on the stream `computes` when they are begun. So a stage may return
/// while its kernels run there: its outputs leave once they are written, and no array is received
/// into before kernels have read it.
///
/// Expects     comm and `computes` outlive it, and what nccl_communicator expects. Sends and
///             receives are between pairs that make() was given.
/// Ensures     (1) those of point_to_point: no call but wait_for waits for another rank
///             (2) after a failure no array is in use
///             (3) once as many transfers have been under way, nothing is allocated
/// Errors      those of nccl_communicator, whose `ranks` are empty for transfers. make: mismatch,
///             on every rank, where pairs differ; those of CUDA and NCCL, after which comm must not
///             be used again.
/// Complexity  make: a split and a message for each pair of the rank that has most, about.
template <class Allocator = pinned_allocator<std::byte>>
class nccl_pairs {
 public:
  /// Collective: all ranks give the same pairs, in any order.
  [[nodiscard]] static result<nccl_pairs> make(
      nccl_communicator<Allocator>& comm, std::span<rank_pair const> pairs, cudaStream_t computes,
      std::chrono::milliseconds deadline = default_deadline)
  {
    detail::expect_deadline(deadline);
    auto computed = detail::cuda_event::make();
    if (!computed) { return tl::unexpected(computed.error()); }
    nccl_pairs made(comm, computes, *std::move(computed));
    // In each turn a rank is in one pair at most.
    std::vector<rank_pair> left(pairs.begin(), pairs.end());
    std::sort(left.begin(), left.end());
    left.erase(std::unique(left.begin(), left.end()), left.end());
    digest all;
    for (rank_pair const& each : left) { all.add(to_index(each.from)).add(to_index(each.to)); }
    if (auto same = agree(comm, all.value(), "the pairs"); !same) {
      return tl::unexpected(same.error());
    }
    while (!left.empty()) {
      std::vector<bool> busy(comm.size(), false);
      std::optional<rank_pair> own;
      std::vector<rank_pair> later;
      for (rank_pair const& each : left) {
        auto const from = to_index(each.from);
        auto const to = to_index(each.to);
        BALLAST_EXPECTS(from < comm.size() && to < comm.size() && from != to, "a pair of ranks ",
                        each.from, " and ", each.to, " of ", comm.size());
        if (busy[from] || busy[to]) {
          later.push_back(each);
          continue;
        }
        busy[from] = busy[to] = true;
        if (each.from == comm.rank() || each.to == comm.rank()) { own = each; }
      }
      if (auto done = made.connect(own, deadline); !done) { return tl::unexpected(done.error()); }
      left.swap(later);
    }
    return made;
  }

  [[nodiscard]] rank_id rank() const noexcept { return comm_->rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return comm_->size(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    return failure_ ? failed() : note(comm_->all_gather(send, receive));
  }
  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes)
  {
    return failure_ ? failed()
                    : note(comm_->all_to_all_v(send, send_bytes, receive, receive_bytes));
  }
  [[nodiscard]] result<void> wait() { return failure_ ? failed() : note(comm_->wait()); }
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes) { return comm_->scratch(bytes); }

  [[nodiscard]] result<transfer_id> send(std::span<std::byte const> bytes, rank_id peer)
  {
    std::size_t const way = to_[to_index(peer)];
    BALLAST_EXPECTS(way < ways_.size(), "rank ", rank(), " sends to rank ", peer,
                    ", and make() had no such pair");
    return begin(way, ways_[way]->transfers.send(*ways_[way]->queue, bytes, 1));
  }
  [[nodiscard]] result<transfer_id> receive(std::span<std::byte> bytes, rank_id peer)
  {
    std::size_t const way = from_[to_index(peer)];
    BALLAST_EXPECTS(way < ways_.size(), "rank ", rank(), " receives from rank ", peer,
                    ", and make() had no such pair");
    return begin(way, ways_[way]->transfers.receive(*ways_[way]->queue, bytes, 0));
  }

  /// Every transfer has started by itself: in a group it would wait for the others of it.
  [[nodiscard]] result<void> start() { return failure_ ? failed() : result<void>(); }

  [[nodiscard]] result<bool> is_done(transfer_id transfer)
  {
    if (failure_) { return tl::unexpected(*failure_); }
    auto const& [way, inner] = under_way_.at(transfer);
    auto done = ways_[way]->transfers.is_done(*ways_[way]->queue, inner);
    if (!done) { return breaks(done.error()); }
    return done;
  }
  [[nodiscard]] result<void> wait_for(transfer_id transfer)
  {
    if (failure_) { return failed(); }
    auto const& [way, inner] = under_way_.at(transfer);
    auto done = note(ways_[way]->transfers.wait_for(*ways_[way]->queue, inner));
    if (done) { under_way_.end(to_index(transfer)); }
    return done;
  }
  [[nodiscard]] bool cancel(transfer_id transfer)
  {
    auto const& [way, inner] = under_way_.at(transfer);
    under_way_.end(to_index(transfer));
    return ways_[way]->transfers.cancel(*ways_[way]->queue, inner);
  }

 private:
  struct begun_transfer {
    std::size_t way = 0;
    transfer_id inner{};
  };

  nccl_pairs(nccl_communicator<Allocator>& comm, cudaStream_t computes, detail::cuda_event computed)
      : comm_(&comm),
        computes_(computes),
        computed_(std::move(computed)),
        to_(comm.size(), static_cast<std::size_t>(-1)),
        from_(comm.size(), static_cast<std::size_t>(-1))
  {}

  /// Makes the way of a pair, if this rank is in one, and sends a byte over it.
  [[nodiscard]] result<void> connect(std::optional<rank_pair> const& own,
                                     std::chrono::milliseconds deadline)
  {
    cudaStream_t stream = nullptr;
    if (auto const code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        code != cudaSuccess) {
      return cuda_failure("cudaStreamCreateWithFlags", code);
    }
    auto way = std::make_unique<detail::nccl_way>(stream);
    if (auto all = comm_->barrier(); !all) { return all; }  // NCCL's split has no deadline
    // The pair has the colour of its first rank; who is in none has a group alone.
    bool const sends = own && own->from == rank();
    int const colour = static_cast<int>(to_index(own ? own->from : rank()));
    ncclResult_t code =
        ncclCommSplit(comm_->native(), colour, own && !sends ? 1 : 0, &way->comm, nullptr);
    ncclResult_t state = ncclSuccess;
    bool const in_time = detail::poll(deadline, [&] {
      for (ncclComm_t const each : {comm_->native(), way->comm}) {
        if (each == nullptr) { return !detail::nccl_stream::accepted(code); }
        ncclResult_t const asked = ncclCommGetAsyncError(each, &state);
        if (asked != ncclSuccess) { code = asked; }
        if (state != ncclSuccess) { return state != ncclInProgress; }
      }
      return true;
    });
    if (!in_time) { return comm_failure::timed_out("split", deadline, {}); }
    if (!detail::nccl_stream::accepted(code) || state != ncclSuccess) {
      auto const failed_with = state != ncclSuccess ? state : code;
      return comm_failure::transport("ncclCommSplit", failed_with, ncclGetErrorString(failed_with));
    }
    if (!own) { return {}; }
    way->queue = std::make_unique<detail::nccl_queue>(
        way->comm, std::make_shared<detail::nccl_stream>(stream, deadline));
    (sends ? to_ : from_)[to_index(sends ? own->to : own->from)] = ways_.size();
    ways_.push_back(std::move(way));
    auto const byte = comm_->scratch(1);
    auto const begun = sends ? send(byte, own->to) : receive(byte, own->from);
    if (!begun) { return tl::unexpected(begun.error()); }
    return wait_for(*begun);
  }

  [[nodiscard]] result<transfer_id> begin(std::size_t way, result<transfer_id> const& inner)
  {
    if (failure_) { return tl::unexpected(*failure_); }
    if (!inner) { return breaks(inner.error()); }
    if (auto const code = computed_.record(computes_); code != cudaSuccess) {
      return breaks(cuda_failure("cudaEventRecord", code).value());
    }
    if (auto const code = computed_.hold_up(ways_[way]->stream); code != cudaSuccess) {
      return breaks(cuda_failure("cudaStreamWaitEvent", code).value());
    }
    if (auto started = note(ways_[way]->transfers.start(*ways_[way]->queue)); !started) {
      return tl::unexpected(started.error());
    }
    under_way_.next() = {way, *inner};
    return to_id<transfer_id>(under_way_.begin());
  }

  [[nodiscard]] result<void> failed() const { return tl::unexpected(*failure_); }

  /// After a failure ends what is under way between all pairs.
  tl::unexpected<error> breaks(error const& why)
  {
    if (!failure_ && why.code != error_code::mismatch) {
      failure_ = why;
      for (auto const& way : ways_) { (void)way->queue->give_up(tl::unexpected<error>(why)); }
    }
    return tl::unexpected<error>(why);
  }
  [[nodiscard]] result<void> note(result<void> done)
  {
    if (!done) { return breaks(done.error()); }
    return done;
  }

  nccl_communicator<Allocator>* comm_;
  cudaStream_t computes_;
  detail::cuda_event computed_;
  std::vector<std::size_t> to_;  // the way to each rank, and from it
  std::vector<std::size_t> from_;
  detail::numbered_places<begun_transfer> under_way_;
  std::optional<error> failure_;
  std::vector<std::unique_ptr<detail::nccl_way>> ways_;
};

}  // namespace ballast::inline v0
