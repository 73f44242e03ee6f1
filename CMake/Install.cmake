# install(), and the files by which another project finds Bochner: find_package(bochner) gives bochner::engine, bochner::autograd,
# bochner::layers and bochner::datasets.
include(CMakePackageConfigHelpers)
set(bochner_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bochner)
install(TARGETS bochner_engine bochner_autograd bochner_layers bochner_datasets EXPORT bochnerTargets)
get_property(folders GLOBAL PROPERTY bochner_folders)
foreach(folder ${folders})
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bochner FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT bochnerTargets NAMESPACE bochner:: DESTINATION ${bochner_cmake_dir})
configure_package_config_file(CMake/bochnerConfig.cmake.in bochnerConfig.cmake INSTALL_DESTINATION ${bochner_cmake_dir})
write_basic_package_version_file(bochnerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bochnerConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/bochnerConfigVersion.cmake
  DESTINATION ${bochner_cmake_dir})
