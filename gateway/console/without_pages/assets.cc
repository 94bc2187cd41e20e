// The console of a binary that was built without its pages: one page that says how to get them.
#include "gateway/console/assets.h"

namespace gateway::console {
namespace {

constexpr Asset kAssets[] = {
    {"/index.html",
     "text/html; charset=utf-8",
     "without-pages",
     "<!doctype html>\n"
     "<html lang=\"en\">\n"
     "<meta charset=\"utf-8\">\n"
     "<meta name=\"viewport\" content=\"width=device-width\">\n"
     "<title>Tidegate</title>\n"
     "<h1>This gateway was built without its console</h1>\n"
     "<p>The gateway and its admin API work. The pages need Node 18 or later and npm on the machine that "
     "builds,\n"
     "and access to an npm registry. Install them and build again:\n"
     "<pre>tools/install_packages console\n"
     "cmake --preset release\n"
     "cmake --build --preset release --target tidegate</pre>\n"
     "<p>With <code>-D TIDEGATE_CONSOLE=ON</code> a build that cannot make the pages fails and says why.\n"
     "<p>Until then: <code>tidegate top</code> shows models, replicas, jobs and devices, live.\n"
     "<p><a href=\"/admin/v1/openapi.json\">/admin/v1/openapi.json</a> describes the admin API.\n",
     {},
     {}},
};

}  // namespace

std::span<const Asset> Assets() {
  return kAssets;
}

std::span<const std::string_view> PageNames() {
  return {};
}

}  // namespace gateway::console
