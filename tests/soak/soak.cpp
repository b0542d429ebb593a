// SPDX-License-Identifier: Apache-2.0
// soak threads|mpi STEPS [SEED]: steps of plan and route with random faults, on 16 threads or on
// the processes of mpirun. Every byte is compared, and what is told of each fault; memory and
// allocations are counted. Prints a line of JSON; fails unless nothing is lost, changed, leaked or
// told wrong.
// soak orchestrated threads|mpi STEPS [SEED]: multimodal steps at random of one, three or four
// encoders, on four threads or on the processes of mpirun. Every row is compared with what a naive
// rearrangement makes of the same plan, there and back; fails if one differs.

#include "../support/orchestrated_steps.hpp"
#include "soak_rank.hpp"

#include <ballast/comm/thread_communicator.hpp>
#ifdef SOAK_WITH_MPI
#include <ballast/comm/mpi_communicator.hpp>
#endif
#include <ballast/topology/bag_layout.hpp>

#ifdef SOAK_WITH_MPI
#include <mpi.h>
#endif
#include <unistd.h>

#include <chrono>
#include <cstdlib>

namespace {

using namespace soak;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds never = std::chrono::hours(1);

// At most once a second, on a terminal only.
class progress_line {
 public:
  explicit progress_line(std::uint64_t steps) : steps_(steps) {}
  void operator()(std::uint64_t step)
  {
    static bool const on_terminal = isatty(STDERR_FILENO) == 1;
    auto const now = steady_clock::now();
    if (!on_terminal || now - last_ < std::chrono::seconds(1)) { return; }
    last_ = now;
    std::fprintf(stderr, "\r%llu of %llu steps", static_cast<unsigned long long>(step),
                 static_cast<unsigned long long>(steps_));
  }

 private:
  std::uint64_t steps_;
  steady_clock::time_point last_;
};

ballast::bag_layout bags_of(std::size_t ranks)
{
  using ballast::operator""_bags;
  if (ranks == 16) { return ballast::lay_out("g1n4+g2n2+g4n2"_bags, 16).value(); }
  if (ranks == 4) { return ballast::lay_out("g2n1+g1n2"_bags, 4).value(); }
  return ballast::one_gpu_bags(ranks);
}

void add(tally& all, tally const& one)
{
  all.bytes += one.bytes;
  all.changed_bytes += one.changed_bytes;
  all.lost_rows += one.lost_rows;
  all.wrong_answers += one.wrong_answers;
  all.allocations += one.allocations;
  all.counted_steps = one.counted_steps;
  all.memory_growth = std::max(all.memory_growth, one.memory_growth);
  all.slowest_answer = std::max(all.slowest_answer, one.slowest_answer);
  all.faults = one.faults;
}

// Prints the figures; returns whether all is well.
bool report(char const* where, std::size_t ranks, settings const& chosen, tally const& all,
            double seconds, std::uint64_t kept_for_ever)
{
  std::uint64_t broken = 0;
  std::printf("{\"ranks\": \"%zu %s\", \"steps\": %llu, \"seed\": %llu, \"seconds\": %.1f", ranks,
              where, static_cast<unsigned long long>(chosen.steps),
              static_cast<unsigned long long>(chosen.seed), seconds);
  std::printf(", \"faults\": {");
  for (std::size_t kind = 1; kind < fault_names.size(); ++kind) {
    std::printf("%s\"%s\": %llu", kind > 1 ? ", " : "", fault_names[kind],
                static_cast<unsigned long long>(all.faults[kind]));
    bool const breaks = kind >= static_cast<std::size_t>(fault::memory);
    broken += breaks ? all.faults[kind] : 0;
  }
  // A step that breaks waits once or twice; the rest is for a busy machine.
  auto const most_ms = static_cast<std::uint64_t>(3 * chosen.deadline.count()) + 10'000;
  // After a failure MPI may use a group's memory as long as it runs, so the group is kept.
  std::uint64_t const allowed = (std::uint64_t{1} << 20U) + broken * kept_for_ever;
  bool const sound = all.changed_bytes == 0 && all.lost_rows == 0 && all.wrong_answers == 0 &&
                     all.allocations == 0 && all.memory_growth <= allowed &&
                     all.slowest_answer < most_ms;
  std::printf("}");
  auto const say = [](std::string const& name, std::uint64_t figure) {
    std::printf(", \"%s\": %llu", name.c_str(), static_cast<unsigned long long>(figure));
  };
  say("bytes_compared", all.bytes);
  say("bytes_changed", all.changed_bytes);
  say("rows_lost", all.lost_rows);
  say("wrong_answers", all.wrong_answers);
  say("allocations_in_" + std::to_string(all.counted_steps) + "_steady_steps", all.allocations);
  say("memory_growth_KiB", all.memory_growth >> 10U);
  say("allowed_KiB", allowed >> 10U);
  say("slowest_answer_ms", all.slowest_answer);
  std::printf(", \"sound\": %s}\n", sound ? "true" : "false");
  return sound;
}

int on_threads(settings chosen)
{
  constexpr std::size_t ranks = 16;
  chosen.one_break_in = 100;
  chosen.deadline = std::chrono::seconds(10);
  auto const start = steady_clock::now();
  auto meetings = ballast::thread_communicator::make(ranks, never);
  auto wholes = ballast::thread_communicator::make(ranks, chosen.deadline);
  auto const bags = bags_of(ranks);
  std::vector<tally> counts(ranks);
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        // Here, so that a rank that ends early is missed.
        auto meeting = std::move(meetings[rank]);
        auto whole = std::move(wholes[rank]);
        counts[rank] = soak_rank(meeting, whole, chosen, bags).run(progress_line(chosen.steps));
      });
    }
  }
  tally all;
  for (tally const& each : counts) { add(all, each); }
  double const seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  return report("threads", ranks, chosen, all, seconds, 0) ? 0 : 1;
}

