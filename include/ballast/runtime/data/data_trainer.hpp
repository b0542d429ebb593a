// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/data_post.hpp>

#include <chrono>
#include <deque>
#include <list>
#include <memory>

namespace ballast::inline v0 {

/// A rank that trains on what a data pipeline of ranks gives it.
///
///     data_trainer data(comm, proxy);
///     while (auto batch = data.next().value()) { train(*batch); }
///     or_throw(data.finish());
///
/// Payloads of the steps that have been announced are received whenever next() is called.
///
/// Expects     the rank `proxy` calls serve_as_proxy with the same options. Only the thread that
///             calls it uses comm, whose collective operations other trainers may not wait for
///             meanwhile.
/// Ensures     (1) the batches that data_pipeline would give this rank
///             (2) a payload whose loader is lost comes from another one
/// Errors      next: what the proxy says, after the steps that were made before; timed_out, with its
///             rank: the proxy says nothing for as long as the deadline of comm; those of comm.
template <point_to_point Communicator>
class data_trainer {
 public:
  data_trainer(Communicator& comm, rank_id proxy, loader_options options = {})
      : comm_(comm), options_(detail::checked(options)), proxy_(proxy), post_(comm, to_index(proxy))
  {
    post_.send({word::hello});
  }

  /// The next step, when all that this rank computes of it is there; nothing after the last one.
  [[nodiscard]] result<std::optional<data_batch>> next()
  {
    auto const asked = std::chrono::steady_clock::now();
    auto const computed = returned_ ? asked - *returned_ : clock::duration();
    for (receive& each : receives_) { each.since = clock::now(); }  // nobody has looked meanwhile
    post_.listen();
    while (steps_.empty() ? !over_ : steps_.front().awaited > 0) {
      if (gives_up()) { return tl::unexpected(stopped_.error()); }
      if (auto done = progress(); !done) {
        failed_ = over_ = true;  // so that no finish() ends the training of the others
        stopped_ = tl::unexpected(done.error());
        return tl::unexpected(done.error());
      }
    }
    returned_ = std::chrono::steady_clock::now();
    waited_ += *returned_ - asked;
    if (steps_.empty()) {
      if (!stopped_) { return tl::unexpected(stopped_.error()); }
      return std::optional<data_batch>();
    }
    data_batch batch = std::move(steps_.front().batch);
    steps_.pop_front();
    auto const spent = std::chrono::duration_cast<std::chrono::nanoseconds>(computed).count();
    post_.send({word::taken, batch.step->number, static_cast<std::uint64_t>(spent), {}});
    return batch;
  }

  /// Ends the training of this rank, after its last step or before. What was announced meanwhile is
  /// received and dropped, so that no message is left.
  ///
  /// Errors      timed_out: the proxy says nothing; those of comm. What comm had in next() is told
  ///             again, at once, and the others are not told to end.
  [[nodiscard]] result<void> finish()
  {
    if (failed_) { return tl::unexpected(stopped_.error()); }
    post_.listen();
    if (!parted_) { post_.send({word::finish}); }
    while (!gives_up() && (!over_ || !receives_.empty() || awaited() > 0)) {
      if (auto done = progress(); !done) { return done; }
    }
    if (!parted_) { post_.send({word::left}); }
    left_ = true;
    while (!parted_) {
      if (failed_) { return tl::unexpected(stopped_.error()); }
      if (auto done = progress(); !done) { return done; }
    }
    return {};
  }

  /// How long this rank has waited in next().
  [[nodiscard]] std::chrono::nanoseconds waited() const { return waited_; }

 private:
  using clock = detail::wait_clock;
  using word = detail::data_word;

  struct announced {
    data_batch batch;
    std::vector<bool> arrived;  // payloads
    std::size_t awaited = 0;
  };
  struct receive {
    std::uint64_t step = 0;
    std::size_t entry = 0;
    std::uint64_t loader = 0;
    clock::time_point since;
    detail::moved_bytes<Communicator> bytes;
  };

