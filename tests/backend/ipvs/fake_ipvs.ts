/** A node that kube-proxy's ipvs mode left, made of memory. */
import {
  type ProcessResult,
  type ProcessRunner,
  ProgramMissingError,
} from "../../../lib/model/ports/ports.ts";
import { wholeInput } from "../../support/whole_input.ts";

/** A node with leftovers, which tests may change. */
export class FakeIpvs {
  /** Of `kube-ipvs0`; `undefined`: it is not there. */
  addresses: readonly string[] | undefined = ["10.96.0.10", "192.0.2.10"];
  /** Of other interfaces. */
  others: readonly string[] = ["192.168.0.2"];
  /** Established connections to 10.96.0.10. */
  active = 0;
  /** UDP flows to 10.96.0.10. */
  udpFlows = 2;
  /** True if nft lists the guard's table. */
  isGuarded = true;
  /** True if its virtual servers are there. */
  hasServers = true;
  /** Virtual servers that are shown when the others have gone. */
  hidden = "";
  readonly missing = new Set<string>();
  /** By the beginning of a command, what it says on standard error. */
  readonly failures = new Map<string, string>();
  /** Every command that changed something, but for nft's. */
  readonly changes: string[] = [];
  /** The scripts that nft was given. */
  readonly scripts: string[] = [];
  #sets = ["KUBE-CLUSTER-IP", "other", "KUBE-6-LOAD-BALANCER-SOURCE-CID", "KUBE-MY-OWN"];

  readonly runner: ProcessRunner = {
    run: async (argv, stdin = "") => {
      if (this.missing.has(argv[0])) throw new ProgramMissingError(argv[0]);
      for (const [command, stderr] of this.failures) {
        if (argv.join(" ").startsWith(command)) return { code: 2, stdout: "", stderr };
      }
      return this.#run(argv, await wholeInput(stdin));
    },
  };

  #run(argv: readonly string[], stdin: string): ProcessResult {
    const done = (stdout = "") => ({ code: 0, stdout, stderr: "" });
    const command = argv.join(" ");
    const change = (text: string) => {
      this.changes.push(text);
      return done();
    };
    if (command === "nft list chains") {
      return done(this.isGuarded ? "table inet ipvs-signpost {\n}\n" : "");
    }
    if (argv[0] === "nft") {
      this.scripts.push(stdin);
      return done();
    }
    if (command === "ip addr show") {
      const others = this.others.map((each, i) =>
        `${i + 1}: eth${i}@if7: <UP> mtu 1500\n${inet(each, 24)}`
      );
      const own = `9: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 state DOWN group default
    link/ether 8e:aa:5b:0c:1d:02 brd ff:ff:ff:ff:ff:ff
    inet6 fe80::1/64 scope link
${this.addresses?.map((each) => inet(each, 32)).join("")}`;
      return done(`${others.join("")}${this.addresses ? own : ""}`);
    }
    if (command === "ip link delete kube-ipvs0") {
      this.addresses = undefined;
      return change(command);
    }
    if (command === "cat /proc/net/dev") {
      const devices = ["    lo: 97 1", ...this.addresses ? ["kube-ipvs0: 0 0"] : []];
      return done(`Inter-| Receive\n${devices.join("\n")}\n`);
    }
    if (command === "cat /proc/net/ip_vs") return done(this.#servers());
    if (command === "cat /proc/net/ip_vs_conn") return done(connections(this.udpFlows));
    if (command === "ipvsadm -R") {
      if (!this.hasServers) this.hidden = "";
      this.hasServers = false;
      return change(`ipvsadm: ${stdin.trim().replaceAll("\n", "; ")}`);
    }
    if (argv[0] === "conntrack") return change(command);
    if (command === "ipset list -n") return done(`${this.#sets.join("\n")}\n`);
    if (argv[0] === "ipset") {
      this.#sets = this.#sets.filter((name) => name !== argv[2]);
      return change(command);
    }
    return done();
  }

  #servers(): string {
    if (!this.hasServers) return HEAD + this.hidden;
    return `${HEAD}TCP  0A60000A:0050 rr
  -> 0AF4000B:1F90      Masq    1      ${this.active}          0
UDP  0A60000A:0050 rr
TCP  C0A80002:7580 rr
TCP  C0A80002:01BB wlc
TCP  C00002C8:7581 wlc
`;
  }
}

function inet(address: string, bits: number): string {
  return `    inet ${address}/${bits} scope global\n       valid_lft forever preferred_lft forever\n`;
}

const HEAD = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
`;

/** The client's port of the first flow. */
const FIRST_PORT = 0xda6f;

function connections(udpFlows: number): string {
  const flows = Array.from({ length: udpFlows }, (_, i) => {
    const port = (FIRST_PORT + i).toString(16).toUpperCase();
    return `UDP 0AF4000A ${port} 0A60000A 0050 0AF4010B 1F90 UDP             289\n`;
  });
  return `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires
TCP 0AF4000A DA6E 0A60000A 0050 0AF4010B 1F90 ESTABLISHED     899
${flows.join("")}TCP 0AF4000A DA71 0A60000A 0050 0AF4010B 1F90 TIME_WAIT       29
TCP CB00710A AE52 C0A80002 01BB 0AF4000B 1F90 ESTABLISHED     7
`;
}
