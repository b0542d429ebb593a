// SPDX-License-Identifier: Apache-2.0
#include "cleanup.hpp"

#include <signal.h>
#include <unistd.h>

namespace cli {

constinit cleanup at_end;

void cleanup::erase_line() noexcept
{
  if (!line_shown.exchange(false)) { return; }
  constexpr char erase[] = "\r\033[K";
  // A failure has no consequence.
  [[maybe_unused]] auto const written = write(STDERR_FILENO, erase, sizeof(erase) - 1);
}

void clean_up_when_stopped()
{
  struct sigaction action{};
  action.sa_handler = [](int signal) {
    at_end.files.remove();
    at_end.erase_line();
    (void)raise(signal);  // SA_RESETHAND: this time it ends the program
  };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (int const signal : {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU}) {
    struct sigaction before{};
    (void)sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) { (void)sigaction(signal, &action, nullptr); }
  }
  // A file that grows past what `ulimit -f` allows is an error of that write, with a sentence.
  (void)::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace cli
