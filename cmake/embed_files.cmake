# cmake -DOUTPUT=x.cc -DFILES=dir/a.html;dir/b.js -DFOLDER=dashboard -P embed_files.cmake: writes a C++ source with the files
# as raw strings, for Assets() of FOLDER/assets.h. index.html is the path "/". JSON is without its indentation. The strings
# are as short as every compiler accepts.
set(MOST_BYTES 65000)
set(TYPE_html "text/html; charset=utf-8")
set(TYPE_js "text/javascript; charset=utf-8")
set(TYPE_css "text/css; charset=utf-8")
set(TYPE_json "application/json")

set(table "")
foreach(file IN LISTS FILES)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(REGEX MATCH "[a-z]+$" extension "${name}")
  if(extension STREQUAL "json")
    # A string of JSON has no line end.
    string(REGEX REPLACE "\n +" "\n" text "${text}")
  endif()
  string(LENGTH "${text}" size)
  if(size GREATER MOST_BYTES)
    message(FATAL_ERROR "${file} has more than ${MOST_BYTES} bytes: divide it")
  endif()
  string(FIND "${text}" ")baton_asset\"" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${file} has the text that ends its string in C++")
  endif()
  string(SHA256 sha256 "${text}")
  if(NOT DEFINED TYPE_${extension})
    message(FATAL_ERROR "${file}: no content type is known for .${extension}")
  endif()
  if(name STREQUAL "index.html")
    set(path "/")
  else()
    set(path "/${name}")
  endif()
  string(APPEND table "    {\"${path}\", \"${TYPE_${extension}}\",\n"
         "     R\"baton_asset(${text})baton_asset\"sv,\n     \"${sha256}\"},\n")
endforeach()

file(WRITE "${OUTPUT}" "// Written by cmake/embed_files.cmake.
#include \"${FOLDER}/assets.h\"

namespace baton::${FOLDER} {
namespace {

using std::string_view_literals::operator\"\"sv;

constexpr WebAsset kAssets[] = {
${table}};

}  // namespace

std::span<const WebAsset> Assets() { return kAssets; }

}  // namespace baton::${FOLDER}
")
