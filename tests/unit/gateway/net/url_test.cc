#include "gateway/net/url.h"

#include <gtest/gtest.h>

namespace gateway::net {
namespace {

TEST(Url, IsTakenApart) {
  const struct {
    const char* text;
    bool tls;
    const char* host;
    const char* port;
    const char* path;
    const char* query;
    const char* authority;
  } cases[] = {
      {"http://127.0.0.1", false, "127.0.0.1", "80", "", "", "127.0.0.1"},
      {"https://example.com/a/b?c=d", true, "example.com", "443", "/a/b", "c=d", "example.com"},
      {"http://example.com:1", false, "example.com", "1", "", "", "example.com:1"},
      {"https://example.com:65535/", true, "example.com", "65535", "/", "", "example.com:65535"},
      {"http://[::1]:8080/x", false, "::1", "8080", "/x", "", "[::1]:8080"},
      {"https://example.com:443", true, "example.com", "443", "", "", "example.com"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const auto url = ParseUrl(c.text);
    ASSERT_TRUE(url.ok()) << url.status();
    EXPECT_EQ(url->tls, c.tls);
    EXPECT_EQ(url->host, c.host);
    EXPECT_EQ(url->port, c.port);
    EXPECT_EQ(url->path, c.path);
    EXPECT_EQ(url->query, c.query);
    EXPECT_EQ(url->Authority(), c.authority);
  }
}

TEST(Url, AllButUnreservedCharactersAreEncoded) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a/b c?d=e&f%+"), "a%2Fb%20c%3Fd%3De%26f%25%2B");
  EXPECT_EQ(PercentEncode("gr\xc3\xbcn\xff"), "gr%C3%BCn%FF");
  EXPECT_EQ(PercentEncode(std::string_view("\0\n", 2)), "%00%0A");
}

TEST(Url, IsRefusedWithoutAReachableHost) {
  for (const char* text : {"", "example.com", "ftp://example.com", "http://", "http://me:secret@example.com",
                           "http://example.com:", "http://example.com:/x", "http://example.com:0",
                           "http://example.com:65536", "http://example.com:99999999999999999999",
                           "http://example.com:80a", "http://example.com:-1", "http://[::1]:0/"}) {
    EXPECT_FALSE(ParseUrl(text).ok()) << text;
  }
}

}  // namespace
}  // namespace gateway::net
