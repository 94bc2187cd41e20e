// The requests of Codex CLI to a provider with `wire_api = "responses"`: one session, turn by turn. Each body has the
// whole conversation. The wording is ours; fields, types and their order are Codex's.
#pragma once

#include <string>

namespace tests::codex {

inline const std::string kTools = R"([
  {"type":"function","name":"exec_command","description":"Runs a command in a PTY.","strict":false,
   "parameters":{"type":"object","properties":{"cmd":{"type":"string"},"workdir":{"type":"string"}},"required":["cmd"],"additionalProperties":false}},
  {"type":"function","name":"update_plan","description":"Updates the task plan.","strict":false,
   "parameters":{"type":"object","properties":{"plan":{"type":"array","items":{"type":"object"}}},"required":["plan"]}},
  {"type":"custom","name":"apply_patch","description":"Edits files. This is a FREEFORM tool.",
   "format":{"type":"grammar","syntax":"lark","definition":"start: begin_patch hunk+ end_patch\n"}},
  {"type":"web_search","external_web_access":false},
  {"type":"image_generation","output_format":"png"},
  {"type":"function","name":"view_image","description":"Attaches a local image.","strict":false,
   "parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}},
  {"type":"tool_search","execution":"client","description":"Searches tools of apps.",
   "parameters":{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"number"}},"required":["query"]}},
  {"type":"namespace","name":"mcp__docs","description":"Documentation of the team.","tools":[
    {"type":"function","name":"find","description":"Finds a page.","strict":false,"parameters":{"type":"object","properties":{"q":{"type":"string"}}}},
    {"type":"function","name":"read","description":"Reads a page.","strict":false,"parameters":{"type":"object","properties":{"id":{"type":"string"}}}}]}])";

// `input`: the items behind the first user message, each with a comma before it.
inline std::string Turn(const std::string& input) {
  return R"({"model":"chat-small","instructions":"You are a coding agent.","input":[
  {"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions>read-only</permissions>"}]},
  {"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context><cwd>/src</cwd></environment_context>"}]},
  {"type":"message","role":"user","content":[{"type":"input_text","text":"Rename f to g."}]})" +
         input + R"(],"tools":)" + kTools +
         R"(,"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"effort":"xhigh","summary":"auto"},
  "store":false,"stream":true,"include":["reasoning.encrypted_content"],"service_tier":"priority",
  "prompt_cache_key":"019a-8f","text":{"verbosity":"low"},
  "client_metadata":{"x-codex-installation-id":"5b1f","x-codex-turn-metadata":"{\"turn_id\":\"t1\"}"}})";
}

// The model has run a command and edited a file; both have answered.
inline const std::string kAfterPatch = R"(,
  {"type":"reasoning","summary":[{"type":"summary_text","text":"Look first."}],"encrypted_content":null},
  {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look for uses."}],"phase":"commentary"},
  {"type":"function_call","name":"exec_command","arguments":"{\"cmd\":\"rg -n 'f\\\\('\"}","call_id":"call_1"},
  {"type":"function_call_output","call_id":"call_1","output":"a.c:1:int f(void);"},
  {"type":"custom_tool_call","status":"completed","call_id":"call_2","name":"apply_patch","input":"*** Begin Patch\n*** Update File: a.c\n-int f(void);\n+int g(void);\n*** End Patch"},
  {"type":"custom_tool_call_output","call_id":"call_2","name":"apply_patch","output":"Success. Updated the following files:\nM a.c"})";

// ... and has searched for a tool, called the one that was found, and looked at an image.
inline const std::string kAfterSearch = kAfterPatch + R"(,
  {"type":"web_search_call","status":"completed","action":{"type":"search","query":"c rename"}},
  {"type":"tool_search_call","call_id":"call_3","status":"completed","execution":"client","arguments":{"query":"calendar","limit":1}},
  {"type":"tool_search_output","call_id":"call_3","status":"completed","execution":"client","tools":[
    {"type":"namespace","name":"mcp__calendar__","description":"Plan events.","tools":[
      {"type":"function","name":"create","description":"Creates an event.","strict":false,"defer_loading":true,"parameters":{"type":"object","properties":{"at":{"type":"string"}}}}]}]},
  {"type":"function_call","name":"create","namespace":"mcp__calendar__","arguments":"{\"at\":\"9:00\"}","call_id":"call_4"},
  {"type":"function_call","name":"view_image","arguments":"{\"path\":\"a.png\"}","call_id":"call_5"},
  {"type":"function_call_output","call_id":"call_4","output":[{"type":"input_text","text":"created"}]},
  {"type":"function_call_output","call_id":"call_5","output":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"original"}]},
  {"type":"message","role":"user","content":[{"type":"input_text","text":"Thanks. And the docs?"}]})";

}  // namespace tests::codex
