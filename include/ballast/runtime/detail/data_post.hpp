// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/data/data_setup.hpp>

#include <list>
#include <memory>
#include <thread>
#include <tuple>

namespace ballast::inline v0::detail {

/// What ranks of a data pipeline tell each other. `one`, `two` and the body are, in this order:
enum class data_word : std::uint64_t {
  // whoever has said nothing for a while
  alive,
  // trainers and loaders to the proxy, first
  hello,  // 1 of a loader
  // the proxy to trainers and loaders
  stop,  // 1 if nothing follows; why
  // the proxy to a loader
  load,  // ticket, sample
  send,  // ticket; who takes what of the payload
  drop,  // ticket
  end,   // 1 if it is given up
  // a loader to the proxy
  loaded,  // ticket, bytes of the payload; nanoseconds, lengths, parts
  broken,  // ticket; why
  gone,    // why
  bye,     // the proxy to a trainer too; nothing follows
  // the proxy to a trainer
  step,      // the step, tickets, which loaders have the payloads
  given_up,  // loader, which may still send what it was told to
  redirect,  // ticket, loader that now has the payload; bytes of it that are to come
  over,
  // a trainer to the proxy
  received,  // ticket
  taken,     // nanoseconds of computing
  missing,   // loader
  finish,
  left,
};

/// All that an error, a part or a share of a sample, or a step says.
[[nodiscard]] inline auto said_by(auto& it)
{
  if constexpr (requires { it.code; }) {
    return std::tie(it.code, it.position, it.message, it.ranks);
  } else if constexpr (requires { it.module; }) {
    return std::tie(it.module, it.length, it.bytes);
  } else if constexpr (requires { it.entry; }) {
    return std::tie(it.entry, it.rank, it.first, it.count, it.microbatch);
  } else {
    return std::tie(it.number, it.epoch, it.position, it.left_out, it.ends_epoch, it.modules,
                    it.samples, it.lengths, it.parts, it.part_begins, it.shares, it.news, it.saved);
  }
}

struct data_message {
  data_word word{};
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  std::vector<std::uint64_t> body = {};

  /// Adds numbers, arrays of them, texts and tuples.
  template <class... T>
  data_message&& with(T const&... values) &&
  {
    (add(values), ...);
    return std::move(*this);
  }

 private:
  template <class T>
  void add(T const& value)
  {
    if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([&](auto const&... each) { (add(each), ...); }, value);
    } else if constexpr (requires { value.size(); }) {
      body.push_back(value.size());
      for (auto const& each : value) { add(each); }
    } else if constexpr (identifier<T>) {
      add(to_index(value));
    } else if constexpr (std::is_class_v<T>) {
      add(said_by(value));
    } else {
      body.push_back(static_cast<std::uint64_t>(value));
    }
  }
};

/// Reads the body of a message as it was written: both ends are of one program.
class data_body {
 public:
  explicit data_body(data_message const& message) : left_(message.body) {}

  template <class T>
  [[nodiscard]] T read()
  {
    T value{};
    read_into(value);
    return value;
  }
  void read_into(auto&& value)
  {
    using T = std::remove_reference_t<decltype(value)>;
    if constexpr (requires { std::tuple_size<T>::value; }) {
      std::apply([&](auto&... each) { (read_into(each), ...); }, value);
    } else if constexpr (requires { value.size(); }) {
      value.resize(read<std::size_t>());
      for (auto& each : value) { read_into(each); }
    } else if constexpr (identifier<T>) {
      value = to_id<T>(read<std::size_t>());
    } else if constexpr (std::is_class_v<T>) {
      read_into(said_by(value));
    } else {
      value = static_cast<T>(left_.front());
      left_ = left_.subspan(1);
    }
  }

 private:
  std::span<std::uint64_t const> left_;
};

/// `parts`: nothing follows.
[[nodiscard]] inline data_message write_reason(error const& reason, bool parts)
{
  return data_message{data_word::stop, parts ? 1U : 0U}.with(said_by(reason));
}
[[nodiscard]] inline error read_reason(data_message const& stop)
{
  error reason;
  data_body(stop).read_into(said_by(reason));
  return reason;
}

