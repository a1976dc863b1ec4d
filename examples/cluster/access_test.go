package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written writes a file for a flag.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reviewService knows the token "told" as the user remote, and lets that user do
// everything. It returns the kubeconfig that leads to it.
func reviewService(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tokens authenticationv1.TokenReview
		var access authorizationv1.SubjectAccessReview
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		if json.Unmarshal(body, &tokens) == nil && tokens.Kind == "TokenReview" {
			tokens.Status.Authenticated = tokens.Spec.Token == "told"
			tokens.Status.User.Username = "remote"
			tokens.Spec.Token = ""
			json.NewEncoder(w).Encode(&tokens)
			return
		}
		json.Unmarshal(body, &access)
		access.Status.Allowed = access.Spec.User == "remote"
		json.NewEncoder(w).Encode(&access)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := (&kubeconfig.Config{
		CurrentContext: "c",
		Clusters:       map[string]kubeconfig.Cluster{"c": {Server: server.URL, CertificateAuthorityData: ca}},
		Users:          map[string]kubeconfig.User{"c": {}},
		Contexts:       map[string]kubeconfig.Context{"c": {Cluster: "c", User: "c"}},
	}).Write(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// visitor asks the cluster something with credentials of its own.
type visitor struct {
	name        string
	certificate *pki.Pair
	header      string
}

// get returns the status of a request, and the user that the server takes the visitor for.
func (v visitor) get(t *testing.T, r *running, path string) (code int, who string) {
	t.Helper()
	file, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	to, _, err := file.Client("")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{RootCAs: to.TLS.RootCAs}
	if v.certificate != nil {
		config.Certificates = []tls.Certificate{v.certificate.TLS()}
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer web.CloseIdleConnections()
	do := func(method, path, body string) (*http.Response, []byte) {
		request, err := http.NewRequestWithContext(t.Context(), method, to.Server+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if v.header != "" {
			request.Header.Set("Authorization", v.header)
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := web.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		data, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, data
	}
	answer, _ := do("GET", path, "")
	asked, data := do("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if asked.StatusCode != http.StatusCreated {
		return answer.StatusCode, ""
	}
	var review authenticationv1.SelfSubjectReview
	if err := json.Unmarshal(data, &review); err != nil {
		t.Fatalf("%s: %v in %s", v.name, err, data)
	}
	return answer.StatusCode, review.Status.UserInfo.Username
}

// TestWaysIn comes in by every way that flags open, and is let do what policies
// and a webhook say.
func TestWaysIn(t *testing.T) {
	authority, err := pki.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	jane, err := authority.Client("jane", "jane", "devs")
	if err != nil {
		t.Fatal(err)
	}
	service := reviewService(t)
	const line = `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{%s}}` + "\n"
	policies := fmt.Sprintf(line, `"group":"devs","readonly":true,"apiGroup":"","namespace":"*","resource":"pods"`) +
		fmt.Sprintf(line, `"user":"joe","readonly":true,"apiGroup":"","namespace":"default","resource":"pods"`) +
		fmt.Sprintf(line, `"group":"system:authenticated","apiGroup":"authentication.k8s.io","resource":"selfsubjectreviews"`)
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0",
		"--client-ca-file", written(t, "ca.crt", string(authority.CertificatePEM)),
		"--basic-auth-file", written(t, "basic.csv", "secret,joe,7\n"),
		"--token-auth-file", written(t, "tokens.csv", "abc,ann,8,devs\n"),
		"--enable-bootstrap-token-auth", "--authentication-token-webhook-config-file", service,
		"--oidc-issuer-url", "https://127.0.0.1:1", "--oidc-client-id", "nobody is there",
		"--authorization-mode", "Node,ABAC,RBAC,Webhook",
		"--authorization-policy-file", written(t, "policies", policies),
		"--authorization-webhook-config-file", service)
	api := cluster.client(t)
	joining := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token"}
	joining.StringData = map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
	if _, err := typed.Secrets(api).Create(t.Context(), joining); err != nil {
		t.Fatal(err)
	}
	const mine, theirs = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/kube-system/pods"
	for _, test := range []struct {
		visitor
		path string
		code int
		who  string
	}{
		{visitor{name: "certificate", certificate: jane}, theirs, 200, "jane"},
		{visitor{name: "password", header: "Basic am9lOnNlY3JldA=="}, mine, 200, "joe"},
		{visitor{name: "password", header: "Basic am9lOnNlY3JldA=="}, theirs, 403, "joe"},
		{visitor{name: "wrong password", header: "Basic am9lOndyb25n"}, mine, 401, ""},
		{visitor{name: "token", header: "Bearer abc"}, theirs, 200, "ann"},
		{visitor{name: "bootstrap token", header: "Bearer abcdef.0123456789abcdef"}, mine, 403, "system:bootstrap:abcdef"},
		{visitor{name: "token that a service knows", header: "Bearer told"}, theirs, 200, "remote"},
		{visitor{name: "token that nobody knows", header: "Bearer untold"}, mine, 401, ""},
		{visitor{name: "nothing"}, mine, 403, "system:anonymous"},
	} {
		code, who := test.get(t, cluster, test.path)
		if test.who == "system:anonymous" && who == "" {
			who = test.who // who may not ask who they are
		}
		if code != test.code || who != test.who {
			t.Errorf("%s: GET %s is %d by %q, want %d by %q", test.name, test.path, code, who, test.code, test.who)
		}
	}
}

// TestPluginsByFlag turns plugins on and off.
func TestPluginsByFlag(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0",
		"--enable-admission-plugins", "AlwaysPullImages,EventRateLimit,Initializers", "--disable-admission-plugins", "DefaultTolerationSeconds",
		"--admission-control-config-file", written(t, "admission.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 1, burst: 1}]
`))
	api := cluster.client(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:1", ImagePullPolicy: corev1.PullNever}}
	made, err := typed.Pods(api).Create(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || len(made.Spec.Tolerations) != 0 || made.Spec.Priority == nil {
		t.Errorf("pull policy %s, tolerations %v, priority %v", made.Spec.Containers[0].ImagePullPolicy, made.Spec.Tolerations, made.Spec.Priority)
	}
	if _, err := client.For(api, initializers.Configurations).Create(t.Context(), waitFor("pods", "one.of.ours")); err != nil {
		t.Errorf("initializers: %v", err)
	}
	refused := 0
	for i := 0; refused == 0 && i < 1000; i++ { // however few of them come in one second
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("e", i)}}
		event.InvolvedObject.Namespace = "default"
		if _, err := typed.Events(api).Create(t.Context(), event); apierrors.IsTooManyRequests(err) {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("a thousand events at once, and none refused")
	}
}

// waitFor is a configuration by which new objects wait for an initializer.
func waitFor(resource, name string) *initializers.InitializerConfiguration {
	c := &initializers.InitializerConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	c.Initializers = []initializers.Initializer{{Name: name, Rules: []initializers.Rule{{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}}}}}
	return c
}

// TestAccessFlagsAreRefused starts with flags whose files do not do.
func TestAccessFlagsAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, want string
		arguments  []string
	}{
		{"policy", "line 1", []string{"--authorization-mode", "ABAC", "--authorization-policy-file", written(t, "p", "nonsense\n")}},
		{"passwords", "--basic-auth-file", []string{"--basic-auth-file", written(t, "b", "x\n")}},
		{"authorities", "--client-ca-file", []string{"--client-ca-file", written(t, "c", "none")}},
		{"no file", "no such file", []string{"--token-auth-file", "/nowhere"}},
		{"plugin", "NoSuchPlugin", []string{"--enable-admission-plugins", "NoSuchPlugin"}},
		{"issuers", `unknown field "jwt[0].isuer"`, []string{"--authentication-config", written(t, "a", structuredHeader+"jwt: [{isuer: {}}]")}},
		{"our own issuer", "jwt[0].issuer.url", []string{"--authentication-config", written(t, "a", structuredHeader+
			"jwt: [{issuer: {url: 'https://kubernetes.default.svc', audiences: [x]}, claimMappings: {username: {claim: sub, prefix: ''}}}]")}},
		{"anonymous twice", "--anonymous-auth cannot be set", []string{"--anonymous-auth", "--authentication-config", written(t, "a", structuredHeader+"anonymous: {enabled: true}")}},
		{"everything to everybody", "--authorization-mode=AlwaysAllow", []string{"--authorization-mode", "AlwaysAllow", "--authentication-config", written(t, "a", structuredHeader+"anonymous: {enabled: true}")}},
		{"limits", "EventRateLimit", []string{"--enable-admission-plugins", "EventRateLimit"}},
	} {
		o, err := parse(append([]string{"--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--runtime", "fake", "--storage", "memory"}, test.arguments...)...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience) // when it does start
		err = run(ctx, o, io.Discard, logr.Discard())
		cancel()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
