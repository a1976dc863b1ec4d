package server_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/volumestats"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// used returns the runtime's statistics of the container called name of a pod, its cpu in
// nanoseconds.
func used(pod, name string, attempt uint32, at time.Time, cpu, memory uint64) *runtimeapi.ContainerStats {
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{
			Id: name, Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
			Labels: map[string]string{"io.kubernetes.pod.uid": pod, "io.kubernetes.container.name": name},
		},
		Cpu:    &runtimeapi.CpuUsage{Timestamp: at.UnixNano(), UsageCoreNanoSeconds: &runtimeapi.UInt64Value{Value: cpu}},
		Memory: &runtimeapi.MemoryUsage{Timestamp: at.UnixNano(), WorkingSetBytes: &runtimeapi.UInt64Value{Value: memory}},
	}
}

// summary requests the statistics as a user with only that permission.
func (k *kubelet) summary() server.Summary {
	k.t.Helper()
	answer := k.ask("GET", "meter", "/stats/summary")
	defer answer.Body.Close()
	var s server.Summary
	if err := json.NewDecoder(answer.Body).Decode(&s); err != nil || answer.StatusCode != http.StatusOK {
		k.t.Fatal(answer.Status, err)
	}
	return s
}

func TestSummary(t *testing.T) {
	k := start(t, func(c *server.Config) { c.NodeName = "node-1" })
	begin := time.Unix(1_800_000_000, 0)
	k.runtime.stats = []*runtimeapi.ContainerStats{
		used("uid-web", "slow", 0, begin, 5e9, 7<<20),
		used("uid-web", "c", 1, begin, 1e9, 3<<20),
		used("uid-web", "c", 0, begin, 9e9, 9<<20),                         // of before
		used("uid-gone", "c", 0, begin, 9e9, 9<<20),                        // of no pod of this node
		used("", "c", 0, begin, 9e9, 9<<20),                                // not of a kubelet
		{Attributes: used("uid-web", "unseen", 0, begin, 0, 0).Attributes}, // not running
	}
	s := k.summary()
	if s.Node.NodeName != "node-1" || len(s.Pods) != 1 || len(s.Pods[0].Containers) != 2 {
		t.Fatalf("the summary is %+v, want node-1 and one pod with two containers", s)
	}
	pod := s.Pods[0]
	c, slow := pod.Containers[0], pod.Containers[1]
	if pod.PodRef != (server.PodReference{Namespace: "default", Name: "web", UID: "uid-web"}) || c.Name != "c" || slow.Name != "slow" {
		t.Errorf("the summary has the pod %+v, want default/web of the UID uid-web with the containers c and slow", pod)
	}
	if text, _ := json.Marshal(c); c.CPU.UsageNanoCores != nil || *c.CPU.UsageCoreNanoSeconds != 1e9 ||
		*c.Memory.WorkingSetBytes != 3<<20 || !c.CPU.Time.Time.Equal(begin) {
		t.Errorf("the container c is %s, want no rate, 1e9 ns of CPU at %v, and a working set of %d bytes", text, begin, 3<<20)
	}
	if *pod.CPU.UsageCoreNanoSeconds != 6e9 || *pod.Memory.WorkingSetBytes != 10<<20 || pod.Memory.RSSBytes != nil {
		t.Errorf("the sum is %+v %+v", pod.CPU, pod.Memory)
	}

	// 10 seconds later a rate is known; the counter of slow was reset.
	later := begin.Add(10 * time.Second)
	again := used("uid-web", "slow", 1, later, 1e6, 7<<20)
	k.runtime.stats = []*runtimeapi.ContainerStats{used("uid-web", "c", 1, later, 3e9, 4<<20), again}
	s = k.summary()
	c, slow = s.Pods[0].Containers[0], s.Pods[0].Containers[1]
	if c.CPU.UsageNanoCores == nil || *c.CPU.UsageNanoCores != 200e6 || slow.CPU.UsageNanoCores != nil {
		t.Errorf("2 of 10 seconds: %+v; began anew: %+v", c.CPU, slow.CPU)
	}
	// A runtime that has nothing but rates is believed.
	again.Cpu.UsageNanoCores, again.Cpu.UsageCoreNanoSeconds = &runtimeapi.UInt64Value{Value: 42}, nil
	// Half a second says little about the rate: it stays.
	soon := later.Add(time.Second / 2)
	web := used("uid-web", "c", 1, soon, 3.5e9, 4<<20)
	web.Cpu.UsageNanoCores = &runtimeapi.UInt64Value{Value: 7} // over who knows what time
	k.runtime.stats = []*runtimeapi.ContainerStats{web, again}
	s = k.summary()
	if c, slow = s.Pods[0].Containers[0], s.Pods[0].Containers[1]; *c.CPU.UsageNanoCores != 200e6 || *slow.CPU.UsageNanoCores != 42 {
		t.Errorf("%d, want the rate of before; %d, want what the runtime says", *c.CPU.UsageNanoCores, *slow.CPU.UsageNanoCores)
	}
	if sum := s.Pods[0].CPU.UsageNanoCores; *sum != 200e6+42 {
		t.Errorf("the sum is %d", *sum)
	}
}

