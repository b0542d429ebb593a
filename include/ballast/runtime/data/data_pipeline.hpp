// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/planned_proxy.hpp>

#include <list>

namespace ballast::inline v0 {

/// A data pipeline within one process: loaders are threads, and ranks, threads too, take what they
/// compute of each step.
///
///     data_pipeline pipeline(source, plan, ranks, {.samples = 10'000, .step_samples = 256});
///     while (auto batch = pipeline.next(rank).value()) {   // each rank, by itself
///       for (auto const& own : batch->own) { train(own.bytes); }
///     }
///
/// The loader that decodes the last sample of a step has it planned, by plan(step, owners), which
/// writes the rank of each sample and may be any planner: step.lengths_of(entry) has its lengths.
/// A payload moves from loader to rank, without a copy. Where a plan takes a std::vector of
/// data_share in the place of owners, it lists which bytes of which sample each rank computes, in
/// the order in which it does: so ranks may share a sample (step.parts_of(entry)), or have the same.
///
/// Threads are started and ended as measured rates ask for. `serve_as_proxy` and `data_trainer` are
/// the same for processes.
///
/// Expects     ranks >= 1; options.late_after is above 0; each rank calls next() from one thread at a
///             time. All calls have returned when the pipeline is destroyed.
/// Ensures     (1) those of data_proxy; every rank has the same steps, as planned
///             (2) a loader whose load() throws, or takes longer than late_after while a rank
///                 waits, is lost: the news of a step name it, its samples come from others, and a
///                 new thread takes its place
///             (3) steps that were made before an error are taken before it, by every rank
///             (4) the destructor ends the threads; it waits for those that are in load()
/// Errors      next: those of data_proxy and of the plan; failed: the plan threw;
///             infeasible: the plan gave a sample to a rank that is not there, or bytes of one to
///             nobody; peer_lost: more loaders were lost than options.most_lost.
template <data_source Source, detail::data_plan Plan>
class data_pipeline {
 public:
  data_pipeline(Source source, Plan plan, std::size_t ranks, data_setup setup,
                data_windows windows = {}, loader_options options = {})
      : source_(std::move(source)),
        proxy_(std::move(plan), ranks, std::move(setup), std::move(windows), options, lengths()),
        ranks_(ranks)
  {
    BALLAST_EXPECTS(ranks >= 1, "a data pipeline of no ranks");
  }
  data_pipeline& operator=(data_pipeline&&) = delete;
  ~data_pipeline()
  {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    for (loader& each : loaders_) { each.thread.join(); }
  }

  /// Goes on after the step whose save() this is; before next() is called. It loads a sample of that
  /// step, to see whether the data is the same.
  ///
  /// Errors      those of data_proxy::restore and of its health().
  [[nodiscard]] result<void> restore(std::string_view state)
  {
    std::lock_guard const lock(mutex_);
    auto& proxy = proxy_.proxy;
    if (auto done = proxy.restore(state); !done) { return done; }
    if (auto const again = proxy.deal_again(0)) {
      auto const loaded = detail::load_from(source_, again->sample);
      if (loaded.called && loaded.sample) {
        (void)proxy.report(0, again->ticket, loaded.sample->lengths);
      } else {
        proxy.cannot_decode(0, again->ticket, "");
      }
    }
    return proxy.health();
  }

  /// The next step of a rank, when it is there; nothing after the last one.
  [[nodiscard]] result<std::optional<data_batch>> next(rank_id rank)
  {
    BALLAST_EXPECTS(to_index(rank) < ranks_.size(), "rank ", to_index(rank), " of ", ranks_.size());
    std::unique_lock lock(mutex_);
    rank_times& times = ranks_[to_index(rank)];
    auto const asked = clock::now();
    start_loaders();
    auto const ready = [&] { return proxy_.next_of(rank) != nullptr || over(); };
    auto const ready_and_all_in_time = [&] {
      give_up_late_loaders();
      return ready();
    };
    while (!ready()) {
      (void)detail::wait_by_clock(ready_, lock, proxy_.options.late_after, ready_and_all_in_time);
    }
    auto const computed = times.returned ? asked - *times.returned : clock::duration();
    times.returned = clock::now();
    times.waited += *times.returned - asked;
    auto const* const step = proxy_.next_of(rank);
    if (step == nullptr) {
      return proxy_.stopped.map([] { return std::optional<data_batch>(); });
    }
    data_batch batch = detail::batch_of(step->step, step->tickets, rank, times.payloads);
    if (proxy_.take(rank, computed)) {
      start_loaders();
      work_.notify_all();
    }
    return batch;
  }

  /// Threads that load now.
  [[nodiscard]] std::size_t loaders() const
  {
    std::lock_guard const lock(mutex_);
    return active_;
  }
  /// How long a rank has waited in next().
  [[nodiscard]] std::chrono::nanoseconds waited(rank_id rank) const
  {
    std::lock_guard const lock(mutex_);
    return ranks_[to_index(rank)].waited;
  }

 private:
  using clock = std::chrono::steady_clock;

