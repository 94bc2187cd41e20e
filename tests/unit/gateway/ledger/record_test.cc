#include "gateway/ledger/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "gateway/ledger/chain.h"
#include "gateway/ledger/crc32c.h"
#include "gateway/ledger/render.h"
#include "tests/unit/gateway/ledger/fixture.h"

namespace gateway::ledger {
namespace {

TEST(Crc32c, IsTheCastagnoliSumOfTheStandardAndTheSameInHardwareAndTable) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(Crc32c(bytes), Crc32cPortable(0, bytes.data(), bytes.size()));
    bytes.push_back(static_cast<char>(i * 7));
  }
  EXPECT_EQ(Crc32c(Crc32c(0, "12345", 5), "6789", 4), 0xE3069283U);
}

TEST(RecordCodec, RoundTripsEveryField) {
  char buffer[kMaxOpenPayload + kMaxClosePayload];
  const OpenRecord open = SomeOpen("req_1");
  const size_t size = EncodeOpen(open, buffer);
  OpenRecord back;
  size_t used = 0;
  ASSERT_TRUE(DecodeOpen({buffer, size}, &back, &used));
  EXPECT_EQ(used, size);
  EXPECT_EQ(back.client_request, "client-1");
  EXPECT_EQ(back.api, "chat.completions");
  EXPECT_TRUE(back.stream);

  CloseRecord close = SomeClose(EndReason::kLength);
  close.limit = "tokens_per_minute";
  close.error = "rate_limit";
  close.prefill = "r7";
  close.itl_max_us = 77;
  CloseRecord close_back;
  uint64_t open_n = 0;
  ASSERT_TRUE(DecodeClose({buffer, EncodeClose(close, 42, buffer)}, &close_back, &open_n));
  EXPECT_EQ(open_n, 42u);
  EXPECT_EQ(close_back.reason, EndReason::kLength);
  EXPECT_EQ(close_back.limit, "tokens_per_minute");
  EXPECT_EQ(close_back.error, "rate_limit");
  EXPECT_EQ(close_back.prefill, "r7");
  EXPECT_EQ(close_back.itl_max_us, 77);
  EXPECT_EQ(close_back.queue_us, -1);
  EXPECT_EQ(close_back.counts.cost_micro_usd, 27);
  EXPECT_EQ(close_back.counts.source, TokenSource::kUpstream);
}

