package identity

import (
	"testing"

	"github.com/planekit/planekit/compat/pair"
)

// allowances are all differences that COMPATIBILITY.md names.
var allowances = pair.Allowances{
	pair.Allowed("an Authorization header that no authenticator reads", `Authorization: "(Basic|Bearer( |  .*)?"|Bearer[:\\\\]|Token|Negotiate|ey)|spaces around`, `^code: (400|403)`, `^code: 401`),
	pair.Allowed("several headers `Authorization`", `Authorization: .*; Authorization: `, `^code: `, `^code: 401`),
	pair.Allowed("several headers `Authorization`", `(?i)the front proxy: .*(X-Remote-User: .*; X-Remote-User: |X-Remote-Uid: .*; X-Remote-Uid: )`, `^code: `, `^code: 401`),
	pair.Allowed("odd tokens of an OpenID Connect issuer", odd, `^code: (201|403)`, `^code: 401`),
	pair.Allowed("odd tokens of an OpenID Connect issuer", `header (jwk|x5c): |claims: last "(AUD|Exp)"`, `^code: 401`, `^code: 201`),
	pair.Allowed("impersonation by a user with rights", `(?i)Impersonate-User: `, `^\.(message: .*cannot impersonate|details\.)`, `^\.(message: .*cannot impersonate|details\.)`),
	pair.Allowed("impersonation by a user with rights", `Impersonate-User: "system:node:`, `^\.status\.userInfo\.groups\[[01]\]: ("system:authenticated"|"system:nodes"|\(none\))$`,
		`^\.status\.userInfo\.groups\[[01]\]: ("system:authenticated"|"system:nodes"|\(none\))$`),
}

// odd matches the changes that make a token one that only kube-apiserver takes.
const odd = `: null\b|\[null\]|\["us",null\]|claim (sub|email): ""|claim \w+ in capitals|header (crit|b64): |the last bits of the signature|` +
	`signed by |key [69] (enc|small|without)|kid: "(enc|small)"|claim nbf: (1e300|18446744073709551616|-9223372036854775809)`

// TestRows: each allowance names a row of COMPATIBILITY.md.
func TestRows(t *testing.T) { allowances.Rows(t) }
