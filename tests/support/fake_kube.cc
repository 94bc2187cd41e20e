#include "tests/support/fake_kube.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>

#include "conf/json_parse.h"

namespace tests {
namespace {

using Json = nlohmann::json;
using Query = std::map<std::string, std::string>;

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      out += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

std::vector<std::string> Pieces(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

Query QueryOf(std::string_view text) {
  Query query;
  for (const std::string& piece : Pieces(text, '&')) {
    const size_t equals = std::min(piece.find('='), piece.size());
    query[PercentDecoded(std::string_view(piece).substr(0, equals))] =
        PercentDecoded(std::string_view(piece).substr(std::min(equals + 1, piece.size())));
  }
  return query;
}

std::string ValueOf(const Query& query, const std::string& name) {
  const auto found = query.find(name);
  return found == query.end() ? "" : found->second;
}

Json StatusOf(int code, std::string_view reason, std::string_view message) {
  return {{"kind", "Status"},    {"apiVersion", "v1"}, {"metadata", Json::object()},
          {"status", "Failure"}, {"message", message}, {"reason", reason},
          {"code", code}};
}
Json Gone() {
  return StatusOf(410, "Expired", "The resourceVersion for the provided watch is too old.");
}

std::string Dug(const Json& object, const std::vector<std::string>& path) {
  const Json* at = &object;
  for (const std::string& step : path) {
    if (!at->is_object() || !at->contains(step)) return {};
    at = &(*at)[step];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

// Selectors of lists and watches: "a=b,c!=d,e".
bool Selected(const Json& object, const Query& query) {
  const std::string labels = ValueOf(query, "labelSelector");
  const std::string fields = ValueOf(query, "fieldSelector");
  for (const auto& [text, labelled] : {std::pair(labels, true), std::pair(fields, false)}) {
    for (const std::string& term : Pieces(text, ',')) {
      const size_t equals = term.find('=');
      const bool negated = equals != term.npos && equals > 0 && term[equals - 1] == '!';
      const std::string name = term.substr(0, equals == term.npos ? equals : equals - (negated ? 1 : 0));
      const std::vector<std::string> path =
          labelled ? std::vector<std::string>{"metadata", "labels", name} : Pieces(name, '.');
      const std::string value = Dug(object, path);
      if (equals == term.npos) {
        if (value.empty()) return false;
      } else if ((value == term.substr(term.find_last_of('=') + 1)) == negated) {
        return false;
      }
    }
  }
  return true;
}

uint64_t NumberOf(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void FakeKube::Listen() {
  gateway::net::http::Server::Options options;
  options.acceptor.address = "127.0.0.1:0";
  auto server = gateway::net::http::Server::Listen(loop_, std::move(options),
                                                   [this](Exchange& exchange) { return Serve(exchange); });
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

void FakeKube::CloseAll() {
  DropWatches();
  server_->CloseAll();
}

std::optional<FakeKube::Path> FakeKube::Parse(std::string_view target) {
  std::vector<std::string> parts = Pieces(target.substr(0, target.find('?')), '/');
  const size_t root = parts.empty() ? 0 : parts[0] == "api" ? 2 : parts[0] == "apis" ? 3 : 0;
  if (root == 0 || parts.size() <= root) return std::nullopt;
  Path path;
  for (size_t i = 0; i < root; ++i) path.root += "/" + parts[i];
  parts.erase(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(root));
  if (parts[0] == "namespaces" && parts.size() > 2) {
    path.name_space = parts[1];
    parts.erase(parts.begin(), parts.begin() + 2);
  }
  path.resource = parts[0];
  if (parts.size() > 1) path.name = parts[1];
  if (parts.size() > 2) path.sub = parts[2];
  return path;
}

int FakeKube::Count(std::string_view prefix) const {
  return static_cast<int>(
      std::ranges::count_if(seen, [&](const std::string& line) { return line.starts_with(prefix); }));
}

void FakeKube::Wake() {
  for (Watcher* watcher : std::vector<Watcher*>(watchers_.begin(), watchers_.end())) {
    if (watchers_.contains(watcher)) watcher->changed.Set();
  }
}

void FakeKube::DropWatches() {
  for (Watcher* watcher : watchers_) watcher->dropped = true;
  Wake();
}

void FakeKube::ForgetHistory() {
  oldest_ = ++version_;
  history_.clear();
  DropWatches();
}

void FakeKube::EndStall() {
  stall = false;
  Wake();
}

void FakeKube::Emit(const std::string& key, const std::string& type, const Json& object) {
  history_.push_back({version_, type, object, key});
  Wake();
}

void FakeKube::Put(const std::string& collection, Json object) {
  const std::optional<Path> path = Parse(collection);
  ASSERT_TRUE(path) << collection;
  const auto [status, body] = Create(*path, std::move(object));
  ASSERT_EQ(status, 201) << body;
}

void FakeKube::Change(const std::string& collection, const std::string& name, const Json& merge_patch) {
  const auto [status, body] = Patch(*Parse(collection + "/" + name), merge_patch);
  ASSERT_EQ(status, 200) << body;
}

void FakeKube::Remove(const std::string& collection, const std::string& name) {
  const std::optional<Path> path = Parse(collection + "/" + name);
  auto& known = objects_[KeyOf(*path)];
  const auto found = known.find(path->name_space + "/" + name);
  ASSERT_NE(found, known.end()) << name;
  Json object = std::move(found->second);
  known.erase(found);
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  Emit(KeyOf(*path), "DELETED", object);
}

std::vector<FakeKube::Json> FakeKube::All(std::string_view resource) const {
  std::vector<Json> all;
  for (const auto& [key, known] : objects_) {
    if (!key.ends_with(" " + std::string(resource))) continue;
    for (const auto& [name, object] : known) all.push_back(object);
  }
  return all;
}

void FakeKube::AddNode(const std::string& name, int gpus) {
  const Json amounts = {
      {"cpu", "64"}, {"memory", "527957588Ki"}, {"nvidia.com/gpu", std::to_string(gpus)}, {"pods", "110"}};
  Put("/api/v1/nodes", {{"apiVersion", "v1"},
                        {"kind", "Node"},
                        {"metadata", {{"name", name}, {"labels", {{"kubernetes.io/hostname", name}}}}},
                        {"spec", Json::object()},
                        {"status",
                         {{"capacity", amounts},
                          {"allocatable", amounts},
                          {"addresses", {{{"type", "InternalIP"}, {"address", "127.0.0.1"}}}},
                          {"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
}

void FakeKube::SetState(const std::string& name_space, const std::string& pod, const std::string& phase,
                        Json state) {
  Change(fmt::format("/api/v1/namespaces/{}/pods", name_space), pod,
         {{"status",
           {{"phase", phase}, {"containerStatuses", {{{"name", "run"}, {"state", std::move(state)}}}}}}});
}

// Starts the pod where its affinity, its selector or its node name allows; otherwise the pod waits.
void FakeKube::Run(Json& pod) {
  std::string node = Dug(pod, {"spec", "nodeName"});
  if (node.empty()) node = Dug(pod, {"spec", "nodeSelector", "kubernetes.io/hostname"});
  const Json::json_pointer terms(
      "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0");
  if (node.empty() && pod.contains(terms)) {
    for (const char* kind : {"matchFields", "matchExpressions"}) {
      if (!pod[terms].contains(kind)) continue;
      for (const Json& match : pod[terms][kind]) {
        if (match.value("key", "") == "metadata.name" || match.value("key", "") == "kubernetes.io/hostname")
          node = match["values"][0];
      }
    }
  }
  if (node.empty()) return;
  pod["spec"]["nodeName"] = node;
  const std::string container = pod["spec"]["containers"][0].value("name", "run");
  pod["status"] = {
      {"phase", "Running"},
      {"hostIP", "127.0.0.1"},
      {"podIP", "127.0.0.1"},
      {"conditions",
       {{{"type", "PodScheduled"}, {"status", "True"}}, {{"type", "Ready"}, {"status", "True"}}}},
      {"containerStatuses",
       {{{"name", container},
         {"ready", true},
         {"state", {{"running", {{"startedAt", "2026-11-26T04:02:14Z"}}}}}}}}};
}

FakeKube::Reply FakeKube::Create(const Path& path, Json object) {
  Json& metadata = object["metadata"];
  if (!metadata.contains("name")) return {422, StatusOf(422, "Invalid", "metadata.name: Required value")};
  const std::string name = metadata["name"];
  auto& known = objects_[KeyOf(path)];
  const std::string id = path.name_space + "/" + name;
  if (known.contains(id)) {
    return {409,
            StatusOf(409, "AlreadyExists", fmt::format("{} \"{}\" already exists", path.resource, name))};
  }
  metadata["namespace"] = path.name_space;
  if (path.name_space.empty()) metadata.erase("namespace");
  metadata["uid"] = fmt::format("uid-{}", ++version_);
  metadata["resourceVersion"] = std::to_string(version_);
  metadata["creationTimestamp"] = "2026-11-26T04:02:00Z";
  if (path.resource == "pods") {
    object["status"] = {{"phase", "Pending"}};
    if (runs) Run(object);
  }
  known[id] = object;
  Emit(KeyOf(path), "ADDED", object);
  return {201, object};
}

FakeKube::Reply FakeKube::Patch(const Path& path, const Json& patch) {
  auto& known = objects_[KeyOf(path)];
  const auto found = known.find(path.name_space + "/" + path.name);
  if (found == known.end()) {
    return {404, StatusOf(404, "NotFound", fmt::format("{} \"{}\" not found", path.resource, path.name))};
  }
  found->second.merge_patch(patch);
  found->second["metadata"]["resourceVersion"] = std::to_string(++version_);
  Emit(KeyOf(path), "MODIFIED", found->second);
  return {200, found->second};
}

FakeKube::Reply FakeKube::Replace(const Path& path, const Json& object) {
  auto& known = objects_[KeyOf(path)];
  const auto found = known.find(path.name_space + "/" + path.name);
  if (found == known.end()) {
    return {404, StatusOf(404, "NotFound", fmt::format("{} \"{}\" not found", path.resource, path.name))};
  }
  const std::string version = Dug(object, {"metadata", "resourceVersion"});
  if (!version.empty() && Json(version) != found->second["metadata"]["resourceVersion"]) {
    return {409, StatusOf(409, "Conflict",
                          "the object has been modified; please apply your changes to the latest "
                          "version and try again")};
  }
  found->second = object;
  found->second["metadata"]["resourceVersion"] = std::to_string(++version_);
  Emit(KeyOf(path), "MODIFIED", found->second);
  return {200, found->second};
}

FakeKube::Reply FakeKube::Delete(const Path& path, const Query& query, const Json& options) {
  auto& known = objects_[KeyOf(path)];
  const auto found = known.find(path.name_space + "/" + path.name);
  if (found == known.end()) {
    return {404, StatusOf(404, "NotFound", fmt::format("{} \"{}\" not found", path.resource, path.name))};
  }
  const std::string uid = Dug(options, {"preconditions", "uid"});
  if (!uid.empty() && Json(uid) != found->second["metadata"]["uid"]) {
    return {409, StatusOf(409, "Conflict", "the UID in the precondition does not match")};
  }
  Json object = found->second;
  if (path.resource == "pods") {
    const bool now = ValueOf(query, "gracePeriodSeconds") == "0" ||
                     (options.is_object() && options.value("gracePeriodSeconds", 1) == 0);
    object["metadata"]["deletionTimestamp"] = "2026-11-26T04:03:00Z";
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    found->second = object;
    Emit(KeyOf(path), "MODIFIED", object);
    if (!runs && !now) return {200, object};
    if (object["status"].contains("containerStatuses") && object["status"].value("phase", "") == "Running") {
      object["status"]["phase"] = "Failed";
      object["status"]["containerStatuses"][0]["state"] = {{"terminated",
                                                            {{"exitCode", 143},
                                                             {"startedAt", "2026-11-26T04:02:14Z"},
                                                             {"finishedAt", "2026-11-26T04:03:00Z"}}}};
      object["metadata"]["resourceVersion"] = std::to_string(++version_);
      Emit(KeyOf(path), "MODIFIED", object);
    }
  }
  objects_[KeyOf(path)].erase(path.name_space + "/" + path.name);
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  Emit(KeyOf(path), "DELETED", object);
  return {200, object};
}

std::string FakeKube::CrowdPod(size_t i) const {
  static const std::string note(800, 'x');
  static const std::string value(400, 'y');
  return fmt::format(
      R"({{"metadata":{{"name":"pod-{0:06}","namespace":"team-{1}","uid":"u{0:035}","resourceVersion":"900",)"
      R"("labels":{{"app":"others","pod-template-hash":"5f5f5f5f5f"}},"annotations":{{"note":"{2}"}},)"
      R"("ownerReferences":[{{"kind":"ReplicaSet","name":"rs-{0}"}}]}},"spec":{{"nodeName":"crowd-{3:05}",)"
      R"("containers":[{{"name":"main","image":"registry.example.com/team/image:1","env":[{{"name":"A","value":"{4}"}}],)"
      R"("resources":{{"requests":{{"cpu":"1","memory":"1Gi"{5}}},"limits":{{"cpu":"2"{5}}}}}}}]}},"status":{{"phase":"Running",)"
      R"("containerStatuses":[{{"name":"main","state":{{"running":{{"startedAt":"2026-11-26T04:02:14Z"}}}}}}]}}}})",
      i, i % 50, note, i / 10 % std::max<size_t>(crowd_nodes_, 1), value,
      i % 10 == 0 ? R"(,"nvidia.com/gpu":"1")" : "");
}

std::string FakeKube::List(const Path& path, const Query& query) {
  static const std::string images = [] {  // most of the size of a real node
    Json all = Json::array();
    for (int i = 0; i < 20; ++i) {
      all.push_back({{"names", {fmt::format("registry.example.com/team/image-{}@sha256:{:064}", i, i)}},
                     {"sizeBytes", 1'000'000'000}});
    }
    return all.dump();
  }();
  const auto known = objects_.find(KeyOf(path));
  const bool crowded =
      path.root == "/api/v1" && path.name_space.empty() && ValueOf(query, "labelSelector").empty();
  size_t crowd = 0;
  if (crowded && path.resource == "pods") crowd = crowd_pods_;
  if (crowded && path.resource == "nodes") crowd = crowd_nodes_;
  const size_t own = known == objects_.end() ? 0 : known->second.size();
  size_t at = NumberOf(ValueOf(query, "continue"));
  size_t limit = NumberOf(ValueOf(query, "limit"));
  if (limit == 0) limit = own + crowd;
  if (at > 0 && expire_pages > 0) {
    --expire_pages;
    return {};
  }
  std::string items;
  size_t taken = 0;
  const auto take = [&](const std::string& text) { items += (taken++ > 0 ? "," : "") + text; };
  size_t i = 0;
  if (known != objects_.end()) {
    for (const auto& [id, object] : known->second) {
      if (i++ < at || taken >= limit) continue;
      ++at;
      const bool there = path.name_space.empty() || id.starts_with(path.name_space + "/");
      if (there && Selected(object, query)) take(object.dump());
    }
  }
  for (; at >= own && at < own + crowd && taken < limit; ++at) {
    if (path.resource == "pods") {
      take(CrowdPod(at - own));
    } else {
      take(fmt::format(
          R"({{"metadata":{{"name":"crowd-{0:05}","uid":"u{0}","resourceVersion":"900","labels":)"
          R"({{"kubernetes.io/hostname":"crowd-{0:05}","topology.kubernetes.io/zone":"z1"}}}},"spec":{{}},"status":)"
          R"({{"capacity":{{"cpu":"64","memory":"527957588Ki","nvidia.com/gpu":"8","pods":"110"}},"allocatable":)"
          R"({{"cpu":"64","memory":"527957588Ki","nvidia.com/gpu":"8","pods":"110"}},"addresses":)"
          R"([{{"type":"InternalIP","address":"10.1.2.3"}}],"conditions":[{{"type":"Ready","status":"True"}}],)"
          R"("images":{1}}}}})",
          at - own, images));
    }
  }
  std::string more;
  if (at < own + crowd)
    more = fmt::format(R"(,"continue":"{}","remainingItemCount":{})", at, own + crowd - at);
  return fmt::format(
      R"({{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"{}"{}}},"items":[{}]}})", version_,
      more, items);
}

gateway::net::Task<void> FakeKube::Watch(Exchange& exchange, const Path& path, const Query& query) {
  uint64_t from = NumberOf(ValueOf(query, "resourceVersion"));
  const bool marks = bookmarks && ValueOf(query, "allowWatchBookmarks") == "true";
  if (from == 0) from = version_;
  Watcher watcher(loop_);
  const uint64_t seconds = NumberOf(ValueOf(query, "timeoutSeconds"));
  if (seconds > 0) watcher.SetAfter(std::chrono::seconds(seconds));
  watchers_.insert(&watcher);
  exchange.OnGone([&watcher] { watcher.dropped = true, watcher.changed.Set(); });
  co_await exchange.Start(200, {{"content-type", "application/json"}});
  if (expire_watches > 0 || from < oldest_) {
    if (expire_watches > 0) --expire_watches;
    co_await exchange.Write(Json{{"type", "ERROR"}, {"object", Gone()}}.dump() + "\n");
    watchers_.erase(&watcher);
    co_await exchange.Finish();
    co_return;
  }
  const std::string key = KeyOf(path);
  while (!watcher.dropped) {
    std::string lines;
    uint64_t until = from;
    for (const Event_& event : history_) {
      if (stall || event.version <= from) continue;
      until = event.version;
      if (event.key != key) continue;
      if (!path.name_space.empty() && Dug(event.object, {"metadata", "namespace"}) != path.name_space)
        continue;
      // For a watcher, an object that is no longer selected is deleted.
      const std::string type = Selected(event.object, query) ? event.type : "DELETED";
      lines += Json{{"type", type}, {"object", event.object}}.dump() + "\n";
    }
    if (marks && lines.empty() && until > from) {
      lines = Json{{"type", "BOOKMARK"},
                   {"object",
                    {{"metadata", {{"resourceVersion", std::to_string(until)}}},
                     {"spec", {{"containers", nullptr}}}}}}
                  .dump() +
              "\n";
    }
    from = until;
    if (!lines.empty() && !co_await exchange.Write(lines)) break;
    if (watcher.dropped) break;
    watcher.changed.Reset();
    if (!stall && !history_.empty() && history_.back().version > from)
      continue;  // it happened while this wrote
    co_await watcher.changed.Wait();
    if (watcher.ended && !stall) break;
  }
  watchers_.erase(&watcher);
  if (watcher.dropped) {
    exchange.Reset();
  } else {
    co_await exchange.Finish();
  }
}

gateway::net::Task<void> FakeKube::Serve(Exchange& exchange) {
  const std::string method(exchange.method());
  const std::string target(exchange.path());
  const Query query = QueryOf(exchange.query());
  const bool watches = ValueOf(query, "watch") == "true" || ValueOf(query, "watch") == "1";
  const std::optional<Path> path = Parse(target);
  const bool lists = method == "GET" && path && path->name.empty();
  seen.push_back(fmt::format("{} {}", watches ? "WATCH" : lists ? "LIST" : method, target));

  gateway::net::http::Headers headers = {{"content-type", "application/json"}};
  std::string text;  // of a list
  Reply reply = {404, StatusOf(404, "NotFound", "the server could not find the requested resource")};
  const Json body = conf::ParseJson(exchange.body());
  std::optional<Reply> other = answer ? answer(watches ? "WATCH" : method, target) : std::nullopt;
  if (other) {
    reply = *std::move(other);
  } else if (watches && refuse_watches > 0) {
    --refuse_watches;
    reply = {503,
             StatusOf(503, "ServiceUnavailable", "the server is currently unable to handle the request")};
  } else if (watches && path) {
    co_await Watch(exchange, *path, query);
    co_return;
  } else if (throttle > 0) {
    --throttle;
    headers.emplace_back("retry-after", "1");
    reply = {429, StatusOf(429, "TooManyRequests", "Too many requests, please try again later.")};
  } else if (fail > 0) {
    --fail;
    reply = {500, StatusOf(500, "InternalError", "etcdserver: request timed out")};
  } else if (lose_requests > 0 && method == "POST") {
    --lose_requests;
    exchange.Reset();
    co_return;
  } else if (path && path->sub.empty()) {
    if (lists) {
      text = List(*path, query);
      reply = Reply(text.empty() ? 410 : 200, Gone());
    } else if (method == "GET") {
      const auto& known = objects_[KeyOf(*path)];
      const auto found = known.find(path->name_space + "/" + path->name);
      reply = {404,
               StatusOf(404, "NotFound", fmt::format("{} \"{}\" not found", path->resource, path->name))};
      if (found != known.end()) reply = {200, found->second};
    } else if (method == "POST") {
      reply = Create(*path, body);
    } else if (method == "PATCH") {
      reply = Patch(*path, body);
    } else if (method == "PUT") {
      reply = Replace(*path, body);
    } else if (method == "DELETE") {
      reply = Delete(*path, query, body.is_discarded() ? Json() : body);
    }
    if (lose_answers > 0 && (method == "POST" || method == "DELETE")) {
      --lose_answers;
      exchange.Reset();
      co_return;
    }
  }
  if (delay > conf::Duration::zero()) {
    gateway::net::Sleep sleep(loop_.watchdog);
    co_await sleep.For(delay);
  }
  co_await exchange.Send(reply.first, headers, text.empty() ? reply.second.dump() : text);
}

}  // namespace tests
