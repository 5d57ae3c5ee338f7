"use strict";
// Draws the figures of the page and handles its controls. Names are always set as text, never as HTML.
(() => {
  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  const figures = []; // {key, spec, card, plot, types, choice, off}

  // -- light and dark ---------------------------------------------------------------------------

  const wanted = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // the theme that the user chose with the button
  try { chosen = localStorage.getItem("psrl-pomdp-theme"); } catch { /* the browser allows no storage */ }

  function setTheme(theme) {
    root.dataset.theme = theme;
    byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
    for (const swatch of document.querySelectorAll(".swatch")) {
      swatch.style.background = `var(--${swatch.dataset.place % 7})`;
    }
    figures.forEach(draw);
  }
  const present = () => (chosen ?? (wanted.matches ? "dark" : "light"));

  byId("theme").addEventListener("click", () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    chosen = (next === "dark") === wanted.matches ? null : next; // null: follow the system
    try {
      if (chosen) localStorage.setItem("psrl-pomdp-theme", chosen);
      else localStorage.removeItem("psrl-pomdp-theme");
    } catch { /* as above */ }
    setTheme(next);
  });
  wanted.addEventListener("change", () => setTheme(present()));
  let printing = false; // on paper, the theme is light and the width is fixed
  addEventListener("beforeprint", () => {
    printing = true;
    for (const figure of figures) figure.seen = true;
    setTheme("light");
  });
  addEventListener("afterprint", () => {
    printing = false;
    setTheme(present());
  });

  /** Resolve color names: "@3", "@3/0.2", "@ink". */
  function painted(value, style) {
    if (typeof value === "string" && value[0] === "@") {
      const [name, alpha] = value.slice(1).split("/");
      const hex = style.getPropertyValue(`--${name}`).trim();
      if (alpha === undefined) return hex;
      const part = (i) => parseInt(hex.slice(i, i + 2), 16);
      return `rgba(${part(1)},${part(3)},${part(5)},${alpha})`;
    }
    if (Array.isArray(value)) {
      const plain = value.every((inner) => typeof inner === "number" || inner === null);
      return plain ? value : value.map((inner) => painted(inner, style));
    }
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === "meta" ? inner : painted(inner, style)]));
    }
    return value;
  }

  // -- figures ----------------------------------------------------------------------------------

  function shown(figure, trace) {
    const meta = trace.meta ?? {};
    if (meta.choice !== undefined && meta.choice !== figure.choice) return false;
    if (meta.hidden) return figure.revealed === true;
    return !figure.off.has(meta.label || meta.group);
  }

  /** Symmetric logarithm: linear near 0 and logarithmic far from it, for values of both signs. */
  const bent = (value, knee) => Math.sign(value) * Math.log10(1 + Math.abs(value) / knee);
  const unbent = (height, knee) => Math.sign(height) * knee * (10 ** Math.abs(height) - 1);

  /** Values for a logarithmic axis: symmetric logarithms if there is a knee, else positive values; bands end at the floor. */
  function logarithmic(figure, trace) {
    const { floor, knee } = figure.spec;
    if (figure.types.y !== "log") return trace;
    if (knee) {
      return {
        ...trace, y: trace.y.map((v) => (v === null ? null : bent(v, knee))), customdata: trace.y,
        hovertemplate: trace.hovertemplate?.replace("%{y:", "%{customdata:"),
      };
    }
    if (!floor) return trace;
    const cut = trace.meta?.band ? (v) => Math.max(v, floor) : (v) => (v > 0 ? v : null);
    return { ...trace, y: trace.y.map((v) => (v === null ? null : cut(v))) };
  }

  function draw(figure) {
    if (!window.Plotly || !figure.seen) return;
    const style = getComputedStyle(root);
    const data = figure.spec.data.map((trace) => ({
      ...painted(logarithmic(figure, trace), style), visible: shown(figure, trace),
    }));
    const layout = painted(structuredClone(figure.spec.layout), style);
    const font = { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: style.getPropertyValue("--ink").trim() };
    Object.assign(layout, {
      font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      margin: { l: 56, r: 24, t: 10, b: 48, ...layout.margin },
      hoverlabel: { bgcolor: style.getPropertyValue("--ground").trim(), font },
      ...(figure.cursor ? { shapes: [cursorAt(figure.cursor, style)] } : {}),
    });
    if (printing) Object.assign(layout, { autosize: false, width: figure.card.closest(".pair") ? 300 : 660 });
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis/.test(key))) {
      const axis = layout[name];
      axis.gridcolor ??= style.getPropertyValue("--grid").trim();
      axis.linecolor = style.getPropertyValue("--line").trim();
      axis.automargin = true;
      if (name[0] === "x") axis.nticks ??= figure.plot.clientWidth < 450 ? 5 : 9;
      if (figure.spec.short?.[name] && figure.plot.clientWidth < 500) axis.ticktext = figure.spec.short[name];
      const type = figure.types[name[0]];
      if (type && name.length === 5) {
        axis.type = type;
        if (type === "log") setLogarithmic(figure, axis, name[0]);
      }
      axis.fixedrange = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page
    }
    if (figure.window) layout.xaxis.range = figure.window;
    Plotly.react(figure.plot, data, layout, {
      responsive: true, displaylogo: false, displayModeBar: false, showTips: false,
    });
    if (!figure.listens) figure.plot.on("plotly_relayout", (event) => zoomed(figure, event));
    figure.listens = true;
  }

  // -- logarithmic axes -------------------------------------------------------------------------

  /** 5000 as 5k. */
  function si(value) {
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
      if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(4))}${unit}`;
    }
    return String(Number(value.toPrecision(4))).replace("-", "−");
  }

  function setLogarithmic(figure, axis, letter) {
    delete axis.range;
    const [least, most, positive] = ends(figure, letter);
    if (letter === "y" && figure.spec.knee) {
      axis.type = "linear";
      Object.assign(axis, heights(figure, least, most));
      return;
    }
    const wide = Math.log10(most / positive);
    if (letter === "x" && wide > 1.5) {
      const room = Math.max(1, figure.plot.clientWidth - 100), pad = 0.012 * wide;
      axis.range = [Math.log10(positive) - pad, Math.log10(most) + pad];
      Object.assign(axis, times(positive, most, (40 * wide) / room));
    } else {
      axis.dtick = wide > 1.5 ? 1 : wide > 0.3 ? "D2" : undefined;
    }
    axis.exponentformat ??= "SI";
  }

  /** The minimum and the maximum of the values on an axis, and the smallest value on a logarithmic axis. */
  function ends(figure, axis) {
    let least = Infinity, most = -Infinity, positive = Infinity; // minimum, maximum, smallest positive value
    for (const trace of figure.spec.data) {
      for (const value of trace[axis]) {
        if (value === null || !shown(figure, trace)) continue;
        least = Math.min(least, value);
        most = Math.max(most, value);
        if (value > 0) positive = Math.min(positive, Math.max(value, figure.spec.floor));
      }
    }
    return [least, most, positive];
  }

  /** Ticks at both ends and at the powers of ten between that are at least `room` decades from the ends. */
  function times(first, last, room) {
    const found = [first];
    for (let ten = 10 ** Math.ceil(Math.log10(first)); ten < last; ten *= 10) {
      if (Math.log10(ten / first) >= room && Math.log10(last / ten) >= room) found.push(ten);
    }
    found.push(last);
    return { tickmode: "array", tickvals: found, ticktext: found.map(si) };
  }

  /** Ticks of a symmetric logarithmic axis: 0 and powers of ten, or evenly spaced ticks for a small range. */
  function heights(figure, least, most) {
    const knee = figure.spec.knee, found = [];
    const low = bent(least, knee), high = bent(most, knee);
    if (high - low > 1.5) {
      for (let ten = knee; bent(ten, knee) <= high; ten *= 10) found.push(ten);
      found.push(0);
      for (let ten = knee; bent(-ten, knee) >= low; ten *= 10) found.push(-ten);
    } else {
      for (let i = 0; i <= 5; i += 1) found.push(Number(unbent(low + (i * (high - low)) / 5, knee).toPrecision(3)));
    }
    return { tickmode: "array", tickvals: found.map((value) => bent(value, knee)), ticktext: found.map(si) };
  }

  /** Update the ticks after zooming. */
  function zoomed(figure, event) {
    const seen = (name) => [event[`${name}.range[0]`], event[`${name}.range[1]`]];
    const [left] = seen("xaxis"), [low, high] = seen("yaxis"), knee = figure.spec.knee, change = {};
    if (figure.types.x === "log" && left !== undefined) {
      Object.assign(change, { "xaxis.tickmode": "auto", "xaxis.dtick": null });
    }
    if (figure.types.y === "log" && knee && low !== undefined) {
      const ticks = heights(figure, unbent(low, knee), unbent(high, knee));
      for (const [name, value] of Object.entries(ticks)) change[`yaxis.${name}`] = value;
    }
    if (event["xaxis.autorange"] || event["yaxis.autorange"]) draw(figure);
    else if (Object.keys(change).length) Plotly.relayout(figure.plot, change);
  }

  function setUp(card) {
    const key = card.dataset.figure, spec = specs[key];
    const figure = {
      key, spec, card, plot: card.querySelector(".plot"), choice: spec.choices[0], seen: false,
      types: { x: spec.switches.includes("x") ? spec.layout.xaxis.type : undefined,
               y: spec.switches.includes("y") ? (spec.layout.yaxis.type ?? "linear") : undefined },
      off: new Set(spec.data.filter((trace) => trace.meta?.off).map((trace) => trace.meta.label)),
    };
    figures.push(figure);
    for (const button of card.querySelectorAll("[data-axis]")) {
      const axis = button.dataset.axis;
      button.setAttribute("aria-pressed", String(figure.types[axis] === "log"));
      button.addEventListener("click", () => {
        figure.types[axis] = figure.types[axis] === "log" ? "linear" : "log";
        button.setAttribute("aria-pressed", String(figure.types[axis] === "log"));
        draw(figure);
      });
    }
    card.querySelector("[data-choice]")?.addEventListener("change", (event) => {
      figure.choice = event.target.value;
      draw(figure);
    });
    legend(figure);
    const details = card.querySelector("details");
    details.addEventListener("toggle", () => { if (details.open) fillTable(details.querySelector(".scroll"), spec); });
    details.querySelector("[data-csv]").addEventListener("click", () => download(`${key}.csv`, csv(spec)));
    details.querySelector("[data-svg]").addEventListener("click", () => {
      if (window.Plotly) Plotly.downloadImage(figure.plot, { format: "svg", filename: key });
    });
  }

  function legend(figure) {
    const place = figure.card.querySelector(".legend"), done = new Set();
    for (const { meta } of figure.spec.data) {
      if (!meta?.label || done.has(meta.label)) continue;
      done.add(meta.label);
      const button = make("button", undefined, { type: "button", "aria-pressed": String(!figure.off.has(meta.label)) });
      button.append(stroke(meta), make("span", meta.label));
      button.addEventListener("click", () => {
        const off = figure.off.has(meta.label);
        figure.off[off ? "delete" : "add"](meta.label);
        button.setAttribute("aria-pressed", String(off));
        draw(figure);
      });
      place.append(button);
    }
  }

  function stroke(meta) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
    for (const [name, value] of Object.entries({ width: 24, height: 10, "aria-hidden": "true" })) svg.setAttribute(name, value);
    const dash = { dash: "7 4", dot: "2.5 3" }[meta.dash] ?? "none";
    for (const [name, value] of Object.entries({ x1: 1, y1: 5, x2: 23, y2: 5, "stroke-width": 3, "stroke-dasharray": dash })) line.setAttribute(name, value);
    const [name, alpha] = meta.color.slice(1).split("/");
    line.style.stroke = `var(--${name})`;
    line.style.strokeOpacity = alpha ?? 1;
    svg.append(line);
    return svg;
  }

  // -- numbers ----------------------------------------------------------------------------------

  const MOST_ROWS = 400;
  const written = (value) => (value === null ? "" : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(6))) : String(value));

  function fillTable(place, spec) {
    if (place.firstChild) return;
    const table = make("table"), head = make("tr"), body = make("tbody");
    for (const name of spec.columns) head.append(make("th", name, { scope: "col" }));
    for (const row of spec.rows.slice(0, MOST_ROWS)) {
      const line = make("tr");
      for (const value of row) line.append(make("td", written(value), typeof value === "number" ? { class: "right" } : {}));
      body.append(line);
    }
    const top = make("thead");
    top.append(head);
    table.append(top, body);
    place.append(table);
    if (spec.rows.length > MOST_ROWS) place.append(make("p", `The first ${MOST_ROWS} rows; the CSV has all ${spec.rows.length}.`, { class: "soft" }));
  }

  /** The table as CSV. Texts that a spreadsheet would interpret as formulas start with a quote. */
  function csv(spec) {
    const cell = (value) => {
      if (value === null) return "";
      if (typeof value === "number") return String(value);
      const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
      return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [spec.columns, ...spec.rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }

  function download(name, text) {
    const link = make("a", undefined, { download: name, href: URL.createObjectURL(new Blob([text], { type: "text/csv" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  // -- replay -----------------------------------------------------------------------------------

  const cursorAt = (step, style) => ({
    type: "rect", xref: "x", yref: "paper", x0: step - 0.5, x1: step + 0.5, y0: 0, y1: 1,
    line: { width: 2, color: style.getPropertyValue("--ink").trim() }, fillcolor: "rgba(0,0,0,0)",
  });

  function player(box) {
    const figure = figures.find(({ key }) => key === "replay"), spec = figure.spec;
    const slider = box.querySelector("input"), playing = box.querySelector("[data-play]");
    const reveal = box.querySelector("[data-reveal]"), now = box.querySelector(".now");
    const last = spec.actions.length;
    let timer = null;

    function tell(step) {
      const i = step - 1, belief = spec.beliefs[i], likeliest = belief.indexOf(Math.max(...belief));
      const words = [
        ["step", `${step} of ${last}`],
        ["observation", spec.observations[i] ?? "none"],
        ["action", spec.actions[i]],
        ["likeliest state", `${spec.names[likeliest]} (${Math.round(100 * belief[likeliest])} %)`],
        ["hidden state", figure.revealed ? spec.states[i] : "hidden"],
        [spec.kind, figure.revealed ? written(spec.costs[i]) : "hidden"],
      ];
      if (spec.episodes) words.splice(1, 0, ["episode", spec.episodes[i]]);
      now.replaceChildren(...words.map(([term, text]) => {
        const pair = make("div");
        pair.append(make("dt", term), make("dd", text));
        return pair;
      }));
    }

    function go(step) {
      const wide = figure.plot.clientWidth < 500 ? spec.window / 2 : spec.window;
      const at = Math.min(last, Math.max(1, step)), first = Math.floor((at - 1) / wide) * wide;
      slider.value = at;
      slider.setAttribute("aria-valuetext", `step ${at} of ${last}`);
      figure.cursor = at;
      figure.window = [first + 0.5, first + Math.min(wide, last) + 0.5];
      tell(at);
      if (window.Plotly && figure.plot.layout) {
        Plotly.relayout(figure.plot, { shapes: [cursorAt(at, getComputedStyle(root))], "xaxis.range": figure.window });
      }
      if (at === last) stop();
    }

    function stop() {
      clearInterval(timer);
      timer = null;
      playing.textContent = "Play";
      playing.setAttribute("aria-pressed", "false");
    }

    playing.addEventListener("click", () => {
      if (timer !== null) return stop();
      if (Number(slider.value) === last) go(1);
      timer = setInterval(() => go(Number(slider.value) + 1), 350);
      playing.textContent = "Pause";
      return playing.setAttribute("aria-pressed", "true");
    });
    for (const button of box.querySelectorAll("[data-go]")) {
      button.addEventListener("click", () => { stop(); go(Number(slider.value) + Number(button.dataset.go)); });
    }
    slider.addEventListener("input", () => { stop(); go(Number(slider.value)); });
    reveal.addEventListener("click", () => {
      figure.revealed = !figure.revealed;
      reveal.setAttribute("aria-pressed", String(figure.revealed));
      reveal.textContent = figure.revealed ? "Hide the states again" : "Reveal the hidden states";
      tell(Number(slider.value));
      draw(figure);
    });
    go(1);
  }

  // -- start ------------------------------------------------------------------------------------

  async function unpackPlotly() {
    const packed = Uint8Array.from(atob(byId("plotly").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = make("script", await new Response(stream).text());
    document.head.append(script);
    script.remove();
    byId("plotly").remove();
  }

  /** Draw each figure when it comes near the window. */
  function drawWhenNear() {
    const near = new IntersectionObserver((entries) => {
      for (const { isIntersecting, target } of entries) {
        const figure = figures.find(({ card }) => card === target);
        if (isIntersecting && !figure.seen) {
          figure.seen = true;
          draw(figure);
        }
      }
    }, { rootMargin: "600px" });
    for (const { card } of figures) near.observe(card);
  }

  document.querySelectorAll("[data-figure]").forEach(setUp);
  document.querySelectorAll("[data-player]").forEach(player);
  setTheme(present());
  if (!("DecompressionStream" in window)) {
    byId("old-browser").hidden = false;
  } else {
    unpackPlotly().then(() => { drawWhenNear(); root.dataset.ready = "yes"; });
  }
})();