  /// Takes what has come, or sleeps for a moment.
  [[nodiscard]] result<void> progress()
  {
    bool idle = true;
    auto message = post_.look();
    if (!message) { return tl::unexpected(message.error()); }
    if (!left_) { post_.keep_alive(); }
    if (*message) {
      idle = false;
      hear(**message);
    } else if (post_.is_silent() && !parted_) {
      stopped_ = detail::were_silent("the proxy", {proxy_}, detail::longest_silence(comm_));
      failed_ = over_ = true;
      return {};
    }
    for (auto each = receives_.begin(); each != receives_.end();) {
      auto const here = each->bytes.arrived();
      if (!here) { return tl::unexpected(here.error()); }
      if (*here) {
        idle = false;
        keep(*each);
        each = receives_.erase(each);
        continue;
      }
      if (clock::now() - each->since > options_.late_after) {
        post_.send({word::missing, each->step, each->entry, {each->loader}});
        each->since = clock::now();
      }
      ++each;
    }
    idle ? pause_.rest() : pause_.end();
    return {};
  }

  void hear(detail::data_message const& message)
  {
    detail::data_body in(message);
    switch (message.word) {
      case word::step: announce(message); break;
      case word::given_up:  // what it may still send meets no receive, least of all another one
        for (auto each = receives_.end(); each != receives_.begin();) {
          if ((--each)->loader == message.one) { each = receives_.erase(each); }
        }
        break;
      case word::redirect: {
        std::uint64_t const loader = in.word();
        std::uint64_t const bytes = in.word();
        expect(message.one, message.two, {loader, bytes});
        break;
      }
      case word::stop:
        stopped_ = tl::unexpected(detail::read_stop(message));
        stopped_at_ = clock::now();
        over_ = true;
        parted_ = message.body.front() != 0;
        break;
      case word::bye: parted_ = true; break;
      case word::over: over_ = true; break;
      default: break;  // to a loader, which the proxy takes this rank for
    }
  }

  void announce(detail::data_message const& message)
  {
    std::vector<detail::payload_place> places;
    auto step = std::make_shared<data_step const>(detail::read_step(message, places));
    announced& added = steps_.emplace_back();
    added.batch.step = step;
    for (std::size_t entry = 0; entry < places.size(); ++entry) {
      if (step->owner[entry] != comm_.rank()) { continue; }
      added.batch.own.push_back({entry, {}});
      added.arrived.push_back(false);
      ++added.awaited;
      if (places[entry].first != detail::no_loader) { expect(step->number, entry, places[entry]); }
    }
  }

  void expect(std::uint64_t step, std::size_t entry, detail::payload_place place)
  {
    receives_.push_back({step,
                         entry,
                         place.first,
                         clock::now(),
                         {comm_, std::vector<std::byte>(place.second), false, place.first}});
  }

  void keep(receive& received)
  {
    post_.send({word::received, received.step, received.entry, {}});
    if (steps_.empty() || received.step < steps_.front().batch.step->number) { return; }
    announced& step = steps_[received.step - steps_.front().batch.step->number];
    for (std::size_t at = 0; at < step.arrived.size(); ++at) {
      own_sample& own = step.batch.own[at];
      if (own.entry != received.entry || step.arrived[at]) { continue; }
      own.bytes = std::move(received.bytes.bytes());
      step.arrived[at] = true;
      --step.awaited;
    }
  }

  /// Whether what was announced before the proxy stopped may never come.
  [[nodiscard]] bool gives_up() const
  {
    return !stopped_ && (parted_ || stopped_.error().code == error_code::peer_lost ||
                         stopped_.error().code == error_code::timed_out ||
                         clock::now() - stopped_at_ > options_.late_after);
  }

  [[nodiscard]] std::size_t awaited() const
  {
    std::size_t all = 0;
    for (announced const& each : steps_) { all += each.awaited; }
    return all;
  }

  Communicator& comm_;
  loader_options options_;
  rank_id proxy_;
  detail::data_post<Communicator> post_;
  detail::idle_pause pause_;
  std::deque<announced> steps_;  // the next one first
  detail::last_first<receive> receives_;
  bool over_ = false;    // no further step is announced
  bool left_ = false;    // this rank says nothing more
  bool parted_ = false;  // nor does the proxy
  bool failed_ = false;  // the proxy says nothing, though it should, or comm has failed
  result<void> stopped_;
  clock::time_point stopped_at_;
  std::optional<std::chrono::steady_clock::time_point> returned_;
  clock::duration waited_ = {};
};

}  // namespace ballast::inline v0
