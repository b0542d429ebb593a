# SPDX-License-Identifier: Apache-2.0
# vcpkg install ballast --overlay-ports=packaging/vcpkg, of the tree that this file lies in.

cmake_path(SET tree NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../..)
vcpkg_cmake_configure(
  SOURCE_PATH ${tree}
  OPTIONS
    -D BALLAST_ENABLE_CUDA=OFF -D BALLAST_BUILD_TESTS=OFF -D BALLAST_BUILD_BENCHMARKS=OFF
    -D BALLAST_BUILD_COMPILED=OFF -D BALLAST_BUILD_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup()
file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/debug)  # nothing is compiled
vcpkg_install_copyright(FILE_LIST ${tree}/LICENSE)
