// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/producer_count.hpp>
#include <ballast/runtime/detail/data_post.hpp>

#include <chrono>
#include <deque>
#include <map>

namespace ballast::inline v0 {

namespace detail {

/// What the proxy's rank knows of a loader.
template <point_to_point Communicator>
struct loader_peer : data_post<Communicator> {
  loader_peer(Communicator& comm, std::size_t own)
      : data_post<Communicator>(comm, own), rank(static_cast<std::uint32_t>(own))
  {}

  std::uint32_t rank;
  bool ended = false;                 // it is lost, or has said goodbye
  bool lost = false;                  // it may take nothing any more
  std::size_t loads = 0;              // samples that it was dealt, and has not told of
  wait_clock::time_point heard = {};  // or since something is expected of it
};

/// What it knows of a trainer.
template <point_to_point Communicator>
struct trainer_peer : data_post<Communicator> {
  trainer_peer(Communicator& comm, std::size_t own)
      : data_post<Communicator>(comm, own), rank(static_cast<std::uint32_t>(own))
  {}

  std::uint32_t rank;
  bool lost = false;
  bool finishes = false;
  bool ended = false;
};

/// All of them, and what the proxy says to them whatever it is busy with.
template <point_to_point Communicator>
struct proxy_peers {
  using clock = wait_clock;

  proxy_peers(Communicator& comm, std::size_t first_loader) : longest(longest_silence(comm))
  {
    for (std::size_t rank = 0; rank + 1 < first_loader; ++rank) {
      trainers.emplace_back(comm, rank);
    }
    for (std::size_t rank = first_loader; rank < comm.size(); ++rank) {
      loaders.emplace_back(comm, rank);
    }
  }

  [[nodiscard]] loader_peer<Communicator>& loader_at(std::size_t rank)
  {
    return loaders[rank - trainers.size() - 1];
  }
  [[nodiscard]] bool trainers_ended() const { return all_ended(trainers); }
  [[nodiscard]] bool loaders_ended() const { return all_ended(loaders); }

  void tell_trainers(data_message const& message)
  {
    for (auto& each : trainers) {
      if (!each.ended) { each.send(message); }
    }
  }

  /// Says to all that the proxy is there. What it was away for itself, no peer is blamed for.
  void keep_alive(bool loaders_too)
  {
    auto const now = clock::now();
    auto const away = now - std::exchange(looked, now);
    auto const keep = [&](auto& each, bool alive) {
      if (away > longest / 8) { each.excuse(away); }
      if (!each.ended && alive) { each.keep_alive(); }
    };
    for (auto& each : trainers) { keep(each, true); }
    for (auto& each : loaders) { keep(each, loaders_too); }
  }

  /// A rank says what its part is.
  void meet(auto const& peer, bool loads, bool is_to_load)
  {
    if (loads == is_to_load) { return; }
    part({error_code::mismatch,
          0,
          concat("rank ", peer.rank, " calls ", loads ? "serve_as_loader" : "data_trainer",
                 ", and the proxy was told of ", counted(trainers.size(), "trainer"),
                 "; give every rank the same number of trainers"),
          {to_id<rank_id>(peer.rank)}});
  }

  /// Parts where trainers are missing: the others cannot go on without them.
  void find_missing()
  {
    std::vector<rank_id> missing;
    for (auto& each : trainers) {
      if (each.ended || !each.is_silent()) { continue; }
      each.lost = true;
      missing.push_back(to_id<rank_id>(each.rank));
    }
    if (missing.empty()) { return; }
    char const* const who = missing.size() == 1 ? "a trainer" : "trainers";
    part(were_silent(who, std::move(missing), longest).value());
  }

  /// Tells all that are left why it ends, and waits for no answer.
  void part(error reason)
  {
    if (std::exchange(parted, true)) { return; }
    if (outcome) { outcome = tl::unexpected(std::move(reason)); }
    auto const tell = [last = write_stop(outcome.error(), true)](auto& each) {
      if (!each.ended) { each.send(last); }
    };
    std::for_each(trainers.begin(), trainers.end(), tell);
    std::for_each(loaders.begin(), loaders.end(), tell);
  }

  /// Waits until all that was said has left, but not long: a rank that is gone takes nothing.
  void flush()
  {
    idle_pause pause;
    auto const left = [](auto& each) { return each.lost || each.flush().value_or(true); };
    for (auto const end = clock::now() + time_to_leave(longest); clock::now() < end; pause.rest()) {
      if (std::all_of(trainers.begin(), trainers.end(), left) &&
          std::all_of(loaders.begin(), loaders.end(), left)) {
        return;
      }
    }
  }

