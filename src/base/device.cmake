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

include(${CMAKE_CURRENT_LIST_DIR}/find_cuda.cmake)

# Sets SOUNDER_CUDA_FOUND and enables the language, as SOUNDER_CUDA says, and prints one line "CUDA: ...". With AUTO a
# machine on which CUDA cannot be used gets a program without it.
macro(sounder_find_cuda)
  set(SOUNDER_CUDA AUTO CACHE STRING "Build with CUDA: ON, OFF, or AUTO: if there is a toolkit")
  set_property(CACHE SOUNDER_CUDA PROPERTY STRINGS AUTO ON OFF)
  set(SOUNDER_CUDA_FOUND OFF)
  if(SOUNDER_CUDA STREQUAL AUTO AND SOUNDER_SANITIZE)
    message(STATUS "CUDA: left out of a build with sanitizers; its code is tested on the emulated card")
  elseif(NOT SOUNDER_CUDA)
    message(STATUS "CUDA: left out (SOUNDER_CUDA=${SOUNDER_CUDA})")
  else()
    sounder_choose_nvcc()
    if(NOT sounder_why_not)
      set(CMAKE_CUDA_COMPILER ${sounder_nvcc})
      set(CMAKE_CUDA_ARCHITECTURES ${sounder_architectures})
      enable_language(CUDA)
      find_package(CUDAToolkit ${SOUNDER_OLDEST_CUDA} QUIET)
      if(NOT TARGET CUDA::cudart_static)
        set(sounder_why_not "the toolkit of ${sounder_nvcc} is not found; set CUDAToolkit_ROOT to its folder")
      endif()
    endif()
    if(NOT sounder_why_not)
      set(SOUNDER_CUDA_FOUND ON)
      message(STATUS "CUDA: ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
    elseif(SOUNDER_CUDA STREQUAL AUTO)
      message(STATUS "CUDA: building for the CPU only: ${sounder_why_not}")
    else()
      message(FATAL_ERROR "SOUNDER_CUDA=${SOUNDER_CUDA}: ${sounder_why_not}")
    endif()
  endif()
endmacro()

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
  string(REPLACE ";" " " code "${CMAKE_CUDA_ARCHITECTURES}")
  target_compile_definitions(sounder_device_cuda PRIVATE SOUNDER_CUDA_CODE="${code}")
  set_target_properties(sounder_device_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 17
                        CUDA_STANDARD_REQUIRED ON)
  add_library(sounder_device ALIAS sounder_device_cuda)
endfunction()
