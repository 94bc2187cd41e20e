// Builds the tree from yaml-cpp's events rather than from its nodes: events carry duplicate keys and marks,
// and a handler can stop a document that nests or multiplies too far before it costs anything.
#include "conf/node.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "conf/text.h"

namespace conf {
namespace {

struct Refused {
  int line;
  std::string pointer;
  std::string message;
  std::optional<size_t> bracket =
      std::nullopt;  // the outermost "{" or "[" about a bracket that was taken for a key
};

class Builder : public YAML::EventHandler {
 public:
  Builder(const ParseLimits& limits, std::vector<Problem>& problems) : limits_(limits), problems_(problems) {}

  std::shared_ptr<const Node> root() { return root_; }

  // The place of the next value: its pointer, and the line of its key or of the value before it.
  std::string Pointer() const {
    std::string pointer;
    for (const Frame& frame : stack_) {
      if (frame.node->kind == Kind::kSequence) {
        pointer = JoinPointer(pointer, std::to_string(frame.node->items.size()));
      } else if (frame.key) {
        pointer = JoinPointer(pointer, *frame.key);
      }
    }
    return pointer;
  }
  int LineBefore() const {
    if (stack_.empty()) return 1;
    const Frame& top = stack_.back();
    if (top.key) return top.key_line;
    if (!top.node->items.empty()) return top.node->items.back()->line;
    return top.node->fields.empty() ? top.node->line : top.node->fields.back().value->line;
  }

