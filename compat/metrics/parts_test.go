package metrics

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	podsecurityplugin "github.com/planekit/planekit/admission/podsecurity"
	podsecurity "github.com/planekit/planekit/admission/podsecurity/metrics"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	apimetrics "github.com/planekit/planekit/apiserver/metrics"
	kubeletmetrics "github.com/planekit/planekit/kubelet/metrics"
	"github.com/planekit/planekit/kubelet/probe"
	probemetrics "github.com/planekit/planekit/kubelet/probe/metrics"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/volumestats"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	workmetrics "github.com/planekit/planekit/reconcile/metrics"
	"github.com/planekit/planekit/schedule"
	schedulemetrics "github.com/planekit/planekit/schedule/metrics"
	"github.com/planekit/planekit/service/dns"
	dnsmetrics "github.com/planekit/planekit/service/dns/metrics"
	proxymetrics "github.com/planekit/planekit/service/proxy/metrics"
	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// parts returns the sections of the page, after each metric has a series.
func parts(t *testing.T) []part {
	const shared = "At `/metrics` of the API server, of what runs in its process: "
	m := apiServer(t)
	return []part{
		{"API server", "At `/metrics` of the API server: `apiserver/metrics`.", m.Describe, m.Handler()},
		{"Health checks", "At `/metrics/slis` of the API server: `apiserver/metrics`.", m.DescribeSLIs, m.SLIs()},
		registered("Pod Security admission", shared+"`admission/podsecurity/metrics`.", admitted(t)),
		registered("Controllers", shared+"`reconcile/metrics`.", worked(t)),
		registered("Scheduler", shared+"`schedule/metrics`.", scheduled(t)),
		kubelet(t),
		probed(t),
		registered("Service proxy", "At `/metrics` of 127.0.0.1:10249 of each node: `service/proxy/metrics`.", proxied(t)),
		registered("DNS", "At `/metrics` of 127.0.0.1:10249 of each node: `service/dns/metrics`.", answered(t)),
	}
}

// A faulty store fails, and knows its size.
type faulty struct{ storage.Store }

func (faulty) Get(context.Context, storage.Key, storage.Revision) (storage.Record, error) {
	return storage.Record{}, errors.New("faulty")
}

func (faulty) Size(context.Context) (int64, error) { return 1, nil }

// apiServer returns the metrics of an API server.
func apiServer(t *testing.T) *apimetrics.Metrics {
	m := apimetrics.New()
	knows(t, m, "APIServices", "Authenticator", "Build", "CountObjects", "Describe", "DescribeSLIs", "FlowControl", "Handler", "Hooks",
		"NameResources", "Plugin", "Register", "SLIs", "Store", "StoreSize", "Webhook")
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	hooks := m.Hooks()
	for _, verb := range []string{"get", "create"} {
		for _, yes := range []bool{true, false} {
			s := apiserver.RequestSummary{Verb: verb, Resource: pods, LongRunning: yes, Terminated: true, Deprecated: true, BodyBytes: 1,
				Flow: apiserver.FlowSummary{Level: "level", Rejected: yes}}
			hooks.Began(s)
			hooks.Ended(s)
		}
	}
	hooks.Admitted(apiserver.AdmissionSummary{})
	hooks.Checked("readyz", "ping", nil)
	hooks.Converted(apiserver.ConversionSummary{})
	m.Plugin("plugin", "admit", admission.Create, 0, nil)
	m.Webhook("webhook", true, admission.Create, 0, false)
	m.StoreSize(faulty{})
	if _, err := m.Store(faulty{}).Get(t.Context(), "key", 0); err == nil {
		t.Error("Get() = nil of a faulty store, want an error")
	}
	flow, err := flowcontrol.NewController(flowcontrol.Default(100))
	if err != nil {
		t.Fatal(err)
	}
	m.FlowControl(flow)
	m.Build(func() version.Info { return version.Info{} })
	m.APIServices(func() []apimetrics.APIService {
		return []apimetrics.APIService{{Name: "v1.example.com", Losses: map[string]uint64{"gone": 1}}}
	})
	m.CountObjects(func(context.Context) (map[schema.GroupResource]int64, error) {
		return map[schema.GroupResource]int64{pods.GroupResource(): 1}, nil
	})
	return m
}

func admitted(t *testing.T) *podsecurity.Metrics {
	m := podsecurity.New()
	knows(t, m, "Collect", "Describe", "Hooks")
	hooks := m.Hooks()
	hooks.Evaluated(&admission.Request{}, podsecurityplugin.Evaluation{})
	hooks.Exempted(&admission.Request{})
	hooks.Failed(&admission.Request{}, true)
	return m
}

// An idle queue.
type idle struct{}

func (idle) Stats() reconcile.QueueStats { return reconcile.QueueStats{} }

func worked(t *testing.T) *workmetrics.Metrics {
	m := workmetrics.New()
	knows(t, m, "Collect", "Controller", "Describe", "Queue", "Watch")
	m.Queue("painter")
	m.Watch("painter", idle{})
	m.Controller("painter", 1).Ended(reconcile.Panic, 0)
	return m
}

func scheduled(t *testing.T) *schedulemetrics.Metrics {
	m := schedulemetrics.New()
	knows(t, m, "Collect", "Describe", "Meters")
	meters := m.Meters()
	meters.Attempted("profile", "scheduled", 0)
	meters.Scheduled(1, 0)
	meters.Executed("plugin", "Bind", "Success", 0)
	meters.Handled("NodeAdd", 0)
	meters.Queued("active", "PodAdd")
	meters.Waited("Success", 0)
	meters.Extended("profile", "Bind", "Success", 0)
	meters.Count(func() schedule.Counts {
		return schedule.Counts{Evaluations: map[schedule.Evaluation]uint64{{}: 1}, Refused: map[schedule.Refusal]int{{}: 1}}
	})
	return m
}

