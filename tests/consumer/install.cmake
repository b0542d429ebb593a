# SPDX-License-Identifier: Apache-2.0
# cmake -D SOURCE=<ballast> -D BINARY=<its build> -D STAGE=<folder> [-D PROGRAM=ON] -P install.cmake
#
# Leaves an installation in STAGE/prefix, with pages, examples and, if asked, the program, and a source
# archive in STAGE/ballast.tar.gz. Both are made anew, so that nothing a release would lack can linger.

file(REMOVE_RECURSE ${STAGE})
file(MAKE_DIRECTORY ${STAGE})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BINARY} --prefix ${STAGE}/prefix
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
execute_process(
  COMMAND ${CMAKE_COMMAND} -E tar cz ${STAGE}/ballast.tar.gz CMakeLists.txt LICENSE cmake compiled include
  WORKING_DIRECTORY ${SOURCE} COMMAND_ERROR_IS_FATAL ANY)

set(expected share/doc/ballast/docs/installing.md share/doc/ballast/examples/first_plan.cpp
  share/doc/ballast/LICENSE)
if(PROGRAM)
  list(APPEND expected bin/ballast)
  execute_process(COMMAND ${STAGE}/prefix/bin/ballast --version OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endif()
foreach(file IN LISTS expected)
  if(NOT EXISTS ${STAGE}/prefix/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()