  std::deque<trainer_peer<Communicator>> trainers;
  std::deque<loader_peer<Communicator>> loaders;
  std::chrono::milliseconds longest;
  clock::time_point looked = clock::now();
  result<void> outcome;
  bool parted = false;

 private:
  [[nodiscard]] static bool all_ended(auto const& peers)
  {
    return std::all_of(peers.begin(), peers.end(), [](auto const& each) { return each.ended; });
  }
};

/// A step that trainers have been told of, and that not all have.
struct announced_step {
  static constexpr std::uint64_t received = ~std::uint64_t{0};

  [[nodiscard]] bool is_received() const
  {
    return std::all_of(tickets.begin(), tickets.end(),
                       [](std::uint64_t each) { return each == received; });
  }

  std::uint64_t number = 0;
  std::vector<std::uint64_t> tickets;  // or `received`
  std::vector<rank_id> owner;
  std::size_t takers = 0;
};

/// The proxy of a data pipeline of ranks: what serve_as_proxy runs, one round of messages at a time.
template <point_to_point Communicator, class Plan, window_policy Policy, class Cost, class Lengths>
class proxy_rank {
 public:
  proxy_rank(Communicator& comm, std::size_t trainers, Plan plan, data_setup setup,
             data_windows<Policy, Cost> windows, loader_options options, Lengths lengths_of)
      : plan_(std::move(plan)),
        options_(checked(options)),
        lengths_of_(std::move(lengths_of)),
        proxy_(std::move(setup), std::move(windows)),
        peers_(comm, trainers + 1),
        rates_(options.least, options.most)
  {}

  void restore(std::string_view state)
  {
    if (auto done = proxy_.restore(state, lengths_of_); !done) { stop(done.error()); }
  }

  [[nodiscard]] bool all_finished() const { return ended_ || peers_.parted; }
  /// To be called once, at the end.
  [[nodiscard]] result<void> outcome()
  {
    peers_.flush();
    return std::move(peers_.outcome);
  }

  /// Answers all messages that are there; returns whether there was anything to do.
  [[nodiscard]] result<bool> progress()
  {
    busy_ = false;
    for (loader& each : peers_.loaders) { hear(each); }
    for (trainer& each : peers_.trainers) { hear(each); }
    if (!health_) { return tl::unexpected(health_.error()); }
    peers_.keep_alive(!ending_);
    peers_.find_missing();
    if (peers_.parted) { return true; }
    find_late_loaders();
    drop_payloads();
    deal();
    announce();
    end();
    return busy_;
  }

 private:
  using clock = wait_clock;
  using nanoseconds = std::chrono::nanoseconds;
  using word = data_word;
  using loader = loader_peer<Communicator>;
  using trainer = trainer_peer<Communicator>;

  template <class Peer>
  void hear(Peer& each)
  {
    while (health_ && !each.ended) {
      auto const said = each.look();
      if (!said) { health_ = tl::unexpected(said.error()); }
      if (!said || !*said) { return; }
      busy_ = true;
      answer(each, **said);
    }
  }

  void answer(loader& own, data_message const& said)
  {
    own.heard = clock::now();
    data_body in(said);
    switch (said.word) {
      case word::hello: peers_.meet(own, said.one != 0, true); break;
      case word::loaded: {
        --own.loads;
        rates_.loaded(nanoseconds(in.word()));
        if (proxy_.report(own.rank, said.one, in.rest())) {
          places_[said.one] = {own.rank, said.two};
          send_again(own, said.one, said.two);
        } else {
          drop(own, said.one);
        }
        break;
      }
      case word::broken:
        --own.loads;
        proxy_.cannot_decode(own.rank, said.one, in.text());
        break;
      case word::gone: lose(own, in.text()); break;
      default: own.ended = true;
    }
  }

  /// A sample of a step that was announced, whose first loader was lost, is there again.
  void send_again(loader& own, std::uint64_t ticket, std::uint64_t bytes)
  {
    if (ending_) { return; }
    for (announced_step const& step : announced_) {
      for (std::size_t entry = 0; entry < step.tickets.size(); ++entry) {
        if (step.tickets[entry] != ticket) { continue; }
        std::size_t const rank = to_index(step.owner[entry]);
        own.send({word::send, ticket, rank});
        peers_.trainers[rank].send({word::redirect, step.number, entry, {own.rank, bytes}});
      }
    }
  }

