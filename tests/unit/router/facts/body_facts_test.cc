#include "router/facts/body_facts.h"
#include "conf/json_text.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

namespace router {
namespace {

// Scans an exact-size heap copy, so that a sanitizer sees any read beyond the body.
struct Scanned {
  explicit Scanned(std::string_view text, Api api = Api::kChatCompletions)
      : size(text.size()), bytes(std::make_unique<char[]>(text.size())) {
    std::copy(text.begin(), text.end(), bytes.get());
    error = FactsScanner().Scan(body(), api, facts);
  }
  std::string_view body() const { return {bytes.get(), size}; }
  std::string_view In(ByteRange range) const { return range.In(body()); }

  size_t size;
  std::unique_ptr<char[]> bytes;
  BodyFacts facts;
  std::optional<FactsError> error;
};

TEST(Facts, ReadsAChatRequest) {
  const Scanned s(R"( { "model" : "chat-small" , "stream": true, "n":2,
    "stream_options": {"x": [1,{}], "include_usage": false} ,"max_tokens":64,"max_completion_tokens": 32 ,
    "messages": [{"role":"user","content":"hello"}], "tools":[{"type":"function"}], "user":"u1",
    "prompt_cache_key":"k", "session_id": "s", "priority": -3, "service_tier":"flex", "unknown": {"model": 1} } )");
  ASSERT_FALSE(s.error) << s.error->message;
  const BodyFacts& f = s.facts;
  EXPECT_EQ(f.model.view(), "chat-small");
  EXPECT_EQ(s.In(f.model_range), "\"chat-small\"");
  EXPECT_EQ(s.body()[f.insert_at - 1], '{');
  EXPECT_TRUE(f.stream);
  EXPECT_EQ(f.n, 2U);
  EXPECT_EQ(s.In(f.stream_options), R"({"x": [1,{}], "include_usage": false})");
  EXPECT_EQ(s.In(f.include_usage), "false");
  EXPECT_FALSE(f.usage_asked);
  EXPECT_FALSE(f.stream_options_empty);
  EXPECT_EQ(f.bound(BoundKey::kMaxTokens).value, 64);
  EXPECT_EQ(s.In(f.bound(BoundKey::kMaxTokens).range), "64");
  EXPECT_EQ(s.In(f.bound(BoundKey::kMaxCompletionTokens).range), "32");
  EXPECT_FALSE(f.bound(BoundKey::kMaxOutputTokens).present);
  EXPECT_EQ(f.MaxOutputTokens(), 64);
  EXPECT_EQ(s.In(f.part(PromptPart::kMessages)), R"([{"role":"user","content":"hello"}])");
  EXPECT_EQ(f.prompt_bytes, std::string_view("userhello").size() + s.In(f.part(PromptPart::kTools)).size());
  EXPECT_TRUE(f.uses_tools);
  EXPECT_EQ(f.user.view(), "u1");
  EXPECT_EQ(f.prompt_cache_key.view(), "k");
  EXPECT_EQ(f.session.view(), "s");
  EXPECT_EQ(f.priority, -3);
  EXPECT_EQ(f.service_tier.view(), "flex");
}

TEST(Facts, DecodesEscapesInKeysAndInTheModel) {
  const Scanned s(R"({"m\u006fdel":"org\/caf\u00e9 \ud83d\ude00","str\u0065am":true})");
  ASSERT_FALSE(s.error) << s.error->message;
  EXPECT_EQ(s.facts.model.view(), "org/caf\xc3\xa9 \xf0\x9f\x98\x80");
  EXPECT_TRUE(s.facts.stream);
  BodyFacts copy = s.facts;
  EXPECT_EQ(copy.model.view(), s.facts.model.view());
}

TEST(Facts, MeasuresThePromptByEndpoint) {
  struct Case {
    Api api;
    std::string_view body;
    uint64_t bytes, tokens;
    uint32_t inputs;
  };
  const Case cases[] = {
      {Api::kCompletions, R"({"model":"m","prompt":"abcd"})", 4, 0, 1},
      {Api::kCompletions, R"({"model":"m","prompt":["ab","cde"]})", 5, 0, 2},
      {Api::kCompletions, R"({"model":"m","prompt":[1,2,3]})", 0, 3, 1},
      {Api::kCompletions, R"({"model":"m","prompt":[[1,2],[3]]})", 0, 3, 2},
      {Api::kEmbeddings, R"({"model":"m","input":["ab","c",""]})", 3, 0, 3},
      {Api::kEmbeddings, R"({"model":"m","input":[]})", 0, 0, 0},
      {Api::kResponses, R"({"model":"m","instructions":"be","input":[{"role":"user","content":"hi"}]})", 8, 0,
       1},
      {Api::kMessages, R"({"model":"m","system":"be","messages":[{"role":"user","content":"hi"}]})", 8, 0, 0},
      {Api::kRerank, R"({"model":"m","query":"q","documents":["ab",{"text":"cd"}]})", 5, 0, 2},
      {Api::kScore, R"({"model":"m","text_1":"q","text_2":["ab","cd"]})", 5, 0, 2},
      {Api::kDetokenize, R"({"model":"m","tokens":[5,6,7,8]})", 0, 4, 0},
  };
  for (const Case& c : cases) {
    const Scanned s(c.body, c.api);
    ASSERT_FALSE(s.error) << c.body << ": " << s.error->message;
    EXPECT_EQ(s.facts.prompt_bytes, c.bytes) << c.body;
    EXPECT_EQ(s.facts.prompt_tokens, c.tokens) << c.body;
    EXPECT_EQ(s.facts.inputs, c.inputs) << c.body;
  }
}

TEST(Facts, KeepsMediaApartFromText) {
  const std::string data(2000, 'A');
  const Scanned s(R"({"model":"m","messages":[{"content":[{"image_url":{"url":"data:image/png;base64,)" +
                  data + R"("}},{"source":{"data":")" + data + R"("}},{"text":"hi","data":"short"}]}]})");
  ASSERT_FALSE(s.error);
  EXPECT_EQ(s.facts.media_parts, 2U);
  EXPECT_EQ(s.facts.media_bytes, 22 + 2 * data.size());
  EXPECT_EQ(s.facts.prompt_bytes, 7U);
}