  // The innermost "{" or "[" that is not closed, if the value that is being read is inside of one.
  struct Opening {
    char bracket;
    int line;
    std::string pointer;
  };
  std::optional<Opening> OpenBracket() const {
    if (stack_.empty() || !stack_.back().bracket) return std::nullopt;
    const Node& open = *stack_.back().node;
    std::string pointer = Pointer();
    const bool has_place = open.kind == Kind::kSequence || stack_.back().key;
    if (has_place) pointer.resize(pointer.rfind('/'));
    return Opening{open.kind == Kind::kSequence ? '[' : '{', open.line, std::move(pointer)};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_ != nullptr) Refuse(mark, "holds more than one document; keep the first, without a second ---");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (ExpectsKey()) Refuse(mark, "a key must be a text, found nothing");
    Complete(MakeNode(Kind::kNull, mark), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (ExpectsKey()) Refuse(mark, "a key must be written out, found an alias");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) Refuse(mark, "an alias must not be inside the value that it repeats");
    Attach(found->second, Line(mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    RefuseTag(mark, tag);
    if (ExpectsKey()) {
      Frame& top = stack_.back();
      top.key = text;
      top.key_line = Line(mark);
      return;
    }
    auto node = MakeNode(Kind::kScalar, mark);
    node->text = text;
    node->quoted = tag == "!";
    Complete(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    Start(Kind::kSequence, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
  }
  void OnSequenceEnd() override { End(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Start(Kind::kMapping, mark, tag, anchor, style == YAML::EmitterStyle::Flow);
  }
  void OnMapEnd() override { End(); }

 private:
  struct Frame {
    std::shared_ptr<Node> node;
    YAML::anchor_t anchor = 0;
    std::optional<std::string> key;  // of the value that comes next
    int key_line = 0;
    std::optional<size_t> bracket{};  // the byte of its "{" or "["
    std::unordered_set<std::string> keys;
  };

  static int Line(const YAML::Mark& mark) { return mark.line + 1; }

  static std::shared_ptr<Node> MakeNode(Kind kind, const YAML::Mark& mark) {
    auto node = std::make_shared<Node>();
    node->kind = kind;
    node->line = Line(mark);
    return node;
  }

  bool ExpectsKey() const {
    return !stack_.empty() && stack_.back().node->kind == Kind::kMapping && !stack_.back().key;
  }

  [[noreturn]] void Refuse(const YAML::Mark& mark, std::string message) const {
    throw Refused{Line(mark), Pointer(), std::move(message)};
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag != "?" && tag != "!" && !tag.empty())
      Refuse(mark, "tags are not accepted; write the plain value");
  }

  void Start(Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
             bool in_brackets) {
    RefuseTag(mark, tag);
    if (ExpectsKey()) {
      const auto outermost =
          std::ranges::find_if(stack_, [](const Frame& frame) { return frame.bracket.has_value(); });
      std::optional<size_t> bracket;
      if (in_brackets)
        bracket = outermost == stack_.end() ? static_cast<size_t>(mark.pos) : outermost->bracket;
      throw Refused{Line(mark), Pointer(), "a key must be a text, found a list or a mapping", bracket};
    }
    if (static_cast<int>(stack_.size()) >= limits_.depth) {
      throw Refused{Line(mark), "", fmt::format("nests deeper than {} levels", limits_.depth)};
    }
    Frame& frame = stack_.emplace_back();
    frame.node = MakeNode(kind, mark);
    frame.anchor = anchor;
    if (in_brackets) frame.bracket = static_cast<size_t>(mark.pos);
  }

  void End() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    Complete(std::move(frame.node), frame.anchor);
  }

  void Complete(std::shared_ptr<const Node> node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    const int line = node->line;
    Attach(std::move(node), line);
  }

  void Attach(std::shared_ptr<const Node> child, int line) {
    if (stack_.empty()) {
      root_ = std::move(child);
      return;
    }
    Frame& top = stack_.back();
    Node& parent = *top.node;
    parent.values += child->values;
    parent.height = std::max(parent.height, child->height + 1);
    if (parent.values > limits_.values) {
      throw Refused{line, Pointer(),
                    fmt::format("holds more than {} values, repeated ones counted", limits_.values)};
    }
    if (parent.height > limits_.depth) {
      throw Refused{line, Pointer(), fmt::format("nests deeper than {} levels", limits_.depth)};
    }
    if (parent.kind == Kind::kSequence) {
      parent.items.push_back(std::move(child));
      return;
    }
    if (top.keys.insert(*top.key).second) {
      parent.fields.push_back({std::move(*top.key), top.key_line, std::move(child)});
    } else {
      problems_.push_back(
          {"", Pointer(), top.key_line, "", fmt::format("key \"{}\" is given twice", *top.key)});
    }
    top.key.reset();
  }

  const ParseLimits& limits_;
  std::vector<Problem>& problems_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, std::shared_ptr<const Node>> anchors_;
  std::shared_ptr<const Node> root_;
};

// The first line up to `last` that is indented by a tab, from 1; 0: none.
int LineWithTab(std::string_view text, int last) {
  for (int line = 1; line <= last && !text.empty(); ++line) {
    const std::string_view one = text.substr(0, text.find('\n'));
    const size_t content = one.find_first_not_of(" \t");
    if (content != std::string_view::npos && one.substr(0, content).find('\t') != std::string_view::npos)
      return line;
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return 0;
}

// A message of yaml-cpp, and our words for it.
struct Meaning {
  std::string_view message;  // its beginning
  std::string_view meaning;
};
constexpr std::string_view kQuoteNotClosed = "illegal EOF in scalar";
constexpr std::string_view kMappingNotClosed = "end of map flow not found";
constexpr std::string_view kListNotClosed = "end of sequence flow not found";
constexpr std::string_view kEntryNotExpected = "illegal block entry";
constexpr std::string_view kUnquotedStar =
    "a \"*\" without quotes stands for a value that \"&\" has marked before; put a pattern such as \"*\" or "
    "\"chat-*\" in quotes";
constexpr Meaning kMeanings[] = {
    {kQuoteNotClosed, "a text that begins with a quote has no quote at its end"},
    {"end of map not found",
     "expected a further key: begin it in the column of the keys before it, and write nothing after a value "
     "in quotes or brackets"},
    {"end of sequence not found",
     "expected a further entry of the list: begin its \"- \" in the column of the entries before it, and "
     "what belongs to an entry right of its \"- \""},
    {"illegal flow end",
     "this \"]\" or \"}\" closes nothing that is open: each \"[\" needs a \"]\", and each \"{\" a \"}\""},
    {"illegal map value",
     "a \":\" is not expected here: write a space after the colon of each key, begin keys of one mapping in "
     "one column, and put a text that contains \": \" in quotes"},
    {"illegal map key", "a key is not expected here: begin it on a line of its own"},
    {kEntryNotExpected, "a \"- \" is not expected here: begin the list on a line of its own"},
    {"unknown token", "a text that begins with @, % or ` must be in quotes"},
    {"unknown escape character",
     "after a \\ in double quotes stands a character that it cannot escape: write \\\\ for a \\, or use "
     "single quotes"},
    {"bad character found while scanning hex number", "\\x, \\u and \\U need 2, 4 and 8 hex digits"},
    {"invalid unicode", "\\u and \\U need the number of a character"},
    {"alias not found after *", kUnquotedStar},
    {"the referenced anchor is not defined", kUnquotedStar},
    {"illegal character found while scanning alias", kUnquotedStar},
    {"anchor not found after &", "a text that begins with & must be in quotes"},
};

std::string_view MeaningOf(std::string_view message) {
  const auto known = std::ranges::find_if(
      kMeanings, [message](const Meaning& of) { return message.starts_with(of.message); });
  return known == std::end(kMeanings) ? message : known->meaning;
}

struct OpenAtEnd {
  char bracket;
  int line;
};

// Past a text in quotes that begins at `at`; nothing: its end is missing.
std::optional<size_t> SkipQuoted(std::string_view text, size_t at) {
  const char quote = text[at];
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;  // two single quotes stand for one, and are two texts here, which is the same
    }
  }
  return std::nullopt;
}

// yaml-cpp takes a bracket that the text never closes for the beginning of a key. From that bracket on: the innermost that
// is open where the text ends; nothing: all are closed.
std::optional<OpenAtEnd> FindOpenAtEnd(std::string_view text, size_t from) {
  from = text.find_first_of("[{", from);
  if (from == text.npos) return std::nullopt;
  std::vector<OpenAtEnd> open;
  int line =
      1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(from), '\n'));
  char before = ',';  // the last character that is no blank
  for (size_t i = from; i < text.size();) {
    const char c = text[i];
    const bool begins = before == ',' || before == '[' || before == '{' || before == ':';
    if ((c == '"' || c == '\'') && begins) {
      const std::optional<size_t> end = SkipQuoted(text, i);
      if (!end) return std::nullopt;
      line += static_cast<int>(std::ranges::count(text.substr(i, *end - i), '\n'));
      before = c;
      i = *end;
      continue;
    }
    if (c == '#' && (text[i - 1] == ' ' || text[i - 1] == '\t' || text[i - 1] == '\n')) {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (c == '[' || c == '{') open.push_back({c, line});
    if (c == ']' || c == '}') {
      if (open.back().bracket != (c == ']' ? '[' : '{')) return std::nullopt;
      open.pop_back();
      if (open.empty()) return std::nullopt;
    }
    if (c == '\n') ++line;
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') before = c;
    ++i;
  }
  return open.back();
}

std::string NotClosed(char bracket, std::string_view where) {
  return fmt::format(
      "is not well-formed YAML: the \"{}\" of this line is not closed: expected \",\" or \"{}\" {}", bracket,
      bracket == '[' ? ']' : '}', where);
}

// About a "{" or "[" that is open where the text goes on in another way, or ends. Its own line is the one to correct.
std::optional<Problem> DescribeOpenBracket(const Builder& builder, const YAML::Exception& error,
                                           std::string_view text) {
  const auto open = builder.OpenBracket();
  if (!open) return std::nullopt;
  const std::string_view message = error.msg;
  const int line = error.mark.line + 1;
  const char closing = open->bracket == '[' ? ']' : '}';
  if (message.starts_with(kEntryNotExpected)) {
    return Problem{
        "", open->pointer, open->line, "",
        fmt::format("is not well-formed YAML: the \"{}\" of this line is open in line {}, where a \"- "
                    "\" stands: end it with \"{}\", or separate what it holds by \",\"",
                    open->bracket, line, closing)};
  }
  if (!message.starts_with(kMappingNotClosed) && !message.starts_with(kListNotClosed)) return std::nullopt;
  const bool at_end = static_cast<size_t>(error.mark.pos) >= text.size();
  const std::string where = at_end               ? "before the end of the file"
                            : line == open->line ? "before the text that follows on this line"
                                                 : fmt::format("before line {}", line);
  return Problem{"", open->pointer, open->line, "", NotClosed(open->bracket, where)};
}

}  // namespace

const Node::Field* Node::Find(std::string_view key) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [key](const Field& f) { return f.key == key; });
  return found == fields.end() ? nullptr : &*found;
}