// A runtime with one container.
type runtime struct{ server.Runtime }

func (runtime) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{}, nil
}

func (runtime) ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: []*runtimeapi.Container{{}}}, nil
}

func (runtime) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	at, one := time.Now().UnixNano(), &runtimeapi.UInt64Value{Value: 1}
	return &runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{{
		Attributes: &runtimeapi.ContainerAttributes{Id: "c", Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Labels: map[string]string{"io.kubernetes.pod.uid": "uid", "io.kubernetes.container.name": "c"}},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: at, UsageCoreNanoSeconds: one},
		Memory: &runtimeapi.MemoryUsage{Timestamp: at, WorkingSetBytes: one, UsageBytes: one, RssBytes: one},
	}}}, nil
}

func kubelet(t *testing.T) part {
	m := kubeletmetrics.New("node-1")
	knows(t, m, "ContainerFailed", "ContainerStarting", "Count", "CountResizes", "CountVolumes", "Describe", "Evicted", "Observe", "PodRunning", "PodStarted",
		"Relisted", "ResizeAccepted", "ResizeInfeasible", "ResizeRequested", "Resized", "ServeHTTP", "ServingCertificate", "Synced", "WorkerStarted")
	m.Count(runtime{})
	m.Observe("RunPodSandbox", &runtimeapi.RunPodSandboxRequest{}, 0, errors.New("faulty"))
	m.Evicted("memory.available")
	m.ResizeRequested("cpu", "requests", "increase")
	m.ResizeInfeasible("detail")
	m.ResizeAccepted("trigger")
	m.Resized(0, true)
	m.CountResizes(func() (map[string]int, int) { return map[string]int{"Deferred": 1}, 1 })
	m.ServingCertificate(time.Now)
	m.PodStarted(0, 0, false)
	m.Synced("create", 0)
	m.ContainerStarting("container")
	m.ContainerFailed("container", "reason")
	m.CountVolumes(func(context.Context) []volumestats.Stats {
		return []volumestats.Stats{{Claim: &volumestats.ClaimReference{}}}
	})
	return part{"Kubelet", "At `/metrics` of the kubelet of each node: `kubelet/metrics`.", m.Describe, m}
}

func probed(t *testing.T) part {
	m := probemetrics.New()
	knows(t, m, "Describe", "Forget", "Observe", "ServeHTTP")
	m.Observe(&corev1.Pod{}, &corev1.Container{}, probe.Readiness, probe.Success.String(), 0)
	return part{"Kubelet: probes", "At `/metrics/probes` of the kubelet: `kubelet/probe/metrics`.", m.Describe, m}
}

func proxied(t *testing.T) *proxymetrics.Metrics {
	m := proxymetrics.New()
	knows(t, m, "Collect", "Describe", "Meters")
	meters := m.Meters()
	meters.NoLocalEndpoints(1, 1)
	meters.Health("/healthz", 200)
	meters.Health("/livez", 200)
	return m
}

func answered(t *testing.T) *dnsmetrics.Metrics {
	m := dnsmetrics.New("dns://:53", ".")
	knows(t, m, "Collect", "Describe", "Meters")
	meters := m.Meters()
	meters.Answered(dns.Answer{DNSSEC: true})
	meters.Cached(true, true)
	meters.Cached(false, false)
	meters.Stored(1, 1, 1)
	meters.Forwarded(netip.AddrPort{}, "NOERROR", 0)
	meters.Programmed(0)
	return m
}

// A usagePart is a section of metrics that the kubelet writes without descriptors.
type usagePart struct {
	heading, text string
	// kubernetes reports whether the names and levels are those of Kubernetes; if not, cAdvisor's.
	kubernetes bool
	metrics    []metric
}

// usage returns the metrics of what nodes, pods and containers use.
func usage(t *testing.T) (parts []usagePart) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "mem://c",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}},
	}
	s, err := server.New(server.Config{ReadOnly: true, Listener: listener, Runtime: runtime{}, Pods: localcache.NewMap(pod), LogRoot: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, p := range []usagePart{
		{"Kubelet: usage", "At `/metrics/resource` of the kubelet: `kubelet/server`. The metrics server reads these.", true, nil},
		{"Kubelet: cAdvisor's", "At `/metrics/cadvisor` of the kubelet: `kubelet/server`.", false, nil},
	} {
		for name, f := range served(t, s, map[bool]string{true: "/metrics/resource", false: "/metrics/cadvisor"}[p.kubernetes]) {
			names[name] = true
			p.metrics = append(p.metrics, metric{name, f.kind, level.ReplaceAllString(f.help, ""), f.labels})
		}
		parts = append(parts, p)
	}
	// The families without samples are not served, so that the source is asked for all.
	source, err := os.ReadFile(filepath.Join("..", "..", "kubelet", "server", "metrics.go"))
	if err != nil {
		t.Fatal(err)
	}
	added := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.add\("([a-z_]+)"`).FindAllSubmatch(source, -1) {
		added[string(m[1])] = true
	}
	if have, want := slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(added)); !slices.Equal(have, want) {
		t.Errorf("the kubelet serves %v, want all of its source: %v", have, want)
	}
	return parts
}

// level begins the help of some metrics.
var level = regexp.MustCompile(`^\[[A-Z]+\] `)
