#include "router/facts/splice.h"
#include "conf/json_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scheduler/rng.h"

namespace router {
namespace {

using Json = nlohmann::json;

std::string Spliced(std::string_view body, const SpliceRequest& request, Api api = Api::kChatCompletions) {
  FactsScanner scanner;
  BodyFacts facts;
  const auto error = scanner.Scan(body, api, facts);
  EXPECT_FALSE(error) << body;
  const SplicePlan plan = PlanSplices(api, facts, request);
  const std::string out = plan.Apply(body);
  EXPECT_EQ(out.size(), plan.ResultSize(body.size()));
  return out;
}

TEST(Splice, ChangesOnlyWhatItMust) {
  struct Case {
    std::string_view body, want;
    SpliceRequest request;
    Api api = Api::kChatCompletions;
  };
  const SpliceRequest nothing{};
  const SpliceRequest rename{.upstream_model_json = "\"up\""};
  const SpliceRequest cap{.output_cap = 10};
  const SpliceRequest prompt{.only_prompt = true};
  const SpliceRequest cap_completion{.output_cap = 10, .bound_key = "max_completion_tokens"};
  const Case cases[] = {
      {R"( {"model":"m"} )", R"( {"model":"m"} )", nothing},
      {R"({"model": "m" ,"x":1})", R"({"model": "up" ,"x":1})", rename},
      {R"({"m\u006fdel":"a\/b"})", R"({"m\u006fdel":"up"})", rename},
      {R"({ "model":"m","stream":true})",
       R"({"stream_options":{"include_usage":true}, "model":"m","stream":true})", nothing},
      {R"({"model":"m","stream":true,"stream_options":null})",
       R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})", nothing},
      {R"({"model":"m","stream":true,"stream_options":{ }})",
       R"({"model":"m","stream":true,"stream_options":{"include_usage":true }})", nothing},
      {R"({"model":"m","stream":true,"stream_options":{"x":1}})",
       R"({"model":"m","stream":true,"stream_options":{"include_usage":true,"x":1}})", nothing},
      {R"({"model":"m","stream":true,"stream_options":{"include_usage":false}})",
       R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})", nothing},
      {R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})",
       R"({"model":"m","stream":true,"stream_options":{"include_usage":true}})", nothing},
      {R"({"model":"m","stream":false})", R"({"model":"m","stream":false})", nothing},
      {R"({"model":"m","stream":true,"input":"x"})", R"({"model":"m","stream":true,"input":"x"})", nothing,
       Api::kResponses},
      {R"({"model":"m"})", R"({"max_tokens":10,"model":"m"})", cap},
      {R"({"model":"m"})", R"({"max_completion_tokens":10,"model":"m"})", cap_completion},
      {R"({"model":"m"})", R"({"max_output_tokens":10,"model":"m"})", cap, Api::kResponses},
      {R"({"model":"m","input":"x"})", R"({"model":"m","input":"x"})", cap, Api::kEmbeddings},
      {R"({"model":"m","max_tokens":9})", R"({"model":"m","max_tokens":9})", cap},
      {R"({"model":"m","max_tokens":null,"max_completion_tokens":1e3})",
       R"({"model":"m","max_tokens":10,"max_completion_tokens":10})", cap},
      {R"({"model":"m"})", R"({"max_tokens":1,"model":"m"})", prompt},
      {R"({"model":"m","stream":false,"stream_options":null,"max_tokens":1})",
       R"({"model":"m","stream":false,"stream_options":null,"max_tokens":1})", prompt},
      {R"({"model":"m","stream": true ,"stream_options":{"include_usage":true},"min_tokens": 5})",
       R"({"max_tokens":1,"model":"m","stream": false ,"stream_options":null,"min_tokens": 0})", prompt},
      {R"({"model":"m","max_tokens":9,"max_completion_tokens":null})",
       R"({"x":{},"model":"up","max_tokens":1,"max_completion_tokens":1})",
       {.upstream_model_json = "\"up\"", .members = R"("x":{},)", .only_prompt = true}},
      {R"({"model":"m","stream":true})",
       R"({"x":1,"stream_options":{"include_usage":true},"model":"m","stream":true})",
       {.members = R"("x":1,)"}},
  };
  for (const Case& c : cases) EXPECT_EQ(Spliced(c.body, c.request, c.api), c.want) << c.body;
}

// What the splices should amount to, done the slow way.
Json Edited(Json body, const SpliceRequest& request, std::string_view upstream) {
  if (!upstream.empty()) body["model"] = upstream;
  if (body.value("stream", false)) {
    if (!body.contains("stream_options") || body["stream_options"].is_null())
      body["stream_options"] = Json::object();
    body["stream_options"]["include_usage"] = true;
  }
  if (request.output_cap) {
    bool bounded = false;
    for (const char* key : {"max_tokens", "max_completion_tokens"}) {
      if (!body.contains(key)) continue;
      bounded = true;
      if (!body[key].is_number() || body[key] < 0 || body[key] > *request.output_cap)
        body[key] = *request.output_cap;
    }
    if (!bounded) body["max_tokens"] = *request.output_cap;
  }
  return body;
}

