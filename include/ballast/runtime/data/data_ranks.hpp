// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/data_post.hpp>
#include <ballast/runtime/detail/planned_proxy.hpp>

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
    announced& first = steps_.front();
    auto batch = detail::batch_of(std::move(first.step), first.tickets, comm_.rank(), payloads_);
    steps_.pop_front();
    auto const spent = std::chrono::duration_cast<std::chrono::nanoseconds>(computed).count();
    post_.send({word::taken, static_cast<std::uint64_t>(spent)});
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
    while (!gives_up() && (!over_ || !receives_.empty() || !awaited_.empty())) {
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
    std::shared_ptr<data_step const> step;
    std::vector<std::uint64_t> tickets;
    std::size_t awaited = 0;  // payloads
  };
  struct receive {
    std::uint64_t ticket = 0;
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
        post_.send({word::missing, each->loader});
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
      case word::step: announce(in); break;
      case word::given_up:  // what it may still send meets no receive, least of all another one
        for (auto each = receives_.end(); each != receives_.begin();) {
          if ((--each)->loader == message.one) { each = receives_.erase(each); }
        }
        break;
      case word::redirect: expect(message.one, message.two, in.read<std::size_t>()); break;
      case word::stop:
        stopped_ = tl::unexpected(detail::read_reason(message));
        stopped_at_ = clock::now();
        over_ = true;
        parted_ = message.one != 0;
        break;
      case word::bye: parted_ = true; break;
      case word::over: over_ = true; break;
      default: break;  // to a loader, which the proxy takes this rank for
    }
  }

  void announce(detail::data_body& in)
  {
    data_step step;
    in.read_into(detail::said_by(step));
    auto tickets = in.read<std::vector<std::uint64_t>>();
    auto const loaders = in.read<std::vector<std::uint64_t>>();
    announced& added = steps_.emplace_back();
    std::map<std::size_t, std::size_t> bytes;  // of each entry
    for (data_share const& share : step.shares) {
      if (share.rank == comm_.rank()) { bytes[share.entry] += share.count; }
    }
    for (auto const& [entry, count] : bytes) {
      awaited_.emplace(tickets[entry], step.number);
      ++added.awaited;
      if (loaders[entry] != detail::no_loader) { expect(tickets[entry], loaders[entry], count); }
    }
    added.step = std::make_shared<data_step const>(std::move(step));
    added.tickets = std::move(tickets);
  }

  void expect(std::uint64_t ticket, std::uint64_t loader, std::size_t bytes)
  {
    receives_.push_back(
        {ticket, loader, clock::now(), {comm_, std::vector<std::byte>(bytes), false, loader}});
  }

  void keep(receive& received)
  {
    post_.send({word::received, received.ticket});
    auto const step = awaited_.extract(received.ticket);
    if (!step) { return; }  // it came from two loaders
    payloads_.emplace(received.ticket, std::move(received.bytes.bytes()));
    --steps_[step.mapped() - steps_.front().step->number].awaited;
  }

  /// Whether what was announced before the proxy stopped may never come.
  [[nodiscard]] bool gives_up() const
  {
    return !stopped_ && (parted_ || stopped_.error().code == error_code::peer_lost ||
                         stopped_.error().code == error_code::timed_out ||
                         clock::now() - stopped_at_ > options_.late_after);
  }

  Communicator& comm_;
  loader_options options_;
  rank_id proxy_;
  detail::data_post<Communicator> post_;
  detail::idle_pause pause_;
  std::deque<announced> steps_;                     // the next one first
  std::map<std::uint64_t, std::uint64_t> awaited_;  // tickets of its own payloads, and steps
  std::map<std::uint64_t, std::vector<std::byte>> payloads_;
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

