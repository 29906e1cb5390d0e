// Client of devmem's HTTP interface. Generated from its OpenAPI document by `python -m tools.typescript_client`.
// Runs wherever `fetch` exists: Node 18 and later, Deno, Bun, browsers. It has no dependencies.

export type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };

/** Number of memories that were forgotten. */
export interface ForgottenCount {
  forgotten: number;
}

/** Ids of the memories that were stored, in the order of their texts. */
export interface Ids {
  ids: Array<string>;
}

/** A page of the newest memories. */
export interface ListRequest {
  limit?: number;
  offset?: number;
  /** Conditions, all of which hold: {"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": ["done", "dropped"]}]} In a query string it is JSON. */
  where?: Record<string, string | number | boolean | null | JsonValue[] | Record<string, JsonValue>>;
  /** Archived memories instead, which nothing else returns. */
  archived?: boolean;
  /** Only memories in quarantine, or only others; by default both, marked. */
  quarantined?: boolean | null;
}

/** Changes of a memory; what is left out stays as it was. */
export interface MemoryChange {
  text?: string | null;
  time?: string | null;
  expires_at?: string | null;
  /** Values to set; null takes a key out. */
  metadata?: Record<string, JsonValue>;
  /** `version` of the memory that was read. */
  if_version?: string | null;
}

/** Memories, and the number of all within reach where they are a page. */
export interface MemoryPage {
  memories: Array<StoredMemory>;
  total?: number | null;
}

/** Texts to remember, each with what is known of it. */
export interface NewMemories {
  memories: Array<NewMemory>;
}

/** A text to remember. */
export interface NewMemory {
  text: string;
  /** Name of the fact, whose text before it replaces. */
  key?: string | null;
  /** `version` of the memory that the key may replace; `none`: it must be new. */
  if_version?: string | null;
  /** When it happened; ISO 8601. */
  time?: string | null;
  /** From when on it is forgotten; ISO 8601. */
  expires_at?: string | null;
  metadata?: Record<string, JsonValue>;
}

/** A message of a conversation. */
export interface NewMessage {
  /** Such as `user`, `assistant`, `tool` or `system`. */
  role: string;
  content: string;
  /** Name of who said it. */
  name?: string | null;
  /** Its own id, by which it is known again. */
  id?: string | null;
}

/** Messages to remember, oldest first. */
export interface NewMessages {
  messages: Array<NewMessage>;
  /** They are the conversation so far: only those beyond the stored ones are new. */
  history?: boolean;
  /** Conversation that they belong to. */
  conversation?: string | null;
}

/** Reason why a request was not carried out. */
export interface Problem {
  status: number;
  message: string;
}

/** Answer to a request that was not carried out. */
export interface ProblemDocument {
  error: Problem;
}

/** A search. */
export interface SearchRequest {
  query: string;
  limit?: number;
  after?: string | null;
  before?: string | null;
  /** When it is asked, from which `last week` counts; ISO 8601, in days of its zone. */
  asked_at?: string | null;
  /** Values that the memories have; of a list one of them. */
  metadata?: Record<string, string | number | boolean | Array<string | number | boolean>>;
  /** Conditions, all of which hold: {"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": ["done", "dropped"]}]} */
  where?: Record<string, string | number | boolean | null | JsonValue[] | Record<string, JsonValue>>;
  /** Archived memories instead, which nothing else returns. The search indexes all of them first. */
  archived?: boolean;
}

/** A memory, whole. */
export interface StoredMemory {
  id: string;
  text: string;
  /** When it happened, or was stored where that is not known; ISO 8601, UTC. */
  time: string;
  expires_at?: string | null;
  user?: string | null;
  metadata: Record<string, JsonValue>;
  /** Changes with everything that a change can set. */
  version: string;
  /** Whether it is in quarantine, where no search finds it. */
  quarantined?: boolean;
  /** Why the store's guard put it there. */
  quarantine_reason?: string | null;
  /** Of a search; larger is better. */
  score?: number | null;
}