constexpr std::uint64_t steps_of_job = 50;

template <class C>
std::size_t wrong_arrays(C& comm, settings const& chosen)
{
  return ballast_test::wrong_arrays_of_jobs(
      comm, chosen.seed, static_cast<int>(chosen.steps / steps_of_job), steps_of_job);
}

// Prints the figures of orchestrated steps; returns the program's exit code.
int report_orchestrated(std::size_t wrong, std::size_t ranks, settings const& chosen,
                        steady_clock::time_point start)
{
  std::printf(
      "{\"ranks\": %zu, \"steps\": %llu, \"seed\": %llu, \"seconds\": %.1f, "
      "\"wrong_arrays\": %zu}\n",
      ranks, static_cast<unsigned long long>(chosen.steps),
      static_cast<unsigned long long>(chosen.seed),
      std::chrono::duration<double>(steady_clock::now() - start).count(), wrong);
  return wrong == 0 ? 0 : 1;
}

int orchestrated_on_threads(settings const& chosen)
{
  constexpr std::size_t ranks = 4;
  auto const start = steady_clock::now();
  auto const wrong = ballast::run_ranks(
      ranks, [&](ballast::thread_communicator& comm) { return wrong_arrays(comm, chosen); });
  return report_orchestrated(std::reduce(wrong.begin(), wrong.end()), ranks, chosen, start);
}

#ifdef SOAK_WITH_MPI
int orchestrated_on_processes(settings const& chosen)
{
  int level = MPI_THREAD_SINGLE;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int code = level < MPI_THREAD_MULTIPLE ? 1 : 0;
  if (code == 0) {
    auto const start = steady_clock::now();
    auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD).value();
    unsigned long long wrong = wrong_arrays(comm, chosen);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
    code = wrong == 0 ? 0 : 1;
    if (comm.rank() == ballast::rank_id{0}) {
      code = report_orchestrated(wrong, comm.size(), chosen, start);
    }
  }
  MPI_Finalize();
  return code;
}

int on_processes(settings chosen)
{
  chosen.one_break_in = 2500;
  chosen.deadline = std::chrono::seconds(5);
  MPI_Init(nullptr, nullptr);
  bool sound = false;
  {
    auto const start = steady_clock::now();
    auto meeting = ballast::mpi_communicator::over(MPI_COMM_WORLD, {.deadline = never}).value();
    auto whole =
        ballast::mpi_communicator::over(MPI_COMM_WORLD, {.deadline = chosen.deadline}).value();
    auto const bags = bags_of(whole.size());
    tally const own = soak_rank(meeting, whole, chosen, bags).run(progress_line(chosen.steps));
    std::vector<tally> counts(meeting.size());
    or_throw(meeting.all_gather(std::as_bytes(std::span(&own, 1)),
                                std::as_writable_bytes(std::span(counts))));
    tally all;
    for (tally const& each : counts) { add(all, each); }
    double const seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
    sound = meeting.rank() != ballast::rank_id{0} ||
            report("processes", meeting.size(), chosen, all, seconds, std::uint64_t{128} << 10U);
    (void)meeting.barrier();
  }
  MPI_Finalize();
  return sound ? 0 : 1;
}
#endif

}  // namespace

int main(int argc, char** argv)
{
  std::vector<std::string> words(argv + 1, argv + argc);
  bool const orchestrated = !words.empty() && words[0] == "orchestrated";
  if (orchestrated) { words.erase(words.begin()); }
  words.resize(3);
  settings chosen;
  chosen.steps = std::strtoull(words[1].c_str(), nullptr, 10);
  if (!words[2].empty()) { chosen.seed = std::strtoull(words[2].c_str(), nullptr, 10); }
  if (chosen.steps >= (orchestrated ? steps_of_job : 1)) {
    if (words[0] == "threads") {
      return orchestrated ? orchestrated_on_threads(chosen) : on_threads(chosen);
    }
#ifdef SOAK_WITH_MPI
    if (words[0] == "mpi") {
      return orchestrated ? orchestrated_on_processes(chosen) : on_processes(chosen);
    }
#endif
  }
  std::fprintf(stderr,
               "usage: soak [orchestrated] threads STEPS [SEED], or mpirun -np 4 soak "
               "[orchestrated] mpi STEPS [SEED]\n");
  return 2;
}
