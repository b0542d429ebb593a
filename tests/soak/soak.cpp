// SPDX-License-Identifier: Apache-2.0
// soak threads|mpi STEPS [SEED]: steps of plan and route with random faults, on 16 threads or on
// the processes of mpirun. Every byte is compared, and what is told of each fault; memory and
// allocations are counted. Prints a line of JSON; fails unless nothing is lost, changed, leaked or
// told wrong.

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

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

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
  std::printf(
      "}, \"bytes_compared\": %llu, \"bytes_changed\": %llu, \"rows_lost\": %llu, "
      "\"wrong_answers\": %llu, \"allocations_in_%llu_steady_steps\": %llu, "
      "\"memory_growth_KiB\": %llu, \"allowed_KiB\": %llu, \"slowest_answer_ms\": %llu, "
      "\"sound\": %s}\n",
      static_cast<unsigned long long>(all.bytes),
      static_cast<unsigned long long>(all.changed_bytes),
      static_cast<unsigned long long>(all.lost_rows),
      static_cast<unsigned long long>(all.wrong_answers),
      static_cast<unsigned long long>(all.counted_steps),
      static_cast<unsigned long long>(all.allocations),
      static_cast<unsigned long long>(all.memory_growth >> 10U),
      static_cast<unsigned long long>(allowed >> 10U),
      static_cast<unsigned long long>(all.slowest_answer), sound ? "true" : "false");
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

#ifdef SOAK_WITH_MPI
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
  std::string_view const where = argc > 1 ? argv[1] : "";
  settings chosen;
  if (argc > 2) { chosen.steps = std::strtoull(argv[2], nullptr, 10); }
  if (argc > 3) { chosen.seed = std::strtoull(argv[3], nullptr, 10); }
  if (chosen.steps > 0 && where == "threads") { return on_threads(chosen); }
#ifdef SOAK_WITH_MPI
  if (chosen.steps > 0 && where == "mpi") { return on_processes(chosen); }
#endif
  std::fprintf(stderr, "usage: soak threads STEPS [SEED], or mpirun -np 4 soak mpi STEPS [SEED]\n");
  return 2;
}