TEST(Facts, ReadsBoundsAsEnginesWriteThem) {
  struct Case {
    std::string_view text;
    std::optional<int64_t> value;
  };
  for (const Case& c :
       {Case{"16", 16}, Case{"1e3", 1000}, Case{"5.0", 5}, Case{"null", std::nullopt}, Case{"0", 0},
        Case{"1e15", 1'000'000'000'000}, Case{"9223372036854775807", 1'000'000'000'000}}) {
    const Scanned s("{\"model\":\"m\",\"max_tokens\": " + std::string(c.text) + " }");
    ASSERT_FALSE(s.error) << c.text;
    EXPECT_TRUE(s.facts.bound(BoundKey::kMaxTokens).present);
    EXPECT_EQ(s.facts.bound(BoundKey::kMaxTokens).value, c.value) << c.text;
    EXPECT_EQ(s.In(s.facts.bound(BoundKey::kMaxTokens).range), c.text);
  }
}

TEST(Facts, RefusesBadBodiesWithAStableCode) {
  struct Case {
    std::string_view body, code, param;
  };
  const Case cases[] = {
      {"", "invalid_json", ""},
      {"   ", "invalid_json", ""},
      {"[]", "not_an_object", ""},
      {"\"x\"", "not_an_object", ""},
      {"null", "not_an_object", ""},
      {"{}", "missing_model", "model"},
      {R"({"model":""})", "missing_model", "model"},
      {R"({"Model":"m"})", "ambiguous_key", "model"},
      {R"({"model":"m","Max_Tokens":9})", "ambiguous_key", "max_tokens"},
      {R"({"model":null})", "invalid_type", "model"},
      {R"({"model":["m"]})", "invalid_type", "model"},
      {R"({"model":"m","stream":"yes"})", "invalid_type", "stream"},
      {R"({"model":"m","stream":1})", "invalid_type", "stream"},
      {R"({"model":"m","stream_options":[]})", "invalid_type", "stream_options"},
      {R"({"model":"m","stream_options":{"include_usage":1}})", "invalid_type",
       "stream_options.include_usage"},
      {R"({"model":"m","n":1.5})", "invalid_type", "n"},
      {R"({"model":"m","n":-1})", "invalid_value", "n"},
      {R"({"model":"m","n":129})", "invalid_value", "n"},
      {R"({"model":"m","best_of":4294967297})", "invalid_value", "best_of"},
      {R"({"model":"m","max_tokens":"5"})", "invalid_type", "max_tokens"},
      {R"({"model":"m","max_tokens":-2})", "invalid_value", "max_tokens"},
      {R"({"model":"m","max_tokens":-1})", "invalid_value", "max_tokens"},
      {R"({"model":"m","max_tokens":1e400})", "invalid_value", "max_tokens"},
      {R"({"model":"m","max_tokens":99999999999999999999})", "invalid_value", "max_tokens"},
      {R"({"model":"m","n":1e300})", "invalid_value", "n"},
      {R"({"model":"m","priority":-99999999999999999999})", "invalid_value", "priority"},
      {R"({"model":"m","messages":"hi"})", "invalid_type", "messages"},
      {R"({"model":"m","user":5})", "invalid_type", "user"},
      {R"({"model":"m","priority":0.5})", "invalid_type", "priority"},
      {R"({"model":"a","model":"b"})", "duplicate_key", "model"},
      {R"({"model":"a","m\u006fdel":"b"})", "duplicate_key", "model"},
      {R"({"model":"a","stream":true,"stream":false})", "duplicate_key", "stream"},
      {R"({"model":"a","stream_options":{},"stream_options":null})", "duplicate_key", "stream_options"},
      {R"({"model":"a","stream_options":{"include_usage":true,"include_us\u0061ge":false}})", "duplicate_key",
       "stream_options.include_usage"},
      {R"({"model":"a","max_tokens":1,"max_tokens":2})", "duplicate_key", "max_tokens"},
      {R"({"model":"a","n":1,"n":2})", "duplicate_key", "n"},
      {R"({"model":"a","messages":[],"messages":[]})", "duplicate_key", "messages"},
      {R"({"model":"a","user":"x","user":"y"})", "duplicate_key", "user"},
      {R"({"model":"m")", "invalid_json", ""},
      {R"({"model":"m"}})", "invalid_json", ""},
      {R"({"model":"m"} x)", "invalid_json", ""},
      {R"({"model":"m"}{"model":"n"})", "invalid_json", ""},
      {R"({"model":"m",})", "invalid_json", ""},
      {R"({"model" "m"})", "invalid_json", ""},
      {R"({"model":"m" "n":1})", "invalid_json", ""},
      {R"({"model":})", "invalid_json", ""},
      {R"({"model":"m","x":[1,2})", "invalid_json", ""},
      {R"({"model":"m","x":{]}})", "invalid_json", ""},
      {R"({"model":"m","x":[1,]})", "invalid_json", ""},
      {R"({"model":"m","x":tru})", "invalid_json", ""},
      {R"({"model":"m","x":01})", "invalid_json", ""},
      {R"({"model":"m","x":1.})", "invalid_json", ""},
      {R"({"model":"m","x":NaN})", "invalid_json", ""},
      {R"({"model":"m","x":"a"b})", "invalid_json", ""},
      {R"({"model":"m","x":a"b"})", "invalid_json", ""},
      {R"({"model":"m\q"})", "invalid_json", ""},
      {R"({"model":"\ud800"})", "invalid_json", ""},
      {R"({"mod\qel":"m"})", "invalid_json", ""},
      {R"({'model':'m'})", "invalid_json", ""},
      {"{\"model\":\"m\n\"}", "invalid_json", ""},
      {R"({"model":"m)", "invalid_json", ""},
      {"{\"model\":\"m\xff\"}", "invalid_utf8", ""},
      {"{\"model\":\"m\",\"x\":\"\xed\xa0\x80\"}", "invalid_utf8", ""},
      {"\xef\xbb\xbf{\"model\":\"m\"}", "not_an_object", ""},
  };
  for (const Case& c : cases) {
    const Scanned s(c.body);
    ASSERT_TRUE(s.error) << c.body;
    EXPECT_EQ(CodeName(s.error->code), c.code) << c.body << ": " << s.error->message;
    EXPECT_EQ(s.error->param, c.param) << c.body;
    EXPECT_FALSE(s.error->message.empty());
  }
}