/// What a rank of a data pipeline that loads samples does until the proxy says that all is over: it
/// loads what it is dealt, in a thread, tells lengths, and sends each payload to the rank that
/// computes it, or its bytes to those who share it.
///
/// Expects     the rank `proxy` calls serve_as_proxy. Only this thread uses comm.
/// Ensures     a payload is sent once; it answers while it loads
/// Errors      failed: load() threw, and the proxy has been told; peer_lost: the proxy gave this
///             rank up, for it was silent too long; timed_out, with its rank: the proxy says
///             nothing for as long as the deadline of comm; what the proxy stopped for; those of
///             comm. A call of load() that runs is waited for.
template <point_to_point Communicator, data_source Source>
[[nodiscard]] result<void> serve_as_loader(Communicator& comm, rank_id proxy, Source const& source)
{
  using detail::data_word;
  using message = detail::data_message;
  data_deal dealt;
  detail::data_post<Communicator> post(comm, to_index(proxy));
  std::deque<data_deal> waiting;
  std::map<std::uint64_t, std::vector<std::byte>> held;  // by ticket
  detail::last_first<detail::moved_bytes<Communicator>> leaving;
  detail::ahead<detail::ended_load> worker([&](detail::ended_load& loaded) -> result<void> {
    loaded = detail::load_from(source, dealt.sample);
    return {};
  });
  result<void> ended;
  detail::idle_pause pause;
  bool parts = false;  // from a proxy that listens
  post.send({data_word::hello, 1});
  for (bool over = false; !over;) {
    bool idle = true;
    auto const said = post.look();
    if (!said) { return tl::unexpected(said.error()); }
    post.keep_alive();
    if (!*said && post.is_silent()) {
      over = true;
      ended = detail::were_silent("the proxy", {proxy}, detail::longest_silence(comm));
    }
    if (*said) {
      idle = false;
      std::uint64_t const ticket = (*said)->one;
      switch ((*said)->word) {
        case data_word::load: waiting.push_back({ticket, (*said)->two}); break;
        case data_word::drop: held.erase(ticket); break;
        case data_word::send: {
          auto const takers = detail::data_body(**said).read<detail::payload_takers>();
          auto pieces = detail::cut(std::move(held.extract(ticket).mapped()), takers);
          for (std::size_t taker = 0; taker < pieces.size(); ++taker) {
            leaving.emplace_back(comm, std::move(pieces[taker]), true, takers[taker].first);
          }
          break;
        }
        case data_word::stop:
          over = parts = true;
          ended = tl::unexpected(detail::read_reason(**said));
          break;
        case data_word::end:
          over = true;
          parts = ticket == 0;
          if (!parts) {
            ended = fail(error_code::peer_lost, 0, "rank ", to_index(comm.rank()),
                         " was silent for too long and was given up as a loader; raise late_after "
                         "or look what stopped it");
          }
          break;
        default: break;  // to a trainer, which the proxy takes this rank for
      }
    }
    if (auto const gone = detail::flush(leaving); !gone) { return tl::unexpected(gone.error()); }
    if (worker.is_started() && worker.ready()) {
      (void)worker.take();
      idle = false;
      auto& [called, sample, took] = worker.present();
      if (!called) {
        ended = std::move(called);
        post.send(message{data_word::gone}.with(ended.error().message));
        over = true;
      } else if (sample) {
        post.send(message{data_word::loaded, dealt.ticket, sample->bytes.size()}.with(
            took.count(), sample->lengths, sample->parts));
        held.insert_or_assign(dealt.ticket, std::move(sample->bytes));
      } else {
        post.send(message{data_word::broken, dealt.ticket}.with(sample.error().message));
      }
    }
    if (!worker.is_started() && !waiting.empty() && !over) {
      dealt = waiting.front();
      waiting.pop_front();
      worker.start();
    }
    idle ? pause.rest(!worker.is_started()) : pause.end();
  }
  if (parts) { post.send({data_word::bye}); }
  // What is still on its way has to leave; a rank that is gone takes nothing.
  auto const end = detail::wait_clock::now() + detail::time_to_leave(detail::longest_silence(comm));
  while (!post.flush().value_or(true) && detail::wait_clock::now() < end) { pause.rest(); }
  return ended;
}

