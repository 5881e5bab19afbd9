"use strict";
// A pane: one model's text, the record of its steps, and what is frozen of it.
const NS = 8; // nats at which a token is as hot as can be
const coloured = trace => ((trace.rule || "").match(/^[a-z]+(?=: )/) || ["anchor"])[0]; // the word for it

class Pane {
  constructor(home, tip) {
    this.tip = tip;
    this.box = document.createElement("article");
    this.head = document.createElement("h2");
    this.text = document.createElement("p");
    this.box.append(this.head, this.text);
    home.append(this.box);
    this.clear("");
  }

  clear(model) {
    Object.assign(this, { model, first: [], trace: null, at: [], spans: [], last: 0, chain: [],
      done: false, frozen: new Set(), scores: null });
    this.head.textContent = model;
    this.text.replaceChildren();
  }

  // a run begins: a fresh one, or one that goes on from a step of the last
  start(told, from) {
    if (from === null) {
      this.trace = { template: told.template, mask: told.mask, pieces: {}, letters: [{}],
        rows: [[]], steps: 0, anchors: null, rule: "", about: told.about };
      if (!this.first.length) this.first = told.template.map(t => t !== told.mask);
    } else {
      const kept = this.trace.rows[0].filter(e => e[0] <= from);
      Object.assign(this.trace, { rows: [kept], steps: from, anchors: null, letters: [{}] });
    }
    Object.assign(this.trace.pieces, told.pieces);
    this.offset = from || 0;
    this.done = false;
    this.scores = null;
    this.head.textContent = told.about;
    this.index();
    if (this.spans.length !== told.template.length) this.build(told.template.length);
  }

  build(length) {
    this.spans = Array.from({ length }, (_, l) => {
      const span = document.createElement("span");
      span.tabIndex = 0;
      span.dataset.at = l;
      return span;
    });
    this.text.replaceChildren(...this.spans);
  }

  index() {
    this.at = this.trace.template.map(() => []);
    for (const e of this.trace.rows[0]) this.at[e[1]].push(e);
    this.last = this.trace.steps;
  }

  step(told) {
    for (const [step, position, token, probability, text] of told.rows[0]) {
      const e = [step + this.offset, position, token, probability];
      if (token !== null) this.trace.pieces[token] = text;
      this.trace.rows[0].push(e);
      this.at[position].push(e);
    }
    this.trace.steps = this.last = told.step + this.offset;
  }

  end(told) {
    Object.assign(this.trace.pieces, told.pieces);
    Object.assign(this.trace, { letters: told.letters, anchors: told.anchors, rule: told.rule });
    this.done = true;
  }

  // what stands at a position after a step
  state(l, step) {
    const given = this.trace.template[l] !== this.trace.mask;
    let token = given ? this.trace.template[l] : null, event = null, back = 0;
    for (const e of this.at[l]) {
      if (e[0] > step) break;
      event = e;
      token = e[2];
      if (token === null) back++;
    }
    return { token, event, back, given };
  }

  // token ids at a step, null where `keep` says no or nothing stands
  template(step, keep) {
    return this.spans.map((_, l) => keep(l) ? this.state(l, step).token : null);
  }

  piece(l, token, final) {
    const letters = this.trace.letters[0];
    return token === final && l in letters ? letters[l] : this.trace.pieces[token];
  }

  whole() {
    return this.spans.map((_, l) => {
      const { token } = this.state(l, this.last);
      return token === null ? "" : this.piece(l, token, token);
    }).join("");
  }

  show(step) {
    if (!this.trace) return;
    this.spans.forEach((span, l) => {
      const s = this.state(l, step), kinds = ["t"];
      const final = this.at[l].filter(e => e[2] !== null).pop();
      const ends = s.given ? s.token : this.done && final ? final[2] : null;
      if (s.token === null) {
        kinds.push("masked");
        if (s.back && s.event[0] === step) kinds.push("back");
        span.textContent = ends !== null ? this.piece(l, ends, ends) || " " : "\u2007\u2007\u2007\u2007";
      } else {
        span.textContent = this.piece(l, s.token, ends);
        if (this.trace.anchors && this.trace.anchors[0][l] && s.token === ends) kinds.push("anchor");
        if (s.event && s.event[0] === step && step) kinds.push("new");
        if (this.first[l]) kinds.push("given");
        else if (this.frozen.has(l)) kinds.push("frozen");
      }
      span.className = kinds.join(" ");
    });
  }

  // colours by what each token costs
  heat(told, exact) {
    this.scores = told;
    this.spans = [];
    this.text.replaceChildren(...told.tokens.map((token, l) => {
      const span = document.createElement("span");
      const level = Math.max(0, Math.min(7, Math.floor(8 * token.nats / NS)));
      span.className = `t heat h${level}`;
      span.tabIndex = 0;
      span.dataset.at = l;
      span.textContent = token.text;
      return span;
    }));
    const mark = exact ? "" : "≤ ";
    this.head.textContent = `${this.model}: perplexity ${mark}${told.perplexity.toPrecision(4)}, `
      + `${mark}${told.nats.toFixed(1)} nats for ${told.tokens.length} tokens with the end`;
  }

  toggle(l) {
    if (!this.trace || this.scores || this.first[l] || this.state(l, this.last).token === null) return;
    if (!this.frozen.delete(l)) this.frozen.add(l);
  }

  // what the tip says of a position
  lines(l, step) {
    if (this.scores) {
      const token = this.scores.tokens[l];
      return [`“${token.text}”`, `${token.nats.toFixed(2)} nats`,
        `probability about ${Math.exp(-token.nats).toPrecision(2)}`];
    }
    const s = this.state(l, step), lines = [s.token === null ? "not written yet" : `“${this.piece(l, s.token, s.token)}”`];
    if (this.first[l]) lines.push("given");
    else if (s.event && s.token !== null) {
      lines.push(`written at step ${s.event[0]}`, `probability ${s.event[3].toPrecision(3)}`);
    }
    if (this.frozen.has(l)) lines.push("frozen");
    if (s.back) lines.push(`taken back ${s.back} time${s.back > 1 ? "s" : ""}`);
    if (this.trace.anchors && s.token !== null) lines.push((this.trace.anchors[0][l] ? "" : "not ") + coloured(this.trace));
    return lines;
  }
}
