// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP
#define BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/comm_failure.hpp>
#include <ballast/comm/detail/host_scratch.hpp>
#include <ballast/comm/detail/mpi/mpi_channel.hpp>
#include <ballast/comm/detail/mpi/mpi_comparison.hpp>
#include <ballast/comm/detail/mpi/mpi_failure.hpp>
#include <ballast/comm/detail/mpi/mpi_messages.hpp>
#include <ballast/comm/detail/mpi/mpi_requests.hpp>
#include <ballast/comm/detail/mpi/mpi_transfers.hpp>
#include <ballast/comm/mpi_communicator_options.hpp>
#include <ballast/comm/point_to_point.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

/// The ranks of an mpi_communicator: their messages, and the comparison with which each operation
/// begins.
///
/// Ensures     (1) with `verify`, no operation moves bytes unless all ranks have made the same call
///             (2) after a failure other than a mismatch each further operation returns that
///                 failure
///             (3) after an operation that ended with an exception each further one returns
///                 peer_lost, with this rank
///             (4) part() ends as any operation does, wherever a rank stops, dies or throws
///             (5) all ranks of a group that was made have the same options
class mpi_group {
 public:
  /// Frees a group, unless it is broken: if an operation did not end, MPI may still use the group's
  /// memory, and peers may still send to it. Such a group is never freed.
  struct release {
    void operator()(mpi_group* group) const
    {
      if (!group->is_broken()) { delete group; }
    }
  };
  using handle = std::unique_ptr<mpi_group, release>;

  mpi_group(mpi_group const&) = delete;
  mpi_group& operator=(mpi_group const&) = delete;
  ~mpi_group()
  {
    if (mpi_is_running()) { messages_.requests().stop_listening(); }
    channel_->release(tag_);
  }

  /// Makes a group of the ranks of `borrowed`. Collective.
  [[nodiscard]] static result<handle> over(MPI_Comm borrowed, mpi_communicator_options options)
  {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(borrowed, &rank);
    MPI_Comm_size(borrowed, &size);
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    handle made(new mpi_group(std::make_shared<mpi_channel>(), options, members.size()));
    made->under_way_ = true;  // MPI writes to the channel
    mpi_channel& channel = *made->channel_;
    if (auto done = made->duplicate(borrowed, channel.data); !done) {
      return tl::unexpected(std::move(done).error());
    }
    MPI_Comm_set_errhandler(channel.data, MPI_ERRORS_RETURN);
    for (MPI_Comm* const each : {&channel.control, &channel.pairs}) {
      if (auto done = made->duplicate(channel.data, *each); !done) {
        return tl::unexpected(std::move(done).error());
      }
    }
    auto group = opened(std::move(made), channel.reserve(0), std::move(members),
                        static_cast<std::size_t>(rank));
    if (!group) { return group; }
    if (auto same = (*group)->compare_options(); !same) { return tl::unexpected(same.error()); }
    return group;
  }

  /// Makes a group of the ranks of this one that gave the same colour, in order. Collective.
  [[nodiscard]] result<handle> part(std::uint32_t colour)
  {
    // Where memory runs out in here, the others may have made their group: they miss this rank in
    // the next call.
    handle made(new mpi_group(channel_, options_, size_));
    std::vector<int> members;
    members.reserve(size_);
    if (auto agreed = made->agree_on_tag(*this, colour); !agreed) {
      return tl::unexpected(std::move(agreed).error());
    }
    std::size_t place = 0;
    for (std::size_t peer = 0; peer < size_; ++peer) {
      if (comparison_.words()[peer] >> 32U != colour) { continue; }
      if (peer == rank_) { place = members.size(); }
      members.push_back(messages_.members()[peer]);
    }
    int const tag = made->tag_;
    return opened(std::move(made), tag, std::move(members), place);
  }

  [[nodiscard]] std::size_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::chrono::milliseconds deadline() const noexcept { return options_.deadline; }
  [[nodiscard]] mpi_messages& messages() noexcept { return messages_; }
  [[nodiscard]] result<void> state() const
  {
    if (failure_) { return tl::unexpected(*failure_); }
    if (under_way_) { return comm_failure::peer_lost("an earlier call", {to_id<rank_id>(rank_)}); }
    return {};
  }

  /// Runs one operation: all ranks meet and compare their calls, then each runs move().
  template <class Move>
  [[nodiscard]] result<void> run(collective_call call, std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes, Move move)
  {
    if (is_broken()) { return state(); }
    under_way_ = true;
    result<void> done = messages_.requests().enter(name_of(call.operation));
    if (done) { done = meet(call, send_bytes, receive_bytes); }
    bool const differ =  // before bytes moved
        !done && done.error().code == error_code::mismatch && !comparison_.failed();
    if (done) { done = move(); }
    if (!done && !differ) { failure_ = done.error(); }
    under_way_ = false;
    return done;
  }

