package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestConfigIsSecure(t *testing.T) {
	allow := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	anyone := authn.Func(func(*http.Request) (*user.Info, bool, error) { return &user.Info{Name: "x"}, true, nil })
	for text, c := range map[string]apiserver.Config{
		"Config.Store must be set":                    {Authenticator: anyone, Authorizer: allow},
		"apiserver: Config.Authenticator must be set": {Store: memstore.New(), Authorizer: allow},
		"Config.Authorizer must be set":               {Store: memstore.New(), Authenticator: anyone},
		"given twice":                                 {Store: memstore.New(), Authenticator: anyone, Authorizer: allow, Resources: []apiserver.Resource{pods(), pods()}},
		"must be set":                                 {Store: memstore.New(), Authenticator: anyone, Authorizer: allow, Resources: []apiserver.Resource{{Kind: "X"}}},
		"negative":                                    {Store: memstore.New(), Authenticator: anyone, Authorizer: allow, MaxBodyBytes: -1},
	} {
		if _, err := apiserver.New(c); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
}

func TestAuthentication(t *testing.T) {
	var leaked []string
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthenticator(authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer nameless":
				return &user.Info{}, true, nil
			case "Bearer broken":
				return nil, false, errors.New("token expired")
			}
			return nil, false, nil
		})),
		apiservertest.WithAdmission(admit{mutate: func(_ context.Context, r *admission.Request) error {
			if r.User == nil || r.User.Name != "admin" {
				leaked = append(leaked, "wrong user")
			}
			return nil
		}}))
	a := &api{t, s.Anonymous(), s.URL}
	for _, header := range []string{"X-None: x", "Authorization: Bearer wrong", "Authorization: Bearer nameless", "Authorization: Bearer broken"} {
		got := a.want(a.do("GET", podPath, "", header), 401, "Unauthorized")
		if strings.Contains(got.body, "expired") {
			t.Errorf("the reason leaks: %s", got.body)
		}
	}
	a.want(a.do("POST", configPath, configMap("a", ""), "Authorization: Bearer "+s.Token), 201, "")
	if len(leaked) > 0 {
		t.Error(leaked)
	}
}

