# cmake --install: the program with its manual pages, completions, recipes and documents (component `lithe`), and the library with
# headers, CMake and pkg-config files (component `dev`). cpack makes a Debian package of each.
include(GNUInstallDirs)

# The libraries that a program has to link, as the linker knows them: liblithe.a is one archive of all of ours.
set(LITHE_PKGCONFIG_REQUIRES "fmt spdlog yaml-cpp libpcre2-8 libutf8proc libcrypto zlib libzstd libpng libjpeg sndfile")
if(LITHE_SENTENCEPIECE AND SENTENCEPIECE_FOUND)
  string(APPEND LITHE_PKGCONFIG_REQUIRES " sentencepiece")
endif()
set(LITHE_ARCHIVES base report trees tensor kernels autograd ops parallel nn parts parts_objective text data model objective recipe infer eval train
  compress compare analyze probe bench fit interchange capabilities)
set(archives "")
foreach(name ${LITHE_ARCHIVES})
  if(TARGET lithe_${name})
    get_target_property(type lithe_${name} TYPE)
    if(type STREQUAL STATIC_LIBRARY)
      list(APPEND archives lithe_${name})
    endif()
  endif()
endforeach()
set(script "create ${CMAKE_BINARY_DIR}/install/liblithe.a\n")
foreach(archive ${archives})
  string(APPEND script "addlib $<TARGET_FILE:${archive}>\n")
endforeach()
string(APPEND script "save\nend\n")
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/install/liblithe.mri CONTENT "${script}")
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/install/liblithe.a
  COMMAND ${CMAKE_COMMAND} -E rm -f ${CMAKE_BINARY_DIR}/install/liblithe.a
  COMMAND ${CMAKE_AR} -M < ${CMAKE_BINARY_DIR}/install/liblithe.mri
  DEPENDS ${archives} ${CMAKE_BINARY_DIR}/install/liblithe.mri VERBATIM
  COMMENT "Joining liblithe.a")
add_custom_target(lithe_library DEPENDS ${CMAKE_BINARY_DIR}/install/liblithe.a)

# What the program itself prints. Installing makes lithe_install first; nothing else needs it.
set(share ${CMAKE_BINARY_DIR}/install/share)
add_custom_command(OUTPUT ${share}/stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${share}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${share}/man ${share}/bash ${share}/zsh ${share}/fish
  COMMAND lithe man --out ${share}/man
  COMMAND sh -c "gzip -9n '${share}'/man/*.1"
  COMMAND lithe completion bash > ${share}/bash/lithe
  COMMAND lithe completion zsh > ${share}/zsh/_lithe
  COMMAND lithe completion fish > ${share}/fish/lithe.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${share}/stamp
  DEPENDS lithe VERBATIM COMMENT "Manual pages and completions")
add_custom_target(lithe_install DEPENDS ${share}/stamp lithe_library)

install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target lithe_install COMMAND_ERROR_IS_FATAL ANY)"
  ALL_COMPONENTS)
install(TARGETS lithe COMPONENT lithe)
if(TARGET lithe_mpi)
  install(TARGETS lithe_mpi LIBRARY DESTINATION lib/lithe COMPONENT mpi)
endif()
install(DIRECTORY ${share}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT lithe)
install(FILES ${share}/bash/lithe DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT lithe)
install(FILES ${share}/zsh/_lithe DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT lithe)
install(FILES ${share}/fish/lithe.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT lithe)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/lithe COMPONENT lithe)
install(FILES ${CMAKE_SOURCE_DIR}/README.md ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT lithe)
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT lithe RENAME copyright)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT lithe)

# Headers of kernels that are compiled once for each instruction set are no interface.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lithe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev FILES_MATCHING
  PATTERN "*.h" PATTERN "cpu*.h" EXCLUDE PATTERN "kernels/cpu" EXCLUDE PATTERN "cli" EXCLUDE)
install(FILES ${CMAKE_BINARY_DIR}/install/liblithe.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
include(CMakePackageConfigHelpers)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/lithe-config.cmake.in ${CMAKE_BINARY_DIR}/install/lithe-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lithe PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/lithe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/lithe-config.cmake ${CMAKE_BINARY_DIR}/install/lithe-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/lithe COMPONENT dev)
# The file says where it stands itself, since `cmake --install --prefix` may choose another place than the configuration did.
set(LITHE_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
  file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
  string(REGEX REPLACE "/$" "" up "${up}")
  set(LITHE_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(name LIBDIR INCLUDEDIR)
  set(LITHE_PC_${name} "\${prefix}/${CMAKE_INSTALL_${name}}")
  if(IS_ABSOLUTE "${CMAKE_INSTALL_${name}}")
    set(LITHE_PC_${name} "${CMAKE_INSTALL_${name}}")
  endif()
endforeach()
configure_file(${CMAKE_SOURCE_DIR}/cmake/lithe.pc.in ${CMAKE_BINARY_DIR}/install/lithe.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/lithe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DATADIR}/lithe COMPONENT dev)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME lithe)
set(CPACK_PACKAGE_VERSION ${LITHE_VERSION})
set(CPACK_PACKAGE_CONTACT "the lithe authors <lithe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train, measure and run efficient Transformers on CPUs")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL lithe dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_LITHE_PACKAGE_NAME lithe)
set(CPACK_DEBIAN_LITHE_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_LITHE_DESCRIPTION "One program that trains, evaluates and runs language models, encoders and translators, without Python.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME liblithe-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "The library behind lithe: headers, an archive, CMake and pkg-config files.")
string(CONCAT CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libyaml-cpp-dev, nlohmann-json3-dev, libfmt-dev, libspdlog-dev, libpcre2-dev, "
  "libutf8proc-dev, libssl-dev, libxxhash-dev, zlib1g-dev, libzstd-dev, "
  "libpng-dev, libjpeg62-turbo-dev, libsndfile1-dev, pkg-config")
if(LITHE_SENTENCEPIECE AND SENTENCEPIECE_FOUND)
  string(APPEND CPACK_DEBIAN_DEV_PACKAGE_DEPENDS ", libsentencepiece-dev")
endif()
if(LITHE_BUILDS_PYTHON)
  math(EXPR next "${Python_VERSION_MINOR} + 1")
  list(APPEND CPACK_COMPONENTS_ALL python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_NAME python3-lithe)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= ${Python_VERSION_MAJOR}.${Python_VERSION_MINOR}), python3 (<< ${Python_VERSION_MAJOR}.${next})")
  set(CPACK_COMPONENT_PYTHON_DESCRIPTION "The library behind lithe as a module of Python.")
endif()
if(TARGET lithe_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME lithe-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "lithe (= ${LITHE_VERSION}), openmpi-bin")
  set(CPACK_COMPONENT_MPI_DESCRIPTION "What lithe needs to train on several ranks that mpirun or srun starts.")
endif()
include(CPack)
