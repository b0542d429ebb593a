# SPDX-License-Identifier: Apache-2.0
# cmake -D CXX=<compiler> -D SOURCE=<what.cpp> -D INCLUDE=<folders> [-D CASE=<macro>|-D STANDARD=c++17]
#   -P check.cmake

set(ENV{LC_ALL} C)  # in other locales compilers quote names with other characters
list(TRANSFORM INCLUDE PREPEND -I)
set(options -std=c++20 -DBALLAST_COMPILED)  # as most users read the headers, and soonest
if(DEFINED CASE)
  list(APPEND options -D${CASE})
  set(line "defined\\(${CASE}\\)")
elseif(DEFINED STANDARD)
  set(options -std=${STANDARD})
  set(line "__cplusplus")
endif()
execute_process(COMMAND ${CXX} ${options} -fsyntax-only ${INCLUDE} ${SOURCE}
  RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT DEFINED line)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${SOURCE} must compile, but:\n${output}")
  endif()
  return()
endif()

if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles with ${options}, but must not")
endif()
string(REGEX MATCHALL "\n" line_ends "${output}")
list(LENGTH line_ends line_count)
if(DEFINED STANDARD AND line_count GREATER 20)
  message(FATAL_ERROR "${SOURCE} is rejected with ${line_count} lines:\n${output}")
endif()

# People read three lines. Those that quote the program or say where a file is included are not
# among them.
string(REGEX REPLACE "\n +[0-9]* \\|[^\n]*" "" lines "\n${output}")
string(REGEX REPLACE "\n(In file included| +from)[^\n]*" "" lines "${lines}")
if(NOT lines MATCHES "^\n+([^\n]*\n[^\n]*\n[^\n]*)")
  message(FATAL_ERROR "${SOURCE} is rejected without three lines:\n${output}")
endif()
set(lines "${CMAKE_MATCH_1}")
file(READ ${SOURCE} written)
if(NOT written MATCHES "${line}[^\n]*\n *// EXPECT: ([^\n]*)")
  message(FATAL_ERROR "${SOURCE} does not say what is expected of ${options}")
endif()
set(expected "${CMAKE_MATCH_1}")
if(NOT lines MATCHES "${expected}")
  message(FATAL_ERROR "${SOURCE} is rejected without a message like '${expected}' in the first three "
    "lines:\n${output}")
endif()
