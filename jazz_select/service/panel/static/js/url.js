// Every state has a URL. It is in the fragment: what people ask stays out of the logs of servers and proxies.

/** Where we are: `#/try?q=refund` is {path: ["try"], params}. */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { path: parts.length ? parts : ["try"], params: new URLSearchParams(query ?? "") };
}

function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** A link: `to(["flow", name], {q: "x"})`. What is empty is left out. */
export function to(path, params = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "" && each !== false) query.append(name, each === true ? "1" : each);
    }
  }
  const text = query.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Go there. `quietly` takes the place of this state, as a slider does that is moved. */
export function go(hash, quietly = false) {
  if (location.hash === hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else if (quietly) { history.replaceState(null, "", hash); dispatchEvent(new HashChangeEvent("hashchange")); }
  else location.hash = hash;
}
