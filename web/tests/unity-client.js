// A client that behaves as Unity Render Streaming's stock web client does, written from the documented messages: it opens its data
// channel "input" first, offers that alone, repeats offers until they are answered, and takes the server's offer for the picture.
// Runs in a page of the server's origin as `window.unity`.

(() => {
  const RESEND_MS = 5_000;
  /** Waits between opening the channel and using it. */
  const START_SENDING_MS = 100;
  const POLL_MS = 250;
  const KEYS = { Space: 1, KeyA: 15, KeyC: 17, KeyD: 18, KeyE: 19, KeyF: 20, KeyQ: 31, KeyR: 32, KeyS: 33, KeyW: 37, ShiftLeft: 51 };

  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  /** Signalling over a WebSocket on the page's own address. */
  class SocketSignalling {
    constructor(query) {
      this.socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/${query}`);
      this.opened = new Promise((resolve, reject) => {
        this.socket.onopen = resolve;
        this.socket.onerror = () => reject(new Error("the WebSocket was refused"));
      });
    }

    async start(on) {
      await this.opened;
      this.socket.onmessage = ({ data }) => {
        const message = JSON.parse(data);
        on({ type: message.type, connectionId: message.connectionId ?? message.from, polite: message.polite, ...message.data, ...(message.message && { message: message.message }) });
      };
    }

    say(message) {
      this.socket.send(JSON.stringify(message));
    }

    connect(connectionId) {
      this.say({ type: "connect", connectionId });
    }

    describe(type, connectionId, sdp) {
      this.say({ type, from: connectionId, data: { sdp, connectionId } });
    }

    candidate(connectionId, { candidate, sdpMid, sdpMLineIndex }) {
      // The stock client hands both over in the wrong order.
      this.say({ type: "candidate", from: connectionId, data: { candidate, sdpMLineIndex: sdpMid, sdpMid: sdpMLineIndex, connectionId } });
    }

    close() {
      this.socket.close();
    }
  }

  /** The same, polled over HTTP. */
  class PollingSignalling {
    constructor(query) {
      this.query = query;
    }

    async ask(method, what, body, query = "") {
      const headers = { "content-type": "application/json", ...(this.session && { "session-id": this.session }) };
      const reply = await fetch(`/signaling${what}${query}`, { method, headers, body: body && JSON.stringify(body) });
      if (!reply.ok) throw new Error(`${method} /signaling${what}: ${reply.status} ${await reply.text()}`);
      return reply;
    }

    async start(on) {
      this.on = on;
      this.session = (await (await this.ask("PUT", "", undefined, this.query)).json()).sessionId;
      this.running = true;
      this.poll();
    }

    async poll() {
      let from = Date.now() - 30_000;
      while (this.running) {
        const { messages, datetime } = await (await this.ask("GET", "", undefined, `?fromtime=${from}`)).json();
        from = datetime;
        for (const message of messages) if (message.type !== "connect") this.on(message);
        await pause(POLL_MS);
      }
    }

    async connect(connectionId) {
      this.on(await (await this.ask("PUT", "/connection", { connectionId })).json());
    }

    describe(type, connectionId, sdp) {
      return this.ask("POST", `/${type}`, { connectionId, sdp });
    }

    candidate(connectionId, { candidate, sdpMid, sdpMLineIndex }) {
      return this.ask("POST", "/candidate", { connectionId, candidate, sdpMLineIndex, sdpMid });
    }

    async close() {
      this.running = false;
      await this.ask("DELETE", "");
    }
  }

  /** One connection; `codec` such as "video/VP8" is what its user chose. */
  class Client {
    heard = [];
    failures = [];

    constructor({ polling = false, codec, query = "" } = {}) {
      this.connectionId = crypto.randomUUID?.() ?? String(Math.random());
      this.codec = codec;
      this.signalling = polling ? new PollingSignalling(query) : new SocketSignalling(query);
      this.video = document.createElement("video");
      this.video.muted = true;
      this.video.playsInline = true;
      document.body.append(this.video);
      this.stream = new MediaStream();
    }

    async start() {
      await this.signalling.start((message) => this.on(message).catch((error) => this.failures.push(String(error))));
      await this.signalling.connect(this.connectionId);
    }

    async on(message) {
      this.heard.push(message.type);
      if (message.connectionId !== this.connectionId) return;
      if (message.type === "connect") this.prepare(message.polite);
      if (message.type === "offer" || message.type === "answer") await this.describe(message);
      if (message.type === "disconnect") this.peer?.close();
    }

    prepare(polite) {
      this.polite = polite;
      const peer = (this.peer = new RTCPeerConnection());
      peer.onicecandidate = ({ candidate }) => {
        if (candidate) this.signalling.candidate(this.connectionId, candidate);
      };
      peer.onnegotiationneeded = async () => {
        this.makingOffer = true;
        await peer.setLocalDescription();
        this.makingOffer = false;
        this.waiting = true;
        this.offered = peer.localDescription.sdp;
        this.signalling.describe("offer", this.connectionId, this.offered);
      };
      peer.ontrack = ({ track }) => {
        this.stream.addTrack(track);
        if (track.kind !== "video") return;
        this.video.srcObject = this.stream;
        this.video.play().catch((error) => this.failures.push(String(error)));
      };
      setInterval(() => {
        if (this.waiting) this.signalling.describe("offer", this.connectionId, peer.localDescription.sdp);
      }, RESEND_MS);
      this.channel = peer.createDataChannel("input");
      this.ready = new Promise((resolve) => {
        this.channel.onopen = async () => {
          await pause(START_SENDING_MS);
          ["Mouse", "Keyboard", "Gamepad"].forEach((layout, index) => this.device(layout, index + 1));
          resolve();
        };
      });
    }

    async describe({ type, sdp }) {
      const { peer } = this;
      const collides = type === "offer" && (this.makingOffer || peer.signalingState !== "stable");
      if (collides && !this.polite && peer.signalingState !== "have-local-offer") return;
      this.waiting = false;
      await peer.setRemoteDescription({ type, sdp });
      if (type !== "offer") return;
      if (this.codec) this.prefer(this.codec);
      await peer.setLocalDescription();
      this.signalling.describe("answer", this.connectionId, peer.localDescription.sdp);
    }

    prefer(name) {
      const codecs = RTCRtpReceiver.getCapabilities("video").codecs.filter(({ mimeType }) => mimeType === name);
      for (const transceiver of this.peer.getTransceivers()) {
        if (transceiver.receiver.track.kind === "video") transceiver.setCodecPreferences(codecs);
      }
    }

    /** Participant 0, type, length, data. */
    send(type, data) {
      const bytes = new Uint8Array(12 + data.byteLength);
      const view = new DataView(bytes.buffer);
      view.setUint32(4, type, true);
      view.setUint32(8, data.byteLength, true);
      bytes.set(data, 12);
      this.channel.send(bytes);
    }

    /** One byte for each letter in a buffer of two. */
    device(layout, deviceId) {
      const description = { m_InterfaceName: "RawInput", m_DeviceClass: layout, m_Manufacturer: "", m_Product: "", m_Serial: "", m_Version: "", m_Capabilities: "" };
      const json = JSON.stringify({ name: layout, layout, deviceId, variants: "", description });
      const bytes = new Uint8Array(json.length * 2);
      for (let index = 0; index < json.length; index += 1) bytes[index] = json.charCodeAt(index);
      this.send(3, bytes);
    }

    /** A whole state of a device; `letters` name its format. */
    state(letters, deviceId, body) {
      const four = (text) => [...text].reduce((number, letter) => ((number << 8) | letter.charCodeAt(0)) >>> 0, 0);
      const bytes = new Uint8Array(24 + body.byteLength);
      const view = new DataView(bytes.buffer);
      view.setUint32(0, four("STAT"), true);
      view.setUint16(4, bytes.byteLength, true);
      view.setUint16(6, deviceId, true);
      view.setFloat64(8, performance.now() / 1_000, true);
      view.setUint16(16, bytes.byteLength, true);
      view.setUint32(20, four(letters), true);
      bytes.set(body, 24);
      this.send(4, bytes);
    }

    mouse({ x = 0, y = 0, dx = 0, dy = 0, buttons = 0 }) {
      const body = new DataView(new ArrayBuffer(30));
      [x, y, dx, -dy].forEach((value, index) => body.setFloat32(index * 4, value, true));
      body.setUint16(24, buttons, true);
      this.state("MOUS", 1, new Uint8Array(body.buffer));
    }

    /** The keys that are down, by their codes. */
    keys(...codes) {
      const body = new Uint8Array(14);
      for (const code of codes) body[KEYS[code] >> 3] |= 1 << (KEYS[code] & 7);
      this.state("KEYS", 2, body);
    }

    /** What the picture shows, small and grey. */
    picture() {
      const { videoWidth: width, videoHeight: height } = this.video;
      const context = new OffscreenCanvas(64, 36).getContext("2d");
      context.drawImage(this.video, 0, height / 4, width, (height * 3) / 4, 0, 0, 64, 36);
      const { data } = context.getImageData(0, 0, 64, 36);
      return Array.from({ length: 64 * 36 }, (_, index) => (data[index * 4] + data[index * 4 + 1] + data[index * 4 + 2]) / 3);
    }

    async codecInUse() {
      const stats = await this.peer.getStats();
      const inbound = [...stats.values()].find(({ type, kind }) => type === "inbound-rtp" && kind === "video");
      return stats.get(inbound?.codecId)?.mimeType ?? null;
    }

    async soundPackets() {
      const inbound = [...(await this.peer.getStats()).values()].find(({ type, kind }) => type === "inbound-rtp" && kind === "audio");
      return inbound?.packetsReceived ?? 0;
    }

    get frames() {
      return this.video.getVideoPlaybackQuality().totalVideoFrames;
    }

    close() {
      this.peer?.close();
      return this.signalling.close();
    }
  }

  window.unity = { Client };
})();