namespace detail {

/// What the proxy's rank knows of another one.
template <point_to_point Communicator>
struct data_peer : data_post<Communicator> {
  using data_post<Communicator>::data_post;

  bool ended = false;  // it is lost, or has said goodbye
  bool lost = false;   // it may take nothing any more
  // of a trainer
  bool finishes = false;
  // of a loader
  std::size_t loads = 0;              // samples that it was dealt, and has not told of
  wait_clock::time_point heard = {};  // or since something is expected of it
};

/// All of them, trainers before the proxy and loaders after it, and what it says to them whatever it
/// is busy with.
template <point_to_point Communicator>
class proxy_peers {
 public:
  using peer = data_peer<Communicator>;

  explicit proxy_peers(Communicator& comm)
      : longest(longest_silence(comm)), trainers_(to_index(comm.rank()))
  {
    for (std::size_t rank = 0; rank < comm.size(); ++rank) {
      if (rank != trainers_) { all.emplace_back(comm, rank); }
    }
  }

  [[nodiscard]] std::span<peer> trainers() { return std::span(all).first(trainers_); }
  [[nodiscard]] std::span<peer> loaders() { return std::span(all).subspan(trainers_); }
  [[nodiscard]] peer& loader_at(std::size_t rank) { return all[rank - 1]; }
  [[nodiscard]] bool is_trainer(peer const& each) const { return each.rank() < trainers_; }
  [[nodiscard]] static bool ended(std::span<peer const> peers)
  {
    return std::all_of(peers.begin(), peers.end(), [](peer const& each) { return each.ended; });
  }

  static void tell(std::span<peer> peers, data_message const& message)
  {
    for (peer& each : peers) {
      if (!each.ended) { each.send(message); }
    }
  }

  /// Says to all that the proxy is there. What it was away for itself, no peer is blamed for.
  void keep_alive(bool loaders_too)
  {
    auto const now = wait_clock::now();
    auto const away = now - std::exchange(looked_, now);
    for (peer& each : all) {
      if (away > longest / 8) { each.excuse(away); }
      if (!each.ended && (loaders_too || is_trainer(each))) { each.keep_alive(); }
    }
  }

  /// Trainers that are missing, without whom the others cannot go on.
  [[nodiscard]] result<void> find_missing()
  {
    std::vector<rank_id> missing;
    for (peer& each : trainers()) {
      if (each.ended || !each.is_silent()) { continue; }
      each.lost = true;
      missing.push_back(to_id<rank_id>(each.rank()));
    }
    if (missing.empty()) { return {}; }
    char const* const who = missing.size() == 1 ? "a trainer" : "trainers";
    return were_silent(who, std::move(missing), longest);
  }

  /// Waits until all that was said has left, but not long: a rank that is gone takes nothing.
  void flush()
  {
    idle_pause pause;
    auto const end = wait_clock::now() + time_to_leave(longest);
    auto const left = [](peer& each) { return each.lost || each.flush().value_or(true); };
    while (!std::all_of(all.begin(), all.end(), left) && wait_clock::now() < end) { pause.rest(); }
  }

  std::vector<peer> all;
  std::chrono::milliseconds longest;

 private:
  std::size_t trainers_;
  wait_clock::time_point looked_ = wait_clock::now();
};

/// The proxy of a data pipeline of ranks: what serve_as_proxy runs, one round of messages at a time.
template <point_to_point Communicator, class Plan>
class proxy_rank {
 public:
  proxy_rank(Communicator& comm, Plan plan, data_setup setup, data_windows windows,
             loader_options options, std::string_view state, known_lengths lengths_of)
      : proxy_(std::move(plan), to_index(comm.rank()), std::move(setup), std::move(windows),
               options, std::move(lengths_of)),
        peers_(comm)
  {
    if (state.empty()) { return; }
    if (auto done = proxy_.proxy.restore(state); !done) { proxy_.stop(done.error()); }
  }

