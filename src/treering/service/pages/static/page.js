// The page works without this: here are the answer without a reload, the price while one types, completion, and the
// status as it changes. The server renders everything; this only puts it in its place.

import { complete } from "./complete.js";

const PAUSE = 450; // milliseconds without a key before the price is asked for
const KEPT = 8; // results that stay on the page
const CALM = 400; // milliseconds between two looks at the status

const form = document.querySelector("#ask");
const area = document.querySelector("#question");
const price = document.querySelector("#price");
const results = document.querySelector("#results");
const said = document.querySelector("#said");
const live = document.querySelector("#live");

async function page(path, options = {}) {
  // The HTML at a path. Whoever is no longer let in goes to the log-in.
  const response = await fetch(path, { ...options, headers: { Accept: "text/html", ...options.headers } });
  if (response.status === 401) {
    location.assign("/?out=1");
    throw new Error("logged out");
  }
  if (!response.ok) {
    throw new Error((await response.json()).detail);
  }
  return response.text();
}

function filled() {
  return new URLSearchParams(new FormData(form));
}

function quietly(promise) {
  return promise.catch(() => undefined); // a server that restarts: the next look shows it again
}

// -- asking -----------------------------------------------------------------------------------------------------------

async function ask() {
  const button = form.querySelector("button.main");
  button.setAttribute("aria-busy", "true");
  try {
    const holder = document.createElement("template");
    holder.innerHTML = await page("/page/ask", { method: "POST", body: filled() });
    const result = holder.content.firstElementChild;
    results.prepend(result);
    while (results.children.length > KEPT) {
      results.lastElementChild.remove();
    }
    said.textContent = result.dataset.said || "";
    price.replaceChildren();
  } catch (error) {
    failed(error instanceof TypeError ? "The server did not answer." : error.message);
  } finally {
    button.removeAttribute("aria-busy");
  }
}

function failed(words) {
  const box = document.createElement("p");
  box.className = "problem";
  box.textContent = words;
  results.prepend(box);
  said.textContent = words;
}

let timer = 0;
let round = 0;

async function look() {
  const mine = ++round;
  if (!area.value.trim()) {
    price.replaceChildren();
    return;
  }
  const html = await page("/page/price", { method: "POST", body: filled() });
  if (mine === round) {
    price.innerHTML = html;
  }
}

function later() {
  clearTimeout(timer);
  round += 1;
  timer = setTimeout(() => quietly(look()), PAUSE);
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  quietly(event.submitter && event.submitter.value === "price" ? look() : ask());
});
form.addEventListener("input", later);
document.querySelectorAll(".chip").forEach((chip) =>
  chip.addEventListener("click", (event) => {
    event.preventDefault();
    area.value = chip.textContent;
    area.focus();
    later();
  }),
);

// -- completion -------------------------------------------------------------------------------------------------------

quietly(
  fetch("/page/words").then(async (response) => {
    if (response.ok) {
      complete(area, document.querySelector("#suggestions"), await response.json());
    }
    area.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit(form.querySelector("button.main"));
      }
    });
  }),
);

// -- the status, as it changes ----------------------------------------------------------------------------------------

let due = 0;

async function refresh() {
  due = 0;
  const open = [...live.querySelectorAll("details")].map((each) => each.open);
  const html = await page("/page/status");
  const focus = document.activeElement && live.contains(document.activeElement);
  if (html !== live.dataset.shown && !focus) {
    live.dataset.shown = html;
    live.innerHTML = html;
    live.querySelectorAll("details").forEach((each, place) => {
      each.open = open[place] || false;
    });
  }
}

function changed() {
  if (!due) {
    due = setTimeout(() => quietly(refresh()), CALM);
  }
}

const events = new EventSource("/api/v1/events");
events.addEventListener("message", changed);
events.addEventListener("status", changed);
document.querySelector(".who").addEventListener("submit", () => {
  events.close();
  clearTimeout(due);
});
events.addEventListener("error", () => {
  if (events.readyState === EventSource.CLOSED) {
    quietly(page("/page/status")); // no longer let in, or the server has gone
  }
});
