// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/comm/collective_check.hpp>
#include <ballast/core.hpp>

#include <memory>

namespace ballast::inline v0 {

/// A communicator whose ranks reach each other by messages between two of them: its collective
/// operations, the comparison of calls with which each of them begins, and the failure that stands.
/// `Pairs` moves the messages of a rank, in rounds:
///
///   rank(), size()      of this rank, and of its group
///   enter(operation)    begins an operation: fails where others have given up meanwhile
///   messages(bytes)     how many messages so many bytes take
///   expect(messages)    makes room for so many: what allocates comes before the first message
///   receive(peer, bytes), send(peer, bytes)
///                       begin; in a round all receives come first
///   wait(operation)     ends the round: all has come, or why it has not
///   calls_roll          whether a wait that reaches its deadline finds out, over a channel of its
///                       own, for whom all ranks wait
///   keeps_memory        whether the library below may use memory after a failure
///
/// With a roll call every operation takes as few messages as it can: words of 8 bytes are compared
/// first, and where they differ ranks tell each other how. Without one each rank hears from each
/// other one before bytes move, and gets what it gets straight from who has it: so that all name who
/// does not come, and not who has given up for that. For authors of communicators, which derive from
/// it and add split().
///
/// Ensures     (1) where calls are compared, no operation moves bytes unless all ranks have made the
///                 same call
///             (2) after a failure other than a mismatch of calls each further operation returns it
///             (3) after an operation that ended with an exception each further one returns
///                 peer_lost, with this rank
/// Errors      mismatch; those of the pairs.
template <class Pairs>
class checked_group {
 public:
  [[nodiscard]] rank_id rank() const noexcept { return to_id<rank_id>(own_->pairs.rank()); }
  [[nodiscard]] std::size_t size() const noexcept { return own_->pairs.size(); }

  [[nodiscard]] result<void> all_gather(std::span<std::byte const> send,
                                        std::span<std::byte> receive)
  {
    std::size_t const bytes = send.size();
    collective_call::expect_gather(bytes, receive.size(), size());
    return run({collective::all_gather, bytes}, {}, {}, [&] {
      if (bytes > 0) { std::memcpy(&receive[to_index(rank()) * bytes], send.data(), bytes); }
      return gather("all_gather", receive, bytes);
    });
  }

  [[nodiscard]] result<void> all_to_all_v(std::span<std::byte const> send,
                                          std::span<std::size_t const> send_bytes,
                                          std::span<std::byte> receive,
                                          std::span<std::size_t const> receive_bytes,
                                          std::uint64_t content = 0)
  {
    collective_call::expect_exchange(send.size(), send_bytes, receive.size(), receive_bytes,
                                     size());
    std::exclusive_scan(send_bytes.begin(), send_bytes.end(), own_->send_at.begin(),
                        std::size_t{0});
    std::exclusive_scan(receive_bytes.begin(), receive_bytes.end(), own_->receive_at.begin(),
                        std::size_t{0});
    return run({collective::all_to_all_v, 0, rank_id{}, content}, send_bytes, receive_bytes, [&] {
      return exchange(
          "all_to_all_v",
          [&](std::size_t peer) { return send.subspan(own_->send_at[peer], send_bytes[peer]); },
          [&](std::size_t peer) {
            return receive.subspan(own_->receive_at[peer], receive_bytes[peer]);
          });
    });
  }

  [[nodiscard]] result<void> broadcast(std::span<std::byte> bytes, rank_id root)
  {
    collective_call::expect_root(root, size());
    return run({collective::broadcast, bytes.size(), root}, {}, {}, [&] {
      if constexpr (Pairs::calls_roll) {
        return along_a_tree(bytes, to_index(root));
      } else {
        auto const part = [&](bool moves) { return bytes.first(moves ? bytes.size() : 0); };
        bool const sends = root == rank();
        return exchange(
            "broadcast", [&](std::size_t peer) { return part(sends && peer != to_index(root)); },
            [&](std::size_t peer) { return part(!sends && peer == to_index(root)); });
      }
    });
  }

  [[nodiscard]] result<void> barrier()
  {
    return run({collective::barrier}, {}, {}, [] { return result<void>(); });
  }

  /// Returns at once, since calls have waited already; a broken communicator returns its error.
  [[nodiscard]] result<void> wait() { return state(); }

  /// Host memory, which does not move until more is asked for.
  [[nodiscard]] std::span<std::byte> scratch(std::size_t bytes)
  {
    if (Pairs::keeps_memory && own_->is_broken() && bytes > own_->scratch.size()) {
      std::swap(own_->retired.emplace_back(), own_->scratch);  // it may still be written to
    }
    return own_->scratch.take(bytes);
  }

 protected:
  /// Takes part with this rank of `most_ranks` or less; open() says of how many.
  template <class... Args>
  explicit checked_group(std::size_t most_ranks, bool verify, Args&&... args)
      : own_(new group{.verify = verify, .pairs = Pairs(std::forward<Args>(args)...)})
  {
    own_->words.reserve(most_ranks);
  }

