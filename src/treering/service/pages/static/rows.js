// Appending a file: it goes to the API as it is, and what came of it is said below.

const form = document.querySelector("#append");
const outcome = document.querySelector("#outcome");
const types = form ? JSON.parse(form.dataset.types) : {};

function said(kind, head, text) {
  const box = document.createElement("div");
  box.className = kind;
  const strong = document.createElement("strong");
  strong.textContent = head;
  const words = document.createElement("p");
  words.textContent = text;
  box.append(strong, words);
  outcome.replaceChildren(box);
}

function rows(number) {
  return `${number.toLocaleString("en")} ${number === 1 ? "row" : "rows"}`;
}

async function append(file, invalid) {
  const zipped = /\.gz$/i.test(file.name);
  const ending = file.name.replace(/\.gz$/i, "").split(".").pop().toLowerCase();
  const headers = { "Content-Type": types[ending] || "application/octet-stream" };
  if (zipped) {
    headers["Content-Encoding"] = "gzip";
  }
  const response = await fetch(`/api/v1/rows?on_invalid=${invalid}`, { method: "POST", headers, body: file });
  const told = await response.json();
  if (response.status === 401) {
    location.assign("/");
  } else if (!response.ok) {
    said("problem", told.title, told.detail);
  } else {
    const dropped = told.dropped ? ` ${rows(told.dropped)} did not fit and were left out.` : "";
    said("done", `${rows(told.rows)} appended`, `The vault has ${rows(told.size)} now.${dropped}`);
    form.reset();
  }
}

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.setAttribute("aria-busy", "true");
  outcome.replaceChildren();
  try {
    const given = new FormData(form);
    await append(given.get("file"), given.get("on_invalid"));
  } catch {
    said("problem", "No answer", "The server did not answer. Look at the size before sending the file again.");
  } finally {
    button.removeAttribute("aria-busy");
  }
});
