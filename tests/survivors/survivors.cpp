// SPDX-License-Identifier: Apache-2.0
// survivors [all]: what the other ranks say, and after how long, when rank 1 fails in each manner,
// on all models of a communicator: a table in Markdown. With "all", on more numbers of ranks. Fails
// unless all ranks that are still there name rank 1 in time.

#include "faults.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>

namespace {

using survivors::answers;
using survivors::fault;

constexpr std::chrono::milliseconds deadline = std::chrono::seconds(1);

struct column {
  std::string name;
  bool of_processes;
  std::function<answers(fault)> run;
};

std::vector<column> columns([[maybe_unused]] char const* program, [[maybe_unused]] bool all)
{
  using namespace survivors;
  std::vector<column> list;
  list.push_back({"4 threads", false, [](fault what) { return on_threads(4, what, deadline); }});
#ifdef SURVIVORS_MPIEXEC
  for (std::size_t const ranks :
       all ? std::vector<std::size_t>{2, 4, 8} : std::vector<std::size_t>{4}) {
    list.push_back({"MPI, " + std::to_string(ranks) + " processes", true,
                    [=](fault what) { return over_mpi(program, ranks, what, deadline); }});
  }
#endif
#ifdef SURVIVORS_WITH_NCCL
  list.push_back({"NCCL, 4 ranks", false, [](fault what) { return over_nccl(4, what, deadline); }});
#endif
  return list;
}

// What all ranks say to each fault; nothing to those that only a process can have.
using said_to_faults = std::vector<std::optional<answers>>;

said_to_faults said_in(column const& each)
{
  said_to_faults said;
  for (fault const what : survivors::all_faults) {
    bool const possible = each.of_processes || !needs_process(what);
    said.push_back(possible ? std::optional(each.run(what)) : std::nullopt);
  }
  return said;
}

// What the survivors say, each text once, and the longest time that one of them took.
std::string cell(answers const& all, fault what, bool& sound)
{
  std::vector<std::string> texts;
  double longest = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    bool const is_victim = rank == to_index(survivors::victim);
    if (is_victim && needs_process(what)) { continue; }
    if (!all[rank]) {
      texts.push_back("**silence of rank " + std::to_string(rank) + "**");
      sound = false;
      continue;
    }
    // The deadline, the grace period, and what a busy machine takes.
    auto const limit = std::chrono::duration<double>(deadline + deadline / 4).count() + 30;
    bool const well = all[rank]->text[0] == '`' && all[rank]->seconds < limit &&
                      all[rank]->text.find("`, rank 1") != std::string::npos;
    if (!is_victim && !well) { sound = false; }
    if (is_victim) { continue; }
    longest = std::max(longest, all[rank]->seconds);
    if (std::ranges::count(texts, all[rank]->text) == 0) { texts.push_back(all[rank]->text); }
  }
  std::string text;
  for (std::string const& each : texts) { text += (text.empty() ? "" : " or ") + each; }
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "; %.1f s", longest);
  return text + seconds;
}

}  // namespace

int main(int argc, char** argv)
{
  std::vector<std::string_view> const words(argv + 1, argv + argc);
#ifdef SURVIVORS_MPIEXEC
  if (words.size() == 3 && words[0] == "rank") {
    return survivors::mpi_rank(static_cast<fault>(std::atoi(argv[2])),
                               std::chrono::milliseconds(std::atoi(argv[3])));
  }
#endif
  bool const all = words.size() == 1 && words[0] == "all";
  if (!words.empty() && !all) {
    std::fprintf(stderr, "survivors: \"%s\" is not known; call it with \"all\" or nothing\n",
                 argv[1]);
    return 2;
  }
  auto const list = columns(argv[0], all);
  std::string head = "| rank 1 |";
  std::string rule = "|---|";
  for (column const& each : list) {
    head += " " + each.name + " |";
    rule += "---|";
  }
  // Most of the time all wait for deadlines; processes do so beside the threads of this one.
  std::vector<said_to_faults> said(list.size());
  auto const ask = [&](bool processes) {
    for (std::size_t index = 0; index < list.size(); ++index) {
      if (list[index].of_processes == processes) { said[index] = said_in(list[index]); }
    }
  };
  auto of_processes = std::async(std::launch::async, ask, true);
  ask(false);
  of_processes.get();

  std::printf("%s\n%s\n", head.c_str(), rule.c_str());
  bool sound = true;
  for (std::size_t row = 0; row < survivors::all_faults.size(); ++row) {
    fault const what = survivors::all_faults[row];
    std::printf("| %s |", name_of(what));
    for (said_to_faults const& each : said) {
      std::string const text =
          each[row] ? cell(*each[row], what, sound) : std::string("no process of its own");
      std::printf(" %s |", text.c_str());
    }
    std::printf("\n");
  }
  if (!sound) { std::fprintf(stderr, "survivors: not all ranks named rank 1 in time\n"); }
  return sound ? 0 : 1;
}
