// The files of the console, compressed when it was built and linked into the binary. web/build.mjs writes the
// definitions; without_pages.cc has those of a build without Node.
#pragma once

#include <span>
#include <string_view>

namespace gateway::console {

struct Asset {
  std::string_view path;  // /index.html, or /assets/NAME-HASH.EXTENSION
  std::string_view content_type;
  std::string_view hash;  // of the plain form
  std::string_view plain;
  std::string_view gzip;    // empty: not compressed
  std::string_view brotli;  // likewise
};

std::span<const Asset> Assets();

// The first segments of the pages' paths; every page is the file /index.html.
std::span<const std::string_view> PageNames();

}  // namespace gateway::console
