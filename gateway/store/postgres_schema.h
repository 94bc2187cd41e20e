// The tables of the store in PostgreSQL: what makes them, and brings those of an earlier version up to date.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace gateway::store {

inline constexpr uint64_t kPostgresSchema = 1;

// Statements that lead to schema `to` from the one before; `to` is 1 to kPostgresSchema. The caller sets the
// schema's number in the same transaction.
std::vector<std::string_view> PostgresSchemaStep(uint64_t to);

}  // namespace gateway::store