/** A request that was not carried out; `status` is the HTTP status, or 0 where no answer came. */
export class DevmemError extends Error {
  constructor(readonly status: number, message: string, options?: { cause?: unknown }) {
    super(message, options as ErrorOptions);
    this.name = "DevmemError";
  }
}

export interface ClientOptions {
  /** Token of `devmem token add`. */
  token?: string;
  /** Milliseconds until a request is given up; 30,000 without it. */
  timeout?: number;
  /** Used instead of the global `fetch`. */
  fetch?: typeof fetch;
}

/** A memory behind `devmem mcp --http`. Every method throws a DevmemError where it is not carried out. */
export class DevmemClient {
  private readonly base: string;

  /** `base` is the server's address, such as "http://127.0.0.1:8000". */
  constructor(base: string, private readonly options: ClientOptions = {}) {
    this.base = base.replace(/\/+$/, "");
  }

  /** Remember texts; they are durable when this answers. */
  addMemories(body: NewMemories): Promise<Ids> {
    return this.request("POST", `/v1/memories`, { body });
  }

  /** List the newest memories. */
  listMemories(query: ListRequest = {}): Promise<MemoryPage> {
    return this.request("GET", `/v1/memories`, { query: { ...query } });
  }

  /** Remember messages, or what is new in a conversation; they are durable when this answers. */
  addMessages(body: NewMessages): Promise<Ids> {
    return this.request("POST", `/v1/messages`, { body });
  }

  /** Search by meaning and words. */
  searchMemories(body: SearchRequest): Promise<MemoryPage> {
    return this.request("POST", `/v1/search`, { body });
  }

  /** Return a memory. */
  getMemory(id: string): Promise<StoredMemory> {
    return this.request("GET", `/v1/memories/${encodeURIComponent(id)}`);
  }

  /** Change a memory and keep its id. */
  changeMemory(id: string, body: MemoryChange): Promise<StoredMemory> {
    return this.request("PATCH", `/v1/memories/${encodeURIComponent(id)}`, { body });
  }

  /** Forget a memory permanently. */
  forgetMemory(id: string): Promise<ForgottenCount> {
    return this.request("DELETE", `/v1/memories/${encodeURIComponent(id)}`);
  }

  private async request<T>(
    method: string, path: string, sent: { body?: unknown; query?: Record<string, unknown> } = {},
  ): Promise<T> {
    const given = Object.entries(sent.query ?? {}).filter(([, value]) => value != null);
    const texts = given.map(([key, value]) => [key, typeof value === "object" ? JSON.stringify(value) : String(value)]);
    const query = texts.length ? `?${new URLSearchParams(texts)}` : "";
    const headers: Record<string, string> = { accept: "application/json" };
    if (this.options.token !== undefined) headers.authorization = `Bearer ${this.options.token}`;
    if (sent.body !== undefined) headers["content-type"] = "application/json";
    const send = this.options.fetch ?? fetch;
    let answer: Response;
    let text: string;
    try {
      answer = await send(this.base + path + query, {
        method, headers,
        body: sent.body === undefined ? undefined : JSON.stringify(sent.body),
        signal: AbortSignal.timeout(this.options.timeout ?? 30_000),
      });
      text = await answer.text();
    } catch (cause) {
      throw new DevmemError(0, `${method} ${this.base}${path} got no answer: ${String(cause)}`, { cause });
    }
    let document: unknown;
    try {
      document = JSON.parse(text);
    } catch (cause) {
      throw new DevmemError(answer.status, `${method} ${this.base}${path} was not answered with JSON`, { cause });
    }
    if (!answer.ok) {
      const problem = (document as Partial<ProblemDocument> | null)?.error;
      throw new DevmemError(answer.status, problem?.message ?? `${method} ${path}: status ${answer.status}`);
    }
    return document as T;
  }
}
