# SPDX-License-Identifier: Apache-2.0
# tl::expected, from its CMake package or else from a bare <tl/expected.hpp>.

find_package(tl-expected CONFIG QUIET)
if(NOT TARGET tl::expected)
  find_path(TL_EXPECTED_INCLUDE_DIR tl/expected.hpp)
  mark_as_advanced(TL_EXPECTED_INCLUDE_DIR)
  if(TL_EXPECTED_INCLUDE_DIR)
    add_library(tl::expected INTERFACE IMPORTED)
    target_include_directories(tl::expected INTERFACE ${TL_EXPECTED_INCLUDE_DIR})
  endif()
endif()

if(TARGET tl::expected)
  set(tl-expected_FOUND TRUE)
else()
  set(tl-expected_FOUND FALSE)
  set(tl-expected_NOT_FOUND_MESSAGE
    "ballast needs <tl/expected.hpp>: install libexpected-dev (Debian, Ubuntu), or pass \
-DTL_EXPECTED_INCLUDE_DIR=<folder that holds tl/>")
  if(tl-expected_FIND_REQUIRED)
    message(FATAL_ERROR "${tl-expected_NOT_FOUND_MESSAGE}")
  endif()
endif()
