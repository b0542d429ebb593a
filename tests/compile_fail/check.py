#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a compiler says of misuse.cpp (check.py COMPILER OPTION...): nothing, and with REJECTED of each case
the message that it expects; and what one of an older standard says of the library. People read three lines:
those that quote the program or say where a file is included are not among them."""

import os
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).with_name("misuse.cpp")
OLD_STANDARD = "ballast needs C++20: compile with -std=c++20"
CONTEXT = re.compile(r": (In|At) .*:$|: +(recursively )?required from |: +in 'constexpr' expansion ")


def output_of(*options, text=None):
    # In other locales names are quoted otherwise.
    run = subprocess.run([*sys.argv[1:], "-fsyntax-only", *options], input=text,
                         env={**os.environ, "LC_ALL": "C"}, text=True, stderr=subprocess.PIPE)
    return run.returncode, run.stderr


def read_cases():
    """The cases as (first line, line behind the last one, expected message)."""
    cases = []
    lines = SOURCE.read_text().splitlines()
    for number, line in enumerate(lines, 1):
        if "// EXPECT: " in line and "each line" not in line:
            end = next(at for at in range(number, len(lines))
                       if lines[at].startswith("#endif") or "// EXPECT: " in lines[at])
            cases.append((number, end + 1, line.split("// EXPECT: ")[1]))
    return cases


def errors_of(output):
    """Each error with the lines that say where it is, before or behind it."""
    errors = []
    context = []
    for line in output.splitlines():
        if re.match(r" +[0-9]* \||In file included| +from ", line):
            continue
        if CONTEXT.search(line):
            context.append(line)
            continue
        context.append(line)
        is_error = re.search(r": (fatal )?error: ", line)
        if errors and (not is_error or errors[-1][-1].endswith("because:")):
            errors[-1].extend(context)
        else:
            errors.append(context)
        context = []
    return errors


def main():
    options = ["-std=c++20", "-DBALLAST_COMPILED", SOURCE]  # as most users read the headers, and soonest
    status, output = output_of(*options)
    if status != 0:
        sys.exit("misuse.cpp must compile, but:\n" + output)
    status, output = output_of("-DREJECTED", *options)
    cases = read_cases()
    first = {}
    wrong = []
    for error in errors_of(output):
        places = [int(line) for line in re.findall(r"misuse\.cpp:(\d+):", "\n".join(error))]
        case = next((case for place in places for case in cases if case[0] <= place < case[1]), None)
        if case is None:
            wrong.append("no case is rejected with\n" + "\n".join(error))
        else:
            first.setdefault(case, error)
    for case in cases:
        if case not in first:
            wrong.append(f"misuse.cpp:{case[0]}: the case compiles, but must not: {case[2]}")
        elif not re.search(case[2], "\n".join(first[case][:3])):
            wrong.append(f"misuse.cpp:{case[0]}: is rejected without a message like '{case[2]}' in the first "
                         "three lines:\n" + "\n".join(first[case]))
    old, output = output_of("-std=c++17", "-x", "c++", "-", text="#include <ballast/ballast.hpp>\n")
    said = errors_of(output)
    if old == 0 or output.count("\n") > 20 or OLD_STANDARD not in "\n".join(said[0][:3]):
        wrong.append("C++17 is to be rejected with one sentence, and is with:\n" + output)
    if len(cases) < 40:
        wrong.append(f"{len(cases)} cases were found")
    if status == 0 or wrong:
        sys.exit("\n\n".join(wrong))
    print(len(cases), "cases are rejected as they should be")


main()
