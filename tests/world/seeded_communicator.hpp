// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"

#include <ballast/comm/collective_check.hpp>
#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

/// A communicator for tests: ranks are threads that send each other messages, which take as long as
/// a seed says, and of which it loses some.
namespace seeded_world {

/// Thrown on a rank that is lost; nothing that it says afterwards leaves it.
struct rank_is_lost {};

enum class loss : std::uint8_t {
  none,
  closes,  // a rank is lost, and the others are told that it left
  silent,  // a rank is lost, and nobody is told
  late,    // a rank sleeps
  cut,     // what a rank says to another one is lost, from a message on
};

/// What goes wrong with the messages of a run: at the at-th message of a rank, counted from 1, that
/// it sends or receives.
struct fault {
  loss what = loss::none;
  std::size_t rank = 0;
  std::size_t at = 0;
  std::size_t to = 0;                 // of a cut
  std::chrono::nanoseconds sleeps{};  // of one that is late
};

struct network_options {
  std::uint64_t seed = 1;
  std::chrono::nanoseconds
      usual_delay{};  // of a message, at most; of one in 16 it is 20 times that
  /// One of so many sends is done at once; the others when they are received. 0: none.
  std::uint32_t buffers_one_in = 2;
  /// Whether the first failure in a group is everybody's at once, as among threads. Else each rank
  /// finds its own, as among processes.
  bool tells_failures = true;
  fault goes_wrong = {};
};

/// What the ranks of all groups share.
class seeded_network {
 public:
  using clock = std::chrono::steady_clock;

  seeded_network(std::size_t ranks, network_options options)
      : options_(options), random_(options.seed), lost_(ranks, false), messages_(ranks, 0)
  {}

  [[nodiscard]] std::size_t messages(std::size_t rank) const { return messages_[rank]; }
  [[nodiscard]] bool is_lost(std::size_t rank) const { return lost_[rank]; }
  [[nodiscard]] network_options const& options() const { return options_; }

  std::mutex mutex;

  // With the mutex locked.

  [[nodiscard]] clock::time_point arrival()
  {
    auto const usual = static_cast<std::uint64_t>(options_.usual_delay.count());
    if (usual == 0) { return {}; }
    std::uint64_t const most = random_.below(16) == 0 ? 20 * usual : usual;
    return clock::now() + std::chrono::nanoseconds(random_.below(most + 1));
  }
  [[nodiscard]] bool is_buffered()
  {
    return options_.buffers_one_in > 0 && random_.below(options_.buffers_one_in) == 0;
  }
  [[nodiscard]] std::uint64_t below(std::uint64_t many) { return random_.below(many); }
  [[nodiscard]] bool is_cut(std::size_t from, std::size_t to) const
  {
    fault const& own = options_.goes_wrong;
    return own.what == loss::cut && own.rank == from && own.to == to && messages_[from] >= own.at;
  }

  /// To be called with a rank that is lost.
  void add(std::function<void(std::size_t)> group) { groups_.push_back(std::move(group)); }
  void lose(std::size_t rank) const
  {
    for (auto const& group : groups_) { group(rank); }
  }

  /// A message of this rank; returns whether the rank is lost by it.
  [[nodiscard]] bool counts(std::unique_lock<std::mutex>& lock, std::size_t rank)
  {
    fault const& own = options_.goes_wrong;
    if (++messages_[rank] != own.at || rank != own.rank) { return false; }
    if (own.what == loss::late) {
      lock.unlock();
      std::this_thread::sleep_for(own.sleeps);
      lock.lock();
    }
    lost_[rank] = own.what == loss::closes || own.what == loss::silent;
    return lost_[rank];
  }

