# SPDX-License-Identifier: Apache-2.0
# cmake -D PROGRAM=<ballast> -D C=<c_interface_test> -D SOURCE=<ballast's folder> -D FOLDER=<for files>
#       -P same_plans.cmake
#
# Fails unless the program and the C interface decide the same.

cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})
foreach(input IN ITEMS trace durations)
  execute_process(COMMAND ${C} ${input} OUTPUT_FILE ${FOLDER}/${input}.csv COMMAND_ERROR_IS_FATAL ANY)
endforeach()
string(REPEAT "5,2632\n" 8 data)
file(WRITE ${FOLDER}/data.csv "vision,llm\n${data}")

# compare(<arguments of C> FORM <a line of the plan> TO <what C prints of it> PROGRAM argument...):
# other lines of the plan are left out, and of equal lines all but the first.
function(compare what)
  cmake_parse_arguments(PARSE_ARGV 1 a "" "FORM;TO" "PROGRAM")
  execute_process(COMMAND ${PROGRAM} ${a_PROGRAM} --plan - OUTPUT_VARIABLE plan ERROR_QUIET
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${C} ${what} OUTPUT_VARIABLE by_c COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" lines "${plan}")
  list(FILTER lines INCLUDE REGEX "${a_FORM}")
  list(TRANSFORM lines REPLACE "${a_FORM}" "${a_TO}")
  list(REMOVE_DUPLICATES lines)
  list(JOIN lines "\n" by_program)
  if(lines STREQUAL "" OR NOT "${by_program}\n" STREQUAL "${by_c}")
    message(FATAL_ERROR "${what}: by ${PROGRAM}\n${by_program}\nby ${C}\n${by_c}")
  endif()
endfunction()

set(job --trace ${FOLDER}/trace.csv --length tokens --no-shuffle --gpus 8
  --cost transformer:d=3072,gamma=0.405)
foreach(policy IN ITEMS refine refine:nodes=1000)
  compare("plan;${policy}" FORM "^0,([0-9]+),.*,([0-9]+)$" TO "\\1,\\2"
    PROGRAM plan ${job} --bags g1n4+g4n1 --policy ${policy})
endforeach()
compare(grid FORM "^0,([0-9]+),([0-9]+),([0-9]+),.*$" TO "\\1,\\2,\\3"
  PROGRAM plan ${job} --microbatches auto --most-per-gpu 65536)
compare(pack FORM "^0,([0-9]+),([0-9]+),[0-9]+$" TO "\\1,\\2"
  PROGRAM pack --trace ${FOLDER}/trace.csv --length tokens --most-per-gpu 65536)
foreach(policy IN ITEMS search insertion)
  compare("order;${policy}" FORM "^0,0,([0-9]+),forward,.*$" TO "\\1"
    PROGRAM pipeline --durations ${FOLDER}/durations.csv --order ${policy})
endforeach()
set(profile ${SOURCE}/examples/layout_profile.csv)
set(search search --profile ${profile} --data ${FOLDER}/data.csv --gpus 16 --memory 80GB
  --global-batch 64 --print 3)
foreach(further IN ITEMS "" ";further")
  set(options)
  if(further)
    set(options --more-gpus 8:40GB:0.5 --frozen vision --leave-gpus --state 2,2,12)
  endif()
  compare("layouts;${profile}${further}"
    FORM "^([0-9]+),[a-z]+,([0-9]+,[0-9]+,[0-9]+),1,1,[0-9]+,([0-9]+,[01]),1,[^,]+,[^,]+,([0-9]+),0,whole backwards$"
    TO "\\1,\\2,\\3,\\4"
    PROGRAM ${search} ${options})
endforeach()
