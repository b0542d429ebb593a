// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/core/detail/wait_clock.hpp>
#include <ballast/runtime/data/data_setup.hpp>

#include <chrono>
#include <cstring>
#include <list>
#include <memory>
#include <thread>

namespace ballast::inline v0::detail {

/// What ranks of a data pipeline tell each other. `one`, `two` and the body are, in this order:
enum class data_word : std::uint64_t {
  // whoever has said nothing for a while
  alive,
  // trainers and loaders to the proxy, first
  hello,  // 1 of a loader
  // the proxy to trainers and loaders
  stop,  // code, position; 1 if nothing follows, why, the ranks that are missing
  // the proxy to a loader
  load,  // ticket, sample
  send,  // ticket, trainer
  drop,  // ticket
  end,   // 1 if it is given up
  // a loader to the proxy
  loaded,  // ticket, bytes of the payload; nanoseconds, lengths
  broken,  // ticket; why
  gone,    // why
  bye,     // the proxy to a trainer too; nothing follows
  // the proxy to a trainer
  step,      // the step; of each sample its loader and bytes
  given_up,  // loader, which may still send what it was told to
  redirect,  // step, entry; loader, bytes
  over,
  // a trainer to the proxy
  received,  // step, entry
  taken,     // step, nanoseconds of computing
  missing,   // step, entry; loader
  finish,
  left,
};

struct data_message {
  data_word word{};
  std::uint64_t one = 0;
  std::uint64_t two = 0;
  std::vector<std::uint64_t> body = {};

  void add(std::string_view text)
  {
    body.push_back(text.size());
    std::size_t const begin = body.size();
    body.resize(begin + (text.size() + 7) / 8);
    if (!text.empty()) { std::memcpy(&body[begin], text.data(), text.size()); }
  }
};

/// Reads the body of a message, word by word. Both ends are of one program: it is as was written.
class data_body {
 public:
  explicit data_body(data_message const& message) : left_(message.body) {}

  std::uint64_t word()
  {
    std::uint64_t const first = left_.front();
    left_ = left_.subspan(1);
    return first;
  }
  std::string text()
  {
    std::string read(word(), ' ');
    if (!read.empty()) { std::memcpy(read.data(), left_.data(), read.size()); }
    left_ = left_.subspan((read.size() + 7) / 8);
    return read;
  }
  std::vector<tokens> rest()
  {
    std::vector<tokens> all;
    while (!left_.empty()) { all.push_back(static_cast<tokens>(word())); }
    return all;
  }

 private:
  std::span<std::uint64_t const> left_;
};

/// `parts`: nothing follows.
[[nodiscard]] inline data_message write_stop(error const& reason, bool parts)
{
  data_message out{
      data_word::stop, static_cast<std::uint64_t>(reason.code), reason.position, {parts ? 1U : 0U}};
  out.add(reason.message);
  for (rank_id const rank : reason.ranks) { out.body.push_back(to_index(rank)); }
  return out;
}

[[nodiscard]] inline error read_stop(data_message const& message)
{
  data_body in(message);
  (void)in.word();
  error reason{static_cast<error_code>(message.one), message.two, in.text(), {}};
  for (tokens const rank : in.rest()) {
    reason.ranks.push_back(to_id<rank_id>(static_cast<std::size_t>(rank)));
  }
  return reason;
}

inline constexpr std::uint64_t no_loader = ~std::uint64_t{0};

/// Where the payload of a sample is: its loader's rank, or no_loader, and its bytes.
using payload_place = std::pair<std::uint64_t, std::uint64_t>;

[[nodiscard]] inline data_message write_step(data_step const& step,
                                             std::span<payload_place const> places)
{
  data_message out{data_word::step, step.number, step.epoch, {}};
  out.body = {step.position, step.left_out, step.ends_epoch ? 1U : 0U, step.modules,
              step.samples.size()};
  for (std::size_t entry = 0; entry < step.samples.size(); ++entry) {
    out.body.push_back(step.samples[entry]);
    out.body.push_back(to_index(step.owner[entry]));
    out.body.push_back(places[entry].first);
    out.body.push_back(places[entry].second);
  }
  for (tokens const length : step.lengths) {
    out.body.push_back(static_cast<std::uint64_t>(length));
  }
  out.body.push_back(step.news.size());
  for (std::string const& each : step.news) { out.add(each); }
  out.add(step.saved);
  return out;
}

[[nodiscard]] inline data_step read_step(data_message const& message,
                                         std::vector<payload_place>& places)
{
  data_body in(message);
  data_step step;
  step.number = message.one;
  step.epoch = message.two;
  step.position = in.word();
  step.left_out = in.word();
  step.ends_epoch = in.word() != 0;
  step.modules = in.word();
  std::size_t const samples = in.word();
  for (std::size_t entry = 0; entry < samples; ++entry) {
    step.samples.push_back(in.word());
    step.owner.push_back(to_id<rank_id>(in.word()));
    std::uint64_t const loader = in.word();
    places.emplace_back(loader, in.word());
  }
  for (std::size_t length = 0; length < samples * step.modules; ++length) {
    step.lengths.push_back(static_cast<tokens>(in.word()));
  }
  for (std::uint64_t news = in.word(); news > 0; --news) { step.news.push_back(in.text()); }
  step.saved = in.text();
  return step;
}

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

  /// The next message, if it is there.
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