  /// A thread that loads samples. All is guarded by the mutex.
  struct loader {
    std::uint32_t number = 0;
    bool lost = false;
    bool ended = false;  // it touches nothing any more
    std::optional<detail::wait_clock::time_point> loads_since = {};
    std::thread thread = {};
  };
  struct rank_times {
    std::optional<clock::time_point> returned = {};
    clock::duration waited = {};
    std::map<std::uint64_t, std::vector<std::byte>> payloads = {};  // that it has not taken
  };

  [[nodiscard]] detail::known_lengths lengths() const
  {
    if constexpr (detail::data_source_with_lengths<Source>) {
      return [this](std::uint64_t sample) { return source_.lengths(sample); };
    }
    return {};
  }

  /// Whether no step comes any more; not while one is planned, which some ranks would miss.
  [[nodiscard]] bool over() const
  {
    return !planning_ && (!proxy_.stopped || proxy_.proxy.finished());
  }

  /// Starts as many threads as are needed, and joins what has ended.
  void start_loaders()
  {
    loaders_.remove_if([](loader& each) {
      if (each.ended) { each.thread.join(); }
      return each.ended;
    });
    for (std::size_t const wanted = proxy_.stopped ? proxy_.needed.now() : 0; active_ < wanted;
         ++active_) {
      loader& added = loaders_.emplace_back();
      added.number = next_loader_++;
      added.thread = std::thread([this, &added] { run(added); });
    }
  }

  void give_up_late_loaders()
  {
    for (loader& each : loaders_) {
      bool const is_late =
          !each.lost && each.loads_since &&
          detail::wait_clock::now() - *each.loads_since >= proxy_.options.late_after;
      if (is_late) { lose(each, "it loads a sample for too long"); }
    }
    start_loaders();
  }

  void lose(loader& own, std::string_view why)
  {
    own.lost = true;
    --active_;
    proxy_.lose(own.number, why);
    work_.notify_all();
    ready_.notify_all();  // for a rank that waits to start another one
  }

  /// What a thread does: loads what it is dealt until it is lost or too many.
  void run(loader& own)
  {
    std::unique_lock lock(mutex_);
    while (!ending_ && proxy_.stopped && !own.lost) {
      if (active_ > proxy_.needed.now()) {
        --active_;
        break;
      }
      if (auto const dealt = proxy_.deal(own.number)) {
        load(own, *dealt, lock);
      } else if (proxy_.stopped) {
        work_.wait(lock);
      }
    }
    if (!proxy_.stopped) { ready_.notify_all(); }
    own.ended = true;
  }

  void load(loader& own, data_deal dealt, std::unique_lock<std::mutex>& lock)
  {
    own.loads_since = detail::wait_clock::now();
    lock.unlock();
    auto loaded = detail::load_from(source_, dealt.sample);
    lock.lock();
    own.loads_since.reset();
    if (own.lost) { return; }
    if (!loaded.called) { return lose(own, loaded.called.error().message); }
    if (!loaded.sample) {
      proxy_.proxy.cannot_decode(own.number, dealt.ticket, loaded.sample.error().message);
      work_.notify_all();  // there may be room
    } else {
      auto& [lengths, payload, parts] = *loaded.sample;
      std::size_t const bytes = payload.size();
      if (proxy_.report(own.number, dealt.ticket, loaded.took, lengths, parts, bytes,
                        std::move(payload))) {
        proxy_.proxy.deliver(dealt.ticket);
      }
    }
    proxy_.drop([&](auto...) { work_.notify_all(); });
    make_steps(lock);
  }

  /// Plans the steps that are complete, one thread at a time, while others load.
  void make_steps(std::unique_lock<std::mutex>& lock)
  {
    if (planning_) { return; }
    planning_ = true;
    while (auto made = proxy_.make()) {
      std::vector<std::vector<std::byte>> payloads;
      for (std::uint64_t const ticket : made->tickets) {
        payloads.push_back(std::move(proxy_.payloads.extract(ticket).mapped()));
      }
      lock.unlock();
      auto const planned = proxy_.plan(made->step);
      std::vector<std::vector<std::vector<std::byte>>> pieces;
      for (std::size_t entry = 0; planned && entry < payloads.size(); ++entry) {
        pieces.push_back(detail::cut(std::move(payloads[entry]), (*planned)[entry]));
      }
      lock.lock();
      if (planned) {
        for (std::size_t entry = 0; entry < pieces.size(); ++entry) {
          for (std::size_t taker = 0; taker < pieces[entry].size(); ++taker) {
            ranks_[(*planned)[entry][taker].first].payloads.emplace(
                made->tickets[entry], std::move(pieces[entry][taker]));
          }
        }
        proxy_.add(*std::move(made));
        ready_.notify_all();
      } else {
        proxy_.stop(planned.error());
      }
    }
    planning_ = false;
    if (over()) { ready_.notify_all(); }
  }

  Source const source_;

  mutable std::mutex mutex_;
  std::condition_variable work_;   // for loaders
  std::condition_variable ready_;  // for ranks
  detail::planned_proxy<std::vector<std::byte>, Plan> proxy_;
  std::vector<rank_times> ranks_;
  std::list<loader> loaders_;      // also those that have been given up and not ended
  std::size_t active_ = 0;         // neither lost nor ended
  std::uint32_t next_loader_ = 0;  // its number
  bool planning_ = false;
  bool ending_ = false;
};

}  // namespace ballast::inline v0
