# Writes OUTPUT, a header with the commit of the sources, when it has changed. Run at every build.
execute_process(COMMAND git rev-parse --short=7 HEAD WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
execute_process(COMMAND git status --porcelain src include suites data WORKING_DIRECTORY ${SOURCE}
                OUTPUT_VARIABLE changes ERROR_QUIET)
if(failed)
  set(text "no commit is known")
elseif(changes)
  set(text "commit ${commit} with changes")
else()
  set(text "commit ${commit}")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define PF_COMMIT \"${text}\"\n")
