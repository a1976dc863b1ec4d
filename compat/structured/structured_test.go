package structured

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/structured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	stock "k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

var configurations = flag.Int("configurations", 150, "random configurations to compare, each with forty tokens")

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// theirs parses a configuration as kube-apiserver does.
func theirs(text string) (*apiserver.AuthenticationConfiguration, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	decoded, err := runtime.Decode(decoder, []byte(text))
	if err != nil {
		return nil, err
	}
	c := decoded.(*apiserver.AuthenticationConfiguration)
	return c, validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), c, []string{"https://kubernetes.default.svc"}).ToAggregate()
}

func ours(text string) (structured.Settings, error) {
	return structured.Parse([]byte(text), "https://kubernetes.default.svc")
}

// wrong lists configurations, below jwt[0], that are refused with the same text.
var wrong = []string{
	"issuer: {audiences: [x]}", "issuer: {url: 'http://a', audiences: [x]}", "issuer: {url: 'https://a?b#c', audiences: [x]}",
	"issuer: {url: https://kubernetes.default.svc, audiences: [x]}", "issuer: {url: https://a, discoveryURL: https://a/, audiences: [x]}",
	"issuer: {url: https://a, discoveryURL: 'http://b', audiences: [x]}", "issuer: {url: https://a}", "issuer: {url: https://a, audiences: ['', x, x]}",
	"issuer: {url: https://a, audiences: [x, z]}", "issuer: {url: https://a, audiences: [x], audienceMatchPolicy: MatchAll}",
	"issuer: {url: https://a, audiences: [x], certificateAuthority: none}",
	"claimMappings: {username: {}}", "claimMappings: {username: {claim: sub}}", "claimMappings: {username: {claim: sub, expression: claims.sub}}",
	"claimMappings: {username: {expression: claims.sub, prefix: x}}", "claimMappings: {username: {expression: 'claims.sub +'}}",
	"claimMappings: {username: {expression: user.username}}", "claimMappings: {username: {expression: claims.email}}",
	"claimMappings: {username: {expression: 'claims.?email.orValue(\"x\")'}}", "claimMappings: {username: {expression: '[\"a\"].map(i, i + claims.email)[0]'}}",
	"claimMappings: {username: {expression: 'claims.l.all(a, a)'}}", "claimMappings: {username: {expression: 'claims.a.nothing()'}}",
	"claimMappings: {username: {claim: sub, prefix: ''}, groups: {claim: g}, uid: {claim: a, expression: claims.b}}",
	"claimMappings: {username: {claim: sub, prefix: ''}, uid: {expression: '('}, groups: {expression: '1 +'}}",
	"claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: foo, valueExpression: claims.a}, {key: a.io/Foo, valueExpression: claims.a}, {key: a.k8s.io/b, valueExpression: claims.a}]}",
	"claimMappings: {username: {claim: sub, prefix: ''}, extra: [{key: a.io/b, valueExpression: claims.a}, {key: a.io/b, valueExpression: claims.a}, {key: a.io/c}, {key: 'a.io/ x'}, {}]}",
	"claimValidationRules: [{}, {claim: a, expression: 'true'}, {claim: b, message: m}, {claim: c}, {claim: c}]",
	"claimValidationRules: [{expression: 'true', requiredValue: v}, {expression: 'true'}, {expression: claims.admin}, {expression: '\"x\"'}, {expression: 'x'}]",
	"userValidationRules: [{expression: ''}, {expression: user.name != ''}, {expression: user.username}, {expression: 'true'}, {expression: 'true'}, {expression: 'claims.a == 1'}]",
	"issuer: {url: https://a, audience: [x]}", "claimMapping: {}",
}

// TestSameRefusals: errors have the same texts and order.
func TestSameRefusals(t *testing.T) {
	texts := []string{header + "anonymous: {enabled: false, conditions: [{path: /x}]}", header, header + "jwt: []\nanonymous: {enabled: true}", header + "jwts: []", header + "jwt: [{}]"}
	for _, one := range wrong {
		for _, rest := range [][2]string{{"issuer:", "issuer: {url: https://op, audiences: [us]}"}, {"claimMappings:", "claimMappings: {username: {claim: sub, prefix: ''}}"}} {
			if !strings.HasPrefix(one, rest[0]) {
				one += "\n  " + rest[1]
			}
		}
		texts = append(texts, header+"jwt:\n- "+one)
	}
	texts = append(texts, texts[len(texts)-3]+"\n- "+wrong[0])
	for _, text := range texts {
		_, want := theirs(text)
		_, got := ours(text)
		if (got == nil) != (want == nil) {
			t.Errorf("%s\nours   %v\ntheirs %v", text, got, want)
			continue
		}
		if got != nil && !same(got.Error(), want.Error()) {
			t.Errorf("%s\nours   %v\ntheirs %v", text, got, want)
		}
	}
}

