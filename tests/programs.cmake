# SPDX-License-Identifier: Apache-2.0
# What programs of examples/ print, beyond those that README shows: five systems from papers, trainers, and
# the others. Many compare with one rank by itself, and return an error where it has other losses.

# page_test(name program argument...): what the program prints is what docs/notes/five_systems.md says.
function(page_test name program)
  if(NOT TARGET example_${program})
    return()
  endif()
  add_test(NAME example_${name}
    COMMAND ${CMAKE_COMMAND} -D PROGRAM=$<TARGET_FILE:example_${program}> "-DARGUMENTS=${ARGN}"
      -D PAGE=${PROJECT_SOURCE_DIR}/docs/notes/five_systems.md
      -P ${CMAKE_CURRENT_SOURCE_DIR}/papers/on_page.cmake)
  set_tests_properties(example_${name} PROPERTIES LABELS five_systems COST 5)
endfunction()
# The tables of docs/notes/five_systems.md.
add_custom_target(five_systems
  COMMAND ${CMAKE_CTEST_COMMAND} --verbose -L five_systems USES_TERMINAL)
if(TEST unit_papers)
  set_tests_properties(unit_papers PROPERTIES LABELS five_systems)
endif()
example_test(first_pipeline first_pipeline "rank 1: w 1.000, loss 0.00000")
example_test(first_data first_data "the ranks trained on 497514 and 497508 bytes")
example_test(own_trainer own_trainer "at most 0.00 % above the best plan there is")
foreach(name IN ITEMS all_five knapformer orchmllm disttrain flexrl rows_of_documents)  # compare with one rank
  example_test(${name} ${name} "")
endforeach()
example_test(dflop_steps dflop  # likewise; from measured times another layout
  "a layout of tp 4 pp 1 dp 1, tp 2 pp 2 dp 1 would take 0.98 times as long")
example_test(slots_of_groups slots_of_groups
  "groups of 5 3.*groups of 4 4.*losses and gradients of one rank")
example_test(rollouts rollouts "in waves 1.000")
if(IS_DIRECTORY ${data})
  set(images ${data}/coco_val2017_images.csv)
  set(documents ${data}/interleaved_docs.csv)
  set(videos ${data}/nextqa_video.csv)
  page_test(orchmllm_traces orchmllm
    ${data}/servegen_mm_image_sampled.csv ${data}/librispeech_mix_audio.csv)
  page_test(disttrain_traces disttrain ${documents} ${videos})
  page_test(all_five_traces all_five ${videos})
  example_test(flexrl_traces flexrl "" ${videos})
  example_test(flexrl_groups flexrl "" ${data}/rl_groups.csv)
  example_test(rollouts_traces rollouts "in waves 1.00" ${data}/servegen_reason_sampled.csv)
  page_test(dflop dflop ${images} ${documents} ${videos})
  page_test(dflop_data dflop ${images} ${documents} ${videos} data)
  page_test(dflop_nodes dflop ${images} ${documents} ${videos} some_nodes)
  page_test(dflop_audio dflop ${data}/librispeech_mix_audio.csv)
  page_test(dflop_gains_audio dflop ${data}/librispeech_mix_audio.csv gains)
  page_test(dflop_gains dflop ${images} ${documents} ${videos} some_gains)
else()
  foreach(name IN ITEMS example_dflop example_dflop_data example_dflop_nodes example_dflop_audio
      example_dflop_gains example_dflop_gains_audio)
    skipped_test(${name} "the traces are not there")
  endforeach()
endif()
if(TARGET example_trainer_mpi AND MPIEXEC_EXECUTABLE)
  # The same training by the calls that step_balancer makes: bit for bit.
  add_executable(trainer_by_hand trainers/by_hand.cpp)
  target_link_libraries(trainer_by_hand PRIVATE ballast::compiled ballast_warnings)
  add_test(NAME example_trainer_mpi
    COMMAND ${CMAKE_COMMAND} "-DFIRST=$<TARGET_FILE:trainer_by_hand>"
      "-DSECOND=${MPIEXEC_EXECUTABLE};${MPIEXEC_NUMPROC_FLAG};8;$<TARGET_FILE:example_trainer_mpi>"
      -P ${CMAKE_CURRENT_SOURCE_DIR}/trainers/same_output.cmake)
  set_tests_properties(example_trainer_mpi PROPERTIES
    PROCESSORS 2 TIMEOUT 240 ENVIRONMENT "${mpi_environment}")
