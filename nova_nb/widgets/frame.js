// The frame of nova_nb/views/picture.py, merged, and the questions a view asks of it.
// Knows the tables; knows nothing of the page. The rule of `rowState` is that of `Picture.state`.

export const STATES = {
  whole: ["●", "whole", "The model sees this row word for word."],
  preview: ["◐", "preview", "The model sees the first part; the whole is in a file."],
  placeholder: ["▭", "placeholder", "The model sees a line that says a result was here."],
  folded: ["≡", "folded", "A short text stands for a run of rows."],
  summary: ["Σ", "summary", "Text that a compaction wrote in place of earlier rows."],
  attachment: ["⊕", "attachment", "Context built again after a compaction; originals should be read again."],
  memory: ["✦", "memory", "Instructions or memories put in from outside the conversation."],
  reminder: ["¶", "reminder", "Text that the harness put in."],
  repair: ["+", "repair", "Made up so that the protocol holds."],
  later: ["·", "not yet", "This row was written after the request of this step."],
  boundary: ["◆", "behind a compaction", "The row is on disk; the model sees the summary in its place."],
  branch: ["⋔", "on another branch", "The row is on disk, on a branch that this step does not continue."],
  subagent: ["↳", "subagent", "The row belongs to a subagent's own history."],
  record: ["–", "never sent", "A record beside the conversation; it is never sent."],
  other: ["○", "not sent", "The row is not part of this request."],
};

const SPOKEN = new Set(["person", "model", "tool", "summary", "harness", "boundary"]);

export const amount = (n) =>
  n < 1000 ? String(Math.round(n)) : n < 999950 ? (n / 1000).toFixed(1) + "k" : (n / 1e6).toFixed(1) + "M";

export class Store {
  constructor() {
    this.seq = 0;
    this.t = { rows: {}, blocks: {}, pieces: {}, steps: {}, epochs: [], reasons: [], prompts: [] };
    this.head = { categories: [] };
    this.counts = {};
    this.lines = [];
    this.marks = [];
    this.cache = new Map();
  }

  // Cut each table at its base, then append. False: a frame is missing and the whole must be asked for.
  apply(frame) {
    const whole = Object.values(frame.base).every((at) => at === 0);
    if (!whole && frame.seq !== this.seq + 1) return frame.seq <= this.seq;
    for (const [table, at] of Object.entries(frame.base)) {
      const from = frame[table];
      if (Array.isArray(from)) this.t[table] = whole ? from : this.t[table].slice(0, at).concat(from);
      else
        for (const [name, column] of Object.entries(from)) {
          if (whole) this.t[table][name] = column;
          else {
            const old = this.t[table][name];
            old.length = at;
            for (const cell of column) old.push(cell);
          }
        }
    }
    for (const [a, b] of frame.patch.pair) this.t.blocks.pair[a] = b;
    for (const [a, b] of frame.patch.parent) this.t.rows.parent[a] = b;
    Object.assign(this, { seq: frame.seq, head: frame.head, counts: frame.counts, lines: frame.lines, marks: frame.marks });
    this.cache.clear();
    return true;
  }

  get rowCount() { return this.t.rows.id ? this.t.rows.id.length : 0; }
  get last() { return this.t.steps.kind ? this.t.steps.kind.length : 0; } // the next request, one past the steps

  step(s) {
    const out = {};
    for (const name in this.t.steps) out[name] = this.t.steps[name][s - 1];
    return out;
  }

  // A step's request: piece numbers in order, and where each row is in it.
  view(s) {
    if (this.cache.has(s)) return this.cache.get(s);
    const step = this.step(s), order = [], places = new Map(), { row, also } = this.t.pieces;
    let head = -1;
    for (const [first, count] of this.t.epochs[step.epoch].runs) {
      for (let i = first; i < first + count && order.length < step.n; i++) {
        const at = order.push(i) - 1;
        for (const r of also[i].length ? [row[i], ...also[i]] : [row[i]]) {
          if (r < 0) continue;
          const had = places.get(r);
          if (had) had.push(at);
          else places.set(r, [at]);
          head = Math.max(head, r);
        }
      }
    }
    const view = { ...step, number: s, order, places, head };
    if (this.cache.size > 6) this.cache.delete(this.cache.keys().next().value);
    this.cache.set(s, view);
    return view;
  }

