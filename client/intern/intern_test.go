package intern_test

import (
	"fmt"
	"math/rand"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/planekit/planekit/client/intern"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"
)

// TestNothingIsLost compares pods with the result of the ordinary decoder, for different contents
// of the table.
func TestNothingIsLost(t *testing.T) {
	table := intern.New()
	for i := range 300 {
		compare(t, table, marshal(t, newPod(i%7, i, i%3 == 0)))
	}
}

// TestRandomPods decodes pods with random values in all fields, each several times and with parts
// of other pods, and compares them when all have been decoded.
func TestRandomPods(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(100_000), resource.DecimalSI)
		},
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.Unix(c.Int63n(3)*c.Int63n(1e9), 0) },
		func(v *corev1.Volume, c randfill.Continue) {
			c.FillNoCustom(v)
			if c.Bool() {
				v.Name = "kube-api-access-" + v.Name
			}
		},
	)
	random := rand.New(rand.NewSource(seed))
	pods := make([]*corev1.Pod, 40)
	for i := range pods {
		pods[i] = &corev1.Pod{}
		fill.Fill(pods[i])
		if other := pods[random.Intn(i+1)]; i%2 == 1 {
			pods[i].Spec, pods[i].Labels = other.Spec, other.Labels
		}
	}
	table := intern.New()
	got, want := make([]*corev1.Pod, 600), make([]corev1.Pod, 600)
	for i := range got {
		p := pods[random.Intn(len(pods))]
		p.Name, p.Spec.NodeName = fmt.Sprint(i), fmt.Sprint(i%5)
		data := marshal(t, p)
		got[i] = compare(t, table, data)
		if err := want[i].Unmarshal(data); err != nil {
			t.Fatal(err)
		}
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], &want[i]) {
			t.Fatalf("pod %d became\n%v\nand was\n%v", i, got[i], &want[i])
		}
	}
}

// TestPartsAreDistinguished decodes pods that differ in one place each.
func TestPartsAreDistinguished(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"label":      func(p *corev1.Pod) { p.Labels["app"] = "other" },
		"label keys": func(p *corev1.Pod) { p.Labels = map[string]string{"a": "bc"} },
		"no labels":  func(p *corev1.Pod) { p.Labels = nil },
		"as labels":  func(p *corev1.Pod) { p.Annotations = p.Labels },
		"owner":      func(p *corev1.Pod) { p.OwnerReferences[0].UID = "2" },
		"deleted":    func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now().Rfc3339Copy()) },
		"node":       func(p *corev1.Pod) { p.Spec.NodeName = "other" },
		"account":    func(p *corev1.Pod) { p.Spec.ServiceAccountName = "other" },
		"toleration": func(p *corev1.Pod) { p.Spec.Tolerations[0].Key = "b" },
		"env":        func(p *corev1.Pod) { p.Spec.Containers[0].Env[0].Value = "other" },
		"mount":      func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].ReadOnly = true },
		"init":       func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers },
		"ephemeral": func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "c"}}
		},
		"volume":     func(p *corev1.Pod) { p.Spec.Volumes[0].ConfigMap.Name = "other" },
		"token":      func(p *corev1.Pod) { p.Spec.Volumes[0].Name = "kube-api-access-x" },
		"fields":     func(p *corev1.Pod) { p.ManagedFields[0].FieldsV1.SetRawString(`{}`) },
		"started":    func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Started = new(false) },
		"waiting":    func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = p.Status.InitContainerStatuses[0].State },
		"host":       func(p *corev1.Pod) { p.Status.HostIPs[0].IP = "10.0.0.9" },
		"phase":      func(p *corev1.Pod) { p.Status.Phase = "Failed" },
		"annotation": func(p *corev1.Pod) { p.Annotations["example.com/own"] = "other" },
	} {
		for _, token := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, token %v", name, token), func(t *testing.T) {
				table := intern.New()
				for range 3 {
					compare(t, table, marshal(t, newPod(1, 0, token)))
				}
				p := newPod(1, 0, token)
				change(p)
				for range 3 {
					compare(t, table, marshal(t, p))
					compare(t, table, marshal(t, newPod(1, 0, token)))
				}
			})
		}
	}
}

