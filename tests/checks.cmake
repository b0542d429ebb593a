# SPDX-License-Identifier: Apache-2.0
# What takes longer than a developer waits: headers under three compilers, both tiers of tests under
# sanitizers, consumers, benchmarks, what needs nvcc, LibTorch or Python, and the checks of style. COST
# has the longest begin first, so that none is left over for one core at the end.

file(GLOB umbrellas CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_SOURCE_DIR}/include/ballast/*.hpp)
list(TRANSFORM umbrellas REPLACE ".+" "#include <\\0>")
list(JOIN umbrellas "\n" umbrellas)
file(CONFIGURE OUTPUT umbrellas.hpp CONTENT "${umbrellas}\n")

add_subdirectory(headers)
add_subdirectory(compile_fail)
add_subdirectory(trainers)
add_subdirectory(torch)
add_subdirectory(device)
add_subdirectory(determinism)
add_subdirectory(single_header)
add_subdirectory(python)
add_subdirectory(hosts)

if(TARGET ballast_bench)
  # Every benchmark, without those of its arguments that take longest.
  set(dear_arguments
    samples:1000000 samples:65536 "samples:4096/bags:64/(sigma|slack)" "pack_to_cap/.*sigma10:1"
    "samples:64000/capacity:(2048|32768)" "(local_search|_long)/.*slack_permille:(2|10)"
    work:20000000 tokens_per_gpu:4096 "gpus:64/models:50" steps:100 "evaluations:[0-9]{7}"
    "order/.*/(first|both|encoder)_" "^order/climb"
    "plain_search/.*:(30|60)" "choose_bags/.*gpus:1024" "place_by_node/ranks:2560"
    "capacity:8192/sigma10:10" "order/.*microbatches:9/" "^growth/" grid_many grid_trace
    "grid_naive/.*(ranks:16|sigma_x10:15)" "_counts/gpus:(256|1024)" "hybrid_sharding/gpus:(4096|16384)"
    "pipeline_runner/(truth|beside)" "problems:[0-9]{3}" "search_layouts/default/gpus:(256|1024|4096)"
    "search_layouts/(proof|scheduled|virtual_stages|side_by_side|groups|differs_from_all)/gpus:(64|256|1024)"
    "order/search/.*microbatches:64" "order/bound/.*ranks:16" "order/(bound|formulas)/.*every_stage"
    steps:250 side:2048 exact_few "unequal/drawn" beside_ under_refine
    "schedule/lengths/(two|log|one|heavy|slow)" "schedule/planned/.*microbatches:(32|64)"
    "equal_count/samples:(512|768)" "capped_equal_count/.*slack_permille:(2|10)" pad_kinds/family:2
    "pad_grid/.*ranks:64" microbatches:4096 "_experts/.*gpus:1024" "microbatch_scheduler/.*samples:2048")
  list(JOIN dear_arguments "|" dear)
  add_test(NAME bench
    COMMAND ballast_bench --benchmark_min_time=0.001 "--benchmark_filter=-${dear}")
  set_tests_properties(bench PROPERTIES COST 100)
endif()
if(TARGET ballast_mpi_bench AND MPIEXEC_EXECUTABLE)
  add_test(NAME bench_mpi
    COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} 4 $<TARGET_FILE:ballast_mpi_bench>
      --benchmark_filter=row_bytes:64/)
  set_tests_properties(bench_mpi PROPERTIES
    PROCESSORS 2 TIMEOUT 120 ENVIRONMENT "${mpi_environment}")
endif()

