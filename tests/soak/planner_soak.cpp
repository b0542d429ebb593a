// SPDX-License-Identifier: Apache-2.0
// planner_soak [--planner NAME] STEPS SEED [FIRST]: random valid steps, and some with extreme
// numbers, for every planner of the library, or for the one called NAME, or those whose names
// contain it. Checks what plans promise: every sample placed once, limits kept, loads and makespans
// as the owners make them, and on small steps bounds, proofs and refusals against all plans. Each
// step has a seed of its own, so that one can be run again: a violation says which.

#include "../support/test.hpp"
#include "soaked_planner.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace {

using clock_type = std::chrono::steady_clock;

struct chosen {
  std::string_view planner;
  std::uint64_t steps = 0;
  std::uint64_t seed = 0;
  std::uint64_t first = 0;  // of the steps
};

// What runs now, for messages of what ends the program.
struct running {
  char const* planner = "";
  std::uint64_t step = 0;
  std::uint64_t seed = 0;
};
running now;

void tell_current_step()
{
  std::fprintf(stderr, "in %s, step %llu of seed %llu\n", now.planner,
               static_cast<unsigned long long>(now.step),
               static_cast<unsigned long long>(now.seed));
}

double seconds_since(clock_type::time_point start)
{
  return std::chrono::duration<double>(clock_type::now() - start).count();
}

// Runs all steps of a planner; returns how many broke an invariant.
std::uint64_t soak(ballast_soak::soaked_planner const& planner, chosen const& what)
{
  constexpr std::uint64_t most_told = 5;
  bool const shows_progress = isatty(2) == 1;
  auto const start = clock_type::now();
  auto told = start;
  std::uint64_t wrong = 0;
  for (std::uint64_t step = what.first; step < what.first + what.steps; ++step) {
    now = {planner.name.c_str(), step, what.seed};
    ballast::random_source random(ballast::digest{}.add(what.seed).add(step).value());
    try {
      planner.step(random);
    } catch (std::exception const& broken) {
      if (++wrong <= most_told) {
        std::printf("%s, step %llu of seed %llu: %s\n", planner.name.c_str(),
                    static_cast<unsigned long long>(step),
                    static_cast<unsigned long long>(what.seed), broken.what());
        std::fflush(stdout);
      }
    }
    if (shows_progress && seconds_since(told) > 0.5) {
      told = clock_type::now();
      std::fprintf(stderr, "\r\033[K%s: %llu steps, %llu violations", planner.name.c_str(),
                   static_cast<unsigned long long>(step), static_cast<unsigned long long>(wrong));
    }
  }
  if (shows_progress) { std::fprintf(stderr, "\r\033[K"); }
  std::printf("{\"planner\": \"%s\", \"steps\": %llu, \"violations\": %llu, \"seconds\": %.1f}\n",
              planner.name.c_str(), static_cast<unsigned long long>(what.steps),
              static_cast<unsigned long long>(wrong), seconds_since(start));
  std::fflush(stdout);
  return wrong;
}

}  // namespace

int main(int argc, char** argv)
{
  std::vector<std::string_view> arguments(argv + 1, argv + argc);
  chosen what;
  if (arguments.size() >= 2 && arguments[0] == "--planner") {
    what.planner = arguments[1];
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  if (arguments.size() >= 2 && arguments.size() <= 3) {
    what.steps = std::strtoull(arguments[0].data(), nullptr, 10);
    what.seed = std::strtoull(arguments[1].data(), nullptr, 10);
    if (arguments.size() == 3) { what.first = std::strtoull(arguments[2].data(), nullptr, 10); }
  }
  if (what.steps == 0) {
    std::fprintf(stderr, "usage: planner_soak [--planner NAME] STEPS SEED [FIRST]\n");
    return 2;
  }
  GTEST_FLAG_SET(throw_on_failure, true);  // the tests' checks are used here too
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_set_death_callback(tell_current_step);
#endif
  ballast::set_precondition_handler([](ballast::broken_precondition const& broken) {
    std::fprintf(stderr, "%s:%d: %s\n", broken.file, broken.line, broken.sentence);
    tell_current_step();
  });
  std::vector<ballast_soak::soaked_planner> planners;
  ballast_soak::add_partitions(planners);
  ballast_soak::add_bins_and_grids(planners);
  ballast_soak::add_groups_and_bags(planners);
  ballast_soak::add_pipelines(planners);
  ballast_soak::add_layouts(planners);
  ballast_soak::add_chains_and_experts(planners);
  bool const is_name = std::ranges::any_of(
      planners, [&](auto const& planner) { return planner.name == what.planner; });
  std::uint64_t wrong = 0;
  std::size_t run = 0;
  for (auto const& planner : planners) {
    bool const is_meant = is_name ? planner.name == what.planner
                                  : planner.name.find(what.planner) != std::string::npos;
    if (!is_meant) { continue; }
    wrong += soak(planner, what);
    ++run;
  }
  if (run == 0) {
    std::fprintf(stderr, "no planner is called so; there are:\n");
    for (auto const& planner : planners) { std::fprintf(stderr, "  %s\n", planner.name.c_str()); }
    return 2;
  }
  std::printf("%zu planners, %llu violations\n", run, static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}
