// What is shorter in JavaScript than through bindings.

/** A sample image, fetched and unpacked; rejects with a sentence. */
export async function openSample(url) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: the server says ${response.status}`);
  // Some servers unpack .gz files on the way, and say so.
  if (response.headers.get("content-encoding") === "gzip") return await response.blob();
  return await new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).blob();
}

/** What the build left beside the page: { build, threads, why }. */
export async function buildNote() {
  try {
    return await (await fetch("build.json")).json();
  } catch {
    return { build: "", threads: false, why: "the page was built without it" };
  }
}

/** Whether workers can share memory here. */
export function isolated() {
  return globalThis.crossOriginIsolated === true;
}

/** An address under which the page itself can show these bytes; the one given out before is taken back. */
let shown;
export function objectUrl(bytes) {
  if (shown) URL.revokeObjectURL(shown);
  shown = URL.createObjectURL(new Blob([bytes], { type: mediaType(bytes) }));
  return shown;
}

function mediaType(bytes) {
  const begins = (...wanted) => wanted.every((byte, at) => bytes[at] === byte);
  if (begins(0x89, 0x50)) return "image/png";
  if (begins(0xff, 0xd8)) return "image/jpeg";
  if (begins(0x47, 0x49)) return "image/gif";
  if (begins(0x42, 0x4d)) return "image/bmp";
  if (begins(0x52, 0x49)) return "image/webp";
  return "image/svg+xml";
}

/** Lets the browser keep these bytes, or parts one after the other, as a file. Parts of a file are not read for it. */
export function download(bytes, name) {
  save([bytes], name);
}
export function save(parts, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(parts));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
