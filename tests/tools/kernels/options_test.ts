import { assertEquals, assertThrows } from "@std/assert";
import { NAMES, runOfDay } from "../../../tools/kernels/catalog.ts";
import { type Options, readOptions, renderList } from "../../../tools/kernels/options.ts";
import { BACKENDS } from "../../../tools/kernels/steps.ts";

const CONTEXT = { day: 42, release: "6.18.44" };

function options(...args: string[]): Options {
  const read = readOptions(args, CONTEXT);
  if (typeof read === "string") throw new Error(read);
  return read;
}

Deno.test("deno task kernels runs everything by default", () => {
  assertEquals(options(), {
    names: NAMES,
    backends: BACKENDS,
    writesDocs: false,
    limit: NAMES.length * 40 * 60_000,
  });
});

Deno.test("deno task kernels takes names, folders and a limit", () => {
  assertEquals(
    options(
      ...["--backend=iptables", "--backend", "nftables"],
      "sid",
      "--cache",
      "/c",
      "--limit=12",
      "--kube-proxy=/k",
      "--write-docs",
    ),
    {
      names: ["sid"],
      cache: "/c",
      backends: ["nftables", "iptables"],
      kubeProxy: "/k",
      writesDocs: true,
      limit: 720_000,
    },
  );
});

Deno.test("the kernel of the day is one", () => {
  assertEquals(options("--of-day").names, [runOfDay(42, "6.18.44").name]);
  assertThrows(() => options("--of-day", "sid"), Error, "leave the names out");
});

Deno.test("wrong arguments of deno task kernels are refused", () => {
  assertThrows(() => options("woody"), Error, "there is no woody");
  assertThrows(() => options("--limit=soon"), Error, "--limit soon: it is a number");
  assertThrows(() => options("--backend=ipvs"), Error, "--backend ipvs: the names are nftables,");
  assertThrows(() => options("--fast"), Error, "--fast");
});

Deno.test("--list has a line for every name", () => {
  assertEquals(readOptions(["--list"], CONTEXT), "list");
  assertEquals(renderList().trim().split("\n").map((line) => line.split(" ")[0]), [...NAMES]);
});