func TestAuthorization(t *testing.T) {
	var asked []authz.Attributes
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, attributes authz.Attributes) (authz.Decision, string, error) {
			asked = append(asked, attributes)
			return authz.NoOpinion, attributes.User.Groups[0], nil
		})))
	for _, c := range []struct {
		method, path, text, reason string
		want                       authz.Attributes
	}{
		{"GET", podPath, `pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"`, "",
			authz.Attributes{Verb: "list", Version: "v1", Resource: "pods", Namespace: "default"}},
		{"GET", podPath + "/p", `pods "p" is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "default"`, "",
			authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "default", Name: "p"}},
		{"PUT", deployPath + "/d/scale", `deployments.apps "d" is forbidden: User "jane" cannot update resource "deployments/scale" in API group "apps" in the namespace "default": because`, "because",
			authz.Attributes{Verb: "update", Group: "apps", Version: "v1", Resource: "deployments", Subresource: "scale", Namespace: "default", Name: "d"}},
		{"POST", "/api/v1/namespaces", `namespaces is forbidden: User "jane" cannot create resource "namespaces" in API group "" at the cluster scope`, "",
			authz.Attributes{Verb: "create", Version: "v1", Resource: "namespaces"}},
		{"GET", "/api/v1/namespaces/n", `namespaces "n" is forbidden: User "jane" cannot get resource "namespaces" in API group "" in the namespace "n"`, "",
			authz.Attributes{Verb: "get", Version: "v1", Resource: "namespaces", Namespace: "n", Name: "n"}},
		{"DELETE", podPath, "deletecollection", "", authz.Attributes{Verb: "deletecollection", Version: "v1", Resource: "pods", Namespace: "default"}},
		{"GET", podPath + "?watch=true&fieldSelector=metadata.name%3Dp", `pods "p" is forbidden: User "jane" cannot watch`, "",
			authz.Attributes{Verb: "watch", Version: "v1", Resource: "pods", Namespace: "default", Name: "p",
				Fields: []authz.Requirement{{Key: "metadata.name", Operator: authz.In, Values: []string{"p"}}}}},
		{"GET", podPath + "?fieldSelector=spec.nodeName%3Dn,status.phase!%3DRunning&labelSelector=a+in+(c,b),!d", "cannot list", "",
			authz.Attributes{Verb: "list", Version: "v1", Resource: "pods", Namespace: "default",
				Fields: []authz.Requirement{{Key: "spec.nodeName", Operator: authz.In, Values: []string{"n"}}, {Key: "status.phase", Operator: authz.NotIn, Values: []string{"Running"}}},
				Labels: []authz.Requirement{{Key: "a", Operator: authz.In, Values: []string{"b", "c"}}, {Key: "d", Operator: authz.DoesNotExist, Values: []string{}}}}},
		{"GET", podPath + "?fieldSelector=a&labelSelector=a+in", "cannot list", "", authz.Attributes{Verb: "list", Version: "v1", Resource: "pods", Namespace: "default"}},
		{"GET", podPath + "/p?fieldSelector=a%3Db&labelSelector=a", "cannot get", "", authz.Attributes{Verb: "get", Version: "v1", Resource: "pods", Namespace: "default", Name: "p"}},
		{"DELETE", podPath + "?fieldSelector=metadata.name%3Dp", "deletecollection", "",
			authz.Attributes{Verb: "deletecollection", Version: "v1", Resource: "pods", Namespace: "default",
				Fields: []authz.Requirement{{Key: "metadata.name", Operator: authz.In, Values: []string{"p"}}}}},
		{"GET", "/apis/none/v1/things", "things.none is forbidden", "", authz.Attributes{Verb: "list", Group: "none", Version: "v1", Resource: "things"}},
		{"GET", "/metrics", `forbidden: User "jane" cannot get path "/metrics"`, "", authz.Attributes{Verb: "get", Path: "/metrics"}},
		{"POST", "/healthz/", `forbidden: User "jane" cannot post path "/healthz"`, "", authz.Attributes{Verb: "post", Path: "/healthz"}},
	} {
		a := &api{t, s.As("jane", c.reason), "http://memory"}
		a.want(a.do(c.method, c.path, ""), 403, c.text)
		got := asked[len(asked)-1]
		if got.User = nil; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s %s: asked %+v, want %+v", c.method, c.path, got, c.want)
		}
	}
}

// TestPathsThatConfuse asks for paths which must be refused before anything is
// authorized or read.
func TestPathsThatConfuse(t *testing.T) {
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...),
		apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			t.Errorf("authorized %+v", a)
			return authz.Allow, "", nil
		})))
	for _, path := range []string{
		"/api/v1/namespaces/default/configmaps/..", "/api/v1/namespaces/default/configmaps/.",
		"/api/v1/namespaces/default/configmaps/%2e%2e", "/api/v1/namespaces/default/configmaps/%2E", "/api/v1/namespaces/../secrets/x",
		"/api/v1/namespaces/default/configmaps/a%2fb", "/api/v1/namespaces/default%2Fconfigmaps", "/api/v1//configmaps", "/api/v1/namespaces//configmaps/x",
		"/api/v1/namespaces/default/configmaps/a%5Cb", "/api/v1/namespaces/default/configmaps/a%00", "/api/v1/namespaces/default/configmaps/a%2561", "/api/v1/namespaces/default/configmaps/%ff",
	} {
		a := &api{t, s.As("jane"), "http://memory"}
		a.want(a.do("GET", path, ""), 400, "invalid path")
		if !strings.Contains(path, "%00") {
			wire := &api{t, s.Client(), s.URL}
			wire.want(wire.do("GET", path, ""), 400, "invalid path")
		}
	}
}

// admit is an admission chain made of functions.
type admit struct {
	mutate, validate func(context.Context, *admission.Request) error
}

