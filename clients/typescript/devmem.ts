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

/** A page of the newest memories; in a query string `metadata` and `where` are JSON. */
export interface ListRequest {
  /** Maximum number of memories. */
  limit?: number;
  /** Newest memories to leave out. */
  offset?: number;
  /** Archived memories instead, which nothing else returns. */
  archived?: boolean;
  /** Labels they must have; of a list one of the values. */
  metadata?: Record<string, string | number | boolean | Array<string | number | boolean>>;
  /** Further conditions, all of which hold: {"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": "done"}]}. */
  where?: Record<string, string | number | boolean | null | JsonValue[] | Record<string, JsonValue>>;
  /** Only memories in quarantine, or only others; by default both, marked. */
  quarantined?: boolean | null;
}

/** Changes of a memory; what is left out stays as it was. */
export interface MemoryChange {
  /** Replaces the old text. */
  text?: string | null;
  /** When it happened, as an ISO date or time. */
  time?: string | null;
  /** ISO date or time from which on it is forgotten. */
  expires_at?: string | null;
  /** Labels to set; null takes a label out. Others stay. */
  metadata?: Record<string, JsonValue>;
  /** The version read; a newer one stays. */
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
  /** Name of the fact, such as `diet`: its new text takes the place of the one before. */
  key?: string | null;
  /** With key: the version read; `none` if new. */
  if_version?: string | null;
  /** When it happened, as an ISO date or time; leave out if unknown. */
  time?: string | null;
  /** ISO date or time from which on it is forgotten. */
  expires_at?: string | null;
  /** Labels to filter by later, such as {"topic": "launch"}. */
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
  /** A question, or words to search for. */
  query: string;
  /** Maximum number of memories. */
  limit?: number;
  /** Only what happened then or later (ISO). */
  after?: string | null;
  /** Only what happened before then (ISO). */
  before?: string | null;
  /** The user's time with its zone (ISO), for `yesterday`. */
  asked_at?: string | null;
  /** Labels they must have; of a list one of the values. */
  metadata?: Record<string, string | number | boolean | Array<string | number | boolean>>;
  /** Further conditions, all of which hold: {"metadata.stars": {">=": 3}, "none_of": [{"metadata.state": "done"}]}. */
  where?: Record<string, string | number | boolean | null | JsonValue[] | Record<string, JsonValue>>;
  /** Archived memories instead, which nothing else returns. The search indexes all of them first. */
  archived?: boolean;
}

/** A memory, whole. */
export interface StoredMemory {
  id: string;
  text: string;
  /** When it happened, or was stored where that is not known; UTC. */
  time: string;
  /** Who or what it comes from. */
  source?: string | null;
  /** Rank score, larger is better; comparable within one answer. */
  score?: number | null;
  metadata: Record<string, JsonValue>;
  version: string;
  /** When it was stored; UTC. */
  stored_at: string;
  /** From then on it is neither found nor listed; UTC. */
  expires_at?: string | null;
  user?: string | null;
  agent?: string | null;
  session?: string | null;
  conversation?: string | null;
  trace?: string | null;
  run?: string | null;
  /** Kind of origin: `user`, `node`, `tool`, `file`, `import` or `summary`. */
  source_kind: string;
  /** Ids of the memories that it was derived from. */
  parents: Array<string>;
  /** Reliability, from 0 (in quarantine) to 1 (the user's own words). */
  trust: number;
  /** Whether it is in quarantine, where no search finds it. */
  quarantined?: boolean;
  /** Why the store's guard put it there. */
  quarantine_reason?: string | null;
  /** Of an exchange that `text` sums up, what the agent was told. */
  input?: string | null;
  /** Of an exchange that `text` sums up, what the agent said. */
  output?: string | null;
  /** Its files, without their bytes. */
  attachments: Array<Record<string, JsonValue>>;
}

/** A request that was not carried out; `status` is the HTTP status, or 0 where no answer came. */
export class DevmemError extends Error {
  constructor(readonly status: number, message: string, options?: { cause?: unknown }) {
    super(message, options as ErrorOptions);
    this.name = "DevmemError";
  }
}

export interface ClientOptions {
  /** Token of `devmem mcp --add-token`. */
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
