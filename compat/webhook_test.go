package compat

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKubectlWebhooks: kubectl and a server with a mutating and a validating
// webhook, configured through kubectl.
func TestKubectlWebhooks(t *testing.T) {
	shows(t, "kubectl", "admission webhooks: create, get, describe and delete the configurations; a label added, a refusal with its message, a warning, "+
		"--dry-run=server, match conditions, a selector of namespaces, a webhook that is down")
	hooks := httptest.NewTLSServer(http.HandlerFunc(reviewConfigMap))
	t.Cleanup(hooks.Close)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, serveWebhooks(t).Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(stdin, arguments string) string {
		cmd := exec.Command(filepath.Join(kubectl(t), "kubectl"), append([]string{"--kubeconfig", kubeconfig}, strings.Fields(arguments)...)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		out, _ := cmd.CombinedOutput() // some steps must fail
		return string(out)
	}
	// until runs kubectl until its output contains the wanted text, because configurations take
	// effect a moment after they are stored.
	until := func(arguments, want string) {
		t.Helper()
		var out string
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			if out = run("", arguments); strings.Contains(out, want) {
				return
			}
		}
		t.Errorf("kubectl %s:\n%s\nwant %s", arguments, out, want)
	}
	steps := func(steps [][3]string) {
		t.Helper()
		for _, step := range steps {
			if out := run(step[0], step[1]); !strings.Contains(out, step[2]) {
				t.Errorf("kubectl %s:\n%s\nwant %s", step[1], out, step[2])
			}
		}
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw})
	configuration := func(kind, name, more string) string {
		return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,"metadata":{"name":%q},"webhooks":[{"name":"%s.example.com",
			"clientConfig":{"url":"%s/%s","caBundle":%q},"rules":[{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}],
			"sideEffects":"None","admissionReviewVersions":["v1"]%s}]}`, kind, name, name, hooks.URL, name, base64.StdEncoding.EncodeToString(ca), more)
	}
	const mutating, validating = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
	steps([][3]string{
		{"", "create namespace default", "created"},
		{"", "create namespace free", "created"},
		{"", "label namespace free checked=no", "labeled"},
		{configuration(mutating, "label", ""), "create -f -", "mutatingwebhookconfiguration.admissionregistration.k8s.io/label created"},
		{configuration(validating, "check", `,"namespaceSelector":{"matchExpressions":[{"key":"checked","operator":"NotIn","values":["no"]}]},`+
			`"matchConditions":[{"name":"not-exempt","expression":"!object.metadata.name.startsWith('exempt')"}]`), "apply -f -",
			"validatingwebhookconfiguration.admissionregistration.k8s.io/check created"},
		{configuration(validating, "wrong", `,"matchConditions":[{"name":"x","expression":"object.metadata.name"}]`), "create -f -", "must evaluate to bool but got dyn"},
		{"", "get mutatingwebhookconfigurations,validatingwebhookconfigurations", "/label   1          "},
		{"", "describe validatingwebhookconfiguration check", "Failure Policy:  Fail"},
	})
	until("create configmap bad --from-literal=k=v", `error: failed to create configmap: admission webhook "check.example.com" denied the request: not that one`)
	until("create configmap probe --dry-run=server -o yaml", "labelled: by-webhook")
	steps([][3]string{
		{"", "create configmap good --from-literal=k=v", "Warning: it is looked at\nconfigmap/good created"},
		{"", "get configmap good --show-labels", "labelled=by-webhook"},
		{"", "annotate configmap good a=b", "configmap/good annotated"},
		{"", "create configmap exempt-bad --from-literal=k=v", "configmap/exempt-bad created"},
		{"", "create configmap bad -n free", "configmap/bad created"},
		{"", "get configmap bad -n free", "bad "},
	})
	hooks.Close()
	steps([][3]string{
		{"", "create configmap late", `Internal error occurred: failed calling webhook "label.example.com": failed to call webhook: Post "` + hooks.URL + `/label?timeout=10s"`},
		{"", "delete mutatingwebhookconfiguration label", "deleted"},
		{"", "delete validatingwebhookconfiguration check", "deleted"},
	})
	until("create configmap late", "configmap/late created")
}

// reviewConfigMap labels config maps at /label and refuses those named bad at /check.
func reviewConfigMap(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	asked := review.Request
	answer := &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true}
	if r.URL.Path == "/label" {
		kind := admissionv1.PatchTypeJSONPatch
		answer.PatchType, answer.Patch = &kind, []byte(`[{"op":"add","path":"/metadata/labels","value":{"labelled":"by-webhook"}}]`)
	} else {
		answer.Warnings = []string{"it is looked at"}
		if strings.HasSuffix(asked.Name, "bad") {
			answer.Allowed, answer.Result = false, &metav1.Status{Message: "not that one", Code: http.StatusForbidden}
		}
	}
	review.Request, review.Response = nil, answer
	_ = json.NewEncoder(w).Encode(review)
}

// serveWebhooks starts a server that asks webhooks.
func serveWebhooks(t *testing.T) *apiservertest.Server {
	t.Helper()
	var server *apiservertest.Server
	api, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return server.Transport(&user.Info{Name: user.APIServer, Groups: []string{user.Masters}}).RoundTrip(r)
	})))
	if err != nil {
		t.Fatal(err)
	}
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	namespaces, mutating, validating := newCache(t, typed.Namespaces(api)), newCache(t, typed.MutatingWebhookConfigurations(api)), newCache(t, typed.ValidatingWebhookConfigurations(api))
	plugin, err := webhook.New(webhook.Config{
		Mutating: mutating, Validating: validating, Namespaces: namespaces, Compile: conditions.Compile,
		Lookup: func(ctx context.Context, name string) (*corev1.Namespace, error) {
			return typed.Namespaces(api).Get(ctx, "", name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	server = apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAdmission(admission.Chain{
		Mutators:   []admission.Mutator{plugin},
		Validators: []admission.Validator{webhook.CheckConditions(conditions.Check), plugin},
	}))
	for _, run := range []func(context.Context) error{namespaces.Run, mutating.Run, validating.Run, plugin.Run} {
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
	<-plugin.Synced()
	return server
}

func newCache[T client.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	t.Helper()
	made, err := informer.For(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}
