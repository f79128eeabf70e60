# Writes OUTPUT, a header with the commit of the sources, when it has changed. Run at every build.
# A copy of the sources has its commit in the file COMMIT (scripts/source.sh). The commit of another
# project that a copy without one lies in is not ours.
execute_process(COMMAND git rev-parse --show-toplevel WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE top OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
execute_process(COMMAND git rev-parse --short=7 HEAD WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
execute_process(COMMAND git status --porcelain src include suites data WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE changes ERROR_QUIET)
file(REAL_PATH ${SOURCE} here)
if(EXISTS ${SOURCE}/COMMIT)
  file(STRINGS ${SOURCE}/COMMIT text LIMIT_COUNT 1)
elseif(failed OR NOT top STREQUAL here)
  set(text "no commit is known")
elseif(changes)
  set(text "commit ${commit} with changes")
else()
  set(text "commit ${commit}")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define PF_COMMIT \"${text}\"\n")