  /// Returns when all others have left, or are told that it has.
  [[nodiscard]] result<void> run()
  {
    idle_pause pause;
    while (!ended_ && !parted_) {
      if (auto done = progress(); !done) { return done; }
      busy_ ? pause.end() : pause.rest();
    }
    peers_.flush();
    return std::move(proxy_.stopped);
  }

 private:
  using clock = wait_clock;
  using nanoseconds = std::chrono::nanoseconds;
  using word = data_word;
  using peer = data_peer<Communicator>;

  /// Answers all messages that are there, and does what is to be done then.
  [[nodiscard]] result<void> progress()
  {
    busy_ = false;
    for (peer& each : peers_.all) {
      while (!each.ended) {
        auto const said = each.look();
        if (!said) { return tl::unexpected(said.error()); }
        if (!*said) { break; }
        busy_ = true;
        answer(each, **said);
      }
    }
    peers_.keep_alive(!ending_);
    if (auto const all = peers_.find_missing(); !all) { part(all.error()); }
    if (parted_) { return {}; }
    find_late_loaders();
    proxy_.drop(
        [&](std::uint64_t ticket, std::uint32_t rank) { drop(peers_.loader_at(rank), ticket); });
    deal();
    announce();
    end();
    return {};
  }

  void answer(peer& own, data_message const& said)
  {
    own.heard = clock::now();
    data_body in(said);
    switch (said.word) {
      case word::hello: meet(own, said.one != 0); break;
      case word::loaded: {
        --own.loads;
        auto const took = nanoseconds(in.read<nanoseconds::rep>());
        auto const lengths = in.read<std::vector<tokens>>();
        auto const parts = in.read<std::vector<data_part>>();
        bool const kept =
            proxy_.report(own.rank(), said.one, took, lengths, parts, said.two, own.rank());
        auto const awaited = awaited_.find(said.one);
        if (!kept) {
          drop(own, said.one);
        } else if (awaited != awaited_.end() && !ending_) {  // its first loader was lost
          own.send(data_message{word::send, said.one}.with(awaited->second));
          for (auto const& [taker, ranges] : awaited->second) {
            peers_.all[taker].send(
                data_message{word::redirect, said.one, own.rank()}.with(bytes_of(ranges)));
          }
        }
        break;
      }
      case word::broken:
        --own.loads;
        proxy_.proxy.cannot_decode(own.rank(), said.one, in.read<std::string>());
        break;
      case word::gone: lose(own, in.read<std::string>()); break;
      case word::received: {
        auto const awaited = awaited_.find(said.one);
        if (awaited == awaited_.end()) { break; }  // it came from two loaders
        std::erase_if(awaited->second, [&](auto const& each) { return each.first == own.rank(); });
        if (!awaited->second.empty()) { break; }
        awaited_.erase(awaited);
        proxy_.proxy.deliver(said.one);
        proxy_.payloads.erase(said.one);
        break;
      }
      case word::taken: (void)proxy_.take(to_id<rank_id>(own.rank()), nanoseconds(said.one)); break;
      case word::missing:
        if (peer& late = peers_.loader_at(said.one); !late.ended) {
          lose(late, "a trainer has waited too long for a payload");
        }
        break;
      case word::finish: own.finishes = true; break;
      case word::left: own.send({word::bye}); [[fallthrough]];
      default: own.ended = true;
    }
  }

  void meet(peer const& own, bool loads)
  {
    if (loads != peers_.is_trainer(own)) { return; }
    std::string why =
        concat("rank ", own.rank(), " calls ", loads ? "serve_as_loader" : "data_trainer",
               ", and the proxy was told of ", counted(peers_.trainers().size(), "trainer"),
               "; give every rank the same number of trainers");
    part({error_code::mismatch, 0, std::move(why), {to_id<rank_id>(own.rank())}});
  }

