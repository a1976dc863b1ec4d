package bootstraptoken_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/bootstraptoken"
)

const token = "abcdef.0123456789abcdef"

// secret returns the secret of token with changes.
func secret(change map[string]string) bootstraptoken.Secret {
	data := map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
		"auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token", "description": "joins",
	}
	maps.Copy(data, change)
	s := bootstraptoken.Secret{Type: "bootstrap.kubernetes.io/token", Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func secrets(kept map[string]bootstraptoken.Secret) bootstraptoken.Lookup {
	return func(_ context.Context, namespace, name string) (bootstraptoken.Secret, bool, error) {
		s, found := kept[namespace+"/"+name]
		return s, found, nil
	}
}

func holding(s bootstraptoken.Secret) *bootstraptoken.Authenticator {
	a, err := bootstraptoken.New(bootstraptoken.Config{Secrets: secrets(map[string]bootstraptoken.Secret{"kube-system/bootstrap-token-abcdef": s})})
	if err != nil {
		panic(err)
	}
	return a
}

func bearer(token string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func Example() {
	tokens := holding(bootstraptoken.Secret{Type: bootstraptoken.SecretType, Data: map[string][]byte{
		"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
	}})
	u, known, err := tokens.Authenticate(bearer("abcdef.0123456789abcdef"))
	fmt.Println(u.Name, u.Groups, known, err)
	_, known, err = tokens.Authenticate(bearer("abcdef.0123456789abcdee"))
	fmt.Println(known, err)
	// Output:
	// system:bootstrap:abcdef [system:bootstrappers] true <nil>
	// false bootstrap token abcdef: another secret part
}

func TestSecrets(t *testing.T) {
	s := func(key, value string) bootstraptoken.Secret { return secret(map[string]string{key: value}) }
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339) }
	opaque, deleted, empty := secret(nil), secret(nil), bootstraptoken.Secret{Type: bootstraptoken.SecretType}
	opaque.Type, deleted.Deleted = "Opaque", true
	long := "system:bootstrappers:" + strings.Repeat("a", 256)
	for name, test := range map[string]struct {
		secret  bootstraptoken.Secret
		groups  string
		refused string
	}{
		"good":              {secret: secret(nil), groups: "system:bootstrappers system:bootstrappers:kubeadm:default-node-token"},
		"no more groups":    {secret: s("auth-extra-groups", ""), groups: "system:bootstrappers"},
		"groups":            {secret: s("auth-extra-groups", "system:bootstrappers:z,system:bootstrappers:a,system:bootstrappers:z"), groups: "system:bootstrappers system:bootstrappers:a system:bootstrappers:z"},
		"longest group":     {secret: s("auth-extra-groups", long), groups: "system:bootstrappers " + long},
		"too long a group":  {secret: s("auth-extra-groups", long+"a"), refused: "is invalid"},
		"another group":     {secret: s("auth-extra-groups", "system:masters"), refused: `"system:masters" is invalid`},
		"one bad group":     {secret: s("auth-extra-groups", "system:bootstrappers:a,system:bootstrappersx"), refused: "is invalid"},
		"an empty group":    {secret: s("auth-extra-groups", "system:bootstrappers:a,"), refused: `"" is invalid`},
		"a group's space":   {secret: s("auth-extra-groups", " system:bootstrappers:a"), refused: "is invalid"},
		"upper case":        {secret: s("auth-extra-groups", "system:bootstrappers:A"), refused: "is invalid"},
		"ends in a dash":    {secret: s("auth-extra-groups", "system:bootstrappers:a-"), refused: "is invalid"},
		"not expired":       {secret: s("expiration", in(time.Hour)), groups: "system:bootstrappers system:bootstrappers:kubeadm:default-node-token"},
		"expired":           {secret: s("expiration", in(-time.Hour)), refused: "has expired"},
		"bad expiration":    {secret: s("expiration", "tomorrow"), refused: "cannot be read"},
		"not for this":      {secret: s("usage-bootstrap-authentication", "false"), refused: "usage-bootstrap-authentication"},
		"nearly true":       {secret: s("usage-bootstrap-authentication", "True"), refused: "usage-bootstrap-authentication"},
		"another ID":        {secret: s("token-id", "abcdee"), refused: "token-id"},
		"another secret":    {secret: s("token-secret", "0123456789abcdee"), refused: "another secret part"},
		"a shorter secret":  {secret: s("token-secret", "0123456789abcde"), refused: "another secret part"},
		"another, expired":  {secret: secret(map[string]string{"token-secret": "x", "expiration": in(-time.Hour)}), refused: "another secret part"},
		"an empty secret":   {secret: s("token-secret", ""), refused: "another secret part"},
		"nothing in it":     {secret: empty, refused: "another secret part"},
		"of another type":   {secret: opaque, refused: "not of type bootstrap.kubernetes.io/token"},
		"being deleted":     {secret: deleted, refused: "being deleted"},
		"unreadable groups": {secret: s("auth-extra-groups", "\xff"), refused: "is invalid"},
	} {
		u, known, err := holding(test.secret).Authenticate(bearer(token))
		if known != (test.refused == "") || (err == nil) != known || !known && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: known %v, error %v", name, known, err)
			continue
		}
		if known && (u.Name != "system:bootstrap:abcdef" || strings.Join(u.Groups, " ") != test.groups || u.UID != "" || u.Extra != nil) {
			t.Errorf("%s: Authenticate = %+v, want system:bootstrap:abcdef with the groups %s, no UID and no extra", name, u, test.groups)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789") {
			t.Errorf("%s: the error quotes the token: %v", name, err)
		}
	}
}

