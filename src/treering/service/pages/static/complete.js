// Completion for the question: attributes, their values, and words of SQL. The text area keeps the focus; the list is a
// listbox whose chosen option is the text area's active descendant.

const MOST = 12;
const WORD = /[\p{L}\p{N}_.-]+$/u;
const AFTER_NAME = /("[^"]*"|[\p{L}_][\p{L}\p{N}_]*)\s*(?:=|<>|!=|<=|>=|<|>|\bIN\s*\((?:[^()]*,)?|\bBETWEEN|\bBETWEEN\s+\S+\s+AND)\s*$/iu;

export function suggest(before, words) {
  // What may stand next: {part, options}, where part is what is typed of it already.
  const part = typed(before);
  const rest = before.slice(0, before.length - part.length);
  const name = rest.match(AFTER_NAME);
  const known = name && words.attributes.find((each) => same(each.name, name[1]));
  const values = known ? known.values.map((text) => ({ text, of: known.name })) : [];
  const others = [
    ...words.attributes.map((each) => ({ text: each.name, of: each.describes })),
    ...words.words.map((text) => ({ text, of: "" })),
  ];
  const open = known ? values : part ? others : [];
  const fits = ({ text }) => bare(text).startsWith(bare(part)) && text !== part;
  return { part, options: open.filter(fits).slice(0, MOST) };
}

function typed(before) {
  // The name, number or text that ends here; a text that is still open begins with its quote.
  let open = -1;
  for (let place = 0; place < before.length; place += 1) {
    if (open < 0 ? before[place] === "'" || before[place] === '"' : before[place] === before[open]) {
      open = open < 0 ? place : -1;
    }
  }
  return open < 0 ? (before.match(WORD) || [""])[0] : before.slice(open);
}

function bare(text) {
  return text.replace(/^['"]|['"]$/g, "").toLowerCase();
}

function same(one, other) {
  return bare(one) === bare(other);
}

export function complete(area, list, words) {
  let found = { part: "", options: [] };
  let chosen = -1;

  function show() {
    found = suggest(area.value.slice(0, area.selectionStart), words);
    list.replaceChildren(...found.options.map(item));
    list.hidden = found.options.length === 0;
    choose(-1);
  }

  function item({ text, of }, place) {
    const option = document.createElement("li");
    option.id = `suggestion-${place}`;
    option.setAttribute("role", "option");
    option.setAttribute("aria-selected", "false");
    const code = document.createElement("code");
    code.textContent = text;
    const hint = document.createElement("span");
    hint.className = "of";
    hint.textContent = of;
    option.append(code, hint);
    option.addEventListener("pointerdown", (event) => {
      event.preventDefault(); // the text area keeps the focus
      take(place);
    });
    return option;
  }

  function choose(place) {
    chosen = place;
    [...list.children].forEach((option, each) => option.setAttribute("aria-selected", String(each === place)));
    if (place < 0) {
      area.removeAttribute("aria-activedescendant");
    } else {
      area.setAttribute("aria-activedescendant", `suggestion-${place}`);
      list.children[place].scrollIntoView({ block: "nearest" });
    }
  }

  function take(place) {
    const end = area.selectionStart;
    const text = found.options[place].text;
    area.setRangeText(text.endsWith("(") ? text : `${text} `, end - found.part.length, end, "end");
    hide();
    area.dispatchEvent(new Event("input", { bubbles: true }));
    hide();
  }

  function hide() {
    list.hidden = true;
    choose(-1);
  }

  area.addEventListener("input", show);
  area.addEventListener("click", hide);
  area.addEventListener("blur", hide);
  area.addEventListener("keydown", (event) => {
    if (list.hidden) {
      return;
    }
    const many = found.options.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      choose(event.key === "ArrowDown" ? (chosen + 1) % many : (chosen <= 0 ? many : chosen) - 1);
    } else if (event.key === "Escape") {
      hide();
    } else if ((event.key === "Enter" || event.key === "Tab") && chosen >= 0) {
      take(chosen);
    } else {
      return;
    }
    event.preventDefault();
    event.stopImmediatePropagation();
  });
}
