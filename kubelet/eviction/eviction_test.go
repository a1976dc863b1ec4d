package eviction_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func parse(t *testing.T, s eviction.Settings) []eviction.Threshold {
	t.Helper()
	list, err := eviction.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestParse(t *testing.T) {
	list := parse(t, eviction.Settings{
		Hard:           map[string]string{"nodefs.available": "10%", "memory.available": "100Mi", "pid.available": "0%", "imagefs.available": "0"},
		Soft:           map[string]string{"memory.available": "1Gi"},
		SoftGrace:      map[string]string{"memory.available": "1m30s"},
		MinimumReclaim: map[string]string{"memory.available": "50Mi"},
	})
	want := []eviction.Threshold{
		{Signal: eviction.MemoryAvailable, Minimum: eviction.Amount{Number: 100 << 20}, Reclaim: eviction.Amount{Number: 50 << 20}},
		{Signal: eviction.MemoryAvailable, Minimum: eviction.Amount{Number: 1 << 30}, Reclaim: eviction.Amount{Number: 50 << 20}, Grace: 90 * time.Second},
		{Signal: eviction.NodeFSAvailable, Minimum: eviction.Amount{Part: 0.1}},
	}
	if !slices.Equal(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
	if list := parse(t, eviction.Settings{Hard: eviction.DefaultHard()}); len(list) != 5 {
		t.Errorf("%d default thresholds", len(list))
	}
	for want, s := range map[string]eviction.Settings{
		`hard eviction: memory.free: is not a signal`:                                     {Hard: map[string]string{"memory.free": "1"}},
		`hard eviction: memory.available: "lots" is not a quantity`:                       {Hard: map[string]string{"memory.available": "lots"}},
		`hard eviction: memory.available: "-1" is not a quantity`:                         {Hard: map[string]string{"memory.available": "-1"}},
		`hard eviction: memory.available: "101%" is not between 0% and 100%`:              {Hard: map[string]string{"memory.available": "101%"}},
		`hard eviction: memory.available: "NaN%" is not between 0% and 100%`:              {Hard: map[string]string{"memory.available": "NaN%"}},
		`soft eviction: memory.available: has no grace period`:                            {Soft: map[string]string{"memory.available": "1"}},
		`soft eviction grace period: memory.available: has no threshold`:                  {SoftGrace: map[string]string{"memory.available": "1m"}},
		`soft eviction grace period: memory.available: "soon" is not a positive duration`: {Soft: map[string]string{"memory.available": "1"}, SoftGrace: map[string]string{"memory.available": "soon"}},
		`minimum reclaim: nodefs.available: "" is not a quantity`:                         {MinimumReclaim: map[string]string{"nodefs.available": ""}},
	} {
		if _, err := eviction.Parse(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestMap(t *testing.T) {
	m, err := eviction.Map(" memory.available<100Mi, nodefs.available<10%,")
	if err != nil || len(m) != 2 || m["memory.available"] != "100Mi" || m["nodefs.available"] != "10%" {
		t.Errorf("Map() = %v, %v, want memory.available 100Mi and nodefs.available 10%%", m, err)
	}
	if m, err := eviction.Map(""); err != nil || len(m) != 0 {
		t.Errorf("nothing: %v %v", m, err)
	}
	for flag, want := range map[string]string{
		"memory.available": "SIGNAL<AMOUNT", "<1": "SIGNAL<AMOUNT", "memory.available>1": "SIGNAL<AMOUNT", "a<1,a<2": "a has two thresholds",
	} {
		if _, err := eviction.Map(flag); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", flag, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("memory.available", "100Mi", "1m")
	f.Add("nodefs.inodesFree", "5.5%", "-1s")
	f.Add("pid.available", "1e99%", "")
	f.Fuzz(func(t *testing.T, signal, amount, grace string) {
		list, err := eviction.Parse(eviction.Settings{
			Hard: map[string]string{signal: amount}, Soft: map[string]string{signal: amount}, SoftGrace: map[string]string{signal: grace},
			MinimumReclaim: map[string]string{signal: amount},
		})
		for _, threshold := range list {
			if m := threshold.Minimum; m.Part < 0 || m.Part > 1 || m.Number < 0 || m == (eviction.Amount{}) || threshold.Grace < 0 {
				t.Errorf("Parse of %q with amount %q and grace %q has %+v, want a minimum above 0, of at most 100%%, and no negative grace",
					signal, amount, grace, threshold)
			}
		}
		if err == nil && len(list) > 2 {
			t.Errorf("%d thresholds", len(list))
		}
	})
}

func TestObserve(t *testing.T) {
	core := eviction.New(eviction.Config{Thresholds: parse(t, eviction.Settings{
		Hard:           map[string]string{"memory.available": "100", "nodefs.available": "10%"},
		Soft:           map[string]string{"memory.available": "200"},
		SoftGrace:      map[string]string{"memory.available": "1m"},
		MinimumReclaim: map[string]string{"nodefs.available": "100"},
	})})
	for _, step := range []struct {
		at           time.Duration
		memory, disk int64 // negative: unknown
		conditions   string
		acts         string
	}{
		{0, 500, 500, "[]", ""},
		{10, 150, 500, "[MemoryPressure]", ""}, // within the grace period
		{60, 150, 500, "[MemoryPressure]", ""},
		{70, 150, 500, "[MemoryPressure]", "memory.available 1m0s"},
		{80, 99, 500, "[MemoryPressure]", "memory.available 0s"},
		{90, 99, 99, "[DiskPressure MemoryPressure]", "memory.available 0s"},
		{100, 300, 199, "[DiskPressure MemoryPressure]", "nodefs.available 0s"}, // more must be left
		{110, 300, -1, "[DiskPressure MemoryPressure]", ""},                     // not known is not resolved
		{120, 300, 200, "[DiskPressure MemoryPressure]", ""},
		{130, 300, 199, "[DiskPressure MemoryPressure]", ""}, // resolved: 100 are enough again
		{389, 300, 199, "[DiskPressure MemoryPressure]", ""},
		{390, 300, 199, "[DiskPressure]", ""}, // five minutes after the last observation
		{410, 300, 199, "[]", ""},
		{420, 150, 199, "[MemoryPressure]", ""}, // the grace period begins again
	} {
		levels := map[eviction.Signal]eviction.Level{}
		if step.memory >= 0 {
			levels[eviction.MemoryAvailable] = eviction.Level{Available: step.memory, Capacity: 1000}
		}
		if step.disk >= 0 {
			levels[eviction.NodeFSAvailable] = eviction.Level{Available: step.disk, Capacity: 1000}
		}
		p := core.Observe(levels, t0.Add(step.at*time.Second))
		acts := ""
		if p.Threshold != nil {
			acts = fmt.Sprint(p.Threshold.Signal, " ", p.Threshold.Grace)
		}
		if got := fmt.Sprint(p.Conditions); got != step.conditions || acts != step.acts {
			t.Errorf("after %v s: %s %q, want %s %q", int(step.at), got, acts, step.conditions, step.acts)
		}
	}
}

// usage returns the usage of a pod that requests memory.
func usage(name string, priority int32, request string, memory int64) eviction.Usage {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.Priority = &priority
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	if request != "" {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceMemory: resource.MustParse(request), corev1.ResourceEphemeralStorage: resource.MustParse(request),
		}
	}
	return eviction.Usage{Pod: pod, Memory: memory, Storage: memory, Inodes: memory, Processes: memory,
		Containers: map[string]eviction.ContainerUsage{"c": {Memory: memory, Storage: memory}}}
}

func names(list []eviction.Usage) string {
	var out []string
	for _, u := range list {
		out = append(out, u.Pod.Name)
	}
	return strings.Join(out, " ")
}

func TestRank(t *testing.T) {
	static := usage("static", 0, "", 1000)
	static.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	pods := []eviction.Usage{
		usage("modest", 0, "500", 400), usage("greedy", 0, "100", 400), usage("greedier", 0, "", 500),
		usage("important", 1000, "", 900), usage("critical", 2_000_000_000, "", 1000), static,
	}
	for signal, want := range map[eviction.Signal]string{
		eviction.MemoryAvailable:  "greedier greedy important modest",
		eviction.NodeFSAvailable:  "greedier greedy important modest",
		eviction.NodeFSInodesFree: "greedier modest greedy important",
		eviction.PIDAvailable:     "greedier modest greedy important",
	} {
		if got := names(eviction.Rank(signal, pods)); got != want {
			t.Errorf("%s: %s, want %s", signal, got, want)
		}
	}
}

func TestExceeded(t *testing.T) {
	limited := func(limits ...string) *corev1.Pod {
		pod := &corev1.Pod{}
		for i, limit := range limits {
			c := corev1.Container{Name: string(rune('a' + i))}
			if limit != "" {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse(limit)}
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		return pod
	}
	volume := &corev1.Pod{}
	volume.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("1Ki"))}}}}
	for _, test := range []struct {
		usage eviction.Usage
		want  string
	}{
		{eviction.Usage{Pod: &corev1.Pod{}, Storage: 1 << 40}, ""},
		{eviction.Usage{Pod: volume, Volumes: map[string]int64{"v": 1024}}, ""},
		{eviction.Usage{Pod: volume, Volumes: map[string]int64{"v": 1025}}, `Usage of EmptyDir volume "v" exceeds the limit "1Ki". `},
		{eviction.Usage{Pod: limited("1Mi", "1Mi"), Storage: 2<<20 + 1}, "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "},
		{eviction.Usage{Pod: limited("9223372036854775807", "9223372036854775807"), Storage: 1 << 20}, ""},
		{eviction.Usage{Pod: limited("9e30"), Storage: 1 << 20, Containers: map[string]eviction.ContainerUsage{"a": {Storage: 1}}}, ""},
		{eviction.Usage{Pod: limited("1Mi", ""), Storage: 2<<20 + 1}, ""},
		{eviction.Usage{Pod: limited("", "1Mi"), Containers: map[string]eviction.ContainerUsage{"a": {Storage: 1 << 30}, "b": {Storage: 1<<20 + 1}}},
			`Container b exceeded its local ephemeral storage limit "1Mi". `},
	} {
		signal, got := eviction.Exceeded(test.usage)
		wantSignal := eviction.Signal("")
		switch {
		case strings.Contains(test.want, "EmptyDir"):
			wantSignal = eviction.SignalVolumeLimit
		case strings.Contains(test.want, "total limit"):
			wantSignal = eviction.SignalPodLimit
		case test.want != "":
			wantSignal = eviction.SignalContainerLimit
		}
		if signal != wantSignal {
			t.Errorf("%q: signal %q, want %q", test.want, signal, wantSignal)
		}
		if got != test.want {
			t.Errorf("%q, want %q", got, test.want)
		}
		if test.want != "" && !eviction.Limited(test.usage.Pod) {
			t.Errorf("a pod with %q counts as unlimited", test.want)
		}
	}
}

func TestMessage(t *testing.T) {
	p := eviction.Pressure{
		Threshold: &eviction.Threshold{Signal: eviction.MemoryAvailable, Minimum: eviction.Amount{Number: 100 << 20}},
		Level:     eviction.Level{Available: 64<<20 + 100, Capacity: 1 << 30},
	}
	message, annotations := eviction.Message(p, usage("greedy", 0, "1Mi", 3<<20))
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 64Mi. " +
		"Container c was using 3Mi, request is 1Mi, has larger consumption of memory. "
	if message != want || annotations["starved_resource"] != "memory" || annotations["offending_containers"] != "c" || annotations["offending_containers_usage"] != "3Mi" {
		t.Errorf("Message() = %q, %v, want %q and annotations for memory, c and 3Mi", message, annotations, want)
	}
}

func TestRefuse(t *testing.T) {
	plain, critical, tolerant := usage("a", 0, "", 0).Pod, usage("b", 2_000_000_000, "", 0).Pod, usage("c", 0, "", 0).Pod
	tolerant.Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeMemoryPressure, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	memory := []corev1.NodeConditionType{corev1.NodeMemoryPressure}
	disk := []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure}
	for _, test := range []struct {
		pod        *corev1.Pod
		class      corev1.PodQOSClass
		conditions []corev1.NodeConditionType
		want       string
	}{
		{plain, corev1.PodQOSBestEffort, nil, ""},
		{plain, corev1.PodQOSBestEffort, memory, "The node had condition: [MemoryPressure]. "},
		{plain, corev1.PodQOSBurstable, memory, ""},
		{tolerant, corev1.PodQOSBestEffort, memory, ""},
		{plain, corev1.PodQOSGuaranteed, disk, "The node had condition: [DiskPressure MemoryPressure]. "},
		{tolerant, corev1.PodQOSBestEffort, disk, "The node had condition: [DiskPressure MemoryPressure]. "},
		{critical, corev1.PodQOSBestEffort, disk, ""},
	} {
		if got := eviction.Refuse(test.pod, test.class, test.conditions); got != test.want {
			t.Errorf("%s %s %v: %q, want %q", test.pod.Name, test.class, test.conditions, got, test.want)
		}
	}
}

