# SPDX-License-Identifier: Apache-2.0
# Headers, one target file per component (so that a component's dependency is looked for only when
# it is asked for), and package files for CMake and pkg-config.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ballast)

foreach(component IN ITEMS core cuda graph mpi nccl range_v3)
  set(files "")
  if(component STREQUAL "core")
    set(files FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
  install(TARGETS ballast_${component} EXPORT ballast_${component} ${files})
  install(EXPORT ballast_${component} NAMESPACE ballast:: DESTINATION ${package_dir}
    FILE ballast-${component}-targets.cmake)
endforeach()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/ballast-config.cmake.in
  ${PROJECT_BINARY_DIR}/ballast-config.cmake
  INSTALL_DESTINATION ${package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/ballast-config-version.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT)
install(
  FILES
    ${PROJECT_BINARY_DIR}/ballast-config.cmake
    ${PROJECT_BINARY_DIR}/ballast-config-version.cmake
    ${PROJECT_SOURCE_DIR}/cmake/Findnccl.cmake
    ${PROJECT_SOURCE_DIR}/cmake/Findtl-expected.cmake
  DESTINATION ${package_dir})

configure_file(${PROJECT_SOURCE_DIR}/cmake/ballast.pc.in ${PROJECT_BINARY_DIR}/ballast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ballast.pc DESTINATION ${CMAKE_INSTALL_DATADIR}/pkgconfig)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