// Parsers differ on them: one refuses, one replaces, one keeps half a surrogate and fails when it writes it.
TEST(Facts, RefusesStringsThatEnginesReadDifferentlyAndSaysWhere) {
  const struct {
    std::string_view body, path;
  } cases[] = {
      {R"({"model":"m","messages":[{"role":"user","content":"a\xb"}]})", "messages[0].content"},
      {R"({"model":"m","messages":[{"a":1},{"b":[true,{"c":"\ud800"}]}]})", "messages[1].b[1].c"},
      {R"({"model":"m","messages":["\ud83d\n"]})", "messages[0]"},
      {R"({"model":"m","x":{"y":"\udc00"}})", "x.y"},
      {R"({"model":"m","x":"\u12g4"})", "x"},
      {R"({"model":"m","x":"\u12"})", "x"},
      {R"({"model":"\ud800"})", "model"},
      {R"({"model":"m","tools":[{"function":{"description":"\q"}}]})", "tools[0].function.description"},
      {R"({"model":"m","user":"\ud800\ud800"})", "user"},
      {R"({"model":"m","x":{"":{"a":{"":["\udc00"]}}}})", "x[\"\"].a[\"\"][0]"},
  };
  for (const auto& c : cases) {
    const Scanned s(c.body);
    ASSERT_TRUE(s.error) << c.body;
    EXPECT_EQ(s.error->code, FactsErrorCode::kInvalidJson) << c.body;
    EXPECT_EQ(s.error->path, c.path) << c.body;
    EXPECT_TRUE(s.error->message.starts_with(c.path)) << s.error->message;
  }
  EXPECT_TRUE(Scanned(R"({"model":"m","x":{"\ud800":1}})").error);
  EXPECT_FALSE(Scanned(R"({"model":"m","x":"\ud83d\ude00 \u00e9 \"\\\/\b\f\n\r\t","\u0061":1})").error);
}

