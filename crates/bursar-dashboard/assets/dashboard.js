// Enhancements only: every page works without this file.
"use strict";

const announce = (text) => {
  const region = document.querySelector("#announce");
  if (region) region.textContent = text;
};

// The clipboard API exists only in secure contexts; plain HTTP on another host uses a selection.
const copy = async (text) => {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return true;
  }
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
};

// Copy: button.copy[data-copy], or any [data-copy].
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  if (!(await copy(button.dataset.copy))) return;
  button.classList.add("is-copied");
  announce("Copied");
  setTimeout(() => button.classList.remove("is-copied"), 1500);
});

// Menus close on a click elsewhere and on Escape.
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// Palette: ⌘K or Ctrl K; the .search link leads to the search page without script.
const palette = document.querySelector("dialog.palette");
// Marks the link that Enter opens.
const choose = (chosen) => {
  for (const link of palette.querySelectorAll(".palette-list a")) {
    link.classList.toggle("is-active", link === chosen);
    link.setAttribute("aria-selected", String(link === chosen));
  }
  const input = palette.querySelector("input[name=q]");
  if (!chosen) return input.removeAttribute("aria-activedescendant");
  chosen.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", chosen.id);
};
if (palette) {
  const show = () => {
    if (!palette.open) palette.showModal();
    palette.querySelector("input").select();
  };
  document.querySelector(".search")?.addEventListener("click", (event) => {
    event.preventDefault();
    show();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      show();
    }
  });
  palette.addEventListener("click", (event) => {
    if (event.target === palette) palette.close();
  });
  palette.addEventListener("keydown", (event) => {
    const links = [...palette.querySelectorAll(".palette-list a")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const active = links.findIndex((link) => link.classList.contains("is-active"));
    if (step && links.length) {
      event.preventDefault();
      choose(links[active < 0 && step < 0 ? links.length - 1 : (active + step + links.length) % links.length]);
    } else if (event.key === "Enter" && active >= 0) {
      event.preventDefault();
      links[active].click();
    }
  });
  if (palette.hasAttribute("data-show")) show();
}

// Selection: the action bar counts checked rows; the box in the head checks all of the page. Rows may be replaced at any time.
for (const form of document.querySelectorAll("form[data-select]")) {
  const boxes = () => [...form.querySelectorAll("tbody input[type=checkbox]")];
  const all = () => form.querySelector("thead input[type=checkbox]");
  const label = form.querySelector(".selected");
  const update = () => {
    const total = boxes().length;
    const count = boxes().filter((box) => box.checked).length;
    const head = all();
    if (head) {
      head.checked = count > 0 && count === total;
      head.indeterminate = count > 0 && count < total;
    }
    if (label) label.textContent = count ? `${count} selected` : "None selected";
    for (const button of form.querySelectorAll("[data-needs-selection]")) button.disabled = count === 0;
  };
  form.addEventListener("change", (event) => {
    if (event.target === all()) for (const box of boxes()) box.checked = event.target.checked;
    update();
  });
  document.addEventListener("bursar:refreshed", update);
  update();
}

