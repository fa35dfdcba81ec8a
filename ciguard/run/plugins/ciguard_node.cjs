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
    this.cases = new Map();
  }

  static asked(environ) {
    return Boolean(environ.CIGUARD_RECORD_FILE || environ.CIGUARD_COLLECT_FILE);
  }

  nowS() {
    return Math.round((this.beganS + Number(clock() - this.beganNs) / 1e9) * 1e6) / 1e6;
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
    this.cases.set(unit, new Map());
    this.append({ type: "start", unit, at_s: this.nowS() });
  }

  // The result of a case, or without a name that of the unit. A further case of the same name in
  // the same unit is another test: "name #2".
  result(unit, name, outcome, facts = {}) {
    const line = { type: "result", unit, outcome, at_s: this.nowS() };
    if (name) {
      const seen = this.cases.get(unit) || new Map();
      this.cases.set(unit, seen);
      const count = (seen.get(name) || 0) + 1;
      seen.set(name, count);
      line.case = count === 1 ? name : `${name} #${count}`;
    }
    if (Number.isFinite(facts.wallMs)) line.wall_s = Math.round(facts.wallMs * 1000) / 1e6;
    if (facts.reruns > 0) line.reruns = facts.reruns;
    if (facts.message) line.message = truncated(facts.message);
    this.append(line);
  }

  closed(unit) {
    this.append({ type: "event", kind: "closed", unit, at_s: this.nowS() });
  }

  notCollected(unit, detail = "") {
    this.append({ type: "event", kind: "not_collected", unit, detail, at_s: this.nowS() });
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