// llama.cpp obeys its own name for `n` over it.
TEST(Facts, CountsTheAnswersThatAnyEngineWouldGive) {
  EXPECT_EQ(Scanned(R"({"model":"m","n":2,"n_cmpl":5,"best_of":3})").facts.n, 5u);
  EXPECT_EQ(Scanned(R"({"model":"m","n":4,"n_cmpl":1})").facts.n, 4u);
  EXPECT_EQ(Scanned(R"({"model":"m","prompt":["a","b"],"n_cmpl":7})", Api::kCompletions).facts.choices(), 14);
  const Scanned many(R"({"model":"m","n_cmpl":129})");
  ASSERT_TRUE(many.error);
  EXPECT_EQ(CodeName(many.error->code), "invalid_value");
  EXPECT_EQ(many.error->param, "n_cmpl");
}

// An engine that obeys both takes the larger, or the one that was not lowered.
TEST(Facts, RefusesBoundsAndCountsThatTheApiDoesNotHave) {
  const struct {
    Api api;
    std::string_view body, param;
  } cases[] = {
      {Api::kChatCompletions, R"({"model":"m","max_tokens":50,"max_output_tokens":50})", "max_output_tokens"},
      {Api::kCompletions, R"({"model":"m","max_output_tokens":null})", "max_output_tokens"},
      {Api::kMessages, R"({"model":"m","max_tokens":5,"max_completion_tokens":50})", "max_completion_tokens"},
      {Api::kResponses, R"({"model":"m","max_output_tokens":5,"max_tokens":50})", "max_tokens"},
      {Api::kChatCompletions, R"({"model":"m","max_new_tokens":50})", "max_new_tokens"},
      {Api::kCompletions, R"({"model":"m","num_predict":50})", "num_predict"},
      {Api::kMessages, R"({"model":"m","max_tokens":5,"n_cmpl":8})", "n_cmpl"},
      {Api::kResponses, R"({"model":"m","N_cmpl":8})", "n_cmpl"},
      {Api::kResponses, R"({"model":"m","n":8})", "n"},
      {Api::kMessages, R"({"model":"m","best_of":8})", "best_of"},
  };
  for (const auto& c : cases) {
    const Scanned s(c.body, c.api);
    ASSERT_TRUE(s.error) << c.body;
    EXPECT_EQ(CodeName(s.error->code), "unsupported_member");
    EXPECT_EQ(s.error->param, c.param);
  }
  EXPECT_FALSE(Scanned(R"({"model":"m","max_tokens":5,"max_completion_tokens":50})").error);
  EXPECT_FALSE(Scanned(R"({"model":"m","max_new_tokens":5,"input":"x"})", Api::kEmbeddings).error);
  EXPECT_FALSE(Scanned(R"({"model":"m","max_tokens":5,"n":null,"n_cmpl":null})", Api::kMessages).error);
}

