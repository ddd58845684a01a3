// A file of a web page that is part of the binary. The pages have no build step: what is in their folders is what
// browsers get (cmake/embed_files.cmake).
#ifndef BATON_COMMON_WEB_ASSET_H_
#define BATON_COMMON_WEB_ASSET_H_

#include <string_view>

namespace baton {

struct WebAsset {
  // "/" for the page itself, else "/NAME".
  std::string_view path;
  std::string_view content_type;
  std::string_view bytes;
  // 64 hexadecimal digits, of the bytes: an entity tag.
  std::string_view sha256;
};

// To be sent with every file of a page. Words that would be markup by mistake could still run nothing: scripts and
// styles come from these files only, and the page talks to nobody but its own server.
inline constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace baton

#endif  // BATON_COMMON_WEB_ASSET_H_
