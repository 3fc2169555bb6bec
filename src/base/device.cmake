# The code for GPUs, in three builds of the same name space, of which a program links one:
#   sounder_device_none      functions that say that the program was built without CUDA
#   sounder_device_cuda      compiled by nvcc, with the CUDA runtime linked in; only where SOUNDER_CUDA found a toolkit
#   sounder_device_emulated  the same sources on an emulated card, for tests (tests/emulator)
# sounder_device is the one that the program itself gets. They are object libraries, so that the order in which a
# program links them and the boxes that call them does not matter.
#
# A box adds to them with sounder_device_sources(CUDA conv.cu cuda_tasks.c NONE net_none.c).
function(sounder_device_sources)
  cmake_parse_arguments(PARSE_ARGV 0 sources "" "" "CUDA;NONE")
  foreach(build CUDA NONE)
    list(TRANSFORM sources_${build} PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_property(GLOBAL APPEND PROPERTY SOUNDER_DEVICE_${build} ${sources_${build}})
  endforeach()
endfunction()

# Sets SOUNDER_CUDA_FOUND and enables the language, as SOUNDER_CUDA says.
macro(sounder_find_cuda)
  set(SOUNDER_CUDA AUTO CACHE STRING "Build with CUDA: ON, OFF, or AUTO: if there is a toolkit")
  set_property(CACHE SOUNDER_CUDA PROPERTY STRINGS AUTO ON OFF)
  set(SOUNDER_CUDA_FOUND OFF)
  if(SOUNDER_CUDA STREQUAL AUTO AND SOUNDER_SANITIZE)
    message(STATUS "CUDA: left out of a build with sanitizers; its code is tested on the emulated card")
  elseif(SOUNDER_CUDA)
    if(NOT DEFINED CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
      find_program(SOUNDER_NVCC nvcc PATHS /usr/local/cuda/bin)
      if(SOUNDER_NVCC)
        set(CMAKE_CUDA_COMPILER ${SOUNDER_NVCC})
      endif()
    endif()
    sounder_choose_architectures()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(SOUNDER_CUDA_FOUND ON)
      enable_language(CUDA)
      find_package(CUDAToolkit 12 REQUIRED)
      message(STATUS "CUDA: ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
    elseif(NOT SOUNDER_CUDA STREQUAL AUTO)
      message(FATAL_ERROR "SOUNDER_CUDA=ON, but no CUDA compiler works: install the CUDA toolkit (12 or 13) and put nvcc on PATH")
    else()
      message(STATUS "CUDA: no compiler found, building for the CPU only")
    endif()
  endif()
endmacro()

# Those of the machine's GPUs; where there is none, Ampere's and Hopper's, with code that later ones translate.
function(sounder_choose_architectures)
  if(DEFINED CMAKE_CUDA_ARCHITECTURES)
    return()
  endif()
  set(architectures "80;90")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND capabilities MATCHES "^[0-9]+\\.[0-9]+(\n[0-9]+\\.[0-9]+)*$")
    string(REPLACE "." "" architectures "${capabilities}")
    string(REPLACE "\n" ";" architectures "${architectures}")
    list(REMOVE_DUPLICATES architectures)
  endif()
  set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Compute capabilities to build for")
endfunction()

# The libraries that a device library needs, and that need it.
set(SOUNDER_DEVICE_BOXES sounder_fedavg sounder_nn sounder_shm sounder_base)

# Once all boxes have added their sources.
function(sounder_device_libraries)
  get_property(none GLOBAL PROPERTY SOUNDER_DEVICE_NONE)
  add_library(sounder_device_none OBJECT ${none})
  target_link_libraries(sounder_device_none PUBLIC ${SOUNDER_DEVICE_BOXES})
  if(NOT SOUNDER_CUDA_FOUND)
    add_library(sounder_device ALIAS sounder_device_none)
    return()
  endif()
  get_property(cuda GLOBAL PROPERTY SOUNDER_DEVICE_CUDA)
  # Rules are the same functions as on the CPU, to the bit.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/fedavg/gpu/cuda_rules.cu PROPERTIES COMPILE_OPTIONS -fmad=false)
  add_library(sounder_device_cuda OBJECT ${cuda})
  # CUDA's headers are C++ 17's, and not written for our warnings.
  target_include_directories(sounder_device_cuda SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(sounder_device_cuda PUBLIC ${SOUNDER_DEVICE_BOXES} CUDA::cudart_static ${CMAKE_DL_LIBS})
  # cuBLAS is opened when it is needed, that of this toolkit even where nobody told the loader of its folder. (A run path
  # would do, but be searched for every library whenever the program starts.)
  target_compile_definitions(sounder_device_cuda PRIVATE SOUNDER_CUBLAS_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
  set_target_properties(sounder_device_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17
                        CUDA_STANDARD_REQUIRED ON)
  add_library(sounder_device ALIAS sounder_device_cuda)
endfunction()