  /// Tells all that are left why it ends, and waits for no answer.
  void part(error reason)
  {
    proxy_.stop(std::move(reason));
    if (std::exchange(parted_, true)) { return; }
    peers_.tell(peers_.all, write_reason(proxy_.stopped.error(), true));
  }

  void lose(peer& own, std::string_view why)
  {
    own.ended = own.lost = true;
    own.send({word::end, 1});  // if it only was slow
    peers_.tell(peers_.trainers(), {word::given_up, own.rank()});
    std::erase_if(proxy_.payloads, [&](auto const& each) { return each.second == own.rank(); });
    if (over_ && awaited_.empty()) {  // nobody needs it
      (void)proxy_.proxy.lose(own.rank(), why);
    } else {
      proxy_.lose(own.rank(), why, peers_.ended(peers_.loaders()) && !ending_);
    }
  }

  void find_late_loaders()
  {
    auto const late_after = proxy_.options.late_after;
    for (peer& each : peers_.loaders()) {
      bool const expected = each.loads > 0 || ending_;
      bool const late = expected && clock::now() - each.heard > late_after;
      if (each.ended || !(late || each.is_silent())) { continue; }
      auto const most = late ? late_after : peers_.longest;
      lose(each, concat("it said nothing for ", most.count(), " ms"));
    }
  }

  void drop(peer& own, std::uint64_t ticket) const
  {
    if (!own.ended && !ending_) { own.send({word::drop, ticket}); }
  }

  /// Keeps two samples at each loader that is needed; the others are parked.
  void deal()
  {
    if (ending_) { return; }
    std::size_t needed = proxy_.needed.now();
    for (peer& each : peers_.loaders()) {
      if (each.ended || needed == 0) { continue; }
      --needed;
      while (each.loads < 2) {
        auto const dealt = proxy_.deal(each.rank());
        if (!dealt) { break; }
        if (each.loads++ == 0) { each.heard = clock::now(); }
        each.send({word::load, dealt->ticket, dealt->sample});
        busy_ = true;
      }
    }
  }

  /// Plans the steps that are complete, has their payloads sent, and tells all trainers; or why
  /// there are no more.
  void announce()
  {
    auto const trainers = peers_.trainers();
    bool const finish = std::any_of(trainers.begin(), trainers.end(),
                                    [](peer const& each) { return each.finishes; });
    while (!over_ && !finish) {
      auto made = proxy_.make();
      if (!made) { break; }
      busy_ = true;
      auto takers = proxy_.plan(made->step);
      if (!takers) {
        proxy_.stop(takers.error());
        break;
      }
      std::vector<std::uint64_t> loaders;
      for (std::size_t entry = 0; entry < made->tickets.size(); ++entry) {
        std::uint64_t const ticket = made->tickets[entry];
        payload_takers& own = awaited_[ticket] = std::move((*takers)[entry]);
        auto const at = proxy_.payloads.find(ticket);
        loaders.push_back(at == proxy_.payloads.end() ? no_loader : at->second);
        if (at == proxy_.payloads.end()) { continue; }
        peers_.loader_at(at->second).send(data_message{word::send, ticket}.with(own));
      }
      peers_.tell(trainers, data_message{word::step}.with(made->step, made->tickets, loaders));
      proxy_.add(*std::move(made));
      peers_.keep_alive(!ending_);  // a plan takes time
    }
    if (!proxy_.stopped && !std::exchange(told_, true)) {
      over_ = true;
      peers_.tell(trainers, write_reason(proxy_.stopped.error(), false));
    } else if (!over_ && (finish || proxy_.proxy.finished())) {
      over_ = true;
      peers_.tell(trainers, {word::over});
    }
  }

