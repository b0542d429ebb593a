#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes mistakes in the headers, one at a time, and says which of them tests find.

usage: run.py [--list] [--quick] [--only TEXT] [--every N] [FLOOR ...]

  --list   only look for the text of every mistake and for its tests, which takes a second
  --quick  do not first see that the tests pass without a mistake
  --only   only mistakes that have TEXT in their first line
  --every  only every Nth mistake

A mistake in FLOOR.txt is

    * what is wrong, in words
    - the text of a header, of which all of include/ has exactly one
    + what stands there instead (nothing, if the line is missing)
    by SUITE ...

and tests of these suites must fail. White space counts as one blank, so a text may go over several lines,
each with its sign. No path is named: headers and tests may move.

The headers are copied to a temporary folder, where CMake builds the files that have these suites, and no
others, without optimisation: some 15 seconds a mistake. CXX names another compiler; clang++-19 takes
half as long. A mistake is found if a test or a static assertion fails, or a test has not ended after five
minutes. Returns 1 unless every mistake is found.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent
# Programs that are not called after their folder.
PROGRAMS = {"gpu": "unit_copy_engine"}
# What begins a test, or says for which types those of a suite in a header run.
TEST = (r"^(?:(?:TEST|TEST_F|TEST_P|TYPED_TEST|TYPED_TEST_P|RC_GTEST_PROP)\("
        r"|INSTANTIATE_TYPED_TEST_SUITE_P\([A-Za-z]+, )(?:%s)\b")


def read_mistakes(path):
    """The mistakes of a file, as a list of (words, before, after, suites)."""
    mistakes = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        sign, _, rest = line.partition(" ")
        if sign == "*":
            mistakes.append((rest, [], [], []))
        elif sign == "-" and mistakes:
            mistakes[-1][1].append(rest)
        elif sign == "+" and mistakes:
            mistakes[-1][2].append(rest)
        elif sign == "by" and mistakes:
            mistakes[-1][3].extend(rest.split())
        elif line.strip() and sign != "#":
            sys.exit(f"{path.name}:{number}: a line begins with '#', '*', '-', '+' or 'by'")
    for words, before, _, suites in mistakes:
        if not before or not suites:
            sys.exit(f"{path.name}: '{words}' lacks a line '-' or 'by'")
    return [(words, " ".join(before), "\n".join(after), suites)
            for words, before, after, suites in mistakes]


