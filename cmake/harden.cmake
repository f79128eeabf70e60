# What makes a mistake in memory harder to use: programs at random addresses, tables of addresses that
# are read-only once loaded, a guard in every frame with an array, checked copies. A flag that the
# compiler or the processor does not know is left out. No flag touches arithmetic: the bits stay.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C) # executables become position independent, as libraries are
foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection)
  string(MAKE_C_IDENTIFIER "PF_HAS${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    add_compile_options(${flag})
  endif()
endforeach()
# glibc checks copies only in optimised code; the sanitizers check them themselves
string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" build_type_flags)
set(flags "${CMAKE_C_FLAGS} ${${build_type_flags}}")
if(flags MATCHES "-O[123s]" AND NOT flags MATCHES "-fsanitize")
  set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
  check_c_source_compiles("#include <string.h>\nint main(void) { return 0; }" PF_HAS_FORTIFY_3)
  unset(CMAKE_REQUIRED_FLAGS)
  add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${PF_HAS_FORTIFY_3}>,3,2>)
endif()
add_link_options(LINKER:-z,relro LINKER:-z,now)