 private:
  network_options options_;
  ballast::random_source random_;
  std::vector<bool> lost_;
  std::vector<std::size_t> messages_;
  std::vector<std::function<void(std::size_t)>> groups_;
};

/// One rank's end of a group. All ranks send their whole call to all others, compare what has come,
/// and then copy; sends and receives meet where a message has arrived.
///
/// Ensures     (1) sizes are compared before a byte moves
///             (2) of ranks that left, and of the first failure, all ranks are told
///             (3) an array to be received into is overwritten at once
class seeded_communicator {
 public:
  using bytes = std::span<std::byte>;
  using const_bytes = std::span<std::byte const>;
  using counts = std::span<std::size_t const>;

  [[nodiscard]] static std::vector<seeded_communicator> make(
      std::shared_ptr<seeded_network> const& network, std::size_t ranks,
      std::chrono::milliseconds deadline)
  {
    ballast::detail::expect_deadline(deadline);
    std::vector<std::size_t> members(ranks);
    std::iota(members.begin(), members.end(), std::size_t{0});
    auto const whole = group::make(network, std::move(members), deadline);
    std::vector<seeded_communicator> all;
    for (std::size_t rank = 0; rank < ranks; ++rank) { all.push_back({whole, rank}); }
    return all;
  }

  seeded_communicator(seeded_communicator&&) = default;
  seeded_communicator& operator=(seeded_communicator&& other) noexcept
  {
    std::swap(group_, other.group_);
    std::swap(rank_, other.rank_);
    std::swap(health_, other.health_);
    std::swap(scratch_, other.scratch_);
    return *this;
  }
  ~seeded_communicator()
  {
    if (group_) { leave(); }
  }