// same removes the prefix of kube-apiserver's decoder, and the Go names of fields.
func same(ours, theirs string) bool {
	theirs = strings.ReplaceAll(theirs, `"Path":`, `"path":`)
	if i := strings.Index(theirs, "strict decoding error"); i >= 0 {
		theirs = theirs[i:]
	}
	return ours == theirs
}

// These are parts of random configurations; claims a to e have any value.
var (
	names = []string{
		"{claim: sub, prefix: ''}", "{claim: a, prefix: ''}", "{claim: b, prefix: 'p:'}", "{claim: email, prefix: ''}", "{expression: claims.a}", "{expression: 'claims.a + claims.b'}", "{expression: '\"x:\" + claims.sub'}",
		"{expression: 'claims.?a.orValue(\"none\")'}", "{expression: 'has(claims.a) ? string(claims.a) : claims.sub'}", "{expression: 'claims.c.d'}", "{expression: 'claims.c__dot__d'}",
		"{expression: 'claims[\"c.d\"]'}", "{expression: 'claims.c.e__slash__f[0]'}", "{expression: 'claims.email_verified ? claims.email : claims.sub'}", "{expression: 'dyn(claims.d)[0].x'}",
		"{expression: 'string(size(claims))'}", "{expression: 'string(claims.c == claims.c)'}", "{expression: 'type(claims.a) == string ? \"text\" : \"other\"'}", "{expression: 'claims.__namespace__'}",
		"{expression: 'claims.a.lowerAscii().replace(\"x\", \"y\")'}", "{expression: '\"a\" in claims ? \"in\" : \"out\"'}",
	}
	groups = []string{
		"{}", "{claim: d, prefix: ''}", "{claim: e, prefix: 'g:'}", "{expression: claims.d}", "{expression: claims.e}", "{expression: 'claims.a.split(\",\").map(x, x)'}", // without map kube-apiserver refuses the list
		"{expression: 'dyn(claims.d).map(g, \"g:\" + g)'}", "{expression: 'claims.?d.orValue([])'}", "{expression: '[claims.a, claims.b]'}", "{expression: 'dyn(claims.d).filter(x, x != \"\")'}", "{expression: 'null'}",
		"{expression: 'dyn(claims.d) + [\"more\"]'}", "{expression: 'claims.c.list'}",
	}
	uids   = []string{"{}", "{claim: b}", "{expression: claims.b}", "{expression: 'string(claims.n)'}", "{expression: 'string(int(claims.n))'}"}
	extras = []string{"[]", "[{key: a.io/a, valueExpression: claims.a}]", "[{key: a.io/d, valueExpression: claims.d}, {key: a.io/e, valueExpression: 'claims.?e.orValue(\"\")'}]", "[{key: a.io/m, valueExpression: claims.c}]"}
	rules  = []string{"[]", "[{claim: a, requiredValue: x}]", "[{claim: b}]", "[{expression: 'claims.n > 1.0'}]", "[{expression: 'claims.exp - claims.n > 0', message: m}]",
		"[{expression: 'claims.c == {\"d\": \"x\"}'}]", "[{expression: 'dyn(claims.d).exists(x, x == \"x\")'}]", "[{expression: 'sets.contains(dyn(claims.d), [\"x\"])'}]", "[{expression: '!has(claims.b)'}, {expression: 'claims.aud == \"us\"'}]"}
	people = []string{"[]", "[{expression: \"!user.username.startsWith('x')\", message: none}]", "[{expression: \"user.groups.all(g, !g.startsWith('g:'))\"}]", "[{expression: 'size(user.groups) > 0'}]",
		"[{expression: '\"a.io/a\" in user.extra'}]", "[{expression: 'has(user.uid) && user.uid != \"\"'}]", "[{expression: 'user.extra[\"a.io/d\"].size() == 2'}]", "[{expression: 'user.extra.a__dot__io__slash__a[0] == \"x\"'}]",
		"[{expression: '!has(user.extra) || user.groups == []'}]"}
	values = []any{"x", "", "x,y", "Yx", 0, 1, 7.5, -3, true, false, nil, []any{}, []any{"x", "y"}, []any{"", "x"}, []any{1, "x"}, []any{map[string]any{"x": "inner"}},
		map[string]any{}, map[string]any{"d": "x"}, map[string]any{"d": 1, "e/f": []any{"deep"}, "list": []any{"l", ""}}}
)

// likely lists values that expressions usually expect.
var likely = map[string][]any{
	"a": {"x", "x,y", "Yx", "z"}, "b": {"b", "x"}, "c": {map[string]any{"d": "x"}, map[string]any{"d": "y", "e/f": []any{"deep"}, "list": []any{"l", ""}}},
	"d": {[]any{"x", "y"}, []any{"x"}, []any{"", "g:x"}, []any{map[string]any{"x": "inner"}}}, "e": {"e", []any{"e", "f"}},
	"n": {1, 2, 7.5}, "c.d": {"dotted"}, "email": {"j@x"}, "email_verified": {true, false}, "namespace": {"ns"}, "jti": {"t1"},
}