  // [state or layer, reason] of a row at a step.
  rowState(row, s) {
    const view = this.view(s), at = view.places.get(row), { state, reason } = this.t.pieces;
    if (at) {
      const odd = at.find((i) => state[view.order[i]] !== "whole");
      const piece = view.order[odd === undefined ? at[0] : odd];
      return [state[piece], reason[piece]];
    }
    if (row >= view.row) return ["later", ""];
    const left = this.t.epochs[view.epoch].left;
    let lo = 0, hi = left.length;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (left[middle][0] <= row) lo = middle + 1;
      else hi = middle;
    }
    if (!lo || (!SPOKEN.has(this.t.rows.who[row]) && left[lo - 1][0] !== row)) return ["record", ""];
    return this.t.reasons[left[lo - 1][1]];
  }

  // Conversation rows in a step's request.
  inRequest(s) {
    let n = 0;
    for (const row of this.view(s).places.keys()) if (this.t.rows.who[row] !== "boundary" && SPOKEN.has(this.t.rows.who[row])) n++;
    return n;
  }

  pieceHead(i) {
    const block = this.t.pieces.block[i];
    return block >= 0 ? this.t.blocks.head[block] : this.t.pieces.head[i];
  }

  tokens(chars, s) { return Math.round((chars / 3.5) * this.t.steps.scale[s - 1]); }

  // The entries of the request pane, top to bottom.
  entries(s, against) {
    const view = this.view(s), prompt = this.t.prompts[view.prompt], out = [];
    const read = view.usage ? view.usage[1] : 0, recorded = !!view.usage;
    let sum = 0;
    const push = (entry) => {
      sum += entry.tokens;
      entry.cached = recorded && read > 0 && sum <= read * 1.01;
      out.push(entry);
    };
    (prompt.system || []).forEach(([head, chars], i) => push({ cat: "system", head, tokens: this.tokens(chars, s), key: "s" + i }));
    if (prompt.tools && prompt.tools.length) {
      const chars = prompt.tools.reduce((n, t) => n + t[1], 0);
      const head = `${prompt.tools.length} tools: ${prompt.tools.map((t) => t[0]).join(", ")}`;
      push({ cat: "tools", head, tokens: this.tokens(chars, s), key: "tools" });
    }
    const unlogged = view.parts[this.head.categories.indexOf("unlogged")];
    if (unlogged) push({ cat: "unlogged", head: "system prompt and tools, not in the log (measured from the recorded counts)", tokens: unlogged, key: "u" });
    const diff = this.difference(s, against);
    view.order.forEach((piece, i) => {
      if (diff && diff.at === i) out.push({ line: diff.text, key: "d", tokens: 0 });
      push({ piece, cat: this.t.pieces.cat[piece], state: this.t.pieces.state[piece], row: this.t.pieces.row[piece],
        head: this.pieceHead(piece), tokens: this.tokens(this.t.pieces.chars[piece], s), key: "p" + i });
    });
    if (diff && diff.at >= view.order.length) out.push({ line: diff.text, key: "d", tokens: 0 });
    for (const text of s === this.last ? this.head.unknown || [] : []) out.push({ line: "not in the log: " + text, key: text, tokens: 0, note: true });
    return out;
  }

  // The step before `s` of the same kind; the next request follows the last main step.
  before(s) {
    const kind = s === this.last ? "main" : this.t.steps.kind[s - 1];
    for (let i = s - 1; i >= 1; i--) if (this.t.steps.kind[i - 1] === kind) return i;
    return 0;
  }

  difference(s, against) {
    if (!against || against === s) return null;
    const a = this.view(against), b = this.view(s), name = against === this.last ? "the next request" : `step ${against}`;
    if (a.prompt !== b.prompt) return { at: 0, text: `system prompt or tools differ from ${name}` };
    let i = 0;
    while (i < a.order.length && i < b.order.length && a.order[i] === b.order[i]) i++;
    if (i === a.order.length && i === b.order.length) return { at: i, text: `the same as ${name}` };
    return { at: i, text: i === a.order.length ? `new since ${name}` : `first difference to ${name}` };
  }
}
