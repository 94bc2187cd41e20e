"""An engine on a real GPU for tests/gpu/check: a Llama with random weights on PyTorch, behind the part of vLLM's API that
Tidegate uses: models, chat completions, metrics, health, sleep at two levels. A token is a byte of text.

  engine.py --make FOLDER [--layers N]              write the weights (safetensors, bfloat16)
  engine.py --weights FOLDER --host H --port P --model NAME [--enable-sleep-mode]

The key is VLLM_API_KEY, as in vLLM. It needs torch, transformers, safetensors and aiohttp.
"""
import argparse
import asyncio
import json
import os
import queue
import threading
import time

import torch
from aiohttp import web
from safetensors.torch import load_file, save_file
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

CONTEXT = 4096
BLOCK = 16


def config(layers):
    return LlamaConfig(vocab_size=256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=layers,
                       num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=CONTEXT,
                       tie_word_embeddings=False)


def make(folder, layers):
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config(layers)).to(torch.bfloat16)
    path = os.path.join(folder, "model.safetensors")
    save_file({name: value.contiguous() for name, value in model.state_dict().items()}, path)
    os.chmod(path, 0o644)  # the user of runs reads it
    with open(os.path.join(folder, "layers.json"), "w") as file:
        json.dump({"layers": layers}, file)


class Sequence:
    def __init__(self, prompt, most, told):
        self.prompt, self.most, self.told = prompt, most, told
        self.cache, self.last, self.count = None, None, 0


class Engine:
    """The model and the one thread that computes. `tell(token)` of a sequence is called on the event loop; None: the end."""

    def __init__(self, folder, loop):
        self.folder, self.loop = folder, loop
        with open(os.path.join(folder, "layers.json")) as file:
            layers = json.load(file)["layers"]
        with torch.device("meta"):
            self.model = LlamaForCausalLM(config(layers)).to(torch.bfloat16).eval()
        self.model.to_empty(device="cuda")
        # The tables of positions are not among the weights.
        self.model.model.rotary_emb = type(self.model.model.rotary_emb)(config=self.model.config).to("cuda")
        # cuDNN makes a plan for each length of a sequence, which takes longer than a token.
        torch.backends.cuda.enable_cudnn_sdp(False)
        self.load()
        self.kv = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")  # what vLLM would keep for its cache
        self.kept = {}
        self.asleep = 0
        self.waiting, self.running = queue.Queue(), []
        self.prompt_tokens = self.tokens = 0
        self.sequence_of_one(b"warm")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def load(self):
        self.model.load_state_dict(load_file(os.path.join(self.folder, "model.safetensors"), device="cuda"))
        torch.cuda.synchronize()

    @torch.inference_mode()
    def step(self, sequence):
        first = sequence.cache is None
        if first:
            sequence.cache = DynamicCache()
        given = list(sequence.prompt) if first else [sequence.last]
        out = self.model(torch.tensor([given], device="cuda"), past_key_values=sequence.cache, use_cache=True,
                         logits_to_keep=1)
        sequence.last = int(torch.argmax(out.logits[0, -1]))
        sequence.count += 1

    def sequence_of_one(self, prompt):
        sequence = Sequence(prompt, 1, None)
        self.step(sequence)

    def run(self):
        while True:
            while not self.waiting.empty() or not self.running:
                self.running.append(self.waiting.get())
            for sequence in list(self.running):
                first = sequence.cache is None
                self.step(sequence)
                self.prompt_tokens += len(sequence.prompt) if first else 0
                self.tokens += 1
                done = sequence.count >= sequence.most
                if done:
                    self.running.remove(sequence)
                self.loop.call_soon_threadsafe(sequence.told, sequence.last, done)

    # Level 1 keeps the weights in pinned host memory, level 2 discards them.
    def sleep(self, level):
        for name, parameter in self.model.named_parameters():
            if level == 1:
                if name not in self.kept:
                    self.kept[name] = torch.empty(parameter.shape, dtype=parameter.dtype, pin_memory=True)
                self.kept[name].copy_(parameter.data, non_blocking=True)
        torch.cuda.synchronize()
        for parameter in self.model.parameters():
            parameter.data = torch.empty(0, dtype=parameter.dtype, device="cuda")
        self.kv = None
        torch.cuda.empty_cache()
        self.asleep = level

    def wake_weights(self):
        with torch.device("meta"):
            shapes = dict(LlamaForCausalLM(self.model.config).named_parameters())
        for name, parameter in self.model.named_parameters():
            parameter.data = torch.empty(shapes[name].shape, dtype=parameter.dtype, device="cuda")
            if self.asleep == 1:
                parameter.data.copy_(self.kept[name], non_blocking=True)
        torch.cuda.synchronize()

    def wake_cache(self):
        self.kv = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
        self.asleep = 0


def error(status, text):
    return web.json_response({"error": {"message": text, "type": "invalid_request_error", "code": status}}, status=status)


