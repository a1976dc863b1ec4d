package tokenrequest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/apiserver/tokenrequest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// cluster is an API server that issues tokens and believes them.
type cluster struct {
	t      *testing.T
	server *apiservertest.Server
	mu     sync.Mutex
	log    bytes.Buffer // guarded by mu
}

// startCluster starts it with a configuration that is changed, where change is not
// nil.
func startCluster(t *testing.T, change func(*apiserver.Config), tokensChange ...func(*tokenrequest.Config)) *cluster {
	t.Helper()
	c := &cluster{t: t}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err1 := serviceaccount.NewSigner(issuer, key)
	keys, err2 := serviceaccount.NewKeySet(key.Public())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	authenticator, err := serviceaccount.New(serviceaccount.Config{Issuers: []string{issuer}, Audiences: []string{issuer}, Keys: keys,
		Accounts: lookup[corev1.ServiceAccount](c, "serviceaccounts"), Pods: lookup[corev1.Pod](c, "pods")})
	if err != nil {
		t.Fatal(err)
	}
	issue := tokenrequest.Config{Signer: signer, Audiences: []string{issuer},
		Pods: get[corev1.Pod](c, "pods"), Secrets: get[corev1.Secret](c, "secrets"), Nodes: get[corev1.Node](c, "nodes")}
	for _, change := range tokensChange {
		change(&issue)
	}
	tokens, err := tokenrequest.New(issue)
	if err != nil {
		t.Fatal(err)
	}
	everything := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	resources := append(kube.Resources(), review.Resources(authn.Chain{authenticator}, everything)...)
	for i := range resources {
		if resources[i].Plural == "serviceaccounts" {
			resources[i].Subresources = append(resources[i].Subresources, tokens)
		}
	}
	c.server = apiservertest.Start(t, apiservertest.WithResources(resources...), apiservertest.WithAuthorizer(everything),
		apiservertest.WithAuthenticator(authn.Chain{authenticator}),
		apiservertest.WithConfig(func(config *apiserver.Config) {
			config.Handlers = serviceaccount.Handlers(issuer, "https://here"+serviceaccount.JWKSPath, keys)
			config.Log = funcr.New(func(prefix, args string) {
				c.mu.Lock()
				defer c.mu.Unlock()
				fmt.Fprintln(&c.log, prefix, args)
			}, funcr.Options{Verbosity: 10})
			if change != nil {
				change(config)
			}
		}))
	return c
}

func get[T any](c *cluster, plural string) func(ctx context.Context, namespace, name string) (*T, error) {
	return func(_ context.Context, namespace, name string) (*T, error) {
		path := "/api/v1/" + plural + "/" + name
		if namespace != "" {
			path = "/api/v1/namespaces/" + namespace + "/" + plural + "/" + name
		}
		object := new(T)
		code, body := c.do(c.server.As("admin"), "GET", path, "")
		if code == http.StatusNotFound {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: plural}, name)
		}
		return object, json.Unmarshal([]byte(body), object)
	}
}

func lookup[T any, P interface {
	*T
	metav1.Object
}](c *cluster, plural string) serviceaccount.Lookup {
	return func(ctx context.Context, namespace, name, _ string) (serviceaccount.Object, bool, error) {
		object, err := get[T](c, plural)(ctx, namespace, name)
		if apierrors.IsNotFound(err) {
			return serviceaccount.Object{}, false, nil
		} else if err != nil {
			return serviceaccount.Object{}, false, err
		}
		return serviceaccount.Object{UID: string(P(object).GetUID())}, true, nil
	}
}

