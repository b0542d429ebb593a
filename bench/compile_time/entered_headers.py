#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the headers outside core whose functions one call enters: of partition(), and of
step_balancer::plan() on four ranks. It compiles two lines of a user with --coverage and counts."""

import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """
#include <ballast/comm.hpp>
#include <ballast/cost.hpp>
#include <ballast/partition.hpp>
#include <ballast/runtime.hpp>
extern "C" void __gcov_reset();
extern "C" void __gcov_dump();
int main(int argc, char**)
{
  using namespace ballast;
  constexpr auto cost = "transformer:d=3072,gamma=0.405"_cost;
  bag_layout const bags("g2n1+g1n2"_bags, 4);
  std::vector<std::vector<tokens>> const read = {{9000, 300}, {400}, {2500, 800, 100}, {1200}};
  auto const counted = [](auto const& call) { __gcov_reset(); call(); __gcov_dump(); __gcov_reset(); };
  if (argc > 1) {
    counted([&] { (void)or_throw(partition(std::vector<tokens>{9000, 300, 400, 2500, 800}, bags, cost)); });
    return 0;
  }
  run_ranks(4, [&](auto& comm) {
    step_balancer balancer(comm, bags, cost, refine{});
    auto const plan = [&] { or_throw(balancer.plan(read[comm.rank()])); };
    comm.rank() == to_id<rank_id>(0U) ? counted(plan) : plan();
  });
}
"""


def entered(folder, argument):
    for old in folder.glob("*.gcda"):
        old.unlink()
    subprocess.run([folder / "entered", *argument], check=True, cwd=folder)
    printed = subprocess.run(["gcov", "--json-format", "--stdout", "entered.gcda"], check=True,
                             cwd=folder, capture_output=True, text=True).stdout
    headers = []
    for file in json.loads(printed)["files"]:
        name = file["file"].partition("include/ballast/")[2]
        was_called = any(each["execution_count"] > 0 for each in file["functions"])
        if name and was_called and not name.startswith("core/"):
            headers.append(name)
    return sorted(headers)


with tempfile.TemporaryDirectory() as name:
    where = pathlib.Path(name)
    (where / "entered.cpp").write_text(PROGRAM)
    subprocess.run(["g++", "-std=c++20", "-O0", "--coverage", "-pthread", f"-I{ROOT / 'include'}",
                    "-o", "entered", "entered.cpp"], check=True, cwd=where)
    for call, argument in (("partition", ["partition"]), ("step_balancer::plan", [])):
        all_entered = entered(where, argument)
        print(f"{call}: {len(all_entered)}")
        print("  " + "\n  ".join(all_entered))
