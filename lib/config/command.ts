/** Reads the command that the words and options of a command line ask for. */
import type { CommandLineResult } from "./command_line.ts";
import { COMMAND_ROWS, type CommandName, type OptionsOf, SHELLS } from "./commands.ts";
import { familyOf, parseAddress } from "../model/values/address.ts";
import { type Protocol, PROTOCOLS } from "../model/cluster/objects.ts";
import { alternatives, show } from "../model/values/text.ts";
import { isDnsName, unbracketed } from "../model/cluster/names.ts";

export type OutputFormat = OptionsOf<"check">["output"];

export type Sender = Exclude<OptionsOf<"explain">["from"], "">;

interface WordsOf {
  /** The question as it is typed, and its target. */
  readonly explain: { readonly question: string; readonly target: ExplainTarget };
  /** The Services to test; empty for all. */
  readonly test: { readonly services: readonly AskedService[] };
  /** The Service as it is typed; `""` for all. */
  readonly top: { readonly service: string };
  /** The Service to observe; `undefined` for all. */
  readonly observe: { readonly service: AskedService | undefined };
  /** The objects that might be applied: files, folders or `-`. */
  readonly diff: { readonly manifests: readonly string[] };
  readonly completions: CompletionsRequest;
}

export type CommandOf<N extends CommandName> =
  & { readonly name: N }
  & OptionsOf<N>
  & (N extends keyof WordsOf ? WordsOf[N] : unknown);

export type Command = { readonly [N in CommandName]: CommandOf<N> }[CommandName];

/** Returns the command of a command line, or one line about a fault of its words. */
export function readCommand(line: CommandLineResult): Command | string {
  const { command: name, words, values } = line;
  const withDefaults = Object.entries(COMMAND_ROWS[name].flags).map(([option, row]) => {
    const value = values[option] ?? "";
    return [option, value === "" ? row.default : value] as const;
  });
  // Each value was read by the reader of its row.
  const command = { name, ...Object.fromEntries(withDefaults) } as Command;
  switch (command.name) {
    case "run":
      return values["output"] && !command.once ? "--output: only with --once" : command;
    case "explain": {
      const target = readExplainTarget(words, command);
      if (typeof target === "string") return `explain: ${target}`;
      return checkExplain(target, command) ?? { ...command, question: words.join(" "), target };
    }
    case "test":
    case "top":
    case "observe": {
      const services = words.map((word) => readService(word, command.namespace));
      const fault = services.find((each) => typeof each === "string");
      if (fault !== undefined) return `${command.name}: ${fault}`;
      const read = services.filter((each) => typeof each !== "string");
      if (command.name === "test") return { ...command, services: read };
      const [word = "", another] = words;
      if (another !== undefined) {
        return `${command.name}: ${show(another)}: unexpected word; give one Service`;
      }
      if (command.name === "top") return { ...command, service: word };
      return { ...command, service: read[0] };
    }
    case "diff": {
      const manifests = [...values["signpost.manifests"] ?? [], ...words];
      return manifests.length === 0
        ? "diff: needs the objects that might be applied: --manifests FILE"
        : { ...command, manifests };
    }
    case "completions": {
      const request = readCompletions(words);
      return typeof request === "string" ? `completions: ${request}` : { ...command, ...request };
    }
    default:
      return command;
  }
}

/** Checks the options of `explain` against its target. @returns one line about a fault */
export function checkExplain(
  target: ExplainTarget,
  { from, trace, probe = false }:
    & Pick<OptionsOf<"explain">, "from" | "trace">
    & Partial<Pick<OptionsOf<"explain">, "probe">>,
): string | undefined {
  if (target.type === "service" || target.type === "address") {
    if (trace) return "--trace: is only for packets";
    return from ? "--from: is only for packets" : undefined;
  }
  if (probe) return "--probe: is only for Services";
  return from || target.source !== undefined || target.pod
    ? undefined
    : "explain: needs the packet's source: an address before to, or --from";
}

