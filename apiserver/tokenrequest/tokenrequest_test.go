package tokenrequest_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/tokenrequest"
	"github.com/planekit/planekit/authn/user"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// claims holds the claims of a token that depend on the request.
type claims struct {
	Audience   []string `json:"aud"`
	Issued     int64    `json:"iat"`
	Expires    int64    `json:"exp"`
	Kubernetes struct {
		Pod, Node, Secret map[string]string
		WarnAfter         int64
	} `json:"kubernetes.io"`
}

func read(t *testing.T, token string) claims {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var c claims
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// ask asks for a token as u.
func ask(c tokenrequest.Config, u *user.Info, spec authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequest, error) {
	tokens, err := tokenrequest.New(c)
	if err != nil {
		return nil, err
	}
	ctx := user.NewContext(context.Background(), u)
	answer, err := tokens.Answer(ctx, account, &authenticationv1.TokenRequest{Spec: spec})
	if err != nil {
		return nil, err
	}
	return answer.(*authenticationv1.TokenRequest), nil
}

var jane = &user.Info{Name: "jane"}

func seconds(n int64) authenticationv1.TokenRequestSpec {
	return authenticationv1.TokenRequestSpec{ExpirationSeconds: &n}
}

func bound(apiVersion, kind, name, uid string) authenticationv1.TokenRequestSpec {
	return authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
		APIVersion: apiVersion, Kind: kind, Name: name, UID: meta("", "", uid).UID}}
}

func TestExpiration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := config()
		long.MaxExpiration = 2 * time.Hour
		extended := config()
		extended.Extend = 24 * time.Hour
		volumeFor := func(audiences ...string) authenticationv1.TokenRequestSpec {
			spec := bound("v1", "Pod", "web", "uid-web")
			spec.ExpirationSeconds, spec.Audiences = new(int64(3607)), audiences
			return spec
		}
		volume := volumeFor()
		for _, test := range []struct {
			name             string
			config           tokenrequest.Config
			spec             authenticationv1.TokenRequestSpec
			said, life, warn int64
			refused          string
		}{
			{"unset", config(), authenticationv1.TokenRequestSpec{}, 3600, 3600, 0, ""},
			{"least", config(), seconds(600), 600, 600, 0, ""},
			{"too short", config(), seconds(599), 0, 0, 0,
				`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`},
			{"most", config(), seconds(1 << 32), 1 << 32, 1 << 32, 0, ""},
			{"too long", config(), seconds(1<<32 + 1), 0, 0, 0,
				`TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`},
			{"shortened", long, seconds(86400), 7200, 7200, 0, ""},
			{"extended", extended, volume, 3607, 86400, 3607, ""},
			{"extended, for us by name", extended, volumeFor(issuer), 3607, 86400, 3607, ""},
			{"for somebody else", extended, volumeFor("vault"), 3607, 3607, 0, ""},
			{"for us and somebody else", extended, volumeFor(issuer, "vault"), 3607, 3607, 0, ""},
			{"not a pod's", extended, seconds(3607), 3607, 3607, 0, ""},
			{"volume", config(), volume, 3607, 3607, 0, ""},
		} {
			now := time.Now().Unix()
			answer, err := ask(test.config, jane, test.spec)
			if err != nil || test.refused != "" {
				if err == nil || err.Error() != test.refused {
					t.Errorf("%s: ask has the error %v, want %q", test.name, err, test.refused)
				}
				continue
			}
			c := read(t, answer.Status.Token)
			warn := c.Kubernetes.WarnAfter
			if warn != 0 {
				warn -= now
			}
			if *answer.Spec.ExpirationSeconds != test.said || answer.Status.ExpirationTimestamp.Unix()-now != test.said ||
				c.Expires-now != test.life || warn != test.warn || c.Issued != now {
				t.Errorf("%s: %+v says %+v", test.name, answer.Status.ExpirationTimestamp, c)
			}
		}
	})
}

