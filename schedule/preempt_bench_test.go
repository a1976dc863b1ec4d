package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BenchmarkPreempt looks for preemptions in a cluster with 16 pods on each node, which has no room. The
// workloads differ in the pods on nodes: all the same, or of many sizes and priorities; and in the pods that
// preempt, of which 100 are of one class, or one. An affine pod must be beside another one.
func BenchmarkPreempt(b *testing.B) {
	for _, nodes := range []int{1250, 5000} {
		for _, workload := range []string{"same", "mixed", "classes", "affine"} {
			b.Run(fmt.Sprintf("workload=%s/pods=%d", workload, 16*nodes), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				s, _ := crowded(r, nodes, 16, workload)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					pod := urgent(i, workload)
					b.StartTimer()
					began := time.Now()
					_, unfit := s.Decide(pod)
					best, ok := s.Preempt(pod, unfit, nil)
					took = append(took, time.Since(began))
					b.StopTimer()
					if !ok {
						b.Fatal(unfit)
					}
					// Other pods take the room at once.
					for _, v := range best.Victims {
						replace(s, v.Pod, i)
					}
					b.StartTimer()
				}
				reportPercentiles(b, took)
			})
		}
	}
}

// BenchmarkDryRun measures Preempt alone among 20,000 pods that leave no room. The pods that preempt are of one
// class, or each has its own. A hopeless one fits nowhere, also not by preemption. Before each, 100 pods leave and
// others take their room.
func BenchmarkDryRun(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, workload := range []string{"same", "classes", "hopeless"} {
			b.Run(fmt.Sprintf("workload=%s/nodes=%d/pods=20000", workload, nodes), func(b *testing.B) {
				r := rand.New(rand.NewPCG(1, 1))
				s, pods := crowded(r, nodes, 20_000/nodes, "kept")
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					for range 100 {
						at := r.IntN(len(pods))
						pods[at] = replace(s, pods[at], i)
					}
					pod := urgent(i, workload)
					_, unfit := s.Decide(pod)
					b.StartTimer()
					began := time.Now()
					_, ok := s.Preempt(pod, unfit, nil)
					took = append(took, time.Since(began))
					if ok == (workload == "hopeless") {
						b.Fatal(unfit)
					}
				}
				reportPercentiles(b, took)
			})
		}
	}
}

func reportPercentiles(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	b.ReportMetric(float64(took[len(took)-1].Microseconds()), "max-us")
}

// replace puts a new pod where another one was.
func replace(s *schedule.State, pod *corev1.Pod, i int) *corev1.Pod {
	s.RemovePod(pod.Namespace + "/" + pod.Name)
	other := pod.DeepCopy()
	other.Name += "x"
	other.Status.StartTime = &metav1.Time{Time: time.Unix(int64(i), 0)}
	s.SetPod(schedule.NewPodInfo(other))
	return other
}

// crowded returns a cluster without room, and its pods. With the workload kept, one pod of each node is more
// important than the urgent ones.
func crowded(r *rand.Rand, nodes, perNode int, workload string) (s *schedule.State, pods []*corev1.Pod) {
	s = newState()
	for i := range nodes {
		s.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{corev1.LabelHostname: fmt.Sprint("node-", i), corev1.LabelTopologyZone: fmt.Sprint(i % 10)}},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}},
		})
		left := int64(32_000)
		for k := range perNode {
			size, priority := int64(32_000/perNode), int32(0)
			if workload != "same" {
				size, priority = size/4+100*r.Int64N(size*5/4/100), 10*r.Int32N(5)
			}
			if workload == "kept" && k == 0 {
				priority = 200
			}
			if size = min(size, left); k == perNode-1 {
				size = left
			}
			left -= size
			pod := sized(fmt.Sprintf("low-%d-%d", i, k), size, priority)
			pod.Spec.NodeName, pod.Labels = fmt.Sprint("node-", i), map[string]string{"app": fmt.Sprint("low-", i%100)}
			pod.Status.StartTime = &metav1.Time{Time: time.Unix(r.Int64N(100_000), 0)}
			s.SetPod(schedule.NewPodInfo(pod))
			pods = append(pods, pod)
		}
	}
	return s, pods
}

// urgent returns a pod that must preempt others.
func urgent(i int, workload string) *schedule.PodInfo {
	pod := sized(fmt.Sprint("urgent-", i), 8000, 100)
	pod.Labels = map[string]string{"app": fmt.Sprint("urgent-", i/100)}
	switch workload {
	case "hopeless":
		pod = sized(pod.Name, 31_000, 5)
		pod.Labels = map[string]string{"run": fmt.Sprint(i)}
	case "classes":
		pod.Labels["run"] = fmt.Sprint(i)
	case "affine":
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("low-", i/100%100)}},
		}}}}
	}
	return schedule.NewPodInfo(pod)
}

func sized(name string, milli int64, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid"},
		Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}}}},
	}
}
