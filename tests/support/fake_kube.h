// A Kubernetes API server on the test's loop, for what a real one does not do on demand: expired versions, watches that
// drop or stall, throttling, lost answers, slow ones, and clusters of any size. It keeps objects by path, with list pages,
// selectors (=, !=, existence), watches with bookmarks, conflicts and preconditions; it has no scheduler. With `runs`, a pod
// that is created runs at once where its affinity says, and one that is deleted ends.
//
// Thread: the loop's. CloseAll() before the loop ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/net/http/server.h"
#include "gateway/net/url.h"
#include "tests/support/loop_test.h"

namespace tests {

class FakeKube {
 public:
  using Json = nlohmann::json;

  explicit FakeKube(gateway::net::Loop& loop) : loop_(loop) {}

  void Listen();
  void CloseAll();
  uint16_t port() const { return server_->port(); }
  gateway::net::Url url() const { return {false, "127.0.0.1", std::to_string(port()), "", ""}; }

  // `collection` is a path such as "/api/v1/nodes" or "/api/v1/namespaces/x/pods".
  void Put(const std::string& collection, Json object);
  void Change(const std::string& collection, const std::string& name, const Json& merge_patch);
  void Remove(const std::string& collection, const std::string& name);
  std::vector<Json> All(std::string_view resource) const;  // "pods", of all namespaces

  void AddNode(const std::string& name, int gpus);
  // A pod's phase and the state of its container: {"running": {…}} or {"terminated": {"exitCode": 3}}.
  void SetState(const std::string& name_space, const std::string& pod, const std::string& phase, Json state);
  // Pods of others that run, and that no list of All() has: made anew for each page.
  void SetCrowd(size_t pods, size_t nodes) { crowd_pods_ = pods, crowd_nodes_ = nodes; }

  // Faults. Counts go down with each request that they meet.
  int expire_pages = 0;    // pages after the first: 410
  int expire_watches = 0;  // a line ERROR with code 410
  int throttle = 0;        // 429, Retry-After: 1
  int fail = 0;            // 500
  int lose_answers = 0;    // of POST and DELETE: it is done, and the connection is cut
  int lose_requests = 0;   // of POST: it is not done, and the connection is cut
  int refuse_watches = 0;  // 503
  bool stall = false;      // watches stay open and silent; their events follow when that ends
  bool bookmarks = true;   // of watches that ask for them, with each change elsewhere
  bool runs = true;
  conf::Duration delay{};  // before each answer but a watch's
  // Another answer, by method and path: status, and body.
  std::function<std::optional<std::pair<int, Json>>(std::string_view method, std::string_view path)> answer;
  void DropWatches();    // cuts their connections
  void ForgetHistory();  // watches from before now have expired, those that run end
  void EndStall();

  // "POST /api/v1/namespaces/x/pods", "LIST /api/v1/pods", "WATCH /api/v1/pods"
  std::vector<std::string> seen;
  int Count(std::string_view prefix) const;
  size_t watches() const { return watchers_.size(); }
  uint64_t version() const { return version_; }

 private:
  using Exchange = gateway::net::http::Exchange;
  template <class T>
  using Task = gateway::net::Task<T>;
  struct Path {
    std::string root;        // "/api/v1"
    std::string name_space;  // empty: all, or none
    std::string resource;
    std::string name;
    std::string sub;
  };
  struct Event_ {
    uint64_t version;
    std::string type;
    Json object;
    std::string key;  // of the collection: root and resource
  };
  struct Watcher final : gateway::net::Alarm {
    explicit Watcher(gateway::net::Loop& loop) : Alarm(loop.watchdog) {}
    void OnAlarm() override { ended = true, changed.Set(); }
    gateway::net::Event changed;
    bool ended = false;  // its time is over
    bool dropped = false;
  };
  using Reply = std::pair<int, Json>;

  static std::optional<Path> Parse(std::string_view target);
  static std::string KeyOf(const Path& path) { return path.root + " " + path.resource; }
  Task<void> Serve(Exchange& exchange);
  Task<void> Watch(Exchange& exchange, const Path& path, const std::map<std::string, std::string>& query);
  std::string List(const Path& path, const std::map<std::string, std::string>& query);  // empty: expired
  Reply Create(const Path& path, Json object);
  Reply Patch(const Path& path, const Json& patch);
  Reply Replace(const Path& path, const Json& object);
  Reply Delete(const Path& path, const std::map<std::string, std::string>& query, const Json& options);
  void Emit(const std::string& key, const std::string& type, const Json& object);
  void Wake();
  std::string CrowdPod(size_t i) const;
  void Run(Json& pod);

  gateway::net::Loop& loop_;
  std::unique_ptr<gateway::net::http::Server> server_;
  std::map<std::string, std::map<std::string, Json>> objects_;  // by key, then "namespace/name"
  std::deque<Event_> history_;
  uint64_t version_ = 1000;
  uint64_t oldest_ = 1000;  // watches from before have expired
  std::set<Watcher*> watchers_;
  size_t crowd_pods_ = 0;
  size_t crowd_nodes_ = 0;
};

}  // namespace tests
