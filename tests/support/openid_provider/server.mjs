// A real OpenID provider for the tests. Arguments: port, where people are sent back to, the client's secret.
// Whoever signs in as `SUBJECT~NAME~GROUP,GROUP` is that.
import { Provider } from "oidc-provider";

const [port, back, secret] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: "fairlead", client_secret: secret, redirect_uris: [back], response_types: ["code"],
    grant_types: ["authorization_code"] }],
  pkce: { required: () => true },
  cookies: { keys: ["only for tests"] },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"] },
  async findAccount(_, id) {
    const [, name, groups = ""] = id.split("~");
    return { accountId: id, claims: async () => ({ sub: id, preferred_username: name, groups: groups.split(",") }) };
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