  [[nodiscard]] ballast::rank_id rank() const { return ballast::to_id<ballast::rank_id>(rank_); }
  [[nodiscard]] std::size_t size() const { return group_->members.size(); }
  [[nodiscard]] std::chrono::milliseconds deadline() const { return group_->deadline; }
  /// Sends and receives of this rank that are under way in this group.
  [[nodiscard]] std::size_t under_way() const
  {
    auto const& all = group_->ends[rank_].transfers;
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [](transfer const& each) { return each.now != state::unused; }));
  }
  /// Messages of this group that nobody has received.
  [[nodiscard]] std::size_t left_over() const
  {
    std::size_t all = 0;
    for (line const& each : group_->lines) { all += each.calls.size() + each.sends.size(); }
    return all;
  }

  [[nodiscard]] ballast::result<void> all_gather(const_bytes send, bytes receive)
  {
    ballast::collective_call::expect_gather(send.size(), receive.size(), size());
    return meet({{ballast::collective::all_gather, send.size()}, send}, [&] {
      auto to = receive.begin();
      for (std::size_t peer = 0; peer < size(); ++peer) {
        to = std::ranges::copy(offers_()[peer].send, to).out;
      }
    });
  }

  [[nodiscard]] ballast::result<void> all_to_all_v(const_bytes send, counts send_bytes,
                                                   bytes receive, counts receive_bytes,
                                                   std::uint64_t content = 0)
  {
    ballast::collective_call::expect_exchange(send.size(), send_bytes, receive.size(),
                                              receive_bytes, size());
    ballast::collective_call const call{ballast::collective::all_to_all_v, 0, {}, content};
    return meet({call, send, send_bytes, receive_bytes}, [&] {
      auto to = receive.begin();
      for (std::size_t peer = 0; peer < size(); ++peer) {
        to = std::ranges::copy(offers_().message(peer, rank_), to).out;
      }
    });
  }

  [[nodiscard]] ballast::result<void> broadcast(bytes all, ballast::rank_id root)
  {
    ballast::collective_call::expect_root(root, size());
    return meet({{ballast::collective::broadcast, all.size(), root}, all}, [&] {
      if (root != rank()) { std::ranges::copy(offers_()[to_index(root)].send, all.begin()); }
    });
  }

  [[nodiscard]] ballast::result<void> barrier()
  {
    return meet({{ballast::collective::barrier}}, [] {});
  }

  [[nodiscard]] ballast::result<seeded_communicator> split(std::uint32_t colour)
  {
    std::optional<seeded_communicator> part;
    auto const done =
        meet({{ballast::collective::split}, {}, {}, {}, colour}, [&] { part = part_of(colour); });
    if (!done) { return tl::unexpected(done.error()); }
    return *std::move(part);
  }

  [[nodiscard]] ballast::result<ballast::transfer_id> send(const_bytes from, ballast::rank_id peer)
  {
    return begin({true, to_index(peer), from.data(), nullptr, from.size()});
  }
  [[nodiscard]] ballast::result<ballast::transfer_id> receive(bytes into, ballast::rank_id peer)
  {
    std::ranges::fill(into, std::byte{0xa5});
    return begin({false, to_index(peer), nullptr, into.data(), into.size()});
  }
  [[nodiscard]] ballast::result<void> start() { return health(); }

  [[nodiscard]] ballast::result<bool> is_done(ballast::transfer_id id)
  {
    if (auto sound = health(); !sound) { return tl::unexpected(std::move(sound).error()); }
    std::unique_lock lock(network().mutex);
    transfer const& own = at(id);
    move(own);
    if (is_over(own)) { return true; }
    if (auto why = hopeless(own)) { return broken(*std::move(why)); }
    return false;
  }

  [[nodiscard]] ballast::result<void> wait_for(ballast::transfer_id id)
  {
    if (auto sound = health(); !sound) { return sound; }
    std::unique_lock lock(network().mutex);
    transfer& own = at(id);
    std::optional<ballast::error> why;
    bool const in_time = wait(
        lock,
        [&] {
          move(own);
          if (is_over(own)) { return true; }
          why = hopeless(own);
          return why.has_value();
        },
        [&] { return next_of(own); });
    if (why) { return broken(*std::move(why)); }
    if (!in_time) {
      return broken(ballast::comm_failure::timed_out(name_of(own), group_->deadline,
                                                     {ballast::to_id<ballast::rank_id>(own.peer)})
                        .value());
    }
    bool const refused = own.now == state::refused;
    auto const mismatch = [&] {
      return ballast::comm_failure::different_message(
          name_of(own), ballast::to_id<ballast::rank_id>(own.peer), own.bytes, own.theirs);
    };
    ballast::result<void> done =
        refused ? ballast::result<void>(mismatch()) : ballast::result<void>();
    own.now = state::unused;
    count(lock);
    return done;
  }

  [[nodiscard]] bool cancel(ballast::transfer_id id) noexcept
  {
    spared const own;
    std::unique_lock const lock(network().mutex);
    if (!network().is_lost(in_network())) { withdraw(at(id)); }
    return true;
  }

  [[nodiscard]] ballast::result<void> wait() { return health(); }
  [[nodiscard]] bytes scratch(std::size_t size) { return scratch_.take(size); }

 private:
  using clock = seeded_network::clock;
  using spared = ballast_test::spared_allocations;
  enum class state : std::uint8_t { unused, open, done, refused };

  struct transfer {
    bool sends = false;
    std::size_t peer = 0;
    std::byte const* from = nullptr;
    std::byte* to = nullptr;
    std::size_t bytes = 0;
    state now = state::unused;
    std::size_t theirs = 0;
    std::uint64_t number = 0;
  };
  /// A call with all that belongs to it, which no rank changes.
  struct call_message {
    ballast::call_offers::rank_offer offer;
    std::vector<std::byte> send;
    std::vector<std::size_t> send_bytes;
    std::vector<std::size_t> receive_bytes;
  };
  struct called {
    clock::time_point arrives;
    std::shared_ptr<call_message const> what;
  };
  /// A send that has not met its receive: of the sender's arrays, or a copy if it is buffered.
  struct sent {
    clock::time_point arrives;
    std::uint64_t number = 0;  // of the sender's transfer
    std::size_t bytes = 0;
    std::byte const* from = nullptr;
    std::optional<std::vector<std::byte>> copy = {};
  };
  /// From a rank to another one.
  struct line {
    std::deque<called> calls;
    std::deque<sent> sends;
    std::deque<std::uint64_t> receives;  // the receiver's transfers, by number
    clock::time_point last;
  };
  /// What the group knows of a rank.
  struct end {
    std::deque<transfer> transfers;
    std::uint64_t begun = 0;
    std::uint64_t splits = 0;
    bool left = false;
    std::condition_variable woken;
  };
  struct group {
    group(std::shared_ptr<seeded_network> in, std::vector<std::size_t> of,
          std::chrono::milliseconds longest)
        : network(std::move(in)),
          deadline(longest),
          members(std::move(of)),
          lines(members.size() * members.size()),
          ends(members.size())
    {}
    [[nodiscard]] static std::shared_ptr<group> make(std::shared_ptr<seeded_network> in,
                                                     std::vector<std::size_t> of,
                                                     std::chrono::milliseconds longest)
    {
      auto made = std::make_shared<group>(std::move(in), std::move(of), longest);
      made->network->add([weak = std::weak_ptr(made)](std::size_t rank) {
        if (auto const self = weak.lock()) { self->lose(rank); }
      });
      for (std::size_t const rank : made->members) {  // which may have been lost meanwhile
        if (made->network->is_lost(rank)) { made->lose(rank); }
      }
      return made;
    }
    [[nodiscard]] line& between(std::size_t from, std::size_t to)
    {
      return lines[from * ends.size() + to];
    }
    void wake_all()
    {
      for (end& each : ends) { each.woken.notify_all(); }
    }
    /// Of a member that is lost nothing more leaves, some of what is on its way is lost too, and
    /// nothing comes.
    void lose(std::size_t of_network)
    {
      auto const found = std::ranges::find(members, of_network);
      if (found == members.end()) { return; }
      auto const rank = static_cast<std::size_t>(found - members.begin());
      for (std::size_t peer = 0; peer < ends.size(); ++peer) {
        line& out = between(rank, peer);
        auto const open =
            std::ranges::find_if(out.sends, [](sent const& each) { return !each.copy; });
        out.sends.erase(open, out.sends.end());
        out.sends.resize(network->below(out.sends.size() + 1));
        out.calls.resize(network->below(out.calls.size() + 1));
        between(peer, rank).receives.clear();
      }
      if (network->options().goes_wrong.what != loss::closes) { return; }
      ends[rank].left = true;
      wake_all();
    }

    std::shared_ptr<seeded_network> network;
    std::chrono::milliseconds deadline;
    std::vector<std::size_t> members;  // by their ranks in the network
    std::vector<line> lines;
    std::deque<end> ends;
    std::optional<ballast::error> failure;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::shared_ptr<group>> parts;
  };

  seeded_communicator(std::shared_ptr<group> of, std::size_t rank)
      : group_(std::move(of)), rank_(rank)
  {}

  [[nodiscard]] seeded_network& network() const { return *group_->network; }
  [[nodiscard]] std::size_t in_network() const { return group_->members[rank_]; }
  [[nodiscard]] end& own_end() const { return group_->ends[rank_]; }
  [[nodiscard]] ballast::call_offers const& offers_() const { return *offers_of_turn_; }
  [[nodiscard]] static bool is_over(transfer const& each)
  {
    return each.now == state::done || each.now == state::refused;
  }
  [[nodiscard]] static char const* name_of(transfer const& each)
  {
    return each.sends ? "send" : "receive";
  }

  [[nodiscard]] ballast::result<void> health() const
  {
    if (network().is_lost(in_network())) { throw rank_is_lost{}; }
    if (!health_) { return tl::unexpected(health_.error()); }  // a copy of health_ must not throw
    return {};
  }

  /// Of all ranks, what has gone wrong first.
  [[nodiscard]] tl::unexpected<ballast::error> broken(ballast::error why)
  {
    spared const own;
    if (!network().options().tells_failures) {
      health_ = tl::unexpected(why);
      return tl::unexpected<ballast::error>(std::move(why));
    }
    if (!group_->failure) {
      group_->failure = std::move(why);
      group_->wake_all();
    }
    health_ = tl::unexpected(*group_->failure);
    return tl::unexpected<ballast::error>(*group_->failure);
  }

  /// Counts a message of this rank, which may be lost by it.
  void count(std::unique_lock<std::mutex>& lock)
  {
    if (network().is_lost(in_network())) { throw rank_is_lost{}; }
    if (!network().counts(lock, in_network())) { return; }
    spared const own;
    network().lose(in_network());
    throw rank_is_lost{};
  }

  template <class Ready, class Next>
  [[nodiscard]] bool wait(std::unique_lock<std::mutex>& lock, Ready const& ready, Next const& next)
  {
    using ballast::detail::wait_clock;
    wait_clock::watched_wait own;
    auto const limit =
        wait_clock::now() + std::min(group_->deadline, ballast::detail::longest_deadline);
    while (!ready()) {
      if (wait_clock::now() >= limit) { return false; }
      own.look_in_vain();
      if (wait_clock::is_moved()) {
        own_end().woken.wait_for(lock, std::chrono::milliseconds(1));
      } else {
        own_end().woken.wait_until(lock, std::min(limit, next().value_or(limit)));
      }
    }
    return true;
  }

  // ---- Calls of all ranks ----

  template <class Take>
  [[nodiscard]] ballast::result<void> meet(ballast::call_offers::rank_offer const& offer,
                                           Take const& take)
  {
    if (auto sound = health(); !sound) { return sound; }
    std::unique_lock lock(network().mutex);
    if (group_->failure) { return broken(*group_->failure); }
    say(lock, offer);
    auto looked = clock::now();
    auto const here = [&](std::size_t peer) {
      auto const& calls = group_->between(peer, rank_).calls;
      return !calls.empty() && calls.front().arrives <= looked;
    };
    auto const each_missing = [&](auto const& is_missing) {
      std::vector<ballast::rank_id> found;
      for (std::size_t peer = 0; peer < size(); ++peer) {
        if (is_missing(peer)) { found.push_back(ballast::to_id<ballast::rank_id>(peer)); }
      }
      return found;
    };
    auto const silent = [&](std::size_t peer) {
      return group_->between(peer, rank_).calls.empty();
    };
    bool all_here = false;
    bool someone_left = false;
    bool const in_time = wait(
        lock,
        [&] {
          looked = clock::now();
          all_here = true;
          someone_left = false;
          for (std::size_t peer = 0; peer < size(); ++peer) {
            all_here = all_here && here(peer);
            someone_left = someone_left || (group_->ends[peer].left && silent(peer));
          }
          return all_here || someone_left || group_->failure.has_value();
        },
        [&] {
          std::optional<clock::time_point> soonest;
          for (std::size_t peer = 0; peer < size(); ++peer) {
            if (silent(peer)) { continue; }
            auto const at = group_->between(peer, rank_).calls.front().arrives;
            if (at > looked) { soonest = std::min(at, soonest.value_or(at)); }
          }
          return soonest;
        });
    char const* const name = offer.call.name();
    if (!in_time || !all_here) {
      if (group_->failure) { return broken(*group_->failure); }
      if (someone_left) {
        return broken(ballast::comm_failure::peer_lost(name, each_missing([&](std::size_t peer) {
                                                         return group_->ends[peer].left &&
                                                                silent(peer);
                                                       }))
                          .value());
      }
      return broken(
          ballast::comm_failure::timed_out(name, group_->deadline, each_missing(silent)).value());
    }
    spared const own;
    std::vector<std::shared_ptr<call_message const>> all(size());
    offers_of_turn_ = std::make_unique<ballast::call_offers>(size());
    for (std::size_t peer = 0; peer < size(); ++peer) {
      auto& calls = group_->between(peer, rank_).calls;
      all[peer] = std::move(calls.front().what);
      calls.pop_front();
      offers_of_turn_->put(peer, all[peer]->offer);
    }
    count(lock);
    if (!offers_of_turn_->all_agree()) { return offers_of_turn_->mismatch(rank_); }
    take();
    offers_of_turn_.reset();
    return {};
  }

  void say(std::unique_lock<std::mutex>& lock, ballast::call_offers::rank_offer const& offer)
  {
    spared const own;
    auto const message = std::make_shared<call_message>();
    message->send.assign(offer.send.begin(), offer.send.end());
    message->send_bytes.assign(offer.send_bytes.begin(), offer.send_bytes.end());
    message->receive_bytes.assign(offer.receive_bytes.begin(), offer.receive_bytes.end());
    message->offer = {offer.call, message->send, message->send_bytes, message->receive_bytes,
                      offer.colour};
    for (std::size_t step = 0; step < size(); ++step) {
      std::size_t const peer = (rank_ + step) % size();
      line& to = group_->between(rank_, peer);
      if (peer == rank_) {
        to.calls.push_back({{}, message});
        continue;
      }
      count(lock);
      if (network().is_cut(in_network(), group_->members[peer])) { continue; }
      to.last = std::max(to.last, network().arrival());
      to.calls.push_back({to.last, message});
      group_->ends[peer].woken.notify_all();
      lock.unlock();  // others may act between two messages
      lock.lock();
    }
  }

  [[nodiscard]] seeded_communicator part_of(std::uint32_t colour)
  {
    std::vector<std::size_t> members;
    std::size_t before = 0;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      if (offers_()[peer].colour != colour) { continue; }
      before += peer < rank_ ? 1U : 0U;
      members.push_back(group_->members[peer]);
    }
    auto& part = group_->parts[{own_end().splits++, colour}];
    if (!part) { part = group::make(group_->network, std::move(members), group_->deadline); }
    return {part, before};
  }

  // ---- Between two ranks ----

  [[nodiscard]] ballast::result<ballast::transfer_id> begin(transfer added)
  {
    ballast::collective_call::expect_peer(ballast::to_id<ballast::rank_id>(added.peer), size());
    if (auto sound = health(); !sound) { return tl::unexpected(std::move(sound).error()); }
    std::unique_lock lock(network().mutex);
    if (added.sends) { count(lock); }
    if (auto why = hopeless(added)) { return broken(*std::move(why)); }
    spared const own;
    auto& all = own_end().transfers;
    added.now = state::open;
    added.number = own_end().begun++;
    auto const unused = std::ranges::find(all, state::unused, &transfer::now);
    auto const index = static_cast<std::size_t>(unused - all.begin());
    if (unused == all.end()) { all.emplace_back(); }
    if (added.sends) {
      line& out = group_->between(rank_, added.peer);
      bool const buffered = network().is_buffered();
      if (buffered) { added.now = state::done; }
      if (!network().is_cut(in_network(), group_->members[added.peer])) {
        out.last = std::max(out.last, network().arrival());
        sent& message =
            out.sends.emplace_back(out.last, added.number, added.bytes, added.from, std::nullopt);
        if (buffered) { message.copy.emplace(added.from, added.from + added.bytes); }
        group_->ends[added.peer].woken.notify_all();
      }
    } else {
      group_->between(added.peer, rank_).receives.push_back(added.number);
    }
    all[index] = added;
    move(all[index]);
    return ballast::to_id<ballast::transfer_id>(index);
  }

  [[nodiscard]] transfer& at(ballast::transfer_id id) const
  {
    auto& all = own_end().transfers;
    BALLAST_EXPECTS(to_index(id) < all.size() && all[to_index(id)].now != state::unused,
                    "transfer ", to_index(id), " of rank ", rank_, " is not under way");
    return all[to_index(id)];
  }

  [[nodiscard]] line& line_of(transfer const& own) const
  {
    return own.sends ? group_->between(rank_, own.peer) : group_->between(own.peer, rank_);
  }
  [[nodiscard]] std::optional<clock::time_point> next_of(transfer const& own) const
  {
    line const& on = line_of(own);
    if (on.sends.empty() || on.receives.empty()) { return {}; }
    return on.sends.front().arrives;
  }

  [[nodiscard]] static transfer* find(end& of, std::uint64_t number, bool sends)
  {
    for (transfer& each : of.transfers) {
      bool const is_it = each.number == number && each.sends == sends;
      if (is_it && each.now != state::unused) { return &each; }
    }
    return nullptr;
  }

  /// Brings together what has arrived on the line of a transfer, and its receives.
  void move(transfer const& own) const
  {
    line& on = line_of(own);
    std::size_t const from = own.sends ? rank_ : own.peer;
    std::size_t const to = own.sends ? own.peer : rank_;
    while (!on.sends.empty() && !on.receives.empty() && on.sends.front().arrives <= clock::now()) {
      sent const message = std::move(on.sends.front());
      on.sends.pop_front();
      transfer* const receive = find(group_->ends[to], on.receives.front(), false);
      on.receives.pop_front();
      transfer* const send =
          message.copy ? nullptr : find(group_->ends[from], message.number, true);
      bool const fits = message.bytes == receive->bytes;
      std::byte const* const source = message.copy ? message.copy->data() : message.from;
      if (fits && message.bytes > 0) { std::memcpy(receive->to, source, message.bytes); }
      receive->now = fits ? state::done : state::refused;
      receive->theirs = message.bytes;
      if (send != nullptr) {
        send->now = receive->now;
        send->theirs = receive->bytes;
      }
      group_->ends[from].woken.notify_all();
      group_->ends[to].woken.notify_all();
    }
  }

  /// Why a transfer will not come about.
  [[nodiscard]] std::optional<ballast::error> hopeless(transfer const& own) const
  {
    if (group_->failure) { return group_->failure; }
    bool const may_come = !own.sends && !group_->between(own.peer, rank_).sends.empty();
    if (!group_->ends[own.peer].left || may_come) { return {}; }
    return ballast::comm_failure::peer_lost(name_of(own),
                                            {ballast::to_id<ballast::rank_id>(own.peer)})
        .value();
  }

  void withdraw(transfer& own) const
  {
    line& on = line_of(own);
    if (own.sends) {
      // Where others have left behind it a message goes all the same, so that none takes its place.
      auto const at = std::ranges::find(on.sends, own.number, &sent::number);
      if (at != on.sends.end() && at + 1 == on.sends.end()) {
        on.sends.erase(at);
      } else if (at != on.sends.end() && !at->copy) {
        at->copy.emplace(at->from, at->from + at->bytes);
      }
    } else {
      std::erase(on.receives, own.number);
    }
    own.now = state::unused;
  }

  void leave() const
  {
    spared const own;
    std::unique_lock const lock(network().mutex);
    for (transfer& each : own_end().transfers) {
      if (each.now != state::unused) { withdraw(each); }
    }
    bool const silent =
        network().is_lost(in_network()) && network().options().goes_wrong.what == loss::silent;
    if (silent) { return; }
    own_end().left = true;
    group_->wake_all();
  }

  std::shared_ptr<group> group_;
  std::size_t rank_ = 0;
  ballast::result<void> health_;
  ballast::detail::host_scratch scratch_;
  std::unique_ptr<ballast::call_offers> offers_of_turn_;
};

static_assert(ballast::splitting_communicator<seeded_communicator>);
static_assert(ballast::point_to_point<seeded_communicator>);

}  // namespace seeded_world
