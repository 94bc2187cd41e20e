#include "gateway/request/stored_state.h"

#include <algorithm>
#include <string>
#include <vector>

namespace gateway {
namespace {

using router::BodyMember;
using router::JsonCursor;
using router::JsonError;

std::string DecodedText(std::string_view raw) {
  std::string text;
  if (raw.find('\\') == std::string_view::npos || !router::UnescapeJson(raw, text)) text = raw;
  return text;
}

// Finds strings under the keys `file_id` and `file_ids`, at any depth.
struct FileVisitor : router::JsonVisitor {
  void Key(std::string_view raw) {
    const std::string key = DecodedText(raw);
    of_file = key == "file_id" || key == "file_ids";
  }
  void String(std::string_view raw) { found = found || (of_file && !raw.empty()); }

  bool of_file = false;
  bool found = false;
};

struct StringVisitor : router::JsonVisitor {
  void String(std::string_view raw) { found = found || !raw.empty(); }

  bool found = false;
};

// Calls `member(name, cursor)` for each member of each object in an array; `member` must consume the value. Calls
// `ended` after each object. False: the value is not such an array.
template <class Member, class Ended>
bool ForEachObject(JsonCursor cursor, std::string_view body, Member member, Ended ended) {
  router::JsonVisitor nobody;
  if (!cursor.Take('[')) return false;
  if (cursor.Take(']')) return true;
  do {
    if (!cursor.Take('{')) {
      if (cursor.SkipValue(2, nobody) != JsonError::kNone) return false;
      continue;
    }
    bool more = !cursor.Take('}');
    while (more) {
      router::ByteRange key;
      if (!cursor.TakeKey(key) || !member(DecodedText(key.In(body)), cursor)) return false;
      more = cursor.Take(',');
      if (!more && !cursor.Take('}')) return false;
    }
    ended();
  } while (cursor.Take(','));
  return true;
}

// An item without content of its own is a reference, even if its type does not say so.
bool RefersToItems(JsonCursor cursor, std::string_view body) {
  bool found = false;
  bool has_id = false;
  bool has_more = false;
  FileVisitor files;
  ForEachObject(
      cursor, body,
      [&](const std::string& name, JsonCursor& at) {
        files.of_file = name == "file_id";
        if (name == "type" && at.Peek() == '"') {
          const std::string_view quoted = at.TakeToken().In(body);
          found = found || DecodedText(quoted.substr(1, quoted.size() - 2)) == "item_reference";
          return true;
        }
        has_id = has_id || name == "id";
        has_more = has_more || (name != "id" && name != "type");
        return at.SkipValue(3, files) == JsonError::kNone;
      },
      [&] {
        found = found || (has_id && !has_more);
        has_id = has_more = false;
      });
  return found || files.found;
}

bool ToolsReadFiles(JsonCursor cursor, std::string_view body) {
  bool found = false;
  ForEachObject(
      cursor, body,
      [&](const std::string& name, JsonCursor& at) {
        if (name == "vector_store_ids" || (name == "container" && at.Peek() == '"')) {
          StringVisitor ids;
          const bool read = at.SkipValue(3, ids) == JsonError::kNone;
          found = found || ids.found;
          return read;
        }
        FileVisitor files;
        router::JsonVisitor nobody;
        if (name != "container") return at.SkipValue(3, nobody) == JsonError::kNone;
        const bool read = at.SkipValue(3, files) == JsonError::kNone;
        found = found || files.found;
        return read;
      },
      [] {});
  return found;
}

// Whether a part of a message's content is a file that is named by its id.
bool ContentNamesFiles(JsonCursor cursor, std::string_view body) {
  FileVisitor files;
  router::JsonVisitor nobody;
  ForEachObject(
      cursor, body,
      [&](const std::string& name, JsonCursor& at) {
        // Arguments of a tool have any keys; citations repeat what an answer has cited.
        if (name == "input" || name == "citations") return at.SkipValue(5, nobody) == JsonError::kNone;
        files.of_file = name == "file_id";
        return at.SkipValue(5, files) == JsonError::kNone;
      },
      [] {});
  return files.found;
}

struct IdVisitor : router::JsonVisitor {
  void Key(std::string_view raw) { of_id = DecodedText(raw) == "id"; }
  void String(std::string_view raw) { found = found || (of_id && !raw.empty()); }

  bool of_id = false;
  bool found = false;
};

bool MessagesNameContent(JsonCursor cursor, std::string_view body) {
  bool found = false;
  IdVisitor sound;  // an earlier answer in sound
  router::JsonVisitor nobody;
  ForEachObject(
      cursor, body,
      [&](const std::string& name, JsonCursor& at) {
        if (name == "audio") return at.SkipValue(3, sound) == JsonError::kNone;
        if (name == "content") found = found || ContentNamesFiles(at, body);
        return at.SkipValue(3, nobody) == JsonError::kNone;
      },
      [] {});
  return found || sound.found;
}

bool NamesContainer(JsonCursor cursor) {
  IdVisitor id;
  id.of_id = true;  // the value itself may be the id
  return cursor.SkipValue(1, id) == JsonError::kNone && id.found;
}

}  // namespace

std::optional<std::string_view> NamesStoredContent(const router::FactsScanner& scanner,
                                                   std::string_view body) {
  for (const BodyMember& member : scanner.Members(body)) {
    const JsonCursor value = scanner.CursorOf(body, member.value);
    if (member.name == "container" && NamesContainer(value)) return "container";
    if (member.name == "messages" && MessagesNameContent(value, body)) return "messages";
  }
  return std::nullopt;
}

std::optional<std::string_view> NamesStoredState(const router::FactsScanner& scanner, std::string_view body) {
  for (const BodyMember& member : scanner.Members(body)) {
    const std::string_view value = member.value.In(body);
    if (value == "null") continue;
    for (const std::string_view name : {"conversation", "prompt"}) {
      if (member.name == name) return name;
    }
    if (member.name == "input" && RefersToItems(scanner.CursorOf(body, member.value), body)) return "input";
    if (member.name == "tools" && ToolsReadFiles(scanner.CursorOf(body, member.value), body)) return "tools";
  }
  return std::nullopt;
}

bool RunsInBackground(const router::FactsScanner& scanner, std::string_view body) {
  const std::vector<BodyMember> members = scanner.Members(body);
  return std::any_of(members.begin(), members.end(), [body](const BodyMember& member) {
    return member.name == "background" && member.value.In(body) == "true";
  });
}

bool NamesThread(const router::FactsScanner& scanner, std::string_view body) {
  const std::vector<BodyMember> members = scanner.Members(body);
  return std::any_of(members.begin(), members.end(), [body](const BodyMember& member) {
    return member.name == "thread" && member.value.In(body) != "null";
  });
}

}  // namespace gateway
