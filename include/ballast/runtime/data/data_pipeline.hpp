// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/producer_count.hpp>

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>

namespace ballast::inline v0 {

namespace detail {

/// A thread that loads samples. All is guarded by the mutex of its data pipeline.
struct loader_thread {
  std::uint32_t number = 0;
  bool lost = false;
  bool ended = false;  // it touches nothing any more
  std::optional<wait_clock::time_point> loads_since = {};
  std::thread thread = {};

  [[nodiscard]] bool is_late(std::chrono::milliseconds limit) const
  {
    return !lost && loads_since && wait_clock::now() - *loads_since >= limit;
  }
};

/// The threads of a data pipeline that load, and those that have been given up and not ended.
struct loader_threads {
  std::list<loader_thread> all = {};
  std::size_t active = 0;  // neither lost nor ended
  std::uint32_t next_number = 0;

  /// Starts threads up to this number, each of which calls run(own), and joins what has ended.
  template <class Run>
  void start(std::size_t wanted, Run run)
  {
    all.remove_if([](loader_thread& each) {
      if (each.ended) { each.thread.join(); }
      return each.ended;
    });
    for (; active < wanted; ++active) {
      loader_thread& added = all.emplace_back();
      added.number = next_number++;
      added.thread = std::thread([run, &added] { run(added); });
    }
  }

  void join()
  {
    for (loader_thread& each : all) {
      if (each.thread.joinable()) { each.thread.join(); }
    }
  }
};

}  // namespace detail

/// A data pipeline within one process: loaders are threads, and ranks, threads too, take what they
/// compute of each step.
///
///     data_pipeline pipeline(source, plan, ranks, {.samples = 10'000, .step_samples = 256});
///     while (auto batch = pipeline.next(rank).value()) {   // each rank, by itself
///       for (own_sample const& own : batch->own) { train(own.bytes); }
///     }
///
/// The loader that decodes the last sample of a step has it planned, by plan(step, owners), which
/// writes the rank of each sample and may be any planner: step.lengths_of(entry) has its lengths.
/// A payload moves from loader to rank, without a copy. Threads are started and ended as measured
/// rates ask for (producer_count). `serve_as_proxy` and `data_trainer`
/// are the same for processes.
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
///             infeasible: the plan gave a sample to a rank that is not there; peer_lost: more
///             loaders were lost than options.most_lost.
template <data_source Source, class Plan, window_policy Policy = long_rounds,
          class Cost = total_length>
  requires detail::data_plan<Plan>
class data_pipeline {
 public:
  data_pipeline(Source source, Plan plan, std::size_t ranks, data_setup setup,
                data_windows<Policy, Cost> windows = {}, loader_options options = {})
      : source_(std::move(source)),
        plan_(std::move(plan)),
        options_(detail::checked(options)),
        proxy_(std::move(setup), std::move(windows)),
        steps_(ranks),
        ranks_(ranks),
        rates_(options.least, options.most)
  {
    BALLAST_EXPECTS(ranks >= 1, "a data pipeline of no ranks");
  }
  data_pipeline(data_pipeline const&) = delete;
  data_pipeline& operator=(data_pipeline const&) = delete;
  ~data_pipeline()
  {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    threads_.join();
  }

  /// Goes on after the step whose save() this is; before next() is called. It loads a sample of that
  /// step, to see whether the data is the same.
  ///
  /// Errors      those of data_proxy::restore and of its health().
  [[nodiscard]] result<void> restore(std::string_view state)
  {
    std::lock_guard const lock(mutex_);
    result<void> done;
    if constexpr (data_source_with_lengths<Source>) {
      done = proxy_.restore(state, lengths_of());
    } else {
      done = proxy_.restore(state);
    }
    if (!done) { return done; }
    if (auto const again = proxy_.deal_again(0)) {
      result<loaded_sample> loaded;
      auto const called =
          detail::call_user("load()", [&] { loaded = source_.load(again->sample); });
      if (called && loaded) {
        (void)proxy_.report(0, again->ticket, loaded->lengths);
      } else {
        proxy_.cannot_decode(0, again->ticket, "");
      }
    }
    return proxy_.health();
  }

  /// The next step of a rank, when it is there; nothing after the last one.
  [[nodiscard]] result<std::optional<data_batch>> next(rank_id rank)
  {
    BALLAST_EXPECTS(to_index(rank) < ranks_.size(), "rank ", to_index(rank), " of ", ranks_.size());
    std::unique_lock lock(mutex_);
    rank_times& times = ranks_[to_index(rank)];
    auto const asked = clock::now();
    if (times.returned != clock::time_point()) { rates_.computed(asked - times.returned); }
    start_loaders();
    auto const ready = [&] { return steps_.has(rank) || over(); };
    auto const ready_and_all_in_time = [&] {
      give_up_late_loaders();
      return ready();
    };
    while (!ready()) {
      (void)detail::wait_by_clock(ready_, lock, options_.late_after, ready_and_all_in_time);
    }
    times.returned = clock::now();
    times.waited += times.returned - asked;
    if (!steps_.has(rank)) {
      if (failure_) { return tl::unexpected(*failure_); }
      return std::optional<data_batch>();
    }
    data_batch batch = steps_.take(rank);
    if (steps_.pop_taken()) {
      proxy_.take();
      rates_.stepped(proxy_.setup().step_samples, ranks_.size());
      start_loaders();
      work_.notify_all();
    }
    return batch;
  }