  void end()
  {
    auto const loaders = peers_.loaders();
    if (!peers_.ended(peers_.trainers())) { return; }
    if (!std::exchange(ending_, true)) {
      for (peer& each : loaders) { each.heard = clock::now(); }
      auto const& stopped = proxy_.stopped;
      peers_.tell(loaders, stopped ? data_message{word::end} : write_reason(stopped.error(), true));
    }
    ended_ = peers_.ended(loaders);
  }

  planned_proxy<std::uint64_t, Plan> proxy_;  // payloads are at these loaders
  proxy_peers<Communicator> peers_;
  std::map<std::uint64_t, payload_takers> awaited_;  // tickets that trainers wait for, and who
  bool busy_ = false;
  bool over_ = false;    // trainers have been told that no step follows
  bool told_ = false;    // and why it stops
  bool ending_ = false;  // loaders have been told
  bool ended_ = false;
  bool parted_ = false;  // all have been told that nothing follows
};

}  // namespace detail

/// What the rank of a data pipeline that holds the metadata does until all trainers have finished:
/// ranks 0 to trainers - 1 are a data_trainer each, rank `trainers` is this one, and all after it
/// call serve_as_loader. They may be on the trainers' nodes or on others.
///
///     or_throw(serve_as_proxy(comm, trainers, plan, {.samples = 10'000, .step_samples = 256}));
///
/// Loaders that are too many for the measured rates are dealt nothing until they are needed. No
/// transfer is waited for, so any loader may die or stop: over MPI under `mpirun --enable-recovery`.
/// Where a trainer or the proxy does, all ranks that are left return by the deadline of comm, or a
/// quarter of it later, and a new group goes on from the last step that was saved. So every trainer
/// calls next() at least as often, and a plan takes less than three quarters of it.
///
/// Expects     1 <= trainers and trainers + 2 <= comm.size(); only this thread uses comm.
/// Ensures     (1) those of data_proxy
///             (2) a loader that answers nothing for late_after while something is expected of it,
///                 or of which a trainer has waited so long for a payload, is lost: the news of a
///                 step name it, by its rank. It is not listened to any more
///             (3) a payload goes from its loader to the rank that computes it, once, when a step is
///                 planned; where several ranks share it, each gets its own bytes and no others
/// Errors      those of data_proxy, of restore and of the plan; infeasible: a sample was given to a
///             rank that is not there, or bytes of one to nobody; peer_lost: all loaders are lost, or more than most_lost;
///             timed_out, with their ranks: trainers say nothing for as long as the deadline;
///             mismatch: ranks have other parts than this one was told. Trainers get these from
///             next() and loaders from serve_as_loader too. Those of comm.
/// Source      FlexRL, 2025, section 4.4; DistTrain, 2025, section 5.1: producers of their own.
template <point_to_point Communicator, detail::data_plan Plan>
[[nodiscard]] result<void> serve_as_proxy(Communicator& comm, std::size_t trainers, Plan plan,
                                          data_setup setup, data_windows windows = {},
                                          loader_options options = {}, std::string_view state = {},
                                          detail::known_lengths lengths_of = {})
{
  if (to_index(comm.rank()) != trainers) {
    std::string text = detail::concat(
        "rank ", comm.rank(), " calls serve_as_proxy with ", detail::counted(trainers, "trainer"),
        ", whose proxy is rank ", trainers, "; give every rank the same number of trainers");
    error const why{error_code::mismatch, 0, std::move(text), {comm.rank()}};
    detail::proxy_peers<Communicator> peers(comm);
    peers.tell(peers.all, detail::write_reason(why, true));
    peers.flush();
    return tl::unexpected(why);
  }
  BALLAST_EXPECTS(trainers >= 1 && trainers + 2 <= comm.size(), "a data pipeline of ", trainers,
                  " trainers and a proxy among ", detail::counted(comm.size(), "rank"),
                  " leaves no loader; give at least one");
  return detail::proxy_rank<Communicator, Plan>(comm, std::move(plan), std::move(setup),
                                                std::move(windows), options, state,
                                                std::move(lengths_of))
      .run();
}

}  // namespace ballast::inline v0
