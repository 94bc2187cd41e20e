#include "conf/json_schema.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace conf::json_schema_test {

using nlohmann::ordered_json;

struct Part {
  static constexpr std::string_view kSchema = "Part";

  std::string name;
  std::vector<Part> parts;
};

template <class O>
constexpr void Bind(O& o, Part& part) {
  o.Required("name", part.name);
  o.Optional("parts", part.parts);
}

struct Base {
  int64_t seen = 0;
};

template <class O>
constexpr void Bind(O& o, Base& base) {
  o.Required("seen", base.seen);
}

struct Whole {
  static constexpr std::string_view kSchema = "Whole";

  Base base = {};
  std::optional<double> share = {};
  std::optional<Part> spare = {};
  std::optional<ShownTime> at = {};
  std::map<std::string, bool> flags = {};
  RawJson document = {};
  int line = 0;
};

template <class O>
constexpr void Bind(O& o, Whole& whole) {
  o.Inline(whole.base);
  o.Required("share", whole.share);
  o.Required("spare", whole.spare);
  o.Optional("at", whole.at);
  o.Always("flags", whole.flags);
  o.Required("document", whole.document);
  o.NotWritten(whole.line);
}

TEST(JsonSchema, DescribesWhatTheWriterWrites) {
  JsonSchemas schemas;
  EXPECT_EQ(schemas.Of<Whole>(), ordered_json({{"$ref", "#/components/schemas/Whole"}}));
  EXPECT_EQ(schemas.named().at("Whole"), ordered_json::parse(R"({
    "type": "object",
    "properties": {
      "seen": {"type": "integer"},
      "share": {"type": ["number", "null"]},
      "spare": {"anyOf": [{"$ref": "#/components/schemas/Part"}, {"type": "null"}]},
      "at": {"type": "string", "format": "date-time"},
      "flags": {"type": "object", "additionalProperties": {"type": "boolean"}},
      "document": {"type": "object"}
    },
    "required": ["seen", "share", "spare", "flags", "document"]})"));
  const Whole whole{.share = 0.5, .at = ShownTime{}, .document = {"{}"}};
  EXPECT_EQ(
      ToJsonText(whole),
      R"({"seen":0,"share":0.5,"spare":null,"at":"1970-01-01T00:00:00.000000Z","flags":{},"document":{}})");
}

TEST(JsonSchema, AStructThatHoldsItselfIsDescribedOnce) {
  JsonSchemas schemas;
  const ordered_json list = schemas.Of<std::vector<Part>>();
  EXPECT_EQ(list,
            ordered_json::parse(R"({"type": "array", "items": {"$ref": "#/components/schemas/Part"}})"));
  EXPECT_EQ(schemas.named().size(), 1U);
  EXPECT_EQ(schemas.named().at("Part").at("properties").at("parts"), list);
}

}  // namespace conf::json_schema_test
