// The host's side of the page: one frame, the official bridge to it, and the client's answers from outside the browser.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

// What hosts allow a page that declares no domains: nothing but itself.
const POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'none'";

window.host = {
  log: [],
  async open({ html, input, result, resources }) {
    document.body.replaceChildren();
    const frame = document.createElement("iframe");
    frame.setAttribute("sandbox", "allow-scripts");
    frame.style = "width: 100%; height: 100%; border: 0";
    const bridge = new AppBridge(null, { name: "judge", version: "1" }, { serverTools: {}, ...(resources ? { serverResources: {} } : {}), openLinks: {}, logging: {}, message: {}, updateModelContext: {} }, {
      hostContext: { theme: window.theme ?? "light", displayMode: "inline", platform: "desktop" },
    });
    bridge.oncalltool = async (params) => { this.log.push(["tools/call", params]); return window.callTool(params); };
    bridge.onreadresource = async (params) => { this.log.push(["resources/read", params]); return window.readResource(params); };
    bridge.onmessage = async (params) => { this.log.push(["message", params]); return {}; };
    bridge.onupdatemodelcontext = async (params) => { this.log.push(["context", params]); return {}; };
    bridge.onsizechange = (params) => this.log.push(["size", params]);
    document.body.append(frame);
    const initialized = new Promise((done) => { bridge.oninitialized = done; });
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    frame.srcdoc = html.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${POLICY}">`);
    await initialized;
    await bridge.sendToolInput({ arguments: input });
    await bridge.sendToolResult(result);
    this.bridge = bridge;
  },
  async close() {
    await this.bridge.teardownResource({});
  },
};
