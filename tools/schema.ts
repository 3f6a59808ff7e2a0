/**
 * `deno task schema`: writes docs/data/output.schema.json, the JSON schema of what commands print with `-o json`, from
 * the types of the reports. With `--check` it fails if the file differs.
 *
 * @module
 */
import { run } from "../tests/support/command.ts";
import { complain } from "./terminal.ts";

const ROOT = new URL("..", import.meta.url);
const FILE = new URL("docs/data/output.schema.json", ROOT);

/** The types of the documents, by the command that prints them. */
const DOCUMENTS: Readonly<Record<string, readonly [string, string]>> = {
  check: ["lib/cli/check.ts", "CheckReport"],
  status: ["lib/model/status.ts", "Status"],
  top: ["lib/model/connections.ts", "ConnectionsReport"],
  topService: ["lib/cli/top.ts", "TopReport"],
  verify: ["lib/model/kernel/differences.ts", "Verification"],
  test: ["lib/cli/test.ts", "TestReport"],
  observe: ["lib/cli/observe.ts", "ObservedEvent"],
  diff: ["lib/cli/diff.ts", "DiffReport"],
  explainService: ["lib/explain/report.ts", "ServiceReport"],
  explainPacket: ["lib/explain/report.ts", "PacketReport"],
};

/** A part of a JSON schema, as far as the types need it. */
export interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly description?: string;
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly $defs?: Readonly<Record<string, Schema>>;
}

/** A type, as `deno doc --json` prints it. */
interface DocType {
  readonly kind: string;
  readonly value: unknown;
}

interface DocProperty {
  readonly name: string;
  readonly optional?: boolean;
  readonly tsType: DocType;
  readonly jsDoc?: { readonly doc?: string };
}

interface DocSymbol {
  readonly name: string;
  readonly declarations: readonly {
    readonly kind: string;
    readonly jsDoc?: { readonly doc?: string };
    readonly def: {
      readonly properties?: readonly DocProperty[];
      readonly extends?: readonly DocType[];
      readonly tsType?: DocType;
    };
  }[];
}

interface DocModule {
  readonly symbols: readonly DocSymbol[];
  readonly imports: readonly {
    readonly importedName: string;
    readonly originalName: string;
    readonly src: string;
  }[];
}

interface TypeReference {
  readonly typeName: string;
  readonly typeParams?: readonly DocType[];
}

/** Turns types into schemas. Each named type is a definition. */
class Schemas {
  readonly defs: Record<string, Schema> = {};
  readonly #modules: ReadonlyMap<string, DocModule>;

  constructor(modules: ReadonlyMap<string, DocModule>) {
    this.#modules = modules;
  }

  /** Returns a reference to the definition of a type that a module declares or imports. */
  named(module: string, name: string): Schema {
    const { symbols = [], imports = [] } = this.#modules.get(module) ?? {};
    const symbol = symbols.find((each) => each.name === name);
    if (symbol === undefined) {
      const found = imports.find((each) => each.importedName === name);
      if (found === undefined) throw new Error(`${module} has no type ${name}`);
      return this.named(found.src, found.originalName);
    }
    const isPrefixed = module.includes("/explain/") && !name.startsWith("Explain");
    const key = isPrefixed ? `Explain${name}` : name;
    if (!(key in this.defs)) {
      this.defs[key] = {};
      const [declaration] = symbol.declarations;
      const description = declaration?.jsDoc?.doc;
      const { properties = [], extends: parents = [], tsType } = declaration?.def ?? {};
      const schema = tsType === undefined
        ? merged([
          ...parents.map((each) => this.of(module, each)),
          this.#object(module, properties),
        ], this)
        : this.of(module, tsType);
      this.defs[key] = { ...description !== undefined && { description }, ...schema };
    }
    return { $ref: `#/$defs/${key}` };
  }

  /** Returns the schema of a type in a module. */
  of(module: string, { kind, value }: DocType): Schema {
    switch (kind) {
      case "keyword":
        return value === "unknown" ? {} : { type: String(value) };
      case "literal": {
        const literal = value as Readonly<Record<string, unknown>>;
        return { const: literal[String(literal["kind"])] };
      }
      case "array":
        return { type: "array", items: this.of(module, value as DocType) };
      case "union":
        return { anyOf: (value as DocType[]).map((each) => this.of(module, each)) };
      case "intersection":
        return merged((value as DocType[]).map((each) => this.of(module, each)), this);
      case "parenthesized":
        return this.of(module, value as DocType);
      case "typeOperator":
        return this.#operator(module, value as { operator: string; tsType: DocType });
      case "typeLiteral":
        return this.#object(module, (value as { properties: DocProperty[] }).properties);
      case "typeQuery":
        // The versions of documents.
        return { type: "number" };
      case "typeRef":
        return this.#reference(module, value as TypeReference);
      case "indexedAccess": {
        const { objType, indexType } = value as { objType: DocType; indexType: DocType };
        const { properties = {} } = this.resolve(this.of(module, objType));
        return properties[this.#names(module, indexType)[0] ?? ""] ?? {};
      }
      default:
        throw new Error(`${module}: a type of the kind ${kind} has no schema`);
    }
  }

  resolve(schema: Schema): Schema {
    return schema.$ref === undefined
      ? schema
      : this.resolve(this.defs[schema.$ref.replace("#/$defs/", "")] ?? {});
  }

  #operator(module: string, { operator, tsType }: { operator: string; tsType: DocType }): Schema {
    const schema = this.of(module, tsType);
    if (operator !== "keyof") return schema;
    const names = Object.keys(this.resolve(schema).properties ?? {});
    return { anyOf: names.map((name) => ({ const: name })) };
  }