endif()
if(TARGET example_accumulate_mpi AND MPIEXEC_EXECUTABLE)  # compares with one rank by itself
  add_test(NAME example_accumulate_mpi
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 8 $<TARGET_FILE:example_accumulate_mpi>)
  set_tests_properties(example_accumulate_mpi PROPERTIES
    PROCESSORS 2 TIMEOUT 240 ENVIRONMENT "${mpi_environment}")
endif()
if(TARGET example_process_gpus_mpi AND MPIEXEC_EXECUTABLE)  # compares what comes home
  add_test(NAME example_process_gpus_mpi
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:example_process_gpus_mpi>)
  set_tests_properties(example_process_gpus_mpi PROPERTIES
    PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}")
endif()
if(TARGET example_orchmllm AND MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
  add_test(NAME example_orchmllm_mpi  # what it prints on threads, bit for bit
    COMMAND ${CMAKE_COMMAND} "-DFIRST=$<TARGET_FILE:example_orchmllm>;train"
      "-DSECOND=${MPIEXEC_EXECUTABLE};${MPIEXEC_NUMPROC_FLAG};8;$<TARGET_FILE:example_orchmllm>;train;mpi"
      -P ${CMAKE_CURRENT_SOURCE_DIR}/trainers/same_output.cmake)
  set_tests_properties(example_orchmllm_mpi PROPERTIES
    PROCESSORS 2 TIMEOUT 240 ENVIRONMENT "${mpi_environment}")
endif()
foreach(name IN ITEMS all_five disttrain dflop flexrl slots_of_groups rows_of_documents)  # with one rank
  if(TARGET example_${name} AND MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
    add_test(NAME example_${name}_mpi
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 8 $<TARGET_FILE:example_${name}> mpi)
    set_tests_properties(example_${name}_mpi PROPERTIES
      PROCESSORS 2 TIMEOUT 240 ENVIRONMENT "${mpi_environment}")
  endif()
endforeach()
if(TARGET example_data_pipeline)
  example_test(data_pipeline data_pipeline "59 of 60 samples trained 2 times.* as decoded by one process")
  if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
    add_test(NAME example_data_pipeline_mpi
      COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 6 $<TARGET_FILE:example_data_pipeline> mpi)
    set_tests_properties(example_data_pipeline_mpi PROPERTIES
      PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}")
  endif()
else()
  skipped_test(example_data_pipeline "libjpeg was not found")
endif()
if(TARGET example_loaders_to_pipeline)
  set(right "texts that they compute.276.0 KB fetched in all; through one GPU 502.0 KB.every sample once an epoch; 10 steps")
  example_test(loaders_to_pipeline loaders_to_pipeline "loader 6 was lost.*${right}")
  if(MPI_CXX_FOUND AND MPIEXEC_EXECUTABLE)
    set(run ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 8)
    add_test(NAME example_loaders_to_pipeline_mpi
      COMMAND ${run} $<TARGET_FILE:example_loaders_to_pipeline> mpi)
    set_tests_properties(example_loaders_to_pipeline_mpi PROPERTIES
      PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}")
    foreach(sample RANGE 0 9 3)  # at which a loader is killed; over threads all ten
      add_test(NAME example_loaders_to_pipeline_killed_${sample}
        COMMAND ${run} --enable-recovery $<TARGET_FILE:example_loaders_to_pipeline> mpi ${sample})
      set_tests_properties(example_loaders_to_pipeline_killed_${sample} PROPERTIES
        PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}"
        PASS_REGULAR_EXPRESSION "loader 6 was lost.*${right}")
    endforeach()
  endif()
endif()
