package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/webhook"
	"github.com/planekit/planekit/internal/webhook/webhooktest"
	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	authorizationv1beta1 "k8s.io/api/authorization/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		json.NewDecoder(r.Body).Decode(&review)
		review.Status.Allowed = review.Spec.User == "jane"
		review.Status.Reason = "only jane may"
		json.NewEncoder(w).Encode(review)
	}))
	defer service.Close()
	remote, err := webhook.New(webhook.Config{URL: service.URL, Transport: service.Client().Transport})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer remote.Close()
	for _, name := range []string{"jane", "joe"} {
		decision, reason, err := remote.Authorize(context.Background(), authz.Attributes{User: &user.Info{Name: name}, Verb: "get", Resource: "pods"})
		fmt.Println(name, decision, reason, err)
	}
	// Output:
	// jane allow only jane may <nil>
	// joe no opinion only jane may <nil>
}

func start(t testing.TB, c webhook.Config) *webhook.Authorizer {
	t.Helper()
	a, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

var jane = &user.Info{Name: "jane", UID: "17", Groups: []string{"dev", user.Authenticated}, Extra: map[string][]string{"scopes": {"a", "b"}}}

// TestQuestion reads what is asked with Kubernetes' own types, which must know
// every field.
func TestQuestion(t *testing.T) {
	asked := make(chan []byte, 1)
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !webhooktest.Asked(r) {
			t.Errorf("%s %v by %v", r.Method, r.Header, r.TLS.PeerCertificates)
		}
		body, _ := io.ReadAll(r.Body)
		asked <- body
		var head metav1.TypeMeta
		json.Unmarshal(body, &head)
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"status":{"allowed":true,"reason":"because"}}`, head.APIVersion, head.Kind)
	}))
	resource := authz.Attributes{
		User: jane, Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Namespace: "n", Name: "web",
		Fields: []authz.Requirement{{Key: "metadata.name", Operator: authz.In, Values: []string{"web"}}},
		Labels: []authz.Requirement{{Key: "a", Operator: authz.NotIn, Values: []string{"b", "c"}}, {Key: "d", Operator: authz.Exists}},
	}
	path := authz.Attributes{User: jane, Verb: "get", Path: "/healthz"}
	resourceSpec := authorizationv1.SubjectAccessReviewSpec{
		User: "jane", UID: "17", Groups: jane.Groups, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"a", "b"}},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: "n", Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Name: "web",
			FieldSelector: &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"web"}}}},
			LabelSelector: &authorizationv1.LabelSelectorAttributes{Requirements: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: "NotIn", Values: []string{"b", "c"}}, {Key: "d", Operator: "Exists"}}},
		},
	}
	pathSpec := resourceSpec
	pathSpec.ResourceAttributes, pathSpec.NonResourceAttributes = nil, &authorizationv1.NonResourceAttributes{Path: "/healthz", Verb: "get"}
	for name, test := range map[string]struct {
		version string
		at      authz.Attributes
		into    any
		want    any
	}{
		"resource": {"", resource, &authorizationv1.SubjectAccessReview{}, &authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Spec: resourceSpec}},
		"path": {"v1", path, &authorizationv1.SubjectAccessReview{}, &authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Spec: pathSpec}},
		"nobody": {"v1", authz.Attributes{Verb: "get", Path: "/"}, &authorizationv1.SubjectAccessReview{}, &authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Spec:     authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: "/", Verb: "get"}}}},
		"v1beta1": {"v1beta1", path, &authorizationv1beta1.SubjectAccessReview{}, &authorizationv1beta1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1beta1", Kind: "SubjectAccessReview"},
			Spec: authorizationv1beta1.SubjectAccessReviewSpec{
				User: "jane", UID: "17", Groups: jane.Groups, Extra: map[string]authorizationv1beta1.ExtraValue{"scopes": {"a", "b"}},
				NonResourceAttributes: &authorizationv1beta1.NonResourceAttributes{Path: "/healthz", Verb: "get"},
			}}},
	} {
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, Version: test.version})
		decision, reason, err := a.Authorize(t.Context(), test.at)
		if decision != authz.Allow || reason != "because" || err != nil {
			t.Fatalf("%s: Authorize = %v, %q, %v, want %v, \"because\" and no error", name, decision, reason, err, authz.Allow)
		}
		body := json.NewDecoder(strings.NewReader(string(<-asked)))
		body.DisallowUnknownFields()
		if err := body.Decode(test.into); err != nil || !reflect.DeepEqual(test.into, test.want) {
			t.Errorf("%s: asked %+v, %v", name, test.into, err)
		}
	}
}

func TestDecisions(t *testing.T) {
	for status, test := range map[string]struct {
		want   authz.Decision
		reason string
		broken bool
	}{
		`{"allowed":true}`:                    {authz.Allow, "", false},
		`{"allowed":true,"reason":"yes"}`:     {authz.Allow, "yes", false},
		`{"allowed":false,"reason":"unsure"}`: {authz.NoOpinion, "unsure", false},
		`{}`:                                  {authz.NoOpinion, "", false},
		`{"allowed":false,"denied":true,"reason":"no"}`:       {authz.Deny, "no", false},
		`{"allowed":true,"denied":true,"reason":"both"}`:      {authz.Deny, "both", true},
		`{"allowed":true,"evaluationError":"half the roles"}`: {authz.Allow, "", false},
		`{"allowed":"true"}`:                                  {authz.NoOpinion, "", true},
		`null`:                                                {authz.NoOpinion, "", true},
	} {
		server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":%s}`, status)
		}))
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS})
		for range 2 { // asked, then remembered
			got, reason, err := a.Authorize(t.Context(), authz.Attributes{User: jane, Verb: "get", Resource: "pods"})
			if got != test.want || reason != test.reason || (err != nil) != test.broken {
				t.Errorf("status %s: Authorize = %v, %q, %v, want %v, %q, an error: %v",
					status, got, reason, err, test.want, test.reason, test.broken)
			}
		}
	}
}

