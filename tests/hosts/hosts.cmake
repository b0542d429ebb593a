# SPDX-License-Identifier: Apache-2.0
# Runs the adapters' tests, and prints what they find beside their hosts' rules.

function(run)
  execute_process(COMMAND ${PYTHON} -B ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "this failed: ${PYTHON} ${ARGN}")
  endif()
endfunction()

if(NOT EXISTS ${PYTHON})
  message(FATAL_ERROR "${PYTHON} is not there; run the test python first")
endif()
run(-m unittest discover -s ${SOURCE}/tests/hosts)
if(IS_DIRECTORY "${DATA}")
  run(${SOURCE}/tests/hosts/compare_hosts.py ${DATA})
else()
  message("compare_hosts.py was not run: the traces are not there")
endif()
