import { once } from "node:events";

import { credentials, Metadata, type ServiceError } from "@grpc/grpc-js";

import { type DeepPartial, Status } from "./gen/google/rpc/status.js";
import { BadRequest, ErrorInfo } from "./gen/google/rpc/error_details.js";
import {
  ContextServiceClient,
  GetContextRequest,
  ImportContextsRequest,
  type ImportContextsResponse,
  TouchContextsRequest,
} from "./gen/viking/v1/context_service.js";
import {
  RetrievalServiceClient,
  RetrieveRequest,
  type RetrieveResponse,
  WatchRetrieveRequest,
  type WatchRetrieveResponse,
} from "./gen/viking/v1/retrieval_service.js";

const N_CONTEXTS = 100;
const BATCH_SIZE = 25;
const ROOT = "viking://resources/polyglot-typescript";
const QUESTION: DeepPartial<RetrieveRequest> = {
  query: { input: { $case: "text", value: "Where is the spare key of bay 42?" } },
  scope: { targetUris: [ROOT] },
  limit: 5,
};

/** Clients of one server; they share a connection, for their addresses and options are equal. */
export interface Clients {
  contexts: ContextServiceClient;
  retrieval: RetrievalServiceClient;
  close(): void;
}

/** A status with what its details say. */
export interface Refused {
  code: number;
  reason: string;
  violations: { field: string; reason: string }[];
}

/** Open channels with the deadlines and retries of the contract, and pings that the server permits. */
export function connect(address: string, serviceConfig: string): Clients {
  const options = {
    "grpc.service_config": serviceConfig,
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
  };
  const contexts = new ContextServiceClient(address, credentials.createInsecure(), options);
  const retrieval = new RetrievalServiceClient(address, credentials.createInsecure(), options);
  return {
    contexts,
    retrieval,
    close: () => {
      contexts.close();
      retrieval.close();
    },
  };
}

/** Make a promise of a call. */
function answer<T>(call: (done: (error: ServiceError | null, response: T) => void) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, response) => (error === null ? resolve(response) : reject(error)));
  });
}

/**
 * Write batches in one stream. Each is acknowledged before the next goes out: what was acknowledged is durable, and
 * where the stream breaks one goes on from there.
 */
export async function importContexts(clients: Clients): Promise<{ count: number; revision: bigint }> {
  const stream = clients.contexts.importContexts();
  const answers = stream[Symbol.asyncIterator]() as AsyncIterator<ImportContextsResponse>;
  const done = { count: 0, revision: 0n };
  for (let sequence = 1; sequence <= N_CONTEXTS / BATCH_SIZE; sequence++) {
    const contexts = Array.from({ length: BATCH_SIZE }, (_, k) => {
      const i = (sequence - 1) * BATCH_SIZE + k;
      return {
        uri: `${ROOT}/hall-${Math.floor(i / 10)}/bay-${i}.md`,
        content: `The spare key of bay ${i} hangs behind clock ${1000 + i}.`,
      };
    });
    if (!stream.write(ImportContextsRequest.fromPartial({ sequence: BigInt(sequence), contexts }))) {
      await once(stream, "drain");
    }
    const { value } = await answers.next();
    const response: ImportContextsResponse = value;
    if (response.error !== undefined) {
      throw new Error(response.error.message);
    }
    done.count += response.upsertedCount;
    done.revision = response.revision;
  }
  stream.end();
  if (!(await answers.next()).done) {
    throw new Error("the stream did not end");
  }
  return done;
}

export async function retrieve(clients: Clients, minRevision = 0n): Promise<string[]> {
  const request = RetrieveRequest.fromPartial({ ...QUESTION, minRevision });
  return uris(await answer((done) => clients.retrieval.retrieve(request, done)));
}

function uris(response: RetrieveResponse): string[] {
  return response.matches.map((match) => match.displayUri);
}

/** Send what is wrong in several places; the answer names them all. */
export function beRefused(clients: Clients): Promise<Refused> {
  const request = RetrieveRequest.fromPartial({
    query: { input: { $case: "text", value: " " } },
    limit: -1,
    options: { scorePropagationAlpha: 2 },
  });
  return refusal(answer((done) => clients.retrieval.retrieve(request, done)));
}

/** Wait for a revision that does not come, until the deadline. */
export async function beLate(clients: Clients): Promise<Refused> {
  const request = GetContextRequest.fromPartial({ uri: ROOT, minRevision: 1n << 60n });
  const options = { deadline: Date.now() + 200 };
  const late = await refusal(answer((done) => clients.contexts.getContext(request, new Metadata(), options, done)));
  return { ...late, reason: "" }; // told by whichever side is first
}

/** Not safe to repeat, so it fails where Retrieve is tried again. */
export function touch(clients: Clients): Promise<Refused> {
  const request = TouchContextsRequest.fromPartial({ uris: [ROOT] });
  return refusal(answer((done) => clients.contexts.touchContexts(request, done)));
}

async function refusal(call: Promise<unknown>): Promise<Refused> {
  try {
    await call;
  } catch (error) {
    return read(error as ServiceError);
  }
  throw new Error("the call was not refused");
}

/** Take a status apart. */
export function read(error: ServiceError): Refused {
  const found: Refused = { code: error.code, reason: "", violations: [] };
  for (const packed of error.metadata.get("grpc-status-details-bin")) {
    for (const detail of Status.decode(packed as Buffer).details) {
      if (detail.typeUrl.endsWith("/google.rpc.ErrorInfo")) {
        found.reason = ErrorInfo.decode(detail.value).reason;
      } else if (detail.typeUrl.endsWith("/google.rpc.BadRequest")) {
        const { fieldViolations } = BadRequest.decode(detail.value);
        found.violations.push(...fieldViolations.map(({ field, reason }) => ({ field, reason })));
      }
    }
  }
  return found;
}

export async function watch(clients: Clients): Promise<{ steps: number[]; matches: string[] }> {
  const found: { steps: number[]; matches: string[] } = { steps: [], matches: [] };
  const stream = clients.retrieval.watchRetrieve(WatchRetrieveRequest.fromPartial({ request: QUESTION }));
  for await (const { event } of stream as AsyncIterable<WatchRetrieveResponse>) {
    if (event?.$case === "step") {
      found.steps.push(event.value.index);
    } else if (event?.$case === "result") {
      found.matches = uris(event.value);
    } // what a newer server sends beyond these is passed over
  }
  return found;
}
