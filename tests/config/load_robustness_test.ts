import { assert, assertMatch } from "@std/assert";
import { stringify } from "@std/yaml/stringify";
import fc from "fast-check";
import { FLAGS } from "../../lib/config/commands.ts";
import { load } from "./support.ts";
import { wordsOf } from "../support/table.ts";

const FIELDS = wordsOf(`
  apiVersion kind mode clusterCIDR conntrack iptables nftables ipvs logging options vmodule
  featureGates nodePortAddresses healthzBindAddress syncPeriod masqueradeBit __proto__ constructor
`);

const anything = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.string({ unit: "binary" }),
    fc.double(),
    fc.boolean(),
    fc.constantFrom(null, "10.0.0.0/8", "1s", "::", "primary", "NodeCIDR"),
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...FIELDS), fc.string()), tie("value"), { maxKeys: 6 }),
  ),
})).value;

/** Whatever comes in, messages are single printable lines. */
async function assertTame(argv: readonly string[], file = ""): Promise<void> {
  const invocation = await load(argv, { f: file });
  const lines = invocation.type === "errors"
    ? invocation.errors
    : invocation.type === "run"
    ? invocation.warnings
    : [];
  for (const line of lines) assertMatch(line, /^[^\p{Cc}\p{Zl}\p{Zp}]+$/u);
}

Deno.test("no text of a file throws or reaches a message unescaped", async () => {
  await fc.assert(fc.asyncProperty(
    fc.string({ unit: "binary" }),
    (text) => assertTame(["--config=f"], text),
  ));
});

Deno.test("no document throws or reaches a message unescaped", async () => {
  const head = { apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" };
  await fc.assert(fc.asyncProperty(
    fc.dictionary(fc.oneof(fc.constantFrom(...FIELDS), fc.string()), anything),
    (document) => assertTame(["--config=f"], JSON.stringify({ ...document, ...head })),
  ));
  const yaml = stringify({ ...head, nodePortAddresses: ["\u0007"], "\u009b": 1 });
  await assertTame(["--config=f"], yaml);
});

Deno.test("no command line throws or reaches a message unescaped", async () => {
  const word = fc.oneof(
    fc.constantFrom(...FLAGS.map(({ name }) => `--${name}`)),
    fc.tuple(fc.constantFrom(...FLAGS), fc.string({ unit: "binary" }))
      .map(([flag, text]) => `--${flag.name}=${text}`),
    fc.string({ unit: "binary" }),
    fc.constantFrom("-", "--", "---", "--=", "-=", "-v", "-v=", "--no-once", "run", "cleanup"),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(word, { maxLength: 6 }), (argv) => assertTame(argv)),
    { numRuns: 300 },
  );
});

Deno.test("every flag has a place in the settings", async () => {
  for (const { name } of FLAGS) {
    for (const value of ["", "1", "true"]) {
      const invocation = await load([`--${name}=${value}`]);
      const errors = invocation.type === "errors" ? invocation.errors : [];
      assert(errors.every((error) => !error.includes("known")), errors.join());
    }
  }
});
