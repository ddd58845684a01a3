# cmake -DOUTPUT=x.cc -DROOT=dir "-DFILES=a/b.h;c.h" -DBUILT_BY=text -P build_id.cmake: writes the source that defines BuildId()
# of engine/build_id.h, from the text and the files' contents and names below ROOT.
set(text "${BUILT_BY}\n")
foreach(file IN LISTS FILES)
  file(SHA256 "${ROOT}/${file}" digest)
  string(APPEND text "${file} ${digest}\n")
endforeach()
string(SHA256 id "${text}")
string(SUBSTRING "${id}" 0 16 id)
file(WRITE "${OUTPUT}" "// Written by cmake/build_id.cmake.
#include \"engine/build_id.h\"

namespace baton::engine {

const char* BuildId() { return \"${id}\"; }

}  // namespace baton::engine
")
