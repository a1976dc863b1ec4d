package webhook_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"go.uber.org/goleak"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a server with webhooks, and an administrator.
type world struct {
	t      *testing.T
	server *apiservertest.Server
	plugin *webhook.Plugin
	audit  *auditor
}

// begin starts a world; change may change the plugin's configuration. It serves more beside the kinds of Kubernetes.
func begin(t *testing.T, change func(*webhook.Config), more ...apiserver.Resource) *world {
	t.Helper()
	w := &world{t: t, audit: &auditor{}}
	api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return w.server.Transport(&user.Info{Name: user.APIServer, Groups: []string{user.Masters}}).RoundTrip(r)
	})))
	if err != nil {
		t.Fatal(err)
	}
	namespaces, mutating, validating := newCache(t, typed.Namespaces(api)), newCache(t, typed.MutatingWebhookConfigurations(api)), newCache(t, typed.ValidatingWebhookConfigurations(api))
	masters := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.In(user.Masters) {
			return authz.Allow, "", nil
		}
		return authz.NoOpinion, "", nil
	})
	conditions, err := matchcel.New(matchcel.Config{Authorizer: masters})
	if err != nil {
		t.Fatal(err)
	}
	config := webhook.Config{
		Mutating: mutating, Validating: validating, Namespaces: namespaces, Compile: conditions.Compile,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return typed.Namespaces(api).Get(ctx, "", name)
		},
	}
	if change != nil {
		change(&config)
	}
	if w.plugin, err = webhook.New(config); err != nil {
		t.Fatal(err)
	}
	chain := admission.Chain{
		Mutators:   []admission.Mutator{w.plugin},
		Validators: []admission.Validator{webhook.CheckConditions(conditions.Check), w.plugin},
	}
	w.server = apiservertest.Start(t, apiservertest.WithResources(append(kube.Resources(), more...)...), apiservertest.WithAdmission(chain),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Auditor, c.Authorizer = w.audit, masters }))
	for _, run := range []func(context.Context) error{namespaces.Run, mutating.Run, validating.Run, w.plugin.Run} {
		background(t, run)
	}
	<-w.plugin.Synced()
	return w
}

func newCache[T client.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	t.Helper()
	made, err := informer.For(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// background runs something until the test ends.
func background(t *testing.T, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// answer is a response of the server.
type answer struct {
	code     int
	body     map[string]any
	warnings []string
}

func (a answer) message() string { s, _ := a.body["message"].(string); return s }

// field returns what is at a path such as "metadata.labels.app".
func (a answer) field(path string) any {
	var v any = a.body
	for _, step := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[step]
	}
	return v
}

// do sends a request as the administrator.
func (w *world) do(method, path, body string) answer {
	return w.within(w.t.Context(), method, path, body)
}

func (w *world) within(ctx context.Context, method, path, body string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	reply, err := w.server.Client().Do(r)
	if err != nil {
		return answer{code: -1}
	}
	defer reply.Body.Close()
	a := answer{code: reply.StatusCode, warnings: reply.Header.Values("Warning")}
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if json.Unmarshal(text, &a.body) != nil { // as below a group that is not served yet
		a.body = map[string]any{"message": string(text)}
	}
	return a
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// make creates a config map, with labels such as `"app": "web"`.
func (w *world) make(name, labels string) answer {
	w.t.Helper()
	return w.do(http.MethodPost, configMaps, `{"metadata":{"name":"`+name+`","labels":{`+labels+`}}}`)
}

// check compares an answer's code and message.
func (w *world) check(a answer, code int, message string) {
	w.t.Helper()
	if a.code != code || a.message() != message && (message == "" || !strings.Contains(a.message(), message)) {
		w.t.Errorf("%d %q; want %d %q", a.code, a.message(), code, message)
	}
}

// configure creates a configuration of one webhook for config maps, changed by
// change, and waits until it is in force.
func (w *world) configure(configuration string, mutates bool, at registration.WebhookClientConfig, change func(*registration.MutatingWebhook)) {
	w.t.Helper()
	none, fail := registration.SideEffectClassNone, registration.Fail
	hook := registration.MutatingWebhook{
		Name: configuration + ".example.com", ClientConfig: at, SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
		Rules: []registration.RuleWithOperations{ruleOf("CREATE,UPDATE,DELETE", "", "v1", "configmaps")},
	}
	if change != nil {
		change(&hook)
	}
	kind, plural := "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
	var hooks any = []registration.ValidatingWebhook{{
		Name: hook.Name, ClientConfig: hook.ClientConfig, Rules: hook.Rules, FailurePolicy: hook.FailurePolicy, SideEffects: hook.SideEffects,
		NamespaceSelector: hook.NamespaceSelector, ObjectSelector: hook.ObjectSelector, TimeoutSeconds: hook.TimeoutSeconds,
		AdmissionReviewVersions: hook.AdmissionReviewVersions, MatchConditions: hook.MatchConditions, MatchPolicy: hook.MatchPolicy,
	}}
	if mutates {
		kind, plural, hooks = "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", []registration.MutatingWebhook{hook}
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
		"metadata": map[string]any{"name": configuration}, "webhooks": hooks})
	if err != nil {
		w.t.Fatal(err)
	}
	if a := w.do(http.MethodPost, "/apis/admissionregistration.k8s.io/v1/"+plural, string(body)); a.code != http.StatusCreated {
		w.t.Fatalf("%s: %d %s", configuration, a.code, a.message())
	}
	eventually(w.t, func() bool { return w.plugin.Knows(hook.Name) })
}

func ruleOf(operations, group, version, resources string) registration.RuleWithOperations {
	r := registration.RuleWithOperations{Rule: registration.Rule{
		APIGroups: []string{group}, APIVersions: []string{version}, Resources: strings.Split(resources, ",")}}
	for _, op := range strings.Split(operations, ",") {
		r.Operations = append(r.Operations, registration.OperationType(op))
	}
	return r
}

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 2 * time.Minute

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatalf("it has not come about in %v", patience)
		}
	}
}

