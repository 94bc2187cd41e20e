// A YAML (or JSON) document as a tree that knows, for each value, its line and its JSON pointer.
//
// Parsing never throws. The document collects every problem, its own and its readers', in the order found.
// ParseLimits bounds the cost of a hostile text: size, depth, and values after aliases are followed.
// A Value is a cheap view; it must not outlive the Document. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conf/node.h"
#include "conf/problem.h"
#include "conf/sources.h"

namespace conf {

class Document;

class Value {
 public:
  Value(Document* document, const Node* node, std::string pointer)
      : document_(document), node_(node), pointer_(std::move(pointer)) {}

  Kind kind() const;
  bool quoted() const;              // a scalar in quotes or in block style: never a number or a boolean
  const std::string& text() const;  // of a scalar
  int line() const;
  const std::string& pointer() const { return pointer_; }
  Document& document() const { return *document_; }

  std::vector<Value> Items() const;                           // of a sequence
  std::vector<std::pair<std::string, Value>> Fields() const;  // of a mapping, in the file's order
  std::optional<Value> Find(std::string_view key) const;      // of a mapping

  // `a list`, `the text "abc"`, `nothing`: what stands here, for "expected X, found Y".
  std::string Found() const;

  void Error(std::string_view message) const;
  void ErrorExpected(std::string_view expected) const {
    Error("expected " + std::string(expected) + ", found " + Found());
  }
  void ErrorHidingValue(std::string_view message) const;  // for what may be a secret
  void ErrorAtKey(std::string_view key, std::string_view message) const;

 private:
  Document* document_;
  const Node* node_;
  std::string pointer_;
};

class Document {
 public:
  // `file` is only the name that problems show; `sources` answers secrets' references and must outlive the
  // document.
  Document(std::string_view text, std::string file, const Sources& sources, ParseLimits limits = {});
  ~Document();
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  // Null when the text is empty or is not a document; problems() then says why.
  Value root();
  // The value at a pointer, or the nearest one above it that exists.
  Value Nearest(std::string_view pointer);
  bool parsed() const { return parsed_; }
  const Sources& sources() const { return sources_; }

  void Add(std::string_view pointer, int line, std::string_view value, std::string_view message);
  // With the line of Nearest(pointer).
  void AddAt(std::string_view pointer, std::string_view value, std::string_view message);
  size_t problem_count() const { return problem_count_; }
  std::vector<Problem> TakeProblems();

  // The keys that the readers of this kind of document know, as paths ("models[].retries.max"), which must
  // outlive it.
  void KnowKeys(std::span<const std::string_view> paths) { known_keys_ = paths; }
  // `, did you mean server.listen?` where the key, or a near one, belongs to one other place; else empty.
  std::string HintElsewhere(std::string_view key) const;

  void NoteDefault(std::string pointer);
  std::vector<std::string> TakeDefaulted() { return std::move(defaulted_); }

 private:
  std::string file_;
  const Sources& sources_;
  ParseLimits limits_;
  std::shared_ptr<const Node> root_;
  bool parsed_ = false;
  std::vector<Problem> problems_;
  size_t problem_count_ = 0;
  std::vector<std::string> defaulted_;
  std::span<const std::string_view> known_keys_;
};

// Gives each problem without a line the line of its pointer in `text`, from which its values were read.
void AddLines(std::string_view text, std::vector<Problem>& problems);

}  // namespace conf