inline constexpr std::uint64_t no_loader = ~std::uint64_t{0};

/// Bytes on their way to another rank, or from it, which stay valid until they have arrived. Where
/// the library below cannot let go of them, they are never freed.
template <point_to_point Communicator>
class moved_bytes {
 public:
  moved_bytes(Communicator& comm, std::vector<std::byte> bytes, bool sends, std::size_t peer)
      : comm_(&comm), bytes_(std::make_unique<std::vector<std::byte>>(std::move(bytes)))
  {
    auto begun = sends ? comm.send(*bytes_, to_id<rank_id>(peer))
                       : comm.receive(*bytes_, to_id<rank_id>(peer));
    if (begun) {
      begun = comm.start().map([&] { return *begun; });
    }
    if (begun) {
      transfer_ = *begun;
    } else {
      failed_ = tl::unexpected(begun.error());
    }
  }
  moved_bytes(moved_bytes&& other) noexcept
      : comm_(other.comm_),
        bytes_(std::move(other.bytes_)),
        transfer_(std::exchange(other.transfer_, std::nullopt)),
        failed_(std::move(other.failed_))
  {}
  moved_bytes& operator=(moved_bytes&&) = delete;
  ~moved_bytes()
  {
    if (!transfer_ || comm_->cancel(*transfer_)) { return; }
    [[maybe_unused]] auto const* const kept = bytes_.release();
  }

  /// Whether they have arrived. It never waits.
  [[nodiscard]] result<bool> arrived()
  {
    if (!failed_) { return tl::unexpected(failed_.error()); }
    if (!transfer_) { return true; }
    auto const done = comm_->is_done(*transfer_);
    if (!done || !*done) { return done; }
    auto const ended = comm_->wait_for(*std::exchange(transfer_, std::nullopt));
    if (!ended) { return tl::unexpected(ended.error()); }
    return true;
  }

  [[nodiscard]] std::vector<std::byte>& bytes() { return *bytes_; }

 private:
  Communicator* comm_;
  std::unique_ptr<std::vector<std::byte>> bytes_;
  std::optional<transfer_id> transfer_;
  result<void> failed_;
};

/// Transfers that are under way. Those that are left at the end are given up, the last one first, so
/// that none meets what belongs to one before it.
template <class Transfer>
struct last_first : std::list<Transfer> {
  last_first() = default;
  last_first(last_first&&) = default;
  last_first& operator=(last_first&&) = delete;
  ~last_first()
  {
    while (!this->empty()) { this->pop_back(); }
  }
};

/// Lets go of what has left; returns whether all has.
template <class Communicator>
[[nodiscard]] result<bool> flush(last_first<moved_bytes<Communicator>>& leaving)
{
  while (!leaving.empty()) {
    auto const gone = leaving.front().arrived();
    if (!gone || !*gone) { return gone; }
    leaving.pop_front();
  }
  return true;
}

/// Between looks at messages: sleeps the longer, the longer there was nothing to do.
class idle_pause {
 public:
  void end()
  {
    begun_.reset();
    wait_.end();
  }
  /// `alone` says that nothing of this rank goes on meanwhile.
  void rest(bool alone = true)
  {
    auto const now = wait_clock::now();
    if (!begun_) { begun_ = now; }
    alone ? wait_.look_in_vain() : wait_.end();
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(
        (now - *begun_) / 16, std::chrono::microseconds(50), std::chrono::milliseconds(1)));
  }

 private:
  std::optional<wait_clock::time_point> begun_;
  wait_clock::watched_wait wait_;
};

/// How long a rank may be silent while another one listens: the deadline of the communicator.
template <point_to_point Communicator>
[[nodiscard]] std::chrono::milliseconds longest_silence(Communicator const& comm)
{
  std::chrono::milliseconds longest = default_deadline;
  if constexpr (requires { comm.deadline(); }) { longest = comm.deadline(); }
  return std::min(longest, longest_deadline);
}

