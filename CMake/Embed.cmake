# bochner_embed(TARGET FOLDER): defines embedded_resources() of FOLDER/presets/*.ini, of folders in there, and FOLDER/paper.csv in TARGET.
function(bochner_embed target folder)
  file(GLOB presets CONFIGURE_DEPENDS ${folder}/presets/*.ini ${folder}/presets/*/*.ini)
  file(GLOB paper CONFIGURE_DEPENDS ${folder}/paper.csv)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${target}_resources.cpp)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DPRESETS=${presets}" "-DPAPER=${paper}" -P ${PROJECT_SOURCE_DIR}/CMake/EmbedFiles.cmake
    DEPENDS ${presets} ${paper} ${PROJECT_SOURCE_DIR}/CMake/EmbedFiles.cmake
    COMMENT "Embedding the presets of ${target}" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
