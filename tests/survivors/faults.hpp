// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"

#include <ballast/comm/communicator.hpp>
#include <ballast/core.hpp>

#include <barrier>
#include <chrono>
#include <csignal>
#include <new>
#include <stdexcept>
#include <thread>

/// What rank 1 does to the others, and what each rank then says.
namespace survivors {

enum class fault { kill, stop, raise, lie, just_late, late, memory };
inline constexpr std::array all_faults = {fault::kill,      fault::stop, fault::raise, fault::lie,
                                          fault::just_late, fault::late, fault::memory};

inline char const* name_of(fault what)
{
  switch (what) {
    case fault::kill: return "is killed (SIGKILL)";
    case fault::stop: return "is stopped (SIGSTOP)";
    case fault::raise: return "throws between two calls";
    case fault::lie: return "gives another size";
    case fault::just_late: return "comes a tenth of the deadline too late";
    case fault::late: return "comes a whole deadline too late";
    case fault::memory: return "comes last to `split` and runs out of memory there";
  }
  return "";
}

/// Whether only a process can do so.
inline bool needs_process(fault what)
{
  return what == fault::kill || what == fault::stop;
}

inline constexpr ballast::rank_id victim{1};

/// What a rank says, and how long after its call. A rank that is gone says nothing.
struct answer {
  std::string text;
  double seconds = 0;
};
using answers = std::vector<std::optional<answer>>;  // by rank

/// All survivors name the call by the same name, that of the function which they called.
inline std::string text_of(ballast::error const& error, std::string const& call)
{
  if (!error.message.starts_with(call + ": ")) { return "another name for it: " + error.message; }
  std::string text = std::string("`").append(name_of(error.code)).append("`");
  if (!error.ranks.empty()) { text += ", " + ballast::comm_failure::ranks_text(error.ranks); }
  return text;
}

/// One rank's part: a call in which all is well, however long it takes, then all_is_well(), which
/// has time pass again, and the fault. `Buffer` is an array of bytes that the communicator reaches.
template <class Buffer, class C, class F>
answer suffer(C comm, fault what, std::chrono::milliseconds deadline, F all_is_well)
{
  std::size_t const ranks = comm.size();
  bool const is_victim = comm.rank() == victim;
  std::vector<std::size_t> sent(ranks, 1000), received(ranks, 1000);
  Buffer send(1001 * ranks), receive(1000 * ranks);
  if (auto well = comm.barrier(); !well) { return {"before the fault: " + well.error().message}; }
  all_is_well();
  if (is_victim) {
    switch (what) {
      case fault::kill: std::raise(SIGKILL); break;
      case fault::stop: std::raise(SIGSTOP); break;
      case fault::raise: throw std::runtime_error("a fault");
      case fault::lie:
        for (std::size_t& bytes : sent) { ++bytes; }
        break;
      case fault::just_late: std::this_thread::sleep_for(deadline + deadline / 10); break;
      case fault::late: std::this_thread::sleep_for(2 * deadline); break;
      case fault::memory: std::this_thread::sleep_for(deadline / 10); break;
    }
  }
  auto const start = std::chrono::steady_clock::now();
  auto const since_start = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (what == fault::memory) {
    ballast_test::failing_allocation const failing(is_victim ? 1 : 0);
    try {
      auto const part = comm.split(0);
      return {part ? "success" : text_of(part.error(), "split"), since_start()};
    } catch (std::bad_alloc const&) {
      return {"`std::bad_alloc`", since_start()};
    }
  }
  std::size_t const bytes = std::reduce(sent.begin(), sent.end());
  auto done = comm.all_to_all_v({send.data(), bytes}, sent, receive, received);
  if (done) { done = comm.wait(); }
  double const seconds = since_start();
  if (done) { return {"success", seconds}; }
  std::string text = text_of(done.error(), "all_to_all_v");
  if (done.error().code == ballast::error_code::mismatch) {
    text += comm.barrier() ? ", and the next call succeeds" : ", and the next call fails";
  }
  return {text, seconds};
}

/// What ranks say that are threads of this process: part(rank, all_is_well) of each.
template <class Part>
answers on_threads_each(std::size_t ranks, Part const& part)
{
  answers all(ranks);
  std::optional<ballast_test::hand_moved_clock> stands(std::in_place);
  std::barrier well(static_cast<std::ptrdiff_t>(ranks), [&]() noexcept { stands.reset(); });
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        all[rank] = part(rank, [&] { well.arrive_and_wait(); });
      } catch (std::exception const& thrown) {
        all[rank] = answer{thrown.what()};
      }
    });
  }
  threads.clear();  // joins them
  return all;
}

answers on_threads(std::size_t ranks, fault what, std::chrono::milliseconds deadline);

/// Threads over stand-ins for NCCL and CUDA.
answers over_nccl(std::size_t ranks, fault what, std::chrono::milliseconds deadline);

/// Starts mpirun with this program, `program`, whose processes call mpi_rank().
answers over_mpi(char const* program, std::size_t ranks, fault what,
                 std::chrono::milliseconds deadline);
int mpi_rank(fault what, std::chrono::milliseconds deadline);

}  // namespace survivors