  #reference(module: string, { typeName, typeParams = [] }: TypeReference): Schema {
    const [object, keys] = typeParams;
    if (object === undefined) return this.named(module, typeName);
    // It follows from the tables of the command line: any text.
    if (typeName === "Exclude") return { type: "string" };
    const schema = this.resolve(this.of(module, object));
    const names = keys === undefined ? [] : this.#names(module, keys);
    const { properties = {}, required = [] } = schema;
    const select = (isIn: (name: string) => boolean): Schema => ({
      type: "object",
      properties: Object.fromEntries(Object.entries(properties).filter(([name]) => isIn(name))),
      required: required.filter(isIn),
    });
    switch (typeName) {
      case "Pick":
        return select((name) => names.includes(name));
      case "Omit":
        return select((name) => !names.includes(name));
      case "Record":
      case "Readonly":
        return typeName === "Readonly" ? schema : { type: "object" };
      default:
        throw new Error(`${module}: ${typeName} has no schema`);
    }
  }

  /** Returns the names in a union of literals. */
  #names(module: string, type: DocType): string[] {
    const schema = this.resolve(this.of(module, type));
    return (schema.anyOf ?? [schema]).map((each) => String(each.const));
  }

  #object(module: string, properties: readonly DocProperty[]): Schema {
    const entries = properties.map(({ name, tsType, jsDoc }): [string, Schema] => {
      const description = jsDoc?.doc;
      return [name, {
        ...description !== undefined && { description },
        ...this.of(module, tsType),
      }];
    });
    const required = properties.filter(({ optional }) => optional !== true).map(({ name }) => name);
    return { type: "object", properties: Object.fromEntries(entries), required };
  }
}

/** Joins the parts of one object. */
function merged(parts: readonly Schema[], schemas: Schemas): Schema {
  const resolved = parts.map((part) => schemas.resolve(part));
  if (resolved.length === 1) return resolved[0] ?? {};
  return {
    type: "object",
    properties: Object.assign({}, ...resolved.map(({ properties }) => properties)),
    required: [...new Set(resolved.flatMap(({ required = [] }) => required))],
  };
}

/** Returns the schema; each document is a definition that is named like its command. */
export async function outputSchema(): Promise<Schema> {
  const options = { cwd: ROOT.pathname };
  const files = await run(["git", "ls-files", "lib/*.ts", ":!lib/cli/licenses/*"], options);
  const doc = [Deno.execPath(), "doc", "--json", "--private", ...files.trim().split("\n")];
  const printed = await run(doc, options);
  const { nodes } = JSON.parse(printed) as { readonly nodes: Readonly<Record<string, DocModule>> };
  const schemas = new Schemas(new Map(Object.entries(nodes)));
  const documents = Object.entries(DOCUMENTS).map(([command, [path, name]]): [string, Schema] => [
    command,
    schemas.named(new URL(path, ROOT).href, name),
  ]);
  const $defs = Object.fromEntries([...documents, ...reachable(documents, schemas.defs)]);
  return { $schema: "https://json-schema.org/draft/2020-12/schema", $defs } as Schema;
}

/** Returns the definitions that documents refer to: parts of a type may have been picked. */
function reachable(
  documents: readonly (readonly [string, Schema])[],
  defs: Readonly<Record<string, Schema>>,
): [string, Schema][] {
  const found = new Map<string, Schema>();
  const look = (schema: Schema) => {
    for (const [, name = ""] of JSON.stringify(schema).matchAll(/"#\/\$defs\/(\w+)"/g)) {
      const definition = defs[name];
      if (definition === undefined || found.has(name)) continue;
      found.set(name, definition);
      look(definition);
    }
  };
  for (const [, schema] of documents) look(schema);
  return [...found].toSorted(([a], [b]) => a < b ? -1 : 1);
}

/** The text of the file. */
export function schemaText(schema: Schema): string {
  return `${JSON.stringify(schema, null, 1)}\n`;
}

if (import.meta.main) {
  const text = schemaText(await outputSchema());
  if (!Deno.args.includes("--check")) await Deno.writeTextFile(FILE, text);
  else if (await Deno.readTextFile(FILE) !== text) {
    complain(
      "docs/data/output.schema.json differs from the types of the reports: run deno task schema",
    );
    Deno.exit(1);
  }
}
