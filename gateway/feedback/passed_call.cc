#include "gateway/feedback/passed_call.h"

#include <absl/strings/escaping.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "conf/json_dump.h"
#include "conf/json_parse.h"
#include "conf/text.h"

namespace gateway::feedback {
namespace {

using nlohmann::json;

std::optional<std::string> PutSealed(const char* kind, const json& plain, const std::string& to) {
  const std::optional<std::string> sealed = SealTo(to, conf::DumpJson(plain));
  if (!sealed) return std::nullopt;
  return conf::DumpJson(json{{"to", to}, {kind, absl::Base64Escape(*sealed)}});
}

absl::StatusOr<json> OpenSealed(const BoxKey& key, std::string_view sealed) {
  const std::optional<std::string> plain = key.Open(sealed);
  if (!plain) return absl::DataLossError("it was sealed to another key");
  json out = conf::ParseJson(*plain);
  if (!out.is_object()) return absl::DataLossError("it is no JSON object");
  return out;
}

ledger::FeedbackValue ValueOf(const json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

api::ApiError ErrorOf(const json& in) {
  const auto name = in.at("code").get<std::string>();
  const auto codes = api::AllCodes();
  const auto found = std::ranges::find(codes, std::string_view(name), &api::CodeInfo::name);
  // A later version may have codes that are not known here.
  return api::Make(found == codes.end() ? api::Code::kStoreUnavailable : found->code,
                   in.at("message").get<std::string>(), in.at("param").get<std::string>());
}

}  // namespace

std::optional<std::string> BodyOfCall(const Call& call, const std::string& to, const std::string& reply_to) {
  json plain = {{"tenant", call.principal->tenant}, {"key", call.principal->key}, {"reply_to", reply_to}};
  if (call.given) {
    json given = {{"request", call.given->request}, {"name", call.given->name}};
    std::visit([&given](const auto& value) { given["value"] = value; }, call.given->value);
    if (!call.given->comment.empty()) given["comment"] = call.given->comment;
    if (!call.given->correction.empty()) given["correction"] = call.given->correction;
    plain["given"] = std::move(given);
  } else {
    plain["request"] = call.request;
  }
  return PutSealed("call", plain, to);
}

std::optional<std::string> BodyOfAnswer(const Reply& reply, const std::string& to) {
  json plain = json::object();
  if (reply.error) {
    plain["error"] = {
        {"code", reply.error->code}, {"message", reply.error->message}, {"param", reply.error->param}};
  } else {
    plain["json"] = reply.json;
  }
  return PutSealed("answer", plain, to);
}

absl::StatusOr<PassedBody> ReadPassedBody(std::string_view body) {
  PassedBody passed;
  try {
    const json in = json::parse(body);
    passed.to = in.at("to").get<std::string>();
    passed.answer = in.contains("answer");
    const auto& sealed = in.at(passed.answer ? "answer" : "call").get_ref<const std::string&>();
    if (!absl::Base64Unescape(sealed, &passed.sealed)) return absl::DataLossError("it is not in base64");
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
  return passed;
}

absl::StatusOr<PassedCall> OpenCall(const BoxKey& key, std::string_view sealed) {
  const absl::StatusOr<json> in = OpenSealed(key, sealed);
  if (!in.ok()) return in.status();
  PassedCall passed;
  try {
    auto principal = std::make_shared<Principal>();
    principal->tenant = in->at("tenant").get<std::string>();
    principal->key = in->at("key").get<std::string>();
    passed.call.principal = std::move(principal);
    passed.call.passed = true;
    passed.reply_to = in->at("reply_to").get<std::string>();
    if (const auto given = in->find("given"); given != in->end()) {
      passed.call.given = GivenFeedback{.request = given->at("request").get<std::string>(),
                                        .name = given->at("name").get<std::string>(),
                                        .value = ValueOf(given->at("value")),
                                        .comment = given->value("comment", ""),
                                        .correction = given->value("correction", "")};
    } else {
      passed.call.request = in->at("request").get<std::string>();
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
  return passed;
}

absl::StatusOr<Reply> OpenAnswer(const BoxKey& key, std::string_view sealed) {
  const absl::StatusOr<json> in = OpenSealed(key, sealed);
  if (!in.ok()) return in.status();
  Reply reply;
  try {
    if (const auto error = in->find("error"); error != in->end()) {
      reply.error = ErrorOf(*error);
    } else {
      reply.json = in->at("json").get<std::string>();
    }
  } catch (const std::exception& error) {
    return absl::DataLossError(error.what());
  }
  return reply;
}

}  // namespace gateway::feedback
