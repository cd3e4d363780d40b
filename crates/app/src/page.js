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
