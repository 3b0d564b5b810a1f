# Debian packages only; one line of why for each in docs/dependencies.md.
find_package(OpenMP REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(OpenSSL 3.0 REQUIRED COMPONENTS Crypto)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(SNDFILE REQUIRED IMPORTED_TARGET sndfile)
# Headers alone; each is read by one source (lithe/tensor/linear_algebra.cpp, lithe/compare/statistics.cpp).
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_path(BOOST_INCLUDE boost/math/distributions/students_t.hpp REQUIRED)

add_library(lithe_deps_base INTERFACE)
target_include_directories(lithe_deps_base INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
target_link_libraries(lithe_deps_base INTERFACE OpenMP::OpenMP_CXX Threads::Threads spdlog::spdlog fmt::fmt yaml-cpp nlohmann_json::nlohmann_json)
add_library(LitheDeps::base ALIAS lithe_deps_base)

add_library(LitheDeps::algebra ALIAS Eigen3::Eigen)

add_library(lithe_deps_statistics INTERFACE)
target_include_directories(lithe_deps_statistics SYSTEM INTERFACE ${BOOST_INCLUDE})
add_library(LitheDeps::statistics ALIAS lithe_deps_statistics)

add_library(lithe_deps_text INTERFACE)
target_link_libraries(lithe_deps_text INTERFACE PkgConfig::PCRE2 PkgConfig::UTF8PROC OpenSSL::Crypto)
add_library(LitheDeps::text ALIAS lithe_deps_text)
# Without it lithe is built all the same, and says so where a unigram vocabulary is to be learnt.
option(LITHE_SENTENCEPIECE "learning unigram vocabularies by SentencePiece" ON)
pkg_check_modules(SENTENCEPIECE IMPORTED_TARGET sentencepiece)
add_library(lithe_deps_unigrams INTERFACE)
if(LITHE_SENTENCEPIECE AND SENTENCEPIECE_FOUND)
  target_link_libraries(lithe_deps_unigrams INTERFACE PkgConfig::SENTENCEPIECE)
  target_compile_definitions(lithe_deps_unigrams INTERFACE LITHE_HAVE_SENTENCEPIECE=1)
endif()
add_library(LitheDeps::unigrams ALIAS lithe_deps_unigrams)

pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
add_library(lithe_deps_http INTERFACE)
target_link_libraries(lithe_deps_http INTERFACE PkgConfig::HTTPLIB)
add_library(LitheDeps::http ALIAS lithe_deps_http)

add_library(lithe_deps_data INTERFACE)
target_link_libraries(lithe_deps_data INTERFACE ZLIB::ZLIB PkgConfig::ZSTD PNG::PNG JPEG::JPEG PkgConfig::SNDFILE)
add_library(LitheDeps::data ALIAS lithe_deps_data)

# Without it lithe is built all the same, and says so where --index hnsw is asked for.
option(LITHE_HNSWLIB "approximate search in stores by hnswlib" ON)
find_path(HNSWLIB_INCLUDE hnswlib/hnswlib.h)
add_library(lithe_deps_neighbours INTERFACE)
if(LITHE_HNSWLIB AND HNSWLIB_INCLUDE)
  target_include_directories(lithe_deps_neighbours SYSTEM INTERFACE ${HNSWLIB_INCLUDE})
  target_compile_definitions(lithe_deps_neighbours INTERFACE LITHE_HAVE_HNSWLIB=1)
endif()
add_library(LitheDeps::neighbours ALIAS lithe_deps_neighbours)

find_path(CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
add_library(lithe_deps_cli INTERFACE)
target_include_directories(lithe_deps_cli SYSTEM INTERFACE ${CLI11_INCLUDE})
add_library(LitheDeps::cli ALIAS lithe_deps_cli)

# Without it lithe is built all the same, without the plug-in by which it runs on several ranks.
option(LITHE_MPI "the plug-in for ranks started by mpirun or srun, by Open MPI" ON)
if(LITHE_MPI AND NOT CMAKE_CROSSCOMPILING)
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI QUIET COMPONENTS CXX)
endif()
