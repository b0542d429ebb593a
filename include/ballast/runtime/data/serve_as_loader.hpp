// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ballast/core.hpp>
#include <ballast/runtime/detail/data_post.hpp>
#include <ballast/runtime/detail/open_window.hpp>
#include <ballast/runtime/detail/work_thread.hpp>

#include <chrono>
#include <deque>
#include <map>

namespace ballast::inline v0 {

/// What a rank of a data pipeline that loads samples does until the proxy says that all is over: it
/// loads what it is dealt, in a thread, tells lengths, and sends each payload to the rank that
/// computes it.
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
  data_deal dealt;
  result<loaded_sample> loaded;
  std::chrono::nanoseconds took{};
  auto const load = [&] {
    auto const begin = std::chrono::steady_clock::now();
    loaded = source.load(dealt.sample);
    took = std::chrono::steady_clock::now() - begin;
  };
  detail::data_post<Communicator> post(comm, to_index(proxy));
  std::deque<data_deal> waiting;
  std::map<std::uint64_t, std::vector<std::byte>> held;  // by ticket
  detail::last_first<detail::moved_bytes<Communicator>> leaving;
  bool loads = false;
  detail::work_thread worker(load);
  result<void> ended;
  detail::idle_pause pause;
  bool parts = false;  // from a proxy that listens
  post.send({data_word::hello, 1});
  for (bool over = false; !over;) {
    bool idle = true;
    auto const message = post.look();
    if (!message) { return tl::unexpected(message.error()); }
    post.keep_alive();
    if (!*message && post.is_silent()) {
      over = true;
      ended = detail::were_silent("the proxy", {proxy}, detail::longest_silence(comm));
    }
    if (*message) {
      idle = false;
      std::uint64_t const ticket = (*message)->one;
      switch ((*message)->word) {
        case data_word::load: waiting.push_back({ticket, (*message)->two}); break;
        case data_word::drop: held.erase(ticket); break;
        case data_word::send:
          leaving.emplace_back(comm, std::move(held.extract(ticket).mapped()), true,
                               (*message)->two);
          break;
        case data_word::stop:
          over = parts = true;
          ended = tl::unexpected(detail::read_stop(**message));
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
    if (loads && worker.ready()) {
      (void)worker.wait();
      loads = false;
      idle = false;
      if (auto const thrown = worker.thrown()) {
        auto const why = detail::what_was_thrown("load()", thrown);
        detail::data_message gone{data_word::gone};
        gone.add(why.message);
        post.send(gone);
        ended = tl::unexpected(why);
        over = true;
      } else if (loaded) {
        detail::data_message told{data_word::loaded, dealt.ticket, loaded->bytes.size(), {}};
        told.body.push_back(static_cast<std::uint64_t>(took.count()));
        for (tokens const length : loaded->lengths) {
          told.body.push_back(static_cast<std::uint64_t>(length));
        }
        held.insert_or_assign(dealt.ticket, std::move(loaded->bytes));
        post.send(told);
      } else {
        detail::data_message told{data_word::broken, dealt.ticket};
        told.add(loaded.error().message);
        post.send(told);
      }
    }
    if (!loads && !waiting.empty() && !over) {
      dealt = waiting.front();
      waiting.pop_front();
      loads = true;
      worker.start();
    }
    idle ? pause.rest(!loads) : pause.end();
  }
  if (parts) { post.send({data_word::bye}); }
  // What is still on its way has to leave; a rank that is gone takes nothing.
  auto const end = detail::wait_clock::now() + detail::time_to_leave(detail::longest_silence(comm));
  while (!post.flush().value_or(true) && detail::wait_clock::now() < end) { pause.rest(); }
  return ended;
}

}  // namespace ballast::inline v0
