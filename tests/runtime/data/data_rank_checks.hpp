// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/thread_communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/runtime/data/data_pipeline.hpp>
#include <ballast/runtime/data/data_ranks.hpp>
#include "faulty_source.hpp"

#include <atomic>
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

/// Gives the frames of each sample in turn to the ranks, and its text, the last part, to the first
/// rank and to the last one.
struct by_frames {
  std::size_t ranks = 1;

  ballast::result<void> operator()(ballast::data_step const& step,
                                   std::vector<ballast::data_share>& shares) const
  {
    for (std::size_t entry = 0; entry < step.samples.size(); ++entry) {
      auto const parts = step.parts_of(entry);
      std::uint64_t first = 0;
      for (std::size_t part = 0; part < parts.size(); ++part) {
        auto const give = [&](std::size_t rank) {
          shares.push_back(
              {entry, ballast::to_id<ballast::rank_id>(rank), first, parts[part].bytes, entry / 2});
        };
        bool const is_text = part + 1 == parts.size();
        give(is_text ? 0 : (step.samples[entry] + part) % ranks);
        if (is_text && ranks > 1) { give(ranks - 1); }
        first += parts[part].bytes;
      }
    }
    return {};
  }

  /// What each rank is to fetch of a sample in all.
  [[nodiscard]] std::vector<std::uint64_t> bytes_of(std::uint64_t sample) const
  {
    std::vector<std::uint64_t> all(ranks);
    auto const [frames, frame, text] = video_source::shape_of(sample);
    for (std::size_t each = 0; each < frames; ++each) { all[(sample + each) % ranks] += frame; }
    all.front() += text;
    if (ranks > 1) { all.back() += text; }
    return all;
  }
};

/// A communicator whose rank ends in the middle of what it says: instead of its n-th send, `end()`
/// is called, which does not return. It counts what is received from ranks behind `proxy`: from
/// loaders a trainer receives payloads alone.
template <class Communicator, class End>
class mortal_communicator {
 public:
  mortal_communicator(Communicator& comm, std::size_t last, End end,
                      ballast::rank_id proxy = ballast::rank_id{1'000'000})
      : comm_(comm), last_(last), end_(std::move(end)), proxy_(proxy)
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
    fetched += peer > proxy_ ? bytes.size() : 0;
    return comm_.receive(bytes, peer);
  }
  [[nodiscard]] ballast::result<void> start() { return comm_.start(); }
  [[nodiscard]] auto is_done(ballast::transfer_id transfer) { return comm_.is_done(transfer); }
  [[nodiscard]] auto wait_for(ballast::transfer_id transfer) { return comm_.wait_for(transfer); }
  [[nodiscard]] bool cancel(ballast::transfer_id transfer) { return comm_.cancel(transfer); }

  std::size_t sent = 0;
  std::size_t fetched = 0;  // bytes

 private:
  Communicator& comm_;
  std::size_t last_;
  End end_;
  ballast::rank_id proxy_;
};

/// What a trainer saw, or what another rank returned.
struct trained {
  std::vector<std::uint64_t> digests = {};
  std::vector<std::uint64_t> plans = {};    // digests of who has what
  std::vector<std::uint64_t> samples = {};  // of which it has the first byte
  std::uint64_t bytes = 0;
  std::vector<std::string> news = {};
  std::string state = {};  // the last
  std::string error = {};
};

/// What `rank` sees of up to so many steps, each of which next() returns.
template <class Next>
trained take_steps(ballast::rank_id rank, std::size_t most_steps, Next next)
{
  trained own;
  while (own.digests.size() < most_steps) {
    auto const batch = next();
    if (!batch) { own.error = batch.error().message; }
    if (!batch || !*batch) { break; }
    ballast::data_step const& step = *(*batch)->step;
    own.digests.push_back(step.digest());
    ballast::digest plan;
    std::size_t at = 0;
    for (ballast::data_share const& share : step.shares) {
      plan.add(share.entry).add(to_index(share.rank)).add(share.first).add(share.count);
      if (share.rank != rank) { continue; }
      std::uint64_t const sample = step.samples[share.entry];
      if (share.first == 0) { own.samples.push_back(sample); }
      own.bytes += share.count;
      auto const whole = faulty_source::bytes_of(sample);
      auto const& each = (*batch)->own.at(at++);
      EXPECT_EQ(each.microbatch, share.microbatch);
      if (each.entry != share.entry || each.first != share.first ||
          !std::ranges::equal(each.bytes, std::span(whole).subspan(share.first, share.count))) {
        own.error = "wrong payload";
      }
    }
    EXPECT_EQ(at, (*batch)->own.size());
    own.plans.push_back(plan.value());
    own.news.insert(own.news.end(), step.news.begin(), step.news.end());
    own.state = step.save();
  }
  return own;
}

