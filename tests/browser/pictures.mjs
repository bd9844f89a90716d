// Pictures and sessions made for a test: PNG files of one colour with a mark, and a server that is far away.

import { createServer, request } from "node:http";
import { crc32, deflateSync } from "node:zlib";

function chunk(name, data) {
  const body = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

/** A PNG file in base64: one colour, with a bar whose height tells which it is. */
export function png(width, height, number) {
  const rows = [];
  const colour = [(number * 67) % 256, (number * 131 + 60) % 256, (number * 29 + 120) % 256];
  for (let y = 0; y < height; y += 1) {
    const row = Buffer.alloc(1 + width * 3);
    for (let x = 0; x < width; x += 1) {
      const bar = x > width / 2 - 8 && x < width / 2 + 8 && y > height - 4 * (number + 1);
      for (let part = 0; part < 3; part += 1) row[1 + x * 3 + part] = bar ? 255 - colour[part] : colour[part];
    }
    rows.push(row);
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 2, 0, 0, 0], 8);
  const parts = [chunk("IHDR", head), chunk("IDAT", deflateSync(Buffer.concat(rows))), chunk("IEND", Buffer.alloc(0))];
  return Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), ...parts]).toString("base64");
}

export const picture = (width, height, number) => ({ data: png(width, height, number), mimeType: "image/png" });

/** A way to the server that takes `delay` milliseconds for every request. Returns its address and how to end it. */
export async function faraway(base, delay) {
  const target = new URL(base);
  const server = createServer((incoming, answer) => {
    setTimeout(() => {
      const onward = request({ host: target.hostname, port: target.port, path: incoming.url, method: incoming.method, headers: incoming.headers }, (reply) => {
        answer.writeHead(reply.statusCode, reply.headers);
        reply.pipe(answer);
      });
      onward.on("error", () => answer.destroy());
      answer.on("close", () => onward.destroy());
      incoming.pipe(onward);
    }, delay);
  });
  await new Promise((ready) => { server.listen(0, "127.0.0.1", ready); });
  return { url: `http://127.0.0.1:${server.address().port}`, end: () => { server.closeAllConnections(); server.close(); } };
}