// unverified is a key set that accepts every signature.
type unverified struct{}

func (unverified) VerifySignature(_ context.Context, token string) ([]byte, error) {
	return base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
}

// keys publishes a key.
type keys struct{ public ecdsa.PublicKey }

func (k keys) RoundTrip(r *http.Request) (*http.Response, error) {
	w, encode := httptest.NewRecorder(), base64.RawURLEncoding.EncodeToString
	answer := map[string]any{"issuer": "https://op", "jwks_uri": "https://op/keys"}
	if r.URL.Path == "/keys" {
		point, err := k.public.Bytes()
		if err != nil {
			return nil, err
		}
		answer = map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}}}
	}
	json.NewEncoder(w).Encode(answer)
	return w.Result(), nil
}

// TestSameUsers: the same claims make the same user, or none.
func TestSameUsers(t *testing.T) {
	seed := mathrand.Uint64()
	t.Logf("seed %d", seed)
	random := mathrand.New(mathrand.NewPCG(seed, 0))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pick := func(of []string) string { // the first of them is the plainest
		if random.IntN(2) == 0 {
			return of[0]
		}
		return of[random.IntN(len(of))]
	}
	known, refused := 0, 0
	for range *configurations {
		text := header + "jwt:\n- issuer: {url: https://op, audiences: [us]}\n  claimMappings: {username: " + pick(names) + ", groups: " + pick(groups) +
			", uid: " + pick(uids) + ", extra: " + pick(extras) + "}\n  claimValidationRules: " + pick(rules) + "\n  userValidationRules: " + pick(people) + "\n"
		compare(t, random, key, text, &known, &refused)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d users, %d refusals", known, refused)
	if known == 0 || refused == 0 {
		t.Error("one-sided")
	}
}

// compare sends about forty tokens to both.
func compare(t *testing.T, random *mathrand.Rand, key *ecdsa.PrivateKey, text string, known, refused *int) {
	t.Helper()
	settings, err := ours(text)
	if err != nil {
		t.Fatalf("ours refuses\n%s\n%v", text, err)
	}
	settings.Issuers[0].Transport = keys{key.PublicKey}
	a, err := oidc.New(oidc.Config{Issuers: settings.Issuers})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	<-a.Ready()
	c, err := theirs(text)
	if err != nil {
		t.Fatalf("theirs refuses\n%s\n%v", text, err)
	}
	b, err := stock.New(ctx, stock.Options{JWTAuthenticator: c.JWT[0], KeySet: unverified{}, SupportedSigningAlgs: stock.AllValidSigningAlgorithms()})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		claims := jwt.MapClaims{"iss": "https://op", "aud": "us", "exp": time.Now().Add(time.Hour).Unix(), "sub": "jane"}
		for _, name := range []string{"a", "b", "c", "d", "e", "n", "c.d", "email", "email_verified", "namespace", "jti"} {
			switch likely, ok := likely[name]; {
			case random.IntN(4) == 0:
				claims[name] = values[random.IntN(len(values))]
			case ok:
				claims[name] = likely[random.IntN(len(likely))]
			}
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodES256, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		got, our := ourUser(a, token)
		want, their := theirUser(ctx, b, token)
		if want == "" {
			*refused++
		} else {
			*known++
		}
		if got != want && !stricter(text, claims) {
			t.Errorf("%s\n%v\nours   %s %v\ntheirs %s %v", text, claims, got, our, want, their)
		}
	}
}

func ourUser(a *oidc.Authenticator, token string) (string, error) {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	u, known, err := a.Authenticate(r)
	if err != nil || !known {
		return "", err
	}
	return person(u.Name, u.UID, u.Groups, u.Extra), nil
}

func theirUser(ctx context.Context, a authenticator.Token, token string) (string, error) {
	answer, known, err := a.AuthenticateToken(ctx, token)
	if err != nil || !known {
		return "", err
	}
	return person(answer.User.GetName(), answer.User.GetUID(), answer.User.GetGroups(), answer.User.GetExtra()), nil
}

// person returns a user without the order of its groups: groups from a map's keys have none.
func person(name, uid string, groups []string, extra map[string][]string) string {
	groups = slices.Sorted(slices.Values(groups))
	text := fmt.Sprintf("%q %q %q", name, uid, groups)
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		text += fmt.Sprintf(" %q=%q", key, extra[key])
	}
	return text
}

// stricter lists tokens that only planekit refuses, as package oidc describes: a claim that is
// mapped by its name must be a text or texts if it exists, null is neither, and a name must not be
// empty.
func stricter(text string, claims jwt.MapClaims) bool {
	for name, v := range claims {
		mapped := strings.Contains(text, "claim: "+name+",") || strings.Contains(text, "claim: "+name+"}")
		if mapped && (v == nil || v == "" || reflect.DeepEqual(v, []any{})) {
			return true
		}
	}
	return false
}
