#include "gateway/console/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gateway/console/assets.h"

namespace {

using gateway::admin::WebPage;
using gateway::console::Assets;
using gateway::console::Find;
using gateway::console::PageNames;
using testing::HasSubstr;
using testing::Not;

std::string Header(const WebPage& page, std::string_view name) {
  const auto at = std::ranges::find(page.headers, name, [](const auto& header) { return header.first; });
  return at == page.headers.end() ? "" : at->second;
}

TEST(Console, TheDocumentAllowsNothingButItsOwnFiles) {
  const std::optional<WebPage> page = Find("/", "", "");
  ASSERT_TRUE(page);
  EXPECT_EQ(page->status, 200);
  EXPECT_THAT(page->body, HasSubstr("<title>Tidegate</title>"));
  EXPECT_THAT(Header(*page, "content-type"), HasSubstr("text/html"));
  EXPECT_THAT(Header(*page, "content-security-policy"), HasSubstr("default-src 'self';"));
  EXPECT_THAT(Header(*page, "content-security-policy"), HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(Header(*page, "content-security-policy"), Not(HasSubstr("unsafe")));
  EXPECT_EQ(Header(*page, "x-content-type-options"), "nosniff");
  EXPECT_EQ(Header(*page, "cache-control"), "no-cache");
}

TEST(Console, APagesPathGivesTheDocumentAndOtherPathsNothing) {
  for (const std::string_view name : PageNames()) {
    EXPECT_TRUE(Find("/" + std::string(name), "", "")) << name;
    EXPECT_TRUE(Find("/" + std::string(name) + "/anything/below", "", "")) << name;
    EXPECT_FALSE(Find("/" + std::string(name) + "x", "", "")) << name;
  }
  for (const char* path : {"", "x", "/nothing", "/index.html", "/assets/", "/assets/nothing.js",
                           "/assets/../index.html", "//", "/admin/v1/keys"}) {
    EXPECT_FALSE(Find(path, "", "")) << path;
  }
}

TEST(Console, AFileComesInTheBestCodingThatTheClientTakes) {
  for (const auto& asset : Assets()) {
    const std::string_view path = asset.path == "/index.html" ? "/" : asset.path;
    struct Case {
      const char* accepts;
      std::string_view coding;
      std::string_view body;
    };
    const std::string_view brotli = asset.brotli.empty() ? asset.plain : asset.brotli;
    const std::string_view gzip = asset.gzip.empty() ? asset.plain : asset.gzip;
    const std::string_view br = asset.brotli.empty() ? "" : "br";
    const std::string_view gz = asset.gzip.empty() ? "" : "gzip";
    for (const Case& of :
         {Case{"", "", asset.plain}, Case{"gzip, deflate, br", br, brotli}, Case{"gzip", gz, gzip},
          Case{"BR", br, brotli}, Case{"br;q=0, gzip;q=0.5", gz, gzip}, Case{"br;q=0.000", "", asset.plain},
          Case{"br; q=1.0", br, brotli}, Case{"brotli, xgzip", "", asset.plain}}) {
      const std::optional<WebPage> page = Find(path, of.accepts, "");
      ASSERT_TRUE(page) << path;
      EXPECT_EQ(Header(*page, "content-encoding"), of.coding) << path << ": " << of.accepts;
      EXPECT_TRUE(page->body == of.body) << path << ": " << of.accepts;
      EXPECT_EQ(Header(*page, "vary"), "accept-encoding");
    }
  }
}

TEST(Console, AFileThatTheClientHasIsNotSentAgain) {
  const std::string etag = Header(*Find("/", "br", ""), "etag");
  for (const std::string& known : {etag, "W/" + etag, "\"other\", " + etag, std::string("*")}) {
    const std::optional<WebPage> page = Find("/", "br", known);
    ASSERT_TRUE(page);
    EXPECT_EQ(page->status, 304) << known;
    EXPECT_TRUE(page->body.empty());
    EXPECT_EQ(Header(*page, "etag"), etag);
  }
  EXPECT_EQ(Find("/", "br", "\"other\"")->status, 200);
}

TEST(Console, FilesWhoseNamesChangeWithTheirContentAreKept) {
  for (const auto& asset : Assets()) {
    if (asset.path == "/index.html") continue;
    EXPECT_THAT(asset.path, HasSubstr(asset.hash));
    EXPECT_THAT(Header(*Find(asset.path, "", ""), "cache-control"), HasSubstr("immutable"));
  }
}

}  // namespace
