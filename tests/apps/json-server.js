// The real json-server over one file of data, on a free port of loopback.
//     NODE_PATH=.../node_modules node json-server.js DATA.json
const jsonServer = require("json-server");

const app = jsonServer.create();
app.use(jsonServer.defaults({ logger: false, readOnly: true }));
app.use(jsonServer.router(require(process.argv[2])));
const server = app.listen(0, "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
