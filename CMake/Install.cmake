# install(), and the files by which another project finds Bochner: find_package(bochner) gives bochner::engine, bochner::autograd,
# bochner::layers and bochner::datasets, pkg-config all of them as bochner. docs/library.md says how they are used.
# `cmake --build build --target library` and `cmake --install build --component library` leave out tests and experiments.
include(CMakePackageConfigHelpers)
set(bochner_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/bochner)
get_property(datasets_libraries GLOBAL PROPERTY bochner_datasets_libraries)
set(bochner_libraries bochner_layers ${datasets_libraries} bochner_autograd bochner_engine)  # users before those that they use
add_custom_target(library DEPENDS ${bochner_libraries})
install(TARGETS ${bochner_libraries} bochner_datasets EXPORT bochnerTargets COMPONENT library)
get_property(folders GLOBAL PROPERTY bochner_folders)
foreach(folder ${folders})
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/bochner COMPONENT library FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT bochnerTargets NAMESPACE bochner:: DESTINATION ${bochner_cmake_dir} COMPONENT library)
configure_package_config_file(CMake/bochnerConfig.cmake.in bochnerConfig.cmake INSTALL_DESTINATION ${bochner_cmake_dir})
write_basic_package_version_file(bochnerConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bochnerConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/bochnerConfigVersion.cmake
  DESTINATION ${bochner_cmake_dir} COMPONENT library)

get_filename_component(bochner_blas_folder ${BOCHNER_BLAS} DIRECTORY)
set(bochner_pc_flags "")
set(bochner_pc_libs "-L${bochner_blas_folder} -lopenblas -pthread")
if(BOCHNER_NEEDS_CUDA_TOOLKIT)
  set(bochner_pc_flags "-DBOCHNER_CUDA")
  string(APPEND bochner_pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart -ldl")
endif()
list(TRANSFORM bochner_libraries PREPEND -l OUTPUT_VARIABLE bochner_pc_own)
list(JOIN bochner_pc_own " " bochner_pc_own)
file(RELATIVE_PATH bochner_pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(CMake/bochner.pc.in bochner.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bochner.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
