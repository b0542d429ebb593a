# SPDX-License-Identifier: Apache-2.0
# cmake -D BALLAST=<program> -D OUTPUT=<folder> -P demo.cmake
#
# Plans batches of images for 32 GPUs over bags of one to eight GPUs, and draws the plan for bags of
# four; orders the microbatches of a pipeline; searches for the layout of a model; then plans the
# lengths of a file, where the environment names one: BALLAST_TRACE=<file.csv>
# BALLAST_LENGTH=<expression over its columns>.

function(run)
  list(JOIN ARGN " " arguments)
  # message() writes to standard error, but the tables go to standard output.
  execute_process(COMMAND ${CMAKE_COMMAND} -E echo "\n$ ballast ${arguments}")
  execute_process(COMMAND ${BALLAST} ${ARGN} RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "ballast ended with status ${status}")
  endif()
endfunction()

function(demonstrate name)
  list(APPEND ARGN --cost transformer:d=3072,gamma=0.405 --gpus 32)
  run(plan ${ARGN} --bags g1n32 --bags g2n16 --bags g4n8 --bags g8n4)
  run(plan ${ARGN} --bags g4n8
    --report ${OUTPUT}/${name}.html --timeline ${OUTPUT}/${name}.json)
endfunction()

demonstrate(ballast --codes g16b4i256f1s0,g4b5i512f1s0,g4b5i1024f1s0,g8b1i2048f1s0)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH project)
run(pipeline --durations ${project}/examples/pipeline_times.csv
  --report ${OUTPUT}/pipeline.html --timeline ${OUTPUT}/pipeline.json)
run(search --profile ${project}/examples/layout_profile.csv
  --data ${project}/examples/layout_data.csv --gpus 64 --memory 80GB --global-batch 512
  --print 20 --report ${OUTPUT}/layouts.html)

if(NOT "$ENV{BALLAST_TRACE}" STREQUAL "")
  if("$ENV{BALLAST_LENGTH}" STREQUAL "")
    message(FATAL_ERROR "BALLAST_TRACE is set but BALLAST_LENGTH is not: name the column that holds \
the lengths, or an expression such as text_tokens+visual_tokens")
  endif()
  demonstrate(trace --trace $ENV{BALLAST_TRACE} --length $ENV{BALLAST_LENGTH})
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E echo
  "\nOpen the pages in a browser and the timelines at https://ui.perfetto.dev\n")