// Theme: the server renders data-theme from the cookie, so that there is no flash.
for (const button of document.querySelectorAll("button[data-set-theme]")) {
  button.addEventListener("click", () => {
    const theme = button.dataset.setTheme;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    document.cookie = `bursar_theme=${theme}; Path=/; SameSite=Strict; Max-Age=31536000`;
    for (const other of document.querySelectorAll("button[data-set-theme]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}

// Live: when an event arrives, load the page again and replace the parts that differ. Pages whose rows must not move show a bar
// with the number of events instead.
const REFRESH_MS = 1000;
const RECONNECT_MS = 1000;
const RECONNECT_MS_MAX = 30000;
const source = document.body.dataset.events;
if (source) {
  const indicator = document.querySelector("#live");
  const tell = (on) => {
    if (!indicator) return;
    indicator.classList.toggle("is-on", on);
    indicator.classList.toggle("is-off", !on);
    indicator.firstElementChild.textContent = on ? "live" : "reconnecting";
  };
  const mode = document.body.dataset.liveMode;
  let due = false;
  let busy = null;
  let last = 0;
  let leaving = false;

  const refresh = async () => {
    if (busy || leaving || document.hidden) return;
    busy = new AbortController();
    due = false;
    last = Date.now();
    try {
      // The header keeps the message of an act for the page that the act leads to.
      const headers = { "bursar-refresh": "1" };
      const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual", headers, signal: busy.signal });
      // The session has ended, and its cookie with it.
      if (answer.type === "opaqueredirect") {
        location.assign(`/login?expired=1&next=${encodeURIComponent(location.pathname + location.search)}`);
      }
      else if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (mode === "announce" && !showing && rows().length) update(page);
        else replace(page);
        showing = false;
      }
    } catch {
      due = true;
    } finally {
      busy = null;
    }
    if (due) soon();
  };

  // Figures in a part that is always in use, such as those beside the chosen state.
  const showFigures = (page) => {
    for (const figure of document.querySelectorAll("[data-figure]")) {
      const next = page.getElementById(figure.id);
      if (next) figure.textContent = next.textContent;
    }
  };

  // The page that was loaded last, if parts of it could not be shown because they were in use.
  let waiting = null;
  const replace = (page) => {
    waiting = null;
    showFigures(page);
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = page.getElementById(part.id);
      if (!next || part.innerHTML === next.innerHTML) continue;
      // A part that is being used stays as it is: a menu that is open, a row that is selected, a field that has the focus.
      const used = part.contains(document.activeElement) && document.activeElement !== document.body;
      if (used || part.querySelector("details[open], input:checked")) {
        waiting = page;
        continue;
      }
      part.innerHTML = next.innerHTML;
      part.className = next.className;
    }
    paintProgress();
    document.dispatchEvent(new CustomEvent("bursar:refreshed"));
  };
  const noLongerUsed = () => requestAnimationFrame(() => { if (waiting) replace(waiting); });
  for (const kind of ["toggle", "focusout", "change"]) document.addEventListener(kind, noLongerUsed, true);

  // A list whose rows must not move: rows that are there change in place, those that left fade, and new ones are only counted.
  let showing = false;
  const rows = () => document.querySelectorAll("[data-live] tbody tr[id]");
  const update = (page) => {
    showFigures(page);
    const next = new Map([...page.querySelectorAll("[data-live] tbody tr[id]")].map((row) => [row.id, row]));
    for (const row of rows()) {
      const now = next.get(row.id);
      next.delete(row.id);
      row.classList.toggle("is-gone", !now);
      const used = row.contains(document.activeElement) || row.querySelector("input:checked");
      if (now && !used && row.innerHTML !== now.innerHTML) row.innerHTML = now.innerHTML;
    }
    if (!news) return;
    news.hidden = next.size === 0;
    news.textContent = `${next.size} new ${next.size === 1 ? news.dataset.one ?? "row" : news.dataset.news}: show`;
  };

  let timer = 0;
  const soon = () => {
    due = true;
    if (timer || busy) return;
    timer = setTimeout(() => {
      timer = 0;
      refresh();
    }, Math.max(0, last + REFRESH_MS - Date.now()));
  };

  const news = document.querySelector("button.news");
  let count = 0;
  const announceNews = () => {
    if (!news) return;
    count += 1;
    news.hidden = false;
    news.textContent = `${count} new ${count === 1 ? "event" : "events"}: show`;
  };
  news?.addEventListener("click", () => {
    count = 0;
    news.hidden = true;
    showing = true;
    soon();
  });

  // Progress is no reason to load the page again, so the report itself is shown until the job changes.
  let report = null;
  const paintProgress = () => {
    const percent = document.querySelector("#progress-percent");
    if (!report || !percent || typeof report.percent !== "number") return;
    percent.textContent = ` ${Math.round(report.percent)} %`;
    document.querySelector("#progress-bar")?.setAttribute("width", `${Math.min(100, Math.max(0, report.percent))}%`);
    const message = document.querySelector("#progress-message");
    if (message && report.message) message.textContent = report.message;
  };

  // Events that were missed while there was no connection cannot be counted.
  let missed = false;
  const catchUp = () => {
    missed = false;
    if (mode !== "announce") soon();
    else if (news?.hidden) {
      news.hidden = false;
      news.textContent = "The connection was lost: show the newest";
    }
  };

  let stream = null;
  let pause = RECONNECT_MS;
  const connect = () => {
    if (stream || leaving || document.hidden) return;
    stream = new EventSource(source);
    stream.onopen = () => {
      pause = RECONNECT_MS;
      tell(true);
      if (missed) catchUp();
    };
    stream.onerror = () => {
      tell(false);
      missed = true;
      if (stream?.readyState !== EventSource.CLOSED) return;
      // Browsers give up after an answer that is not a stream: that of a proxy whose server is away, or that of the login.
      disconnect();
      refresh();
      setTimeout(connect, pause);
      pause = Math.min(2 * pause, RECONNECT_MS_MAX);
    };
    stream.onmessage = (message) => {
      const event = JSON.parse(message.data);
      if (event.kind === "ready") return;
      if (event.kind.startsWith("job.")) report = null;
      if (event.kind === "progress") {
        report = event;
        paintProgress();
      } else if (mode === "announce" && !rows().length) announceNews();
      else soon();
    };
  };
  const disconnect = () => {
    stream?.close();
    stream = null;
  };
  connect();

  // Browsers allow six connections to a server, so that a page that is not seen gives up its own.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) connect();
    else {
      missed = true;
      disconnect();
    }
  });
  // An act changes what this page shows, but its answer is another page.
  document.addEventListener("submit", () => {
    leaving = true;
    busy?.abort();
    disconnect();
    setTimeout(() => {
      leaving = false;
      missed = true;
      connect();
    }, 10 * REFRESH_MS);
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    leaving = false;
    missed = true;
    connect();
  });
}

// Times: what was "3 s ago" when the page was rendered goes on.
const seconds = { s: 1, min: 60, h: 3600, days: 86400 };
const inWords = (span) => {
  if (span < 90) return `${Math.round(span)} s`;
  if (span < 90 * 60) return `${Math.round(span / seconds.min)} min`;
  if (span < 48 * 3600) return `${Math.round(span / seconds.h)} h`;
  return `${Math.round(span / seconds.days)} days`;
};
setInterval(() => {
  if (document.hidden) return;
  for (const time of document.querySelectorAll("time[datetime]")) {
    if (!/^(in |now$)|( ago$)/.test(time.textContent)) continue;
    const ahead = (Date.parse(time.dateTime) - Date.now()) / 1000;
    const words = Math.abs(ahead) < 1 ? "now" : ahead > 0 ? `in ${inWords(ahead)}` : `${inWords(-ahead)} ago`;
    if (time.textContent !== words) time.textContent = words;
  }
}, 1000);

// The palette finds ids, scopes and queues while one types.
if (palette) {
  const input = palette.querySelector("input[name=q]");
  const found = palette.querySelector(".palette-list");
  const pages = [...found.querySelectorAll("a")];
  let latest = 0;
  const show = (links) => {
    found.replaceChildren(...links);
    links.forEach((link, place) => { link.id = `found-${place}`; });
  };
  input.addEventListener("input", async () => {
    const text = input.value.trim();
    const mine = ++latest;
    // Pages are found at once; Enter searches on the server if there are none.
    const named = pages.filter((link) => link.textContent.toLowerCase().includes(text.toLowerCase()));
    show(named);
    choose(text ? named[0] : null);
    if (!text) return;
    const url = new URL("/search", location.origin);
    url.searchParams.set("q", text);
    url.searchParams.set("part", "1");
    const tenant = palette.querySelector("input[name=tenant]");
    if (tenant) url.searchParams.set("tenant", tenant.value);
    const answer = await fetch(url, { credentials: "same-origin" });
    if (mine !== latest || !answer.ok) return;
    const results = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== latest) return;
    show([...results.querySelectorAll("a"), ...named]);
    choose(found.querySelector("a"));
  });
}