  /// From now on the pairs know their ranks.
  void open()
  {
    own_->words.resize(size());
    own_->send_at.resize(size());
    own_->receive_at.resize(size());
  }

  [[nodiscard]] Pairs& pairs() noexcept { return own_->pairs; }
  [[nodiscard]] Pairs const& pairs() const noexcept { return own_->pairs; }

  [[nodiscard]] std::span<std::uint64_t const> words() const
  {
    return detail::span_of(own_->words);
  }

  [[nodiscard]] result<void> state() const
  {
    if (own_->failure) { return tl::unexpected(*own_->failure); }
    if (own_->under_way) { return comm_failure::peer_lost("an earlier call", {rank()}); }
    return {};
  }

  /// Runs one operation: all ranks meet and compare their calls, then each runs move().
  template <class Move>
  [[nodiscard]] result<void> run(collective_call const& call,
                                 std::span<std::size_t const> send_bytes,
                                 std::span<std::size_t const> receive_bytes, Move move)
  {
    if (own_->is_broken()) { return state(); }
    own_->under_way = true;
    result<void> done = pairs().enter(call.name());
    if (done) {
      auto const same = tell(call, send_bytes, receive_bytes);
      if (same && !*same) {  // no byte has moved, and all have heard all
        own_->under_way = false;
        return own_->calls.disagreement(call.operation);
      }
      done = same ? move() : result<void>(tl::unexpected(same.error()));
    }
    if (!done) { own_->failure = done.error(); }
    own_->under_way = false;
    return done;
  }

  /// Runs what is no operation of all, with the failure that stands. A mismatch is none.
  template <class F>
  [[nodiscard]] auto run(F f) -> decltype(f())
  {
    if (own_->is_broken()) { return tl::unexpected(state().error()); }
    own_->under_way = true;
    auto done = f();
    if (!done && done.error().code != error_code::mismatch) { own_->failure = done.error(); }
    own_->under_way = false;
    return done;
  }

  /// Until it ends or fails the group is being made, and not freed where it may be in use.
  void set_under_way(bool under_way) noexcept { own_->under_way = under_way; }

  /// Compares what each rank was made with; first of all, since the rest depends on it. On failure
  /// the group is under way.
  [[nodiscard]] result<void> compare_options(std::span<char const* const> names,
                                             std::span<std::uint64_t const> values)
  {
    std::vector<std::uint64_t>& all = own_->words;
    all.resize(size() * names.size());
    std::copy(values.begin(), values.end(),
              all.begin() + static_cast<std::ptrdiff_t>(pairs().rank() * names.size()));
    auto told = gather("over", std::as_writable_bytes(std::span(all)), values.size_bytes());
    if (!told) { return told; }
    set_under_way(false);
    auto differing = detail::dissent_on_words(std::as_bytes(std::span(all)), size());
    all.resize(size());
    if (!differing) { return {}; }
    return comm_failure::different_options("over", names[differing->word],
                                           std::move(differing->ranks));
  }

  [[nodiscard]] result<void> gather_word(char const* operation, std::uint64_t word)
  {
    own_->words[pairs().rank()] = word;
    return gather(operation, std::as_writable_bytes(detail::mutable_span_of(own_->words)),
                  sizeof(word));
  }

  /// Sends outgoing(peer) to each peer and fills incoming(peer) from it.
  template <class Outgoing, class Incoming>
  [[nodiscard]] result<void> exchange(char const* operation, Outgoing outgoing, Incoming incoming)
  {
    std::span<std::byte const> const own = outgoing(pairs().rank());
    std::span<std::byte> const place = incoming(pairs().rank());
    if (own.size() != place.size()) {
      return comm_failure::different_message(operation, rank(), place.size(), own.size());
    }
    std::size_t most = 0;
    for (std::size_t peer = 0; peer < size(); ++peer) {
      most += pairs().messages(incoming(peer).size()) + pairs().messages(outgoing(peer).size());
    }
    pairs().expect(most);
    // Each rank begins with another peer, so that no rank is everybody's first.
    for (std::size_t step = 1; step < size(); ++step) {
      pairs().receive(before(step), incoming(before(step)));
    }
    for (std::size_t step = 1; step < size(); ++step) {
      pairs().send(after(step), outgoing(after(step)));
    }
    if (!own.empty() && own.data() != place.data()) {
      std::memcpy(place.data(), own.data(), own.size());
    }
    return pairs().wait(operation);
  }

 private:
  struct group {
    bool verify;
    bool under_way = false;  // an operation runs, or the group is being made; stays true after an
                             // exception
    std::optional<error> failure = {};
    // In here, since the library below may use them after the call that gave it these arrays.
    std::vector<std::uint64_t> words = {};
    call_words<> calls = call_words<>();
    detail::host_scratch scratch = {};
    std::vector<detail::host_scratch> retired = {};
    std::vector<std::size_t> send_at = {};  // where each peer's bytes begin
    std::vector<std::size_t> receive_at = {};
    // Last, so that it goes first: after an exception peers may send to these until it has left.
    Pairs pairs;

