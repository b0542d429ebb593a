# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of a built libballast_c; it needs nothing but Python.

    python3 make_wheel.py LIBRARY FOLDER    # prints the path of the wheel that it wrote there

The wheel runs on every Python from 3.9 on, and on every Linux whose C library is as new as what the
library was linked with asks for, at most 2.34.
"""
from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MOST_GLIBC = 34  # what the name of the wheel promises
MACHINES = {62: "x86_64", 183: "aarch64"}  # of an ELF file
CODES = {"size_t": "N", "uint64_t": "Q", "int64_t": "q", "uint32_t": "I", "double": "d",
         "int": "i", "int32_t": "i"}


def code_of(declaration: str) -> str:
    """Of a member or parameter of the header: a text, another pointer, or a number."""
    if "*" in declaration:
        return "s" if re.match(r"char const\*( const)? *\w*$", declaration) else "P"
    return CODES.get(declaration.split()[0], declaration.split()[0])  # a struct: its name


def tables_of(header: str) -> str:
    """What ctypes has to know of the header, as source of Python."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    structs, functions = {}, {}
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, re.DOTALL):
        members = [" ".join(each.split()) for each in body.split(";") if each.strip()]
        structs[name] = " ".join(f"{each.split()[-1].strip('*')}:{code_of(each)}"
                                 for each in members)
    for returns, name, given in re.findall(
            r"BALLAST_C_API ([^;(]*?[ *])(\w+)\(((?:[^()]|\([^()]*\))*)\);", text):
        parameters = [" ".join(each.split()) for each in re.split(r",(?![^(]*\))", given)]
        codes = "".join(code_of(each) for each in parameters if each != "void")
        result = " ".join(returns.split())
        functions[name] = ("" if result == "void" else code_of(result + " r")) + ":" + codes
    lines = ["# Made of ballast.h: members of structs, and results and parameters of functions.",
             f"STRUCTS = {structs!r}", f"FUNCTIONS = {functions!r}"]
    return "\n".join(lines).replace("', 'ballast", "',\n    'ballast") + "\n"


def version_of(header: str) -> str:
    number = int(re.search(r"#define BALLAST_VERSION (\d+)", header)[1])
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def commit() -> str:
    """+g and the commit, where the tree is a checkout and git is there."""
    try:
        done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=10", "HEAD"],
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"+g{done.stdout.strip()}"


def newest_glibc(library: bytes) -> int:
    """The newest 2.N of the C library that the file needs."""
    return max((int(found) for found in re.findall(rb"GLIBC_2\.(\d+)\b", library)), default=0)


def record_of(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def main(library: str, folder: str) -> str:
    include = ROOT / "include/ballast/version.hpp"
    version = version_of(include.read_text(encoding="utf-8"))
    compiled = pathlib.Path(library).read_bytes()
    if newest_glibc(compiled) > MOST_GLIBC:
        raise SystemExit(f"{library} needs glibc 2.{newest_glibc(compiled)}, and the wheel promises "
                         f"2.{MOST_GLIBC}; link it on an older system")
    if b"libstdc++.so" in compiled:
        raise SystemExit(f"{library} needs a libstdc++.so; link it with -static-libstdc++")
    header = (HERE.parent / "c_interface/ballast.h").read_text(encoding="utf-8")
    files = {f"ballast/{path.name}": path.read_bytes()
             for path in sorted((HERE / "src/ballast").iterdir())
             if path.suffix in (".py", ".pyi", ".typed")}
    files["ballast/_header.py"] = tables_of(header).encode()
    files["ballast/_version.py"] = f'VERSION = "{version}{commit()}"\n'.encode()
    files["ballast/libballast_c.so"] = compiled
    machine = MACHINES.get(int.from_bytes(compiled[18:20], "little"))
    if compiled[:4] != b"\x7fELF" or machine is None:
        raise SystemExit(f"{library} is no library for Linux on {' or '.join(MACHINES.values())}")
    tag = f"py3-none-manylinux_2_{MOST_GLIBC}_{machine}"
    about = f"ballast-{version}.dist-info"
    files[f"{about}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: ballast\nVersion: {version}\n"
        "Summary: Balanced batches for distributed training: which GPU computes which samples\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\n").encode()
    files[f"{about}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{about}/WHEEL"] = ("Wheel-Version: 1.0\nGenerator: make_wheel.py\n"
                               f"Root-Is-Purelib: false\nTag: {tag}\n").encode()
    records = [record_of(*each) for each in files.items()] + [f"{about}/RECORD,,"]
    files[f"{about}/RECORD"] = ("\n".join(records) + "\n").encode()
    os.makedirs(folder, exist_ok=True)
    wheel = os.path.join(folder, f"ballast-{version}-{tag}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # without a time: the same bytes of the same files
            entry.external_attr = 0o100644 << 16
            packed.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("give the library and the folder for the wheel")
    print(main(*sys.argv[1:]))
