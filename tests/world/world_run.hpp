// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support/counted_allocations.hpp"
#include "seeded_world.hpp"
#include "world_cases.hpp"

#include <exception>
#include <new>

namespace seeded_world {

enum class outcome : std::uint8_t { none, word, error, out_of_memory, lost, wrong };

struct answer {
  outcome how = outcome::none;
  std::uint64_t word = 0;
  ballast::error error = {};
};

/// All that a run depends on.
struct drawn_run {
  std::size_t number = 0;  // of the case
  bool over_threads = false;
  manner how = {};
  network_options network = {};
  std::size_t lacks_memory = 0;  // a rank, if
  std::size_t allocation = 0;    // of it is not 0
  std::uint64_t seed = 0;        // of the choices
};

struct finished_run {
  report world;
  std::vector<answer> answers;
  std::vector<std::size_t> messages;
  bool had_failure = false;  // an allocation has failed
  std::string fault = {};    // what is wrong, whatever was disturbed
};

/// One rank: what it does, and what of it is left over.
template <class C, class Body>
void run_rank(answer& own, std::optional<C>& comm, Body const& body, std::size_t failing_at,
              bool stays, bool& had_failure, std::string& fault)
{
  std::optional<ballast::result<std::uint64_t>> got;
  try {
    std::optional<ballast_test::failing_allocation> failing;  // one alone in a run
    if (failing_at > 0) { failing.emplace(failing_at); }
    try {
      got.emplace(body(*comm));
    } catch (std::bad_alloc const&) {
      own.how = outcome::out_of_memory;
    } catch (rank_is_lost const&) {
      own.how = outcome::lost;
    }
    had_failure = had_failure || (failing && failing->has_failed());
  } catch (std::exception const& thrown) {
    own.how = outcome::wrong;
    fault = thrown.what();
  }
  if (got) {
    own.how = *got ? outcome::word : outcome::error;
    if (*got) {
      own.word = **got;
    } else {
      own.error = got->error();
    }
  }
  if (own.how != outcome::lost && comm->under_way() > 0) {
    fault =
        ballast::detail::concat("a rank ended with ", comm->under_way(), " transfers under way");
  }
  note(ballast::digest{}
           .add(static_cast<std::uint64_t>(own.how))
           .add(own.word)
           .add(std::uint64_t{std::hash<std::string>()(own.error.message)})
           .value());
  if (!stays) { comm.reset(); }
}

inline finished_run execute(world_case const& each, drawn_run const& drawn, choices& from)
{
  finished_run done;
  std::size_t const ranks = each.ranks;
  done.answers.resize(ranks);
  done.messages.assign(ranks, 0);
  bool const stays = each.stays || drawn.network.goes_wrong.what == loss::silent;
  std::vector<std::function<void()>> bodies;
  auto const failing_at = [&](std::size_t rank) {
    return drawn.allocation > 0 && drawn.lacks_memory == rank ? drawn.allocation : 0;
  };
  if (drawn.over_threads) {
    std::vector<std::optional<lossy_threads>> comms(ranks);
    std::vector<std::shared_ptr<lossy_threads::fate>> fates;
    auto groups = ballast::thread_communicator::make(ranks, each.deadline);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      fates.push_back(std::make_shared<lossy_threads::fate>());
      fates[rank]->goes_wrong = drawn.network.goes_wrong;
      fates[rank]->rank = rank;
      comms[rank].emplace(std::move(groups[rank]), fates[rank]);
      bodies.emplace_back([&, rank] {
        run_rank(done.answers[rank], comms[rank], each.over_threads, failing_at(rank), stays,
                 done.had_failure, done.fault);
        if (!stays) { fates[rank]->all.clear(); }  // which leaves its groups
      });
    }
    done.world = run(from, drawn.how, bodies);
    done.had_failure = done.had_failure || done.world.thread_lacked_memory;
    for (std::size_t rank = 0; rank < ranks; ++rank) { done.messages[rank] = fates[rank]->calls; }
    return done;
  }
  auto const network = std::make_shared<seeded_network>(ranks, drawn.network);
  auto groups = seeded_communicator::make(network, ranks, each.deadline);
  std::vector<std::optional<seeded_communicator>> comms;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    comms.emplace_back(std::move(groups[rank]));
    bodies.emplace_back([&, rank] {
      run_rank(done.answers[rank], comms[rank], each.over_messages, failing_at(rank), stays,
               done.had_failure, done.fault);
    });
  }
  groups.clear();
  done.world = run(from, drawn.how, bodies);
  done.had_failure = done.had_failure || done.world.thread_lacked_memory;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    done.messages[rank] = network->messages(rank);
  }
  return done;
}