std::string RandomBody(scheduler::Rng& rng) {
  constexpr std::array<std::string_view, 4> kSpaces = {"", "", " ", "\n\t"};
  const auto space = [&] { return std::string(kSpaces[rng.Uniform(kSpaces.size())]); };
  std::vector<std::string> members = {"\"model\"" + space() + ":" + space() + "\"a\\\"b\""};
  const auto maybe = [&](std::initializer_list<std::string_view> values, std::string_view key) {
    if (rng.Uniform(2) == 0) return;
    const auto* value = values.begin() + rng.Uniform(values.size());
    members.push_back("\"" + std::string(key) + "\":" + space() + std::string(*value));
  };
  maybe({"true", "true", "false"}, "stream");
  maybe(
      {"null", "{}", "{ }", R"({"a":[]})", R"({"include_usage":false ,"b":1})", R"({"include_usage": true})"},
      "stream_options");
  maybe({"1", "100", "null", "0"}, "max_tokens");
  maybe({"5", "5000", "null"}, "max_completion_tokens");
  maybe({"{\"model\":\"not me\"}", "[1,{\"stream\":true}]", "\"x\\u0041\""}, "extra");
  maybe({R"([{"role":"user","content":"model"}])"}, "messages");
  rng.Shuffle(members);
  std::string body = space() + "{";
  for (size_t i = 0; i < members.size(); ++i) body += (i > 0 ? "," : "") + space() + members[i] + space();
  return body + "}" + space();
}

TEST(Splice, ApplyingThenParsingEqualsParsingThenEditing) {
  scheduler::Rng rng(1);
  const std::string upstream = "org/\"quoted\" \xc3\xa9\n";
  const std::string quoted = conf::Quoted(upstream);
  for (int round = 0; round < 20'000; ++round) {
    const std::string body = RandomBody(rng);
    SpliceRequest request;
    if (rng.Uniform(2) == 0) request.upstream_model_json = quoted;
    if (rng.Uniform(2) == 0) request.output_cap = static_cast<int64_t>(rng.Uniform(200));
    const std::string got = Spliced(body, request);
    const Json want = Edited(Json::parse(body), request,
                             request.upstream_model_json.empty() ? std::string_view() : upstream);
    ASSERT_EQ(Json::parse(got), want) << body << " became " << got;
  }
}

TEST(Splice, EveryOtherByteStaysAsItWas) {
  scheduler::Rng rng(2);
  for (int round = 0; round < 2'000; ++round) {
    const std::string body = RandomBody(rng);
    FactsScanner scanner;
    BodyFacts facts;
    ASSERT_FALSE(scanner.Scan(body, Api::kChatCompletions, facts));
    const SplicePlan plan =
        PlanSplices(Api::kChatCompletions, facts, {.upstream_model_json = "\"up\"", .output_cap = 7});
    std::array<std::string_view, kMaxPieces> pieces;
    const size_t count = plan.Gather(body, pieces);
    size_t kept = 0;
    size_t removed = 0;
    const char* last = body.data();
    for (const Splice& splice : plan.splices()) removed += splice.remove;
    for (size_t i = 0; i < count; ++i) {
      if (pieces[i].data() < body.data() || pieces[i].data() > body.data() + body.size()) continue;
      EXPECT_GE(pieces[i].data(), last);
      last = pieces[i].data() + pieces[i].size();
      kept += pieces[i].size();
    }
    EXPECT_EQ(kept + removed, body.size());
  }
}

TEST(Splice, SaltsTheCacheBeforeTheCallersOwnSalt) {
  const SpliceRequest salted{.ask_usage = false, .cache_salt = "00ff"};
  EXPECT_EQ(Spliced(R"({"model":"m"})", salted), R"({"cache_salt":"00ff","model":"m"})");
  EXPECT_EQ(Spliced(R"({"model":"m","cache_salt": "mine"})", salted),
            R"({"model":"m","cache_salt": "00ff.mine"})");
  EXPECT_EQ(Spliced(R"({"model":"m","cache_salt":""})", salted), R"({"model":"m","cache_salt":"00ff."})");
  EXPECT_EQ(Spliced(R"({"model":"m","cache_salt":null})", salted), R"({"model":"m","cache_salt":"00ff"})");
}

TEST(Splice, LowersABoundThatOnlyOneEngineObeysAndAddsTheApisOwn) {
  const SpliceRequest cap{.ask_usage = false, .output_cap = 20};
  EXPECT_EQ(Spliced(R"({"model":"m","n_predict":5000})", cap),
            R"({"max_tokens":20,"model":"m","n_predict":20})");
  EXPECT_EQ(Spliced(R"({"model":"m","n_predict":null,"max_tokens":5})", cap),
            R"({"model":"m","n_predict":20,"max_tokens":5})");
}

}  // namespace
}  // namespace router
