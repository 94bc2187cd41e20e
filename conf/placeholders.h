// Placeholders in texts: {name} stands for a value. Braces around anything else stay as they are. For the text
// {name} itself, a text has a pair of braces more: {{name}}. So each literal text can be written, however many braces it
// has. Pure.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace conf {

// The value of a placeholder; nothing: the name is none.
using PlaceholderValue = std::function<std::optional<std::string>(std::string_view name)>;

std::string FillPlaceholders(std::string_view text, const PlaceholderValue& value);

// Whether the text uses the placeholder, rather than its literal text.
bool UsesPlaceholder(std::string_view text, std::string_view name);

// The text that FillPlaceholders turns into `text`: each {name} for which `is_name` holds gets a pair of braces more.
std::string EscapePlaceholders(std::string_view text,
                               const std::function<bool(std::string_view name)>& is_name);

// The first placeholder that has several braces on one side and another number on the other, such as {{name}, which
// could be meant in several ways; empty: none. FillPlaceholders leaves the braces that have no partner as they are.
std::string_view UnevenPlaceholder(std::string_view text,
                                   const std::function<bool(std::string_view name)>& is_name);

}  // namespace conf