// hookServer is a webhook.
type hookServer struct {
	*httptest.Server
	ca []byte

	mu      sync.Mutex
	asked   []*admissionapi.AdmissionRequest
	raw     [][]byte
	queries []string
	hosts   []string
	peers   map[string]bool
}

// serve starts a webhook over TLS; respond makes the answer to a review.
func serve(t *testing.T, respond func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse) *hookServer {
	t.Helper()
	return serveHTTP(t, func(w http.ResponseWriter, review *admissionapi.AdmissionReview, _ *http.Request) {
		review.Response = respond(review.Request)
		review.Response.UID = review.Request.UID
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	})
}

func serveHTTP(t *testing.T, handle func(http.ResponseWriter, *admissionapi.AdmissionReview, *http.Request)) *hookServer {
	t.Helper()
	h := &hookServer{peers: map[string]bool{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var review admissionapi.AdmissionReview
		if err := json.Unmarshal(data, &review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		h.mu.Lock()
		h.asked, h.raw = append(h.asked, review.Request), append(h.raw, data)
		h.queries, h.hosts = append(h.queries, r.URL.RawQuery), append(h.hosts, r.Host)
		h.peers[r.RemoteAddr] = true
		h.mu.Unlock()
		handle(w, &review, r)
	}))
	var certificate tls.Certificate
	certificate, h.ca = newCertificate(t)
	h.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequestClientCert}
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that fail are part of the tests
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) calls() []*admissionapi.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]*admissionapi.AdmissionRequest(nil), h.asked...)
}

// at is how the webhook is reached by its URL, whose path is cleaned.
func (h *hookServer) at() registration.WebhookClientConfig {
	url := h.URL + "//review/"
	return registration.WebhookClientConfig{URL: &url, CABundle: h.ca}
}

// newCertificate is for the loopback address and for hook.system.svc.
func newCertificate(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"hook.system.svc"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func allow(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
	return &admissionapi.AdmissionResponse{Allowed: true}
}

func deny(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
	return &admissionapi.AdmissionResponse{Result: &metav1.Status{Message: "no"}}
}

// patchWith answers with a patch.
func patchWith(patch string) func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
	return func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		kind := admissionapi.PatchTypeJSONPatch
		return &admissionapi.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	}
}

// auditor keeps the annotations of requests that are not reads.
type auditor struct {
	bodies atomic.Bool // are wanted
	mu     sync.Mutex
	open   int
	latest map[string]string
}

func (a *auditor) Begin(r *http.Request, _ authz.Attributes) apiserver.Trail {
	if r.Method == http.MethodGet {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open++
	a.latest = map[string]string{}
	return &trail{auditor: a, annotations: a.latest}
}

// last are the annotations of the request that began last, once all have ended:
// a client may have its answer before.
func (a *auditor) last(t *testing.T) (annotations map[string]string) {
	t.Helper()
	eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		annotations = a.latest
		return a.open == 0
	})
	return annotations
}

type trail struct {
	auditor     *auditor
	annotations map[string]string
}

func (*trail) ID() string                      { return "id" }
func (t *trail) Wants() (request, answer bool) { return t.auditor.bodies.Load(), false }
func (*trail) Impersonates(*user.Info, string) {}
func (*trail) Decided(bool, string)            {}
func (*trail) Started(int)                     {}
func (t *trail) Annotate(key, value string) {
	if _, ok := t.annotations[key]; !ok {
		t.annotations[key] = value
	}
}

func (t *trail) Done(apiserver.Outcome) {
	t.auditor.mu.Lock()
	defer t.auditor.mu.Unlock()
	t.auditor.open--
}