  /// Threads that load now.
  [[nodiscard]] std::size_t loaders() const
  {
    std::lock_guard const lock(mutex_);
    return threads_.active;
  }
  /// How long a rank has waited in next().
  [[nodiscard]] std::chrono::nanoseconds waited(rank_id rank) const
  {
    std::lock_guard const lock(mutex_);
    return ranks_[to_index(rank)].waited;
  }

 private:
  using clock = std::chrono::steady_clock;
  using loader = detail::loader_thread;
  [[nodiscard]] auto lengths_of() const
  {
    return [this](std::uint64_t sample) { return source_.lengths(sample); };
  }

  struct rank_times {
    clock::time_point returned = {};
    clock::duration waited = {};
  };

  /// Whether no step comes any more; not while one is planned, which some ranks would miss.
  [[nodiscard]] bool over() const { return !planning_ && (failure_ || proxy_.finished()); }

  void fail_with(error reason)
  {
    if (!failure_) { failure_ = std::move(reason); }
    ready_.notify_all();
  }

  void start_loaders()
  {
    threads_.start(failure_ ? 0 : rates_.loaders(), [this](loader& own) { run(own); });
  }

  void give_up_late_loaders()
  {
    for (loader& each : threads_.all) {
      if (each.is_late(options_.late_after)) { lose(each, "it loads a sample for too long"); }
    }
    start_loaders();
  }

  void lose(loader& own, std::string_view why)
  {
    own.lost = true;
    --threads_.active;
    (void)proxy_.lose(own.number, why);
    work_.notify_all();
    ready_.notify_all();  // for a rank that waits to start another one
    if (++lost_ > options_.most_lost) {
      fail_with({error_code::peer_lost, 0,
                 detail::concat(detail::loaders_lost(lost_), ", the last of them: ", why,
                                "; look what ends them, or raise options.most_lost")});
    }
  }

  /// What a thread does: loads what it is dealt until it is lost or too many.
  void run(loader& own)
  {
    std::unique_lock lock(mutex_);
    while (!ending_ && !failure_ && !own.lost) {
      if (threads_.active > rates_.loaders()) {
        --threads_.active;
        break;
      }
      if (auto const dealt = deal(own)) {
        load(own, *dealt, lock);
      } else {
        work_.wait(lock);
      }
    }
    own.ended = true;
  }

  [[nodiscard]] std::optional<data_deal> deal(loader const& own)
  {
    std::optional<data_deal> dealt;
    if constexpr (data_source_with_lengths<Source>) {
      dealt = proxy_.deal(own.number, lengths_of());
    } else {
      dealt = proxy_.deal(own.number);
    }
    if (!proxy_.health()) { fail_with(proxy_.health().error()); }
    return dealt;
  }

  void load(loader& own, data_deal dealt, std::unique_lock<std::mutex>& lock)
  {
    auto const begin = clock::now();
    own.loads_since = detail::wait_clock::now();
    result<loaded_sample> loaded;
    lock.unlock();
    auto const called = detail::call_user("load()", [&] { loaded = source_.load(dealt.sample); });
    lock.lock();
    own.loads_since.reset();
    if (own.lost) { return; }
    rates_.loaded(clock::now() - begin);
    if (!called) { return lose(own, called.error().message); }
    if (!loaded) {
      proxy_.cannot_decode(own.number, dealt.ticket, loaded.error().message);
    } else if (proxy_.report(own.number, dealt.ticket, loaded->lengths)) {
      proxy_.deliver(dealt.ticket);
      steps_.keep(dealt.ticket, std::move(loaded->bytes));
    }
    bool const has_room = !loaded || !proxy_.dropped().empty();
    for (auto const& [ticket, unused] : proxy_.dropped()) { steps_.drop(ticket); }
    proxy_.dropped().clear();
    if (has_room) { work_.notify_all(); }
    make_steps(lock);
  }

  /// Plans the steps that are complete, one thread at a time, while others load.
  void make_steps(std::unique_lock<std::mutex>& lock)
  {
    if (planning_) { return; }
    planning_ = true;
    detail::planned_step next;
    while (!failure_ && proxy_.make(next.step, next.tickets)) {
      lock.unlock();
      auto const planned = detail::plan_owners(plan_, next.step, ranks_.size());
      lock.lock();
      if (planned) {
        steps_.add(std::exchange(next, {}));
        ready_.notify_all();
      } else {
        fail_with(planned.error());
      }
    }
    if (!proxy_.health()) { fail_with(proxy_.health().error()); }
    planning_ = false;
    if (over()) { ready_.notify_all(); }
  }

  Source const source_;
  Plan plan_;  // the planning thread's
  loader_options const options_;

  mutable std::mutex mutex_;
  std::condition_variable work_;   // for loaders
  std::condition_variable ready_;  // for ranks
  data_proxy<Policy, Cost> proxy_;
  detail::planned_steps steps_;
  std::vector<rank_times> ranks_;
  detail::loader_threads threads_;
  std::size_t lost_ = 0;
  detail::load_rates rates_;
  bool planning_ = false;
  bool ending_ = false;
  std::optional<error> failure_;
};

}  // namespace ballast::inline v0