# Examples, read by clang with the warnings that users may ask for: what a header warns of where it is
# instantiated shows itself here. Sanitizers meet the same calls in units.
if(BALLAST_CLANGXX)
  set(examples "")
  set(example_definitions "")
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/examples/*.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    if(TARGET example_${name})
      list(APPEND examples ${source})
      get_target_property(definitions example_${name} COMPILE_DEFINITIONS)
      if(definitions)
        list(TRANSFORM definitions PREPEND -D)
        list(APPEND example_definitions ${definitions})
      endif()
    endif()
  endforeach()
  # All read what the examples include, once: a precompiled header takes two thirds of the time away.
  # What is compiled for them is instantiated in tests/determinism, with the same warnings.
  set(read_alone ${BALLAST_CLANGXX} -std=c++20 -DBALLAST_COMPILED ${ballast_user_warnings}
    ${example_definitions})
  set(precompiled ${CMAKE_CURRENT_BINARY_DIR}/alone_examples.pch)
  add_test(NAME alone_examples_header
    COMMAND ${read_alone} "-I$<JOIN:$<TARGET_PROPERTY:headers,INCLUDE_DIRECTORIES>,;-I>"
      "-D$<JOIN:$<TARGET_PROPERTY:headers,COMPILE_DEFINITIONS>,;-D>"
      -x c++-header ${CMAKE_CURRENT_BINARY_DIR}/umbrellas.hpp -o ${precompiled}
    COMMAND_EXPAND_LISTS)
  add_test(NAME alone_examples
    COMMAND ${read_alone} "-I$<JOIN:$<TARGET_PROPERTY:headers,INCLUDE_DIRECTORIES>,;-I>"
      "-D$<JOIN:$<TARGET_PROPERTY:headers,COMPILE_DEFINITIONS>,;-D>"
      -fsyntax-only -include-pch ${precompiled} ${examples}
    COMMAND_EXPAND_LISTS)
  set_tests_properties(alone_examples_header PROPERTIES FIXTURES_SETUP alone_examples COST 110)
  set_tests_properties(alone_examples PROPERTIES FIXTURES_REQUIRED alone_examples COST 100)
else()
  skipped_test(alone_examples "clang++-19 not found")
endif()

# Programs without exceptions get results, and so do the calls of a user's that could throw elsewhere.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  file(GLOB every_umbrella CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/ballast/*.hpp)
  list(TRANSFORM every_umbrella REPLACE ".+" "-include;\\0")
  get_target_property(expected_include tl::expected INTERFACE_INCLUDE_DIRECTORIES)
  add_test(NAME headers_without_exceptions
    COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fno-exceptions -fsyntax-only ${every_umbrella}
      -I${PROJECT_SOURCE_DIR}/include "-I$<JOIN:${expected_include},;-I>"
      ${CMAKE_CURRENT_SOURCE_DIR}/headers/without_exceptions.cpp
    COMMAND_EXPAND_LISTS)
else()
  skipped_test(headers_without_exceptions "g++ reads it")
endif()

# One build serves as the second compiler, as the sanitizers' run, and as the run of those tests that `test`
# leaves out: clang compiles sanitized code in half of g++'s time. Without optimisation it does so in half of
# that again, and without sanitizers in the code of GoogleTest and rapidcheck sooner still. Null and
# misaligned references are not asked about, which would take two fifths of the run: the address sanitizer
# finds what is used of the first. Programs in which little of the library runs that does not run in others
# as well are built here by g++ instead, without sanitizers (tests/CMakeLists.txt). Many tests wait for
# deadlines, so four run at once. The files of a program come in reverse: in a unity build each sees those
# before it, and what one takes from a file before it, which includes it by chance, is missing here.
if(BALLAST_CLANGXX)
  add_test(NAME clang_sanitized
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/clang_sanitized
      --build-generator ${CMAKE_GENERATOR} --build-noclean
      --build-options
        -DCMAKE_CXX_COMPILER=${BALLAST_CLANGXX} -DCMAKE_BUILD_TYPE=
        "-DCMAKE_CXX_FLAGS=-fsanitize=address,undefined -fno-sanitize=null,alignment,vptr -fno-sanitize-recover=all -fsanitize-ignorelist=${CMAKE_CURRENT_SOURCE_DIR}/support/not_sanitized.txt -DBALLAST_AUDIT_ENABLED"
        -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=${CMAKE_UNITY_BUILD_BATCH_SIZE}
        -DBALLAST_ENABLE_CUDA=OFF -DBALLAST_BUILD_EXAMPLES=OFF -DBALLAST_BUILD_BENCHMARKS=OFF
        -DBALLAST_BUILD_CLI=ON "-DBALLAST_PROGRAMS_WITHOUT=^unit_(structure|papers|cbc|examples_common|world)$"
        -DBALLAST_PROPERTY_CASES=20 -DBALLAST_TESTS_REVERSED=ON
      --test-command ${CMAKE_CTEST_COMMAND} -j 4 --output-on-failure)
  set_tests_properties(clang_sanitized PROPERTIES PROCESSORS 2 TIMEOUT 3600 COST 2000)
else()
  skipped_test(clang_sanitized "clang++-19 not found")
endif()

# What runs as threads, once more under the thread sanitizer: of these programs the tests that begin
# threads. Its run-time library does not bear the forks of death tests. This is the build without a
# precompiled header; that no test leans on one is for unit_structure to say.
if(BALLAST_CLANGXX)
  set(threaded unit_comm unit_route unit_runtime unit_threads)
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13.0)
    list(APPEND threaded unit_copy_engine)
  endif()
  if(TARGET nccl::nccl)
    list(APPEND threaded unit_nccl)
  endif()
  set(begins_threads
    "std::(jthread|thread|async)|run_ranks|online_scheduler|at_once|on_threads|copy_engine_threads|nccl_ranks|_shim[.]hpp")
  set(targets ${threaded})
  list(TRANSFORM targets PREPEND "--build-target;")
  list(JOIN threaded "|" threaded)
  add_test(NAME thread_sanitized
    COMMAND ${CMAKE_CTEST_COMMAND}
      --build-and-test ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/thread_sanitized
      --build-generator ${CMAKE_GENERATOR} --build-noclean ${targets}
      --build-options
        -DCMAKE_CXX_COMPILER=${BALLAST_CLANGXX} -DCMAKE_BUILD_TYPE=
        "-DCMAKE_CXX_FLAGS=-g1 -O1 -fsanitize=thread"
        -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
        -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=${CMAKE_UNITY_BUILD_BATCH_SIZE}
        -DBALLAST_ENABLE_CUDA=OFF -DBALLAST_BUILD_EXAMPLES=OFF -DBALLAST_BUILD_BENCHMARKS=OFF
        "-DBALLAST_TESTS_WITH=${begins_threads}" -DBALLAST_PROPERTY_CASES=20
      --test-command ${CMAKE_COMMAND} -E env GTEST_FILTER=-*Death*
        ${CMAKE_CTEST_COMMAND} -j 2 -R "^(${threaded})$" --no-tests=error --output-on-failure)
  set_tests_properties(thread_sanitized PROPERTIES PROCESSORS 2 TIMEOUT 3600 COST 1000)
else()
  skipped_test(thread_sanitized "clang++-19 not found")
endif()

if(BALLAST_CLANG_FORMAT)
  file(GLOB_RECURSE formatted CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/include/*.hpp ${PROJECT_SOURCE_DIR}/include/*.cuh
    ${PROJECT_SOURCE_DIR}/tests/*.[ch]pp ${PROJECT_SOURCE_DIR}/tests/*.cu
    ${PROJECT_SOURCE_DIR}/tests/*.cuh ${PROJECT_SOURCE_DIR}/bench/*.[ch]pp
    ${PROJECT_SOURCE_DIR}/bench/*.cu ${PROJECT_SOURCE_DIR}/bench/*.cuh
    ${PROJECT_SOURCE_DIR}/examples/*.[ch]pp ${PROJECT_SOURCE_DIR}/examples/*.cu)
  add_test(NAME format COMMAND ${BALLAST_CLANG_FORMAT} --dry-run -Werror ${formatted})
else()
  skipped_test(format "clang-format-19 not found")
endif()

if(BALLAST_CLANG_TIDY)
  file(CONFIGURE OUTPUT tidy.cpp CONTENT "${umbrellas}\n")
  get_target_property(expected_include tl::expected INTERFACE_INCLUDE_DIRECTORIES)
  add_test(NAME tidy
    COMMAND ${BALLAST_CLANG_TIDY} --quiet --config-file=${PROJECT_SOURCE_DIR}/.clang-tidy
      ${CMAKE_CURRENT_BINARY_DIR}/tidy.cpp -- -std=c++20 -I${PROJECT_SOURCE_DIR}/include
      "-I$<JOIN:${expected_include},;-I>"
    COMMAND_EXPAND_LISTS)
  set_tests_properties(tidy PROPERTIES COST 50)
else()
  skipped_test(tidy "clang-tidy-19 not found")
endif()

find_program(BALLAST_DOXYGEN doxygen)
mark_as_advanced(BALLAST_DOXYGEN)
if(BALLAST_DOXYGEN)
  add_test(NAME docs
    COMMAND bash ${PROJECT_SOURCE_DIR}/cmake/docs/build.sh ${CMAKE_CURRENT_BINARY_DIR}/docs)
else()
  skipped_test(docs "doxygen not found")
endif()

# What the main path costs to include, in seconds of g++ to those of its standard headers.
get_target_property(expected_include tl::expected INTERFACE_INCLUDE_DIRECTORIES)
list(JOIN expected_include " -I" expected_flags)
add_test(NAME include_budget
  COMMAND bash ${PROJECT_SOURCE_DIR}/bench/compile_time/includes.sh --budget)
set_tests_properties(include_budget PROPERTIES
  ENVIRONMENT "CXX=${CMAKE_CXX_COMPILER};CXXFLAGS=-I${expected_flags}")