export interface ServiceTarget {
  readonly type: "service";
  readonly namespace: string;
  readonly name: string;
  /** The name or number of a port; `undefined` for all ports. */
  readonly port: string | undefined;
}

export interface AskedService extends Omit<ServiceTarget, "namespace"> {
  /** `undefined` to search all namespaces. */
  readonly namespace: string | undefined;
}

export interface PacketDestination {
  readonly address: string;
  readonly port: number;
  readonly protocol: Protocol;
}

/** A pod that sends a packet. */
interface AskedPod {
  /** `undefined` for the namespace of the Service, or `default`. */
  readonly namespace: string | undefined;
  readonly name: string;
}

interface PacketSource {
  /** A canonical address; `undefined` if it is not given. */
  readonly source: string | undefined;
  /** Given instead of an address. */
  readonly pod?: AskedPod | undefined;
}

export interface PacketTarget extends PacketDestination, PacketSource {
  readonly type: "packet";
}

/** An address of a Service or of this node. */
export interface AskedAddress {
  readonly type: "address";
  /** Canonical. */
  readonly address: string;
  /** `undefined` for all ports. */
  readonly destination: PacketDestination | undefined;
}

/** A packet to the cluster IP of a Service. */
export interface PacketToService extends PacketSource {
  readonly type: "packet-to-service";
  readonly service: AskedService;
  /** `undefined` for the only protocol of the Service's port. */
  readonly protocol: Protocol | undefined;
}

export type ExplainTarget = AskedService | AskedAddress | PacketTarget | PacketToService;

export type Shell = typeof SHELLS[number];

const FORMS =
  "give a Service (name, namespace/name, namespace/name:port or its address) or a packet (IP or POD to IP:PORT/PROTOCOL)";

/** Reads the question of `explain`. @returns one line about a fault of its words */
export function readExplainTarget(
  words: readonly string[],
  { namespace, from }: Pick<OptionsOf<"explain">, "namespace" | "from">,
): ExplainTarget | string {
  // A quoted argument may have several words.
  const all = words.flatMap((word) => word.split(/\s+/)).filter((word) => word !== "");
  if (all.length === 0) return `needs an argument: ${FORMS}`;
  if (all.includes("-")) {
    return `the shell took > for a redirection: write to, or '->' in quotes`;
  }
  const arrow = all.findIndex((word) => word === "->" || word === "to");
  if (arrow >= 0) return readPacket(all.slice(0, arrow), all.slice(arrow + 1), namespace);
  const [word = "", ...others] = all;
  if (others.length > 0) return `${show(others[0])}: unexpected word; ${FORMS}`;
  const destination = readEndpoint(word);
  // With --from, an address is the destination of a packet.
  if (destination && from) return { type: "packet", source: undefined, ...destination };
  const address = destination?.address ?? parseAddress(unbracketed(word));
  return address === undefined
    ? readService(word, namespace)
    : { type: "address", address, destination };
}

/** Asks for the script of a shell, or for the candidates at the end of a command line. */
interface CompletionsRequest {
  readonly shell: Shell;
  /** The words after `signpost`, to complete the last one; `undefined` for the script. */
  readonly line: readonly string[] | undefined;
}

/** Reads the words after `completions`: a shell, and the words that its script passes. */
function readCompletions(words: readonly string[]): CompletionsRequest | string {
  const [word, ...line] = words;
  const forms = `give ${alternatives(SHELLS)}`;
  if (word === undefined) return `needs the name of a shell: ${forms}`;
  const shell = SHELLS.find((name) => name === word);
  if (shell === undefined) return `${show(word)}: no such shell; ${forms}`;
  return { shell, line: line.length === 0 ? undefined : line };
}

