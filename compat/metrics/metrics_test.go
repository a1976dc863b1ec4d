package metrics

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/observe"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/storage"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"
)

// A family is what a dashboard needs to know of a metric.
type family struct {
	kind    string
	labels  []string
	buckets []float64
}

func (f family) String() string { return fmt.Sprintf("%s %v %v", f.kind, f.labels, f.buckets) }

// parse adds the families in an exposition to all. Its labels are those of any series.
func parse(t *testing.T, all map[string]family, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("TextToMetricFamilies() = %v, want nil", err)
	}
	for name, f := range families {
		one := family{kind: strings.ToLower(f.GetType().String())}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				one.labels = append(one.labels, l.GetName())
			}
			one.buckets = bounds(m)
		}
		slices.Sort(one.labels)
		one.labels = slices.Compact(one.labels)
		if _, ok := all[name]; !ok { // cAdvisor has further labels for series of the kubelet's
			all[name] = one
		}
	}
}

func bounds(m *dto.Metric) (list []float64) {
	for _, b := range m.GetHistogram().GetBucket() {
		if !math.IsInf(b.GetUpperBound(), 1) {
			list = append(list, b.GetUpperBound())
		}
	}
	return list
}

// requests make a server count what it counts only when it happens.
var requests = []struct{ method, path, body string }{
	{"POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
		"metadata":{"name":"gone"},"webhooks":[{"name":"gone.example.com","failurePolicy":"Ignore","clientConfig":{"url":"https://127.0.0.1:1/"},
		"rules":[{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`},
	{"POST", "/apis/apiregistration.k8s.io/v1/apiservices", `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.gone.example.com"},
		"spec":{"group":"gone.example.com","version":"v1","groupPriorityMinimum":1000,"versionPriority":10,"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"gone"}}}`},
	{"GET", "/api/v1/namespaces/default/endpoints", ""},
	{"GET", "/readyz", ""},
	{"GET", "/api/v1/namespaces/default/configmaps?watch=true&timeoutSeconds=1", ""},
	{"GET", "/api/v1/pods?timeout=1ns", ""},
	{"POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c-"}}`},
}

// A get sends a request with its credentials and returns the response's body.
type get func(method, path, body string) string

// exercise sends the requests, and returns the families of paths once those of wanted are among them.
func exercise(t *testing.T, send get, paths, wanted []string) map[string]family {
	t.Helper()
	for _, r := range requests {
		send(r.method, r.path, r.body)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		send("POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c-"}}`)
		all := map[string]family{}
		for _, path := range paths {
			parse(t, all, send("GET", path, ""))
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool { _, ok := all[name]; return ok })
		if len(missing) == 0 {
			return all
		}
		if time.Now().After(deadline) {
			t.Errorf("after a minute there is no %v", missing)
			return all
		}
	}
}

// ours starts a plane with a node and returns its families.
func ours(t *testing.T, store storage.Store) map[string]family {
	t.Helper()
	p := planetest.Start(t, planetest.Nodes(1), planetest.With(func(c *plane.Config) {
		c.Store = store
		if err := observe.Add(c, observe.Options{}); err != nil {
			t.Error(err)
		}
	}))
	// A pod is scheduled, runs and is probed.
	send := func(method, path, body string) string {
		r := client.Request{Method: method, Path: path, Body: []byte(body)}
		if before, query, ok := strings.Cut(path, "?"); ok {
			r.Path, r.Query = before, values(t, query)
		}
		answer, err := p.Client().Do(t.Context(), r)
		if err != nil {
			return "" // some requests must fail
		}
		return string(answer.Body)
	}
	nodes := "/api/v1/nodes/" + nodeName(t, p) + "/proxy"
	send("POST", "/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"probed"},"spec":{"containers":[{"name":"c","image":"busybox",
		"readinessProbe":{"exec":{"command":["true"]},"periodSeconds":1}}]}}`)
	send("POST", "/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"homeless"},"spec":{"nodeSelector":{"no":"node"},"containers":[{"name":"c","image":"busybox"}]}}`)
	return exercise(t, send, []string{"/metrics", "/metrics/slis", nodes + "/metrics/resource", nodes + "/metrics", nodes + "/metrics/probes", nodes + "/metrics/cadvisor"},
		[]string{"apiserver_admission_webhook_admission_duration_seconds", "aggregator_unavailable_apiservice", "scheduler_pod_scheduling_attempts", "scheduler_unschedulable_pods",
			"container_cpu_usage_seconds_total", "prober_probe_total", "apiserver_request_terminations_total"})
}

