#!/usr/bin/env python3
"""An agent in 60 lines: a model thinks, a sandbox acts, and nothing of this machine is in reach.

    LLM_URL=https://llm.example/v1 LLM_KEY=… LLM_MODEL=… agent.py "Which primes lie below 50?"

LLM_URL is any server that speaks the chat completions API with tools. The sandbox has no network;
give it one with Sandbox(network="allow=…").
"""

import json
import os
import sys
import urllib.request

from cay import CayError, Sandbox

OUTPUT_MAX = 8000


def tool(name, about, **arguments):
    properties = {key: {"type": "string", "description": text} for key, text in arguments.items()}
    return {"type": "function", "function": {"name": name, "description": about, "parameters": {
        "type": "object", "properties": properties, "required": list(arguments)}}}


TOOLS = [
    tool("run_command", "Run a shell command; returns its output and exit code.", command="the command"),
    tool("run_python", "Run Python; variables stay. Returns output and the last value.", code="the code"),
    tool("write_file", "Write a text file.", path="its path", text="its content"),
]


def act(box, name, arguments):
    """What a tool answers to the model; its mistakes are answers too."""
    try:
        if name == "run_command":
            done = box.run(arguments["command"], timeout=120)
            return f"{done.stdout}{done.stderr}\nexit code {done.exit_code}"
        if name == "run_python":
            done = box.python(arguments["code"], timeout=120)
            return done.stdout + done.stderr + (done.error.traceback if done.error else done.text)
        if name == "write_file":
            box.write(arguments["path"], arguments["text"])
            return "written"
        return f"there is no tool {name}"
    except (CayError, KeyError, TypeError) as e:
        return f"error: {e!r}"


def ask(messages):
    body = json.dumps({"model": os.environ["LLM_MODEL"], "messages": messages, "tools": TOOLS}).encode()
    request = urllib.request.Request(os.environ["LLM_URL"] + "/chat/completions", body, {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("LLM_KEY", "")})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


def main(task):
    messages = [{"role": "system", "content": "Solve the task with your tools, then answer in plain text."},
                {"role": "user", "content": task}]
    with Sandbox(memory="1g", labels={"made-by": "agent.py"}) as box:
        for _ in range(30):
            message = ask(messages)
            messages.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                function = call["function"]
                text = act(box, function["name"], json.loads(function["arguments"]))
                print(f"{function['name']}: {text.strip()[:200]}", file=sys.stderr)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text[-OUTPUT_MAX:]})
    return "no answer after 30 steps"


if __name__ == "__main__":
    print(main(" ".join(sys.argv[1:])))
