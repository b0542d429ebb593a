# SPDX-License-Identifier: Apache-2.0
# One wheel with one compiled file. docs/python.md has the command.
import os
import re

import pybind11
from pybind11.setup_helpers import ParallelCompile
from setuptools import Extension, setup

# Where the headers are, if this folder was copied out of the tree, and where tl/expected.hpp is.
here = os.path.dirname(os.path.abspath(__file__))
include = os.environ.get("BALLAST_INCLUDE", os.path.join(here, "../../include")).split(":")
with open(os.path.join(include[0], "ballast/version.hpp"), encoding="utf-8") as header:
    number = int(re.search(r"#define BALLAST_VERSION (\d+)", header.read()).group(1))

ParallelCompile(default=2).install()  # both files at once
setup(
    name="ballast",
    version=f"{number // 10000}.{number // 100 % 100}.{number % 100}",
    description="Balanced batches for distributed training: which GPU computes which samples",
    license="Apache-2.0",
    package_dir={"": "src"},
    packages=["ballast"],
    package_data={"ballast": ["py.typed", "*.pyi"]},
    python_requires=">=3.9",
    install_requires=["numpy"],
    ext_modules=[
        Extension(
            "ballast._planner",
            ["bindings.cpp", "pipelines.cpp"],
            include_dirs=[pybind11.get_include(), *include],
            extra_compile_args=["-std=c++20", "-g0", "-fvisibility=hidden"],  # -O2 is Python's own
            extra_link_args=["-s"],
            language="c++",
        )
    ],
)
