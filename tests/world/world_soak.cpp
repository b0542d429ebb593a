// SPDX-License-Identifier: Apache-2.0
// world_soak RUNS SEED [CASE]: runs of a few ranks whose messages, delays, order and losses follow a
// seed: in each at most one rank is lost, is late, lacks memory once, or is cut off from another one.
// world_soak seconds SECONDS SEED [CASE]: as many as fit into that time.
// world_soak paths PREEMPTIONS: all orders of small cases in which so often a rank loses the baton that
// could go on.
// world_soak again SEED [CASE]: one run, of which a message has told.
// CASE is the name of a kind of cases, or a part of it. Each run ends on all ranks in what the
// undisturbed run has, or in an error of one sentence; some are run again, and are the same. Prints a
// line of JSON for each kind; fails unless all is so.

#include "../support/counted_allocations.hpp"
#include "seeded_world.hpp"
#include "world_cases.hpp"
#include "world_run.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <set>

namespace {

using namespace seeded_world;

constexpr std::size_t of_each_kind = 24;

drawn_run draw(std::vector<known_case> const& all, std::vector<std::size_t> const& chosen,
               std::uint64_t seed)
{
  ballast::random_source random(seed);
  drawn_run drawn;
  drawn.number = chosen[random.below(chosen.size())];
  known_case const& known = all[drawn.number];
  drawn.seed = random();
  drawn.over_threads = random.below(4) == 0;
  constexpr std::array<std::uint32_t, 5> places = {0, 1, 2, 4, 16};
  drawn.how.one_in = places[random.below(places.size())];
  drawn.how.by_priority = random.below(3) == 0;
  drawn.how.idle_wakes = random.below(4) == 0 ? 16 : 0;
  constexpr std::array<std::int64_t, 4> delays = {0, 1'000, 10'000, 50'000};
  drawn.network.seed = random();
  drawn.network.usual_delay = std::chrono::nanoseconds(delays[random.below(delays.size())]);
  drawn.network.tells_failures = random.below(2) == 0;
  drawn.network.buffers_one_in = static_cast<std::uint32_t>(random.below(3));
  std::size_t const ranks = known.each.ranks;
  std::size_t const rank = random.below(ranks);
  std::size_t const over = drawn.over_threads ? 1 : 0;
  std::size_t const kind = random.below(8);
  if (kind < 1) { return drawn; }
  if (kind < 4) {
    drawn.lacks_memory = rank;
    std::size_t const in_threads = known.allocations_of_threads[over][rank];
    if (in_threads > 0 && random.below(3) == 0) {
      drawn.how.lacking_body = rank;
      drawn.how.lacking_allocation = 1 + random.below(in_threads + 1);
      return drawn;
    }
    drawn.allocation = 1 + random.below(known.allocations[over][rank] + 1);
    return drawn;
  }
  constexpr std::array kinds = {loss::closes, loss::silent, loss::silent, loss::late, loss::cut};
  fault& wrong = drawn.network.goes_wrong;
  wrong.what = kinds[random.below(drawn.over_threads ? 4 : 5)];
  wrong.rank = rank;
  wrong.at = 1 + random.below(known.messages[over][rank] + 1);
  wrong.to = (rank + 1 + random.below(std::max<std::size_t>(ranks - 1, 1))) % ranks;
  wrong.sleeps = known.each.deadline * static_cast<std::int64_t>(1 + random.below(8)) / 4;
  return drawn;
}

/// What has been run of one kind.
struct tally {
  std::uint64_t runs = 0;
  std::uint64_t lost = 0;
  std::uint64_t allocations = 0;  // that failed
  std::uint64_t plans = 0;        // ranks that had all they would have had
  std::uint64_t errors = 0;       // ranks with a sentence
  std::uint64_t switches = 0;
  std::uint64_t repeated = 0;
  std::uint64_t wrong = 0;
  std::set<std::uint64_t> moments;  // case, rank and message at which ranks were lost
  std::set<std::uint64_t> places;   // case, rank and allocation that failed
  std::set<std::uint64_t> orders;   // traces
  std::map<std::string, std::uint64_t> said;
};

std::uint64_t running = 0;

void tell_run()
{
  std::fprintf(stderr, "in run %llu\n", static_cast<unsigned long long>(running));
}

void count(tally& all, drawn_run const& drawn, finished_run const& done)
{
  ++all.runs;
  all.switches += done.world.switches;
  all.orders.insert(done.world.trace);
  auto const at = [&](std::size_t rank, std::size_t number) {
    return ballast::digest{}
        .add(std::uint64_t{drawn.number} * 2 + (drawn.over_threads ? 1 : 0))
        .add(std::uint64_t{rank})
        .add(std::uint64_t{number})
        .value();
  };
  fault const& wrong = drawn.network.goes_wrong;
  if (wrong.what != loss::none && done.messages[wrong.rank] >= wrong.at) {
    ++all.lost;
    all.moments.insert(at(wrong.rank, wrong.at));
  }
  if (done.had_failure) {
    ++all.allocations;
    all.places.insert(at(drawn.lacks_memory, drawn.allocation > 0
                                                 ? drawn.allocation
                                                 : 1'000'000 + drawn.how.lacking_allocation));
  }
  for (answer const& each : done.answers) {
    all.plans += each.how == outcome::word ? 1U : 0U;
    all.errors += each.how == outcome::error ? 1U : 0U;
  }
}

class soak {
 public:
  explicit soak(std::vector<world_case> const& cases)
  {
    for (world_case const& each : cases) {
      auto [known, what] = learn(each);
      all_.push_back(std::move(known));
      drawn_run drawn;
      drawn.number = all_.size() - 1;
      if (!what.empty()) { tell(tallies_[each.name], drawn, "undisturbed, " + what); }
    }
  }

  [[nodiscard]] bool is_sound() const { return wrong_ == 0; }

  void choose(std::string const& kind)
  {
    for (std::size_t number = 0; number < all_.size(); ++number) {
      if (all_[number].each.name.find(kind) != std::string::npos) { chosen_.push_back(number); }
    }
  }
  [[nodiscard]] bool has_chosen() const { return !chosen_.empty(); }

  void one(std::uint64_t seed, bool again)
  {
    running = seed;
    drawn_run const drawn = draw(all_, chosen_, seed);
    known_case const& known = all_[drawn.number];
    choices from(drawn.seed);
    finished_run const done = execute(known.each, drawn, from);
    tally& own = tallies_[known.each.name];
    count(own, drawn, done);
    std::string what = judge(known, drawn, done);
    if (what.empty() && again) {
      ++own.repeated;
      std::size_t const before = ballast_test::allocations_alive();
      {
        choices same(drawn.seed);
        finished_run const once_more = execute(known.each, drawn, same);
        if (once_more.world.trace != done.world.trace) { what = "the same seed runs otherwise"; }
      }
      std::size_t const after = ballast_test::allocations_alive();
      if (what.empty() && after != before) {
        what = ballast::detail::concat(after - before, " allocations are left");
      }
    }
    if (!what.empty()) { tell(own, drawn, what); }
  }

  void show(std::uint64_t seed)
  {
    running = seed;
    drawn_run const drawn = draw(all_, chosen_, seed);
    known_case const& known = all_[drawn.number];
    choices from(drawn.seed);
    finished_run const done = execute(known.each, drawn, from);
    fault const& wrong = drawn.network.goes_wrong;
    std::printf(
        "%s %zu over %s, %zu ranks; loss %d of rank %zu at %zu to %zu; allocation %zu of rank "
        "%zu; baton %u%s%s; delay %lld ns; %llu switches, %.3f ms of the world\n",
        known.each.name.c_str(), drawn.number, drawn.over_threads ? "threads" : "messages",
        known.each.ranks, static_cast<int>(wrong.what), wrong.rank, wrong.at, wrong.to,
        drawn.allocation, drawn.lacks_memory, drawn.how.one_in,
        drawn.how.by_priority ? ", by priority" : "",
        drawn.how.idle_wakes > 0 ? ", idle wakes" : "",
        static_cast<long long>(drawn.network.usual_delay.count()),
        static_cast<unsigned long long>(done.world.switches),
        static_cast<double>(done.world.lasted.count()) / 1e6);
    for (std::size_t rank = 0; rank < done.answers.size(); ++rank) {
      constexpr std::array names = {"nothing",       "what it should", "error",
                                    "out of memory", "lost",           "wrong"};
      answer const& own = done.answers[rank];
      std::printf("  rank %zu, %zu messages: %s%s%s\n", rank, done.messages[rank],
                  names[static_cast<std::size_t>(own.how)], own.how == outcome::error ? ": " : "",
                  own.error.message.c_str());
    }
    std::string const what = judge(known, drawn, done);
    std::printf("  %s\n", what.empty() ? "sound" : what.c_str());
    wrong_ += what.empty() ? 0 : 1;
  }

  /// All orders of the small cases with so few preemptions, undisturbed, and with one less where at
  /// each message a rank is lost.
  void all_paths(std::uint32_t preemptions)
  {
    for (std::size_t number = 0; number < all_.size(); ++number) {
      known_case const& known = all_[number];
      bool const has_threads = std::ranges::count(known.allocations_of_threads[0], 0U) <
                               std::ssize(known.allocations_of_threads[0]);
      if (known.each.ranks > 2 || has_threads) { continue; }  // whose orders are too many
      for (bool const over_threads : {false, true}) {
        drawn_run drawn;
        drawn.number = number;
        drawn.over_threads = over_threads;
        drawn.network.buffers_one_in = 0;
        drawn.how.most_preemptions = preemptions;
        follow_paths(drawn);
        if (preemptions == 0) { continue; }
        drawn.how.most_preemptions = preemptions - 1;
        fault& wrong = drawn.network.goes_wrong;
        for (wrong.rank = 0; wrong.rank < known.each.ranks; ++wrong.rank) {
          std::size_t const messages = known.messages[over_threads ? 1 : 0][wrong.rank];
          for (wrong.at = 1; wrong.at <= messages; ++wrong.at) {
            for (loss const what : {loss::closes, loss::silent}) {
              wrong.what = what;
              follow_paths(drawn);
            }
          }
        }
      }
    }
  }

  void print() const
  {
    for (auto const& [name, each] : tallies_) {
      auto const number = [](std::uint64_t figure) {
        return static_cast<unsigned long long>(figure);
      };
      std::printf(
          "{\"case\": \"%s\", \"runs\": %llu, \"orders\": %llu, \"switches\": %llu, "
          "\"losses\": %llu, \"moments_of_loss\": %llu, \"failed_allocations\": %llu, "
          "\"places_of_allocation\": %llu, \"plans\": %llu, \"errors\": %llu, "
          "\"repeated\": %llu, \"wrong\": %llu}\n",
          name.c_str(), number(each.runs), number(each.orders.size()), number(each.switches),
          number(each.lost), number(each.moments.size()), number(each.allocations),
          number(each.places.size()), number(each.plans), number(each.errors),
          number(each.repeated), number(each.wrong));
    }
    std::fflush(stdout);
  }

 private:
  void follow_paths(drawn_run const& drawn)
  {
    constexpr std::uint64_t most = 50'000;
    known_case const& known = all_[drawn.number];
    tally& own = tallies_[known.each.name];
    std::vector<std::pair<std::uint32_t, std::uint32_t>> path;
    std::uint64_t paths = 0;
    do {
      if (++paths > most) { return tell(own, drawn, "has more orders than are tried"); }
      choices from(path);
      finished_run const done = execute(known.each, drawn, from);
      count(own, drawn, done);
      std::string const what = judge(known, drawn, done);
      if (!what.empty()) { tell(own, drawn, what); }
    } while (next_path(path));
  }

  void tell(tally& own, drawn_run const& drawn, std::string const& what)
  {
    ++own.wrong;
    ++wrong_;
    if (wrong_ > 20) { return; }
    std::printf("%s %zu over %s, run %llu: %s\n", all_[drawn.number].each.name.c_str(),
                drawn.number, drawn.over_threads ? "threads" : "messages",
                static_cast<unsigned long long>(running), what.c_str());
    std::fflush(stdout);
  }

  std::vector<known_case> all_;
  std::vector<std::size_t> chosen_;
  std::map<std::string, tally> tallies_;
  std::uint64_t wrong_ = 0;
};

}  // namespace

int main(int argc, char** argv)
{
  std::vector<std::string> words(argv + 1, argv + argc);
  bool const by_time = !words.empty() && words[0] == "seconds";
  bool const paths = !words.empty() && words[0] == "paths";
  bool const again = !words.empty() && words[0] == "again";
  if (by_time || paths || again) { words.erase(words.begin()); }
  words.resize(3);
  auto const number = [&](std::size_t word) {
    return std::strtoull(words[word].c_str(), nullptr, 10);
  };
  std::uint64_t const many = number(0);
  std::uint64_t const seed = number(1);
  if (words[0].empty()) {
    std::fprintf(stderr,
                 "usage: world_soak [seconds] MANY SEED [CASE], world_soak paths PREEMPTIONS, "
                 "or world_soak again SEED [CASE]\n");
    return 2;
  }
  std::set_terminate([] {
    std::fprintf(stderr, "terminated\n");
    tell_run();
    std::abort();
  });
  ballast::set_precondition_handler([](ballast::broken_precondition const& broken) {
    std::fprintf(stderr, "%s:%d: %s\n", broken.file, broken.line, broken.sentence);
    tell_run();
  });
  soak all(all_cases(of_each_kind));
  all.choose(words[again ? 1 : 2]);
  if (!all.has_chosen()) {
    std::fprintf(stderr, "no kind of cases is called so\n");
    return 2;
  }
  if (again) {
    all.show(many);
    return all.is_sound() ? 0 : 1;
  }
  if (paths) {
    all.all_paths(static_cast<std::uint32_t>(many));
  } else {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(by_time ? many : 0);
    for (std::uint64_t each = 0; by_time ? std::chrono::steady_clock::now() < end : each < many;
         ++each) {
      all.one(ballast::digest{}.add(seed).add(each).value(), each % 16 == 0);
    }
  }
  all.print();
  return all.is_sound() ? 0 : 1;
}