// TestSummaryVolumes: volumes are in the summary, unless the client wants CPU and memory only.
func TestSummaryVolumes(t *testing.T) {
	var asked atomic.Int64
	k := start(t, func(c *server.Config) {
		c.VolumeStats = func(ctx context.Context, pod *corev1.Pod) []volumestats.Stats {
			asked.Add(1)
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("the context has no deadline")
			}
			claim := &volumestats.ClaimReference{Name: "data", Namespace: pod.Namespace}
			return []volumestats.Stats{{Name: "data", Claim: claim, UsedBytes: 5}, {Name: "cache"}}
		}
	})
	k.runtime.stats = []*runtimeapi.ContainerStats{used("uid-web", "c", 1, time.Unix(1_800_000_000, 0), 1e9, 3<<20)}
	if s := k.summary(); len(s.Pods) != 1 || len(s.Pods[0].Volumes) != 2 || s.Pods[0].Volumes[0].Claim == nil ||
		s.Pods[0].Volumes[0].Claim.Name != "data" || s.Pods[0].Volumes[0].UsedBytes != 5 {
		t.Errorf("the pods are %+v, want one with two volumes, the first of the claim data with 5 bytes used", s.Pods)
	}
	answer := k.ask("GET", "root", "/stats/summary")
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	const want = `"volume":[{"time":null,"availableBytes":0,"capacityBytes":0,"usedBytes":5,"inodesFree":0,"inodes":0,"inodesUsed":0,"name":"data","pvcRef":{"name":"data","namespace":"default"}},{`
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("GET /stats/summary = %s, %v, want %s in it", text, err, want)
	}
	n := asked.Load()
	answer = k.ask("GET", "root", "/stats/summary?only_cpu_and_memory=true")
	text, err = io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || strings.Contains(string(text), "volume") || !strings.Contains(string(text), "memory") || asked.Load() != n {
		t.Errorf("GET /stats/summary?only_cpu_and_memory=true = %s, %v, VolumeStats is called %d times; want memory, no volume, %d times",
			text, err, asked.Load(), n)
	}
}

// TestSummaryIsForThoseWhoMay: the right to statistics is no right to more.
func TestSummaryIsForThoseWhoMay(t *testing.T) {
	k := start(t, nil)
	k.want("GET", "", "/stats/summary", 401, "Unauthorized\n")
	k.want("GET", "reader", "/stats/summary", 403, "Forbidden (user=reader, verb=get, resource=nodes, subresource(s)=[stats])\n")
	for path, takes := range map[string]string{
		"/pods": "verb=get, resource=nodes, subresource(s)=[pods proxy]", "/statss/": "verb=get, resource=nodes, subresource(s)=[proxy]",
		"//stats/summary": "verb=create, resource=nodes, subresource(s)=[proxy]", logs: "verb=get, resource=nodes, subresource(s)=[proxy]",
	} {
		k.want("GET", "meter", path, 403, "Forbidden (user=meter, "+takes+")\n")
	}
	k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, path := range []string{"/stats/../pods", "/stats/%2e%2e/pods", "/stats//../pods"} {
		answer := k.ask("GET", "meter", path)
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Errorf("%s is served", path)
		}
	}
	k.want("GET", "meter", "/stats/nothing", 404, "404 page not found\n")
	k.runtime.statsError = status.Error(codes.Unimplemented, "no statistics")
	k.want("GET", "meter", "/stats/summary", 501, "rpc error: code = Unimplemented desc = no statistics\n")
	k.runtime.statsError = status.Error(codes.Unavailable, "away")
	k.want("GET", "meter", "/stats/summary", 503, "rpc error: code = Unavailable desc = away\n")
}
