// A static server over dist/, twice: with the headers that let workers share memory, and without.
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../dist", import.meta.url));
const types = {
  ".css": "text/css", ".gz": "application/gzip", ".html": "text/html", ".js": "text/javascript",
  ".json": "application/json", ".svg": "image/svg+xml", ".wasm": "application/wasm",
};
const isolation = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" };

function serve(port, headers) {
  const answer = (request, response) => {
    const name = path.normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
    const file = path.join(root, name === "/" ? "index.html" : name);
    fs.readFile(file, (error, bytes) => {
      if (error) return response.writeHead(404).end();
      response.writeHead(200, { "Content-Type": types[path.extname(file)] ?? "application/octet-stream", ...headers });
      response.end(bytes);
    });
  };
  http.createServer(answer).listen(port, "127.0.0.1");
}

serve(8765, isolation);
serve(8766, {});
