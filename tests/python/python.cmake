# SPDX-License-Identifier: Apache-2.0
# Installs the wheel twice, beside NumPy and torch and without anything, runs the tests and mypy, and
# prints what calls cost.

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BINARY} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "this failed: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${BINARY}/alone ${BINARY}/venv)
set(ENV{PIP_DISABLE_PIP_VERSION_CHECK} 1)
set(ENV{PIP_ROOT_USER_ACTION} ignore)
run(${PYTHON} -m venv --without-pip alone)
run(${PYTHON} -m pip --python ${BINARY}/alone/bin/python -q install --no-index ${WHEEL})
run(${BINARY}/alone/bin/python ${SOURCE}/tests/python/alone.py)
run(${PYTHON} -m venv --system-site-packages --without-pip venv)
set(python ${BINARY}/venv/bin/python)
run(${python} -m pip -q install --no-deps --no-index ${WHEEL})

run(${python} -m unittest discover -b -s ${SOURCE}/tests/python)
run(${python} -m mypy --strict --cache-dir ${BINARY}/mypy -p ballast)
run(${python} ${SOURCE}/examples/python/overhead.py)