func TestTokens(t *testing.T) {
	a := holding(secret(nil))
	for name, test := range map[string]struct {
		headers        []string
		known, refused bool
	}{
		"no header":      {},
		"basic":          {headers: []string{"Basic " + token}},
		"good":           {headers: []string{"Bearer " + token}, known: true},
		"no such secret": {headers: []string{"Bearer abcdee.0123456789abcdef"}, refused: true},
		"wrong":          {headers: []string{"Bearer abcdef.0123456789abcdee"}, refused: true},
		"short":          {headers: []string{"Bearer abcdef.0123456789abcde"}},
		"long":           {headers: []string{"Bearer abcdef.0123456789abcdef0"}},
		"short ID":       {headers: []string{"Bearer abcde.00123456789abcdef"}},
		"upper case":     {headers: []string{"Bearer ABCDEF.0123456789abcdef"}},
		"another form":   {headers: []string{"Bearer abcdef.0123456789abcde."}},
		"a JSON token":   {headers: []string{"Bearer abcdef.0123456789abcdef.x"}},
		"a path":         {headers: []string{"Bearer ../../.0123456789abcdef"}},
		"two headers":    {headers: []string{"Bearer " + token, "Bearer " + token}, refused: true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		_, known, err := a.Authenticate(r)
		if known != test.known || (err != nil) != test.refused {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
	}
}

// TestExpiry: the token of one secret ends at the moment that the secret says, and
// with the secret.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := secret(map[string]string{"expiration": time.Now().Add(time.Minute).Format(time.RFC3339)})
		kept := map[string]bootstraptoken.Secret{"kube-system/bootstrap-token-abcdef": s}
		a, err := bootstraptoken.New(bootstraptoken.Config{Secrets: secrets(kept)})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait  time.Duration
			known bool
		}{{0, true}, {time.Minute - time.Nanosecond, true}, {time.Nanosecond, false}, {time.Hour, false}} {
			time.Sleep(step.wait)
			if _, known, err := a.Authenticate(bearer(token)); known != step.known {
				t.Errorf("after another %v: known %v, error %v", step.wait, known, err)
			}
		}
		kept["kube-system/bootstrap-token-abcdef"] = secret(nil)
		if _, known, err := a.Authenticate(bearer(token)); !known {
			t.Error(err)
		}
		clear(kept)
		if _, known, err := a.Authenticate(bearer(token)); known || err == nil {
			t.Errorf("without the secret: known %v, error %v", known, err)
		}
	})
}

func TestCannotLookUp(t *testing.T) {
	broken := errors.New("storage is down")
	a, err := bootstraptoken.New(bootstraptoken.Config{Secrets: func(context.Context, string, string) (bootstraptoken.Secret, bool, error) {
		return bootstraptoken.Secret{}, false, broken
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, known, err := a.Authenticate(bearer(token)); known || !errors.Is(err, broken) || !errors.Is(err, authn.ErrUnchecked) {
		t.Errorf("known %v, error %v", known, err)
	}
	if _, err := bootstraptoken.New(bootstraptoken.Config{}); err == nil {
		t.Error("no secrets: no error")
	}
}

// FuzzToken shows that a token is looked at only if it has the form that Kubernetes
// writes as a pattern, and believed only if it is the one.
func FuzzToken(f *testing.F) {
	pattern := regexp.MustCompile(`\A([a-z0-9]{6})\.([a-z0-9]{16})\z`)
	f.Add(token)
	f.Add("abcdef.0123456789abcde\n")
	f.Add("abcdeé.0123456789abcde")
	f.Fuzz(func(t *testing.T, token string) {
		asked := ""
		a, err := bootstraptoken.New(bootstraptoken.Config{Secrets: func(_ context.Context, namespace, name string) (bootstraptoken.Secret, bool, error) {
			asked = namespace + "/" + name
			return secret(nil), true, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{"Bearer " + token}
		want := ""
		if match := pattern.FindStringSubmatch(strings.TrimSpace(token)); match != nil {
			want = "kube-system/bootstrap-token-" + match[1]
		}
		u, known, _ := a.Authenticate(r)
		if asked != want || known != (strings.TrimSpace(token) == "abcdef.0123456789abcdef") || known && u.Name != "system:bootstrap:abcdef" {
			t.Errorf("%q: asked for %q, want %q; %+v", token, asked, want, u)
		}
	})
}

// FuzzGroups shows that groups are taken just if each matches the pattern of
// Kubernetes.
func FuzzGroups(f *testing.F) {
	pattern := regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
	f.Add("system:bootstrappers:a,system:bootstrappers:b-c:d")
	f.Add("system:bootstrappers:a\n")
	f.Add("system:bootstrappers:-,")
	f.Fuzz(func(t *testing.T, list string) {
		want := []string{"system:bootstrappers"}
		good := true
		if list != "" {
			for group := range strings.SplitSeq(list, ",") {
				good = good && pattern.MatchString(group)
				want = append(want, group)
			}
		}
		slices.Sort(want)
		u, known, _ := holding(secret(map[string]string{"auth-extra-groups": list})).Authenticate(bearer(token))
		if known != good || known && !slices.Equal(u.Groups, slices.Compact(want)) {
			t.Errorf("%q: known %v, %+v", list, known, u)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	a, r := holding(secret(nil)), bearer(token)
	b.ReportAllocs()
	for b.Loop() {
		if _, known, err := a.Authenticate(r); !known {
			b.Fatal(err)
		}
	}
}
