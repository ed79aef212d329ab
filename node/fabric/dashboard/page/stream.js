// Server-sent events, read with fetch, because EventSource cannot send a key in a header.
import {openStream} from "./key.js";

const shortest = 500, longest = 8000; // milliseconds until a new attempt

// follow calls on.message(kind, data) for each event, and on.state(text, good) when the connection
// changes. After a break, follow connects again. follow ends when the key is refused.
export async function follow(on) {
  for (let wait = shortest;;) {
    try {
      const body = await openStream();
      on.state("live", true);
      await read(body, (kind, data) => {
        wait = shortest;
        try { on.message(kind, data); } catch (e) { reportError(e); } // a fault of the page is no broken connection
      });
    } catch (e) {
      if (e.code === 401 || e.code === 403) return on.refused(e.message);
      on.state(e.code === 503 ? e.message : "no connection", false);
    }
    on.state("connecting again", false);
    await new Promise(done => setTimeout(done, wait));
    wait = Math.min(longest, wait * 2);
  }
}

// read splits a stream into events.
async function read(body, message) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      let kind = "", data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) kind = line.slice(7);
        if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) message(kind, JSON.parse(data));
    }
  }
}