    [[nodiscard]] bool is_broken() const noexcept { return failure || under_way; }
  };

  /// If an operation did not end, the library below may still use the memory of the group, and peers
  /// may still send to it. Such a group is never freed.
  struct release {
    void operator()(group* own) const
    {
      if (!Pairs::keeps_memory || !own->is_broken()) { delete own; }
    }
  };

  [[nodiscard]] std::size_t after(std::size_t step) const
  {
    return (pairs().rank() + step) % size();
  }
  [[nodiscard]] std::size_t before(std::size_t step) const
  {
    return (pairs().rank() + size() - step) % size();
  }

  /// Whether all ranks make this call; what they make else `calls` has.
  [[nodiscard]] result<bool> tell(collective_call const& call,
                                  std::span<std::size_t const> send_bytes,
                                  std::span<std::size_t const> receive_bytes)
  {
    bool const always =
        call.operation == collective::barrier || call.operation == collective::split;
    if (!own_->verify && !always) { return true; }
    char const* const name = call.name();
    if constexpr (Pairs::calls_roll) {
      auto const word = call.check_word(rank(), size(), send_bytes, receive_bytes);
      if (auto met = gather_word(name, word); !met) { return tl::unexpected(met.error()); }
      if (std::reduce(own_->words.begin(), own_->words.end()) == 0) { return true; }
    }
    own_->calls.resize(size());
    own_->calls.tell(pairs().rank(), call, send_bytes, receive_bytes);
    auto const part = [&](auto all, std::size_t peer) {
      return all.subspan(peer * call_words<>::bytes, call_words<>::bytes);
    };
    auto const told = exchange(
        name, [&](std::size_t peer) { return part(own_->calls.told(), peer); },
        [&](std::size_t peer) { return part(own_->calls.heard(), peer); });
    if (!told) { return tl::unexpected(told.error()); }
    return own_->calls.are_one_call();
  }

  /// all[P * bytes] has this rank's bytes at their place and gets those of all others.
  [[nodiscard]] result<void> gather(char const* operation, std::span<std::byte> all,
                                    std::size_t bytes)
  {
    if constexpr (Pairs::calls_roll) {
      return in_doubling_rounds(operation, all, bytes);
    } else {
      auto const part = [&](std::size_t peer) { return all.subspan(peer * bytes, bytes); };
      return exchange(operation, [&](std::size_t) { return part(pairs().rank()); }, part);
    }
  }

  /// A rank has its own part, then two in a row, then four: each round doubles what it has.
  [[nodiscard]] result<void> in_doubling_rounds(char const* operation, std::span<std::byte> all,
                                                std::size_t bytes)
  {
    auto const parts = [&](std::size_t first, std::size_t count) {  // it may go on at the beginning
      std::size_t const at_end = std::min(count, size() - first);
      return std::pair(all.subspan(first * bytes, at_end * bytes),
                       all.first((count - at_end) * bytes));
    };
    pairs().expect(4 + 2 * pairs().messages(all.size()));
    for (std::size_t have = 1; have < size();) {
      std::size_t const more = std::min(have, size() - have);
      auto const [incoming, incoming_rest] = parts(after(have), more);
      pairs().receive(after(have), incoming);
      pairs().receive(after(have), incoming_rest);
      auto const [outgoing, outgoing_rest] = parts(pairs().rank(), more);
      pairs().send(before(have), outgoing);
      pairs().send(before(have), outgoing_rest);
      if (auto done = pairs().wait(operation); !done) { return done; }
      have += more;
    }
    return {};
  }

  /// A rank that has the bytes sends them to as many ranks as there are rounds left.
  [[nodiscard]] result<void> along_a_tree(std::span<std::byte> bytes, std::size_t root)
  {
    std::size_t const place = (pairs().rank() + size() - root) % size();
    auto const at = [&](std::size_t other) { return (other + root) % size(); };
    std::size_t reach = 1;
    while (reach < size() && (place & reach) == 0) { reach *= 2; }
    std::size_t children = 0;
    for (std::size_t ahead = reach; ahead > 1; ahead /= 2) { ++children; }
    pairs().expect(pairs().messages(bytes.size()) * std::max<std::size_t>(children, 1));
    if (place != 0) {
      pairs().receive(at(place - reach), bytes);
      if (auto done = pairs().wait("broadcast"); !done) { return done; }
    }
    for (std::size_t ahead = reach / 2; ahead > 0; ahead /= 2) {
      if (place + ahead < size()) { pairs().send(at(place + ahead), bytes); }
    }
    return pairs().wait("broadcast");
  }

  std::unique_ptr<group, release> own_;
};

}  // namespace ballast::inline v0