  void answer(trainer& own, data_message const& said)
  {
    auto const step = std::find_if(announced_.begin(), announced_.end(),
                                   [&](auto const& each) { return each.number == said.one; });
    switch (said.word) {
      case word::hello: peers_.meet(own, said.one != 0, false); break;
      case word::received:
        if (step == announced_.end()) { break; }
        proxy_.deliver(step->tickets[said.two]);
        places_.erase(step->tickets[said.two]);
        step->tickets[said.two] = announced_step::received;
        break;
      case word::taken:
        rates_.computed(nanoseconds(said.two));
        ++step->takers;
        while (!announced_.empty() && announced_.front().takers == peers_.trainers.size()) {
          take();
        }
        break;
      case word::missing:
        if (loader& late = peers_.loader_at(said.body.front()); !late.ended) {
          lose(late, "a trainer has waited too long for a payload");
        }
        break;
      case word::finish: own.finishes = true; break;
      default: own.send({word::bye}); own.ended = true;
    }
  }

  void take()
  {
    announced_.pop_front();
    proxy_.take();
    rates_.stepped(proxy_.setup().step_samples, peers_.trainers.size());
  }

  void lose(loader& own, std::string_view why)
  {
    own.ended = own.lost = true;
    own.send({word::end, 1});  // if it only was slow
    peers_.tell_trainers({word::given_up, own.rank});
    (void)proxy_.lose(own.rank, why);
    std::erase_if(places_, [&](auto const& each) { return each.second.first == own.rank; });
    bool const none = peers_.loaders_ended();
    bool const needed = !over_ || !std::all_of(announced_.begin(), announced_.end(),
                                               [](auto const& each) { return each.is_received(); });
    if ((++lost_ > options_.most_lost || (none && !ending_)) && needed) {
      stop(fail(error_code::peer_lost, 0, loaders_lost(lost_), none ? ", and none is left" : "",
                ", the last of them: ", why, "; look what ends them, or raise most_lost")
               .value());
    }
  }

  void find_late_loaders()
  {
    for (loader& each : peers_.loaders) {
      bool const expected = each.loads > 0 || ending_;
      bool const late = expected && clock::now() - each.heard > options_.late_after;
      if (each.ended || !(late || each.is_silent())) { continue; }
      auto const most = late ? options_.late_after : peers_.longest;
      lose(each, concat("it said nothing for ", most.count(), " ms"));
    }
  }

  void drop(loader& own, std::uint64_t ticket) const
  {
    if (!own.ended && !ending_) { own.send({word::drop, ticket}); }
  }

  void drop_payloads()
  {
    for (auto const& [ticket, rank] : std::exchange(proxy_.dropped(), {})) {
      places_.erase(ticket);
      drop(peers_.loader_at(rank), ticket);
    }
  }

  /// Keeps two samples at each loader that is needed; the others are parked.
  void deal()
  {
    if (ending_) { return; }
    std::size_t needed = rates_.loaders();
    for (loader& each : peers_.loaders) {
      if (each.ended || needed == 0) { continue; }
      --needed;
      while (each.loads < 2) {
        auto const dealt = proxy_.deal(each.rank, lengths_of_);
        if (!dealt) { break; }
        if (each.loads++ == 0) { each.heard = clock::now(); }
        each.send({word::load, dealt->ticket, dealt->sample});
        busy_ = true;
      }
    }
  }

  /// Plans the steps that are complete, has their payloads sent, and tells all trainers.
  void announce()
  {
    if (over_) { return; }
    bool const finish = std::any_of(peers_.trainers.begin(), peers_.trainers.end(),
                                    [](trainer const& each) { return each.finishes; });
    for (planned_step next; !finish && proxy_.make(next.step, next.tickets);
         peers_.keep_alive(!ending_)) {  // a plan takes time
      busy_ = true;
      if (auto done = plan_owners(plan_, next.step, peers_.trainers.size()); !done) {
        return stop(done.error());
      }
      std::vector<payload_place> places;
      for (std::size_t entry = 0; entry < next.tickets.size(); ++entry) {
        auto const at = places_.find(next.tickets[entry]);
        places.push_back(at == places_.end() ? payload_place(no_loader, 0) : at->second);
        if (at == places_.end()) { continue; }
        peers_.loader_at(at->second.first)
            .send({word::send, next.tickets[entry], to_index(next.step.owner[entry])});
      }
      peers_.tell_trainers(write_step(next.step, places));
      announced_.push_back({next.step.number, next.tickets, next.step.owner});
    }
    if (!proxy_.health()) { return stop(proxy_.health().error()); }
    if (proxy_.finished() || finish) {
      over_ = true;
      peers_.tell_trainers({word::over});
    }
  }

  /// Tells trainers why there are no more steps.
  void stop(error const& reason)
  {
    if (!peers_.outcome) { return; }
    over_ = true;
    peers_.outcome = tl::unexpected(reason);
    peers_.tell_trainers(write_stop(reason, false));
  }

