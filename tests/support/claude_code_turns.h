// The requests of Claude Code to `/v1/messages?beta=true`: one session, turn by turn. Each body has the whole
// conversation. The wording is ours; fields, types and their order are Claude Code's.
#pragma once

#include <string>

namespace tests::claude_code {

inline const std::string kTools = R"([
  {"name":"Bash","description":"Runs a command.","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false},"eager_input_streaming":true},
  {"name":"Read","description":"Reads a file.","input_schema":{"type":"object","properties":{"file_path":{"type":"string"}},"required":["file_path"]},"eager_input_streaming":true,"strict":true},
  {"name":"ToolSearch","description":"Loads deferred tools.","input_schema":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}},
  {"name":"WebFetch","description":"Fetches a page.","input_schema":{"type":"object","properties":{"url":{"type":"string"}}},"defer_loading":true},
  {"name":"mcp__jira__search","description":"Finds issues.","input_schema":{"type":"object","properties":{"jql":{"type":"string"}}},"defer_loading":true,"cache_control":{"type":"ephemeral","ttl":"1h"}}])";

// `nonce`: changes with every request. `messages`: those behind the first, each with a comma before it.
inline std::string Turn(const std::string& nonce, const std::string& messages) {
  return R"({"model":"chat-small","messages":[
  {"role":"user","content":[
    {"type":"text","text":"<system-reminder>\nThe following deferred tools are available: WebFetch, mcp__jira__search\n</system-reminder>"},
    {"type":"text","text":"Why does the test fail?","cache_control":{"type":"ephemeral","ttl":"1h"}}]},
  {"role":"system","content":"Plan mode is off."})" +
         messages + R"(],
  "system":[
    {"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.251.a1b; cc_entrypoint=cli; cch=)" +
         nonce + R"(;"},
    {"type":"text","text":"You are a coding agent.","cache_control":{"type":"ephemeral","ttl":"1h","scope":"global"}},
    {"type":"text","text":"# Environment\nLinux","cache_control":{"type":"ephemeral"}}],
  "tools":)" +
         kTools + R"(,
  "betas":["claude-code-20250219","interleaved-thinking-2025-05-14","advanced-tool-use-2025-11-20"],
  "metadata":{"user_id":"{\"device_id\":\"0123456789abcdef0123456789abcdef\",\"account_uuid\":\"\",\"session_id\":\"5b1f\"}"},
  "max_tokens":32000,"thinking":{"type":"adaptive"},
  "context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
  "output_config":{"effort":"xhigh"},"diagnostics":{"previous_message_id":null},"mcp_servers":[],
  "speed":"fast","stop_sequences":[],"stream":true})";
}

// The model has run a command, loaded a tool and looked at a file with an image.
inline const std::string kAfterTools = R"(,
  {"role":"assistant","content":[
    {"type":"thinking","thinking":"I run it.","signature":""},
    {"type":"text","text":"I run the test."},
    {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"make test"},"caller":{"type":"direct"}},
    {"type":"tool_use","id":"toolu_2","name":"ToolSearch","input":{"query":"select:WebFetch"}}]},
  {"role":"user","content":[
    {"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"Exit code 2\nno rule"},
    {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"tool_reference","tool_name":"WebFetch"}]}]},
  {"role":"assistant","content":[
    {"type":"redacted_thinking","data":"AAAA"},
    {"type":"tool_use","id":"toolu_3","name":"Read","input":{"file_path":"/src/shot.png"}}]},
  {"role":"user","content":[
    {"type":"tool_result","tool_use_id":"toolu_3","content":[
      {"type":"text","text":"An image:"},
      {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},
      {"type":"document","title":"notes.txt","source":{"type":"text","media_type":"text/plain","data":"all of it"}}],
     "cache_control":{"type":"ephemeral"}},
    {"type":"text","text":"Go on."}]})";

}  // namespace tests::claude_code