// TestModel runs nodes with random pods until they settle. A node without pressure evicts nothing; a
// critical pod is never evicted; when nothing is evicted any more, enough is left or only critical
// pods are.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	thresholds := parse(t, eviction.Settings{
		Hard: map[string]string{"memory.available": "10%"}, MinimumReclaim: map[string]string{"memory.available": "5%"},
	})
	const capacity = 1000
	for i := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, i))
		core := eviction.New(eviction.Config{Thresholds: thresholds})
		var pods []eviction.Usage
		available := int64(capacity)
		for n := range random.IntN(20) {
			priority := []int32{0, 100, 2_000_000_000}[random.IntN(3)]
			u := usage(fmt.Sprint(n), priority, fmt.Sprint(random.IntN(100)), random.Int64N(150))
			pods, available = append(pods, u), available-u.Memory
		}
		first := available
		for now, round := t0, 0; ; now, round = now.Add(10*time.Second), round+1 {
			p := core.Observe(map[eviction.Signal]eviction.Level{eviction.MemoryAvailable: {Available: available, Capacity: capacity}}, now)
			if first >= 100 && (p.Threshold != nil || len(p.Conditions) > 0) {
				t.Fatalf("seed %d: pressure with %d of %d left", seed+i, available, capacity)
			}
			if p.Threshold == nil {
				if first < 100 && available < 150 || available < 100 {
					t.Fatalf("seed %d: settled with %d left", seed+i, available)
				}
				break
			}
			ranked := eviction.Rank(p.Threshold.Signal, pods)
			if len(ranked) == 0 {
				if slices.ContainsFunc(pods, func(u eviction.Usage) bool { return !eviction.Critical(u.Pod) }) {
					t.Fatalf("seed %d: nobody is ranked of %d", seed+i, len(pods))
				}
				break
			}
			victim := ranked[0]
			if eviction.Critical(victim.Pod) || round > 20 {
				t.Fatalf("seed %d: round %d evicts %s", seed+i, round, victim.Pod.Name)
			}
			available += victim.Memory
			pods = slices.DeleteFunc(pods, func(u eviction.Usage) bool { return u.Pod == victim.Pod })
		}
	}
}
