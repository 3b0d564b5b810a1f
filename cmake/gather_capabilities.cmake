# Writes capabilities.cpp: the announced ids with kind, summary, source, file, and whether a test names them.
file(READ ${FILES} files)
set(tested "")
set(rows "")
foreach(file ${files})
  if(NOT EXISTS ${file})
    continue()
  endif()
  file(RELATIVE_PATH relative ${ROOT} ${file})
  if(relative MATCHES "^tests/")
    file(STRINGS ${file} lines REGEX "^ *// oracle: ")
    foreach(line ${lines})
      string(REGEX REPLACE ".*// oracle: *" "" ids "${line}")
      string(REGEX REPLACE "[ ,]+" ";" ids "${ids}")
      list(APPEND tested ${ids})
    endforeach()
  else()
    # An announcement goes on in the comment lines right below it. What CMake's lists would split is hidden.
    file(READ ${file} content)
    string(REPLACE ";" "@semicolon@" content "${content}")
    string(REPLACE "[" "@open@" content "${content}")
    string(REPLACE "]" "@close@" content "${content}")
    string(REPLACE "\n// spec: " "\n\n// spec: " content "\n${content}")
    string(REGEX MATCHALL "\n *// spec: [a-z_]+\\.[a-z0-9_.]+ \\|[^\n]*(\n *// [^\n]*)*" lines "${content}")
    foreach(line ${lines})
      string(REGEX REPLACE "\n *// " " " line "${line}")
      string(REGEX REPLACE "^ *spec: *" "" line "${line}")
      string(REPLACE "@semicolon@" ";" line "${line}")
      string(REPLACE "@open@" "[" line "${line}")
      string(REPLACE "@close@" "]" line "${line}")
      string(REPLACE "\"" "\\\"" line "${line}")
      string(REGEX REPLACE " *\\| *" "\", \"" line "${line}")
      string(APPEND rows "      {\"${line}\", \"${relative}\"},\n")
    endforeach()
  endif()
endforeach()
list(REMOVE_DUPLICATES tested)
set(names "")
foreach(id ${tested})
  string(APPEND names "      \"${id}\",\n")
endforeach()
set(text "// Generated from the \"spec:\" lines of lithe/ and the \"oracle:\" lines of tests/.
#include \"lithe/base/capabilities.h\"
namespace lithe {
const std::vector<Capability>& capabilities() {
  static const std::vector<Capability> all = {
${rows}  };
  return all;
}
const std::vector<std::string>& ids_with_oracles() {
  static const std::vector<std::string> all = {
${names}  };
  return all;
}
}
")
set(old "")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT old STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
