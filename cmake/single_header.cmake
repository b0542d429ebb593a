# SPDX-License-Identifier: Apache-2.0
# cmake -D OUTPUT=<folder> [-D EXPECTED=<tl/expected.hpp>] -P single_header.cmake
#
# Writes ballast_single.hpp, which is ballast/ballast.hpp and all that it includes in one file, and for
# each other umbrella ballast/<floor>.hpp a ballast_<floor>_single.hpp. Every header stands where it was
# first included, with a guard in place of its `#pragma once`, so several of these files may meet in one
# source file. Headers of the folder may not join them. tl/expected.hpp is among them, if it is found: else
# the user's -I has to find it.

cmake_minimum_required(VERSION 3.25)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH project)
if(NOT OUTPUT)
  message(FATAL_ERROR "say where the files go: cmake -D OUTPUT=<folder> -P single_header.cmake")
endif()
if(DEFINED EXPECTED AND NOT EXISTS "${EXPECTED}")
  message(FATAL_ERROR "EXPECTED names ${EXPECTED}, which is not there")
endif()
find_file(EXPECTED tl/expected.hpp PATHS /usr/local/include /usr/include)

# What core/result.hpp has for tl/expected.hpp, which is replaced as a whole.
set(asks_for_expected "#if __has_include(<tl/expected.hpp>)\n")
set(has_expected "#endif\n")
set(expected "")
if(EXPECTED)
  file(READ ${EXPECTED} expected)
endif()

# append(header) adds a header and what it includes to `text`, each once. Text is cut by positions and
# never in a list: lists of CMake do not bear brackets and semicolons.
function(append header)
  file(READ ${project}/include/${header} rest)
  string(MAKE_C_IDENTIFIER "${header}" guard)
  string(TOUPPER "${guard}" guard)
  string(REPLACE "\n#pragma once\n" "\n#ifndef ${guard}\n#define ${guard}\n" rest "${rest}")
  while(rest MATCHES "\n#include <(ballast/[^>\n]+)>[^\n]*")
    set(line "${CMAKE_MATCH_0}")
    set(included "${CMAKE_MATCH_1}")
    string(FIND "${rest}" "${line}" begin)
    string(SUBSTRING "${rest}" 0 ${begin} before)
    string(LENGTH "${line}" length)
    math(EXPR end "${begin} + ${length}")
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(APPEND text "${before}")
    if(included MATCHES "/detail/compiled_")
      # It is for who links ballast::compiled, and would take headers away from everybody else.
    elseif(NOT included IN_LIST done)
      list(APPEND done ${included})
      string(APPEND text "\n")
      append(${included})
    endif()
  endwhile()
  string(FIND "${rest}" "${asks_for_expected}" begin)
  if(EXPECTED AND NOT begin EQUAL -1)
    string(SUBSTRING "${rest}" 0 ${begin} before)
    string(SUBSTRING "${rest}" ${begin} -1 rest)
    string(FIND "${rest}" "${has_expected}" end)
    string(LENGTH "${has_expected}" length)
    math(EXPR end "${end} + ${length}")
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(APPEND text "${before}${expected}")
  endif()
  string(APPEND text "${rest}#endif  // ${guard}\n")
  set(text "${text}" PARENT_SCOPE)
  set(done "${done}" PARENT_SCOPE)
endfunction()

function(write_single umbrella file)
  set(text "// ${umbrella} of ballast and all that it includes, written by cmake/single_header.cmake.
// Licence: Apache-2.0, https://www.apache.org/licenses/LICENSE-2.0\n")
  if(EXPECTED)
    string(APPEND text "// tl/expected.hpp among it is in the public domain: CC0.\n")
  endif()
  set(done ${umbrella})
  append(${umbrella})
  if(text MATCHES "\n#include <ballast/" OR (EXPECTED AND text MATCHES "\n#include <tl/"))
    message(FATAL_ERROR "${file} still includes a header: cmake/single_header.cmake has to learn its form")
  endif()
  file(WRITE ${OUTPUT}/${file} "${text}")
endfunction()

write_single(ballast/ballast.hpp ballast_single.hpp)
file(GLOB umbrellas RELATIVE ${project}/include ${project}/include/ballast/*.hpp)
list(REMOVE_ITEM umbrellas ballast/ballast.hpp ballast/version.hpp)
foreach(umbrella IN LISTS umbrellas)
  cmake_path(GET umbrella STEM floor)
  write_single(${umbrella} ballast_${floor}_single.hpp)
endforeach()
