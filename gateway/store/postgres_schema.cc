#include "gateway/store/postgres_schema.h"

namespace gateway::store {

// Each step stays as it is once it was released: databases that have taken it exist.
//
// The rows that every change rewrites leave room in their page, so that a new version of the row fits there.
std::vector<std::string_view> PostgresSchemaStep(uint64_t to) {
  if (to != 1) return {};
  return {
      "CREATE TABLE tidegate.meta (only_one BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_one), "
      "schema BIGINT NOT NULL, store TEXT NOT NULL, made TIMESTAMPTZ NOT NULL DEFAULT now())",
      "INSERT INTO tidegate.meta (schema, store) VALUES (0, gen_random_uuid()::text)",
      "CREATE TABLE tidegate.objects (version BIGINT PRIMARY KEY, kind TEXT COLLATE \"C\" NOT NULL, "
      "id TEXT COLLATE \"C\" NOT NULL, body BYTEA, UNIQUE (kind, id))",
      "CREATE INDEX objects_removed ON tidegate.objects (version) WHERE body IS NULL",
      "CREATE TABLE tidegate.sequence (only_one BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_one), "
      "last BIGINT NOT NULL, forgotten BIGINT NOT NULL) WITH (fillfactor = 10)",
      "INSERT INTO tidegate.sequence (last, forgotten) VALUES (0, 0)",
      "CREATE TABLE tidegate.leader (only_one BOOLEAN PRIMARY KEY DEFAULT true CHECK (only_one), "
      "epoch BIGINT NOT NULL, holder TEXT NOT NULL, about TEXT NOT NULL, expires TIMESTAMPTZ NOT NULL) "
      "WITH (fillfactor = 10)",
      "INSERT INTO tidegate.leader (epoch, holder, about, expires) VALUES (0, '', '', '-infinity')",
  };
}

}  // namespace gateway::store
