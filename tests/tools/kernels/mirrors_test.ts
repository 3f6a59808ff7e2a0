import { assertEquals } from "@std/assert";
import { mirrorsOf, sourcesList } from "../../../tools/kernels/mirrors.ts";

const STANZAS = `Types: deb
# a snapshot
URIs: http://mirror.example.com/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian.gpg

Types: deb
URIs: http://mirror.example.com/debian-security
Suites: bookworm-security
Components: main
`;

Deno.test("the mirrors are those of the machine's own sources, as stanzas", () => {
  assertEquals(
    mirrorsOf(["Types: deb\nURIs: https://node.example.com\nSuites: nodistro\n", STANZAS]),
    {
      main: { uri: "http://mirror.example.com/debian", signedBy: "/usr/share/keyrings/debian.gpg" },
      security: { uri: "http://mirror.example.com/debian-security" },
    },
  );
});

Deno.test("the mirrors are those of the machine's own sources, as lines", () => {
  const text = `# comment
deb https://tools.example.com/apt tools-bookworm main
deb [arch=amd64 signed-by=/k.gpg] https://m.example.com/debian trixie main contrib
deb-src https://m.example.com/src trixie main
deb https://s.example.com/debian-security trixie-security main
`;
  assertEquals(mirrorsOf([text]), {
    main: { uri: "https://m.example.com/debian", signedBy: "/k.gpg" },
    security: { uri: "https://s.example.com/debian-security" },
  });
});

Deno.test("a machine whose sources name no Debian gets Debian's public mirrors", () => {
  const { main, security } = mirrorsOf(["deb http://archive.example.com/ubuntu noble main\n"]);
  assertEquals(main, { uri: "http://deb.debian.org/debian" });
  assertEquals(security, { uri: "http://deb.debian.org/debian-security" });
});

Deno.test("a suite's list has its security archive, but for sid, which has none", () => {
  const mirrors = mirrorsOf([STANZAS]);
  assertEquals(
    sourcesList("trixie", mirrors),
    "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example.com/debian trixie main\n" +
      "deb http://mirror.example.com/debian-security trixie-security main\n",
  );
  assertEquals(
    sourcesList("sid", mirrors),
    "deb [signed-by=/usr/share/keyrings/debian.gpg] http://mirror.example.com/debian sid main\n",
  );
});