TEST(RecordCodec, RefusesEveryCutOfARecord) {
  char buffer[kMaxOpenPayload + kMaxClosePayload];
  size_t size = EncodeOpen(SomeOpen("req_1"), buffer);
  OpenRecord open;
  size_t used;
  for (size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(DecodeOpen({buffer, cut}, &open, &used)) << cut;
  size = EncodeClose(SomeClose(), 1, buffer);
  CloseRecord close;
  uint64_t open_n;
  for (size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(DecodeClose({buffer, cut}, &close, &open_n)) << cut;
}

TEST(RecordCodec, CutsStringsAtTheirCaps) {
  const std::string longest(100'000, 'x');
  const OpenRecord open{.time_us = 1,
                        .request = longest,
                        .client_request = longest,
                        .tenant = longest,
                        .key = longest,
                        .model = longest,
                        .api = longest,
                        .client = longest};
  std::vector<char> buffer(kMaxOpenPayload);
  EXPECT_EQ(EncodeOpen(open, buffer.data()), kMaxOpenPayload);
}

TEST(Render, AnyBytesMakeALineThatIsValidJsonAndReadsBack) {
  struct Case {
    std::string bytes;
    std::string read;
  };
  std::string controls;
  for (char c = 0; c < 0x20; ++c) controls.push_back(c);
  const std::vector<Case> cases = {
      {"plain", "plain"},
      {"quote\" back\\slash", "quote\" back\\slash"},
      {controls + "\x7f", controls + "\x7f"},
      {"gr\xC3\xBC\xC3\x9F \xE6\x97\xA5 \xF0\x9F\x8C\x8A",
       "gr\xC3\xBC\xC3\x9F \xE6\x97\xA5 \xF0\x9F\x8C\x8A"},
      {"\xFF", "\xEF\xBF\xBD"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                  // overlong
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},  // a surrogate
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"cut \xE6\x97", "cut \xEF\xBF\xBD"},
      {"\",\"chain\":\"0\"}\n{\"seq\":9", "\",\"chain\":\"0\"}\n{\"seq\":9"},
  };
  RecordParser parser;
  for (const Case& c : cases) {
    OpenRecord open = SomeOpen("req_1");
    open.client_request = c.bytes;
    std::string line;
    RenderOpen(&line, 7, {.shard = 1, .n = 3}, open);
    FinishLine(&line, 0, Digest{});
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    line.pop_back();
    EXPECT_EQ(nlohmann::json::parse(line)["client_request"], c.read);
    Record record;
    ASSERT_TRUE(parser.Parse(line, &record).ok());
    EXPECT_EQ(record.client_request, c.read);
    const std::optional<LineParts> parts = SplitLine(line);
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->seq, 7u);
    EXPECT_EQ(parts->kind, "open");
    EXPECT_EQ(FindUint(parts->body, "n"), 3u);
  }
}

TEST(Parse, TheQuickReaderAgreesWithTheParserOrDeclines) {
  RecordParser parser;
  int quick = 0;
  for (const char* tenant :
       {"acme", "acme/\"team\"", "back\\slash", "gr\xC3\xBC\xC3\x9F", "", "new\nline", "\xFF"}) {
    for (const char* error : {"", "no \"quotes\", please", "a,b:c}"}) {
      OpenRecord open = SomeOpen("req_1");
      open.tenant = tenant;
      CloseRecord close = SomeClose();
      close.error = error;
      std::string line;
      RenderClose(&line, 7, {.shard = 1, .n = 3}, 5, open, close);
      FinishLine(&line, 0, Digest{});
      line.pop_back();
      Record record;
      ASSERT_TRUE(parser.Parse(line, &record).ok());
      CloseFacts facts;
      if (!ReadCloseFacts(SplitLine(line)->body, &facts)) continue;
      ++quick;
      EXPECT_EQ(facts.tenant, record.tenant);
      EXPECT_EQ(facts.key, record.key);
      EXPECT_EQ(facts.model, record.model);
      EXPECT_EQ(facts.replica, record.replica);
      EXPECT_EQ(facts.api, record.api);
      EXPECT_EQ(facts.reason, record.reason);
      EXPECT_EQ(facts.input, record.input);
      EXPECT_EQ(facts.cached, record.cached);
      EXPECT_EQ(facts.output, record.output);
      EXPECT_EQ(facts.cost_micro_usd, record.cost_micro_usd);
    }
  }
  EXPECT_EQ(quick, 8) << "only texts without escapes";
}

TEST(Parse, TheQuickReaderRefusesTruncatedRecords) {
  const std::string body = R"({"seq":9,"time_us":1,"kind":"close","tenant":"a","input":12,"reason":"done")";
  CloseFacts facts;
  ASSERT_TRUE(ReadCloseFacts(body, &facts));
  EXPECT_EQ(facts.input, 12);
  for (size_t size = 1; size < body.size(); ++size) {
    ReadCloseFacts(std::string(body, 0, size),
                   &facts);  // the result does not matter, but it must not read past the end
  }
  EXPECT_FALSE(ReadCloseFacts(R"({"seq":9,"input":"x)", &facts));
  EXPECT_FALSE(ReadCloseFacts(R"({"input":1x,"a":1)", &facts));
}

TEST(Parse, RefusesOtherLines) {
  RecordParser parser;
  Record record;
  for (const char* line :
       {"", "{", "[]", "null", "{}", R"({"seq":"1","kind":"open"})", R"({"seq":1,"kind":"nonsense"})",
        R"({"seq":1,"kind":"open","status":"ok"})", R"({"seq":-1,"kind":"open"})"}) {
    EXPECT_FALSE(parser.Parse(line, &record).ok()) << line;
  }
}

TEST(Kinds, EveryNameReadsBack) {
  for (size_t i = 0; i < kKinds; ++i) {
    const auto kind = static_cast<Kind>(i);
    EXPECT_EQ(ParseKind(Name(kind)), kind);
  }
  EXPECT_FALSE(ParseKind("opened"));
}

}  // namespace
}  // namespace gateway::ledger
