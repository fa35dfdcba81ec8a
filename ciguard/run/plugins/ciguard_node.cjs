"use strict";
// What a plugin inside of a Node test framework writes into the record of a leg.
// Standard library only, Node 10+. Everything is asked for by the environment variables that
// ciguard_pytest.py describes; without CIGUARD_RECORD_FILE or CIGUARD_COLLECT_FILE it does nothing.
// What it calls is taken here: tests replace functions of `fs` and the clock.

const fs = require("fs");
const path = require("path");

const { openSync, writeSync, existsSync, readFileSync, fstatSync } = fs;
const { stringify, parse } = JSON;
const clock = process.hrtime.bigint.bind(process.hrtime);
const MESSAGE_BYTES = 4096;
const MAX_FOCUSED = 20; // events of a process
const LOST_OUTPUT = 70; // no exit code of a framework: what is left runs in another process
const PROJECT = /^\[.*?\] /s; // in front of a unit's path
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

// Which files stdout and stderr are.
function outputFiles() {
  try {
    return [1, 2].map((descriptor) => fstatSync(descriptor)).map(({ dev, ino }) => `${dev} ${ino}`).join();
  } catch {
    return "";
  }
}

// A further name is "name #2".
function numbered(counts, name) {
  const count = (counts.get(name) || 0) + 1;
  counts.set(name, count);
  return count === 1 ? name : `${name} #${count}`;
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
    this.oomFile = asked.CIGUARD_OOM_FILE || "";
    this.file = this.collects || asked.CIGUARD_RECORD_FILE;
    this.descriptor = openSync(this.file, "a");
    this.units = asked.CIGUARD_UNITS_FILE && !this.collects
      ? parse(readFileSync(asked.CIGUARD_UNITS_FILE, "utf8")) : [];
    this.isFurther = Number(asked.CIGUARD_PROCESS) > 1;
    const tries = this.isFurther ? parse(readFileSync(asked.CIGUARD_TRIES_FILE, "utf8")) : {};
    this.onlyRepeats = this.units.every((unit) => tries[unit] > 0);
    // The leg's clock is none of ours: the time of day now, and from here on our own.
    this.beganS = Date.now() / 1000 - Number(asked.CIGUARD_ORIGIN_AT || 0);
    this.beganNs = clock();
    this.outputFiles = outputFiles();
    this.open = new Map();
    this.focused = new Set(); // units
    this.shared = new Set(); // files that several projects run
  }

  static asked(environ) {
    return Boolean(environ.CIGUARD_RECORD_FILE || environ.CIGUARD_COLLECT_FILE);
  }

  nowS() {
    return rounded(this.beganS + Number(clock() - this.beganNs) / 1e9);
  }

  // Its path from where the framework was started, with "/".
  pathOf(file) {
    return path.relative(this.folder, file).split(path.sep).join("/");
  }

  // The id of a file: its path, and the project before it where several run the file.
  unitOf(file, project = "") {
    return (this.shared.has(file) ? `[${project}] ` : "") + this.pathOf(file);
  }

  // List the tests, or take those that are asked for, in this order, and report the others.
  select(tests, program, fileOf, projectOf = () => "") {
    const projects = new Map();
    for (const test of tests) {
      const file = fileOf(test);
      projects.set(file, (projects.get(file) || new Set()).add(projectOf(test)));
      if (projects.get(file).size > 1) this.shared.add(file);
    }
    const unitOf = (test) => this.unitOf(fileOf(test), projectOf(test));
    if (this.collects) {
      this.listed(new Map(tests.map((test) => [unitOf(test), this.pathOf(fileOf(test))])));
      return [];
    }
    const places = new Map(this.units.map((unit, place) => [unit, place]));
    const found = tests.filter((test) => places.has(unitOf(test)));
    const there = new Set(found.map(unitOf));
    for (const unit of this.units.filter((one) => !there.has(one))) {
      const isThere = existsSync(unit.replace(PROJECT, ""));
      this.notCollected(unit, isThere ? `left out by the configuration of ${program}` : "");
    }
    return found.sort((a, b) => places.get(unitOf(a)) - places.get(unitOf(b)));
  }

  // The settings under which test bodies, or some cases of a unit, do not run, each with its reason.
  execution(settings) {
    const details = new Map(settings.map(([reason, detail]) => [detail, reason]));
    if (this.collects) {
      details.forEach((reason, filter) => { if (reason === "filter") this.append({ filter }); });
    } else {
      if (details.size === 0) details.set("", "executed");
      details.forEach((reason, detail) => this.event("execution", { reason, detail }));
    }
  }

  focus(unit) {
    if (this.collects || this.focused.has(unit) || this.focused.size >= MAX_FOCUSED) return;
    this.focused.add(unit);
    this.event("execution", { reason: "focus", detail: `${unit}: .only` });
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

  start(unit, facts = {}) {
    const atS = this.nowS();
    this.opened(unit).lastS = atS;
    this.append({ type: "start", unit, ...facts, at_s: atS });
  }

  // What is known of a unit's cases.
  opened(unit) {
    if (!this.open.has(unit)) this.open.set(unit, { names: new Map(), begun: new Map(), lastS: this.nowS() });
    return this.open.get(unit);
  }

  // The first try of a case begins: it is the culprit of what ends the process now.
  caseStart(unit, name) {
    const detail = numbered(this.opened(unit).begun, name);
    this.event("case_start", { unit, detail });
    return detail;
  }

  // The one case of a unit that runs, here or in a worker. A case that contains it runs, too.
  openCase(unit) {
    const open = new Set();
    for (const line of readFileSync(this.file, "utf8").split("\n")) {
      const { kind, detail, unit: whole, case: ended } = line.includes('"case') ? parse(line) : {};
      if (kind === "case_start" && whole === unit) open.add(detail);
      else open.delete(detail || ended);
    }
    const names = [...open];
    const inner = names.filter((name) => !names.some((other) => other.startsWith(`${name} > `)));
    return inner.length === 1 ? inner[0] : undefined;
  }

  // Number of processes that the kernel has killed for memory.
  oomKills() {
    try {
      return Number(/^oom_kill (\d+)/m.exec(readFileSync(this.oomFile, "utf8"))[1]);
    } catch {
      return 0;
    }
  }

  // The result of a case, or without a name that of the unit. A further case of the same name in
  // the same unit is another test: "name #2". What passed since the case before it, and is not the
  // case's own time, is set-up: imports and hooks often take longer than the tests.
  result(unit, name, outcome, facts = {}) {
    const atS = this.nowS();
    const open = this.opened(unit);
    const line = { type: "result", unit, outcome, at_s: atS };
    if (name) line.case = numbered(open.names, name);
    const wallS = Number.isFinite(facts.wallMs) ? facts.wallMs / 1000 : 0;
    if (wallS > 0) line.wall_s = rounded(wallS);
    if (atS - open.lastS - wallS >= 0.001) line.setup_s = rounded(atS - open.lastS - wallS);
    open.lastS = atS;
    if (facts.reruns > 0) line.reruns = facts.reruns;
    if (facts.message) line.message = truncated(facts.message);
    this.append(line);
  }

  // A unit that began and will not end, where the framework goes on without it.
  died(unit, ending, message, name = undefined) {
    const line = { type: "result", unit, case: name, outcome: "died", ending, at_s: this.nowS() };
    this.append({ ...line, message: truncated(message) });
  }

  event(kind, facts = {}) {
    this.append({ type: "event", kind, ...facts, at_s: this.nowS() });
  }

  // Without stdout, the process would end in another unit.
  closed(unit, facts = undefined) {
    if (outputFiles() === this.outputFiles) return this.event("closed", { unit, facts });
    this.died(unit, "crash", "it closed stdout or stderr: the output after it is lost");
    return process.exit(LOST_OUTPUT);
  }

  notCollected(unit, detail = "") {
    this.event("not_collected", { unit, detail });
  }

  // What exists: the file of each unit, or why one cannot be read, and at last that this is all.
  listed(files, errors = []) {
    for (const [unit, file] of files) this.append({ unit, file });
    for (const [place, message] of errors) this.append({ error: place, message: truncated(message) });
    this.append({ done: true, rootdir: this.folder });
  }
}

// Change what `require(name)` gives, by name or path below node_modules; each module once.
function onLoad(changes) {
  const Module = require("module");
  const load = Module._load;
  const changed = new Map();
  Module._load = function (request, ...rest) {
    const found = load.call(this, request, ...rest);
    const name = request.replace(/^.*[\\/]node_modules[\\/]/s, "").replace(/\\/g, "/");
    const change = Object.prototype.hasOwnProperty.call(changes, name) && changes[name];
    if (!change) return found;
    if (!changed.has(found)) changed.set(found, change(found));
    return changed.get(found);
  };
}

module.exports = { Leg, onLoad, truncated };