func (c *cluster) do(client *http.Client, method, path, body string, headers ...string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.server.URL+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Add(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// admin does something that must succeed.
func (c *cluster) admin(method, path, body string) string {
	c.t.Helper()
	code, answer := c.do(c.server.Client(), method, path, body)
	if code > 299 {
		c.t.Fatalf("%s %s: %d %s", method, path, code, answer)
	}
	return answer
}

const core = "/api/v1/namespaces/shop/"

// token asks for a token of the account web.
func (c *cluster) token(spec string) string {
	c.t.Helper()
	var request authenticationv1.TokenRequest
	answer := c.admin("POST", core+"serviceaccounts/web/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{`+spec+`}}`)
	if err := json.Unmarshal([]byte(answer), &request); err != nil {
		c.t.Fatal(err)
	}
	if request.Name != "web" || request.Namespace != "shop" || request.Kind != "TokenRequest" || request.Status.ExpirationTimestamp.IsZero() {
		c.t.Errorf("%s", answer)
	}
	return request.Status.Token
}

// whoami asks the server whose token this is.
func (c *cluster) whoami(token string) (int, authenticationv1.UserInfo) {
	c.t.Helper()
	code, answer := c.do(c.server.Anonymous(), "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, "Authorization: Bearer "+token)
	var self authenticationv1.SelfSubjectReview
	if strings.Contains(answer, token) {
		c.t.Errorf("the answer quotes the token: %s", answer)
	}
	if code != http.StatusCreated {
		return code, self.Status.UserInfo
	}
	if err := json.Unmarshal([]byte(answer), &self); err != nil {
		c.t.Fatal(err)
	}
	return code, self.Status.UserInfo
}

func TestTokenIsBelieved(t *testing.T) {
	c := startCluster(t, nil)
	c.admin("POST", core+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	c.admin("POST", core+"pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0"},
		"spec":{"serviceAccountName":"web","containers":[{"name":"c","image":"nginx"}]}}`)
	const toPod = `"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"web-0"}`
	free, bound, foreign := c.token(""), c.token(toPod), c.token(`"audiences":["vault"]`)

	code, u := c.whoami(free)
	if code != 201 || u.Username != "system:serviceaccount:shop:web" || u.UID == "" ||
		strings.Join(u.Groups, " ") != "system:serviceaccounts system:serviceaccounts:shop system:authenticated" {
		t.Errorf("whoami = %d %+v, want 201, system:serviceaccount:shop:web with a UID and the groups of service accounts", code, u)
	}
	if code, u = c.whoami(bound); code != 201 || fmt.Sprint(u.Extra["authentication.kubernetes.io/pod-name"]) != "[web-0]" {
		t.Errorf("bound to the pod: %d %+v", code, u)
	}
	if code, _ = c.whoami(foreign); code != 401 {
		t.Errorf("for somebody else: %d", code)
	}
	if code, _ = c.whoami(free[:len(free)-8] + "AAAAAAAA"); code != 401 {
		t.Errorf("with another signature: %d", code)
	}

	c.admin("DELETE", core+"pods/web-0", `{"gracePeriodSeconds":0}`)
	if code, _ = c.whoami(bound); code != 401 {
		t.Errorf("the pod is gone: %d", code)
	}
	if code, _ = c.whoami(free); code != 201 {
		t.Errorf("the account is there: %d", code)
	}
	c.admin("DELETE", core+"serviceaccounts/web", "")
	if code, _ = c.whoami(free); code != 401 {
		t.Errorf("the account is gone: %d", code)
	}
	c.admin("POST", core+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	if code, _ = c.whoami(free); code != 401 {
		t.Errorf("another account of the name: %d", code)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for _, token := range []string{free, bound, foreign} {
		if strings.Contains(c.log.String(), token) || strings.Contains(c.log.String(), strings.Split(token, ".")[2]) {
			t.Error("a token is in the log")
		}
	}
}

func TestRequestsAreChecked(t *testing.T) {
	c := startCluster(t, nil)
	var web corev1.ServiceAccount
	made := c.admin("POST", core+"serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"web"}}`)
	if err := json.Unmarshal([]byte(made), &web); err != nil {
		t.Fatal(err)
	}
	uid := string(web.UID)
	for _, test := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "web/token", `"spec":{"expirationSeconds":10}`, 422, "may not specify a duration less than 10 minutes"},
		{"POST", "none/token", `"spec":{}`, 404, `serviceaccounts \"none\" not found`},
		{"POST", "web/token", `"metadata":{"name":"other"},"spec":{}`, 422, `metadata.name: Invalid value: \"other\": must match the service account name if specified`},
		{"POST", "web/token", `"metadata":{"name":"web"},"spec":{}`, 201, ""},
		{"POST", "web/token", `"metadata":{"namespace":"other"},"spec":{}`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"POST", "web/token", `"metadata":{"uid":"` + uid + `"},"spec":{}`, 201, `"uid":"` + uid + `"`},
		{"POST", "web/token", `"metadata":{"uid":"old"},"spec":{}`, 409,
			`Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"web\": the UID in the token request (old) does not match the UID of the service account (` + uid + `)`},
		{"POST", "web/token", `"spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"none"}}`, 404, `pods \"none\" not found`},
		{"GET", "web/token", `"spec":{}`, 405, ""},
	} {
		code, answer := c.do(c.server.Client(), test.method, core+"serviceaccounts/"+test.path,
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest",`+test.body+`}`)
		if code != test.code || !strings.Contains(answer, test.want) {
			t.Errorf("%s %s with %s = %d %s, want %d and %q in it", test.method, test.path, test.body, code, answer, test.code, test.want)
		}
	}
}

// A client that reads the published keys can verify tokens.
func TestDiscovery(t *testing.T) {
	c := startCluster(t, nil)
	if got := c.admin("GET", serviceaccount.ConfigurationPath, ""); !strings.Contains(got, `"jwks_uri":"https://here/openid/v1/jwks"`) {
		t.Error(got)
	}
	if got := c.admin("GET", serviceaccount.JWKSPath, ""); !strings.Contains(got, `"kty":"EC"`) {
		t.Error(got)
	}
	recorder := httptest.NewRecorder()
	c.server.ServeHTTP(recorder, httptest.NewRequest("GET", serviceaccount.JWKSPath, nil))
	if recorder.Code != http.StatusUnauthorized {
		t.Errorf("without credentials: %d", recorder.Code)
	}
}