  /// Ends the loaders when all trainers have left.
  void end()
  {
    if (!peers_.trainers_ended()) { return; }
    if (!ending_) {
      ending_ = true;
      auto const last =
          peers_.outcome ? data_message{word::end} : write_stop(peers_.outcome.error(), true);
      for (loader& each : peers_.loaders) {
        each.heard = clock::now();
        if (!each.ended) { each.send(last); }
      }
    }
    ended_ = peers_.loaders_ended();
  }

  Plan plan_;
  loader_options options_;
  Lengths lengths_of_;
  data_proxy<Policy, Cost> proxy_;
  proxy_peers<Communicator> peers_;
  std::map<std::uint64_t, payload_place> places_;  // of payloads that loaders hold, by ticket
  std::deque<announced_step> announced_;
  load_rates rates_;
  std::size_t lost_ = 0;
  bool busy_ = false;
  result<void> health_;  // of the communicator
  bool over_ = false;    // trainers have been told that no step follows
  bool ending_ = false;  // loaders have been told
  bool ended_ = false;
};

}  // namespace detail

/// What the rank of a data pipeline that holds the metadata does until all trainers have finished:
/// ranks 0 to trainers - 1 are a data_trainer each, rank `trainers` is this one, and all after it
/// call serve_as_loader. They may be on the trainers' nodes or on others.
///
///     or_throw(serve_as_proxy(comm, trainers, plan, {.samples = 10'000, .step_samples = 256}));
///
/// Loaders that are too many for the measured rates are parked: they are dealt nothing, and are
/// woken when they are needed. All goes by transfers between two ranks, of which none is waited for,
/// so any loader may die or stop: over MPI under `mpirun --enable-recovery`, which does not end the
/// job then. Where a trainer or the proxy does, all ranks that are left return by the deadline of
/// comm, or a quarter of it later, and a new group goes on from the last step that was saved. So
/// every trainer calls next() at least as often, and a plan takes less than three quarters of it.
///
/// Expects     1 <= trainers and trainers + 2 <= comm.size(); only this thread uses comm.
/// Ensures     (1) those of data_proxy
///             (2) a loader that answers nothing for late_after while something is expected of it,
///                 or of which a trainer has waited so long for a payload, is lost: the news of a
///                 step name it, by its rank. It is not listened to any more
///             (3) a payload goes from its loader to the rank that computes it, once, when a step is
///                 planned
/// Errors      those of data_proxy, of restore and of the plan; infeasible: a sample was given to a
///             rank that is not there; peer_lost: all loaders are lost, or more than most_lost;
///             timed_out, with their ranks: trainers say nothing for as long as the deadline;
///             mismatch: ranks have other parts than this one was told. Trainers get these from
///             next() and loaders from serve_as_loader too. Those of comm.
/// Source      FlexRL, 2025, section 4.4; DistTrain, 2025, section 5.1: producers of their own.
template <point_to_point Communicator, detail::data_plan Plan, window_policy Policy = long_rounds,
          class Cost = total_length, class Lengths = no_lengths>
[[nodiscard]] result<void> serve_as_proxy(Communicator& comm, std::size_t trainers, Plan plan,
                                          data_setup setup, data_windows<Policy, Cost> windows = {},
                                          loader_options options = {}, std::string_view state = {},
                                          Lengths lengths_of = {})
{
  if (to_index(comm.rank()) != trainers) {
    error const why{error_code::mismatch,
                    0,
                    detail::concat("rank ", comm.rank(), " calls serve_as_proxy with ",
                                   detail::counted(trainers, "trainer"), ", whose proxy is rank ",
                                   trainers, "; give every rank the same number of trainers"),
                    {comm.rank()}};
    detail::proxy_peers<Communicator> peers(comm, to_index(comm.rank()) + 1);
    peers.part(why);
    peers.flush();
    return std::move(peers.outcome);
  }
  BALLAST_EXPECTS(trainers >= 1 && trainers + 2 <= comm.size(), "a data pipeline of ", trainers,
                  " trainers and a proxy among ", detail::counted(comm.size(), "rank"),
                  " leaves no loader; give at least one");
  detail::proxy_rank<Communicator, Plan, Policy, Cost, Lengths> proxy(
      comm, trainers, std::move(plan), std::move(setup), std::move(windows), options,
      std::move(lengths_of));
  if (!state.empty()) { proxy.restore(state); }
  detail::idle_pause pause;
  while (!proxy.all_finished()) {
    auto const busy = proxy.progress();
    if (!busy) { return tl::unexpected(busy.error()); }
    *busy ? pause.end() : pause.rest();
  }
  return proxy.outcome();
}

}  // namespace ballast::inline v0
