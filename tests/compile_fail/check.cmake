# SPDX-License-Identifier: Apache-2.0
# cmake -D CXX=<compiler> -D SOURCE=<what.cpp> -D INCLUDE=<folders> -P check.cmake

set(ENV{LC_ALL} C)  # in other locales compilers quote names with other characters

function(compile source status output)
  list(TRANSFORM INCLUDE PREPEND -I OUTPUT_VARIABLE folders)
  execute_process(COMMAND ${CXX} -std=c++20 -fsyntax-only ${folders} ${source}
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  set(${status} ${code} PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

file(STRINGS ${SOURCE} first_line LIMIT_COUNT 1)
if(NOT first_line MATCHES "^// EXPECT: (.+)$")
  message(FATAL_ERROR "${SOURCE}:1: the first line must be '// EXPECT: <regular expression>'")
endif()
set(expected "${CMAKE_MATCH_1}")

string(REGEX REPLACE "\\.cpp$" "_ok.cpp" twin ${SOURCE})
compile(${twin} status output)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${twin} must compile, but:\n${output}")
endif()

compile(${SOURCE} status output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not")
endif()
if(NOT output MATCHES "${expected}")
  message(FATAL_ERROR "${SOURCE} is rejected without a message like '${expected}':\n${output}")
endif()
