// Watch: the present objects of one collection and their changes: a list in pages, then a watch from the version of the
// list on, for as long as it is open.
//
// It keeps no object. For each object it calls `on_object`, for each deleted one `on_deleted`. A list is between
// `on_begin` and `on_listed`; an object that it does not name is gone, without a call. The watch continues from the last
// version that it has received (bookmarks included) when the server ends it, when it breaks, or when it is silent for
// too long; after a 410 it lists again. While the server is away it tries less and less often, and health() has the
// reason. A watch whose connection is closed after it was accepted counts as ended, and is begun again soon.
//
// Thread: the loop's. Construct, Open() once, and Close() before destruction. The calls come from the loop,
// never inside Open() or Close().
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "conf/time.h"
#include "gateway/net/backoff.h"
#include "gateway/net/loop.h"
#include "plugins/kubernetes/client.h"

namespace plugins::kubernetes {

class Watch {
 public:
  struct Options {
    std::string path{};   // "/api/v1/pods"
    std::string query{};  // selectors, encoded, without '?'; may be empty
    uint32_t page = 500;
    // The server is asked to end the watch after `turn`; one that says nothing for so long, and `patience`
    // more, has stalled.
    conf::Duration turn = std::chrono::seconds(60);
    conf::Duration patience = std::chrono::seconds(5);
    conf::Duration least_pause = std::chrono::milliseconds(250);
    conf::Duration most_pause = std::chrono::seconds(15);
    uint64_t seed = 0;
  };
  struct Handlers {
    std::function<void()> on_begin = [] {};
    std::function<void(const nlohmann::json& object)> on_object = [](const nlohmann::json&) {};
    std::function<void(const nlohmann::json& object)> on_deleted = [](const nlohmann::json&) {};
    std::function<void()> on_listed = [] {};
    // After a page, an event or a change of health: once for what came together.
    std::function<void()> on_news = [] {};
  };

  Watch(gateway::net::Loop& loop, Client& client, Options options, Handlers handlers);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void Open();
  // Call Client::Abort() before, or it waits for the watch's turn to end.
  gateway::net::Task<void> Close();

  // Lists anew, soon.
  void ListAgain();

  // A list was complete once.
  bool listed() const { return listed_; }
  // OK, or why what is known is old.
  const absl::Status& health() const { return health_; }
  // When the server last reported the state of the collection: by a list, an event, a bookmark, or the orderly end of a
  // watch.
  conf::TimePoint heard_at() const { return heard_at_; }
  const std::string& version() const { return version_; }

 private:
  gateway::net::Task<void> Run();
  gateway::net::Task<absl::Status> List();
  gateway::net::Task<absl::Status> Turn();
  void OnAccepted();
  absl::Status OnLine(std::string_view line);
  void NoteAnswer();

  gateway::net::Loop& loop_;
  Client& client_;
  const Options options_;
  const Handlers handlers_;
  std::string version_;  // empty: list
  bool listed_ = false;
  bool list_again_ = false;
  absl::Status health_ = absl::UnavailableError("Kubernetes has not been asked yet");
  conf::TimePoint heard_at_{};
  gateway::net::Backoff backoff_;
  gateway::net::Sleep sleep_;
  gateway::net::Event stopped_;
  bool open_ = false;
  bool closed_ = false;
};

struct Page {
  std::string version{};
  std::string next{};  // `continue` of the next page; empty: it is the last
};

// Calls `on_item` for each object of a list, parsed one at a time, without large fields that are not used here
// (managedFields, images of nodes). Unavailable: the text is no list.
absl::StatusOr<Page> ReadPage(std::string_view text,
                              const std::function<void(const nlohmann::json&)>& on_item);

// A line of a watch.
struct WatchLine {
  enum class Kind : uint8_t { kObject, kDeleted, kBookmark };
  Kind kind = Kind::kObject;
  std::string version{};
  nlohmann::json object{};
};
// OutOfRange: the version is too old, list again; Unavailable: another error, or no such line.
absl::StatusOr<WatchLine> ReadWatchLine(std::string_view text);

}  // namespace plugins::kubernetes
