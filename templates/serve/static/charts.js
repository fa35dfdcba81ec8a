// Draws a test's runs with uPlot, in the place of the drawing that is there without scripts.
"use strict";
(() => {
  const css = getComputedStyle(document.documentElement);
  const colour = (name) => css.getPropertyValue(name).trim();
  const sizes = ["B", "KiB", "MiB", "GiB"];
  const shown = {
    wall_s: (value) => value === null ? "–" : `${value.toPrecision(3)} s`,
    peak_bytes: (value) => {
      if (value === null) return "–";
      let unit = 0;
      while (value >= 1000 && unit < sizes.length - 1) { value /= 1024; unit += 1; }
      return `${value.toPrecision(3)} ${sizes[unit]}`;
    },
  };

  const time = (at_s) => new Date(at_s * 1000).toISOString().replace("T", " ");
  // Of ticks that are a day or more apart the day, of others also the hour.
  const ticks = (_, at_s, __, ___, step_s) => at_s.map((one) => step_s < 86400 ? time(one).slice(5, 16) : time(one).slice(0, 10));

  const powers = Array.from({ length: 50 }, (_, at) => 2 ** at); // so that ticks of bytes are round

  // By status of a run: what its points are called. A skipped test can have a time.
  const series = [
    ["good", { label: "Passed or skipped", stroke: colour("--one"), width: 1.5, points: { size: 4 } }],
    ...[["bad", "Failed", "--bad"], ["unfinished", "Unfinished", "--warn"]].map(([status, label, name]) =>
      [status, { label, stroke: colour(name), width: 0, paths: () => null, points: { show: true, size: 7, fill: colour(name) } }]),
  ];

  function draw(figure, runs, name) {
    const plot = figure.querySelector(".plot");
    const present = series.filter(([status]) => status !== "unfinished" || runs.some((run) => run.status === status && run[name] !== null));
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { show: false } };
    const options = {
      width: plot.clientWidth,
      height: 200,
      padding: [null, 40, null, null], // for half of the last label
      scales: { y: { range: (_, __, most) => [0, most * 1.05 || 1] } },
      tzDate: (at_s) => uPlot.tzDate(new Date(at_s * 1000), "UTC"),
      axes: [{ ...axis, space: 90, values: ticks }, { ...axis, size: 76, ...(name === "peak_bytes" && { incrs: powers }), values: (_, values) => values.map(shown[name]) }],
      series: [
        { label: "Started", value: (_, at_s) => at_s === null ? "–" : `${time(at_s).slice(0, 16)} UTC` },
        ...present.map(([, one]) => ({ ...one, value: (_, value) => shown[name](value) })),
      ],
    };
    const data = [
      runs.map((run) => run.at_ms / 1000),
      ...present.map(([status]) => runs.map((run) => run.status === status ? run[name] : null)),
    ];
    plot.replaceChildren();
    const drawn = new uPlot(options, data, plot);
    addEventListener("resize", () => drawn.setSize({ width: plot.clientWidth, height: options.height }));
  }

  const figures = [...document.querySelectorAll("[data-chart]")];
  if (figures.length) {
    fetch(figures[0].dataset.source).then((answer) => answer.ok ? answer.json() : null).then((page) => {
      if (!page) return;
      const runs = page.runs.toReversed();
      for (const figure of figures) draw(figure, runs, figure.dataset.chart);
    }).catch(() => {});
  }
})();
