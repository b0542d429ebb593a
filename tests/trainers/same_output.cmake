# SPDX-License-Identifier: Apache-2.0
# Runs two commands, given as lists, and fails unless they print the same.

foreach(command IN ITEMS FIRST SECOND)
  execute_process(COMMAND ${${command}} OUTPUT_VARIABLE printed_by_${command} COMMAND_ERROR_IS_FATAL ANY)
  message("${${command}}:\n${printed_by_${command}}")
endforeach()
if(printed_by_FIRST STREQUAL "" OR NOT printed_by_FIRST STREQUAL printed_by_SECOND)
  message(FATAL_ERROR "They differ.")
endif()
