// Calls a server as any Node service would, and prints what it saw as one JSON object.
//
//   node dist/main.js SERVER FRONT SERVICE_CONFIG
//
// FRONT leads to the same server, and refuses the first calls as UNAVAILABLE.

import { readFileSync } from "node:fs";

import { beLate, beRefused, connect, importContexts, retrieve, touch, watch } from "./calls.js";

const [server, front, path] = process.argv.slice(2);
if (server === undefined || front === undefined || path === undefined) {
  throw new Error("usage: main.js SERVER FRONT SERVICE_CONFIG");
}
const serviceConfig = readFileSync(path, "utf8");
const direct = connect(server, serviceConfig);
const refusing = connect(front, serviceConfig);

const imported = await importContexts(direct);
const seen = {
  imported,
  retrieved: await retrieve(direct, imported.revision),
  refused: await beRefused(direct),
  late: await beLate(direct),
  retried: await retrieve(refusing),
  unretried: await touch(refusing),
  watched: await watch(direct),
};
console.log(JSON.stringify(seen, (_, value) => (typeof value === "bigint" ? Number(value) : value)));

direct.close();
refusing.close();
