#include "plugins/kubernetes/access.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include <optional>
#include <utility>

#include "conf/document.h"
#include "conf/text.h"

namespace plugins::kubernetes {
namespace {

using conf::Value;

constexpr std::string_view kServiceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/";

absl::Status Wrong(const Place& place, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", place.kubeconfig, what));
}

std::string TextAt(const std::optional<Value>& object, std::string_view key) {
  if (!object || object->kind() != conf::Kind::kMapping) return "";
  const std::optional<Value> found = object->Find(key);
  return found && found->kind() == conf::Kind::kScalar ? found->text() : std::string();
}

std::optional<Value> MapAt(const std::optional<Value>& object, std::string_view key) {
  if (!object || object->kind() != conf::Kind::kMapping) return std::nullopt;
  std::optional<Value> found = object->Find(key);
  if (found && found->kind() != conf::Kind::kMapping) found.reset();
  return found;
}

// The entry of that name in `clusters`, `users` or `contexts`, each a list of {name, cluster | user | context}.
std::optional<Value> Entry(const Value& root, std::string_view list, std::string_view name,
                           std::string_view what) {
  const std::optional<Value> found = root.Find(list);
  if (!found || found->kind() != conf::Kind::kSequence) return std::nullopt;
  for (const Value& item : found->Items()) {
    if (TextAt(item, "name") == name) return MapAt(item, what);
  }
  return std::nullopt;
}

bool IsTrue(const std::string& text) {
  return text == "true";
}

class Reading {
 public:
  Reading(const Place& place, const conf::Sources& sources) : place_(place), sources_(sources) {}

  absl::StatusOr<Access> Read();

 private:
  absl::StatusOr<std::string> File(const std::string& path) const {
    const size_t slash = place_.kubeconfig.rfind('/');
    const std::string full = path.starts_with('/') || slash == std::string::npos
                                 ? path
                                 : place_.kubeconfig.substr(0, slash + 1) + path;
    return sources_.file(full);
  }
  // The text of `KEY-data`, which is in base64, or of the file that `KEY` names; empty where neither is given.
  absl::StatusOr<std::string> Part(const std::optional<Value>& object, const std::string& key) const {
    if (const std::string data = TextAt(object, key + "-data"); !data.empty()) {
      std::string text;
      if (!absl::Base64Unescape(data, &text)) return Wrong(place_, key + "-data is not base64");
      return text;
    }
    const std::string path = TextAt(object, key);
    if (path.empty()) return std::string();
    return File(path);
  }
  absl::Status ReadUser(const std::optional<Value>& user, Access& access) const;

