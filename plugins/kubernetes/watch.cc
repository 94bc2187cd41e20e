#include "plugins/kubernetes/watch.h"

#include <fmt/format.h>

#include <utility>

#include "conf/json_dump.h"
#include "conf/text.h"
#include "gateway/net/clock.h"
#include "gateway/net/url.h"

namespace plugins::kubernetes {
namespace {

using gateway::net::Now;
using gateway::net::Task;
using nlohmann::json;

// The depth of an object in a list, and of the list's own fields.
constexpr int kItemDepth = 2;
constexpr int kOwnDepth = 1;

std::string Member(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string VersionOf(const json& object) {
  const auto metadata = object.find("metadata");
  return metadata != object.end() && metadata->is_object() ? Member(*metadata, "resourceVersion")
                                                           : std::string();
}

// A field that may be most of an object.
bool IsBallast(int depth, const json& key, int base) {
  if (!key.is_string()) return false;
  const auto& name = key.get_ref<const std::string&>();
  return depth == base + 2 && (name == "managedFields" || name == "images");
}

}  // namespace

absl::StatusOr<Page> ReadPage(std::string_view text, const std::function<void(const json&)>& on_item) {
  std::string section;  // the key of the list that is read
  const json::parser_callback_t each = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::key) {
      if (depth == kOwnDepth) section = value.get<std::string>();
      return section != "items" || !IsBallast(depth, value, kItemDepth);
    }
    if (event != json::parse_event_t::object_end || depth != kItemDepth || section != "items") return true;
    on_item(value);
    return false;
  };
  const json list = json::parse(text, each, false);
  if (!list.is_object() || !list.contains("metadata") || !list["metadata"].is_object() ||
      !list.contains("items")) {
    return absl::UnavailableError("the answer of Kubernetes is not a list");
  }
  return Page{VersionOf(list), Member(list["metadata"], "continue")};
}

absl::StatusOr<WatchLine> ReadWatchLine(std::string_view text) {
  const json::parser_callback_t each = [](int depth, json::parse_event_t event, json& value) {
    return event != json::parse_event_t::key || !IsBallast(depth, value, kOwnDepth);
  };
  json line = json::parse(text, each, false);
  if (!line.is_object() || !line.contains("object") || !line["object"].is_object())
    return absl::UnavailableError("a line of the watch is not an event");
  const std::string type = Member(line, "type");
  json& object = line["object"];
  if (type == "ERROR") {
    const auto code = object.find("code");
    const int status = code != object.end() && code->is_number_integer() ? code->get<int>() : 500;
    return ErrorOf(status, conf::DumpJson(object), "the watch");
  }
  WatchLine read;
  if (type == "BOOKMARK") {
    read.kind = WatchLine::Kind::kBookmark;
  } else if (type == "DELETED") {
    read.kind = WatchLine::Kind::kDeleted;
  } else if (type != "ADDED" && type != "MODIFIED") {
    return absl::UnavailableError(fmt::format("the watch has an event of the unknown type {}", type));
  }
  read.version = VersionOf(object);
  read.object = std::move(object);
  return read;
}

Watch::Watch(gateway::net::Loop& loop, Client& client, Options options, Handlers handlers)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      backoff_(options_.least_pause, options_.most_pause, options_.seed),
      sleep_(loop.watchdog) {}

void Watch::Open() {
  open_ = true;
  loop_.tasks.Spawn(Run());
}

Task<void> Watch::Close() {
  closed_ = true;
  sleep_.Cancel();
  if (open_) co_await stopped_.Wait();
}

void Watch::ListAgain() {
  list_again_ = true;
  sleep_.Cancel();
}

void Watch::NoteAnswer() {
  heard_at_ = Now();
  health_ = absl::OkStatus();
  backoff_.Reset();
}

Task<void> Watch::Run() {
  while (!closed_) {
    if (std::exchange(list_again_, false)) version_.clear();
    absl::Status status = absl::OkStatus();
    if (version_.empty()) {
      status = co_await List();
      if (absl::IsOutOfRange(status)) status = absl::UnavailableError(status.message());
    } else {
      status = co_await Turn();
      if (absl::IsOutOfRange(status)) version_.clear();
    }
    if (closed_ || absl::IsCancelled(status)) break;
    conf::Duration pause = backoff_.Next();
    if (status.ok()) {
      NoteAnswer();
      // A server may end each watch at once; it is not asked in a circle.
      pause = backoff_.Jitter(options_.least_pause / 10, options_.least_pause / 5);
    } else if (absl::IsAborted(status)) {
      // A load balancer may close a quiet connection. That ends the turn.
      health_ = absl::OkStatus();
    } else if (!absl::IsOutOfRange(status)) {
      health_ = status;
    }
    handlers_.on_news();
    if (closed_) break;
    co_await sleep_.For(pause);
  }
  stopped_.Set();
}

Task<absl::Status> Watch::List() {
  handlers_.on_begin();
  std::string version;
  std::string next;
  do {
    Request request{.path = options_.path, .query = fmt::format("limit={}", options_.page)};
    if (!options_.query.empty()) request.query += "&" + options_.query;
    if (!next.empty()) request.query += "&continue=" + gateway::net::PercentEncode(next);
    request.timeout = std::chrono::seconds(60);
    const absl::StatusOr<std::string> body = co_await client_.Ask(std::move(request));
    if (!body.ok()) co_return body.status();
    if (closed_) co_return absl::CancelledError();
    absl::StatusOr<Page> page = ReadPage(*body, handlers_.on_object);
    if (!page.ok()) co_return page.status();
    if (version.empty()) version = page->version;
    next = std::move(page->next);
  } while (!next.empty());
  version_ = std::move(version);
  listed_ = true;
  NoteAnswer();
  handlers_.on_listed();
  co_return absl::OkStatus();
}

// The server is there. It has not reported the state of the collection yet, and it may have stalled.
void Watch::OnAccepted() {
  backoff_.Reset();
  if (closed_ || health_.ok() || absl::IsDeadlineExceeded(health_)) return;
  health_ = absl::OkStatus();
  handlers_.on_news();
}

absl::Status Watch::OnLine(std::string_view line) {
  absl::StatusOr<WatchLine> read = ReadWatchLine(line);
  if (!read.ok()) return read.status();
  NoteAnswer();
  if (!read->version.empty()) version_ = read->version;
  switch (read->kind) {
    case WatchLine::Kind::kObject:
      handlers_.on_object(read->object);
      break;
    case WatchLine::Kind::kDeleted:
      handlers_.on_deleted(read->object);
      break;
    case WatchLine::Kind::kBookmark:
      break;
  }
  handlers_.on_news();
  return absl::OkStatus();
}

Task<absl::Status> Watch::Turn() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(options_.turn).count();
  std::string query =
      fmt::format("watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}", seconds, version_);
  if (!options_.query.empty()) query += "&" + options_.query;
  absl::Status wrong = absl::OkStatus();
  const absl::Status ended = co_await client_.Follow(
      options_.path, std::move(query), options_.turn + options_.patience, [this] { OnAccepted(); },
      [this, &wrong](std::string_view line) {
        if (closed_) return false;
        wrong = OnLine(line);
        return wrong.ok() && !list_again_;
      });
  co_return wrong.ok() ? ended : wrong;
}

}  // namespace plugins::kubernetes
