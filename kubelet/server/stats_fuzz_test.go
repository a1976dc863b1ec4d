package server

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/planekit/planekit/localcache"
)

// reporting is a runtime that reports statistics.
type reporting struct {
	Runtime
	list *runtimeapi.ListContainerStatsResponse
}

func (r *reporting) ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	return r.list, nil
}

var sampleLine = regexp.MustCompile(`^(# .*|[a-zA-Z_:]+(\{.*\})? [^ ]+( -?[0-9]+)?)$`)

// FuzzStats: whatever the runtime reports, the summary is JSON and the metrics have their format.
func FuzzStats(f *testing.F) {
	stats := &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: "c", Metadata: &runtimeapi.ContainerMetadata{Name: "web", Attempt: 1},
			Labels: map[string]string{labelPodUID: "uid", labelContainerName: "web\n\"\\"},
		},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: -1, UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: 1 << 63}},
		Memory: &runtimeapi.MemoryUsage{Timestamp: 1 << 62, WorkingSetBytes: &runtimeapi.UInt64Value{Value: 1<<64 - 1}},
	}
	second := proto.Clone(stats).(*runtimeapi.ContainerStats)
	second.Cpu.Timestamp, second.Cpu.UsageNanoCores, second.Memory = 1<<62, &runtimeapi.UInt64Value{}, nil
	seed, err := proto.Marshal(&runtimeapi.ListContainerStatsResponse{Stats: []*runtimeapi.ContainerStats{stats, second, {}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(nil))
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "uid"
	pods := localcache.NewMap(pod)
	f.Fuzz(func(t *testing.T, data []byte) {
		list := &runtimeapi.ListContainerStatsResponse{}
		if proto.Unmarshal(data, list) != nil {
			return // no answer of a runtime
		}
		s := &Server{config: Config{NodeName: "node-1", Pods: pods, Runtime: &reporting{list: list}}}
		for range 2 { // the second time there are rates
			answer := httptest.NewRecorder()
			s.summary(answer, httptest.NewRequest("GET", "/stats/summary", nil))
			if !json.Valid(answer.Body.Bytes()) || answer.Code != 200 {
				t.Fatalf("summary answers %d %s, want 200 and valid JSON", answer.Code, answer.Body)
			}
			for _, metrics := range []func(*httptest.ResponseRecorder){
				func(w *httptest.ResponseRecorder) { s.resourceMetrics(w, httptest.NewRequest("GET", "/", nil)) },
				func(w *httptest.ResponseRecorder) { s.cadvisorMetrics(w, httptest.NewRequest("GET", "/", nil)) },
			} {
				answer := httptest.NewRecorder()
				metrics(answer)
				for line := range strings.SplitSeq(strings.TrimSuffix(answer.Body.String(), "\n"), "\n") {
					if !sampleLine.MatchString(line) {
						t.Fatalf("a line is %q", line)
					}
				}
			}
		}
	})
}