func TestBinding(t *testing.T) {
	object := func(name string) map[string]string { return map[string]string{"name": name, "uid": "uid-" + name} }
	for _, test := range []struct {
		name              string
		spec              authenticationv1.TokenRequestSpec
		pod, node, secret map[string]string
		refused           string
	}{
		{name: "pod", spec: bound("v1", "Pod", "web", "uid-web"), pod: object("web"), node: object("node-1")},
		{name: "pod without uid", spec: bound("v1", "Pod", "web", ""), pod: object("web"), node: object("node-1")},
		{name: "pod not scheduled", spec: bound("v1", "Pod", "new", ""), pod: object("new")},
		{name: "pod on a node that is gone", spec: bound("v1", "Pod", "far", ""), pod: object("far"), node: map[string]string{"name": "node-2", "uid": ""}},
		{name: "secret", spec: bound("v1", "Secret", "key", "uid-key"), secret: object("key")},
		{name: "node", spec: bound("v1", "Node", "node-1", ""), node: object("node-1")},
		{name: "no such pod", spec: bound("v1", "Pod", "none", ""), refused: `"none" not found`},
		{name: "no such secret", spec: bound("v1", "Secret", "none", ""), refused: `"none" not found`},
		{name: "no such node", spec: bound("v1", "Node", "none", ""), refused: `"none" not found`},
		{name: "another's pod", spec: bound("v1", "Pod", "db", ""),
			refused: `cannot bind token for serviceaccount "web" to pod running with different serviceaccount name.`},
		{name: "made anew", spec: bound("v1", "Secret", "key", "uid-old"),
			refused: "the UID in the bound object reference (uid-old) does not match the UID in record"},
		{name: "no name", spec: bound("v1", "Node", "", ""), refused: "Name parameter required."},
		{name: "kind", spec: bound("apps/v1", "Deployment", "web", ""), refused: "cannot bind token to object of type apps/v1, Kind=Deployment"},
	} {
		answer, err := ask(config(), jane, test.spec)
		if err != nil || test.refused != "" {
			if err == nil || !strings.Contains(err.Error(), test.refused) || test.refused == "" {
				t.Errorf("%s: ask has the error %v, want %q in it (no error if empty)", test.name, err, test.refused)
			}
			continue
		}
		k := read(t, answer.Status.Token).Kubernetes
		if !reflect.DeepEqual(k.Pod, test.pod) || !reflect.DeepEqual(k.Node, test.node) || !reflect.DeepEqual(k.Secret, test.secret) {
			t.Errorf("%s: the token has %+v, want pod %v, node %v, secret %v", test.name, k, test.pod, test.node, test.secret)
		}
	}
	_, err := ask(config(), jane, bound("v1", "Secret", "key", "uid-old"))
	if !apierrors.IsConflict(err) {
		t.Errorf("made anew: %v", err)
	}
}

// A kubelet gets tokens for its own pods and nothing else.
func TestKubelets(t *testing.T) {
	node := func(name string) *user.Info { return &user.Info{Name: name, Groups: []string{user.Nodes}} }
	for _, test := range []struct {
		name    string
		u       *user.Info
		spec    authenticationv1.TokenRequestSpec
		refused string
	}{
		{"its pod", node("system:node:node-1"), bound("v1", "Pod", "web", "uid-web"), ""},
		{"unbound", node("system:node:node-1"), authenticationv1.TokenRequestSpec{}, "node requested token not bound to a pod"},
		{"secret", node("system:node:node-1"), bound("v1", "Secret", "key", "uid-key"), "node requested token not bound to a pod"},
		{"itself", node("system:node:node-1"), bound("v1", "Node", "node-1", "uid-node-1"), "node requested token not bound to a pod"},
		{"no uid", node("system:node:node-1"), bound("v1", "Pod", "web", ""), "node requested token with a pod binding without a uid"},
		{"another's pod", node("system:node:node-1"), bound("v1", "Pod", "far", "uid-far"), "pod scheduled on a different node"},
		{"nobody's pod", node("system:node:"), bound("v1", "Pod", "new", "uid-new"), "pod scheduled on a different node"},
		{"no node at all", node("jane"), bound("v1", "Pod", "web", "uid-web"), "pod scheduled on a different node"},
	} {
		_, err := ask(config(), test.u, test.spec)
		if test.refused == "" && err != nil || test.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%s: ask has the error %v, want a Forbidden one with %q (no error if empty)", test.name, err, test.refused)
		}
	}
}

func TestAudiences(t *testing.T) {
	answer, err := ask(config(), jane, authenticationv1.TokenRequestSpec{Audiences: []string{"vault", "bank"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, answer.Status.Token).Audience; !reflect.DeepEqual(got, []string{"vault", "bank"}) {
		t.Errorf("the token has the audience %v, want [vault bank]", got)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*tokenrequest.Config){
		"signer":    func(c *tokenrequest.Config) { c.Signer = nil },
		"audiences": func(c *tokenrequest.Config) { c.Audiences = nil },
		"pods":      func(c *tokenrequest.Config) { c.Pods = nil },
		"secrets":   func(c *tokenrequest.Config) { c.Secrets = nil },
		"nodes":     func(c *tokenrequest.Config) { c.Nodes = nil },
		"maximum":   func(c *tokenrequest.Config) { c.MaxExpiration = time.Minute },
	} {
		c := config()
		change(&c)
		if _, err := tokenrequest.New(c); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestNodesCannotBeRead(t *testing.T) {
	c, broken := config(), errors.New("storage is down")
	c.Nodes = func(context.Context, string, string) (*corev1.Node, error) { return nil, broken }
	if _, err := ask(c, jane, bound("v1", "Pod", "web", "")); !errors.Is(err, broken) {
		t.Errorf("ask without nodes has the error %v, want %v", err, broken)
	}
}