// TestFailure has faults of the service, and what is decided meanwhile.
func TestFailure(t *testing.T) {
	const allowed = `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`
	writes := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	for name, handler := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		},
		"huge":         writes(allowed + strings.Repeat(" ", 1<<20)),
		"another kind": writes(strings.Replace(allowed, "SubjectAccessReview", "TokenReview", 1)),
		"v1beta1":      writes(strings.Replace(allowed, "/v1", "/v1beta1", 1)),
		"truncated":    writes(allowed[:len(allowed)-1]),
		"403":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403); io.WriteString(w, allowed) },
	} {
		var asked atomic.Int32
		server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			io.Copy(io.Discard, r.Body)
			handler(w, r)
		}))
		for i, onFailure := range []authz.Decision{authz.NoOpinion, authz.Deny} {
			timeout := time.Minute
			if name == "hangs" {
				timeout = 400 * time.Millisecond // more than a handshake takes on a busy machine
			}
			a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, OnFailure: onFailure, Timeout: timeout})
			at := authz.Attributes{User: jane, Verb: "get", Resource: "pods"}
			yes := authz.InsecureAlwaysAllow()
			for n := range 2 {
				got, reason, err := a.Authorize(t.Context(), at)
				if got != onFailure || reason != "" || err == nil || !strings.HasPrefix(err.Error(), "authorization webhook: ") {
					t.Errorf("%s: %v %q %v, want %v", name, got, reason, err, onFailure)
				}
				if want := int32(2*i + n + 1); asked.Load() != want {
					t.Errorf("%s: asked %d times, want %d: a failure is not remembered", name, asked.Load(), want)
				}
			}
			asked.Add(-1) // by the chain below
			if got, _, _ := (authz.Chain{a, yes}).Authorize(t.Context(), at); (got == authz.Allow) != (onFailure == authz.NoOpinion) {
				t.Errorf("%s: with others behind it, %v", name, got)
			}
		}
	}
}

func TestFailsThenAnswers(t *testing.T) {
	var asked atomic.Int32
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		io.WriteString(w, `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true}}`)
	}))
	a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS})
	got, _, err := a.Authorize(t.Context(), authz.Attributes{User: jane, Verb: "get", Resource: "pods"})
	if got != authz.Allow || err != nil || asked.Load() != 2 {
		t.Errorf("asked %d times: %v, %v", asked.Load(), got, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]webhook.Config{
		"no URL":           {},
		"http":             {URL: "http://example.com"},
		"failure allows":   {URL: "https://example.com", OnFailure: authz.Allow},
		"unknown version":  {URL: "https://example.com", Version: "v2"},
		"negative timeout": {URL: "https://example.com", Timeout: -1},
	} {
		if _, err := webhook.New(c); err == nil || !strings.HasPrefix(err.Error(), "authorization webhook: ") {
			t.Errorf("%s: New: %v, want an error that begins with \"authorization webhook: \"", name, err)
		}
	}
}

func TestRulesFor(t *testing.T) {
	a := start(t, webhook.Config{URL: "https://example.com"})
	rules, err := authz.RulesFor(t.Context(), authz.Chain{a, authz.InsecureAlwaysAllow()}, jane, "default")
	if !rules.Incomplete || len(rules.Resources) != 1 || !errors.Is(err, authz.ErrNoRules) ||
		err.Error() != "webhook authorizer does not support user rule resolution" {
		t.Errorf("RulesFor(jane) = %+v, %v, want incomplete rules, one for resources, and the webhook's ErrNoRules alone", rules, err)
	}
}
