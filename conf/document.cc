#include "conf/document.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "conf/node.h"
#include "conf/shown.h"
#include "conf/text.h"

namespace conf {
namespace {

constexpr size_t kShownBytes = 80;
constexpr size_t kMaxDefaulted = 10'000;

// Cut to a readable length, at a character's boundary.
std::string Shown(std::string_view text) {
  size_t cut = std::min(text.size(), kShownBytes);
  while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) ++cut;
  return std::string(text.substr(0, cut)) + (cut < text.size() ? "..." : "");
}

// The line, from 1, that holds the byte at `at`.
int LineAt(std::string_view text, size_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

// The first line that is not UTF-8. No character of UTF-8 has a line's end inside.
int InvalidLine(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (!simdjson::validate_utf8(text.data() + begin, end - begin)) break;
    begin = end + 1;
  }
  return LineAt(text, std::min(begin, text.size()));
}

std::string UnescapeToken(std::string_view token) {
  std::string out;
  for (size_t i = 0; i < token.size(); ++i) {
    const bool escape = token[i] == '~' && i + 1 < token.size();
    out += escape ? (token[++i] == '1' ? '/' : '~') : token[i];
  }
  return out;
}

}  // namespace

Kind Value::kind() const {
  return node_->kind;
}
bool Value::quoted() const {
  return node_->quoted;
}
const std::string& Value::text() const {
  return node_->text;
}
int Value::line() const {
  return node_->line;
}

std::vector<Value> Value::Items() const {
  std::vector<Value> out;
  out.reserve(node_->items.size());
  for (size_t i = 0; i < node_->items.size(); ++i) {
    out.emplace_back(document_, node_->items[i].get(), JoinPointer(pointer_, std::to_string(i)));
  }
  return out;
}

std::vector<std::pair<std::string, Value>> Value::Fields() const {
  std::vector<std::pair<std::string, Value>> out;
  out.reserve(node_->fields.size());
  for (const Node::Field& field : node_->fields) {
    out.emplace_back(field.key, Value(document_, field.value.get(), JoinPointer(pointer_, field.key)));
  }
  return out;
}

std::optional<Value> Value::Find(std::string_view key) const {
  const Node::Field* field = node_->Find(key);
  if (field == nullptr) return std::nullopt;
  return Value(document_, field->value.get(), JoinPointer(pointer_, key));
}

std::string Value::Found() const {
  switch (kind()) {
    case Kind::kNull:
      return "nothing";
    case Kind::kSequence:
      return "a list";
    case Kind::kMapping:
      return "a mapping";
    case Kind::kScalar:
      return fmt::format("{}\"{}\"{}", quoted() ? "the text " : "", Shown(text()),
                         quoted() ? " in quotes" : "");
  }
  return {};
}

void Value::Error(std::string_view message) const {
  document_->Add(pointer_, line(), kind() == Kind::kScalar ? Shown(text()) : "", message);
}

void Value::ErrorHidingValue(std::string_view message) const {
  document_->Add(pointer_, line(), "", message);
}

void Value::ErrorAtKey(std::string_view key, std::string_view message) const {
  const Node::Field* field = kind() == Kind::kMapping ? node_->Find(key) : nullptr;
  document_->Add(JoinPointer(pointer_, key), field != nullptr ? field->line : line(), "", message);
}

Document::Document(std::string_view text, std::string file, const Sources& sources, ParseLimits limits)
    : file_(std::move(file)), sources_(sources), limits_(limits), root_(std::make_shared<Node>()) {
  if (text.size() > limits_.bytes) {
    Add("", LineAt(text, limits_.bytes), "",
        fmt::format("is {} bytes long; at most {} are accepted", text.size(), limits_.bytes));
    return;
  }
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    Add("", InvalidLine(text), "", "is not valid UTF-8");
    return;
  }
  if (const size_t nul = text.find('\0'); nul != text.npos) {
    Add("", LineAt(text, nul), "",
        "holds a byte of value 0, which no text has; is it another file, or damaged?");
    return;
  }
  Parsed parsed = ParseYaml(text, limits_);
  for (const Problem& problem : parsed.problems) {
    Add(problem.pointer, problem.line, problem.value, problem.message);
  }
  if (parsed.root == nullptr) return;
  root_ = std::move(parsed.root);
  parsed_ = true;
}

Document::~Document() = default;

Value Document::root() {
  return {this, root_.get(), ""};
}

void Document::Add(std::string_view pointer, int line, std::string_view value, std::string_view message) {
  if (++problem_count_ > limits_.problems) return;
  problems_.push_back({file_, Visible(pointer), line, Visible(value), Visible(message)});
}

Value Document::Nearest(std::string_view pointer) {
  const Node* node = root_.get();
  size_t begin = 0;
  while (begin < pointer.size()) {
    const size_t end = std::min(pointer.find('/', begin + 1), pointer.size());
    const Node* child = node->Child(UnescapeToken(pointer.substr(begin + 1, end - begin - 1)));
    if (child == nullptr) break;
    node = child;
    begin = end;
  }
  return {this, node, std::string(pointer.substr(0, begin))};
}

void Document::AddAt(std::string_view pointer, std::string_view value, std::string_view message) {
  Add(pointer, Nearest(pointer).line(), value, message);
}

std::vector<Problem> Document::TakeProblems() {
  if (problem_count_ > problems_.size()) {
    const int line = problems_.empty() ? 0 : problems_.back().line;
    problems_.push_back({file_, "", line, "",
                         fmt::format("{} more problems are not shown", problem_count_ - problems_.size())});
  }
  return std::move(problems_);
}

std::string Document::HintElsewhere(std::string_view key) const {
  const auto last = [](std::string_view path) { return path.substr(path.rfind('.') + 1); };  // npos + 1 is 0
  std::vector<std::string_view> names;
  names.reserve(known_keys_.size());
  for (const std::string_view path : known_keys_) {
    std::string_view name = last(path);
    if (name.ends_with("[]")) name.remove_suffix(2);
    names.push_back(name);
  }
  const std::string_view near =
      std::ranges::find(names, key) != names.end() ? key : conf::Nearest(key, names);
  const auto found = std::ranges::find(names, near);
  // A name that many have, such as `path`, tells nothing.
  if (near.empty() || std::ranges::count(names, near) != 1) return {};
  std::string_view path = known_keys_[static_cast<size_t>(found - names.begin())];
  if (path.ends_with("[]")) path.remove_suffix(2);
  return fmt::format(", did you mean {}?", path);
}

void Document::NoteDefault(std::string pointer) {
  if (defaulted_.size() < kMaxDefaulted) defaulted_.push_back(std::move(pointer));
}

void AddLines(std::string_view text, std::vector<Problem>& problems) {
  const Sources none;
  Document document(text, "", none);
  if (!document.parsed()) return;
  for (Problem& problem : problems) {
    if (problem.line == 0) problem.line = document.Nearest(problem.pointer).line();
  }
}

}  // namespace conf