func TestSharing(t *testing.T) {
	table := intern.New()
	for _, token := range []bool{false, true} {
		var pods []*corev1.Pod
		for i := range 4 {
			pods = append(pods, compare(t, table, marshal(t, newPod(1, 3*i, token))))
		}
		a, b := pods[2], pods[3]
		same := func(what string, x, y *byte) {
			t.Helper()
			if x != y {
				t.Errorf("token volume %v: %s is not shared", token, what)
			}
		}
		same("the node", unsafe.StringData(a.Spec.NodeName), unsafe.StringData(b.Spec.NodeName))
		same("the namespace", unsafe.StringData(a.Namespace), unsafe.StringData(b.Namespace))
		same("a label", unsafe.StringData(a.Labels["app"]), unsafe.StringData(b.Labels["app"]))
		same("a value in a map of one's own", unsafe.StringData(a.Annotations["example.com/team"]), unsafe.StringData(b.Annotations["example.com/team"]))
		same("a toleration", unsafe.StringData(a.Spec.Tolerations[0].Key), unsafe.StringData(b.Spec.Tolerations[0].Key))
		same("the environment", unsafe.StringData(a.Spec.Containers[0].Env[0].Value), unsafe.StringData(b.Spec.Containers[0].Env[0].Value))
		same("a volume's source", unsafe.StringData(a.Spec.Volumes[0].ConfigMap.Name), unsafe.StringData(b.Spec.Volumes[0].ConfigMap.Name))
		same("a condition", unsafe.StringData(string(a.Status.Conditions[0].Type)), unsafe.StringData(string(b.Status.Conditions[0].Type)))
		same("managed fields", &a.ManagedFields[0].FieldsV1.GetRawBytes()[0], &b.ManagedFields[0].FieldsV1.GetRawBytes()[0])
		if !token && &a.Spec.Containers[0] != &b.Spec.Containers[0] {
			t.Error("the containers are not shared")
		}
		for i, p := range []*corev1.Pod{a, b} {
			same(fmt.Sprintf("the address of %d with itself", i), unsafe.StringData(p.Status.PodIP), unsafe.StringData(p.Status.PodIPs[0].IP))
		}
	}
}

// TestConcurrently decodes the same pods in many goroutines.
func TestConcurrently(t *testing.T) {
	table := intern.New()
	encoded := make([][]byte, 50)
	for i := range encoded {
		encoded[i] = marshal(t, newPod(i%3, i, i%2 == 0))
	}
	var all sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for range 5 {
				for i, data := range encoded {
					var p, want corev1.Pod
					if err := table.UnmarshalPod(data, &p); err != nil {
						t.Error(err)
						return
					}
					if err := want.Unmarshal(data); err != nil || !reflect.DeepEqual(p, want) {
						t.Errorf("pod %d is\n%v\nand should be\n%v", i, &p, &want)
						return
					}
				}
			}
		})
	}
	all.Wait()
}

// TestAllocations limits the allocations for a pod of a known template: the pod, one string, and
// the parts with times or the token's name.
func TestAllocations(t *testing.T) {
	table := intern.New()
	var encoded [][]byte
	for i := range 20 {
		p := newPod(1, 3*i, true)
		p.ManagedFields, p.Annotations = nil, nil
		encoded = append(encoded, marshal(t, p))
		compare(t, table, encoded[i])
	}
	i := 0
	allocs := testing.AllocsPerRun(100, func() {
		p := new(corev1.Pod)
		if err := table.UnmarshalPod(encoded[i%len(encoded)], p); err != nil {
			t.Fatal(err)
		}
		i++
	})
	if t.Logf("%.1f allocations", allocs); allocs > 18 {
		t.Errorf("%.1f allocations", allocs)
	}
}

// TestHeap measures the heap of pods of a few templates with and without sharing.
func TestHeap(t *testing.T) {
	weigh := func(unmarshal func([]byte, *corev1.Pod) error) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		pods := make([]*corev1.Pod, 4000)
		for i := range pods {
			pods[i] = new(corev1.Pod)
			if err := unmarshal(marshal(t, newPod(i%10, i, true)), pods[i]); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(pods)
		return after.HeapAlloc - before.HeapAlloc
	}
	own := weigh(func(data []byte, p *corev1.Pod) error { return p.Unmarshal(data) })
	shared := weigh(intern.New().UnmarshalPod)
	if t.Logf("%d bytes a pod, shared %d", own/4000, shared/4000); float64(shared) > 0.6*float64(own) {
		t.Errorf("%d bytes shared of %d", shared, own)
	}
}

// TestBounded decodes more parts than the table holds: parts that never recur, which cost nothing,
// and parts that occur exactly twice.
func TestBounded(t *testing.T) {
	const long = 4096
	for times, limit := range map[int]int64{1: 1 << 20, 2: 6 * intern.Size} {
		table := intern.New()
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		for i := range 8 * intern.Size / long {
			p := &corev1.Pod{Spec: corev1.PodSpec{SchedulerName: fmt.Sprintf("%0*d", long, i)}}
			data := marshal(t, p)
			for range times {
				compare(t, table, data)
			}
		}
		grown := heap() - before
		runtime.KeepAlive(table)
		if t.Logf("what comes %d times: grew by %d bytes", times, grown); grown > limit {
			t.Errorf("what comes %d times: grew by %d bytes", times, grown)
		}
	}
}
