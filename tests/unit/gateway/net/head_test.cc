#include "gateway/net/http/head.h"

#include <gtest/gtest.h>

namespace gateway::net::http {
namespace {

HeadResult ParseRequest(std::string_view bytes, Head& head, const HeadLimits& limits = {}) {
  size_t scanned = 0;
  return ParseRequestHead(bytes, limits, scanned, head);
}

TEST(RequestHead, GivesViewsOfStartLineAndFields) {
  Head head;
  const std::string bytes =
      "POST /v1/chat/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Odd:  v \r\n\r\nhello";
  const HeadResult result = ParseRequest(bytes, head);
  ASSERT_EQ(result.state, HeadResult::State::kDone);
  EXPECT_EQ(result.consumed, bytes.size() - 5);
  EXPECT_EQ(head.method, Verb::post);
  EXPECT_EQ(head.target, "/v1/chat/completions?x=1");
  EXPECT_EQ(head.content_length, 5);
  EXPECT_EQ(head.Find("x-odd"), "v");
  EXPECT_TRUE(head.keep_alive);
  EXPECT_GE(head.target.data(), bytes.data());
  EXPECT_LT(head.target.data(), bytes.data() + bytes.size());
}

TEST(RequestHead, ABodyThatBeginsWithASpaceIsNoFoldedLine) {
  Head head;
  const std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n {}";
  const HeadResult result = ParseRequest(bytes, head);
  ASSERT_EQ(result.state, HeadResult::State::kDone);
  EXPECT_EQ(result.consumed, bytes.size() - 3);
}

TEST(RequestHead, WaitsForTheEmptyLineWhateverTheSplit) {
  const std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  Head head;
  size_t scanned = 0;
  for (size_t n = 0; n < bytes.size(); ++n) {
    ASSERT_EQ(ParseRequestHead(std::string_view(bytes).substr(0, n), {}, scanned, head).state,
              HeadResult::State::kNeedMore)
        << n;
  }
  EXPECT_EQ(ParseRequestHead(bytes, {}, scanned, head).state, HeadResult::State::kDone);
}

struct Refusal {
  const char* name;
  std::string bytes;
  HeadError error;
};

class RequestSmuggling : public testing::TestWithParam<Refusal> {};

TEST_P(RequestSmuggling, IsRefused) {
  Head head;
  const HeadResult result = ParseRequest(GetParam().bytes, head);
  ASSERT_EQ(result.state, HeadResult::State::kError);
  EXPECT_EQ(result.error, GetParam().error) << Describe(result.error);
}

INSTANTIATE_TEST_SUITE_P(
    All, RequestSmuggling,
    testing::Values(
        Refusal{"ClAndTe",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"TeAndCl",
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"TwoCl", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"ClList", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"ClSigned", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"ClHuge", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{
            "TwoTe",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            HeadError::kBadFraming},
        Refusal{"OtherTe", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                HeadError::kUnknownCoding},
        Refusal{"UnknownTe", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
                HeadError::kUnknownCoding},
        Refusal{"TeWithAParameter",
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: zip;level=\"9\", chunked\r\n\r\n",
                HeadError::kUnknownCoding},
        Refusal{"ChunkedTwice", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"EmptyTe", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"TeThatIsNoList", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: (chunked)\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"TeInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"BareLf", "GET / HTTP/1.1\nHost: a\n\n", HeadError::kBadFraming},
        Refusal{"BareLfInFields", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", HeadError::kBadFraming},
        Refusal{"ObsFold", "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n", HeadError::kBadFraming},
        Refusal{"SpaceBeforeColon", "GET / HTTP/1.1\r\nHost : a\r\n\r\n", HeadError::kMalformed},
        Refusal{"NoHost", "GET / HTTP/1.1\r\n\r\n", HeadError::kMalformed},
        Refusal{"TwoHosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", HeadError::kMalformed},
        Refusal{"HostWithAPath", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithCredentials", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithAList", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithASpace", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HeadError::kBadHost},
        Refusal{"EmptyHost", "GET / HTTP/1.1\r\nHost: \r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithoutAName", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithABadPort", "GET / HTTP/1.1\r\nHost: a:99999\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithAnEmptyPort", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithAnOpenBracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostWithABracketedName", "GET / HTTP/1.1\r\nHost: [name]\r\n\r\n", HeadError::kBadHost},
        Refusal{"HostInHttp10", "GET / HTTP/1.0\r\nHost: a\"b\r\n\r\n", HeadError::kBadHost},
        Refusal{"AbsoluteTargetOfAnother", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
                HeadError::kBadTarget},
        Refusal{"AbsoluteTargetOfAnotherPort", "GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n",
                HeadError::kBadTarget},
        Refusal{"AbsoluteTargetWithCredentials", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                HeadError::kBadTarget},
        Refusal{"AbsoluteTargetOfAnotherScheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
                HeadError::kBadTarget},
        Refusal{"AbsoluteTargetWithoutAHost", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
                HeadError::kBadTarget},
        Refusal{"AuthorityForm", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", HeadError::kBadTarget},
        Refusal{"NulInField", std::string("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 35),
                HeadError::kMalformed},
        Refusal{"DeleteInField", "GET / HTTP/1.1\r\nHost: a\r\nX: a\x7f\r\n\r\n", HeadError::kMalformed},
        Refusal{"CrInField", "GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", HeadError::kMalformed},
        Refusal{"ControlInALongField",
                "GET / HTTP/1.1\r\nHost: a\r\nX: 0123456789abcdef0123456789\x01\r\n\r\n",
                HeadError::kMalformed},
        Refusal{"NoName", "GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", HeadError::kMalformed},
        Refusal{"NoColon", "GET / HTTP/1.1\r\nHost: a\r\nname\r\n\r\n", HeadError::kMalformed},
        Refusal{"QuoteInName", "GET / HTTP/1.1\r\nHost: a\r\na\"b: c\r\n\r\n", HeadError::kMalformed},
        Refusal{"NoTarget", "GET  HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::kMalformed},
        Refusal{"TwoSpacesBeforeVersion", "GET /  HTTP/1.1\r\nHost: a\r\n\r\n", HeadError::kBadVersion},
        Refusal{"TextBehindVersion", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", HeadError::kBadVersion},
        Refusal{"NoVersion", "GET /\r\nHost: a\r\n\r\n", HeadError::kMalformed},
        Refusal{"ConnectionThatIsNoList", "GET / HTTP/1.1\r\nHost: a\r\nConnection: a b\r\n\r\n",
                HeadError::kMalformed},
        Refusal{"OtherLengths",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"LengthBesideUnknownTe",
                "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n",
                HeadError::kBadFraming},
        Refusal{"UnknownTeBesideLength",
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\nContent-Length: 5\r\n\r\n",
                HeadError::kUnknownCoding},
        Refusal{"BadVersion", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", HeadError::kBadVersion},
        Refusal{"BadExpectation", "GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\n\r\n",
                HeadError::kBadExpectation}),
    [](const auto& info) { return info.param.name; });

TEST(RequestHead, TakesHostsAsTheyAre) {
  for (const char* host : {"a", "a.example.com", "a:8080", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8443",
                           "my_service.default.svc", "[::ffff:10.0.0.1]:1"}) {
    Head head;
    EXPECT_EQ(ParseRequest("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n", head).state,
              HeadResult::State::kDone)
        << host;
  }
}

TEST(RequestHead, AnAbsoluteTargetOfItsHostCountsAsItsPath) {
  const struct {
    std::string target, host, path;
  } cases[] = {{"http://a/v1/models?x=1", "a", "/v1/models?x=1"},
               {"HTTP://A.example:8080/x", "a.Example:8080", "/x"},
               {"https://a:443/x", "a", "/x"},
               {"http://a/x", "a:80", "/x"},
               {"http://[::1]:9/x", "[::1]:9", "/x"},
               {"http://a", "a", "/"}};
  for (const auto& c : cases) {
    const std::string bytes = "GET " + c.target + " HTTP/1.1\r\nHost: " + c.host + "\r\n\r\n";
    Head head;
    ASSERT_EQ(ParseRequest(bytes, head).state, HeadResult::State::kDone) << c.target;
    EXPECT_EQ(head.target, c.path) << c.target;
  }
}

TEST(RequestHead, OfAHeadThatIsRefusedNothingOfTheOneBeforeIsLeft) {
  Head head;
  ASSERT_EQ(ParseRequest("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", head).state, HeadResult::State::kDone);
  EXPECT_EQ(ParseRequest("GET /" + std::string(70000, 'a'), head).error, HeadError::kTooLarge);
  EXPECT_NE(head.method, Verb::head);
  EXPECT_TRUE(head.fields.empty());
}

TEST(RequestHead, IsBoundedInBytesAndFields) {
  Head head;
  EXPECT_EQ(ParseRequest("GET /" + std::string(70000, 'a'), head).error, HeadError::kTooLarge);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 101; ++i) many += "X: y\r\n";
  EXPECT_EQ(ParseRequest(many + "\r\n", head).error, HeadError::kTooManyFields);
}

TEST(RequestHead, KeepAliveFollowsVersionAndConnection) {
  const auto keep = [](std::string_view bytes) {
    Head head;
    EXPECT_EQ(ParseRequest(bytes, head).state, HeadResult::State::kDone);
    return head.keep_alive;
  };
  EXPECT_TRUE(keep("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"));
  EXPECT_FALSE(keep("GET / HTTP/1.0\r\nHost: a\r\n\r\n"));
  EXPECT_TRUE(keep("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(ResponseHead, HasNoBodyWhereHttpSaysSo) {
  Head head;
  size_t scanned = 0;
  ASSERT_EQ(ParseResponseHead("HTTP/1.1 204 No Content\r\n\r\n", {}, scanned, head).state,
            HeadResult::State::kDone);
  EXPECT_FALSE(ResponseHasBody(head, false));
  head.status = 200;
  EXPECT_TRUE(ResponseHasBody(head, false));
  EXPECT_FALSE(ResponseHasBody(head, true));
}

TEST(HopByHop, CoversFieldsNamedByConnection) {
  const std::string_view connection = "close, X-Mine";
  EXPECT_TRUE(IsHopByHop({FieldId::unknown, "x-mine", "1"}, connection));
  EXPECT_TRUE(IsHopByHop({FieldId::te, "TE", "trailers"}, connection));
  EXPECT_FALSE(IsHopByHop({FieldId::unknown, "x-yours", "1"}, connection));
}

}  // namespace
}  // namespace gateway::net::http
