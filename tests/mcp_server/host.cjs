// A host on the TypeScript SDK: node host.cjs PACKAGE.JSON MODE COMMAND...; prints what it was told.
const require_ = require("node:module").createRequire(process.argv[2]);
const { Client } = require_("@modelcontextprotocol/client");
const { StdioClientTransport } = require_("@modelcontextprotocol/client/stdio");

const asked = [];

async function main(mode, command, ...args) {
  const client = new Client(
    { name: "typescript-host", version: "2" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { apply: true } };
  });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  const call = async (name, given = {}) => {
    const result = await client.callTool({ name, arguments: given });
    return result.isError ? { error: result.content[0].text } : JSON.parse(result.content[0].text);
  };
  const { tools } = await client.listTools();
  const review = await call("review");
  const fix = await call("fix", { run: review.run, apply: true });
  const again = await call("review");
  const forged = await call("findings", { run: "../../etc/passwd" });
  await client.close();
  console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), review, asked, fix, again, forged }));
}

main(...process.argv.slice(3)).catch((error) => {
  console.error(error);
  process.exit(1);
});
