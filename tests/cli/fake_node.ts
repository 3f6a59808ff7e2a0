/** A node whose programs are made of memory: nft with its tables, iptables with its rules. */
import type { ProcessResult, ProcessRunner } from "../../lib/model/ports/ports.ts";
import { ProgramMissingError } from "../../lib/model/ports/ports.ts";
import { wholeInput } from "../support/whole_input.ts";

/** Rules as kube-proxy's iptables mode has them, as `iptables-save` prints them. */
export const KUBE_PROXY_RULES = `*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
`;

/** The same as signpost has them. */
export const SIGNPOST_RULES = KUBE_PROXY_RULES.replace(
  "-A KUBE-MARK-MASQ",
  "-A KUBE-MARK-MASQ -m comment --comment signpost",
);

/** A node with programs and settings, which tests may change at any time. */
export class FakeNode {
  /** nftables' tables, as `ip kube-proxy`. */
  readonly tables = new Set<string>();
  /** The output of each save program; one that is not here is not installed, nor is its restore program. */
  readonly saved = new Map<string, string>();
  /** Numbers of the processes called kube-proxy. */
  readonly kubeProxies: string[] = [];
  readonly sysctls = new Map<string, string>();
  /** Programs that are not installed. */
  readonly missing = new Set<string>();
  /** By program, what it says on standard error instead of doing what it should. */
  readonly failures = new Map<string, string>();
  /** Every command that changed something, or should have. */
  readonly changes: string[] = [];
  /** The text on the standard output. */
  printed = "";

  /** @param backends which backends of iptables are installed */
  constructor(backends: readonly string[] = ["-nft", "-legacy"]) {
    for (const backend of backends) {
      for (const family of ["iptables", "ip6tables"]) {
        this.saved.set(`${family}${backend}-save`, "");
      }
    }
  }

  readonly runner: ProcessRunner = {
    run: async (argv, stdin = "") => this.#run(argv, await wholeInput(stdin)),
  };

  readonly print = (text: string): Promise<void> => {
    this.printed += text;
    return Promise.resolve();
  };

  #run(argv: readonly [string, ...string[]], stdin: string): ProcessResult {
    const [program] = argv;
    if (this.missing.has(program)) throw new ProgramMissingError(program);
    const failure = this.failures.get(program);
    if (failure !== undefined) return { code: 1, stdout: "", stderr: failure };
    const stdout = this.#output(argv, stdin);
    return { code: stdout === undefined ? 1 : 0, stdout: stdout ?? "", stderr: "" };
  }

  /** @returns `undefined` for a failure without words */
  #output(argv: readonly [string, ...string[]], stdin: string): string | undefined {
    const [program] = argv;
    if (program === "nft") return this.#nft(argv, stdin);
    if (program === "pgrep") return this.kubeProxies.map((pid) => `${pid}\n`).join("") || undefined;
    if (program === "sysctl") return this.#sysctl(argv);
    if (program.endsWith("-save")) return this.#save(program);
    if (program.endsWith("-restore")) return this.#restore(program, stdin);
    this.#save(`${program}-save`);
    return argv.includes("--version") ? "iptables v1.8.9 (nf_tables)\n" : "";
  }

  #nft(argv: readonly string[], stdin: string): string | undefined {
    if (argv[1] === "--version") return "nftables v1.0.6 (Lester Gooch #5)\n";
    if (argv[1] === "list") {
      if (argv[2] !== "chains") return undefined;
      const chain = "\tchain c {\n\t\ttype nat hook output priority dstnat; policy accept;\n\t}\n";
      return [...this.tables].map((table) => `table ${table} {\n${chain}}\n`).join("");
    }
    if (argv[1] !== "-f") return "";
    this.changes.push(`nft: ${stdin.trim().replaceAll("\n", "; ")}`);
    for (const [, table = ""] of stdin.matchAll(/^delete table (.*)$/gm)) this.tables.delete(table);
    return "";
  }

  #save(program: string): string {
    const saved = this.saved.get(program);
    if (saved === undefined) throw new ProgramMissingError(program);
    return saved;
  }

  /** All that a test's restore ever does is to remove. */
  #restore(program: string, stdin: string): string {
    this.#save(program.replace("-restore", "-save"));
    this.changes.push(`${program}: ${stdin.match(/^-X .*$/gm)?.join(", ") ?? ""}`);
    this.saved.set(program.replace("-restore", "-save"), "");
    return "";
  }

  #sysctl(argv: readonly string[]): string | undefined {
    const last = argv.at(-1) ?? "";
    if (argv[1] === "-n") return this.sysctls.get(last);
    const [name = "", value = ""] = last.split("=");
    this.changes.push(`sysctl: ${last}`);
    this.sysctls.set(name, value);
    return "";
  }
}
