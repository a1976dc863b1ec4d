package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/audit"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	nodev1beta1 "k8s.io/api/node/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func Example() {
	policy, err := audit.ParsePolicy([]byte(head + "omitStages: [ResponseComplete]\nrules: [{level: Metadata, resources: [{resources: [secrets]}]}]"))
	if err != nil {
		fmt.Println(err)
		return
	}
	log, err := audit.New(audit.Config{Policy: policy, Out: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	r := httptest.NewRequest("GET", "/api/v1/pods", nil)
	fmt.Println(log.Begin(r, authz.Attributes{Verb: "list", Resource: "pods"}) == nil)
	// Output: true
}

// sink collects lines.
type sink struct {
	mu sync.Mutex
	bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Buffer.Write(p)
}

type line struct {
	Kind, APIVersion, Level, AuditID, Stage, RequestURI, Verb, UserAgent string
	User, ImpersonatedUser                                               struct {
		Username string
		Groups   []string
	}
	SourceIPs      []string
	ObjectRef      map[string]string
	ResponseStatus struct {
		Code                    int
		Status, Message, Reason string
	}
	RequestObject, ResponseObject            map[string]any
	RequestReceivedTimestamp, StageTimestamp string
	Annotations                              map[string]string
}

// served runs requests against a server with this policy and returns the lines.
func served(t *testing.T, rules string, requests func(s *apiservertest.Server), options ...apiservertest.Option) []line {
	t.Helper()
	policy, err := audit.ParsePolicy([]byte(head + rules))
	if err != nil {
		t.Fatal(err)
	}
	out := &sink{}
	log, err := audit.New(audit.Config{Policy: policy, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("requests", func(t *testing.T) {
		s := apiservertest.Start(t, append([]apiservertest.Option{apiservertest.WithResources(apiserver.Resource{
			Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Namespaced: true,
			New:     func() runtime.Object { return &corev1.ConfigMap{} },
			NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
		}), apiservertest.WithConfig(func(c *apiserver.Config) { c.Auditor = log })}, options...)...)
		requests(s)
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := log.Run(ctx); err != nil { // writes what waits
		t.Fatal(err)
	}
	var lines []line
	for text := range strings.Lines(out.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// need ends the test unless there are n lines.
func need(t *testing.T, lines []line, n int) {
	t.Helper()
	if len(lines) != n {
		t.Fatalf("the log has %d lines, want %d: %+v", len(lines), n, lines)
	}
}

func do(t *testing.T, client *http.Client, method, url, body string, headers ...string) http.Header {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
		return nil
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.Header
}

const path = "/api/v1/namespaces/default/configmaps"

func TestMetadata(t *testing.T) {
	lines := served(t, "rules: [{level: Metadata}]", func(s *apiservertest.Server) {
		h := do(t, s.Client(), "POST", s.URL+path+"?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`, "Audit-ID: mine", "User-Agent: test/1")
		if h.Get("Audit-ID") != "mine" {
			t.Errorf("headers %v", h)
		}
		do(t, s.As("joe"), "GET", s.URL+path+"/a", "")
	})
	need(t, lines, 4)
	received, complete, refused := lines[0], lines[1], lines[3]
	if received.Stage != "RequestReceived" || complete.Stage != "ResponseComplete" || received.AuditID != "mine" || complete.AuditID != "mine" || refused.AuditID == "mine" || refused.AuditID == "" {
		t.Errorf("the lines are %+v, want RequestReceived and ResponseComplete of ID mine first, and another ID in the fourth", lines)
	}
	if c := complete; c.Kind != "Event" || c.APIVersion != "audit.k8s.io/v1" || c.Level != "Metadata" || c.Verb != "create" ||
		c.RequestURI != path+"?fieldManager=m" || c.User.Username != "admin" || c.UserAgent != "test/1" || c.ResponseStatus.Code != 201 ||
		c.ObjectRef["resource"] != "configmaps" || c.ObjectRef["namespace"] != "default" || c.ObjectRef["apiVersion"] != "v1" ||
		!slices.Equal(c.SourceIPs, []string{"127.0.0.1"}) || c.Annotations["authorization.k8s.io/decision"] != "allow" || c.RequestObject != nil {
		t.Errorf("the second line is %+v, want an Event of audit.k8s.io/v1 of level Metadata with code 201 and the decision allow, "+
			"for a create of configmaps (v1) in default by admin with test/1 from 127.0.0.1 at %s?fieldManager=m, and no requestObject",
			c, path)
	}
	if _, err := time.Parse("2006-01-02T15:04:05.000000Z", complete.StageTimestamp); err != nil || complete.RequestReceivedTimestamp != received.StageTimestamp {
		t.Errorf("the stageTimestamp is %q, %v, want microseconds; the requestReceivedTimestamp is %q, want %q",
			complete.StageTimestamp, err, complete.RequestReceivedTimestamp, received.StageTimestamp)
	}
	if r := refused; r.ResponseStatus.Code != 403 || r.ResponseStatus.Reason != "Forbidden" || r.User.Username != "joe" || r.Annotations["authorization.k8s.io/decision"] != "forbid" {
		t.Errorf("the fourth line is %+v, want 403 Forbidden for joe with the decision forbid", r)
	}
}

func TestUnknownClientsAreWrittenDown(t *testing.T) {
	lines := served(t, "rules: [{level: Metadata}]", func(s *apiservertest.Server) { do(t, s.Anonymous(), "GET", s.URL+path, "") })
	if len(lines) != 2 || lines[1].ResponseStatus.Code != 401 || lines[1].User.Username != "" {
		t.Errorf("the lines are %+v, want 2, the second with code 401 and no user name", lines)
	}
}

func TestBodies(t *testing.T) {
	object := &corev1.ConfigMap{Data: map[string]string{"k": "proto"}}
	object.Name, object.Kind, object.APIVersion = "b", "ConfigMap", "v1"
	raw, err := object.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Raw: raw}
	body, err := unknown.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	const proto = "application/vnd.kubernetes.protobuf"
	lines := served(t, "omitStages: [RequestReceived]\nomitManagedFields: true\nrules: [{level: RequestResponse, verbs: [create, list]}, {level: Request}]", func(s *apiservertest.Server) {
		do(t, s.Client(), "POST", s.URL+path, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n", "Content-Type: application/yaml")
		do(t, s.Client(), "POST", s.URL+path, "k8s\x00"+string(body), "Content-Type: "+proto, "Accept: "+proto)
		do(t, s.Client(), "GET", s.URL+path, "", "Accept: "+proto)
		do(t, s.Client(), "PATCH", s.URL+path+"/a", `{"data":{"k":"w"}}`, "Content-Type: application/merge-patch+json")
	})
	need(t, lines, 4)
	data := func(o map[string]any) any { d, _ := o["data"].(map[string]any); return d["k"] }
	if l := lines[0]; data(l.RequestObject) != "v" || data(l.ResponseObject) != "v" {
		t.Errorf("YAML: %+v", l)
	}
	if l := lines[1]; data(l.RequestObject) != "proto" || data(l.ResponseObject) != "proto" {
		t.Errorf("protobuf: %+v", l)
	}
	for _, l := range lines {
		if text := fmt.Sprint(l.ResponseObject); strings.Contains(text, "managedFields") {
			t.Errorf("managed fields: %s", text)
		}
	}
	if items, _ := lines[2].ResponseObject["items"].([]any); len(items) != 2 {
		t.Errorf("list: %+v", lines[2].ResponseObject)
	}
	if l := lines[3]; data(l.RequestObject) != "w" || l.ResponseObject != nil {
		t.Errorf("patch at level Request: %+v", l)
	}
}

func TestWatchAndPanic(t *testing.T) {
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: RequestResponse}]", func(s *apiservertest.Server) {
		do(t, s.Client(), "GET", s.URL+path+"?watch=true&timeoutSeconds=1", "")
		do(t, s.Client(), "POST", s.URL+path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
	}, apiservertest.WithAdmission(panics{}))
	var stages []string
	for _, l := range lines {
		stages = append(stages, l.Verb+" "+l.Stage)
	}
	if want := []string{"watch ResponseStarted", "watch ResponseComplete", "create Panic"}; !slices.Equal(stages, want) {
		t.Errorf("%v, want %v", stages, want)
	}
}

type panics struct{}

func (panics) Mutate(context.Context, *admission.Request) error   { panic("plugin") }
func (panics) Validate(context.Context, *admission.Request) error { return nil }

// TestPluginsAnnotate has an admission plugin say something of each request, and of
// its options.
func TestPluginsAnnotate(t *testing.T) {
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]", func(s *apiservertest.Server) {
		do(t, s.Client(), "POST", s.URL+path+"?fieldManager=me", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
		do(t, s.Client(), "PUT", s.URL+path+"/a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v"}}`)
		do(t, s.Client(), "DELETE", s.URL+path+"/a?gracePeriodSeconds=5", "")
	}, apiservertest.WithAdmission(annotates{}))
	need(t, lines, 3)
	for i, want := range []string{"*v1.CreateOptions", "*v1.UpdateOptions", "*v1.DeleteOptions"} {
		if got := lines[i].Annotations; got["example.com/options"] != want || got["authorization.k8s.io/decision"] != "allow" {
			t.Errorf("%s: %v, want %s", lines[i].Verb, got, want)
		}
	}
}

// annotates is a plugin that tells the audit which options there are; once told,
// it cannot tell otherwise, nor what others have told.
type annotates struct{}

func (annotates) Mutate(_ context.Context, r *admission.Request) error {
	r.Annotate("example.com/options", fmt.Sprintf("%T", r.Options))
	return nil
}

func (annotates) Validate(_ context.Context, r *admission.Request) error {
	r.Annotate("example.com/options", "second thoughts")
	r.Annotate("authorization.k8s.io/decision", "forbid")
	return nil
}

// TestDeprecatedVersions: requests for deprecated versions are marked, as Kubernetes marks them, also those that are refused;
// requests that are not routed are not.
func TestDeprecatedVersions(t *testing.T) {
	old := apiservertest.WithResources(apiserver.Resource{
		Group: "node.k8s.io", Version: "v1beta1", Kind: "RuntimeClass", Plural: "runtimeclasses",
		New:     func() runtime.Object { return &nodev1beta1.RuntimeClass{} },
		NewList: func() runtime.Object { return &nodev1beta1.RuntimeClassList{} },
	})
	const classes = "/apis/node.k8s.io/v1beta1/runtimeclasses"
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]", func(s *apiservertest.Server) {
		do(t, s.Client(), "GET", s.URL+path, "")
		do(t, s.Client(), "GET", s.URL+classes, "")
		do(t, s.Client(), "GET", s.URL+classes+"/none", "", "Accept: text/plain")
		do(t, s.Client(), "PUT", s.URL+classes, "")
	}, old)
	need(t, lines, 4)
	for i, want := range []string{"", "true 1.25", "true 1.25", ""} {
		got := strings.TrimSpace(lines[i].Annotations["k8s.io/deprecated"] + " " + lines[i].Annotations["k8s.io/removed-release"])
		if got != want {
			t.Errorf("%s %s: annotations of the version %q, want %q", lines[i].Verb, lines[i].RequestURI, got, want)
		}
	}
}

func TestImpersonation(t *testing.T) {
	lines := served(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata}]", func(s *apiservertest.Server) {
		do(t, s.Client(), "GET", s.URL+path, "", "Impersonate-User: jane", "Impersonate-Group: dev")
	})
	need(t, lines, 1)
	if l := lines[0]; l.User.Username != "admin" || l.ImpersonatedUser.Username != "jane" || !slices.Contains(l.ImpersonatedUser.Groups, "dev") {
		t.Errorf("the line is %+v, want the user admin as jane of the group dev", l)
	}
}

// stuck is a disk whose writes block until leave is closed.
type stuck struct{ leave chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.leave; return len(p), nil }

// TestFullBufferDoesNotHoldRequestsForEver lets the writer hang: a request waits
// its second, and goes on.
func TestFullBufferDoesNotHoldRequestsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy, err := audit.ParsePolicy([]byte(head + "omitStages: [RequestReceived]\nrules: [{level: Metadata}]"))
		if err != nil {
			t.Fatal(err)
		}
		out := stuck{make(chan struct{})}
		log, err := audit.New(audit.Config{Policy: policy, Out: out, Buffer: 2})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- log.Run(ctx) }()
		request := func() time.Duration {
			began := time.Now()
			r := httptest.NewRequest("GET", "/version", nil)
			log.Begin(r, authz.Attributes{User: &user.Info{Name: "joe"}, Verb: "get", Path: "/version"}).Done(apiserver.Outcome{Code: 200})
			return time.Since(began)
		}
		for i := range 3 { // one is being written, two wait
			if took := request(); took != 0 {
				t.Errorf("request %d took %v", i, took)
			}
			synctest.Wait()
		}
		if took := request(); took != time.Second || log.Dropped() != 1 {
			t.Errorf("took %v, %d dropped", took, log.Dropped())
		}
		close(out.leave)
		synctest.Wait()
		if took := request(); took != 0 || log.Dropped() != 1 {
			t.Errorf("after: took %v, %d dropped", took, log.Dropped())
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// broken fails its first write.
type broken struct {
	sink
	failed bool
}

func (b *broken) Write(p []byte) (int, error) {
	if !b.failed {
		b.failed = true
		return 0, errors.New("no space left on device")
	}
	return b.sink.Write(p)
}

func TestWriterThatFailsIsTriedAgain(t *testing.T) {
	policy, err := audit.ParsePolicy([]byte(head + "omitStages: [RequestReceived]\nrules: [{level: Metadata}]"))
	if err != nil {
		t.Fatal(err)
	}
	out := &broken{}
	log, err := audit.New(audit.Config{Policy: policy, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		r := httptest.NewRequest("GET", "/version", nil)
		log.Begin(r, authz.Attributes{Verb: "get", Path: "/version"}).Done(apiserver.Outcome{Code: 200})
		if err := log.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if log.Dropped() != 1 || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%d dropped, wrote %q", log.Dropped(), out.String())
	}
}