func (a admit) Mutate(ctx context.Context, r *admission.Request) error { return call(ctx, a.mutate, r) }
func (a admit) Validate(ctx context.Context, r *admission.Request) error {
	return call(ctx, a.validate, r)
}

func call(ctx context.Context, f func(context.Context, *admission.Request) error, r *admission.Request) error {
	if f == nil {
		return nil
	}
	return f(ctx, r)
}

func TestAdmission(t *testing.T) {
	var seen []string
	note := func(r *admission.Request) {
		line := string(r.Operation) + " " + r.Kind.Kind + " " + r.Namespace + "/" + r.Name
		if r.Subresource != "" {
			line += "/" + r.Subresource
		}
		if r.DryRun {
			line += " dry"
		}
		if (r.Object != nil) != (r.Operation != admission.Delete) || (r.OldObject != nil) != (r.Operation != admission.Create) {
			line += " wrong objects"
		}
		seen = append(seen, line)
	}
	a := start(t, apiservertest.WithAdmission(admit{
		mutate: func(_ context.Context, r *admission.Request) error {
			note(r)
			if cm, ok := r.Object.(*corev1.ConfigMap); ok {
				cm.Data = map[string]string{"mutated": "yes"}
				r.Warn("mutated")
			}
			return nil
		},
		validate: func(_ context.Context, r *admission.Request) error {
			switch r.Name {
			case "bad":
				return errors.New("no")
			case "gone":
				return apierrors.NewResourceExpired("gone")
			}
			return nil
		},
	}))
	got := a.create(configPath, configMap("a", ""))
	if into[corev1.ConfigMap](t, got).Data["mutated"] != "yes" || got.header.Get("Warning") != `299 - "mutated"` {
		t.Errorf("the create gives the headers %v and %s, want the warning %q and mutated=yes", got.header, got.body, `299 - "mutated"`)
	}
	a.want(a.do("PATCH", configPath+"/a?dryRun=All", `{"data":{"x":"y"}}`, mergePatch), 200, `{"mutated":"yes"}`)
	a.want(a.do("DELETE", configPath+"/a", ""), 200, "")
	a.create(deployPath, deployment("d", 1))
	a.want(a.do("PATCH", deployPath+"/d/scale", `{"spec":{"replicas":2}}`, mergePatch), 200, "")
	// Reading passes no admission.
	a.want(a.do("GET", deployPath+"/d", ""), 200, "")
	a.want(a.do("GET", deployPath, ""), 200, "")
	a.watch(deployPath + "?watch=true")
	want := "CREATE ConfigMap default/a|UPDATE ConfigMap default/a dry|DELETE ConfigMap default/a|CREATE Deployment default/d|UPDATE Scale default/d/scale"
	if line := strings.Join(seen, "|"); line != want {
		t.Errorf("admitted\n%s\nwant\n%s", line, want)
	}
	a.want(a.do("POST", configPath, configMap("bad", "")), 403, `configmaps "bad" is forbidden: no`)
	a.want(a.do("POST", configPath, configMap("gone", "")), 410, "gone")
	a.want(a.do("GET", configPath+"/bad", ""), 404, "")
}

// TestAuthenticatedGroup checks that the server adds the group system:authenticated to the users of
// an authenticator that is not a Chain, unless they are anonymous.
func TestAuthenticatedGroup(t *testing.T) {
	var groups []string
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(),
		Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
			name := r.Header.Get("Test-User")
			if name == user.Anonymous {
				return &user.Info{Name: name, Groups: []string{user.Unauthenticated}}, true, nil
			}
			return &user.Info{Name: name, Groups: []string{"makers"}}, true, nil
		}),
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			groups = a.User.Groups
			return authz.Allow, "", nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"jane":         {"makers", user.Authenticated},
		user.Anonymous: {user.Unauthenticated},
	} {
		r := httptest.NewRequest(http.MethodGet, "/version", nil)
		r.Header.Set("Test-User", name)
		server.ServeHTTP(httptest.NewRecorder(), r)
		if !reflect.DeepEqual(groups, want) {
			t.Errorf("groups of %s: %v, want %v", name, groups, want)
		}
	}
}
