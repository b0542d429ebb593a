// SPDX-License-Identifier: Apache-2.0
#include <ballast/comm/mpi_communicator.hpp>
#include "faults.hpp"

#include <mpi.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace survivors {

namespace {

using clock = std::chrono::steady_clock;

// mpirun and what it started: each process says its number and what it has to say in a line.
class job {
 public:
  job(std::vector<std::string> arguments)
  {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) { std::abort(); }
    mpirun_ = fork();
    if (mpirun_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      close(ends[0]);
      if (std::freopen("/dev/null", "w", stderr) == nullptr) { _exit(126); }
      std::vector<char*> words;
      for (std::string& each : arguments) { words.push_back(each.data()); }
      words.push_back(nullptr);
      execvp(words[0], words.data());
      _exit(127);
    }
    close(ends[1]);
    lines_ = ends[0];
  }
  job(job const&) = delete;
  job& operator=(job const&) = delete;

  // No process of the job ends by itself; mpirun ends last.
  ~job()
  {
    for (pid_t const process : processes) { kill(process, SIGKILL); }
    kill(mpirun_, SIGTERM);
    for (int looks = 0; looks < 100 && waitpid(mpirun_, nullptr, WNOHANG) == 0; ++looks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (looks == 50) { kill(mpirun_, SIGKILL); }
    }
    close(lines_);
  }

  // The next line, or an empty one at the end of time.
  std::string next_line(clock::time_point end)
  {
    for (;;) {
      if (auto const at = read_.find('\n'); at != std::string::npos) {
        std::string line = read_.substr(0, at);
        read_.erase(0, at + 1);
        return line;
      }
      auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
      pollfd waiting{lines_, POLLIN, 0};
      if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) <= 0) {
        return {};
      }
      std::array<char, 4096> buffer{};
      auto const bytes = read(lines_, buffer.data(), buffer.size());
      if (bytes <= 0) { return {}; }
      read_.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
  }

  std::vector<pid_t> processes;

 private:
  pid_t mpirun_ = 0;
  int lines_ = -1;
  std::string read_;
};

void say(std::string const& line)
{
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace

answers over_mpi(char const* program, std::size_t ranks, fault what,
                 std::chrono::milliseconds deadline)
{
  answers all(ranks);
  // Otherwise mpirun ends all processes when one dies, and there is nobody to say anything.
  job running({SURVIVORS_MPIEXEC, "--enable-recovery", SURVIVORS_MPIEXEC_NUMPROC_FLAG,
               std::to_string(ranks), program, "rank", std::to_string(static_cast<int>(what)),
               std::to_string(deadline.count())});
  auto const end = clock::now() + 5 * deadline + std::chrono::seconds(30);
  std::size_t expected = needs_process(what) ? ranks - 1 : ranks;
  while (expected > 0) {
    std::istringstream line(running.next_line(end));
    std::string kind;
    std::size_t rank = 0;
    if (!(line >> kind)) { break; }
    if (kind == "process") {
      pid_t number = 0;
      line >> number;
      running.processes.push_back(number);
    } else if (kind == "answer") {
      answer said;
      line >> rank >> said.seconds >> std::ws;
      std::getline(line, said.text);
      if (rank < ranks) { all[rank] = said; }
      --expected;
    }
  }
  return all;
}

int mpi_rank(fault what, std::chrono::milliseconds deadline)
{
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  say("process " + std::to_string(getpid()));
  answer said;
  std::optional<ballast_test::hand_moved_clock> stands(std::in_place);
  try {
    auto comm = ballast::mpi_communicator::over(MPI_COMM_WORLD, {.deadline = deadline});
    said = comm ? suffer<std::vector<std::byte>>(*std::move(comm), what, deadline,
                                                 [&] { stands.reset(); })
                : answer{comm.error().message};
  } catch (std::exception const& thrown) {
    said = answer{thrown.what()};
  }
  say("answer " + std::to_string(rank) + " " + std::to_string(said.seconds) + " " + said.text);
  std::this_thread::sleep_for(std::chrono::minutes(2));  // until the job is ended
  _exit(1);
}

}  // namespace survivors
