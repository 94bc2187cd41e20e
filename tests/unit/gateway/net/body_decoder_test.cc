#include "gateway/net/http/body_decoder.h"

#include <gtest/gtest.h>

#include <string>

namespace gateway::net::http {
namespace {

Head Chunked() {
  Head head;
  head.status = 200;
  head.chunked = true;
  return head;
}

// Feeds `bytes` in pieces of `step`; what comes out, or "malformed".
std::string DecodeIn(std::string bytes, size_t step, BodyDecoder decoder, size_t* left = nullptr) {
  std::string out;
  for (size_t at = 0; at < bytes.size() && !decoder.done(); at += step) {
    const size_t n = std::min(step, bytes.size() - at);
    const BodyDecoder::Result r = decoder.Decode(bytes.data() + at, n);
    if (r.malformed) return "malformed";
    out.append(bytes.data() + at, r.payload);
    if (left && decoder.done()) *left = bytes.size() - at - r.consumed;
  }
  return decoder.done() ? out : out + "…";
}

TEST(BodyDecoder, JoinsChunksInPlaceWhateverTheSplit) {
  const std::string bytes = "5\r\nhello\r\nA\r\n, world of\r\n1\r\n!\r\n0\r\n\r\nGET";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    size_t left = 0;
    EXPECT_EQ(DecodeIn(bytes, step, BodyDecoder::ForRequest(Chunked()), &left), "hello, world of!") << step;
    if (step == bytes.size()) EXPECT_EQ(left, 3u);
  }
}

TEST(BodyDecoder, RefusesBadChunking) {
  for (const char* bytes : {"\r\n", "x\r\n", "5\nhello", "5\r\nhelloX", "5\r\nhello\r\r", "5 \r\nhello\r\n",
                            "5;e\nhello\r\n", "5;e\x01x\r\nhello\r\n", "5 ext\r\nhello\r\n",
                            "FFFFFFFFFFFFFFFF\r\n", " 5\r\nhello", "0\r\n\r\r", "0x5\r\nhello"}) {
    EXPECT_EQ(DecodeIn(bytes, 64, BodyDecoder::ForRequest(Chunked())), "malformed") << bytes;
  }
}

TEST(BodyDecoder, TrailerLinesEndAsLinesOfAHeadDo) {
  for (const char* trailers :
       {"X: y\n\r\n", "X: y\n\n", "\n", "X: y\r\nZ: w\n\r\n", "X: y\rZ: w\r\n\r\n", "X: y\r\r\n\r\n"}) {
    for (const size_t step : {1u, 64u}) {
      const std::string bytes = std::string("2\r\nok\r\n0\r\n") + trailers;
      EXPECT_EQ(DecodeIn(bytes, step, BodyDecoder::ForRequest(Chunked())), "malformed") << trailers;
      EXPECT_EQ(DecodeIn(bytes, step, BodyDecoder::ForResponse(Chunked(), false)), "malformed") << trailers;
    }
  }
  EXPECT_EQ(DecodeIn("2\r\nok\r\n0\r\nX: y\r\nZ: w\r\n\r\n", 1, BodyDecoder::ForRequest(Chunked())), "ok");
}

TEST(BodyDecoder, TakesExtensionsAndTrailersOfResponsesAndDropsThem) {
  EXPECT_EQ(DecodeIn("2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n", 1, BodyDecoder::ForResponse(Chunked(), false)),
            "ok");
  EXPECT_EQ(DecodeIn("2;" + std::string(8000, 'a'), 8000, BodyDecoder::ForResponse(Chunked(), false)),
            "malformed");
}

TEST(BodyDecoder, TakesExtensionsOfRequestsAndDropsThem) {
  const std::string signature = ";chunk-signature=" + std::string(64, 'f');
  std::string chunks;
  std::string payload;
  for (int i = 0; i < 500; ++i) {
    chunks += "400" + signature + "\r\n" + std::string(0x400, 'x') + "\r\n";
    payload += std::string(0x400, 'x');
  }
  EXPECT_EQ(DecodeIn(chunks + "0" + signature + "\r\n\r\n", 77, BodyDecoder::ForRequest(Chunked())), payload);
  for (const char* bytes : {"2;a\r\nok\r\n0\r\n\r\n", "2 ; a=\"b;\tc\"\r\nok\r\n0;z\r\n\r\n"})
    EXPECT_EQ(DecodeIn(bytes, 1, BodyDecoder::ForRequest(Chunked())), "ok") << bytes;
}

TEST(BodyDecoder, ExtensionsOfARequestMayNotOutweighItsPayload) {
  std::string chunks;
  for (int i = 0; i < 100; ++i) chunks += "1;" + std::string(1000, 'e') + "\r\nx\r\n";
  EXPECT_EQ(DecodeIn(chunks + "0\r\n\r\n", 100, BodyDecoder::ForRequest(Chunked())), "malformed");
  EXPECT_EQ(
      DecodeIn("1;" + std::string(5000, 'e') + "\r\nx\r\n0\r\n\r\n", 100, BodyDecoder::ForRequest(Chunked())),
      "malformed");
}

TEST(BodyDecoder, RefusesTrailersThatFrameOrRouteOrAuthenticate) {
  const auto with = [](const std::string& trailer) { return "2\r\nok\r\n0\r\n" + trailer + "\r\n\r\n"; };
  for (const char* trailer :
       {"Content-Length: 5", "transfer-encoding: chunked", "Host: elsewhere", "Authorization: Bearer x",
        "x-api-key: k", "Content-Type: text/plain", "Content-Encoding: gzip", "Cookie: a=b", "TE: x",
        "Connection: close", "X-Fine: 1\r\nTrailer: x", "Proxy-Authorization: x", "no colon", ": empty",
        " folded: x", "sp ace: x", "tab\t: x"}) {
    for (const size_t step : {1u, 64u})
      EXPECT_EQ(DecodeIn(with(trailer), step, BodyDecoder::ForRequest(Chunked())), "malformed") << trailer;
  }
  for (const char* trailer : {"X-Checksum: none", "Digest:", "content-lengthy: 1", "x: y\r\nz: w"})
    EXPECT_EQ(DecodeIn(with(trailer), 1, BodyDecoder::ForRequest(Chunked())), "ok") << trailer;
  // An engine's are dropped, whatever they are.
  EXPECT_EQ(DecodeIn(with("Content-Length: 5"), 1, BodyDecoder::ForResponse(Chunked(), false)), "ok");
}

TEST(BodyDecoder, BoundsTheExtensionsOfEachChunkAndTheTrailersOfAMessage) {
  const auto decode = [](const std::string& bytes) {
    return DecodeIn(bytes, 100, BodyDecoder::ForResponse(Chunked(), false));
  };
  const std::string large = std::string(3000, 'e');
  std::string chunks;
  for (int i = 0; i < 50; ++i) chunks += "1;" + large + "\r\nx\r\n";
  EXPECT_EQ(decode(chunks + "0;" + large + "\r\nX: " + large + "\r\n\r\n"), std::string(50, 'x'));
  EXPECT_EQ(decode("1;" + large + large + "\r\nx\r\n0\r\n\r\n"), "malformed");
  EXPECT_EQ(decode("0\r\nX: " + large + "\r\nY: " + large + "\r\n\r\n"), "malformed");
  std::string many = "0\r\n";
  for (int i = 0; i < 2000; ++i) many += "X:\r\n";
  EXPECT_EQ(decode(many + "\r\n"), "malformed");
}

TEST(BodyDecoder, StopsAtTheDeclaredLength) {
  Head head;
  head.content_length = 3;
  size_t left = 0;
  EXPECT_EQ(DecodeIn("abcdef", 6, BodyDecoder::ForRequest(head), &left), "abc");
  EXPECT_EQ(left, 3u);
  EXPECT_TRUE(BodyDecoder::ForRequest(Head{}).done());
}

TEST(BodyDecoder, OnlyAnUnframedResponseEndsWithTheConnection) {
  Head head;
  head.status = 200;
  BodyDecoder open_ended = BodyDecoder::ForResponse(head, false);
  EXPECT_FALSE(open_ended.done());
  EXPECT_TRUE(open_ended.OnEof());
  EXPECT_FALSE(BodyDecoder::ForResponse(Chunked(), false).OnEof());
}

}  // namespace
}  // namespace gateway::net::http
