"""Checks a server with the official Python client: client.py CALLS.json (URL | COMMAND ARG...).

Connects as an older client and as a current one. Each time it lists everything, validates every schema against the
standard and every answer against its schema, makes the calls of CALLS.json in turn, reads every resource, gets every
prompt that needs no argument, and asks for things that do not exist. Prints a line for each complaint and a summary;
the status is 1 if there was a complaint."""

import asyncio
import json
import sys

from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters

MOST_TEXT = 60_000


class Judge:
    def __init__(self, era):
        self.era = era
        self.looked_at = 0
        self.complaints = []

    def expect(self, good, complaint):
        self.looked_at += 1
        if not good:
            self.complaints.append(f"[{self.era}] {complaint}")

    async def refused(self, what, asking):
        try:
            answer = await asking
        except Exception:
            return self.expect(True, "")
        self.expect(getattr(answer, "is_error", False), f"{what} was not refused")

    def fits(self, what, schema, value):
        problems = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
        self.expect(not problems, f"{what} does not fit its schema: {problems[:3]}")


async def pages(listing, field):
    found, cursor = [], None
    while True:
        page = await listing(cursor=cursor)
        found += getattr(page, field)
        cursor = page.next_cursor
        if cursor is None:
            return found


async def judge(target, era, calls):
    judge = Judge(era)
    async with Client(target, mode=era) as client:
        judge.era = f"{era}, {client.protocol_version}"
        tools = await pages(client.list_tools, "tools")
        resources = await pages(client.list_resources, "resources")
        templates = await pages(client.list_resource_templates, "resource_templates")
        prompts = await pages(client.list_prompts, "prompts")
        judge.expect(tools and resources and templates and prompts, "something is missing altogether")
        judge.expect([t.name for t in tools] == sorted(t.name for t in tools), "the tools are in no order")
        for thing in [*tools, *resources, *templates, *prompts]:
            judge.expect(thing.title and thing.description, f"{thing.name} has no title or description")
        outputs = {}
        for tool in tools:
            for schema in (tool.input_schema, tool.output_schema):
                Draft202012Validator.check_schema(schema)
            outputs[tool.name] = tool.output_schema
            for name, schema in tool.input_schema["properties"].items():
                judge.expect(schema.get("description"), f"{tool.name}: nothing says what {name} is")
            hints = tool.annotations
            judge.expect(hints is not None and hints.read_only_hint is not None, f"{tool.name}: does it read or write?")
            if tool.input_schema.get("required"):
                answer = await client.call_tool(tool.name, {})
                judge.expect(answer.is_error, f"{tool.name} does without its arguments")
                judge.fits(f"the failure of {tool.name}", tool.output_schema, answer.structured_content)
        for call in calls:
            tool, arguments = call["tool"], call.get("arguments", {})
            what = f"{tool} {json.dumps(arguments)[:120]}"
            answer = await client.call_tool(tool, arguments)
            judge.expect(bool(answer.is_error) == call.get("error", False), f"{what}: {answer.structured_content}")
            judge.fits(what, outputs[tool], answer.structured_content)
            text = answer.content[0].text
            judge.expect(json.loads(text) == answer.structured_content, f"{what}: text and structure differ")
            judge.expect(len(text.encode()) <= MOST_TEXT, f"{what}: {len(text)} characters")
        for resource in await pages(client.list_resources, "resources"):
            read = await client.read_resource(resource.uri)
            judge.expect(read.contents[0].mime_type == resource.mime_type, f"{resource.uri} is of another type")
        for prompt in prompts:
            if not any(argument.required for argument in prompt.arguments or []):
                got = await client.get_prompt(prompt.name)
                judge.expect(got.messages, f"{prompt.name} is empty")
        await judge.refused("a tool that there is none of", client.call_tool("no-such-tool", {}))
        await judge.refused("a resource that there is none of", client.read_resource("retake://nothing"))
        await judge.refused("a prompt that there is none of", client.get_prompt("no-such-prompt"))
        await judge.refused("a cursor that was never issued", client.list_resources(cursor="made up"))
    return judge


async def main(calls, *target):
    with open(calls) as file:
        calls = json.load(file)
    where = target[0] if target[0].startswith("http") else StdioServerParameters(command=target[0], args=[*target[1:]])
    judges = [await judge(where, era, calls) for era in ("legacy", "auto")]
    complaints = [complaint for judge in judges for complaint in judge.complaints]
    print("\n".join(complaints))
    for judge_ in judges:
        print(f"[{judge_.era}] looked at {judge_.looked_at} things")
    print("PASSED" if not complaints else f"FAILED: {len(complaints)} complaints")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
