package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/metrics"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"github.com/planekit/planekit/storage/storagetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func Example() {
	m := metrics.New()
	m.Hooks().Began(apiserver.RequestSummary{Verb: "list"})
	m.Hooks().Ended(apiserver.RequestSummary{Verb: "list", Code: 200})
	w := &page{}
	m.Handler().ServeHTTP(w, &http.Request{Method: http.MethodGet})
	for line := range strings.Lines(w.String()) {
		if strings.HasPrefix(line, "apiserver_request_total") {
			fmt.Print(line)
		}
	}
	// Output: apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="LIST",version=""} 1
}

// page is a response that is only read.
type page struct{ strings.Builder }

func (p *page) Header() http.Header { return http.Header{} }
func (p *page) WriteHeader(int)     {}

func start(t *testing.T) (*apiservertest.Server, func(method, path, body string) string) {
	t.Helper()
	m := metrics.New()
	control, err := flowcontrol.NewController(flowcontrol.Default(10))
	if err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Start(t, apiservertest.WithResources(apiserver.Resource{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}), apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Hooks = m.Hooks()
		c.FlowControl = control
		c.Store = m.Store(c.Store)
		c.Handlers = map[string]http.Handler{"/metrics": m.Handler()}
	}))
	m.CountObjects(s.CountStored)
	m.NameResources(s.ResourceAt)
	m.FlowControl(control)
	return s, func(method, path, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

func TestSeries(t *testing.T) {
	_, do := start(t)
	const path = "/api/v1/namespaces/default/configmaps"
	do("POST", path, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
	do("POST", path+"?dryRun=All", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`)
	do("GET", path, "")
	do("GET", path+"/none", "")
	do("GET", path+"?watch=true&timeoutSeconds=1", "")
	do("BREW", "/coffee/1", "")
	do("GET", "/api/v1/namespaces/default/inventions", "")
	got := do("GET", "/metrics", "")
	const of = `,group="",resource="configmaps",scope=`
	for _, want := range []string{
		`apiserver_request_total{code="201",component="apiserver",dry_run=""` + of + `"resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="201",component="apiserver",dry_run="All"` + of + `"resource",subresource="",verb="POST",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run=""` + of + `"namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run=""` + of + `"resource",subresource="",verb="GET",version="v1"} 1`,
		`apiserver_request_total{code="200",component="apiserver",dry_run=""` + of + `"namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="",scope="",subresource="",verb="LIST",version=""} 1`,
		`verb="other",version=""} 1`,
		`apiserver_request_duration_seconds_count{component="apiserver",dry_run=""` + of + `"namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_response_sizes_count{component="apiserver"` + of + `"namespace",subresource="",verb="LIST",version="v1"} 1`,
		`apiserver_current_inflight_requests{request_kind="readOnly"} 1`, // this one
		`apiserver_current_inflight_requests{request_kind="mutating"} 0`,
		`apiserver_longrunning_requests{component="apiserver"` + of + `"namespace",subresource="",verb="WATCH",version="v1"} 0`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver"` + of + `"namespace",subresource="",verb="WATCH",version="v1"} 1`,
		`apiserver_request_sli_duration_seconds_count{component="apiserver"` + of + `"resource",subresource="",verb="POST",version="v1"} 1`, // not the dry run
		`apiserver_request_body_size_bytes_count{group="",resource="configmaps",verb="create"} 2`,
		`apiserver_request_body_size_bytes_sum{group="",resource="configmaps",verb="create"} 124`,
		`apiserver_storage_objects{resource="configmaps"} 1`,
		`apiserver_resource_objects{group="",resource="configmaps"} 1`,
		`apiserver_flowcontrol_current_executing_seats{flow_schema="exempt",priority_level="exempt"} 1`, // this one
		`apiserver_flowcontrol_current_inqueue_seats{flow_schema="exempt",priority_level="exempt"} 0`,
		`etcd_request_duration_seconds_count{group="",operation="create",resource="configmaps"} 1`,
		`apiserver_flowcontrol_nominal_limit_seats{priority_level="node-high"} 2`,
		`apiserver_flowcontrol_current_executing_requests{flow_schema="exempt",priority_level="exempt"} 1`, // this one
		`apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"} 8`,
		`apiserver_flowcontrol_rejected_requests_total{flow_schema="catch-all",priority_level="catch-all",reason="queue-full"} 0`,
		`apiserver_flowcontrol_request_wait_duration_seconds_count{execute="true",flow_schema="exempt",priority_level="exempt"} 7`,
		`apiserver_flowcontrol_request_execution_seconds_count{flow_schema="exempt",priority_level="exempt",type="watch"} 1`,
		`apiserver_flowcontrol_work_estimated_seats_sum{flow_schema="exempt",priority_level="exempt"} 7`,
		"go_goroutines ", "process_cpu_seconds_total ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(got, "inventions") || strings.Contains(got, "brew") {
		t.Error("a client's invention became a label")
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestOnlyWhoMayReads(t *testing.T) {
	s, _ := start(t)
	response, err := s.As("joe").Get(s.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Error(response.Status)
	}
}

// TestMeasuredStore shows that a store behind these metrics is still one.
func TestMeasuredStore(t *testing.T) {
	storagetest.Run(t, func(testing.TB) storage.Store { return metrics.New().Store(memstore.New()) }, storagetest.VirtualTime())
}
