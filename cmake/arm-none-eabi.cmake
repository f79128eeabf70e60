# Cross-compiles for a Cortex-M4F without an operating system (preset `board`). For another
# processor change the line `processor`; -mfloat-abi and -mfpu must be those of the C library.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
# a program for a board needs a linker script: CMake tries the compiler with a library instead
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

set(processor "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16")
# functions that nobody calls are left out when linking
set(CMAKE_C_FLAGS_INIT "${processor} -ffunction-sections -fdata-sections")