function readPacket(
  before: readonly string[],
  after: readonly string[],
  namespace: string,
): PacketTarget | PacketToService | string {
  if (before.length > 1 || after.length !== 1) {
    return "a packet is SOURCE to IP:PORT/PROTOCOL or SOURCE to SERVICE:PORT, such as " +
      "10.244.0.7 to 10.96.0.10:80/tcp or web-0 to web:80";
  }
  const [from] = before;
  const [to = ""] = after;
  const source = parseAddress(from && unbracketed(from));
  const pod = source !== undefined || from === undefined ? undefined : readPod(from, namespace);
  if (typeof pod === "string") return pod;
  const sender = { source, ...pod && { pod } };
  const destination = readEndpoint(to);
  if (destination === undefined && !ADDRESS_LIKE.test(to)) {
    const [, word = to, protocol] = /^(.*:[^/]*)\/([^/]*)$/.exec(to) ?? [];
    const known = PROTOCOLS.find((name) => name === protocol?.toLowerCase());
    if (protocol !== undefined && known === undefined) {
      return `${show(to)}: the protocol must be ${alternatives(PROTOCOLS)}`;
    }
    const service = readService(word, namespace);
    return typeof service === "string"
      ? service
      : { type: "packet-to-service", ...sender, service, protocol: known };
  }
  if (destination === undefined) {
    return `${show(to)}: must be an address and a port, such as 10.96.0.10:80/tcp or ` +
      "[fd00::a]:53/udp";
  }
  if (source !== undefined && familyOf(source) !== familyOf(destination.address)) {
    return `${source} and ${destination.address} are of different IP families`;
  }
  return { type: "packet", ...sender, ...destination };
}

/** Reads `web-0`, `shop/web-0` or kubectl's `pod/web-0`. @param inNamespace of --namespace; `""` if not given */
function readPod(word: string, inNamespace: string): AskedPod | string {
  const [, namespace = inNamespace || undefined, name = ""] =
    /^(?:pods?\/)?(?:([^/]+)\/)?([^/]*)$/.exec(word) ?? [];
  const isName = [namespace ?? "x", name].every(isDnsName) && !/^[\d.]*$/.test(name);
  return isName ? { namespace, name } : `${show(word)}: the source must be an IP address or a pod`;
}

/** Matches destinations that are meant as an address. A Service's name never has brackets or two colons. */
const ADDRESS_LIKE = /^$|[[\]]|:.*:|^[\d.]+(?::|$)/;

/** Reads `10.0.0.1:80/tcp` or `[fd00::1]:53/udp`; the protocol may be left out. */
function readEndpoint(word: string): PacketDestination | undefined {
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})(?:\/([a-z]+))?$/i.exec(word);
  const address = parseAddress(match?.[1] ?? match?.[2]);
  const port = Number(match?.[3]);
  const protocol = PROTOCOLS.find((name) => name === (match?.[4] ?? "tcp").toLowerCase());
  if (address === undefined || protocol === undefined || port < 1 || port > 65535) return undefined;
  return { address, port, protocol };
}

/** kubectl's words for a Service, as in `svc/web`. */
const KINDS: readonly string[] = ["svc", "service", "services"];

/** The DNS name of a Service, in any cluster domain: `web.shop`, `web.shop.svc.cluster.local`. */
const SERVICE_DNS = /^([^.]+)\.([^.]+)(?:\.svc(?:\..+)?)?\.?$/;

/** Reads a Service with its port. @param inNamespace of --namespace; `""` if not given */
function readService(word: string, inNamespace: string): AskedService | string {
  const match = /^(?:([^/:]*)\/)?([^/:]*)(?::([^/:]*))?$/.exec(word);
  if (match === null) return `${show(word)}: is neither a Service nor a packet; ${FORMS}`;
  const [, before, written = "", port] = match;
  const named = before !== undefined && KINDS.includes(before) ? undefined : before;
  const [, name = written, typed = named] = (named === undefined && SERVICE_DNS.exec(written)) ||
    [];
  for (const part of [typed ?? "x", name, port ?? "x"]) {
    if (!isDnsName(part)) return `${show(word)}: ${show(part)} is not a name`;
  }
  if (typed !== undefined && inNamespace !== "" && typed !== inNamespace) {
    return `${show(word)}: --namespace names another namespace, ${inNamespace}`;
  }
  return { type: "service", namespace: typed ?? (inNamespace || undefined), name, port };
}
