// The keys of the page, in memory only. The fragment of the address holds the keys, and the page
// removes the fragment from the address at once.
let keys = {read: "", control: ""};

function take(fragment) {
  const found = new URLSearchParams(fragment.replace(/^[^#]*#/, ""));
  if (!found.get("read")) return false;
  keys = {read: found.get("read"), control: found.get("control") || ""};
  return true;
}

// takeFromAddress takes the keys from the page's address, and reports whether there was a key.
export function takeFromAddress() {
  const had = take(location.hash);
  if (location.hash) history.replaceState(null, "", location.pathname);
  return had;
}

// takeFromText takes the keys from an address that a person pasted.
export const takeFromText = text => take(text.trim());

export const canControl = () => keys.control !== "";

// call makes a call with the key for reading. The result is the answer's JSON. An error has the
// reason as the server states it, and the HTTP status in the field code.
export async function call(path, signal) {
  return check(await fetch(path, {headers: {Authorization: "Bearer " + keys.read}, signal, cache: "no-store"}));
}

// command makes a call that injects or ends a fault.
export async function command(action) {
  return check(await fetch("api/do", {method: "POST", body: JSON.stringify(action),
    headers: {Authorization: "Bearer " + keys.control, "Content-Type": "application/json"}}));
}

export async function openStream(signal) {
  const answer = await fetch("api/stream", {headers: {Authorization: "Bearer " + keys.read}, signal, cache: "no-store"});
  if (!answer.ok) await check(answer);
  return answer.body;
}

async function check(answer) {
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw Object.assign(new Error(body.detail || answer.statusText), {code: answer.status});
}
