# SPDX-License-Identifier: Apache-2.0
# cmake -D CXX=<compiler> -D SOURCE=<what.cpp> -D INCLUDE=<folders> -P check.cmake

set(ENV{LC_ALL} C)  # in other locales compilers quote names with other characters

# "// STANDARD: c++17" in a file says what it is compiled as. Then 20 lines of errors are enough.
function(compile source status output)
  set(standard c++20)
  file(STRINGS ${source} written REGEX "^// STANDARD: ")
  if(written MATCHES "STANDARD: (.+)$")
    set(standard ${CMAKE_MATCH_1})
  endif()
  list(TRANSFORM INCLUDE PREPEND -I OUTPUT_VARIABLE folders)
  execute_process(COMMAND ${CXX} -std=${standard} -fsyntax-only ${folders} ${source}
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(${status} ${code} PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// EXPECT: (.+)$")
  message(FATAL_ERROR "${SOURCE}:1: the first line must be '// EXPECT: <regular expression>'")
endif()
set(expected "${CMAKE_MATCH_1}")

# The file beside it that compiles, or the one that "// TWIN: file" names.
string(REGEX REPLACE "\\.cpp$" "_ok.cpp" twin ${SOURCE})
file(STRINGS ${SOURCE} named REGEX "^// TWIN: ")
if(named MATCHES "TWIN: (.+)$")
  cmake_path(REPLACE_FILENAME twin ${CMAKE_MATCH_1})
endif()
compile(${twin} status output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${twin} must compile, but:\n${output}")
endif()

compile(${SOURCE} status output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not")
endif()

string(REGEX MATCHALL "\n" line_ends "${output}")
list(LENGTH line_ends line_count)
file(STRINGS ${SOURCE} is_older REGEX "^// STANDARD: ")
if(is_older AND line_count GREATER 20)
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
if(NOT lines MATCHES "${expected}")
  message(FATAL_ERROR "${SOURCE} is rejected without a message like '${expected}' in the first three "
    "lines:\n${output}")
endif()