/// How long a rank waits for its last messages to leave.
[[nodiscard]] inline std::chrono::milliseconds time_to_leave(std::chrono::milliseconds longest)
{
  return std::min<std::chrono::milliseconds>(longest / 4, std::chrono::seconds(5));
}

/// The error of ranks that were silent for so long. `who` says what they are.
[[nodiscard]] inline tl::unexpected<error> were_silent(std::string_view who,
                                                       std::vector<rank_id> ranks,
                                                       std::chrono::milliseconds longest)
{
  std::string message =
      concat(comm_failure::ranks_text(ranks), ", ", who, " of the data pipeline, said nothing for ",
             longest.count(), " ms; look what ended or stopped ", ranks.size() == 1 ? "it" : "them",
             ", give every rank the same number of trainers, or raise the communicator's deadline");
  return comm_failure::with_ranks(error_code::timed_out, std::move(message), std::move(ranks));
}

/// Messages to and from one rank, by transfers alone, none of which is waited for: another rank may
/// be dead. So both ends say that they are alive, where they have nothing else to say.
template <point_to_point Communicator>
class data_post {
 public:
  data_post(Communicator& comm, std::size_t peer)
      : comm_(&comm), peer_(peer), longest_(longest_silence(comm)), heard_(clock::now())
  {}

  [[nodiscard]] std::uint32_t rank() const { return static_cast<std::uint32_t>(peer_); }

  /// Nobody has looked for so long.
  void excuse(std::chrono::nanoseconds away) { heard_ = std::min(heard_ + away, clock::now()); }
  /// Nobody has looked until now.
  void listen() { heard_ = clock::now(); }
  [[nodiscard]] bool is_silent() const { return clock::now() - heard_ > longest_; }

  void keep_alive()
  {
    if (clock::now() - said_ > longest_ / 4) { send({data_word::alive}); }
  }

  void send(data_message const& message)
  {
    said_ = clock::now();
    std::array<std::uint64_t, 4> const head = {static_cast<std::uint64_t>(message.word),
                                               message.one, message.two, message.body.size()};
    send(std::as_bytes(std::span(head)));
    if (!message.body.empty()) { send(std::as_bytes(std::span(message.body))); }
  }

  /// Lets go of what has left; returns whether all has.
  [[nodiscard]] result<bool> flush() { return detail::flush(leaving_); }

  [[nodiscard]] result<std::optional<data_message>> look()
  {
    if (auto const left = flush(); !left) { return tl::unexpected(left.error()); }
    if (!coming_) { expect(4); }
    for (;;) {
      auto const here = coming_->arrived();
      if (!here) { return tl::unexpected(here.error()); }
      if (!*here) { return std::optional<data_message>(); }
      std::vector<std::uint64_t> words(coming_->bytes().size() / sizeof(std::uint64_t));
      std::memcpy(words.data(), coming_->bytes().data(), coming_->bytes().size());
      coming_.reset();
      heard_ = clock::now();
      if (head_) {
        head_->body = std::move(words);
      } else {
        head_ = data_message{static_cast<data_word>(words[0]), words[1], words[2], {}};
        if (words[3] > 0) {
          expect(words[3]);
          continue;
        }
      }
      if (head_->word == data_word::alive) {
        head_.reset();
        expect(4);
        continue;
      }
      return std::exchange(head_, std::nullopt);
    }
  }

 private:
  using clock = wait_clock;

  void send(std::span<std::byte const> bytes)
  {
    leaving_.emplace_back(*comm_, std::vector<std::byte>(bytes.begin(), bytes.end()), true, peer_);
  }
  void expect(std::size_t words)
  {
    coming_.emplace(*comm_, std::vector<std::byte>(words * sizeof(std::uint64_t)), false, peer_);
  }

  Communicator* comm_;
  std::size_t peer_;
  std::chrono::milliseconds longest_;
  clock::time_point heard_;
  clock::time_point said_ = {};
  last_first<moved_bytes<Communicator>> leaving_;
  std::optional<moved_bytes<Communicator>> coming_;
  std::optional<data_message> head_;  // of the message whose body comes
};

}  // namespace ballast::inline v0::detail
