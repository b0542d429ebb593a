# SPDX-License-Identifier: Apache-2.0
"""conan create packaging/conan: a package of the tree that this recipe lies in (Conan 2)."""
import os

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy

TREE = ("CMakeLists.txt", "CHANGELOG.md", "LICENSE", "README.md", "cmake/*", "compiled/*", "docs/*",
        "examples/*", "include/*")


class Ballast(ConanFile):
    name = "ballast"
    version = "0.1.0"
    description = "Keeps every GPU of a distributed training job equally busy"
    license = "Apache-2.0"
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..")
        for pattern in TREE:
            copy(self, pattern, tree, self.export_sources_folder)

    def requirements(self):
        self.requires("tl-expected/1.1.0")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for option in ("TESTS", "BENCHMARKS", "COMPILED", "EXAMPLES"):
            toolchain.cache_variables[f"BALLAST_BUILD_{option}"] = False
        toolchain.cache_variables["BALLAST_ENABLE_CUDA"] = "OFF"
        # The headers need it, installing them does not.
        toolchain.cache_variables["TL_EXPECTED_INCLUDE_DIR"] = self.dependencies["tl-expected"].cpp_info.includedirs[0]
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_target_name", "ballast::core")
