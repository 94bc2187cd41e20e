#include "gateway/people/grant.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/rand.h>

#include <array>
#include <cstdlib>

#include "conf/hex.h"
#include "conf/json_fields.h"
#include "gateway/people/key_limits.h"
#include "gateway/people/stored_json.h"

namespace gateway {

template <class O>
constexpr void Bind(O& o, DeviceAllowance& devices) {
  o.Required("kind", devices.kind);
  o.Required("count", devices.count);
}

template <class O>
constexpr void Bind(O& o, Allowance& allowance) {
  o.Optional("models", allowance.models);
  o.Optional("limits", allowance.limits);
  o.Optional("weight", allowance.weight);
  o.Optional("devices", allowance.devices);
}

template <class O>
constexpr void Bind(O& o, TenantGrant& grant) {
  o.Required("id", grant.id);
  o.Required("tenant", grant.tenant);
  o.Required("gives", grant.gives);
  o.Required("from", grant.from);
  o.Required("until", grant.until);
  o.Optional("reason", grant.reason);
  o.Optional("asked_by", grant.asked_by);
  o.Optional("approved_by", grant.approved_by);
  o.Optional("request", grant.request);
  o.Optional("ended", grant.ended);
  o.Optional("ended_by", grant.ended_by);
  o.Optional("reminded", grant.reminded);
}

template <class O>
constexpr void Bind(O& o, RequestComment& comment) {
  o.Required("by", comment.by);
  o.Required("at", comment.at);
  o.Required("text", comment.text);
}

template <class O>
constexpr void Bind(O& o, GrantRequest& request) {
  o.Required("id", request.id);
  o.Required("tenant", request.tenant);
  o.Required("wants", request.wants);
  o.Optional("from", request.from);
  o.Required("until", request.until);
  o.Optional("reason", request.reason);
  o.Required("asked_by", request.asked_by);
  o.Required("asked", request.asked);
  o.Required("expires", request.expires);
  o.Required("state", request.state);
  o.Optional("decided_by", request.decided_by);
  o.Optional("decided", request.decided);
  o.Optional("answer", request.answer);
  o.Optional("grant", request.grant);
  o.Optional("renews", request.renews);
  o.Optional("comments", request.comments);
}

conf::Words<RequestState> WordsOf(RequestState) {
  return kRequestStates;
}

std::string InWords(const Allowance& allowance) {
  std::string out;
  const auto add = [&](std::string words) { out += (out.empty() ? "" : "; ") + std::move(words); };
  if (!allowance.models.empty()) add(fmt::format("models {}", fmt::join(allowance.models, ", ")));
  if (!allowance.limits.empty()) add("limits " + LimitsInWords(allowance.limits));
  if (allowance.weight) add(fmt::format("weight {}", *allowance.weight));
  if (const auto& devices = allowance.devices)
    add(fmt::format("{} {} {}", devices->count, devices->count == 1 ? "device" : "devices", devices->kind));
  return out;
}

std::string NewId(std::string_view prefix) {
  std::array<uint8_t, 8> bits{};
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) std::abort();
  return std::string(prefix) + conf::Hex(bits);
}

std::string EncodeGrant(const TenantGrant& grant) {
  return conf::ToJsonText(grant);
}

absl::StatusOr<TenantGrant> DecodeGrant(std::string_view json) {
  return ReadStored<TenantGrant>("grant", json);
}

std::string EncodeRequest(const GrantRequest& request) {
  return conf::ToJsonText(request);
}

absl::StatusOr<GrantRequest> DecodeRequest(std::string_view json) {
  return ReadStored<GrantRequest>("request", json);
}

}  // namespace gateway
