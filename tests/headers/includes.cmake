# SPDX-License-Identifier: Apache-2.0
# cmake -DCLEANER=... -DSTANDARD=... -DSTAMPS=... "-DHEADERS=..." "-DFOLDERS=..." -P includes.cmake
# Reads each of HEADERS as a main file, since include-cleaner looks at no other, after STANDARD, the standard
# headers, precompiled: half of what reading a header takes. It knows by the directives what a header
# includes, so that a name out of STANDARD is missing all the same. A header that passed is left out until it
# or this file changes: when a name moves from one header to another, a fresh build tells who has to follow.

# What other libraries declare, they declare in headers of their own choice.
set(others "bits/.*" "tl/.*" "range/.*" "boost/.*" "cuda[a-z_]*\\.h" "local/cuda.*" "cub/.*" "thrust/.*"
  "vector_.*\\.h" "driver_types\\.h" "host_.*\\.h" "device_.*\\.h" "nccl\\.h" "nvtx3/.*" "nvToolsExt.*"
  "mpi.*\\.h" ".*/openmpi/.*" ".*intrin\\.h")
list(JOIN others "," others)

file(SHA256 ${CMAKE_CURRENT_LIST_FILE} rules)
file(MAKE_DIRECTORY ${STAMPS}/${rules})
list(TRANSFORM FOLDERS PREPEND -I)
set(failed FALSE)
foreach(header IN LISTS HEADERS)
  file(SHA256 ${header} content)
  if(EXISTS ${STAMPS}/${rules}/${content})
    continue()
  endif()
  execute_process(
    COMMAND ${CLEANER} --print=changes --ignore-headers=${others} ${header} --
      -x c++ -std=c++20 -include-pch ${STANDARD} ${FOLDERS}
    OUTPUT_VARIABLE changes ERROR_VARIABLE errors RESULT_VARIABLE result)
  if(result OR NOT changes STREQUAL "")
    message("${header}:\n${changes}${errors}")
    set(failed TRUE)
  else()
    file(TOUCH ${STAMPS}/${rules}/${content})
  endif()
endforeach()
if(failed)
  message(FATAL_ERROR "an include is missing (+) or not used (-)")
endif()
