// Answers of the admin API about the process itself.
#pragma once

#include <nlohmann/json.hpp>

#include "gateway/admin/answers/answer_fields.h"

namespace gateway::admin::answers {

struct Alive {
  static constexpr std::string_view kSchema = "Alive";

  std::string status = "ok";
};

template <class O>
constexpr void Bind(O& o, Alive& alive) {
  o.Required("status", alive.status);
}

// Something that is not as it should be.
struct Condition {
  static constexpr std::string_view kSchema = "Condition";

  std::string part = {};    // ledger, redis, model:chat-small, …
  std::string detail = {};  // what is wrong, for people
  bool fatal = false;       // no new work can be taken
};

template <class O>
constexpr void Bind(O& o, Condition& condition) {
  o.Required("part", condition.part);
  o.Required("detail", condition.detail);
  o.Required("fatal", condition.fatal);
}

struct Readiness {
  static constexpr std::string_view kSchema = "Readiness";

  bool ready = true;
  std::string_view status = "ok";        // ok, degraded, unavailable
  std::vector<Condition> degraded = {};  // empty: all is well
  std::vector<Condition> warnings = {};  // all is well, and could be safer
  bool scaling = false;                  // this gateway starts and stops replicas
  std::string config_sha256 = {};
  std::string_view version = {};
};

template <class O>
constexpr void Bind(O& o, Readiness& readiness) {
  o.Required("ready", readiness.ready);
  o.Required("status", readiness.status);
  o.Required("degraded", readiness.degraded);
  o.Required("warnings", readiness.warnings);
  o.Required("scaling", readiness.scaling);
  o.Required("config_sha256", readiness.config_sha256);
  o.Required("version", readiness.version);
}

struct AppliedConfig {
  static constexpr std::string_view kSchema = "AppliedConfig";

  std::string sha256 = {};
  Time loaded_at = {};
};

template <class O>
constexpr void Bind(O& o, AppliedConfig& applied) {
  o.Required("sha256", applied.sha256);
  o.Required("loaded_at", applied.loaded_at);
}

struct Reloads {
  static constexpr std::string_view kSchema = "Reloads";

  uint64_t applied = 0;
  uint64_t refused = 0;
  bool last_ok = true;
  std::optional<Time> last_at = {};
  std::string why = {};
};

template <class O>
constexpr void Bind(O& o, Reloads& reloads) {
  o.Required("applied", reloads.applied);
  o.Required("refused", reloads.refused);
  o.Required("last_ok", reloads.last_ok);
  o.Required("last_at", reloads.last_at);
  o.Required("why", reloads.why);
}

struct Config {
  static constexpr std::string_view kSchema = "Config";

  AppliedConfig applied = {};
  Reloads reloads = {};
  conf::RawJson config = {};
};

template <class O>
constexpr void Bind(O& o, Config& config) {
  o.Inline(config.applied);
  o.Required("reloads", config.reloads);
  o.Required("config", config.config);
}

// The OpenAPI document.
struct Document {
  static constexpr std::string_view kSchema = "Document";

  static nlohmann::ordered_json DescribeSchema() { return {{"type", "object"}}; }
};

// An error, as every API of the gateway tells it.
struct ErrorDetail {
  static constexpr std::string_view kSchema = "ErrorDetail";

  std::string param = {};
  std::string message = {};
};

template <class O>
constexpr void Bind(O& o, ErrorDetail& detail) {
  o.Required("param", detail.param);
  o.Required("message", detail.message);
}

struct ErrorObject {
  static constexpr std::string_view kSchema = "ErrorObject";

  std::string message = {};
  std::string type = {};
  std::optional<std::string> param = {};
  std::string code = {};
  std::optional<std::string> request_id = {};
  std::vector<ErrorDetail> details = {};
};

template <class O>
constexpr void Bind(O& o, ErrorObject& error) {
  o.Required("message", error.message);
  o.Required("type", error.type);
  o.Required("param", error.param);
  o.Required("code", error.code);
  o.Optional("request_id", error.request_id);
  o.Optional("details", error.details);
}

struct Error {
  static constexpr std::string_view kSchema = "Error";

  ErrorObject error;
};

template <class O>
constexpr void Bind(O& o, Error& error) {
  o.Required("error", error.error);
}

}  // namespace gateway::admin::answers
