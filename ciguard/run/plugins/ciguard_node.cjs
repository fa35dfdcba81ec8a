"use strict";
// What a plugin inside of a Node test framework writes into the record of a leg.
// Standard library only, Node 14+. Everything is asked for by the environment variables that
// ciguard_pytest.py describes; without CIGUARD_RECORD_FILE or CIGUARD_COLLECT_FILE it does nothing.
// What it calls is taken here: tests replace functions of `fs` and the clock.

const fs = require("fs");
const path = require("path");

const { openSync, writeSync, existsSync, readFileSync } = fs;
const { stringify, parse } = JSON;
const clock = process.hrtime.bigint.bind(process.hrtime);
const MESSAGE_BYTES = 4096;
const COLOURS = /\u001b\[[0-9;]*m/g;
const OURS = [
  "COLLECT_FILE", "RECORD_FILE", "UNITS_FILE", "STOP_FILE", "SUITE", "VARIANT", "PROCESS",
  "ORIGIN_AT", "ORIGIN_S", "ORIGIN_CLOCK", "TRIES_FILE", "OOM_FILE", "STACKS_FILE",
].map((name) => `CIGUARD_${name}`);

function rounded(seconds) {
  return Math.round(seconds * 1e6) / 1e6;
}

// The beginning of a text as UTF-8.
function truncated(text) {
  const bytes = Buffer.from(String(text).replace(COLOURS, ""), "utf8");
  return bytes.subarray(0, MESSAGE_BYTES).toString("utf8").replace(/\ufffd+$/, "");
}

class Leg {
  // Take what the leg asked for out of the environment: a framework that a test starts, as a
  // project that tests a test framework does, must not write into this record.
  constructor(environ) {
    const asked = {};
    for (const name of OURS) {
      asked[name] = environ[name];
      delete environ[name];
    }
    this.folder = process.cwd();
    this.collects = asked.CIGUARD_COLLECT_FILE || "";
    this.stopFile = asked.CIGUARD_STOP_FILE || "";
    const file = this.collects || asked.CIGUARD_RECORD_FILE || "";
    this.isActive = file !== "";
    this.descriptor = this.isActive ? openSync(file, "a") : -1;
    this.units = asked.CIGUARD_UNITS_FILE && !this.collects
      ? parse(readFileSync(asked.CIGUARD_UNITS_FILE, "utf8")) : [];
    // The leg's clock is none of ours: the time of day now, and from here on our own.
    this.beganS = Date.now() / 1000 - Number(asked.CIGUARD_ORIGIN_AT || 0);
    this.beganNs = clock();
    this.open = new Map();
  }

  static asked(environ) {
    return Boolean(environ.CIGUARD_RECORD_FILE || environ.CIGUARD_COLLECT_FILE);
  }

  nowS() {
    return rounded(this.beganS + Number(clock() - this.beganNs) / 1e9);
  }

  // The id of a file: its path from where the framework was started, with "/".
  unitOf(file) {
    return path.relative(this.folder, file).split(path.sep).join("/");
  }

  mustStop() {
    return this.stopFile !== "" && existsSync(this.stopFile);
  }

  // A full disk breaks no test.
  append(line) {
    try {
      writeSync(this.descriptor, stringify(line) + "\n");
    } catch { /* the leg finds out */ }
  }

  start(unit) {
    const atS = this.nowS();
    this.open.set(unit, { names: new Map(), lastS: atS });
    this.append({ type: "start", unit, at_s: atS });
  }

  // The result of a case, or without a name that of the unit. A further case of the same name in
  // the same unit is another test: "name #2". What passed since the case before it, and is not the
  // case's own time, is set-up: imports and hooks often take longer than the tests.
  result(unit, name, outcome, facts = {}) {
    const atS = this.nowS();
    const open = this.open.get(unit) || { names: new Map(), lastS: atS };
    const line = { type: "result", unit, outcome, at_s: atS };
    if (name) {
      const count = (open.names.get(name) || 0) + 1;
      open.names.set(name, count);
      line.case = count === 1 ? name : `${name} #${count}`;
    }
    const wallS = Number.isFinite(facts.wallMs) ? facts.wallMs / 1000 : 0;
    if (wallS > 0) line.wall_s = rounded(wallS);
    if (atS - open.lastS - wallS >= 0.001) line.setup_s = rounded(atS - open.lastS - wallS);
    open.lastS = atS;
    if (facts.reruns > 0) line.reruns = facts.reruns;
    if (facts.message) line.message = truncated(facts.message);
    this.append(line);
  }

  // A unit that began and will not end, where the framework goes on without it.
  died(unit, ending, message) {
    const line = { type: "result", unit, outcome: "died", ending, at_s: this.nowS() };
    this.append({ ...line, message: truncated(message) });
  }

  event(kind, facts = {}) {
    this.append({ type: "event", kind, ...facts, at_s: this.nowS() });
  }

  closed(unit) {
    this.event("closed", { unit });
  }

  notCollected(unit, detail = "") {
    this.event("not_collected", { unit, detail });
  }

  // What exists: all files, or why one cannot be read, and at last that this is all.
  listed(files, errors = []) {
    for (const file of files) {
      const unit = this.unitOf(file);
      this.append({ unit, file: unit });
    }
    for (const [place, message] of errors) this.append({ error: place, message: truncated(message) });
    this.append({ done: true, rootdir: this.folder });
  }
}

// Change what `require(name)` gives, by name; each module once.
function onLoad(changes) {
  const Module = require("module");
  const load = Module._load;
  const changed = new Map();
  Module._load = function (request, ...rest) {
    const found = load.call(this, request, ...rest);
    const change = Object.prototype.hasOwnProperty.call(changes, request) && changes[request];
    if (!change) return found;
    if (!changed.has(found)) changed.set(found, change(found));
    return changed.get(found);
  };
}

module.exports = { Leg, onLoad, truncated };
