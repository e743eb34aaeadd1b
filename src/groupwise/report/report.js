(async () => {
  "use strict";

  async function unpacked(id) {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function element(parent, tag, text, className) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (className) made.className = className;
    parent.append(made);
    return made;
  }

  const number = (value) => Number(value.toPrecision(4)).toString();
  const data = await unpacked("data");
  const root = document.documentElement;
  // Distinct in colour and in lightness, on both grounds.
  const COLOURS = { light: ["#0b57c2", "#a04100", "#5b8c00", "#7a3fb0", "#0f7d80", "#8a6d00"], dark: ["#86b6ff", "#ffab66", "#b3d96b", "#cfa6ff", "#6fd3d6", "#e6c95c"] };
  const drawn = [];

  function isDark() {
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function draw() {
    const style = getComputedStyle(root);
    const [text, quiet, line, ground] = ["--text", "--quiet", "--line", "--ground"].map((name) => style.getPropertyValue(name).trim());
    const colours = COLOURS[isDark() ? "dark" : "light"];
    for (const chart of drawn.splice(0)) chart.dispose();
    data.charts.forEach((chart, index) => {
      const made = echarts.init(document.getElementById(`chart-${index}`), null, { renderer: "svg" });
      const series = [];
      chart.curves.forEach((curve, at) => {
        const color = colours[at % colours.length];
        series.push({ name: curve.name, type: "line", data: curve.points, showSymbol: curve.points.length < 30, symbolSize: 5, lineStyle: { width: 1.8, type: at < colours.length ? "solid" : "dashed" }, color, animation: false });
        for (const [step, low, high] of curve.interval) {
          series.push({ name: curve.name, type: "line", data: [[step, low], [step, high]], symbol: "rect", symbolSize: [9, 2], lineStyle: { width: 1.5 }, color, animation: false, tooltip: { show: false } });
        }
      });
      const axis = { axisLabel: { color: quiet }, axisLine: { lineStyle: { color: line } }, splitLine: { lineStyle: { color: line } }, nameTextStyle: { color: quiet } };
      made.setOption({
        animation: false,
        textStyle: { color: text, fontFamily: style.getPropertyValue("--sans") },
        grid: { left: 8, right: 12, top: 52, bottom: 30, containLabel: true },
        legend: { type: "scroll", top: 0, left: 0, textStyle: { color: text }, pageIconColor: quiet, pageTextStyle: { color: quiet }, data: chart.curves.map((curve) => curve.name) },
        tooltip: { trigger: "axis", backgroundColor: ground, borderColor: line, textStyle: { color: text }, valueFormatter: (value) => (typeof value === "number" ? number(value) : value) },
        xAxis: { type: "value", name: "step", nameLocation: "middle", nameGap: 22, minInterval: 1, ...axis, splitLine: { show: false } },
        yAxis: { type: "value", name: chart.axis, nameLocation: "end", scale: true, ...axis, nameTextStyle: { color: quiet, align: "left" } },
        series,
      });
      drawn.push(made);
    });
  }

  function tables() {
    data.charts.forEach((chart, index) => {
      const details = document.getElementById(`table-${index}`);
      details.addEventListener("toggle", () => {
        if (details.querySelector("table")) return;
        // What scrolls can be reached by the keyboard.
        const scrolled = element(details, "div", undefined, "scrolled");
        scrolled.tabIndex = 0;
        scrolled.setAttribute("role", "region");
        scrolled.setAttribute("aria-label", `${chart.title}, values`);
        const table = element(scrolled, "table");
        const head = element(element(table, "thead"), "tr");
        for (const name of ["step", ...chart.curves.map((curve) => curve.name)]) element(head, "th", name).scope = "col";
        const steps = [...new Set(chart.curves.flatMap((curve) => curve.points.map(([x]) => x)))].sort((a, b) => a - b);
        const columns = chart.curves.map((curve) => new Map(curve.points));
        const body = element(table, "tbody");
        for (const step of steps) {
          const row = element(body, "tr");
          element(row, "th", number(step)).scope = "row";
          for (const column of columns) element(row, "td", column.has(step) ? number(column.get(step)) : "");
        }
      });
    });
  }

  function completions() {
    const section = document.getElementById("picked");
    for (const [title, answers] of section ? data.picked : []) {
      element(section, "h3", title);
      for (const answer of answers) {
        const box = element(section, "div", undefined, "answer");
        element(box, "p", `step ${answer.step}, reward ${number(answer.total)}: ` + Object.entries(answer.rewards).map(([name, value]) => `${name} ${number(value)}`).join(", "), "quiet");
        element(box, "p", answer.question);
        element(box, "p", `expected: ${answer.gold}`, "quiet");
        element(box, "pre", answer.completion).tabIndex = 0;
      }
    }
  }

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("resize", () => drawn.forEach((chart) => chart.resize()));
  addEventListener("beforeprint", () => drawn.forEach((chart) => chart.resize()));
  completions();
  tables();
  draw();
  root.dataset.ready = "yes";
})();