// A state is chosen by one click.
document.addEventListener("change", (event) => {
  if (event.target.matches(".filters .chips input")) event.target.form.requestSubmit();
});

// Messages are closed in place; without script the link loads the page again, which has no message.
document.addEventListener("click", (event) => {
  const close = event.target.closest("[data-close]");
  if (!close) return;
  event.preventDefault();
  close.parentElement.remove();
});

// Rows of a form, such as limits: one is added after the others, and removed by its button.
document.addEventListener("click", (event) => {
  const rows = event.target.closest("[data-rows]");
  if (!rows) return;
  const all = rows.querySelectorAll("[data-row]");
  const last = all[all.length - 1];
  const empty = (row) => {
    for (const input of row.querySelectorAll("input")) input.value = "";
    return row;
  };
  if (event.target.closest("[data-add]")) {
    const row = empty(last.cloneNode(true));
    last.after(row);
    row.querySelector("input").focus();
  }
  const removed = event.target.closest("[data-remove]")?.closest("[data-row]");
  if (!removed) return;
  if (all.length === 1) empty(removed);
  else removed.remove();
  rows.querySelector("[data-row]:last-of-type input")?.focus();
});

// A menu with a form opens with the cursor in its first field.
document.addEventListener("toggle", (event) => {
  if (event.target.matches?.("details.menu[open]")) event.target.querySelector("form input:not([type=hidden])")?.focus();
}, true);