def find_text(headers, before):
    """Where the text stands, as a list of (path, begin, end)."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in before.split()))
    return [(path, match.start(), match.end())
            for path, text in headers.items() for match in pattern.finditer(text)]


def find_program(tests, suites):
    """The program that has tests of all these suites, or None."""
    found = {}  # of each folder the suites that it has
    for path, text in tests.items():
        folder = path.relative_to(ROOT / "tests").parts[0]
        found.setdefault(folder, set()).update(
            suite for suite in suites if re.search(TEST % suite, text, re.MULTILINE))
    folders = [folder for folder, has in found.items() if has == set(suites)]
    return PROGRAMS.get(folders[0], "unit_" + folders[0]) if len(folders) == 1 else None


class Scratch:
    """A copy of the tree whose headers may be broken."""

    def __init__(self, folder):
        self.folder = folder
        self.suites = None
        for entry in ROOT.iterdir():
            if entry.name not in ("include", "build", ".git"):
                (folder / entry.name).symlink_to(entry)
        shutil.copytree(ROOT / "include", folder / "include")

    def configure(self, suites):
        if suites == self.suites:
            return
        self.suites = suites
        pattern = TEST % "|".join(suites)
        pattern = pattern.replace("(?:", "(").replace(r"\b", ",")  # as CMake writes it
        command = ["cmake", "-S", self.folder, "-B", self.folder / "build", "-G", "Ninja",
                   "-D", f"BALLAST_TESTS_WITH={pattern}", "-D", "CMAKE_BUILD_TYPE=",
                   "-D", "CMAKE_UNITY_BUILD=ON", "-D", "CMAKE_UNITY_BUILD_BATCH_SIZE=72",
                   "-D", "CMAKE_CXX_FLAGS=-O0 -w",
                   "-D", "BALLAST_ENABLE_CUDA=OFF", "-D", "BALLAST_BUILD_EXAMPLES=OFF",
                   "-D", "BALLAST_BUILD_CLI=OFF", "-D", "BALLAST_BUILD_BENCHMARKS=OFF"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def run(self, program):
        """'passed', 'failed' (static assertions as well), 'did not end', or why it does not compile."""
        build = self.folder / "build"
        target = subprocess.run(["cmake", "--build", build, "--target", program],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if target.returncode:
            errors = re.findall(r"(?<=error: ).*", target.stdout)
            if any(re.search("static.?assert", error) for error in errors):
                return "failed"
            return "does not compile: " + (errors or target.stdout.splitlines() or [""])[0]
        filters = ":".join(f"{suite}.*:{suite}/*:*/{suite}.*:*/{suite}/*" for suite in self.suites)
        command = ["ctest", "--test-dir", build, "-R", f"^{program}$"]
        environment = {**os.environ, "GTEST_FILTER": filters, "GTEST_FAIL_FAST": "1"}
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=environment, start_new_session=True) as ctest:
            try:
                return "failed" if ctest.wait(timeout=300) else "passed"
            except subprocess.TimeoutExpired:
                os.killpg(ctest.pid, signal.SIGKILL)
                return "did not end"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1][len("usage: "):])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("floors", nargs="*", metavar="FLOOR")
    options = parser.parse_args()
    paths = ([FOLDER / f"{floor}.txt" for floor in options.floors]
             or sorted(FOLDER.glob("*.txt")))
    headers = {path.relative_to(ROOT): path.read_text()
               for path in sorted((ROOT / "include").rglob("*.[hc]*"))}
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*_test.cpp")}

    ok = True
    seen = {}  # whether tests pass where nothing is wrong
    with tempfile.TemporaryDirectory(prefix="ballast_mistakes_") as folder:
        scratch = None if options.list else Scratch(pathlib.Path(folder))
        for path in paths:
            found = count = 0
            began = time.monotonic()
            # Mistakes of the same tests one after the other, so that these are configured once.
            chosen = [one for one in read_mistakes(path) if options.only in one[0]][::options.every]
            for words, before, after, suites in sorted(chosen, key=lambda one: one[3]):
                count += 1
                places = find_text(headers, before)
                program = find_program(tests, suites)
                if len(places) != 1:
                    outcome = f"the text is {len(places)} times in include/"
                elif program is None:
                    outcome = "the tests are not, or not all, in one program"
                elif options.list:
                    outcome = "failed"
                else:
                    outcome = try_mistake(scratch, headers, places[0], after, suites, program,
                                          None if options.quick else seen)
                is_found = outcome in ("failed", "did not end")
                found += is_found
                said = "found" if is_found else "MISSED" if outcome == "passed" else outcome
                if not (is_found and options.list):
                    print(f"{path.stem}: {said}: {words} [{', '.join(suites)}]", flush=True)
            ok = ok and found == count
            took = "" if options.list else f" in {time.monotonic() - began:.0f} s"
            print(f"{path.stem}: {found} of {count} mistakes {'can be made' if options.list else 'found'}"
                  f"{took}", flush=True)
    return 0 if ok else 1


def try_mistake(scratch, headers, place, after, suites, program, seen):
    scratch.configure(suites)
    key = tuple(suites)
    if seen is not None and key not in seen:
        seen[key] = scratch.run(program)
    if seen is not None and seen[key] != "passed":
        return f"without the mistake the tests are: {seen[key]}"
    path, begin, end = place
    text = headers[path]
    broken = scratch.folder / path
    broken.write_text(text[:begin] + after + text[end:])
    try:
        return scratch.run(program)
    finally:
        broken.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