class Api:
    def __init__(self, name, may_sleep):
        self.name, self.may_sleep, self.key = name, may_sleep, os.environ.get("VLLM_API_KEY")
        self.engine, self.lock = None, asyncio.Lock()

    def app(self):
        app = web.Application(middlewares=[self.check_key])
        app.router.add_get("/health", self.health)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/completions", self.complete)
        if self.may_sleep:
            app.router.add_post("/sleep", self.sleep)
            app.router.add_post("/wake_up", self.wake)
            app.router.add_post("/collective_rpc", self.reload)
            app.router.add_get("/is_sleeping", self.is_sleeping)
        return app

    @web.middleware
    async def check_key(self, request, handler):
        if self.key and request.path.startswith("/v1/") and request.headers.get("authorization") != "Bearer " + self.key:
            return error(401, "unauthorized")
        return await handler(request)

    async def health(self, _):
        return web.Response(status=200 if self.engine else 503)

    async def models(self, _):
        return web.json_response({"object": "list", "data": [{"id": self.name, "object": "model", "owned_by": "check",
                                                              "max_model_len": CONTEXT}]})

    async def metrics(self, _):
        engine, label = self.engine, f'{{model_name="{self.name}"}}'
        used = sum(len(s.prompt) + s.count for s in engine.running)
        blocks = (2 << 30) // (2 * 8 * 128 * 2 * engine.model.config.num_hidden_layers * BLOCK)
        return web.Response(text="".join(f"{line}\n" for line in (
            f"vllm:num_requests_running{label} {len(engine.running)}",
            f"vllm:num_requests_waiting{label} {engine.waiting.qsize()}",
            f"vllm:kv_cache_usage_perc{label} {used / (blocks * BLOCK)}",
            f"vllm:prompt_tokens_total{label} {engine.prompt_tokens}",
            f"vllm:generation_tokens_total{label} {engine.tokens}",
            f'vllm:cache_config_info{{block_size="{BLOCK}",num_gpu_blocks="{blocks}"}} 1')))

    def begin(self, text, body):
        """The prompt, how many tokens come, and the queue that they come by."""
        prompt = text.encode()[:CONTEXT // 2] or b" "
        most = min(body.get("max_completion_tokens") or body.get("max_tokens") or 64, CONTEXT // 2)
        tokens = asyncio.Queue()
        self.engine.waiting.put(Sequence(prompt, most, lambda token, done: tokens.put_nowait((token, done))))
        return prompt, most, tokens

    @staticmethod
    async def whole(tokens):
        out, done = "", False
        while not done:
            token, done = await tokens.get()
            out += chr(32 + token % 95)
        return out

    async def complete(self, request):
        body = await request.json()
        if self.engine.asleep:
            return error(503, "the engine sleeps")
        if body.get("stream") or not isinstance(body.get("prompt"), str):
            return error(400, "completions are of one text, and not streamed")
        prompt, most, tokens = self.begin(body["prompt"], body)
        return web.json_response({"id": f"cmpl-{time.time_ns()}", "object": "text_completion", "created": int(time.time()),
                                  "model": self.name,
                                  "choices": [{"index": 0, "text": await self.whole(tokens), "finish_reason": "length"}],
                                  "usage": {"prompt_tokens": len(prompt), "completion_tokens": most,
                                            "total_tokens": len(prompt) + most}})

    async def chat(self, request):
        body = await request.json()
        if self.engine.asleep:
            return error(503, "the engine sleeps")
        text = "\n".join(m["content"] if isinstance(m["content"], str) else
                         "".join(part.get("text", "") for part in m["content"]) for m in body["messages"])
        prompt, most, tokens = self.begin(text, body)
        base = {"id": f"chatcmpl-{time.time_ns()}", "created": int(time.time()), "model": self.name}
        usage = {"prompt_tokens": len(prompt), "completion_tokens": most, "total_tokens": len(prompt) + most}
        if not body.get("stream"):
            return web.json_response(base | {"object": "chat.completion", "usage": usage, "choices": [
                {"index": 0, "message": {"role": "assistant", "content": await self.whole(tokens)},
                 "finish_reason": "length"}]})
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)

        async def event(more):
            await answer.write(b"data: " + json.dumps(base | {"object": "chat.completion.chunk"} | more).encode() + b"\n\n")

        done = False
        while not done:
            token, done = await tokens.get()
            await event({"choices": [{"index": 0, "delta": {"content": chr(32 + token % 95)},
                                      "finish_reason": "length" if done else None}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            await event({"choices": [], "usage": usage})
        await answer.write(b"data: [DONE]\n\n")
        return answer

    async def off_loop(self, call, *args):
        async with self.lock:
            await asyncio.get_running_loop().run_in_executor(None, call, *args)
        return web.Response()

    async def sleep(self, request):
        return await self.off_loop(self.engine.sleep, int(request.query.get("level", "1")))

    async def wake(self, request):
        tags = request.query.getall("tags", ["weights", "kv_cache"])
        if "weights" in tags:
            await self.off_loop(self.engine.wake_weights)
        if "kv_cache" in tags:
            await self.off_loop(self.engine.wake_cache)
        return web.Response()

    async def is_sleeping(self, _):
        return web.json_response({"is_sleeping": self.engine.asleep != 0})

    async def reload(self, request):
        if (await request.json()).get("method") != "reload_weights":
            return error(400, "unknown method")
        return await self.off_loop(self.engine.load)


async def serve(args):
    api = Api(args.model, args.enable_sleep_mode)
    runner = web.AppRunner(api.app())
    api.engine = await asyncio.get_running_loop().run_in_executor(None, Engine, args.weights, asyncio.get_running_loop())
    await runner.setup()
    await web.TCPSite(runner, args.host, args.port).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--make")
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--weights")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model", default="llama")
    parser.add_argument("--enable-sleep-mode", action="store_true")
    args = parser.parse_args()
    if args.make:
        make(args.make, args.layers)
    else:
        asyncio.run(serve(args))


main()