// Escapes are looked for in blocks: one may begin in any place of a block and end in the next.
TEST(Facts, FindsABadEscapeWhereverItStands) {
  for (size_t before = 0; before < 200; ++before) {
    const std::string text(before, 'x');
    for (const std::string_view good : {"\\n", "\\\\", "\\\\\\\"", "\\u00e9", "\\ud83d\\ude00", "\\\\u12"})
      EXPECT_TRUE(EscapesAreValid(text + std::string(good) + text)) << before << good;
    for (const std::string_view bad : {"\\x", "\\\\\\x", "\\u12", "\\ud83d", "\\ud83d\\u0041", "\\ude00"})
      EXPECT_FALSE(EscapesAreValid(text + std::string(bad) + text)) << before << bad;
    EXPECT_FALSE(EscapesAreValid(text + "\\"));
  }
}

TEST(Facts, PassesMembersThatTheEndpointDoesNotKnow) {
  const Scanned s(R"({"model":"m","input":[1,2],"documents":7,"x":1,"x":2,"Extra":null,"max_tokens":"five"})",
                  Api::kEmbeddings);
  EXPECT_FALSE(s.error) << s.error->message;
  EXPECT_FALSE(s.facts.bound(BoundKey::kMaxTokens).present);
}

TEST(Facts, RefusesDeepNestingWithoutDeepRecursion) {
  const auto nested = [](size_t depth, char open, char close) {
    return R"({"model":"m","x":)" + std::string(depth, open) + std::string(depth, close) + "}";
  };
  EXPECT_FALSE(Scanned(nested(kMaxJsonDepth - 1, '[', ']')).error);
  for (size_t depth : {kMaxJsonDepth, size_t{10'000}, size_t{1'000'000}}) {
    const Scanned s(nested(depth, '[', ']'));
    ASSERT_TRUE(s.error);
    EXPECT_EQ(s.error->code, FactsErrorCode::kTooDeep);
  }
  std::string objects = R"({"model":"m","messages":)";
  for (int i = 0; i < 10'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(Scanned(objects).error);
}

TEST(Facts, ReusedScannerForgetsTheLastBody) {
  FactsScanner scanner;
  BodyFacts facts;
  const std::string large = R"({"model":"a","stream":true,"user":")" + std::string(3 << 20, 'x') + "\"}";
  EXPECT_FALSE(scanner.Scan(large, Api::kChatCompletions, facts));
  EXPECT_TRUE(facts.stream);
  EXPECT_FALSE(scanner.Scan(R"({"model":"b"})", Api::kChatCompletions, facts));
  EXPECT_EQ(facts.model.view(), "b");
  EXPECT_FALSE(facts.stream);
  EXPECT_TRUE(facts.user.empty());
}

TEST(Facts, AgreesWithAFullParserOnEveryTruncationAndByteFlip) {
  const std::string body =
      R"({"model":"m","stream":true,"n":1,"messages":[{"role":"user","content":"a b, {}"}],"t":[-0.5e1,null,{}]})";
  ASSERT_FALSE(Scanned(body).error);
  for (size_t cut = 0; cut < body.size(); ++cut) EXPECT_TRUE(Scanned(body.substr(0, cut)).error) << cut;
  size_t passed = 0;
  for (size_t at = 0; at < body.size(); ++at) {
    for (char c : std::string_view("\"{}[]:, x0-.e\n\f")) {
      std::string changed = body;
      changed[at] = c;
      if (Scanned(changed).error) continue;
      ++passed;
      EXPECT_TRUE(nlohmann::json::accept(changed)) << changed;
    }
  }
  EXPECT_GT(passed, 100U);
}

TEST(JsonText, QuotesWhatItUnescapes) {
  std::string all;
  for (int c = 1; c < 128; ++c) all.push_back(static_cast<char>(c));
  const std::string quoted = conf::Quoted(all);
  EXPECT_EQ(nlohmann::json::parse(quoted), all);
  std::string back;
  ASSERT_TRUE(UnescapeJson(std::string_view(quoted).substr(1, quoted.size() - 2), back));
  EXPECT_EQ(back, all);
}

}  // namespace
}  // namespace router
