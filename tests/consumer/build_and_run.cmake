# SPDX-License-Identifier: Apache-2.0
# Builds the consumer PROJECT in BINARY, on what is installed in PREFIX, and runs it; with EXPECT, its configuration must fail with a
# message that matches.

function(must_succeed)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${BINARY} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(MAKE_DIRECTORY ${BINARY})
if(EXISTS ${PROJECT}/Makefile)
  file(COPY ${PROJECT}/Makefile ${PROJECT}/../main.cpp DESTINATION ${BINARY})
  file(GLOB_RECURSE package_files ${PREFIX}/*.pc)
  list(TRANSFORM package_files REPLACE "/[^/]*$" "")
  list(JOIN package_files ":" path)
  set(ENV{PKG_CONFIG_PATH} ${path})
  must_succeed(${MAKE} CXX=${CXX} BALLAST=${PREFIX})
  must_succeed(${BINARY}/main)
  return()
endif()

set(configure ${CMAKE_COMMAND} --fresh -G ${GENERATOR} -S ${PROJECT} -B ${BINARY}
  -D CMAKE_CXX_COMPILER=${CXX} -D CMAKE_PREFIX_PATH=${PREFIX}
  -D BALLAST_SOURCE=${SOURCE} -D BALLAST_ARCHIVE=${STAGE}/ballast.tar.gz)
if(CUDA)
  list(APPEND configure -D CMAKE_CUDA_COMPILER=${CUDA})
endif()

if(EXPECT)
  execute_process(COMMAND ${configure} -D REQUEST=${REQUEST}
    RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")  # the message may be wrapped anywhere
  if(status EQUAL 0 OR NOT text MATCHES "${EXPECT}")
    message(FATAL_ERROR "expected a refusal that says \"${EXPECT}\", got status ${status}:\n${text}")
  endif()
  return()
endif()

must_succeed(${configure})
must_succeed(${CMAKE_COMMAND} --build ${BINARY})
must_succeed(${BINARY}/main)
