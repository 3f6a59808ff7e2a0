/**
 * What signpost uses beyond ECMAScript. Both engines of `deno compile` have it; a new entry is to be
 * tried on QuickJS, where Intl, for one, has parts that do nothing.
 *
 * @module
 */
import { assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Globals of the language itself (ECMA-262, 19), those that signpost uses. */
const LANGUAGE: ReadonlySet<string> = new Set([
  ...["Array", "BigInt", "Boolean", "DataView", "Date", "Error", "Float64Array", "Infinity"],
  ...["Iterator", "JSON", "Map", "Math", "NaN", "Number", "Object", "Promise", "Proxy"],
  ...["RangeError", "Reflect", "RegExp", "Set", "String", "Symbol", "SyntaxError", "TypeError"],
  ...["Uint8Array", "Uint32Array", "WeakMap", "WeakRef", "encodeURIComponent"],
  ...["decodeURIComponent", "globalThis", "parseFloat", "parseInt", "undefined", "isNaN"],
  ...["AggregateError", "ArrayBuffer", "SharedArrayBuffer", "EvalError", "Function"],
]);

/** Globals that are names of variables and properties, too, and that signpost does not use. */
const AMBIGUOUS: ReadonlySet<string> = new Set([
  ...["name", "close", "closed", "self", "event", "status", "onerror", "onload", "window"],
  ...["caches", "origin", "location", "alert", "confirm", "prompt", "print", "Option", "Text"],
  ...["File", "Request", "escape", "process"],
]);

/** The text without comments and without the fixed parts of strings. */
function codeOf(text: string): string {
  return text
    .replace(/\/\*[\s\S]*?\*\//g, "")
    .replace(/(^|\s)\/\/.*$/gm, "")
    .replace(/"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'/g, '""');
}

async function sources(): Promise<{ path: string; text: string }[]> {
  const paths = ["main.ts"];
  const walk = async (folder: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(ROOT + folder)) {
      if (isDirectory) await walk(`${folder}/${name}`);
      else if (name.endsWith(".ts")) paths.push(`${folder}/${name}`);
    }
  };
  await walk("lib");
  return await Promise.all(paths.map(async (path) => ({
    path,
    text: await Deno.readTextFile(ROOT + path),
  })));
}

Deno.test("these globals are used beyond ECMAScript, and no others", async () => {
  const code = (await sources()).map(({ text }) => codeOf(text)).join("\n");
  const candidates = Object.getOwnPropertyNames(globalThis)
    .filter((name) => !LANGUAGE.has(name) && !AMBIGUOUS.has(name));
  const used = candidates.filter((name) =>
    new RegExp(
      `(?<![\\w.$"'#-])(?<!\\b(?:const|let|function|interface|class|type) )${name}\\b(?!\\??:|["'-])`,
    )
      .test(code)
  );
  assertEquals(used.sort(), GLOBALS);
});

Deno.test("these members of Deno are used, and no others", async () => {
  const code = (await sources()).map(({ text }) => codeOf(text)).join("\n");
  const members = [...code.matchAll(/\bDeno\.(\w+)/g)].map(([, name = ""]) => name);
  assertEquals([...new Set(members)].sort(), DENO);
});

Deno.test("these modules of Node are used, and no others", async () => {
  const texts = (await sources()).map(({ text }) => text).join("\n");
  const modules = [...texts.matchAll(/^(?!import type).*"(node:[\w/]+)"/gm)].map(([, name]) =>
    name
  );
  assertEquals([...new Set(modules)].sort(), NODE);
});

Deno.test("nothing is asked of Intl, parts of which are stubs in QuickJS", async () => {
  const wrong = (await sources()).filter(({ text }) =>
    /\bIntl\.|\.toLocale|\.localeCompare\(/.test(codeOf(text))
  );
  assertEquals(wrong.map(({ path }) => path), []);
});

const GLOBALS: readonly string[] =
  "AbortController AbortSignal CompressionStream DecompressionStream Deno ReadableStream ReadableStreamBYOBReader Response TextDecoder TextDecoderStream TextEncoder TextEncoderStream URL URLSearchParams WritableStream WritableStreamDefaultWriter atob btoa clearTimeout crypto fetch performance setTimeout"
    .split(" ");
const DENO: readonly string[] =
  "ChildProcess Command FsFile FsWatcher HttpClient Signal TcpConn TcpListener addSignalListener args build chmod connect consoleSize createHttpClient cwd env errors exit hostname listen listenDatagram lstat memoryUsage mkdir networkInterfaces open osRelease pid readDir readTextFile remove rename serve stat stderr stdin stdout uid version watchFs"
    .split(" ");
const NODE: readonly string[] =
  "node:crypto node:dns/promises node:fs node:https node:net node:os node:path/posix node:process node:stream/promises node:zlib"
    .split(" ");