template <class Communicator>
trained train_as(Communicator& comm, ballast::rank_id proxy, ballast::loader_options options,
                 std::size_t most_steps)
{
  ballast::data_trainer data(comm, proxy, options);
  trained own = take_steps(comm.rank(), most_steps, [&] { return data.next(); });
  if (auto const done = data.finish(); !done) { own.error = done.error().message; }
  return own;
}

/// What each of several threads returns, that act while they run. They keep their communicators
/// until all have returned, as a rank that left would break those of the others.
template <class Body>
auto run_ranks_that_stay(std::size_t ranks, std::chrono::milliseconds deadline, Body const& body)
{
  hand_moved_clock::begin_to_act(ranks);
  std::atomic<std::size_t> returned = 0;
  return ballast::run_ranks(
      ranks,
      [&](ballast::thread_communicator& comm) {
        auto own = body(comm);
        hand_moved_clock::end_to_act();
        for (++returned; returned < ranks;) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return own;
      },
      deadline);
}

/// The text of an error, or nothing.
inline std::string error_of(ballast::result<void> const& done)
{
  return done ? "" : done.error().message;
}

/// A source that says when it acts, so that no loader is late but those that wait for the clock.
template <class Source>
struct acting_source : Source {
  [[nodiscard]] ballast::result<ballast::loaded_sample> load(std::uint64_t sample) const
  {
    hand_moved_clock::begin_to_act();
    hand_moved_clock::acts_until_here const ends;
    return Source::load(sample);
  }
};

/// Short beside all deadlines and late_after.
inline constexpr std::chrono::milliseconds step_of_time(20);

enum class form : std::uint8_t { threads, ranks };

/// Who runs a data pipeline, how far and from where.
struct run_extent {
  std::size_t trainers = 1;
  std::size_t loaders = 2;    // where they are ranks; of these ...
  bool last_is_sound = true;  // ... the last one neither throws nor is slow
  std::string state = {};
  std::size_t most_steps = 1'000'000;
};

/// What trainers saw, and what the proxy and loaders returned where they are ranks.
struct run_outcome {
  std::vector<trained> trainers;
  std::vector<std::string> others;
};

/// Runs a data pipeline of either form.
template <class Source, class Plan>
run_outcome run(form how, run_extent const& extent, Source const& source, Plan const& plan,
                ballast::data_setup const& setup, ballast::data_windows const& windows = {},
                ballast::loader_options options = {})
{
  passing_time const passes(step_of_time);
  if (how == form::threads) {
    ballast::data_pipeline pipeline(acting_source<Source>{source}, plan, extent.trainers, setup,
                                    windows, options);
    if (!extent.state.empty()) {
      if (auto const done = pipeline.restore(extent.state); !done) {
        return {std::vector(extent.trainers, trained{.error = done.error().message}), {}};
      }
    }
    hand_moved_clock::begin_to_act(extent.trainers);
    return {ballast::run_ranks(extent.trainers,
                               [&](ballast::thread_communicator& comm) {
                                 hand_moved_clock::acts_until_here const ends;
                                 return take_steps(comm.rank(), extent.most_steps,
                                                   [&] { return pipeline.next(comm.rank()); });
                               }),
            {}};
  }
  auto all = run_ranks_that_stay(
      extent.trainers + 1 + extent.loaders, std::chrono::seconds(60),
      [&](ballast::thread_communicator& comm) {
        auto const proxy = ballast::to_id<ballast::rank_id>(extent.trainers);
        if (comm.rank() < proxy) { return train_as(comm, proxy, options, extent.most_steps); }
        if (comm.rank() == proxy) {
          ballast::detail::known_lengths lengths;
          if constexpr (ballast::detail::data_source_with_lengths<Source>) {
            lengths = [&](std::uint64_t sample) { return source.lengths(sample); };
          }
          return trained{.error =
                             error_of(serve_as_proxy(comm, extent.trainers, plan, setup, windows,
                                                     options, extent.state, lengths))};
        }
        Source own = source;
        if constexpr (std::derived_from<Source, faulty_source>) {
          own.seed += to_index(comm.rank());
          if (extent.last_is_sound && to_index(comm.rank()) + 1 == comm.size()) {
            own.throws_per_mille = own.slow_per_mille = 0;
          }
        }
        return trained{.error = error_of(serve_as_loader(comm, proxy, own))};
      });
  run_outcome seen;
  for (std::size_t rank = extent.trainers; rank < all.size(); ++rank) {
    seen.others.push_back(all[rank].error);
  }
  all.resize(extent.trainers);
  seen.trainers = std::move(all);
  return seen;
}

}  // namespace ballast_test
