// The files of the dashboard, which are part of the binary. The page works under any path, because it names its files
// and its events by relative addresses.
#ifndef BATON_DASHBOARD_ASSETS_H_
#define BATON_DASHBOARD_ASSETS_H_

#include <span>
#include <string_view>

namespace baton::dashboard {

struct Asset {
  // "/" for the page itself, else "/NAME".
  std::string_view path;
  std::string_view content_type;
  std::string_view bytes;
  // 64 hexadecimal digits, of the bytes: an entity tag.
  std::string_view sha256;
};

// In the order of their paths. They live as long as the process.
std::span<const Asset> Assets();

// Nullptr when there is none. `path` is without the query.
const Asset* FindAsset(std::string_view path);

// To be sent with every asset. Text of the server that would be markup by mistake could still run nothing: scripts and
// styles come from these files only, and the page talks to nobody but its own server.
inline constexpr char kContentSecurityPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace baton::dashboard

#endif  // BATON_DASHBOARD_ASSETS_H_