  /// Runs one call for a transfer, whose name is `call`: f(transfers, requests). A roll call that
  /// this rank has missed comes first.
  template <class F>
  [[nodiscard]] auto transfer(char const* call, F f)
      -> decltype(f(std::declval<mpi_transfers&>(), std::declval<mpi_requests&>()))
  {
    if (is_broken()) { return tl::unexpected(state().error()); }
    under_way_ = true;
    auto done = messages_.requests().look(call).and_then(
        [&] { return f(transfers_, messages_.requests()); });
    if (!done && done.error().code != error_code::mismatch) { failure_ = done.error(); }
    under_way_ = false;
    return done;
  }

  /// The name of the call that began a transfer.
  [[nodiscard]] char const* call_of(transfer_id id) { return transfers_.call_of(id); }

  /// Ends a transfer, also of a broken group; returns whether MPI no longer uses its bytes.
  [[nodiscard]] bool cancel(transfer_id id) { return transfers_.cancel(id); }

  /// Host memory, which does not move until more is asked for.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    if (is_broken() && bytes > scratch_.size()) { std::swap(retired_.emplace_back(), scratch_); }
    return scratch_.take(bytes);
  }

 private:
  mpi_group(std::shared_ptr<mpi_channel> channel, mpi_communicator_options options,
            std::size_t most_ranks)
      : options_(options),
        channel_(std::move(channel)),
        messages_(channel_, options),
        transfers_(channel_, options),
        comparison_(most_ranks)
  {}

  [[nodiscard]] static result<handle> opened(handle made, int tag, std::vector<int> members,
                                             std::size_t rank)
  {
    made->under_way_ = true;  // until MPI listens, and for ever if it does not
    made->tag_ = tag;
    made->rank_ = rank;
    made->size_ = members.size();
    made->comparison_.open(members.size());
    made->transfers_.open(tag, members);
    auto const done = made->messages_.open(tag, std::move(members), rank);
    if (!done) { return tl::unexpected(done.error()); }
    made->under_way_ = false;
    return made;
  }

  [[nodiscard]] bool is_broken() const noexcept { return failure_ || under_way_; }

  [[nodiscard]] result<void> duplicate(MPI_Comm from, MPI_Comm& to)
  {
    mpi_requests& requests = messages_.requests();
    requests.started("MPI_Comm_idup", MPI_Comm_idup(from, &to, requests.next()));
    return requests.wait("over");
  }

  /// Before anything depends on them: also on how messages are cut, so these are not yet.
  [[nodiscard]] result<void> compare_options()
  {
    under_way_ = true;
    result<void> done = messages_.requests().enter("over");
    if (done) { done = comparison_.run(messages_, options_); }
    under_way_ = comparison_.failed();
    messages_.cut_at(options_.largest_message);
    transfers_.cut_at(options_.largest_message);
    return done;
  }

  /// Reserves a tag that is free on all ranks that give this colour: each offers its lowest, and
  /// goes on from the highest that was offered, until all offers of each colour are the same.
  [[nodiscard]] result<void> agree_on_tag(mpi_group& whole, std::uint32_t colour)
  {
    for (tag_ = channel_->reserve(0);;) {
      std::uint64_t const offer = static_cast<std::uint32_t>(tag_);
      auto told =
          whole.comparison_.gather(whole.messages_, "split", std::uint64_t{colour} << 32U | offer);
      if (!told) { return told; }
      auto const words = whole.comparison_.words();
      bool same = true;
      std::uint64_t highest = offer;
      for (std::uint64_t const word : words) {
        auto const theirs = static_cast<std::uint32_t>(word);
        if (theirs == static_cast<std::uint32_t>(mpi_channel::none)) {
          return mpi_failure("split: all tags are in use, MPI", MPI_ERR_TAG);
        }
        for (std::uint64_t const other : words) {
          same = same && (word >> 32U != other >> 32U || word == other);
        }
        if (word >> 32U == colour) { highest = std::max<std::uint64_t>(highest, theirs); }
      }
      if (same) { return {}; }
      if (highest == offer) { continue; }
      channel_->release(std::exchange(tag_, mpi_channel::none));
      tag_ = channel_->reserve(static_cast<int>(highest));
    }
  }

  [[nodiscard]] result<void> meet(collective_call call, std::span<std::size_t const> send_bytes,
                                  std::span<std::size_t const> receive_bytes)
  {
    bool const always =
        call.operation == collective::barrier || call.operation == collective::split;
    if (!options_.verify && !always) { return {}; }
    return comparison_.run(messages_, call, send_bytes, receive_bytes);
  }

  mpi_communicator_options options_;
  std::shared_ptr<mpi_channel> channel_;
  mpi_messages messages_;
  mpi_transfers transfers_;
  int tag_ = mpi_channel::none;
  std::size_t rank_ = 0;
  std::size_t size_ = 0;
  std::optional<error> failure_;
  bool under_way_ = false;  // an operation runs, or the group is being made; stays true after an
                            // exception

  // Members, since MPI may use them after the call that gave it these arrays has returned.
  mpi_comparison comparison_;
  host_scratch scratch_;
  std::vector<host_scratch> retired_;  // MPI may still write there
};

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_COMM_DETAIL_MPI_MPI_GROUP_HPP