  const Place& place_;
  const conf::Sources& sources_;
};

absl::Status Reading::ReadUser(const std::optional<Value>& user, Access& access) const {
  for (const char* other : {"exec", "auth-provider", "username"}) {
    if (user && user->Find(other)) {
      return Wrong(place_, fmt::format("the user has `{}`, which is not supported: give a token, a tokenFile "
                                       "or a client certificate",
                                       other));
    }
  }
  absl::StatusOr<std::string> certificate = Part(user, "client-certificate");
  if (!certificate.ok()) return certificate.status();
  absl::StatusOr<std::string> key = Part(user, "client-key");
  if (!key.ok()) return key.status();
  if (certificate->empty() != key->empty())
    return Wrong(place_, "client-certificate and client-key belong together");
  access.certificate = *std::move(certificate);
  access.key = conf::Secret(place_.kubeconfig, *std::move(key));
  std::string token = TextAt(user, "token");
  if (const std::string path = TextAt(user, "tokenFile"); !path.empty()) {
    absl::StatusOr<std::string> text = File(path);
    if (!text.ok()) return text.status();
    token = *std::move(text);
  }
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  if (token.find_first_of("\r\n\t ") != std::string::npos)
    return Wrong(place_, "the token has white space in it");
  access.token = conf::Secret(place_.kubeconfig, std::move(token));
  return absl::OkStatus();
}

absl::StatusOr<Access> Reading::Read() {
  absl::StatusOr<std::string> text = sources_.file(place_.kubeconfig);
  if (!text.ok()) return text.status();
  conf::Document document(*text, place_.kubeconfig, sources_);
  conf::Wipe(*text);
  if (!document.parsed() || document.root().kind() != conf::Kind::kMapping)
    return Wrong(place_, "is not a kubeconfig: a mapping of clusters, users and contexts");
  const Value root = document.root();
  const std::string name = place_.context.empty() ? TextAt(root, "current-context") : place_.context;
  if (name.empty()) return Wrong(place_, "has no current-context: name one with `context`");
  const std::optional<Value> context = Entry(root, "contexts", name, "context");
  if (!context) return Wrong(place_, fmt::format("has no context {}", name));
  const std::string cluster_name = TextAt(context, "cluster");
  const std::optional<Value> cluster = Entry(root, "clusters", cluster_name, "cluster");
  if (!cluster) return Wrong(place_, fmt::format("has no cluster {}", cluster_name));
  if (cluster->Find("proxy-url")) return Wrong(place_, "the cluster has `proxy-url`, which is not supported");
  absl::StatusOr<gateway::net::Url> url = gateway::net::ParseUrl(TextAt(cluster, "server"));
  if (!url.ok())
    return Wrong(place_,
                 fmt::format("server of cluster {}: {}", cluster_name, conf::Std(url.status().message())));
  Access access;
  access.server = *std::move(url);
  while (access.server.path.ends_with('/')) access.server.path.pop_back();
  access.server_name = TextAt(cluster, "tls-server-name");
  access.verify = !IsTrue(TextAt(cluster, "insecure-skip-tls-verify"));
  access.name_space = place_.name_space.empty() ? TextAt(context, "namespace") : place_.name_space;
  if (access.name_space.empty()) access.name_space = "default";
  absl::StatusOr<std::string> ca = Part(cluster, "certificate-authority");
  if (!ca.ok()) return ca.status();
  access.ca = *std::move(ca);
  const std::string user_name = TextAt(context, "user");
  const std::optional<Value> user = Entry(root, "users", user_name, "user");
  if (!user && !user_name.empty()) return Wrong(place_, fmt::format("has no user {}", user_name));
  if (absl::Status status = ReadUser(user, access); !status.ok()) return status;
  return access;
}

absl::StatusOr<Access> ReadInCluster(const Place& place, const conf::Sources& sources) {
  const std::optional<std::string> host = sources.environment("KUBERNETES_SERVICE_HOST");
  const std::optional<std::string> port = sources.environment("KUBERNETES_SERVICE_PORT");
  if (!host || host->empty() || !port || port->empty()) {
    return absl::InvalidArgumentError(
        "no kubeconfig is given, and this process is in no pod: KUBERNETES_SERVICE_HOST and "
        "KUBERNETES_SERVICE_PORT are not set");
  }
  Access access;
  access.server = {true, *host, *port, "", ""};
  const std::string folder(kServiceAccount);
  absl::StatusOr<std::string> token = sources.file(folder + "token");
  if (!token.ok()) return token.status();
  while (token->ends_with('\n')) token->pop_back();
  access.token = conf::Secret("file:" + folder + "token", *std::move(token));
  absl::StatusOr<std::string> ca = sources.file(folder + "ca.crt");
  if (!ca.ok()) return ca.status();
  access.ca = *std::move(ca);
  access.name_space = place.name_space;
  if (access.name_space.empty()) {
    absl::StatusOr<std::string> name = sources.file(folder + "namespace");
    access.name_space = name.ok() && !name->empty() ? *name : "default";
    while (access.name_space.ends_with('\n')) access.name_space.pop_back();
  }
  return access;
}

}  // namespace

absl::StatusOr<Access> ReadAccess(const Place& place, const conf::Sources& sources) {
  return place.kubeconfig.empty() ? ReadInCluster(place, sources) : Reading(place, sources).Read();
}

}  // namespace plugins::kubernetes
