// Starts one engine worker: one that answers messages, or one simulated CPU of a live run.
//
// The first message says which: { module, wasm, memory, cpu, file }. `module` is the URL of wasm-bindgen's script; `wasm`
// its module, compiled or as a URL; `memory` and `cpu` are there for a CPU only. Every later message is
// { bytes, file }: a request, and the image beside it where it opens one. Out go { ready, wasm, memory },
// { bytes }, { ended } and { died }.
let answer;

async function start({ module, wasm, memory, cpu, file }) {
  const engine = await import(module);
  const exports = await engine.default({ module_or_path: wasm, memory });
  if (cpu === undefined) {
    answer = engine.handle;
    // Only memory that is shared can be handed on; the plain engine's is its own.
    const shared = globalThis.SharedArrayBuffer && exports.memory.buffer instanceof SharedArrayBuffer;
    postMessage({ ready: true, ...(shared && { wasm: engine.default.__wbindgen_wasm_module, memory: exports.memory }) });
  } else {
    postMessage({ ready: true });
    engine.run_cpu(cpu, file);
    postMessage({ ended: true });
  }
}

let started;
onmessage = async ({ data }) => {
  try {
    if (!started) {
      started = start(data);
      await started;
    } else {
      await started;
      const bytes = answer(data.bytes, data.file);
      postMessage({ bytes }, [bytes.buffer]);
    }
  } catch (error) {
    postMessage({ died: String(error?.message ?? error) });
  }
};