const Node* Node::Child(std::string_view token) const {
  if (const Field* field = Find(token); field != nullptr) return field->value.get();
  const std::optional<size_t> index = ReadNumber<size_t>(token);
  return index && *index < items.size() ? items[*index].get() : nullptr;
}

Parsed ParseYaml(std::string_view text, const ParseLimits& limits) {
  Parsed out;
  Builder builder(limits, out.problems);
  // yaml-cpp takes a quote that is open at the last line break for closed. A comment behind it makes that an error.
  std::istringstream stream(std::string(text) + (text.ends_with('\n') ? "#" : ""));
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    out.root = builder.root();
    if (out.root == nullptr) out.root = std::make_shared<Node>();
  } catch (const Refused& refused) {
    const auto open = refused.bracket ? FindOpenAtEnd(text, *refused.bracket) : std::nullopt;
    if (open) {
      out.problems.push_back(
          {"", refused.pointer, open->line, "", NotClosed(open->bracket, "before the end of the file")});
    } else {
      out.problems.push_back({"", refused.pointer, refused.line, "", refused.message});
    }
  } catch (const YAML::Exception& error) {
    const int line = error.mark.line + 1;
    if (error.msg == kQuoteNotClosed) {
      out.problems.push_back({"", builder.Pointer(), builder.LineBefore(), "",
                              fmt::format("is not well-formed YAML: {}", MeaningOf(error.msg))});
    } else if (const int tab = LineWithTab(text, line); tab > 0) {
      out.problems.push_back(
          {"", "", tab, "", "is indented by a tab, which YAML does not allow; use spaces"});
    } else if (std::optional<Problem> bracket = DescribeOpenBracket(builder, error, text)) {
      out.problems.push_back(*std::move(bracket));
    } else {
      out.problems.push_back(
          {"", "", line, "", fmt::format("is not well-formed YAML: {}", MeaningOf(error.msg))});
    }
  }
  return out;
}

}  // namespace conf
