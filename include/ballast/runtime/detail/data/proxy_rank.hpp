// SPDX-License-Identifier: Apache-2.0
#ifndef BALLAST_RUNTIME_DETAIL_DATA_PROXY_RANK_HPP
#define BALLAST_RUNTIME_DETAIL_DATA_PROXY_RANK_HPP

#include <ballast/comm/communicator.hpp>
#include <ballast/core/contract.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/core/quantities.hpp>
#include <ballast/core/result.hpp>
#include <ballast/runtime/data/data_proxy.hpp>
#include <ballast/runtime/data/data_setup.hpp>
#include <ballast/runtime/data/data_step.hpp>
#include <ballast/runtime/data/data_windows.hpp>
#include <ballast/runtime/data/loader_options.hpp>
#include <ballast/runtime/data/window_problem.hpp>
#include <ballast/runtime/detail/data/data_message.hpp>
#include <ballast/runtime/detail/data/load_rates.hpp>
#include <ballast/runtime/detail/data/planned_steps.hpp>
#include <ballast/runtime/detail/data/proxy_peers.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace ballast::inline v0::detail {

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
  [[nodiscard]] result<void> const& outcome()
  {
    peers_.flush();
    return peers_.outcome;
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
    (void)proxy_.lose(own.rank, why);
    std::erase_if(places_, [&](auto const& each) { return each.second.first == own.rank; });
    bool const none = peers_.loaders_ended();
    if (++lost_ > options_.most_lost || (none && !ending_)) {
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
    if (over_) { return; }
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

}  // namespace ballast::inline v0::detail

#endif  // BALLAST_RUNTIME_DETAIL_DATA_PROXY_RANK_HPP