// row is a row of the tables.
var row = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// listed returns the differences in the table of COMPATIBILITY.md below a heading.
func listed(t *testing.T, heading string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "COMPATIBILITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(data), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("COMPATIBILITY.md has no heading %q", heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	out := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		out[m[1]] = m[2]
	}
	return out
}

// compare reports where the differences are not those of the table. The reasons in the third column are for readers.
func compare(t *testing.T, heading string, differences map[string]string) {
	t.Helper()
	want := listed(t, heading)
	for name, difference := range differences {
		if want[name] != difference {
			t.Errorf("| `%s` | %s | | (COMPATIBILITY.md has %q)", name, difference, want[name])
		}
	}
	for name, difference := range want {
		if differences[name] == "" {
			t.Errorf("%s is listed with %q, but there is no difference", name, difference)
		}
	}
}

// difference says how have departs from want, empty if it does not.
func difference(have, want family, ok bool) string {
	switch {
	case !ok:
		return "missing"
	case have.kind != want.kind:
		return "a " + have.kind + ", not a " + want.kind
	case !slices.Equal(have.labels, want.labels):
		return fmt.Sprintf("labels %s, not %s", strings.Join(have.labels, " "), strings.Join(want.labels, " "))
	case !slices.EqualFunc(have.buckets, want.buckets, func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) }):
		return "other buckets"
	}
	return ""
}

// TestMetrics compares the metrics of a plane with those of Kubernetes.
func TestMetrics(t *testing.T) {
	bin, err := stock.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := stock.NewServer(t, bin, "--disable-admission-plugins", "ServiceAccount")
	theirs := exercise(t, stockSend(t, s), []string{"/metrics", "/metrics/slis"},
		[]string{"apiserver_admission_webhook_admission_duration_seconds", "aggregator_unavailable_apiservice", "apiserver_storage_size_bytes"})
	have := ours(t, shared(t, s))
	t.Run("Stable", func(t *testing.T) { compareStable(t, have) })
	t.Run("Server", func(t *testing.T) { compareServer(t, have, theirs) })
}

// compareStable compares have with the list of STABLE and BETA metrics of all components.
func compareStable(t *testing.T, have map[string]family) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "test", "instrumentation", "testdata", "stable-metrics-list.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Name, Namespace, Subsystem, Type string
		Labels                           []string
		Buckets                          []float64
	}
	if err := yaml.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	differences := map[string]string{}
	for _, m := range list {
		name := strings.Join(slices.DeleteFunc([]string{m.Namespace, m.Subsystem, m.Name}, func(s string) bool { return s == "" }), "_")
		got, ok := have[name]
		want := family{strings.ToLower(m.Type), slices.Sorted(slices.Values(m.Labels)), m.Buckets}
		if m.Type == "Custom" { // the list does not say more
			want.kind = got.kind
		}
		if m.Type == "Histogram" && m.Buckets == nil { // they are computed
			want.buckets = got.buckets
		}
		if d := difference(got, want, ok); d != "" {
			differences[name] = d
		}
	}
	if len(list) < 80 {
		t.Errorf("the list has %d metrics, want at least 80", len(list))
	}
	compare(t, "### Metrics that are STABLE or BETA", differences)
}

// compareServer compares the families that both a plane and a running kube-apiserver show, and looks for those of rules.
func compareServer(t *testing.T, have, theirs map[string]family) {
	differences, both := map[string]string{}, 0
	for name, want := range theirs {
		got, ok := have[name]
		if !ok {
			continue
		}
		both++
		if d := difference(got, want, true); d != "" {
			differences[name] = d
		}
	}
	for _, name := range ofRules {
		want, counted := theirs[name]
		if have, ok := have[name]; counted && !ok {
			differences[name] = difference(have, want, ok)
		}
	}
	if both < 60 {
		t.Errorf("a plane and kube-apiserver share %d families, want at least 60", both)
	}
	compare(t, "### Metrics beside a running kube-apiserver", differences)
}

// ofRules are the series of an API server that the rules of kubernetes-mixin and kube-prometheus read.
var ofRules = []string{
	"aggregator_unavailable_apiservice", "aggregator_unavailable_apiservice_total", "apiserver_client_certificate_expiration_seconds",
	"apiserver_current_inflight_requests", "apiserver_request_sli_duration_seconds", "apiserver_request_duration_seconds", "apiserver_request_terminations_total", "apiserver_request_total",
	"apiserver_storage_objects", "apiserver_storage_size_bytes", "etcd_request_duration_seconds", "kubernetes_build_info", "workqueue_adds_total", "workqueue_depth",
	"workqueue_queue_duration_seconds", "process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines",
}
