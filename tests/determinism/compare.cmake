# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAMS=<programs> -P compare.cmake: all must print the same lines, and at least one.

set(expected "")
foreach(program IN LISTS PROGRAMS)
  execute_process(COMMAND ${program}
    OUTPUT_VARIABLE digests RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${program} ended with status ${status}")
  endif()
  if(digests STREQUAL "")
    message(FATAL_ERROR "${program} printed nothing")
  endif()
  if(expected STREQUAL "")
    set(expected "${digests}")
    set(first ${program})
  elseif(NOT digests STREQUAL expected)
    message(FATAL_ERROR "plans differ\n${first}:\n${expected}\n${program}:\n${digests}")
  endif()
endforeach()
message("${expected}")
