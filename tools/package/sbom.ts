/**
 * Writes the bill of materials of a release, in SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/).
 *
 * @module
 */
import type { Notice } from "../../lib/cli/licenses/report.ts";
import type { Commit } from "../compile/commit.ts";
import { nameOf, type Pin, type Pins } from "../image/packages.ts";

/** The hashes of packages in `deno.lock`. */
export type Integrities = Readonly<Record<string, { readonly integrity: string }>>;

/** The parts of the document. */
export interface BillOptions {
  readonly version: string;
  readonly commit: Commit;
  readonly notices: readonly Notice[];
  readonly npm: Integrities;
  /** Debian's packages in the image. */
  readonly image: Pins;
}

/** Returns the document: the packages of the binary, and Debian's packages in the image. */
export function billOfMaterials({ version, commit, notices, npm, image }: BillOptions): object {
  const packages = notices.map((notice) => ({
    ...named(notice.name, notice.version),
    supplier: `Organization: ${notice.publisher}`,
    licenseDeclared: notice.license,
    ...originOf(notice, npm),
  }));
  const unpublished = {
    supplier: "NOASSERTION",
    licenseDeclared: "Apache-2.0",
    downloadLocation: "NOASSERTION",
  };
  const own = { ...named("signpost", version), ...unpublished };
  const container = { ...named("signpost-image", version), ...unpublished };
  const debian = debianPackages(image);
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `signpost-${version}`,
    documentNamespace: `https://spdx.org/spdxdocs/signpost-${version}-${commit.hash}`,
    creationInfo: {
      created: new Date(commit.time * 1000).toISOString().replace(".000", ""),
      creators: ["Tool: signpost-tools/package.ts"],
    },
    packages: [own, ...packages, container, ...debian],
    relationships: [
      relation("SPDXRef-DOCUMENT", "DESCRIBES", own.SPDXID),
      ...packages.map(({ SPDXID }) => relation(own.SPDXID, "CONTAINS", SPDXID)),
      relation("SPDXRef-DOCUMENT", "DESCRIBES", container.SPDXID),
      ...debian.map(({ SPDXID }) => relation(container.SPDXID, "CONTAINS", SPDXID)),
    ],
  };
}

type Package = ReturnType<typeof named>;

/** Returns the packages of both machine types; those for all machines once. */
function debianPackages({ snapshot, packages }: Pins): Package[] {
  const pins = new Map(Object.values(packages).flat().map((pin) => [pin.path, pin]));
  return [...pins.values()].map((pin) => debianPackage(pin, snapshot));
}

function debianPackage(pin: Pin, snapshot: string) {
  const [, , architecture = ""] = pin.path.replace(/\.deb$/, "").split("_");
  const name = nameOf(pin);
  const [archive, ...rest] = pin.path.split("/");
  const version = encodeURIComponent(pin.version);
  return {
    ...named(name, pin.version),
    SPDXID: `SPDXRef-Package-${name.replace(/[^A-Za-z0-9.]+/g, "-")}-${architecture}`,
    supplier: "Organization: Debian",
    licenseDeclared: "NOASSERTION",
    downloadLocation: `https://snapshot.debian.org/archive/${archive}/${snapshot}/${
      rest.join("/")
    }`,
    checksums: [{ algorithm: "SHA256", checksumValue: pin.sha256 }],
    externalRefs: [
      purl(`pkg:deb/debian/${name}@${version}?arch=${architecture}&distro=debian-13`),
    ],
  };
}

function purl(referenceLocator: string) {
  return { referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator };
}

function named(name: string, versionInfo: string) {
  const SPDXID = `SPDXRef-Package-${name.replace(/[^A-Za-z0-9.]+/g, "-").replace(/^-/, "")}`;
  return {
    SPDXID,
    name,
    versionInfo,
    filesAnalyzed: false,
    licenseConcluded: "NOASSERTION",
    copyrightText: "NOASSERTION",
  };
}

function relation(spdxElementId: string, relationshipType: string, relatedSpdxElement: string) {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

/** Returns the source of a package. Deno is not from npm: its runtime comes with `deno compile`. */
function originOf({ name, version }: Notice, npm: Integrities): object {
  const integrity = npm[`${name}@${version}`]?.integrity;
  if (integrity === undefined) {
    return { downloadLocation: `https://github.com/denoland/deno/releases/tag/v${version}` };
  }
  const bytes = Uint8Array.from(atob(integrity.replace("sha512-", "")), (c) => c.charCodeAt(0));
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return {
    downloadLocation: `https://www.npmjs.com/package/${name}/v/${version}`,
    checksums: [{ algorithm: "SHA512", checksumValue: hex }],
    externalRefs: [purl(`pkg:npm/${name.replace("@", "%40")}@${version}`)],
  };
}
