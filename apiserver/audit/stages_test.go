package audit_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

// oldToken is the authenticator of service accounts and a token of one, whose
// holder should have fetched another by now.
func oldToken(t *testing.T) (authn.Authenticator, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := serviceaccount.NewSigner("https://cluster", key)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := serviceaccount.New(serviceaccount.Config{
		Issuers: []string{"https://cluster"}, Audiences: []string{"api"}, Keys: keys,
		Accounts: func(_ context.Context, _, _, uid string) (serviceaccount.Object, bool, error) {
			return serviceaccount.Object{UID: uid}, true, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Sign(serviceaccount.Grant{
		Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "a1"}, Audiences: []string{"api"}, Life: time.Hour, WarnAfter: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return accounts, token
}

// pending has everything wait for two initializers.
type pending struct{}

func (pending) Pending(context.Context, *admission.Request) ([]string, error) {
	return []string{"sidecar.example.com", "check.example.com"}, nil
}

// TestEveryStageAnnotates sends requests whose events have in them what
// authentication, authorization, admission and initializers had to say.
func TestEveryStageAnnotates(t *testing.T) {
	accounts, token := oldToken(t)
	const waiting = path + "/a?includeUninitialized=true"
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]", func(s *apiservertest.Server) {
		send := func(method, url, body string) {
			do(t, s.Anonymous(), method, s.URL+url, body, "Authorization: Bearer "+token, "Content-Type: application/merge-patch+json")
		}
		do(t, s.Anonymous(), "POST", s.URL+path+"?includeUninitialized=true", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "Authorization: Bearer "+token)
		send("PATCH", waiting, `{"metadata":{"initializers":{"pending":[{"name":"check.example.com"}]}}}`)
		send("PATCH", waiting, `{"metadata":{"labels":{"a":"b"}}}`)
		send("PATCH", waiting, `{"metadata":{"initializers":{"result":{"status":"Failure","message":"too short"}}}}`)
	}, apiservertest.WithAuthenticator(accounts), apiservertest.WithAdmission(annotates{}),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.Verb == "initialize" {
				return authz.Allow, "", nil
			}
			return authz.Allow, "RBAC: " + a.User.Name + " may " + a.Verb, nil
		})),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = pending{} }))
	need(t, lines, 4)
	const stages = "initializers.admission.k8s.io/"
	for i, want := range []struct{ verb, stage, who, options string }{
		{"create", "pending", "sidecar.example.com,check.example.com", "*v1.CreateOptions"},
		{"patch", "completed", "sidecar.example.com", "*v1.PatchOptions"},
		{"patch", "", "", "*v1.PatchOptions"},
		{"patch", "failed", "check.example.com", "*v1.PatchOptions"},
	} {
		got := lines[i].Annotations
		stale := regexp.MustCompile(`^subject: system:serviceaccount:shop:web, seconds after warning threshold: \d+$`)
		if !stale.MatchString(got[serviceaccount.StaleTokenKey]) {
			t.Errorf("%d: authentication says %q", i, got)
		}
		if got["authorization.k8s.io/decision"] != "allow" || got["authorization.k8s.io/reason"] != "RBAC: system:serviceaccount:shop:web may "+want.verb {
			t.Errorf("%d: authorization says %q", i, got)
		}
		if options := got["example.com/options"]; options != want.options {
			t.Errorf("%d: admission says %q", i, got)
		}
		for _, stage := range []string{"pending", "completed", "failed"} {
			who := ""
			if stage == want.stage {
				who = want.who
			}
			if got[stages+stage] != who {
				t.Errorf("%d: %s are %q, want %q", i, stage, got[stages+stage], who)
			}
		}
	}
}

// TestRefusedClients: the event of a client that was refused tells how it tried to
// come in, and what authenticators had to say. The client learns neither.
func TestRefusedClients(t *testing.T) {
	refuses := authn.Func(func(r *http.Request) (*user.Info, bool, error) {
		if r.Header.Get("Authorization") == "" {
			return nil, false, nil
		}
		authn.Annotate(r.Context(), "authn.example.com/list", "revoked")
		return nil, false, errors.New("revoked")
	})
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]", func(s *apiservertest.Server) {
		for _, header := range []string{"X-None: x", "Authorization: Bearer abc", "Authorization: Basic am9lOnNlY3JldA==", "Authorization: Bearer"} {
			do(t, s.Anonymous(), "GET", s.URL+path, "", header)
		}
	}, apiservertest.WithAuthenticator(refuses))
	need(t, lines, 4)
	for i, want := range []struct{ message, list string }{
		{"Authentication failed, no credentials provided", ""},
		{"Authentication failed, attempted: bearer", "revoked"},
		{"Authentication failed, attempted: basic", "revoked"},
		{"Authentication failed, no credentials provided", "revoked"},
	} {
		l := lines[i]
		if s := l.ResponseStatus; s.Code != 401 || s.Reason != "Unauthorized" || s.Message != want.message || l.Annotations["authn.example.com/list"] != want.list {
			t.Errorf("%d: %+v, want %+v", i, l, want)
		}
		if message := l.ResponseObject["message"]; message != "Unauthorized" {
			t.Errorf("%d: the client is told %v", i, message)
		}
	}
}

// TestAuthorizerFails: no authorizer has decided, and the event says why.
func TestAuthorizerFails(t *testing.T) {
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]", func(s *apiservertest.Server) {
		do(t, s.As("joe"), "GET", s.URL+path, "")
	}, apiservertest.WithAuthorizer(authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.NoOpinion, "", errors.New("webhook is away")
	})))
	need(t, lines, 1)
	l := lines[0]
	if _, decided := l.Annotations["authorization.k8s.io/decision"]; decided || l.Annotations["authorization.k8s.io/reason"] != "internal error" || l.ResponseStatus.Code != 500 {
		t.Errorf("the line is %+v, want code 500, no decision and the reason %q", l, "internal error")
	}
}
