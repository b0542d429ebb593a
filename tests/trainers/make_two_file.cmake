# SPDX-License-Identifier: Apache-2.0
# Builds a copy of examples/two_file by its own Makefile, with nothing but -I, and runs it.

file(COPY ${SOURCE}/examples/two_file/ DESTINATION ${BINARY})
execute_process(COMMAND ${MAKE} BALLAST=${SOURCE} CXX=${CXX} NVCC=${NVCC}
  WORKING_DIRECTORY ${BINARY} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${BINARY}/train COMMAND_ERROR_IS_FATAL ANY)
