# SPDX-License-Identifier: Apache-2.0
# cmake -D NM=<nm> -D LIBRARY=<libballast_c> -D C=<c_interface_test> -D LIST=<interface.txt>
#       -P interface.cmake
#
# Fails unless the library exports the functions in the list and no others, and structs have the sizes
# there. What is in a release only grows: a new member goes to the end of its struct.

cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY} OUTPUT_VARIABLE exported
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "(^|\n)[0-9a-f]+ [A-Za-z] " "\\1" exported "${exported}")
execute_process(COMMAND ${C} sizes OUTPUT_VARIABLE sizes COMMAND_ERROR_IS_FATAL ANY)
file(READ ${LIST} expected)
if(NOT "${exported}${sizes}" STREQUAL expected)
  message(FATAL_ERROR "The interface is\n${exported}${sizes}and not what ${LIST} has.")
endif()
