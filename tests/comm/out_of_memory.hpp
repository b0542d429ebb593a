// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "../support/hand_moved_clock.hpp"
#include "../support/test.hpp"

#include <ballast/comm/gather_samples.hpp>

#include <new>

namespace ballast_test {

/// The deadline with which exchanges run out of memory.
inline constexpr std::chrono::seconds memory_deadline{1};

/// Arrays of a rank that other ranks may still copy from when it has run out of memory.
using kept_arrays = std::vector<std::shared_ptr<void>>;
inline constexpr std::size_t most_kept_arrays = 4;

/// A new array; `arrays` has room for it.
template <class Buffer>
Buffer& keep(kept_arrays& arrays, std::size_t size)
{
  auto const made = std::make_shared<Buffer>(size);
  arrays.push_back(made);
  return *made;
}

/// A step with every operation, and with one call in which ranks differ. Checks what has arrived.
template <class C, class Buffer>
ballast::result<void> exchange_of_everything(C& comm, kept_arrays& arrays)
{
  auto part = comm.split(3);
  if (!part) { return tl::unexpected(part.error()); }
  std::size_t const ranks = part->size();
  std::size_t const self = to_index(part->rank());

  std::vector<ballast::tokens> const read(self, 100);
  ballast::gathered_samples<ballast::tokens> all;
  if (auto done = ballast::gather_samples(all, *part, read); !done) { return done; }
  EXPECT_EQ(all.samples.size(), ranks * (ranks - 1) / 2);

  auto& own = keep<Buffer>(arrays, 1 + self);
  auto& lies = keep<Buffer>(arrays, ranks * (1 + self));
  if (auto done = part->all_gather(own, lies); ranks > 1) {
    EXPECT_FALSE(done);
    if (!done && done.error().code != ballast::error_code::mismatch) { return done; }
  }

  // Each rank sends 300 bytes to each, of the value of its number.
  constexpr std::size_t bytes = 300;
  auto& sent = keep<Buffer>(arrays, bytes * ranks);
  auto& received = keep<Buffer>(arrays, bytes * ranks);
  std::ranges::fill(sent, static_cast<std::byte>(self));
  std::vector<std::size_t> const counts(ranks, bytes);
  if (auto done = part->all_to_all_v(sent, counts, received, counts); !done) { return done; }
  if (auto done = part->wait(); !done) { return done; }
  for (std::size_t at = 0; at < received.size(); ++at) {
    if (received[at] != static_cast<std::byte>(at / bytes)) {
      ADD_FAILURE() << "byte " << at << " has changed";
      break;
    }
  }
  if (auto same = ballast::agree(*part, all.samples.size(), "the samples"); !same) { return same; }
  if (auto done = part->broadcast(received, ballast::rank_id{0}); !done) { return done; }
  return comm.barrier();
}

/// What a rank says after an exchange in which rank 1 lacks memory for its n-th allocation.
struct memory_answer {
  std::optional<ballast::error> error;
  bool threw = false;
  bool had_failure = false;  // whether there was an n-th allocation
  kept_arrays arrays;        // until all ranks have answered
};

/// One rank's part in that exchange. It ends with an answer.
template <class C, class Buffer>
memory_answer exchange_without_memory(C& comm, std::size_t n)
{
  memory_answer answer;
  bool const lacks = comm.rank() == ballast::rank_id{1};
  {
    answer.arrays.reserve(most_kept_arrays);
    failing_allocation const failing(lacks ? n : 0);
    try {
      if (auto done = exchange_of_everything<C, Buffer>(comm, answer.arrays); !done) {
        spared_allocations const spared;
        answer.error = done.error();
      }
    } catch (std::bad_alloc const&) {
      answer.threw = true;
    }
    answer.had_failure = failing.has_failed();
  }
  EXPECT_TRUE(lacks || !answer.threw) << n;
  if (answer.error) {
    EXPECT_FALSE(answer.error->message.empty());
    EXPECT_TRUE(answer.error->code == ballast::error_code::timed_out ||
                answer.error->code == ballast::error_code::peer_lost ||
                answer.error->code == ballast::error_code::transport)
        << answer.error->message;
  }
  return answer;
}

/// Runs exchanges of three ranks that are threads, for n = 1, 2, ..., several at a time, until one
/// has no failure left. `group_of(n)` runs one and returns its ranks' answers; each rank says when
/// it ends to act.
template <class Group>
void expect_answers_wherever_memory_runs_out(Group group_of)
{
  constexpr std::size_t at_a_time = 16;
  passing_time const passes(memory_deadline);
  std::size_t failures = 0;
  for (bool ran_out = true; ran_out;) {
    std::vector<std::vector<memory_answer>> answers(at_a_time);
    std::vector<std::thread> groups;
    hand_moved_clock::begin_to_act(3 * at_a_time);
    for (std::size_t index = 0; index < at_a_time; ++index) {
      groups.emplace_back([&, index] { answers[index] = group_of(failures + index + 1); });
    }
    for (std::thread& each : groups) { each.join(); }
    for (std::size_t index = 0; index < at_a_time && ran_out; ++index) {
      ran_out = answers[index][1].had_failure;
      if (ran_out) { ++failures; }
      for (memory_answer const& each : answers[index]) {
        if (!ran_out) { EXPECT_FALSE(each.error || each.threw) << each.error->message; }
      }
    }
  }
  EXPECT_GT(failures, 10U);
}

}  // namespace ballast_test
