// The tree behind conf::Document, and the parse that builds it. Other rooms see the tree through conf::Value.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "conf/problem.h"

namespace conf {

enum class Kind { kNull, kScalar, kSequence, kMapping };

struct ParseLimits {
  size_t bytes = 4 << 20;
  int depth = 64;
  size_t values = 200'000;
  size_t problems = 200;  // more are counted, not kept
};

// Immutable once parsed; an alias shares its anchor's node.
struct Node {
  struct Field {
    std::string key;
    int line = 0;
    std::shared_ptr<const Node> value;
  };

  Kind kind = Kind::kNull;
  bool quoted = false;
  int line = 1;
  std::string text;
  std::vector<std::shared_ptr<const Node>> items;
  std::vector<Field> fields;
  size_t values = 1;  // in this tree, aliases followed
  int height = 1;

  const Field* Find(std::string_view key) const;
  const Node* Child(std::string_view token) const;  // a field by key, an item by index, or null
};

struct Parsed {
  std::shared_ptr<const Node> root;  // null when the text is not one document within the limits
  std::vector<Problem> problems;     // without file names
};

Parsed ParseYaml(std::string_view text, const ParseLimits& limits);

}  // namespace conf