/// What is known of a case: what each rank has if nothing goes wrong, and how much it says.
struct known_case {
  world_case each;
  std::vector<std::uint64_t> words;
  std::array<std::vector<std::size_t>, 2> messages;     // over messages, over threads
  std::array<std::vector<std::size_t>, 2> allocations;  // likewise
  std::array<std::vector<std::size_t>, 2> allocations_of_threads;
};

/// What is wrong with a run, or nothing.
inline std::string judge(known_case const& known, drawn_run const& drawn, finished_run const& done)
{
  if (done.world.how == ending::stuck) { return "all wait and nothing comes: " + done.world.where; }
  if (done.world.how == ending::endless) { return "it does not end: " + done.world.where; }
  if (!done.fault.empty()) { return done.fault; }
  fault const& wrong = drawn.network.goes_wrong;
  bool const lost = wrong.what != loss::none && done.messages[wrong.rank] >= wrong.at;
  bool const disturbed = lost || done.had_failure;
  // Threads tell each other at once.
  bool const may_last = !drawn.over_threads || known.each.stays || wrong.what == loss::silent ||
                        wrong.what == loss::late;
  if (!may_last && done.world.lasted >= known.each.deadline) { return "a deadline was waited for"; }
  bool const bears = lost && wrong.what == loss::silent && known.each.spare.contains(wrong.rank);
  for (std::size_t rank = 0; rank < done.answers.size(); ++rank) {
    answer const& own = done.answers[rank];
    auto const of_rank = [&](auto const&... what) {
      return ballast::detail::concat("rank ", rank, " ", what...);
    };
    switch (own.how) {
      case outcome::word:
        if (own.word != known.words[rank]) { return of_rank("has another plan"); }
        break;
      case outcome::error: {
        std::string const& said = own.error.message;
        if (!disturbed || bears) { return of_rank("was told: ", said); }
        bool const one_line = !said.empty() && said.find('\n') == std::string::npos;
        if (!one_line) { return of_rank("was told no sentence: ", said); }
        using code = ballast::error_code;
        bool const swallows = drawn.allocation > 0 && drawn.lacks_memory == rank &&
                              !known.each.calls_users && own.error.code == code::failed;
        if (swallows) { return of_rank("lacks memory, and was told: ", said); }
        constexpr std::array of_loss = {code::timed_out, code::peer_lost};
        // Who has no plan says so in another call than the others make.
        bool const of_memory = own.error.code == code::failed ||
                               (own.error.code == code::mismatch && !known.each.calls_users);
        bool const fits =
            std::ranges::count(of_loss, own.error.code) > 0 || (done.had_failure && of_memory);
        if (!fits) { return of_rank("was told: ", name_of(own.error.code), ": ", said); }
        break;
      }
      case outcome::out_of_memory:
        if (!done.had_failure || drawn.lacks_memory != rank) { return of_rank("lacks memory"); }
        break;
      case outcome::lost:
        if (!lost || wrong.rank != rank) { return of_rank("was lost"); }
        break;
      default: return of_rank("has no answer");
    }
  }
  return {};
}

/// Runs a case undisturbed. Returns what is known of it, and what was wrong, or nothing.
inline std::pair<known_case, std::string> learn(world_case const& each)
{
  known_case known{each, {}, {}, {}, {}};
  known.words.assign(each.ranks, 0);
  std::string what;
  for (std::size_t const over : {0U, 1U}) {
    drawn_run drawn;
    drawn.over_threads = over == 1;
    for (int once = 0; once < 2; ++once) {  // the second time nothing is made for the first time
      choices from(1);
      finished_run const done = execute(each, drawn, from);
      for (std::size_t rank = 0; rank < each.ranks && over == 0 && once == 0; ++rank) {
        known.words[rank] = done.answers[rank].word;
      }
      known.messages[over] = done.messages;
      known.allocations[over] = done.world.allocations;
      known.allocations_of_threads[over] = done.world.allocations_of_threads;
      if (what.empty()) { what = judge(known, drawn, done); }
    }
  }
  return {std::move(known), std::move(what)};
}

}  // namespace seeded_world
