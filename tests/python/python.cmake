# SPDX-License-Identifier: Apache-2.0
# Builds the wheel once, installs it, runs the tests and mypy, and prints what calls cost.

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BINARY} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "this failed: ${ARGN}")
  endif()
endfunction()

file(REMOVE_RECURSE ${BINARY}/module ${BINARY}/wheels ${BINARY}/venv)
file(COPY ${SOURCE}/examples/python ${SOURCE}/examples/common  # setuptools writes beside its sources
  DESTINATION ${BINARY}/module PATTERN __pycache__ EXCLUDE PATTERN *.so EXCLUDE)
set(ENV{BALLAST_INCLUDE} ${SOURCE}/include:${EXPECTED})
set(ENV{CFLAGS} -O1)  # compiles in two thirds of the time
set(ENV{PIP_DISABLE_PIP_VERSION_CHECK} 1)
set(ENV{PIP_ROOT_USER_ACTION} ignore)
run(${PYTHON} -m pip -q wheel --no-deps --no-build-isolation --no-index -w wheels ./module/python)
file(GLOB wheel ${BINARY}/wheels/ballast-*.whl)
run(${PYTHON} -m venv --system-site-packages --without-pip venv)
set(python ${BINARY}/venv/bin/python)
run(${python} -m pip -q install --no-deps --no-index ${wheel})

run(${python} -m unittest discover -b -s ${SOURCE}/tests/python)
run(${python} -m mypy --strict --cache-dir ${BINARY}/mypy -p ballast)
run(${python} ${SOURCE}/examples/python/overhead.py)
if(IS_DIRECTORY "${DATA}")
  run(${python} ${SOURCE}/examples/python/compare_trainers.py ${DATA})
else()
  message("compare_trainers.py was not run: the traces are not there")
endif()
